"""Validators of the output of a run: functions that can ask the model to answer again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

from turntree import _core
from turntree.exceptions import ModelRetry

Validator = Callable[..., Any]
Check = Callable[[_core.RunContext[Any], Any], Any]


def validators_of(validators: Any, execution: Any = None) -> tuple[Validator, ...]:
    """Return the validators of an agent with this strategy.

    Raises:
        TypeError: It is not a list of functions.
        ValueError: The strategy runs other agents, which have validators of their own.
    """
    if callable(validators) or not hasattr(validators, "__iter__"):
        message = "output_validators must be a list of functions; put a single one into brackets"
        raise TypeError(message)
    functions = tuple(cast("Iterable[Validator]", validators))
    for index, function in enumerate(functions):
        if not callable(function):
            message = f"output_validators[{index}]: expected a function, got {type(function).__name__}"
            raise TypeError(message)
    remedy: str | None = getattr(execution, "_where_to_validate", None)
    if functions and remedy is not None:
        message = f"output_validators: the agents of {execution.name}() answer, not the agent that has it; {remedy}"
        raise ValueError(message)
    return functions


def check_of(validators: tuple[Validator, ...]) -> Check | None:
    """Return the function that the native core calls with the output: it returns why the output is refused, or None."""
    if not validators:
        return None
    prepared = [(function, _takes_context(function)) for function in validators]
    if any(_is_async(function) for function in validators):

        async def check_async(context: _core.RunContext[Any], value: Any) -> str | None:
            for function, takes_context in prepared:
                try:
                    result = function(context, value) if takes_context else function(value)
                    _check_result(function, await cast("Awaitable[Any]", result) if _waits(result) else result, value)
                except ModelRetry as retry:
                    return _reason(retry)
            return None

        return check_async

    def check(context: _core.RunContext[Any], value: Any) -> str | None:
        for function, takes_context in prepared:
            try:
                _check_result(function, function(context, value) if takes_context else function(value), value)
            except ModelRetry as retry:
                return _reason(retry)
        return None

    return check


def _takes_context(function: Validator) -> bool:
    """True for ``(context, value)``, False for ``(value)``."""
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    places = [item for item in parameters if item.kind in {item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD}]
    required = [item for item in places if item.default is item.empty]
    if len(required) > 2 or (not places and not any(item.kind is item.VAR_POSITIONAL for item in parameters)):
        name = _name(function)
        message = f"the output validator {name} must take the value, or the context and the value"
        raise TypeError(message)
    has_context = [_is_context(item.annotation) for item in places]
    if len(required) == 1 and has_context[0]:
        name = _name(function)
        message = f"the output validator {name} takes the context alone; write `def {name}(context, value)`"
        raise TypeError(message)
    if len(required) == 2 and has_context[1] and not has_context[0]:
        name = _name(function)
        message = f"the output validator {name} must take the context first; write `def {name}(context, value)`"
        raise TypeError(message)
    return len(required) == 2


def _is_context(annotation: Any) -> bool:
    """True for ``RunContext`` and ``RunContext[Deps]``, also as text, and for the contexts of other libraries."""
    name = getattr(annotation, "__name__", annotation)
    return isinstance(name, str) and name.partition("[")[0].rpartition(".")[2] in {"RunContext", "RunContextWrapper"}


def _is_async(function: Validator) -> bool:
    import inspect

    target = inspect.unwrap(function)
    target = getattr(target, "func", target)
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(target, "__call__", None))  # noqa: B004


def _waits(result: Any) -> bool:
    return hasattr(result, "__await__")


def _check_result(function: Validator, result: Any, value: Any) -> None:
    if result is None or result is value or result == value:
        return
    message = (
        f"the output validator {_name(function)} returned another value; a validator cannot replace the output: return "
        "None or the value, or raise ModelRetry"
    )
    if isinstance(result, bool):
        message = (
            f"the output validator {_name(function)} returned {result}; return None or the value to accept it, and "
            "raise ModelRetry(text) to refuse it"
        )
    raise TypeError(message)


def _reason(retry: ModelRetry) -> str:
    return str(retry) or "The answer was refused."


def _name(function: Validator) -> str:
    return getattr(function, "__name__", type(function).__name__)
