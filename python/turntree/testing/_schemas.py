"""The JSON Schemas that vendors enforce: what a request with another schema is answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from turntree.testing._dialect import Json, as_list, as_object

_STRUCTURE = frozenset(
    ("type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "$ref", "$defs")
)
_NOTES = frozenset(("title", "description"))


@dataclass(frozen=True, kw_only=True)
class SchemaRules:
    """The schemas that a vendor enforces."""

    constraints: frozenset[str]
    formats: frozenset[str]
    requires_all: bool = True
    recursive: bool = True
    max_min_items: int | None = None


OPENAI = SchemaRules(
    constraints=frozenset(
        (
            *("pattern", "format", "minItems", "maxItems"),
            *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        )
    ),
    formats=frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")),
)

ANTHROPIC = SchemaRules(
    constraints=frozenset(("format", "minItems", "default", "allOf", "definitions")),
    formats=OPENAI.formats | {"uri"},
    requires_all=False,
    recursive=False,
    max_min_items=1,
)


def schema_error(schema: object, rules: SchemaRules) -> str | None:
    """Return why a vendor refuses a schema, or None."""
    root = as_object(schema)
    if root.get("type") != "object":
        return "schema must be a JSON Schema of 'type: \"object\"'"
    if "anyOf" in root:
        return "schema must not have 'anyOf' at the top level"
    for path, part in _parts(root):
        error = _part_error(part, rules)
        if error is not None:
            return f"In context={path}, {error}."
    if not rules.recursive and _is_recursive(root):
        return "Recursive schemas are not supported."
    return None


def _parts(root: Json) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield a schema and all schemas in it, with their paths."""
    left: list[tuple[tuple[str, ...], object]] = [((), root)]
    while left:
        path, part = left.pop()
        yield path, part
        schema = as_object(part)
        for name in ("properties", "$defs"):
            left += [((*path, name, key), value) for key, value in as_object(schema.get(name)).items()]
        left += [((*path, "anyOf", str(place)), kind) for place, kind in enumerate(as_list(schema.get("anyOf")))]
        if "items" in schema:
            left.append(((*path, "items"), schema["items"]))


def _part_error(part: object, rules: SchemaRules) -> str | None:
    schema = as_object(part)
    if not schema:
        return "schema must have a 'type' key"
    if "$ref" in schema and len(schema) > 1:
        others = sorted(set(schema) - {"$ref"})
        return f"$ref cannot have keywords {others}"
    for name, value in schema.items():
        if name not in _STRUCTURE | _NOTES | rules.constraints:
            return f"'{name}' is not permitted"
        if name == "format" and value not in rules.formats:
            return f"'{value}' is not a valid format"
        if name == "pattern" and "(?" in str(value):
            return "lookaround in 'pattern' is not supported"
        if name == "minItems" and rules.max_min_items is not None and value > rules.max_min_items:
            return "for 'array' type, 'minItems' values other than 0 or 1 are not supported"
    if not {"type", "$ref", "anyOf", "const", "enum"} & set(schema):
        return "schema must have a 'type' key"
    kind: Any = schema.get("type")
    types: list[Any] = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
    if "object" in types:
        return _object_error(schema, rules)
    if "array" in types and "items" not in schema:
        return "array schema missing items"
    return None


def _object_error(schema: Json, rules: SchemaRules) -> str | None:
    if schema.get("additionalProperties") is not False:
        return "'additionalProperties' is required to be supplied and to be false"
    members = as_object(schema.get("properties"))
    if rules.requires_all and (missing := sorted(set(members) - set(map(str, as_list(schema.get("required")))))):
        return (
            "'required' is required to be supplied and to be an array including every key in properties. "
            f"Missing {missing[0]!r}"
        )
    return None


def _is_recursive(root: Json) -> bool:
    """Return True if a definition contains itself."""
    uses: dict[str, set[str]] = {}
    for name, definition in as_object(root.get("$defs")).items():
        references = (as_object(part).get("$ref") for _, part in _parts(as_object(definition)))
        uses[name] = {str(reference).removeprefix("#/$defs/") for reference in references if reference is not None}
    while uses:
        leaves = [name for name, used in uses.items() if not used & set(uses)]
        if not leaves:
            return True
        for name in leaves:
            del uses[name]
    return False
