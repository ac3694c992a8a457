"""The options of one run, and its limits."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypedDict, cast

from turntree import _core
from turntree._argument_errors import LIMITS, RUN, SESSION_RUN, explain_arguments, unknown_argument
from turntree._callbacks import check_callback
from turntree._dataclass_fields import PARAMETERS, OptionalFields
from turntree._generics import DepsT
from turntree._options import check_model
from turntree._public_names import publish
from turntree.upp._settings import ModelSettings, params_with

_Decision: TypeAlias = bool | Literal["ask"] | dict[str, Any]
# Decides about a call whose approval says "ask".
OnApproval: TypeAlias = Callable[[_core.ToolCall], _Decision | Awaitable[_Decision]]

if TYPE_CHECKING or sys.version_info >= (3, 11):

    class RunOptions(TypedDict, Generic[DepsT], total=False):
        """The keyword options of each way to run an agent. None stands for the default.

        Attributes:
            deps: Any object for the functions of the run: `ToolContext.deps` and `RunContext.deps`. Sub-agents, and
                runs inside tools, have it too, unless they are given their own. It is neither copied nor saved.
            params: Parameters of the model for this run, added to those of the agent; a parameter with the same name
                replaces the agent's.
            settings: `ModelSettings` for this run, added to those of the agent; equal names replace the agent's.
            model: The model of this run, or its name, instead of the agent's. Sub-agents without a model use it too.
                The agent's `config` does not apply to it.
            metadata: Values that ``metadata`` of hooks, tools and toolsets starts with (JSON).
            timeout: The maximum duration of the run in seconds. It then raises `UPPError` TIMEOUT, with ``partial``. A
                session is saved after that too; the store has the rest of the time for it, but at least 5 seconds.
            limits: The most that the run may use, with everything that it starts.
            on_approval: A function that decides about calls whose approval says "ask", instead of that of the session
                or the agent.
        """

        deps: DepsT | None
        params: Mapping[str, Any] | None
        settings: ModelSettings | Mapping[str, Any] | None
        model: _core.ModelReference | str | None
        metadata: Mapping[str, Any] | None
        timeout: float | None
        limits: Limits | None
        on_approval: OnApproval | None

else:
    # Python 3.10 has no generic TypedDict.
    RunOptions = dict


OPTION_NAMES = ("deps", "params", "settings", "model", "metadata", "timeout", "limits", "on_approval")
_NAMES = frozenset(OPTION_NAMES)
# Thirty days: a longer timeout is a typing error.
_MAX_TIMEOUT = 2_592_000


class Limits:
    """The most that a run may use, together with everything that it starts.

    The requests, tokens, costs and tool calls of sub-agents count too, and those of runs inside tools, of requests
    after refused output, and of all runs of one `Agent.map`. A resumed run counts what it
    had used before, except seconds.

    A limit is checked before each model request and each round of tool calls, so that nothing that was paid for is
    lost: a response may exceed a limit of tokens or cost, and the run then ends before the next one. It raises
    `LimitExceeded`, whose ``partial`` is the incomplete turn.

    Args:
        requests: Model requests.
        input_tokens: Input tokens.
        output_tokens: Output tokens.
        total_tokens: Input and output tokens.
        tool_calls: Tool calls. If a response asks for more calls than are left, none of them is made.
        cost: Cost in US dollars. A model without a known price raises `UPPError` INVALID_REQUEST after its first call.
        seconds: Seconds since the first request. A call that has begun is not interrupted; see ``timeout=`` for that.

    Raises:
        TypeError: A limit is not a number, or not an integer where it counts.
        ValueError: A limit is negative.
    """

    __slots__ = ("cost", "input_tokens", "output_tokens", "requests", "seconds", "tool_calls", "total_tokens")
    __dataclass_fields__: ClassVar[Any] = OptionalFields()
    __dataclass_params__: ClassVar[Any] = PARAMETERS

    requests: int | None
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    tool_calls: int | None
    cost: float | None
    seconds: float | None

    @explain_arguments(LIMITS)
    def __init__(
        self,
        *,
        requests: int | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        total_tokens: int | None = None,
        tool_calls: int | None = None,
        cost: float | None = None,
        seconds: float | None = None,
    ) -> None:
        given = {
            "requests": requests,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "total_tokens": total_tokens,
            "tool_calls": tool_calls,
            "cost": cost,
            "seconds": seconds,
        }
        for name, value in given.items():
            _check_limit(name, value)
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return the limits that are set, by name."""
        values = {name: getattr(self, name) for name in _LIMITS}
        return {name: value for name, value in values.items() if value is not None}

    def __setattr__(self, name: str, value: Any) -> None:
        message = f"Limits cannot be changed; write dataclasses.replace(limits, {name}=…), or Limits({name}=…)"
        raise AttributeError(message)

    def __replace__(self, **changes: Any) -> Limits:
        return Limits(**{**self.to_dict(), **changes})

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Limits) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.to_dict().items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _limits_from, (self.to_dict(),)

    def __repr__(self) -> str:
        from turntree._reprs import literal

        return f"Limits({', '.join(f'{name}={literal(value)}' for name, value in self.to_dict().items())})"


_LIMITS = ("requests", "input_tokens", "output_tokens", "total_tokens", "tool_calls", "cost", "seconds")


def _limits_from(limits: dict[str, Any]) -> Limits:
    return Limits(**limits)


def _check_limit(name: str, value: Any) -> None:
    if value is None:
        return
    is_real = name in {"cost", "seconds"}
    if isinstance(value, bool) or not isinstance(value, (int, float) if is_real else int):
        expected = "a number" if is_real else "an int"
        message = f"Limits({name}=…) must be {expected}, not {type(value).__name__}"
        raise TypeError(message)
    if not value >= 0:
        message = f"Limits({name}=…) must not be negative, but is {value}"
        raise ValueError(message)


def native_options(function: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Check the options of a run and convert them for the native core. None if there are none.

    Args:
        function: The name of the method, for errors.
        options: Those of `RunOptions`.

    Raises:
        TypeError: An option is unknown or has the wrong type; the message names it.
        ValueError: An option is out of range, or no model has this name.
    """
    unknown = {name: value for name, value in options.items() if name not in _NAMES}
    if unknown:
        hints = SESSION_RUN if function.startswith("Session.") else RUN
        raise unknown_argument(function, unknown, hints, _NAMES)
    native = {name: value for name, value in options.items() if value is not None}
    for name in ("params", "metadata"):
        if name in native:
            native[name] = dict_of(name, native[name])
    if "settings" in native:
        native["params"] = params_with(native.get("params"), native.pop("settings"))
    if "model" in native:
        native["model"] = _model_of(native["model"])
    if "timeout" in native:
        native["timeout"] = _seconds_of(native["timeout"])
    if "limits" in native:
        native["limits"] = _meter_of(native["limits"])
    if "on_approval" in native:
        approver(function, native["on_approval"])
    return native or None


def approver(owner: str, function: OnApproval | None) -> OnApproval | None:
    """Return the function that decides about calls.

    Raises:
        TypeError: It is not a function, or does not take the call.
    """
    if function is None:
        return None
    if callable(function):
        check_callback(f"on_approval of {owner}", function, ("call",))
        return function
    message = f"on_approval of {owner} must be a function that takes the call, not {type(function).__name__}"
    raise TypeError(message)


def dict_of(name: str, value: Any) -> dict[str, Any]:
    """Return a copy of an argument that must be a mapping.

    Raises:
        TypeError: It is none.
    """
    # `isinstance` is slow for abstract classes.
    if type(value) is not dict and not isinstance(value, Mapping):
        message = f"{name} must be a dict, not {type(value).__name__}"
        raise TypeError(message)
    return dict(cast("Mapping[str, Any]", value))


def _model_of(model: Any) -> _core.ModelReference:
    if isinstance(model, str):
        from turntree.upp._registry import model as named

        return named(model)
    return check_model(model)


def _seconds_of(timeout: Any) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        remedy = "; write timeout.total_seconds()" if hasattr(timeout, "total_seconds") else ""
        message = f"timeout must be a number of seconds, not {type(timeout).__name__}{remedy}"
        raise TypeError(message)
    if not 0 < timeout <= _MAX_TIMEOUT:
        message = f"timeout must be more than 0 and at most {_MAX_TIMEOUT} seconds, not {timeout}"
        raise ValueError(message)
    return float(timeout)


def _meter_of(limits: Any) -> _core.UsageMeter:
    if isinstance(limits, Limits):
        return _core.UsageMeter(
            requests=limits.requests,
            input_tokens=limits.input_tokens,
            output_tokens=limits.output_tokens,
            total_tokens=limits.total_tokens,
            tool_calls=limits.tool_calls,
            cost=limits.cost,
            seconds=limits.seconds,
        )
    remedy = "write limits=Limits(requests=…)"
    message = f"limits must be turntree.Limits, not {type(limits).__name__}; {remedy}"
    raise TypeError(message)


publish(__name__, globals())
