"""Converts values to JSON types. The native core calls it for types that it does not handle itself."""

from __future__ import annotations

import sys
from typing import Any


def to_jsonable(value: Any) -> Any:
    """Convert a value to str, int, float, bool, None, list or dict, or return it unchanged if it has no such form.

    Converts enums, UUIDs, decimals, paths, times and spans of time, dataclasses, named mappings and iterables.
    """
    # A value's module is already loaded, so nothing is imported here.
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
