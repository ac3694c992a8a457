"""A Jupyter kernel whose cells are interrupted as the Stop button does it."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

TIMEOUT = 60


@dataclass
class Cell:
    """What a cell has printed, the name and traceback of its error, and how many seconds it went on after Stop."""

    printed: str = ""
    error: str = ""
    traceback: str = ""
    seconds: float = 0.0
    # The data of displays and of the value, by MIME type, in order; and when each display came or was updated.
    displays: list[dict[str, Any]] = field(default_factory=list)
    updates: list[float] = field(default_factory=list)
    value: dict[str, Any] = field(default_factory=dict)
    # What it has printed to standard error.
    warned: str = ""


class Kernel:
    """A kernel in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._manager: Any
        self._client: Any
        self._manager, self._client = start_new_kernel(kernel_name="python3", cwd=str(folder), startup_timeout=TIMEOUT)

    def run(self, code: str, *, stop_at: str | None = None) -> Cell:
        """Execute a cell. Press Stop when it has printed `stop_at`."""
        cell = Cell()
        stopped: float | None = None
        request = self._client.execute(code)
        while True:
            message = self._client.get_iopub_msg(timeout=TIMEOUT)
            content = message["content"]
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "stream" and content["name"] == "stdout":
                cell.printed += content["text"]
                if stop_at is not None and stopped is None and stop_at in cell.printed:
                    stopped = time.monotonic()
                    self._manager.interrupt_kernel()
            elif message["msg_type"] == "stream":
                cell.warned += content["text"]
            elif message["msg_type"] == "execute_result":
                cell.printed += content["data"]["text/plain"]
                cell.value = content["data"]
            elif message["msg_type"] in ("display_data", "update_display_data"):
                cell.displays.append(content["data"])
                cell.updates.append(message["header"]["date"].timestamp())
            elif message["msg_type"] == "error":
                cell.error, cell.traceback = content["ename"], "\n".join(content["traceback"])
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                cell.seconds = 0.0 if stopped is None else time.monotonic() - stopped
                return cell

    def complete(self, code: str) -> list[str]:
        """Press Tab at the end of code. Returns the completions in their order."""
        return self._reply(self._client.complete(code, len(code)))["matches"]

    def inspect(self, code: str) -> str:
        """Press Shift-Tab at the end of code. Returns the tooltip without colours."""
        content = self._reply(self._client.inspect(code, len(code)))
        return re.sub(r"\x1b\[[0-9;]*m", "", content["data"]["text/plain"]) if content["found"] else ""

    def _reply(self, request: str) -> dict[str, Any]:
        while True:
            message = self._client.get_shell_msg(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") == request:
                return message["content"]

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator["Kernel"]:
        """Start a kernel without the files of the user's Jupyter."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
                patch.setenv(name, str(folder / name.lower()))
            kernel = cls(folder)
            try:
                yield kernel
            finally:
                kernel.close()

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
