"""The base class of all data, and the type aliases that every module uses."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from typing_extensions import Self, disjoint_base

Json: TypeAlias = Any

Metadata: TypeAlias = Mapping[str, Mapping[str, Json]]

DumpMode: TypeAlias = Literal["python", "json"]

def _restore(class_: type[Any], text: str, /) -> Any:
    """Rebuilds a pickled value."""

@disjoint_base
class Data:
    """Base class of everything that is data: frozen handles with the face of a pydantic model.

    Values compare by content, can be pickled and copied, and are hashable unless they grow (threads). Every class
    serves as a field of a pydantic model, in a ``TypeAdapter`` and in FastAPI signatures. Attributes are converted
    when they are read: a list or dict that one gives is the caller's own.
    """

    def model_dump(
        self, *, mode: DumpMode = "python", by_alias: bool = True, exclude_none: bool = False
    ) -> dict[str, Any]:
        """Give the value as a dict.

        Args:
            mode: "python" gives ``datetime`` and ``bytes`` where the specification has times and data, "json" texts.
            by_alias: Keys as the specification spells them; False for Python's names.
            exclude_none: Leave out members that are None.

        Raises:
            ValueError: `mode` is another word.
        """

    def model_dump_json(self, *, indent: int | None = None, by_alias: bool = True, exclude_none: bool = False) -> str:
        """Give the value as JSON text.

        Args:
            indent: Spaces a level; None for compact text.
            by_alias: Keys as the specification spells them; False for Python's names.
            exclude_none: Leave out members that are None.
        """

    @classmethod
    def model_validate(cls, obj: object) -> Self:
        """Make a value from an instance or from plain data, keys as the specification or as Python spells them.

        Raises:
            ValidationError: The data has another shape; the error names the place and the rule.
            TypeError: Something in it is not JSON.
        """

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray) -> Self:
        """Make a value from JSON text.

        Raises:
            ValidationError: Not JSON, too large or too deep, or of another shape.
        """

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """JSON Schema (2020-12) of the class."""

    def to_dict(self) -> dict[str, Any]:
        """The value as plain Python data, with the specification's keys."""

    def to_json(self) -> str:
        """The value as compact JSON text."""

    @classmethod
    def from_json(cls, data: str | bytes | bytearray | Mapping[str, Any]) -> Self:
        """Make a value from JSON text or from a dict.

        Raises:
            ValidationError: As `model_validate_json`.
        """

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        """Give pydantic the schema of the class; only pydantic calls it."""

    @classmethod
    def __get_pydantic_json_schema__(cls, _core_schema: Any, handler: Any) -> Any:
        """Give pydantic the JSON Schema of the class; only pydantic calls it."""

    def __reduce__(self) -> tuple[Any, ...]: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any = None) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def _repr_html_(self) -> str:
        """The value as HTML, for notebooks."""
