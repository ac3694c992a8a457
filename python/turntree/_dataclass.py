"""What makes our data classes look like dataclasses to those who ask: FastAPI takes a body only from what it knows."""

from __future__ import annotations

import re
from typing import Any


class Fields:
    """The ``__dataclass_fields__`` of a class, made when somebody looks."""

    def __get__(self, instance: object, owner: type[Any]) -> dict[str, Any]:
        """Give a field for each attribute that the class writes into its JSON."""
        import dataclasses

        schema: dict[str, Any] = owner.model_json_schema()
        names = [re.sub(r"(?<!^)([A-Z])", r"_\1", key).lower() for key in schema.get("properties", {})]
        fields = [(name, Any) for name in names if hasattr(owner, name)]
        made: Any = dataclasses.make_dataclass(owner.__name__, fields)
        found: dict[str, Any] = made.__dataclass_fields__
        return found
