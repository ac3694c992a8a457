"""A Jupyter kernel whose cells are interrupted as the Stop button does it."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client.manager import start_new_kernel

TIMEOUT = 60


@dataclass
class Cell:
    """What a cell has printed, the name and traceback of its error, and how many seconds it went on after Stop."""

    printed: str = ""
    error: str = ""
    traceback: str = ""
    seconds: float = 0.0


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
            elif message["msg_type"] == "execute_result":
                cell.printed += content["data"]["text/plain"]
            elif message["msg_type"] == "error":
                cell.error, cell.traceback = content["ename"], "\n".join(content["traceback"])
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                cell.seconds = 0.0 if stopped is None else time.monotonic() - stopped
                return cell

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
