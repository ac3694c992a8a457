"""What all readers of formats yield."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from turntree._import.conversation import Conversation
    from turntree._import.report import ImportFormat


class SourceSession(Protocol):
    """A conversation of a source."""

    @property
    def label(self) -> str:
        """The name for messages: the file and the place in it."""
        ...

    @property
    def id(self) -> str:
        """The id in the source."""
        ...

    def read(self) -> Conversation:
        """Read the conversation.

        Raises:
            CorruptDataError: The data is damaged; the message names the place.
        """
        ...


class Source(NamedTuple):
    """An open source: its format, and a function that yields its conversations, anew at each call."""

    format: ImportFormat
    sessions: Callable[[], Iterator[SourceSession]]
