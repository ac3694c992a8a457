"""Lets Jupyter's Stop button interrupt coroutines that wait. Called by the native core, in IPython kernels alone.

For a cell with ``await``, ipykernel handles SIGINT by a function that asks the event loop to cancel the cell. It asks
with ``call_soon``, which does not wake a loop that waits for sockets, so the cell goes on until something else happens
(ipykernel's issue 881). `signal.set_wakeup_fd` writes each signal to a descriptor that the loop watches, which wakes
the loop.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Hashable
    from typing import Any

# What `signal.set_wakeup_fd` returns where no descriptor was set.
NONE = -1

# How long after a SIGINT a cancelled task is taken to be interrupted by it, in seconds.
RECENT = 1.0


class SignalWaker:
    """Wakes an event loop when a signal arrives, as long as at least one of the watched futures is pending."""

    __slots__ = ("__weakref__", "_interrupted_at", "_pending", "_reader", "_writer")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._interrupted_at: float | None = None
        self._pending: weakref.WeakSet[Hashable] = weakref.WeakSet()
        self._reader, self._writer = socket.socketpair()
        self._reader.settimeout(0)
        self._writer.settimeout(0)
        loop.add_reader(self._reader, self._drain)

    def watch(self, future: Future[Any]) -> None:
        """Wake the loop for signals until `future` is done. Does nothing where others have set a descriptor."""
        if not self._pending and not self._install():
            return
        self._pending.add(future)
        future.add_done_callback(self._done)

    def is_interrupted(self) -> bool:
        """Whether a SIGINT has arrived just now."""
        return self._interrupted_at is not None and time.monotonic() - self._interrupted_at < RECENT

    def _done(self, future: Future[Any]) -> None:
        self._pending.discard(future)
        if not self._pending:
            self._remove()

    def _install(self) -> bool:
        replaced = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        if replaced in (NONE, self._writer.fileno()):
            return True
        signal.set_wakeup_fd(replaced)
        return False

    def _remove(self) -> None:
        replaced = signal.set_wakeup_fd(NONE)
        if replaced not in (NONE, self._writer.fileno()):
            signal.set_wakeup_fd(replaced)

    def _drain(self) -> None:
        try:
            while signals := self._reader.recv(64):
                if signal.SIGINT in signals:
                    self._interrupted_at = time.monotonic()
        except BlockingIOError:
            pass


def signal_waker(loop: AbstractEventLoop) -> SignalWaker | None:
    """A waker for the loop that runs on this thread, if this thread receives the signals."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return SignalWaker(loop)
