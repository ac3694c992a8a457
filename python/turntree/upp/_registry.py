"""Models by name: ``"openai:gpt-5"``."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from turntree.upp import _providers

if TYPE_CHECKING:
    from collections.abc import Callable

    from turntree._core import ModelReference

_FACTORIES: dict[str, Callable[..., ModelReference]] = {
    "anthropic": _providers.anthropic,
    "cerebras": _providers.cerebras,
    "deepseek": _providers.deepseek,
    "deepseek_responses": partial(_providers.deepseek, api="responses"),
    "google": _providers.google,
    "groq": _providers.groq,
    "mistral": _providers.mistral,
    "moonshot": _providers.moonshot,
    "ollama": _providers.ollama,
    "openai": _providers.openai,
    "openai_chat": partial(_providers.openai, api="completions"),
    "openai_compatible": _providers.openai_compatible,
    "openai_responses": _providers.openai,
    "openrouter": _providers.openrouter,
    "openrouter_responses": partial(_providers.openrouter, api="responses"),
    "responses": _providers.responses,
    "xai": _providers.xai,
    "xai_chat": _providers.xai,
    "xai_messages": partial(_providers.xai, api="messages"),
    "xai_responses": partial(_providers.xai, api="responses"),
}

_LOCK = threading.Lock()


def add(name: str, factory: Callable[..., ModelReference]) -> None:
    """Add a provider for the rest of the process.

    Raises:
        ValueError: The name is taken, empty, or has a colon.
    """
    if not name or ":" in name or any(character.isspace() for character in name):
        message = f"a provider cannot be named {name!r}: give a word without a colon"
        raise ValueError(message)
    with _LOCK:
        if name in _FACTORIES:
            message = f"a provider is named {name!r} already; choose another name"
            raise ValueError(message)
        _FACTORIES[name] = factory


def model(reference: str, **options: Any) -> ModelReference:
    """Refer to a model by a text: the provider, a colon, the vendor's name of the model.

    One with several APIs has a name for each: ``openai_chat``, ``xai_responses`` and so on.

    Args:
        reference: As ``openai:gpt-5`` or ``ollama:llama3.2:3b``.
        **options: Those of the provider's factory.

    Raises:
        ValueError: The text has another form, or nobody knows the provider.
    """
    provider, colon, model_id = reference.partition(":")
    if not colon or not model_id:
        message = f"{reference!r} names no model: write provider:model, as 'openai:gpt-5'"
        raise ValueError(message)
    factory = _FACTORIES.get(provider)
    if factory is None:
        message = f"no provider is named {provider!r}; known are {', '.join(sorted(_FACTORIES))}"
        raise ValueError(message)
    return factory(model_id, **options)
