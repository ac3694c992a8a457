"""Keys, retry strategies and configuration of providers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, final

from typing_extensions import Self, Unpack, disjoint_base

from turntree.upp._providers import ConfigOptions

@disjoint_base
class KeyStrategy:
    """Gives an API key for each request: the base of the strategies, which the package makes. UPP-1.2 §13.1.

    No repr shows a key.
    """

@final
class RoundRobinKeys(KeyStrategy):
    """One key after the other, from the first again after the last. UPP-1.2 §13.1.

    Args:
        keys: The keys in their order.

    Raises:
        ValueError: There are none.
    """

    def __new__(cls, keys: Sequence[str]) -> Self: ...

@final
class WeightedKeys(KeyStrategy):
    """A key drawn at random, as often as its weight says. UPP-1.2 §13.1.

    Args:
        keys: Keys with their weights, as pairs or as dicts of ``key`` and ``weight``; only the ratios matter.

    Raises:
        ValueError: There are none, or a weight is not above 0.
        TypeError: Something else than that.
    """

    def __new__(cls, keys: Sequence[tuple[str, float] | Mapping[str, Any]]) -> Self: ...

@final
class DynamicKey(KeyStrategy):
    """A key from a function that is asked before each request. UPP-1.2 §13.1.

    Args:
        function: Sync or async, without arguments; called on the caller's event loop.

    Raises:
        TypeError: Not callable.
    """

    def __new__(cls, function: Callable[[], str | Awaitable[str]]) -> Self: ...

@disjoint_base
class RetryStrategy:
    """Whether and when a failed request is sent again: the base of the strategies. UPP-1.2 §13.3.

    A ``Retry-After`` of the server is respected up to `ProviderConfig`'s ``retry_after_max``.
    """

@final
class ExponentialBackoff(RetryStrategy):
    """Waits twice as long each time, after failures that may pass. UPP-1.2 §13.3.

    Args:
        max_attempts: Retries after the first attempt: 3 means up to four requests.
        base_delay: The first wait, in seconds.
        max_delay: The longest wait, in seconds.
        jitter: Draw each wait at random from half to one and a half times its length, so that many clients do not
            return at once.

    Raises:
        ValueError: A wait is negative or not finite.
    """

    def __new__(
        cls, *, max_attempts: int = 3, base_delay: float = 1.0, max_delay: float = 30.0, jitter: bool = True
    ) -> Self: ...

@final
class LinearBackoff(RetryStrategy):
    """Waits as much longer each time, after failures that may pass. UPP-1.2 §13.3.

    Args:
        max_attempts: Retries after the first attempt.
        delay: The first wait, and what is added to each further one, in seconds.

    Raises:
        ValueError: The delay is negative or not finite.
    """

    def __new__(cls, *, max_attempts: int = 3, delay: float = 1.0) -> Self: ...

@final
class NoRetry(RetryStrategy):
    """Never sends again. UPP-1.2 §13.3."""

    def __new__(cls) -> Self: ...

@final
class TokenBucket(RetryStrategy):
    """Lets requests through at a rate, and sends again those that were refused for going too fast. UPP-1.2 §13.3.

    One bucket may serve many models and agents: they share its rate then.

    Args:
        max_tokens: Requests that may go at once.
        refill_rate: Requests a second, in the long run.
        max_attempts: Retries after the first attempt.

    Raises:
        ValueError: The rate is not above 0.
    """

    def __new__(cls, *, max_tokens: int = 10, refill_rate: float = 1.0, max_attempts: int = 3) -> Self: ...

@final
class RetryAfterStrategy(RetryStrategy):
    """Sends again what was refused for going too fast, after as long as the server asks for. UPP-1.2 §13.3.

    Args:
        max_attempts: Retries after the first attempt.
        fallback_delay: Seconds to wait when the server names no time.

    Raises:
        ValueError: The delay is negative or not finite.
    """

    def __new__(cls, *, max_attempts: int = 3, fallback_delay: float = 5.0) -> Self: ...

@final
class ProviderConfig:
    """How to reach a provider. UPP-1.2 §9. Times are seconds; what is not given is the provider's default.

    An agent's configuration goes over the one that its model's factory was given. No repr shows a key or the value
    of a header.

    Args:
        base: Another configuration or its dict, that this one goes over; dicts may spell options in camelCase.
        **options: As the keyword options of the providers' factories; see `ConfigOptions`.

    Raises:
        TypeError: An option that is unknown or of the wrong type, named.
        ValueError: A time that is negative, a URL that is none, or certificates that do not parse.
    """

    def __new__(
        cls, base: ProviderConfig | Mapping[str, Any] | None = None, /, **options: Unpack[ConfigOptions]
    ) -> Self: ...
