"""Plain data for values that have one obvious JSON form. Called by the native core for what it does not know."""

from __future__ import annotations

import sys
from typing import Any


def to_jsonable(value: Any) -> Any:
    """Turn a value into str, int, float, bool, None, list or dict; give back the value itself if it has no such form.

    Knows enums, UUIDs, decimals, paths, times and spans of time, dataclasses, named mappings and iterables.
    """
    # Only a module that is loaded can have made the value: nothing is imported for this.
    enum = sys.modules.get("enum")
    if enum is not None and isinstance(value, enum.Enum):
        return value.value
    for module, name in (("uuid", "UUID"), ("decimal", "Decimal"), ("pathlib", "PurePath"), ("datetime", "time")):
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(value, getattr(loaded, name)):
            return str(value)
    datetime = sys.modules.get("datetime")
    if datetime is not None and isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, type):
        return value
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        mapping: Any = value
        return {key: mapping[key] for key in mapping.keys()}  # noqa: SIM118
    return value
