"""How our data classes serve as pydantic types: fields of a model, TypeAdapter, FastAPI bodies and responses.

Imported by the native core when pydantic asks a class for its schema, so pydantic is there whenever this runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pydantic_core import PydanticCustomError, core_schema

from turntree.exceptions import ValidationError

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema


def core_schema_of(cls: type[Any]) -> CoreSchema:
    """Build the pydantic-core schema of one of our data classes.

    Accepts an instance or plain data; serializes through the class's own dump.
    """

    def validate(value: object) -> object:
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            context = {"reason": first["msg"], "pointer": first["pointer"]}
            template = "{reason} (at {pointer})" if first["pointer"] else "{reason}"
            raise PydanticCustomError("turntree", template, context) from error
        except TypeError as error:
            raise PydanticCustomError("turntree_type", "{reason}", {"reason": str(error)}) from error

    def serialize(value: Any, info: core_schema.SerializationInfo) -> object:
        return value.model_dump(
            mode="json" if info.mode == "json" else "python",
            by_alias=info.by_alias is not False,
            exclude_none=info.exclude_none,
        )

    return core_schema.no_info_plain_validator_function(
        validate,
        serialization=core_schema.plain_serializer_function_ser_schema(serialize, info_arg=True),
    )


def json_schema_of(cls: type[Any], handler: GetJsonSchemaHandler) -> dict[str, Any]:
    """Give the JSON Schema of one of our data classes, self-contained, its definitions inlined under ``$defs``."""
    del handler
    schema: dict[str, Any] = cls.model_json_schema()
    schema.pop("$schema", None)
    inlined: dict[str, Any] = _inlined(schema, schema.pop("$defs", {}), ())
    return inlined


def _inlined(node: Any, definitions: dict[str, Any], inside: tuple[str, ...]) -> Any:
    """Replace references by what they name: pydantic moves a field's schema, which would break local references."""
    if isinstance(node, list):
        return [_inlined(item, definitions, inside) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    members = cast("dict[str, Any]", node)
    reference = members.get("$ref")
    if isinstance(reference, str):
        name = reference.rsplit("/", 1)[-1]
        rest = {key: value for key, value in members.items() if key != "$ref"}
        if name in inside:
            return rest
        return {**_inlined(definitions[name], definitions, (*inside, name)), **rest}
    return {key: _inlined(value, definitions, inside) for key, value in members.items()}
