"""Messages of the provider layer from and to those of Pydantic AI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turntree._core import from_pydantic_ai as _thread_of
from turntree._core import thread_from_upp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turntree._core import Message


def from_pydantic_ai(messages: Sequence[Any] | str | bytes | bytearray) -> list[Message]:
    """Give a Pydantic AI history as messages of the provider layer.

    What UPP-1.2 has no place for (system prompts, instructions, usage, run ids, retries of no call) is left out;
    `turntree.thread_protocol.from_pydantic_ai` keeps it.

    Args:
        messages: Live ``ModelMessage`` objects, or their JSON.

    Raises:
        TypeError: Neither a list of messages nor text; names the place.
        ValidationError: Not a history; names the place.
    """
    return _thread_of(messages, profile="portable").to_upp()


def to_pydantic_ai(messages: Any) -> list[Any]:
    """Give messages of the provider layer as live ``ModelMessage`` objects of Pydantic AI.

    Args:
        messages: A list of messages, or a thread of them.

    Raises:
        ImportError: pydantic-ai is not installed; ``turntree[pydantic-ai]`` brings it.
        TypeError: Something in the list is no message; names the place.
    """
    return thread_from_upp(messages, profile="portable").to_pydantic_ai()
