"""`__dataclass_fields__` of data classes. FastAPI accepts a class as a body only if it is a dataclass or a model."""

from __future__ import annotations

import re
from typing import Any


class Fields:
    """A descriptor that creates the ``__dataclass_fields__`` of a class at each access."""

    def __get__(self, instance: object, owner: type[Any]) -> dict[str, Any]:
        """Return a field for each attribute that is a member of the class's JSON."""
        import dataclasses

        schema: dict[str, Any] = owner.model_json_schema()
        names = [re.sub(r"(?<!^)([A-Z])", r"_\1", key).lower() for key in schema.get("properties", {})]
        fields = [(name, Any) for name in names if hasattr(owner, name)]
        dataclass: Any = dataclasses.make_dataclass(owner.__name__, fields)
        dataclass_fields: dict[str, Any] = dataclass.__dataclass_fields__
        return dataclass_fields
