"""The function that an application has called, in errors about its arguments that another function raises."""

from __future__ import annotations

import sys


def called_as(error: BaseException, raising: str, called: str) -> None:
    """Replace the name of a function in an error about an argument by that of the function that was called.

    Errors from the code of the application, such as a middleware that runs another agent, stay as they are.

    Args:
        error: The error. Others than a TypeError about an argument of `raising` are ignored.
        raising: The function that has checked the argument, such as ``Agent.run``.
        called: The function that the application has called, such as ``ask``.
    """
    message = str(error)
    if not isinstance(error, TypeError) or not message.startswith((f"{raising}()", f"on_approval of {raising} ")):
        return
    frames = error.__traceback__
    while frames is not None:
        if frames.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in ("turntree", "asyncio"):
            return
        frames = frames.tb_next
    error.args = (message.replace(raising, called, 1),)


def caller() -> str:
    """Return the name of the method whose helper function calls this one, such as ``run_sync``."""
    return sys._getframe(2).f_code.co_name
