"""What runs in the threads of our own event loops. Called by the native core."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


def run_until_stopped(loop: AbstractEventLoop) -> None:
    """Run a loop until it is stopped.

    asyncio lets a `KeyboardInterrupt` or `SystemExit` of a task out of the loop. Its task holds it too, and whoever
    waits for the task gets it there; the loop has to go on for that, and for everybody else.
    """
    while True:
        try:
            loop.run_forever()
        except (KeyboardInterrupt, SystemExit):
            continue
        return
