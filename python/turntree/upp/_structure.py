"""What a structured answer must look like: JSON Schemas, and types that describe themselves. UPP-1.2 §10.5."""

from __future__ import annotations

from typing import Any


def schema_of(structure: Any) -> Any:
    """JSON Schema from a schema, or from a type that describes itself."""
    if hasattr(structure, "model_json_schema"):
        return structure.model_json_schema()
    # A TypedDict has the methods of a dict too, but is a type.
    is_type = isinstance(structure, type)
    if structure is None or (hasattr(structure, "items") and not is_type):
        return structure
    if not is_type:
        message = f"structure must be a JSON Schema or a type, not {type(structure).__name__}"
        raise TypeError(message)
    from turntree.upp._signature import schema_of_type

    return schema_of_type(structure)
