"""Keys, retry strategies and configuration of providers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, final

from typing_extensions import Self, Unpack, disjoint_base

from turntree.upp._providers import ConfigOptions

@disjoint_base
class KeyStrategy:
    """Base class of the key strategies, which return a key for each request.

    A repr never contains a key.

    Spec: UPP-1.2 §13.1.
    """

@final
class RoundRobinKeys(KeyStrategy):
    """Uses the keys in turn.

    Args:
        keys: The keys in their order.

    Raises:
        ValueError: The list is empty.

    Spec: UPP-1.2 §13.1.
    """

    def __new__(cls, keys: Sequence[str]) -> Self: ...

@final
class WeightedKeys(KeyStrategy):
    """Chooses keys at random by weight.

    Args:
        keys: Keys with their weights, as pairs or as dicts of ``key`` and ``weight``; only the ratios matter.

    Raises:
        ValueError: The list is empty, or a weight is not above 0.
        TypeError: An entry is neither a pair nor a dict.

    Spec: UPP-1.2 §13.1.
    """

    def __new__(cls, keys: Sequence[tuple[str, float] | Mapping[str, Any]]) -> Self: ...

@final
class DynamicKey(KeyStrategy):
    """Calls a function, sync or async, for the key of each request.

    Args:
        function: Sync or async, without arguments; called on the caller's event loop.

    Raises:
        TypeError: Not callable.

    Spec: UPP-1.2 §13.1.
    """

    def __new__(cls, function: Callable[[], str | Awaitable[str]]) -> Self: ...

@disjoint_base
class RetryStrategy:
    """Base class of the retry strategies, which decide whether and when a failed request is sent again.

    A ``Retry-After`` header is honored up to `ProviderConfig`'s ``retry_after_max``.

    Spec: UPP-1.2 §13.3.
    """

@final
class ExponentialBackoff(RetryStrategy):
    """Retries transient failures and doubles the delay each time.

    Args:
        max_attempts: Retries after the first attempt: 3 means up to four requests.
        base_delay: First delay in seconds.
        max_delay: Longest delay in seconds.
        jitter: Multiply each delay by a random factor from 0.5 to 1.5, so that many clients do not retry at the same
            time.

    Raises:
        ValueError: A delay is negative or not finite.

    Spec: UPP-1.2 §13.3.
    """

    def __new__(
        cls, *, max_attempts: int = 3, base_delay: float = 1.0, max_delay: float = 30.0, jitter: bool = True
    ) -> Self: ...

@final
class LinearBackoff(RetryStrategy):
    """Retries transient failures and adds a constant to the delay each time.

    Args:
        max_attempts: Retries after the first attempt.
        delay: First delay, and the increment of each further delay, in seconds.

    Raises:
        ValueError: The delay is negative or not finite.

    Spec: UPP-1.2 §13.3.
    """

    def __new__(cls, *, max_attempts: int = 3, delay: float = 1.0) -> Self: ...

@final
class NoRetry(RetryStrategy):
    """Never retries.

    Spec: UPP-1.2 §13.3.
    """

    def __new__(cls) -> Self: ...

@final
class TokenBucket(RetryStrategy):
    """Limits the request rate, and retries requests that exceeded the rate limit of the server.

    Models and agents that use the same bucket share its rate.

    Args:
        max_tokens: Largest burst of requests.
        refill_rate: Requests per second on average.
        max_attempts: Retries after the first attempt.

    Raises:
        ValueError: The rate is not above 0.

    Spec: UPP-1.2 §13.3.
    """

    def __new__(cls, *, max_tokens: int = 10, refill_rate: float = 1.0, max_attempts: int = 3) -> Self: ...

@final
class RetryAfterStrategy(RetryStrategy):
    """Retries requests that exceeded the rate limit, after the delay in the ``Retry-After`` header.

    Args:
        max_attempts: Retries after the first attempt.
        fallback_delay: Delay in seconds if the response has no ``Retry-After`` header.

    Raises:
        ValueError: The delay is negative or not finite.

    Spec: UPP-1.2 §13.3.
    """

    def __new__(cls, *, max_attempts: int = 3, fallback_delay: float = 5.0) -> Self: ...

@final
class ProviderConfig:
    """Configuration of a provider. Times are in seconds; missing options have the provider's defaults.

    An agent's configuration overrides the configuration of its model. A repr never contains a key or the value of a
    header.

    Args:
        base: Configuration or dict that the options override; the keys of a dict may be in camelCase.
        **options: The keyword options of the providers' factories; see `ConfigOptions`.

    Raises:
        TypeError: An option is unknown or has the wrong type; the message names it.
        ValueError: A time is negative, a URL is invalid, or certificates cannot be parsed.

    Spec: UPP-1.2 §9.
    """

    def __new__(
        cls, base: ProviderConfig | Mapping[str, Any] | None = None, /, **options: Unpack[ConfigOptions]
    ) -> Self: ...
