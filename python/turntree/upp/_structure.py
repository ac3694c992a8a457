"""Structured output: JSON Schemas and Python types of answers.

Spec: UPP-1.2 §10.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

Violation = tuple[str, str, str]


def structure_of(structure: Any) -> tuple[Any, AnswerType | None]:
    """Return the JSON Schema of a structure, and its `AnswerType`, which is None if the structure is a schema."""
    if structure is None:
        return None, None
    if isinstance(structure, Mapping) and not isinstance(structure, type):
        return cast("Any", structure), None
    # A str may be a forward reference, but its namespace is unknown here.
    if isinstance(structure, str | bytes | int | float | list | tuple | set):
        name = type(cast("Any", structure)).__name__
        message = f"structure must be a JSON Schema or a type, not {name}"
        raise TypeError(message)
    kind = cast("type[Any]", type(structure))
    if not isinstance(structure, type) and (hasattr(kind, "__dataclass_fields__") or hasattr(kind, "model_fields")):
        message = f"structure must be a type, not an instance; write structure={kind.__name__}"
        raise TypeError(message)
    answer = AnswerType(structure)
    return answer.schema, answer


class AnswerType:
    """The Python type of a structured answer: its JSON Schema and its parser.

    Uses pydantic if it is installed and supports the type, else the type's annotations. The native core calls `check`
    and `build`.
    """

    __slots__ = ("_parse", "schema")

    def __init__(self, annotation: Any) -> None:
        self.schema: dict[str, Any]
        self._parse: Callable[[str], Any]
        self.schema, self._parse = _from_pydantic(annotation) or _from_annotations(annotation)

    def check(self, text: str) -> list[Violation]:
        """Return the violations of an answer, each with pointer, rule and message; empty if the answer matches."""
        try:
            self._parse(text)
        except ValueError as error:
            return _violations(error)
        return []

    def build(self, text: str) -> Any:
        """Return the value of an answer that matches the type."""
        return self._parse(text)


def _from_pydantic(annotation: Any) -> tuple[dict[str, Any], Callable[[str], Any]] | None:
    try:
        import pydantic
    except ImportError:
        return None
    try:
        adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(annotation)
        return adapter.json_schema(), adapter.validate_json
    except pydantic.errors.PydanticUserError:
        return None


def _from_annotations(annotation: Any) -> tuple[dict[str, Any], Callable[[str], Any]]:
    from turntree.upp._signature import checked_value, schema_of_annotation

    schema = schema_of_annotation(annotation, "structure")
    import json  # not part of the import of turntree

    return schema, lambda text: checked_value(json.loads(text), annotation, "the answer")


def _violations(error: ValueError) -> list[Violation]:
    if not hasattr(error, "errors"):
        return [("", "type", str(error))]
    problems = cast("Any", error).errors(include_url=False, include_context=False)
    return [(_pointer(problem["loc"]), str(problem["type"]), str(problem["msg"])) for problem in problems]


def _pointer(location: tuple[str | int, ...]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in location)
