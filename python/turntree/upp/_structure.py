"""What a structured answer must look like: JSON Schemas, and types that describe themselves.

Spec: UPP-1.2 §10.5.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    Violation = tuple[str, str, str]


def structure_of(structure: Any) -> tuple[Any, AnswerType | None]:
    """The JSON Schema of a structure, and its type where it is one; a schema gives plain data."""
    if structure is None:
        return None, None
    if isinstance(structure, Mapping) and not isinstance(structure, type):
        return cast("Any", structure), None
    # Forward references are texts too, but nothing here could resolve them.
    if isinstance(structure, str | bytes | int | float | list | tuple | set):
        found: Any = cast("Any", structure)
        message = f"structure must be a JSON Schema or a type, not {type(found).__name__}"
        raise TypeError(message)
    answer = AnswerType(structure)
    return answer.schema, answer


class AnswerType:
    """A type of answers: its schema, what an answer has against it, and the value of an answer.

    Through pydantic where it is installed and knows the type, else by the annotations.
    """

    __slots__ = ("_read", "schema")

    def __init__(self, annotation: Any) -> None:
        self.schema: dict[str, Any]
        self._read: Callable[[str], Any]
        self.schema, self._read = _through_pydantic(annotation) or _by_annotations(annotation)

    def check(self, text: str) -> list[Violation]:
        """What an answer has against the type: pointer, rule and words each; empty when it fits. Called natively."""
        try:
            self._read(text)
        except ValueError as error:
            return _violations(error)
        return []

    def build(self, text: str) -> Any:
        """The value of an answer that fits. Called natively."""
        return self._read(text)


def _through_pydantic(annotation: Any) -> tuple[dict[str, Any], Callable[[str], Any]] | None:
    try:
        import pydantic
    except ImportError:
        return None
    try:
        adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(annotation)
        return adapter.json_schema(), adapter.validate_json
    except pydantic.errors.PydanticUserError:
        return None


def _by_annotations(annotation: Any) -> tuple[dict[str, Any], Callable[[str], Any]]:
    from turntree.upp._signature import checked_value, schema_of_annotation

    schema = schema_of_annotation(annotation, "structure")
    return schema, lambda text: checked_value(json.loads(text), annotation, "the answer")


def _violations(error: ValueError) -> list[Violation]:
    if not hasattr(error, "errors"):
        return [("", "type", str(error))]
    problems = cast("Any", error).errors(include_url=False, include_context=False)
    return [(_pointer(problem["loc"]), str(problem["type"]), str(problem["msg"])) for problem in problems]


def _pointer(location: tuple[str | int, ...]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in location)
