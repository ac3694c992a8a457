"""Displays of what is no class of its own: lists of messages, and the waterfall of a turn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from turntree import _core
from turntree._reprs import without_ends
from turntree.notebook import _conversation, _usage


class View:
    """Something to show: HTML in a notebook, text elsewhere.

    Attributes:
        html: The HTML, without scripts and without addresses of images or styles.
        text: The text.
    """

    __slots__ = ("html", "text")

    def __init__(self, html: str, text: str) -> None:
        self.html: str = html
        self.text: str = text

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text

    def __rich__(self) -> Any:
        from rich.text import Text

        return Text(self.text)

    def __rich_repr__(self) -> Iterable[Any]:
        yield "text", without_ends(self.text)


def conversation(messages: Iterable[_core.Message]) -> View:
    """Show messages as a conversation: ``conversation(session.tree.history())``.

    Args:
        messages: Messages, such as a history.

    Raises:
        TypeError: Something is not a message.
    """
    listed = list(messages)
    for index, message in enumerate(listed):
        if not isinstance(message, _core.Message):  # pyright: ignore[reportUnnecessaryIsInstance]
            text = f"messages[{index}] must be a message, not {type(message).__name__}"
            raise TypeError(text)
    return View(_conversation.messages_html(listed), "\n".join(map(repr, listed)))


def waterfall(turn: _core.Turn[Any]) -> View:
    """Show when the model calls and tool calls of a turn began and ended.

    The times are those of the messages, and the durations of the tools. Tools that run at the same time begin together.

    Args:
        turn: The turn of a run.

    Raises:
        TypeError: `turn` is not a turn.
    """
    if not isinstance(turn, _core.Turn):  # pyright: ignore[reportUnnecessaryIsInstance]
        message = f"turn must be a Turn, not {type(turn).__name__}"
        raise TypeError(message)
    return View(_usage.waterfall_html(turn), _usage.waterfall_text(turn))
