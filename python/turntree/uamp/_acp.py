"""Agents over the standard streams of a process: ACP, the Agent Client Protocol."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any

from turntree import _core
from turntree._agent import Agent
from turntree._typing import Self
from turntree.store import PersistenceAdapter
from turntree.uamp._serving import _natives, _settings, _store

__all__ = ["ProtocolStreams", "acp_stdio"]

_STDIN, _STDOUT, _STDERR = 0, 1, 2


async def acp_stdio(agent: Agent, *, store: PersistenceAdapter | str | None = None) -> None:
    """Serve an agent to the program that has started this process, by ACP over the standard streams.

    ACP is the Agent Client Protocol of editors, version 1. The function returns when the client closes the standard
    input; prompts that run are cancelled, and their tools end first. Cancelling it cancels them too. Meanwhile
    everything that the process prints goes to standard error, and its standard input is empty. Async tools run on this
    event loop, others in threads. The command ``turntree acp`` calls this function.

    Args:
        agent: The agent. A tool with ``approval="ask"`` asks the user for permission.
        store: Where conversations are stored, as for `serve`. Default: the memory of this process, so that no
            conversation can be loaded after a restart.

    Raises:
        TypeError: An argument has the wrong type; the message names it.
        OSError: The process has no standard input or output.

    Example:
        ```python
        asyncio.run(uamp.acp_stdio(helper, store="sqlite:///conversations.db"))
        ```
    """
    with ProtocolStreams() as streams:
        await streams.serve(agent, store)


class ProtocolStreams:
    """Reserves the standard streams for a protocol, inside ``with``.

    What the process prints goes to standard error, also from other languages and from child processes.
    """

    def __init__(self) -> None:
        """Copy the streams."""
        self._core = _core.AcpStdio()
        self._saved: tuple[int, int] | None = None

    async def serve(self, agent: Any, store: PersistenceAdapter | str | None) -> None:
        """Serve an agent until the input ends, or until `stop`."""
        settings = _settings(None, None, 60, False)  # noqa: FBT003
        await self._core.serve(_natives((agent,)), _store(store), settings)

    def stop(self) -> None:
        """Let `serve` return, as if the input had ended."""
        self._core.stop()

    def __enter__(self) -> Self:
        """Redirect what the process prints."""
        _flush()
        self._saved = os.dup(_STDIN), os.dup(_STDOUT)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, _STDIN)
        os.close(nothing)
        os.dup2(_STDERR, _STDOUT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Restore the streams."""
        _flush()
        if self._saved is not None:
            for saved, descriptor in zip(self._saved, (_STDIN, _STDOUT), strict=True):
                os.dup2(saved, descriptor)
                os.close(saved)
            self._saved = None


def _flush() -> None:
    if sys.stdout is not None:  # None without a console on Windows
        sys.stdout.flush()
