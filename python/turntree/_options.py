"""Checks of options: models, time limits, and option objects such as `AgentStrategy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from turntree._callbacks import check_callback
from turntree._core import ModelReference

# One day: a longer wait is a typing error.
_MAX_CLEANUP = 86_400
# More retries than this are a typing error.
_MAX_RETRIES = 1000


def cleanup_seconds(cleanup_timeout: Any) -> float | None:
    """Return `cleanup_timeout` in seconds; None for the default.

    Raises:
        TypeError: It is not a number.
        ValueError: It is negative or more than a day.
    """
    if cleanup_timeout is None:
        return None
    if isinstance(cleanup_timeout, bool) or not isinstance(cleanup_timeout, (int, float)):
        message = f"cleanup_timeout must be a number of seconds, not {type(cleanup_timeout).__name__}"
        raise TypeError(message)
    if not 0 <= cleanup_timeout <= _MAX_CLEANUP:
        message = f"cleanup_timeout must be from 0 to {_MAX_CLEANUP} seconds, not {cleanup_timeout}"
        raise ValueError(message)
    return float(cleanup_timeout)


def retry_count(name: str, count: Any) -> int | None:
    """Return a number of retries; None for the default.

    Raises:
        TypeError: It is not an int.
        ValueError: It is negative or more than 1000.
    """
    if count is None:
        return None
    if isinstance(count, bool) or not isinstance(count, int):
        message = f"{name} must be an int, not {type(count).__name__}"
        raise TypeError(message)
    if not 0 <= count <= _MAX_RETRIES:
        message = f"{name} must be from 0 to {_MAX_RETRIES}, not {count}"
        raise ValueError(message)
    return count


def repairs_of(structure_repair: object) -> tuple[bool, int | None]:
    """Return whether output is repaired, and how often; None is the default.

    Raises:
        TypeError: `structure_repair` is neither a bool nor an int.
        ValueError: It is negative or more than 1000.
    """
    if isinstance(structure_repair, bool):
        return structure_repair, None
    count = retry_count("structure_repair", structure_repair)
    return bool(count), count or None


def check_model(model: object) -> ModelReference:
    """Return the model.

    Raises:
        TypeError: `model` is not a `ModelReference`.
    """
    if isinstance(model, ModelReference):
        return model
    remedy = 'write model="openai:gpt-5", or openai("…") of turntree.models'
    name = getattr(model, "__name__", "")
    found = type(model).__name__
    if callable(model) and name:
        found, remedy = f"the function or class {name}", f'call it: {name}("…")'
    message = f"model must come from a provider's factory, or be its name, not {found}; {remedy}"
    raise TypeError(message)


def check_progress(progress: object) -> bool:
    """Return whether a bar is shown. Raises TypeError for functions, which only some operations call."""
    if not isinstance(progress, bool):
        message = f"progress must be a bool, not {type(progress).__name__}"
        raise TypeError(message)
    return progress


def check_name(name: Any, argument: str = "name") -> str | None:
    """Return the name of an agent, or its id.

    Raises:
        TypeError: It is not a text.
    """
    if name is None or isinstance(name, str):
        return name
    message = f"{argument} must be a str, not {type(name).__name__}"
    raise TypeError(message)


def check_system(system: Any) -> Any:
    """Return the system prompt.

    Raises:
        TypeError: It is neither a text, nor a list of blocks, nor a function.
    """
    if system is None or isinstance(system, str):
        return system
    if callable(system):
        check_callback("the function of system=", system, ("context",))
        return cast("Any", system)
    if not isinstance(system, Sequence) or isinstance(system, bytes):
        message = f"system must be a str, a list of blocks or a function, not {type(system).__name__}"
        raise TypeError(message)
    for place, block in enumerate(cast("Sequence[object]", system)):
        if isinstance(block, str):
            message = f'system[{place}] is a str; join the texts into one str, or write {{"type": "text", "text": …}}'
            raise TypeError(message)
    return cast("Any", system)


def options_from(kind: type[Any], value: Any, what: str) -> Any:
    """Return an instance of `kind`, from one or from a dict of its options.

    Args:
        kind: A class whose options are its slots.
        value: An instance, a dict whose keys are in snake_case or camelCase, or None for the defaults.
        what: The name of the argument, for errors.

    Raises:
        TypeError: `value` is neither, or has a key that is not an option.
    """
    if value is None:
        return kind()
    if isinstance(value, kind):
        return value
    if not hasattr(value, "items"):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        message = f"{what} must be {article} {kind.__name__} or a dict, not {type(value).__name__}"
        if kind.__name__ == "AgentStrategy" and (
            isinstance(value, str) or callable(value) or hasattr(value, "execute")
        ):
            message += "; how an agent works is execution=, such as execution=turntree.execution.react()"
        raise TypeError(message)
    names: Any = kind.__slots__
    known = {_camel(name): name for name in names} | {name: name for name in names}
    unknown = [key for key in value if key not in known]
    if unknown:
        message = f"{what} has no {unknown[0]!r}; it knows {', '.join(sorted(names))}"
        raise TypeError(message)
    return kind(**{known[key]: hook for key, hook in value.items()})


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
