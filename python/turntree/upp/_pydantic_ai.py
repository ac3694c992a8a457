"""Conversion between messages of the provider layer and of Pydantic AI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turntree._core import Message, thread_from_upp
from turntree._core import from_pydantic_ai as _thread_of
from turntree._public_names import publish


def from_pydantic_ai(messages: Sequence[Any] | str | bytes | bytearray) -> list[Message]:
    """Convert a Pydantic AI history to messages of the provider layer.

    Parts without an equivalent in UPP-1.2 are omitted: system prompts, instructions, usage, run ids, and retries
    without a call. `turntree.thread_protocol.from_pydantic_ai` preserves them.

    Args:
        messages: ``ModelMessage`` objects, or their JSON.

    Raises:
        TypeError: `messages` is neither a list of messages nor JSON; the message names the path.
        ValidationError: The data is not a history; the message names the path.
    """
    return _thread_of(messages, profile="portable").to_upp()


def to_pydantic_ai(messages: Any) -> list[Any]:
    """Convert messages of the provider layer to ``ModelMessage`` objects of Pydantic AI.

    Args:
        messages: A list of messages, or a thread.

    Raises:
        ImportError: pydantic-ai is not installed; install ``turntree[pydantic-ai]``.
        TypeError: An item is not a message; the message names its index.
    """
    return thread_from_upp(messages, profile="portable").to_pydantic_ai()


publish(__name__, globals())
