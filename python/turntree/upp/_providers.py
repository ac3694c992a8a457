"""Factories of models, one a provider. UPP-1.2 §9 and §19."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from turntree._core import ModelReference

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from typing_extensions import Unpack

    from turntree._core import KeyStrategy, ProviderConfig, RetryStrategy


class ConnectionOptions(TypedDict, total=False):
    """How to reach a provider, but for its address; all optional. Times are seconds.

    Attributes:
        api_key: A text, a function (sync or async) or a key strategy. Default: the provider's environment variable.
        timeout: Longest wait for the response's headers. Default 120.
        connect_timeout: Longest wait for a connection. Default 10.
        idle_timeout: Longest silence inside a stream. Default: the timeout.
        headers: Sent over the provider's own, whatever their case; None drops one.
        api_version: The version of the vendor's API, where it has versions.
        retry_strategy: Whether failed requests are sent again. Default: they are not.
        retry_after_max: Longest wait that a server's ``Retry-After`` is followed for. Default 3600.
    """

    api_key: str | Callable[[], str | Awaitable[str]] | KeyStrategy | None
    timeout: float | None
    connect_timeout: float | None
    idle_timeout: float | None
    headers: Mapping[str, str | None] | None
    api_version: str | None
    retry_strategy: RetryStrategy | None
    retry_after_max: float | None


class ConfigOptions(ConnectionOptions, total=False):
    """The options of a `ProviderConfig`: those of `ConnectionOptions`, and the address.

    Attributes:
        base_url: A prefix as ``https://host/v1``, or the whole endpoint.
    """

    base_url: str | None


class HostOptions(ConnectionOptions, total=False):
    """How to reach a host whose address is given anyway: `ConnectionOptions`, singly or in one.

    Attributes:
        config: All of these as a `ProviderConfig` or a dict.
    """

    config: ProviderConfig | Mapping[str, Any] | None


class ProviderOptions(HostOptions, total=False):
    """How to reach a provider: `ConnectionOptions` and the address, singly or in one.

    Attributes:
        base_url: A prefix as ``https://host/v1``, or the whole endpoint.
    """

    base_url: str | None


def _reference(provider: str, model: str, options: dict[str, Any], given: Mapping[str, Any]) -> ModelReference:
    if not isinstance(model, str):
        message = f"model must be a str, not {type(model).__name__}"
        raise TypeError(message)
    settings: dict[str, Any] = {**given}
    config: Any = settings.pop("config", None)
    if config is not None and settings:
        if not hasattr(config, "items"):
            message = "give either config or single options; a ProviderConfig holds all of them"
            raise TypeError(message)
        config = {**config, **settings}
    return ModelReference(provider, model, options, settings if config is None else config)


def anthropic(model: str, *, betas: Sequence[str] = (), **options: Unpack[ProviderOptions]) -> ModelReference:
    """Anthropic's Messages API; the key in ANTHROPIC_API_KEY. UPP-1.2 §19.1.

    The API wants ``params={"max_tokens": …}``: this package imposes no defaults on a model.

    Args:
        model: As ``claude-sonnet-4-5``.
        betas: Ids of beta features, sent as ``anthropic-beta``.
        **options: How to reach it.
    """
    return _reference("anthropic", model, {"betas": list(betas)}, options)


def openai(
    model: str,
    api: Literal["responses", "completions"] = "responses",
    **options: Unpack[ProviderOptions],
) -> ModelReference:
    """OpenAI; the key in OPENAI_API_KEY. UPP-1.2 §19.2 and §19.3.

    Args:
        model: As ``gpt-5``.
        api: The Responses API, or Chat Completions.
        **options: How to reach it.
    """
    return _reference("openai", model, {"api": api}, options)


def ollama(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Ollama's own API at http://localhost:11434; no key needed. UPP-1.2 §19.5.

    Args:
        model: As ``llama3.2``.
        **options: How to reach it.
    """
    return _reference("ollama", model, {}, options)


def openai_compatible(model: str, base_url: str, **options: Unpack[HostOptions]) -> ModelReference:
    """Any host that speaks Chat Completions: vLLM, llama.cpp, LM Studio, gateways.

    Args:
        model: The host's name of the model.
        base_url: As ``http://localhost:8000/v1``.
        **options: How to reach it; a key is sent when `api_key` gives one.
    """
    return _reference("openai_compatible", model, {"base_url": base_url}, options)
