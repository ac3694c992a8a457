"""Lets Jupyter's Stop button interrupt coroutines that wait, in IPython kernels alone. Called by the native core.

For a cell with ``await``, ipykernel handles SIGINT by a function that asks the event loop to cancel the cell. It asks
with ``call_soon``, which does not wake a loop that waits for sockets, so the cell goes on until something else happens
(ipykernel's issue 881). `signal.set_wakeup_fd` writes each signal to a descriptor that the loop watches, which wakes
the loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Callable, Hashable
    from typing import Any

# What `signal.set_wakeup_fd` returns where no descriptor was set.
NONE = -1

# How long after a SIGINT a cancelled task is taken to be interrupted by it, in seconds.
RECENT = 5.0


class _WakeupPipe:
    """A pipe that signals are written to while it is installed.

    A pipe, not a pair of sockets: Python warns of sockets that are left open, and a loop that is closed cannot close
    what it has watched.
    """

    __slots__ = ("_is_known_to_others", "is_installed", "reader", "writer")

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self.writer, False)
        self.is_installed = False
        self._is_known_to_others = False

    def install(self) -> None:
        """Let signals be written to this pipe, unless others have set a descriptor that is open."""
        replaced = signal.set_wakeup_fd(self.writer, warn_on_full_buffer=False)
        self.is_installed = replaced in (NONE, self.writer) or not _restored(replaced)

    def remove(self) -> None:
        """Let signals be written to no descriptor, unless others have set one."""
        if not self.is_installed:
            return
        replaced = signal.set_wakeup_fd(NONE)
        self.is_installed = False
        if replaced not in (NONE, self.writer):
            # Who set it may set our descriptor again: loops do so when they stop.
            self._is_known_to_others = True
            _restored(replaced)

    def close(self) -> None:
        """Close both ends, unless signals are still written to this pipe or may be again."""
        if not self.is_installed and not self._is_known_to_others:
            os.close(self.reader)
            os.close(self.writer)


def _restored(descriptor: int) -> bool:
    """Let signals be written to the descriptor that they were written to before. False if it is closed."""
    try:
        signal.set_wakeup_fd(descriptor)
    except OSError:
        return False
    return True


class SignalWaker:
    """Wakes an event loop when a signal arrives, while a coroutine executes a step or a watched future is pending."""

    __slots__ = ("__weakref__", "_interrupted_at", "_pending", "_pipe", "_steps")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._interrupted_at: float | None = None
        self._pending: weakref.WeakSet[Hashable] = weakref.WeakSet()
        self._pipe = _WakeupPipe()
        # Coroutines that execute a step: more than one if a step awaits another coroutine without suspending.
        self._steps = 0
        weakref.finalize(self, self._pipe.close).atexit = False
        loop.add_reader(self._pipe.reader, self._drain)

    def watch(self, future: Future[Any]) -> None:
        """Wake the loop for signals until `future` is done. Does nothing where others have set a descriptor."""
        self._install()
        if self._pipe.is_installed:
            self._pending.add(future)
            future.add_done_callback(self._done)

    def enter(self) -> None:
        """Start a step of a coroutine."""
        self._install()
        self._steps += 1

    def suspend(self) -> None:
        """End a step of a coroutine that has another step."""
        self._steps -= 1
        if not self._pending:
            # The coroutine asks for its next step at once. The loop executes that step before the second callback.
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._remove_if_idle)

    def end(self) -> None:
        """End the last step of a coroutine."""
        self._steps -= 1
        self._remove_if_idle()

    def is_interrupted(self) -> bool:
        """Whether a SIGINT has arrived just now."""
        # The loop may resume a cancelled task before it reads the pipe.
        self._drain()
        return self._interrupted_at is not None and time.monotonic() - self._interrupted_at < RECENT

    def _done(self, future: Future[Any]) -> None:
        self._pending.discard(future)
        if not self._pending:
            # Not at once: the loop calls this before it resumes the task that awaited the future.
            future.get_loop().call_soon(self._remove_if_idle)

    def _install(self) -> None:
        if not self._pending and not self._steps:
            self._pipe.install()

    def _remove_if_idle(self) -> None:
        if not self._pending and not self._steps:
            self._pipe.remove()

    def _drain(self) -> None:
        try:
            while signals := os.read(self._pipe.reader, 64):
                if signal.SIGINT in signals:
                    self._interrupted_at = time.monotonic()
        except BlockingIOError:
            pass


# The wakers of event loops that exist.
_WAKERS: weakref.WeakKeyDictionary[Hashable, SignalWaker] = weakref.WeakKeyDictionary()


def signal_waker(loop: AbstractEventLoop) -> SignalWaker | None:
    """The waker for the loop that runs on this thread, if an IPython kernel receives signals on it."""
    kernels = sys.modules.get("ipykernel.kernelapp")
    if kernels is None or not kernels.IPKernelApp.initialized():
        return None
    if threading.current_thread() is not threading.main_thread():
        return None
    waker = _WAKERS.get(loop)
    if waker is None:
        waker = _WAKERS[loop] = SignalWaker(loop)
    return waker


def watch_signals() -> Callable[[], None]:
    """Let signals wake the event loop that runs on this thread until the returned function is called.

    For servers: a cell waits inside ``async with`` for something of its own, which no signal ends by itself.
    """
    loop = asyncio._get_running_loop()
    try:
        waker = None if loop is None else signal_waker(loop)
    except NotImplementedError:  # the loop cannot watch descriptors
        waker = None
    if loop is None or waker is None:
        return _nothing
    served = loop.create_future()
    waker.watch(served)

    def end() -> None:
        if not served.done():
            served.set_result(None)

    def end_soon() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(end)

    return end_soon


def _nothing() -> None:
    """Do nothing."""
