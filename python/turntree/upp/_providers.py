"""The factories of models: one function for each provider.

Spec: UPP-1.2 §9 and §19.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypedDict, cast

from turntree._argument_errors import unknown_argument
from turntree._core import KeyStrategy, ModelReference, ProviderConfig, Replay, RetryStrategy
from turntree._peer_arguments import MODEL
from turntree._public_names import publish
from turntree._recipes import without_key
from turntree._typing import Unpack
from turntree.exceptions import UPPError
from turntree.upp._auth import Auth
from turntree.upp._transport import Transport


class CustomRetry(Protocol):
    """A custom retry strategy: any object with the method `on_retry`.

    The object may also have these methods: ``before_request()``, called before each attempt, returns the seconds to
    wait, or None; ``set_retry_after(seconds)`` is called before `on_retry` if the response has a ``Retry-After``
    header; ``reset()`` is called after a success; ``fork()``, called once for each request, returns the strategy for
    that request. `on_retry`, ``before_request`` and ``reset`` may be async. An exception ends the request; the caller
    receives it.

    Spec: UPP-1.2 §13.2.
    """

    def on_retry(self, error: UPPError, attempt: int, /) -> float | Awaitable[float | None] | None:
        """Return the seconds to wait before the request is sent again, or None to raise the error.

        Args:
            error: The error of the failed attempt.
            attempt: The number of the failed attempt, from 1.
        """
        ...


class ConnectionOptions(TypedDict, total=False):
    """Connection settings of a provider, without the base URL. All are optional. Times are in seconds.

    Attributes:
        api_key: A text, a function (sync or async) or a key strategy. Default: the provider's environment variable.
        auth: Instead of a key: a token, a function (sync or async) that returns one, or an object with
            ``sign(request)``; see `Signer`. Tokens are sent as ``Authorization: Bearer``, and kept until they expire if
            the function returns an `AccessToken`.
        timeout: The maximum time until the response headers. Default: 120.
        connect_timeout: The maximum time to establish a connection. Default: 10.
        idle_timeout: The maximum time between two parts of a stream. Default: `timeout`.
        total_timeout: The maximum duration of a call, with its retries and its stream. Default: no limit.
        headers: Headers that replace the provider's headers, case-insensitive; None removes a header.
        api_version: The version of the vendor's API, if the API has versions.
        max_retries: The maximum number of retries after connection errors and the statuses 408, 409, 429 and 5xx, a
            stream until its first byte. Default: 2, or the environment variable TURNTREE_MAX_RETRIES.
        retry_strategy: Instead of `max_retries`: a retry strategy, or an object with the methods of `CustomRetry`.
        retry_after_max: The maximum ``Retry-After`` that a retry waits for. Default: 3600.
        max_concurrency: The maximum number of concurrent requests to one host, including streams; further requests
            wait. Configurations with the same number share one limit. Default: no limit.
        max_connections: The maximum number of connections to one host. Further requests wait for one, which does not
            count as `timeout`. Default: as many as the requests need.
        http2: True: HTTP/2 if the server offers it, else HTTP/1.1. False: HTTP/1.1. ``only``: HTTP/2 without
            negotiation, also for ``http`` URLs. Default: True.
        proxy: URL of a proxy, or ``direct`` for none. Default: environment variables, such as ``HTTPS_PROXY``.
        ca_certificates: Certificate authorities in addition to those of the system: PEM as bytes, or the path of a
            file. On Linux, ``SSL_CERT_FILE`` replaces the certificates of the system for all requests.
        strict_schemas: Whether the vendor enforces the schema of structured output. Default: if the schema can be
            enforced. True: other schemas raise INVALID_REQUEST. False: schemas are sent unchanged.
        transport: An object with ``async send(request)`` that sends the requests; see `Transport`. Or a recording; see
            `replay`.
    """

    api_key: str | Callable[[], str | Awaitable[str]] | KeyStrategy | None
    auth: Auth | None
    timeout: float | None
    connect_timeout: float | None
    idle_timeout: float | None
    total_timeout: float | None
    headers: Mapping[str, str | None] | None
    api_version: str | None
    max_retries: int | None
    retry_strategy: RetryStrategy | CustomRetry | None
    retry_after_max: float | None
    max_concurrency: int | None
    max_connections: int | None
    http2: bool | Literal["only"] | None
    proxy: str | None
    ca_certificates: bytes | str | PathLike[str] | None
    strict_schemas: bool | None
    transport: Replay | Transport | None


class ConfigOptions(ConnectionOptions, total=False):
    """The options of a `ProviderConfig`: `ConnectionOptions` and the base URL.

    Attributes:
        base_url: A prefix such as ``https://host/v1``, or the URL of the endpoint.
    """

    base_url: str | None


class HostOptions(ConnectionOptions, total=False):
    """The options of a factory that has an argument for the base URL.

    Attributes:
        config: Connection settings as a `ProviderConfig` or a dict; the other options override them.
        prices: Price rows for this model, with precedence over those of `turntree.upp.prices`.
    """

    config: ProviderConfig | Mapping[str, Any] | None
    prices: Sequence[Mapping[str, Any]] | None


class ProviderOptions(HostOptions, total=False):
    """The options of a factory: `HostOptions` and the base URL.

    Attributes:
        base_url: A prefix such as ``https://host/v1``, or the URL of the endpoint.
    """

    base_url: str | None


def reference(provider: str, model: str, options: dict[str, Any], connection: Mapping[str, Any]) -> ModelReference:
    """Return a reference to a model with the options of its factory and its connection settings."""
    if not isinstance(model, str):
        message = f"model must be a str, not {type(model).__name__}"
        raise TypeError(message)
    settings: dict[str, Any] = {**connection}
    if any(name in MODEL for name in settings):
        raise unknown_argument(provider, {name: None for name in settings if name in MODEL}, MODEL)
    config: Any = settings.pop("config", None)
    prices: Any = settings.pop("prices", None)
    if prices is not None:
        options = {**options, "prices": list(prices)}
    recipe = _recipe(provider, model, options, {**connection})
    return ModelReference(provider, model, options, ProviderConfig(config, **settings), recipe)


def _recipe(
    provider: str, model: str, options: dict[str, Any], connection: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """Return what pickle needs to create the reference in another process, without its key; None if it cannot."""
    config = connection.pop("config", None)
    # A sign-in to a cloud replaces the key, which the other process cannot find.
    if provider == "vertex" or options.get("api") in ("token", "vertex") or "access_key_id" in options:
        return None
    connection.pop("prices", None)
    if isinstance(config, Mapping):
        connection = {**cast("Mapping[str, Any]", config), **connection}
    elif config is not None:
        return None
    rest = without_key(connection)
    if rest is None:
        return None
    return _restored, (provider, model, {**options}, rest)


def _restored(provider: str, model: str, options: dict[str, Any], connection: dict[str, Any]) -> ModelReference:
    return reference(provider, model, options, connection)


def anthropic(model: str, *, betas: Sequence[str] = (), **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a model of Anthropic's Messages API. Environment variable of the key: ANTHROPIC_API_KEY.

    The API requires ``max_tokens``. If neither ``settings`` nor ``params`` has it, the most tokens of the model are
    sent: 64000 for Claude 4 and Claude 3.7, 32000 for Claude Opus 4, 8192 for Claude 3.5, 4096 for others.

    Args:
        model: Name of the model, such as ``claude-sonnet-4-5``.
        betas: Ids of beta features, sent in the header ``anthropic-beta``.
        **options: Connection settings.

    Spec: UPP-1.2 §19.1.
    """
    return reference("anthropic", model, {"betas": list(betas)}, options)


def openai(
    model: str,
    api: Literal["responses", "completions"] = "responses",
    **options: Unpack[ProviderOptions],
) -> ModelReference:
    """Return a model of OpenAI. Environment variable of the key: OPENAI_API_KEY.

    Args:
        model: Name of the model, such as ``gpt-5``.
        api: The Responses API, or Chat Completions.
        **options: Connection settings.

    Spec: UPP-1.2 §19.2 and §19.3.
    """
    return reference("openai", model, {"api": api}, options)


def google(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a model of Google's Gemini API. Environment variables of the key: GOOGLE_API_KEY, else GEMINI_API_KEY.

    Parameters are sent in ``generationConfig``, such as ``params={"temperature": 0, "thinkingConfig": {…}}``. The
    parameters ``cachedContent``, ``tools``, ``toolConfig``, ``safetySettings`` and ``labels`` are sent as members of
    the request. The vendor's own tools are ``params={"tools": [{"googleSearch": {}}]}``.

    Args:
        model: Name of the model, such as ``gemini-2.5-flash``.
        **options: Connection settings; `api_version` replaces ``v1beta``.

    Spec: UPP-1.2 §19.4.
    """
    return reference("google", model, {}, options)


def openrouter(
    model: str, api: Literal["completions", "responses"] = "completions", **options: Unpack[ProviderOptions]
) -> ModelReference:
    """Return a model of OpenRouter. Environment variable of the key: OPENROUTER_API_KEY.

    Accepts all kinds of media. Stores ``reasoning_details`` and sends them with the next request.

    Args:
        model: Name of the model, such as ``anthropic/claude-sonnet-4.5``.
        api: Chat Completions, or the Responses API.
        **options: Connection settings.

    Spec: UPP-1.2 §19.6.
    """
    return reference("openrouter", model, {"api": api}, options)


def xai(
    model: str, api: Literal["completions", "responses", "messages"] = "completions", **options: Unpack[ProviderOptions]
) -> ModelReference:
    """Return a Grok model of xAI. Environment variable of the key: XAI_API_KEY.

    Args:
        model: Name of the model, such as ``grok-4``.
        api: Chat Completions, the Responses API, or the Messages API.
        **options: Connection settings.

    Spec: UPP-1.2 §19.7.
    """
    return reference("xai", model, {"api": api}, options)


def groq(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a model of Groq. Environment variable of the key: GROQ_API_KEY.

    Args:
        model: Name of the model, such as ``llama-3.3-70b-versatile``.
        **options: Connection settings.

    Spec: UPP-1.2 §19.8.
    """
    return reference("groq", model, {}, options)


def cerebras(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a model of Cerebras. Environment variable of the key: CEREBRAS_API_KEY. Supports text only.

    Args:
        model: Name of the model, such as ``gpt-oss-120b``.
        **options: Connection settings.

    Spec: UPP-1.2 §19.8.
    """
    return reference("cerebras", model, {}, options)


def moonshot(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a Kimi model of Moonshot. Environment variables of the key: MOONSHOT_API_KEY, else KIMI_API_KEY.

    Args:
        model: Name of the model, such as ``kimi-k2-thinking``.
        **options: Connection settings.

    Spec: UPP-1.2 §19.8.
    """
    return reference("moonshot", model, {}, options)


def deepseek(
    model: str, api: Literal["completions", "responses"] = "completions", **options: Unpack[ProviderOptions]
) -> ModelReference:
    """Return a model of DeepSeek. Environment variable of the key: DEEPSEEK_API_KEY.

    Args:
        model: Name of the model, such as ``deepseek-chat``.
        api: Chat Completions, or the Responses API.
        **options: Connection settings.

    Spec: UPP-1.2 §19.2 and §19.3.
    """
    return reference("deepseek", model, {"api": api}, options)


def mistral(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a model of Mistral. Environment variable of the key: MISTRAL_API_KEY.

    Args:
        model: Name of the model, such as ``mistral-large-latest``.
        **options: Connection settings.

    Spec: UPP-1.2 §19.3.
    """
    return reference("mistral", model, {}, options)


def responses(
    model: str, host: str, *, api_key_env: str = "OPENRESPONSES_API_KEY", **options: Unpack[HostOptions]
) -> ModelReference:
    """Return a model of any host with a Responses API. Environment variable of the key: OPENRESPONSES_API_KEY.

    Args:
        model: Name of the model at the host.
        host: A URL such as ``https://host/v1``; ``/responses`` is appended.
        api_key_env: Another environment variable of the key.
        **options: Connection settings; `api_key` has precedence over the environment.

    Spec: UPP-1.2 §19.9.
    """
    return reference("responses", model, {"host": host, "api_key_env": api_key_env}, options)


def ollama(model: str, **options: Unpack[ProviderOptions]) -> ModelReference:
    """Return a model of Ollama's own API, by default at http://localhost:11434. Needs no key.

    Args:
        model: Name of the model, such as ``llama3.2``.
        **options: Connection settings.

    Spec: UPP-1.2 §19.5.
    """
    return reference("ollama", model, {}, options)


def openai_compatible(model: str, base_url: str, **options: Unpack[HostOptions]) -> ModelReference:
    """Return a model of any host with a Chat Completions API: vLLM, llama.cpp, LM Studio, gateways.

    Args:
        model: Name of the model at the host.
        base_url: A URL such as ``http://localhost:8000/v1``.
        **options: Connection settings. A key is sent only if `api_key` is given.
    """
    return reference("openai_compatible", model, {"base_url": base_url}, options)


publish(__name__, globals())
