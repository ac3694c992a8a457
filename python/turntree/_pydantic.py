"""Integration of data classes with pydantic: fields of models, TypeAdapter, FastAPI bodies and responses.

The native core imports this module when pydantic requests the schema of a class, so pydantic is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from turntree.exceptions import ValidationError

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler


def core_schema_of(cls: type[Any]) -> CoreSchema:
    """Return the pydantic-core schema of a data class.

    It accepts instances and plain data, and serializes with `model_dump` of the class.
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
    """Return the JSON Schema of a data class without references: all definitions are inlined."""
    del handler
    schema: dict[str, Any] = cls.model_json_schema()
    schema.pop("$schema", None)
    inlined: dict[str, Any] = _inlined(schema, schema.pop("$defs", {}), ())
    return inlined


def _inlined(node: Any, definitions: dict[str, Any], inside: tuple[str, ...]) -> Any:
    """Replace references by their definitions. Pydantic moves the schema of a field, which breaks local references."""
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
