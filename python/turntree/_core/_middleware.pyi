"""Middleware of model calls: the native middleware and the channel for stream events."""

from collections.abc import Callable, Iterable
from typing import Any, final

from typing_extensions import Self

from turntree._core._async import BlockingEvents, Coroutine, EventStream
from turntree._core._messages import Turn
from turntree._core._stream_events import StreamEvent

@final
class Middleware:
    """A built-in middleware: the result of `logging`, `parsed_object`, `persistence` or `pubsub`."""

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
        """Log calls with a function of level, message and data.

        Raises:
            ValueError: The level is unknown.
        """

    @staticmethod
    def parsed_object(*, parse_objects: bool, parse_tool_calls: bool) -> Middleware:
        """Parse the partial JSON of a stream and add it to the events."""

    @staticmethod
    def persistence(adapter: object) -> Middleware:
        """Save a conversation in a store.

        Raises:
            TypeError: The adapter does not have id, load and save.
        """

    @staticmethod
    def pubsub(adapter: MemoryPubsub, stream_id: str | None) -> Middleware:
        """Publish the events of streams to subscribers."""

@final
class MiddlewareChain:
    """The middlewares of a model, in order.

    Raises:
        TypeError: An object has no hook, or a hook is not a function.
    """

    def __new__(cls, middleware: Iterable[object]) -> Self: ...
    def __len__(self) -> int: ...

@final
class MemoryPubsub:
    """Streams of this process in memory. Subscribers share the events.

    Args:
        max_streams: Maximum number of streams in memory; 0 removes each stream when it ends.
    """

    def __new__(cls, *, max_streams: int = 1000) -> Self: ...
    @property
    def max_streams(self) -> int:
        """Maximum number of streams in memory. Running streams are never removed."""

    def exists(self, stream_id: str) -> bool:
        """Whether a stream with this id has started and is in memory."""

    def remove(self, stream_id: str) -> bool:
        """Remove a finished stream and return whether there was one."""

    def __len__(self) -> int: ...
    def _subscribe(self, stream_id: str) -> SubscriptionCore:
        """Subscribe to a stream."""

@final
class SubscriptionCore:
    """The native half of ``turntree.upp.middleware.Subscription``."""

    @property
    def events(self) -> EventStream[StreamEvent]:
        """The asynchronous iterator over events; always the same object."""

    def blocking(self) -> BlockingEvents[StreamEvent]:
        """Return the synchronous iterator over the same events."""

    def turn(self) -> Coroutine[Turn | None]:
        """Return a coroutine that waits for the end and returns the turn."""

    def turn_sync(self) -> Turn | None:
        """Wait for the turn on this thread."""
