"""What embedding models and image models share: a bound model and a stream that ends with a result.

Spec: UPP-1.2 §15 and §16.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from turntree import _core
from turntree._options import check_model
from turntree._streams import BaseStream, BaseSyncStream, EventT, RepeatableAwaitable, ResultT

CoreT = TypeVar("CoreT")


class BoundModel(Generic[CoreT]):
    """A model with its parameters, configuration and middleware. Immutable."""

    __slots__ = ("__weakref__", "_model", "_native", "_params")

    _core_class: ClassVar[Callable[..., Any]]
    _native: CoreT

    def __init__(
        self,
        *,
        model: _core.ModelReference,
        params: Mapping[str, Any] | None = None,
        config: _core.ProviderConfig | Mapping[str, Any] | None = None,
        middleware: Iterable[object] = (),
    ) -> None:
        self._model = check_model(model)
        self._params = dict(params) if params is not None else None
        chain = _core.MiddlewareChain(middleware)
        self._native = self._core_class(model=model, params=self._params, config=config, middleware=chain)

    @property
    def model(self) -> _core.ModelReference:
        """The reference to the model."""
        return self._model

    @property
    def params(self) -> dict[str, Any] | None:
        """A copy of the model's parameters, or None."""
        return dict(self._params) if self._params is not None else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self._model!r})"


class ResultStream(BaseStream[EventT, ResultT]):
    """A call that streams progress: an async iterator of events, and the result.

    The request is sent when the first event or the result is awaited. Leaving the loop early stops the call.
    """

    __slots__ = ()

    _native: _core.ResultStreamCore[EventT, ResultT]

    def _outcome(self) -> Awaitable[ResultT]:
        return self._native.result()

    @property
    def result(self) -> RepeatableAwaitable[ResultT]:
        """The result: ``await stream.result``. The call continues while it is awaited, whether or not events are read.

        Awaiting it again returns the same result. Raises `UPPError`; CANCELLED for an aborted or closed stream.
        """
        return RepeatableAwaitable(self._outcome)

    def abort(self) -> None:
        """Stop the call: iteration and `result` raise `UPPError` CANCELLED. No effect if the call is over."""
        self._native.abort()


class SyncResultStream(BaseSyncStream[EventT], Generic[EventT, ResultT]):
    """A call that streams progress without an event loop: an iterator of events, and the result.

    Leaving the loop early stops the call.
    """

    __slots__ = ()

    _native: _core.ResultStreamCore[EventT, ResultT]

    @property
    def result(self) -> ResultT:
        """The result. Runs to the end if the call is not over. Raises `UPPError`."""
        result: ResultT = self._native.result_sync()
        return result

    def abort(self) -> None:
        """Stop the call: iteration and `result` raise `UPPError` CANCELLED. No effect if the call is over."""
        self._native.abort()
