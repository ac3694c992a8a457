"""Middleware of model calls: the native middleware and the channel for stream events."""

from collections.abc import Callable, Iterable
from typing import Any, final

from typing_extensions import Self

from turntree._core._async import BlockingEvents, Coroutine, EventStream
from turntree._core._messages import StreamEvent, Turn

@final
class Middleware:
    """A middleware that comes with turntree: what `logging`, `parsed_object`, `persistence` and `pubsub` give."""

    @staticmethod
    def logging(
        *,
        level: str,
        logger: Callable[[str, str, dict[str, Any]], object],
        prefix: str,
        log_stream_events: bool,
        log_tool_calls: bool,
        log_contents: bool,
    ) -> Middleware:
        """Log calls to a function of level, message and data.

        Raises:
            ValueError: An unknown level.
        """

    @staticmethod
    def parsed_object(*, parse_objects: bool, parse_tool_calls: bool) -> Middleware:
        """Add what the JSON of a stream says so far."""

    @staticmethod
    def persistence(adapter: object) -> Middleware:
        """Keep a conversation in a store.

        Raises:
            TypeError: The adapter lacks id, load or save.
        """

    @staticmethod
    def pubsub(adapter: MemoryPubsub, stream_id: str | None) -> Middleware:
        """Publish streams."""

@final
class MiddlewareChain:
    """The middlewares of a model, in order.

    Raises:
        TypeError: An object without any hook, or a hook that is no function.
    """

    def __new__(cls, middleware: Iterable[object]) -> Self: ...
    def __len__(self) -> int: ...

@final
class MemoryPubsub:
    """Streams of this process, kept in memory: each event once, however many subscribe.

    Args:
        max_streams: How many streams are kept; 0 keeps none after its end.
    """

    def __new__(cls, *, max_streams: int = 1000) -> Self: ...
    @property
    def max_streams(self) -> int:
        """How many streams are kept at most; those that run are not let go."""

    def exists(self, stream_id: str) -> bool:
        """Whether a stream of this name has begun and is still kept."""

    def remove(self, stream_id: str) -> bool:
        """Let go of a stream that is over; tell whether there was one."""

    def __len__(self) -> int: ...
    def _subscribe(self, stream_id: str) -> SubscriptionCore:
        """Begin to read a stream."""

@final
class SubscriptionCore:
    """The native half of ``turntree.upp.middleware.Subscription``."""

    @property
    def events(self) -> EventStream[StreamEvent]:
        """The asynchronous iterator over events; always the same one."""

    def blocking(self) -> BlockingEvents[StreamEvent]:
        """Give the synchronous iterator over the same events."""

    def turn(self) -> Coroutine[Turn | None]:
        """Give a coroutine that waits for the end and gives the turn."""

    def turn_sync(self) -> Turn | None:
        """Wait for the turn on this thread."""
