"""The registry of providers, which resolves model names such as ``"openai:gpt-5"``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from turntree._core import ModelReference
from turntree._public_names import publish
from turntree.upp import _bedrock, _cloud, _hosts, _providers

_FACTORIES: dict[str, Callable[..., ModelReference]] = {
    "anthropic": _providers.anthropic,
    "azure": _cloud.azure,
    "bedrock": _bedrock.bedrock,
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
    "vertex": _cloud.vertex,
    "xai": _providers.xai,
    "xai_chat": _providers.xai,
    "xai_messages": partial(_providers.xai, api="messages"),
    "xai_responses": partial(_providers.xai, api="responses"),
    **{
        host.__name__: host
        for host in (
            _hosts.cohere,
            _hosts.fireworks,
            _hosts.github,
            _hosts.huggingface,
            _hosts.litellm,
            _hosts.nebius,
            _hosts.perplexity,
            _hosts.together,
            _hosts.vercel,
            _hosts.zai,
        )
    },
}

# The names that other libraries have for providers.
_PEERS = {
    "amazon-bedrock": "bedrock",
    "claude": "anthropic",
    "gemini": "google",
    "google-gla": "google",
    "google_genai": "google",
    "grok": "xai",
    "mistralai": "mistral",
    "moonshotai": "moonshot",
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
}
# The beginnings of the names of models.
_FAMILIES = {
    "claude": "anthropic",
    "deepseek": "deepseek",
    "gemini": "google",
    "gpt": "openai",
    "grok": "xai",
    "kimi": "moonshot",
    "llama": "ollama",
    "mistral": "mistral",
    "o3": "openai",
    "o4": "openai",
    "qwen": "ollama",
}

_LOCK = threading.Lock()


def _meant(reference: str) -> str | None:
    """Return the name that a name of another form stands for."""
    provider, slash, model_id = reference.partition("/")
    provider = _PEERS.get(provider, provider)
    if slash and provider in _FACTORIES and model_id:
        return f"{provider}:{model_id}"
    return next((f"{name}:{reference}" for start, name in _FAMILIES.items() if reference.startswith(start)), None)


def add(name: str, factory: Callable[..., ModelReference]) -> None:
    """Register a provider. It cannot be removed.

    Raises:
        ValueError: The name is in use, is empty, or contains a colon or white space.
    """
    if not name or ":" in name or any(character.isspace() for character in name):
        message = f"invalid provider name {name!r}: expected a word without a colon"
        raise ValueError(message)
    with _LOCK:
        if name in _FACTORIES:
            message = f"a provider named {name!r} already exists; choose another name"
            raise ValueError(message)
        _FACTORIES[name] = factory


def model(reference: str, **options: Any) -> ModelReference:
    """Return a reference to a model by its name: the provider, a colon, and the vendor's name of the model.

    A provider with several APIs has a name for each of them, such as ``openai_chat`` and ``xai_responses``.

    Args:
        reference: The name, such as ``openai:gpt-5`` or ``ollama:llama3.2:3b``.
        **options: Options of the provider's factory.

    Raises:
        ValueError: The name has another form, or the provider is unknown.
    """
    provider, colon, model_id = reference.partition(":")
    if not colon or not model_id:
        example = _meant(reference) or "openai:gpt-5"
        message = f"invalid model name {reference!r}: expected provider:model, such as {example!r}"
        raise ValueError(message)
    factory = _FACTORIES.get(provider)
    if factory is None:
        import difflib

        meant = _PEERS.get(provider) or next(iter(difflib.get_close_matches(provider, _FACTORIES, 1)), None)
        remedy = f"write {f'{meant}:{model_id}'!r}" if meant else f"expected one of {', '.join(sorted(_FACTORIES))}"
        message = f"unknown provider {provider!r}; {remedy}"
        raise ValueError(message)
    return factory(model_id, **options)


publish(__name__, globals())
