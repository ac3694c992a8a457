"""Batches: many model calls that the vendor answers within hours."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Generic, cast

from turntree._core import ModelCall, ModelReference, Turn, UserMessage, VendorApi, recorded_model
from turntree._generics import DataT
from turntree._public_names import publish
from turntree.exceptions import ErrorCode, UPPError
from turntree.upp._batch_vendors import VENDORS, BatchStatus, Outcome, State, Vendor
from turntree.upp._llm import LLM, options_of
from turntree.upp._tool_use import ToolUseStrategy
from turntree.upp._vendor_calls import api_of, check_id, model_and_config, read_object, refuse, write_json

_OVER = {"completed", "failed", "expired", "cancelled"}
_NO_TOOLS = ToolUseStrategy(max_iterations=0)
# The API of OpenAI that has a name of its own among the providers.
_CHAT = "openai_chat"
_EXAMPLE = "openai:gpt-5#2#batch_abc"


class _CapturedError(Exception):
    """Ends a call whose request has been captured."""


class Batch(Generic[DataT]):
    """Many model calls that the vendor answers within hours. Created by `LLM.batch`, found again by `Batch.resume`.

    The id has the provider, the model, the number of calls and the vendor's id, and no key.
    """

    __slots__ = ("__weakref__", "_count", "_id", "_inputs", "_llm", "_state", "_vendor")

    _llm: LLM[DataT]
    _vendor: Vendor
    _state: State
    _inputs: list[tuple[Any, ...]]
    _count: int
    _id: str

    def __init__(self) -> None:
        message = "a Batch is created by `await llm.batch(inputs)`, or found again by Batch.resume(id)"
        raise TypeError(message)

    @staticmethod
    def _of(
        bound: LLM[Any], vendor: Vendor, state: State, identity: tuple[str, int], inputs: list[tuple[Any, ...]]
    ) -> Batch[Any]:
        batch: Batch[Any] = Batch.__new__(Batch)
        batch._llm = bound
        batch._vendor = vendor
        batch._state = state
        batch._inputs = inputs
        name, batch._count = identity
        batch._id = f"{name}#{batch._count}#{state.id}"
        return batch

    @staticmethod
    def resume(
        id: str, llm: LLM[Any] | ModelReference | str | None = None, *, inputs: Sequence[Any] | None = None
    ) -> Batch[Any]:
        """Return a batch that was created earlier, also by another process. Sends no request.

        Args:
            id: The ``id`` of the batch.
            llm: The `LLM` that created the batch, or its model. Needed for structured output, and for a model that is
                not configured by the environment. Default: the model that the id names.
            inputs: The inputs of the batch. Without them a turn has the response only.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: `id` is not the id of a batch, `llm` has another provider, or `inputs` another length.
        """
        name, count, vendor_id = _parse(id)
        bound = llm if isinstance(llm, LLM) else LLM(model=model_and_config(name if llm is None else llm)[0])
        expected = name.partition(":")[0].removesuffix("_chat")
        if bound.model.provider != expected:
            message = f"the batch {id!r} is one of {expected}, and llm has a model of {bound.model.provider}"
            raise ValueError(message)
        calls = [(_only_the_response(),)] * count if inputs is None else _arguments(inputs)
        if len(calls) != count:
            message = f"the batch {id!r} has {count} calls, and inputs has {len(calls)}"
            raise ValueError(message)
        return Batch._of(bound, _vendor_of(bound), State(vendor_id, "unknown", {}), (name, count), calls)

    @property
    def id(self) -> str:
        """The id for `Batch.resume`, such as ``openai:gpt-5#2#batch_abc``."""
        return self._id

    @property
    def vendor_id(self) -> str:
        """The vendor's id."""
        return self._state.id

    @property
    def status(self) -> BatchStatus:
        """The status when the batch was last looked up. ``unknown`` after `resume`."""
        return self._state.status

    def __len__(self) -> int:
        return self._count

    async def refresh(self) -> BatchStatus:
        """Look up the batch and return its status.

        Raises:
            UPPError: The request failed.
        """
        self._state = await self._vendor.look(self._state.id)
        return self._state.status

    async def cancel(self) -> None:
        """Cancel the batch. The results have what was answered until then.

        Raises:
            UPPError: The request failed.
        """
        await self._vendor.cancel(self._state.id)
        await self.refresh()

    async def results(
        self, *, poll_interval: float = 30.0, timeout: float | None = None
    ) -> list[Turn[DataT] | UPPError]:
        """Wait until the batch is over and return the outcome of each call, in the order of the inputs.

        Args:
            poll_interval: The seconds between two looks at the batch.
            timeout: The most seconds to wait. None: no limit; vendors end a batch after 24 hours.

        Returns:
            A turn, or the `UPPError` of a call that failed, for each input. The cost of a turn is None.

        Raises:
            UPPError: The whole batch failed; a request failed; TIMEOUT: the batch is not over. It goes on, and can be
                asked again.
            TypeError: An argument is not a number.
            ValueError: An argument is negative or not a number.
        """
        _check_seconds("poll_interval", poll_interval)
        if timeout is not None:
            _check_seconds("timeout", timeout)
        import asyncio

        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while await self.refresh() not in _OVER:
            left = deadline - time.monotonic()
            if left <= 0:
                message = f"the batch {self._id} is not over after {timeout} seconds; call results() again later"
                raise self._vendor.error(message, ErrorCode.TIMEOUT)
            await asyncio.sleep(min(poll_interval, left))
        if self.status == "failed":
            message = f"the batch {self._id} failed: {self._state.problem or 'the vendor gives no reason'}"
            raise self._vendor.error(message, ErrorCode.INVALID_REQUEST)
        return await self._turns(await self._vendor.outcomes(self._state))

    async def _turns(self, outcomes: list[Outcome]) -> list[Turn[DataT] | UPPError]:
        found = dict(outcomes)
        reader = _Reader(self._llm, self._vendor)
        results: list[Turn[DataT] | UPPError] = []
        for place, arguments in enumerate(self._inputs):
            outcome = found.get(place)
            if outcome is None:
                outcome = self._missing()
            results.append(outcome if isinstance(outcome, UPPError) else await reader.turn(arguments, outcome))
        return results

    def _missing(self) -> UPPError:
        if self.status == "cancelled":
            return self._vendor.error("the batch was cancelled before the call was made", ErrorCode.CANCELLED)
        if self.status == "expired":
            return self._vendor.error("the batch expired before the call was made", ErrorCode.TIMEOUT)
        return self._vendor.error("the batch has no result for this input", ErrorCode.INVALID_RESPONSE)

    def __repr__(self) -> str:
        return f"Batch(id={self._id!r}, status={self.status!r})"


class _Reader:
    """Makes turns of the vendor's responses: an LLM whose model answers with the response at hand."""

    def __init__(self, bound: LLM[Any], vendor: Vendor) -> None:
        self._api = vendor.api
        self._error = vendor.error
        self._provider = vendor.provider
        self._llm = _llm_with(bound, recorded_model(bound.model, self._play))
        self._body: str | None = None

    async def turn(self, arguments: tuple[Any, ...], response: Mapping[str, Any]) -> Turn[Any] | UPPError:
        self._body = write_json(response)
        try:
            return await self._llm.generate(*arguments)
        except UPPError as error:
            return error

    async def _play(self, call: ModelCall) -> str:
        body, self._body = self._body, None
        if body is None:
            message = "the response needs a second call, which a batch cannot make; use llm.generate for this input"
            raise self._error(message, ErrorCode.INVALID_RESPONSE)
        read = read_object(self._api.read(call.request, body), self._provider)
        # The known prices are those of single calls.
        usage = read.get("usage")
        if isinstance(usage, dict):
            cast("dict[str, Any]", usage).pop("cost", None)
        return write_json(read)


async def create(bound: LLM[DataT], inputs: Sequence[Any]) -> Batch[DataT]:
    """Create a batch. See `LLM.batch`."""
    calls = _arguments(inputs)
    vendor = _vendor_of(bound)
    bodies = [read_object(body, vendor.provider) for body in await _bodies(bound, vendor.api, calls)]
    model_id = bound.model.model_id
    state = await vendor.create(model_id, bodies)
    is_chat = vendor.provider == "openai" and "messages" in bodies[0]
    name = f"{_CHAT if is_chat else vendor.provider}:{model_id}"
    return Batch._of(bound, vendor, state, (name, len(calls)), calls)


async def _bodies(bound: LLM[Any], api: VendorApi, calls: list[tuple[Any, ...]]) -> list[str]:
    """Return the body of each call."""
    bodies: list[str] = []

    async def capture(made: ModelCall) -> str:
        bodies.append(api.body(made.request))
        raise _CapturedError

    capturing = _llm_with(bound, recorded_model(bound.model, capture))
    for place, arguments in enumerate(calls):
        try:
            await capturing.generate(*arguments)
        except _CapturedError:
            pass
        except UPPError as error:
            message = f"inputs[{place}]: {error.message}"
            raise UPPError(message, error.code, provider=error.provider) from error
    return bodies


def _llm_with(bound: LLM[Any], model: ModelReference) -> LLM[Any]:
    options: dict[str, Any] = {**options_of(bound), "tool_strategy": _NO_TOOLS}
    return LLM(model=model, **options)


def _vendor_of(bound: LLM[Any]) -> Vendor:
    model, config = model_and_config(bound)
    vendor = VENDORS.get(model.provider)
    if vendor is None:
        refuse(model, "batches", VENDORS)
    return vendor(model.provider, api_of(model, config, "batches"))


def _arguments(inputs: object) -> list[tuple[Any, ...]]:
    """Return the arguments of each call."""
    if not isinstance(inputs, list | tuple):
        message = f"inputs must be a list of inputs, not {type(inputs).__name__}; write batch([input])"
        raise TypeError(message)
    given = cast("Sequence[Any]", inputs)
    if not given:
        message = "inputs is empty; a batch needs an input"
        raise ValueError(message)
    return [cast("tuple[Any, ...]", item) if isinstance(item, tuple) else (item,) for item in given]


def _only_the_response() -> list[UserMessage]:
    """Return a history, which is not part of the turn."""
    return [UserMessage("…")]


def _parse(identifier: object) -> tuple[str, int, str]:
    """Return the name of the model, the number of calls and the vendor's id."""
    if not isinstance(identifier, str):
        message = f"id must be a str, not {type(identifier).__name__}"
        raise TypeError(message)
    name, _, rest = identifier.partition("#")
    count, _, vendor_id = rest.partition("#")
    if ":" not in name or not (count.isascii() and count.isdecimal()) or count == "0" or not vendor_id:
        message = f"id must be the id of a batch, such as {_EXAMPLE!r}, not {identifier!r}"
        raise ValueError(message)
    return name, int(count), check_id(vendor_id, "the vendor's id in id")


def _check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        message = f"{name} must be a number of seconds, not {type(value).__name__}"
        raise TypeError(message)
    if not value >= 0:
        message = f"{name} must be 0 or more, not {value}"
        raise ValueError(message)


publish(__name__, globals())
