"""The base class of all data, and the type aliases that every module uses."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from typing_extensions import Self, disjoint_base

# Any JSON value, where it is taken.
Json: TypeAlias = object

Metadata: TypeAlias = Mapping[str, Mapping[str, Json]]

DumpMode: TypeAlias = Literal["python", "json"]

def _restore(class_: type[Any], text: str, /) -> Any:
    """Restore a pickled value."""

@disjoint_base
class Data:
    """Base class of all data classes: an immutable handle to a shared Rust value, with the methods of a pydantic model.

    Values compare by content, can be pickled and copied, and are hashable, except threads. All classes can be fields of
    pydantic models, and types in a ``TypeAdapter`` and in FastAPI signatures. Attributes are converted at each access:
    a list or dict is a new object.
    """

    def model_dump(
        self, *, mode: DumpMode = "python", by_alias: bool = True, exclude_none: bool = False
    ) -> dict[str, Any]:
        """Return the value as a dict.

        Args:
            mode: "python" uses ``datetime`` and ``bytes`` for times and binary data, "json" uses texts.
            by_alias: True for the keys of the specification, False for the names of the Python attributes.
            exclude_none: Omit members that are None.

        Raises:
            ValueError: `mode` is unknown.
        """

    def model_dump_json(self, *, indent: int | None = None, by_alias: bool = True, exclude_none: bool = False) -> str:
        """Return the value as JSON text.

        Args:
            indent: Number of spaces per level; None for compact text.
            by_alias: True for the keys of the specification, False for the names of the Python attributes.
            exclude_none: Omit members that are None.
        """

    @classmethod
    def model_validate(cls, obj: object) -> Self:
        """Create a value from an instance or from plain data, with the keys of the specification or of Python.

        Raises:
            ValidationError: The data is invalid, nested too deeply, or has values without a JSON form, such as
                `object()`; the message names the path and the rule.
        """

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray) -> Self:
        """Create a value from JSON text.

        Raises:
            ValidationError: The text is not JSON, is too large or too deep, or is invalid.
        """

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of the class."""

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain data, with the keys of the specification."""

    def to_json(self) -> str:
        """Return the value as compact JSON text."""

    @classmethod
    def from_json(cls, data: str | bytes | bytearray | Mapping[str, Any]) -> Self:
        """Create a value from JSON text or from a dict.

        Raises:
            ValidationError: As `model_validate_json`.
        """

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        """Return the core schema of the class, for pydantic."""

    @classmethod
    def __get_pydantic_json_schema__(cls, _core_schema: Any, handler: Any) -> Any:
        """Return the JSON Schema of the class, for pydantic."""

    def __replace__(self, /, **changes: Any) -> Self:
        """Return a copy with other values of some attributes, as `copy.replace` does.

        Raises:
            TypeError: The class has no such attribute.
            ValidationError: A value is invalid.
        """

    def __reduce__(self) -> tuple[Any, ...]: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any = None) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def _repr_html_(self) -> str:
        """Return the value as HTML, for notebooks."""
    def _repr_markdown_(self) -> str | None:
        """Return the value as Markdown, for notebooks; None if it is not text."""
    def __rich_repr__(self) -> Any:
        """Return the parts of the repr, for rich."""
