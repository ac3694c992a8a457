"""Runs the event loop of a background thread. Called by the native core."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


def run_until_stopped(loop: AbstractEventLoop) -> None:
    """Run a loop until it is stopped.

    asyncio raises a `KeyboardInterrupt` or `SystemExit` of a task out of `run_forever`. The task stores the exception
    too, and awaiting the task raises it; the loop continues for that, and for the other tasks.
    """
    while True:
        try:
            loop.run_forever()
        except (KeyboardInterrupt, SystemExit):
            continue
        return
