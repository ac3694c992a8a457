"""The ``__dataclass_fields__`` of classes that `dataclasses` did not create."""

from __future__ import annotations

from typing import Any

from turntree import _core

# Those of all data classes; see `turntree._dataclass`.
PARAMETERS: Any = getattr(_core.Data, "__dataclass_params__")  # noqa: B009 - not part of the typed interface


class OptionalFields:
    """A descriptor that creates the ``__dataclass_fields__`` of a class whose attributes are None by default."""

    def __get__(self, instance: object, owner: type[Any]) -> dict[str, Any]:
        """Return a field for each annotated attribute. The constructor takes them by keyword."""
        annotations = {name: kind for name, kind in owner.__annotations__.items() if not name.startswith("__")}
        return fields_of(owner, {name: (kind, {"default": None}) for name, kind in annotations.items()})


def fields_of(owner: type[Any], options: dict[str, tuple[Any, dict[str, Any]]]) -> dict[str, Any]:
    """Return the fields of a class by their names."""
    import dataclasses

    fields: list[Any] = [(name, kind, dataclasses.field(**given)) for name, (kind, given) in options.items()]
    dataclass: Any = dataclasses.make_dataclass(owner.__name__, fields, kw_only=True)
    dataclass_fields: dict[str, Any] = dataclass.__dataclass_fields__
    return dataclass_fields
