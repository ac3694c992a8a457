"""Functions that applications pass: whether they take the arguments with which they are called."""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import Any

# Flags of code objects, as in `inspect.CO_VARARGS`.
_TAKES_POSITIONS = 0x04


def check_callback(place: str, function: Any, parameters: tuple[str, ...]) -> None:
    """Refuse a function that does not take the arguments with which it will be called, by position.

    Args:
        place: Where it was given, such as ``on_approval of agent()``.
        function: A callable. What has no signature is accepted.
        parameters: The names of the arguments.

    Raises:
        TypeError: It takes fewer, or needs more.
    """
    if _takes(function, len(parameters)):
        return
    names = ", ".join(parameters)
    name = getattr(function, "__name__", type(function).__name__)
    remedy = f"lambda {names}: …" if name == "<lambda>" else f"def {name}({names})"
    if isinstance(function, MethodType):
        remedy = f"def {name}(self, {names})"
    message = f"{place} is called with ({names}), which {_shown(function, name)} does not take; write `{remedy}`"
    raise TypeError(message)


def _takes(function: Any, count: int) -> bool:
    is_bound = isinstance(function, MethodType)
    target = function.__func__ if is_bound else function
    if not isinstance(target, FunctionType) or hasattr(target, "__wrapped__"):
        return _can_bind(function, count)
    # The code object tells all of it; `inspect` takes longer to load than `import turntree`.
    code, given = target.__code__, count + is_bound
    by_name = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    if any(name not in (target.__kwdefaults__ or {}) for name in by_name):
        return False
    required = code.co_argcount - len(target.__defaults__ or ())
    return required <= given and (given <= code.co_argcount or bool(code.co_flags & _TAKES_POSITIONS))


def _can_bind(function: Any, count: int) -> bool:
    """Whether a callable that is no plain function takes so many arguments; True if it cannot be known."""
    import inspect

    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _shown(function: Any, name: str) -> str:
    import inspect

    own = str(inspect.signature(function)).partition(" -> ")[0]
    return f"{name}{own}"


__all__ = ["check_callback"]
