"""The positional arguments of the ways to run an agent."""

from __future__ import annotations

from typing import Any

from turntree import _core
from turntree._called_as import caller
from turntree._inputs import checked_history, checked_input

_BLOCKS = (_core.Text, _core.Image, _core.Document, _core.Audio, _core.Video, _core.Binary)


def input_of(arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return the history, or None, and the input.

    Raises:
        TypeError: There is no input, or there are more arguments than a history and an input.
    """
    if len(arguments) == 1:
        return None, checked_input(arguments[0])
    # Texts and blocks are one input. Texts alone are not: the first one could be meant as a history.
    is_one_input = all(isinstance(argument, (str, *_BLOCKS)) for argument in arguments)
    if is_one_input and any(isinstance(argument, _BLOCKS) for argument in arguments):
        return None, list(arguments)
    if len(arguments) == 2:
        history, given = arguments
        if isinstance(history, str) and not isinstance(given, str):
            message = (
                "history must be a Thread or a list of messages (the history comes before the input), not str; write "
                f"{caller()}(history, input)"
            )
            raise TypeError(message)
        return checked_history(history), checked_input(given)
    method = caller()
    message = f"expected {method}(input), or {method}(history, input), not {len(arguments)} arguments"
    raise TypeError(message)
