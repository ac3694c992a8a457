"""Factories of models, one a provider.

Spec: UPP-1.2 §9 and §19.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

from turntree._core import ModelReference, ProviderConfig

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from os import PathLike

    from typing_extensions import Unpack

    from turntree._core import KeyStrategy, Replay, RetryStrategy
    from turntree.exceptions import UPPError


class CustomRetry(Protocol):
    """A retry strategy of your own: any object with this method.

    These are called as well, where the object has them: ``before_request()`` before every attempt, for the seconds to
    wait (None for none); ``set_retry_after(seconds)`` before `on_retry`, where the server named a time; ``reset()``
    after a success; ``fork()`` once a request, for the strategy that serves it. `on_retry`, ``before_request`` and
    ``reset`` may be async. What they raise ends the request and reaches the caller.

    Spec: UPP-1.2 §13.2.
    """

    def on_retry(self, error: UPPError, attempt: int, /) -> float | Awaitable[float | None] | None:
        """Say how many seconds to wait before the request is sent again; None to give up.

        Args:
            error: What went wrong.
            attempt: Which attempt failed, from 1.
        """
        ...


class ConnectionOptions(TypedDict, total=False):
    """How to reach a provider, but for its address; all optional. Times are seconds.

    Attributes:
        api_key: A text, a function (sync or async) or a key strategy. Default: the provider's environment variable.
        timeout: Longest wait for the response's headers. Default 120.
        connect_timeout: Longest wait for a connection. Default 10.
        idle_timeout: Longest silence inside a stream. Default: the timeout.
        total_timeout: Longest duration of a call with its retries and its stream. Default: no limit.
        headers: Sent over the provider's own, whatever their case; None drops one.
        api_version: The version of the vendor's API, where it has versions.
        retry_strategy: Whether failed requests are sent again: one of the strategies, or an object of your own as
            `CustomRetry` says. Default: they are not.
        retry_after_max: Longest wait that a server's ``Retry-After`` is followed for. Default 3600.
        max_concurrency: Requests to one host that are under way at once, streams included; the others wait in line.
            Configurations with the same number share the line. Default: no limit.
        proxy: URL of a proxy, or ``direct`` for none. Default: what the environment says (``HTTPS_PROXY`` and others).
        ca_certificates: Authorities that are trusted beside the system's: PEM as bytes, or the path of a file. On Linux
            ``SSL_CERT_FILE`` names another store for all requests.
        transport: A recording that is made or played instead of the network; see `replay`.
    """

    api_key: str | Callable[[], str | Awaitable[str]] | KeyStrategy | None
    timeout: float | None
    connect_timeout: float | None
    idle_timeout: float | None
    total_timeout: float | None
    headers: Mapping[str, str | None] | None
    api_version: str | None
    retry_strategy: RetryStrategy | CustomRetry | None
    retry_after_max: float | None
    max_concurrency: int | None
    proxy: str | None
    ca_certificates: bytes | str | PathLike[str] | None
    transport: Replay | None


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
        prices: Rows of prices for this model's calls, before those of `turntree.upp.prices`.
    """

    config: ProviderConfig | Mapping[str, Any] | None
    prices: Sequence[Mapping[str, Any]] | None


class ProviderOptions(HostOptions, total=False):
    """How to reach a provider: `ConnectionOptions` and the address, singly or in one.

    Attributes:
        base_url: A prefix as ``https://host/v1``, or the whole endpoint.
    """

    base_url: str | None


def check_model(model: object) -> ModelReference:
    """The model, if it is one.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(model, ModelReference):
        return model
    message = f'model must come from a provider\'s factory as openai("…"), not {type(model).__name__}'
    raise TypeError(message)


def _reference(provider: str, model: str, options: dict[str, Any], given: Mapping[str, Any]) -> ModelReference:
    if not isinstance(model, str):
        message = f"model must be a str, not {type(model).__name__}"
        raise TypeError(message)
    settings: dict[str, Any] = {**given}
    config: Any = settings.pop("config", None)
    prices: Any = settings.pop("prices", None)
    if prices is not None:
        options = {**options, "prices": list(prices)}
    return ModelReference(provider, model, options, ProviderConfig(config, **settings))


def anthropic(model: str, *, betas: Sequence[str] = (), **options: Unpack[ProviderOptions]) -> ModelReference:
    """Anthropic's Messages API; the key in ANTHROPIC_API_KEY.

    The API wants ``params={"max_tokens": …}``: this package imposes no defaults on a model.

    Args:
        model: As ``claude-sonnet-4-5``.
        betas: Ids of beta features, sent as ``anthropic-beta``.
        **options: How to reach it.

    Spec: UPP-1.2 §19.1.
    """
    return _reference("anthropic", model, {"betas": list(betas)}, options)


def openai(
    model: str,
    api: Literal["responses", "completions"] = "responses",
    **options: Unpack[ProviderOptions],
) -> ModelReference:
    """OpenAI; the key in OPENAI_API_KEY.

    Args:
        model: As ``gpt-5``.
        api: The Responses API, or Chat Completions.
        **options: How to reach it.

    Spec: UPP-1.2 §19.2 and §19.3.
    """
    return _reference("openai", model, {"api": api}, options)


def google(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Google's Gemini API; the key in GOOGLE_API_KEY, or else in GEMINI_API_KEY.

    Parameters configure the generation, as ``params={"temperature": 0, "thinkingConfig": {…}}``; ``cachedContent``,
    ``tools``, ``toolConfig``, ``safetySettings`` and ``labels`` among them stand beside it. The vendor's own tools are
    ``params={"tools": [{"googleSearch": {}}]}``.

    Args:
        model: As ``gemini-2.5-flash``.
        **options: How to reach it; `api_version` replaces ``v1beta``.

    Spec: UPP-1.2 §19.4.
    """
    return _reference("google", model, {}, options)


def openrouter(
    model: str, api: Literal["completions", "responses"] = "completions", **options: Unpack[ProviderOptions]
) -> ModelReference:
    """OpenRouter; the key in OPENROUTER_API_KEY.

    Takes every kind of media and keeps ``reasoning_details``, which go back with the next request.

    Args:
        model: As ``anthropic/claude-sonnet-4.5``.
        api: Chat Completions, or its Responses API.
        **options: How to reach it.

    Spec: UPP-1.2 §19.6.
    """
    return _reference("openrouter", model, {"api": api}, options)


def xai(
    model: str, api: Literal["completions", "responses", "messages"] = "completions", **options: Unpack[ProviderOptions]
) -> ModelReference:
    """Grok of xAI; the key in XAI_API_KEY.

    Args:
        model: As ``grok-4``.
        api: Chat Completions, its Responses API, or its Messages API.
        **options: How to reach it.

    Spec: UPP-1.2 §19.7.
    """
    return _reference("xai", model, {"api": api}, options)


def groq(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Groq; the key in GROQ_API_KEY.

    Args:
        model: As ``llama-3.3-70b-versatile``.
        **options: How to reach it.

    Spec: UPP-1.2 §19.8.
    """
    return _reference("groq", model, {}, options)


def cerebras(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Cerebras; the key in CEREBRAS_API_KEY. Text alone.

    Args:
        model: As ``gpt-oss-120b``.
        **options: How to reach it.

    Spec: UPP-1.2 §19.8.
    """
    return _reference("cerebras", model, {}, options)


def moonshot(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Kimi of Moonshot; the key in MOONSHOT_API_KEY or KIMI_API_KEY.

    Args:
        model: As ``kimi-k2-thinking``.
        **options: How to reach it.

    Spec: UPP-1.2 §19.8.
    """
    return _reference("moonshot", model, {}, options)


def deepseek(
    model: str, api: Literal["completions", "responses"] = "completions", **options: Unpack[ProviderOptions]
) -> ModelReference:
    """DeepSeek; the key in DEEPSEEK_API_KEY. On the wires of UPP-1.2 §19.3 and §19.2.

    Args:
        model: As ``deepseek-chat``.
        api: Chat Completions, or its Responses API.
        **options: How to reach it.
    """
    return _reference("deepseek", model, {"api": api}, options)


def mistral(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Mistral; the key in MISTRAL_API_KEY. On the wire of UPP-1.2 §19.3.

    Args:
        model: As ``mistral-large-latest``.
        **options: How to reach it.
    """
    return _reference("mistral", model, {}, options)


def responses(
    model: str, host: str, *, api_key_env: str = "OPENRESPONSES_API_KEY", **options: Unpack[HostOptions]
) -> ModelReference:
    """Any host that speaks Responses; the key in OPENRESPONSES_API_KEY.

    Args:
        model: The host's name of the model.
        host: As ``https://host/v1``; ``/responses`` is added.
        api_key_env: The environment variable of the key, where it is another.
        **options: How to reach it; `api_key` goes before the environment.

    Spec: UPP-1.2 §19.9.
    """
    return _reference("responses", model, {"host": host, "api_key_env": api_key_env}, options)


def ollama(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Ollama's own API at http://localhost:11434; no key needed.

    Args:
        model: As ``llama3.2``.
        **options: How to reach it.

    Spec: UPP-1.2 §19.5.
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
