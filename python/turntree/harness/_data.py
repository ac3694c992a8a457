"""The methods of pydantic models for the data classes of this package."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import os
import re
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, Union, cast, get_args, get_origin, get_type_hints

from turntree._typing import Self
from turntree.exceptions import SerializationError, ValidationError

_Place = tuple["str | int", ...]

_NAMES = {str: "a string", int: "an integer", float: "a number", bool: "true or false", Path: "a path"}
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", Path: "string"}


class DataModel:
    """Base of data classes: the methods of a pydantic model.

    Values compare by content, can be pickled and copied, and are hashable. All classes can be fields of pydantic
    models, and types in a ``TypeAdapter`` and in FastAPI signatures.
    """

    __slots__ = ()

    # Whether keys that are no attributes are an error: for what a program writes, and not for what it reads.
    _is_closed: ClassVar[bool] = False

    def model_dump(
        self,
        *,
        mode: Literal["python", "json"] = "python",
        by_alias: bool = True,
        exclude_none: bool = False,
    ) -> dict[str, Any]:
        """Return the value as a dict.

        Args:
            mode: With ``"json"``, paths are strings.
            by_alias: No effect: the keys are the names of the attributes.
            exclude_none: Whether to omit attributes that are None.
        """
        del by_alias
        if mode not in ("python", "json"):
            raise ValueError(f'mode must be "python" or "json", not {mode!r}')
        found = {name: _dumped(getattr(self, name), mode, exclude_none) for name in _fields(type(self))}
        return {name: value for name, value in found.items() if value is not None or not exclude_none}

    def model_dump_json(self, *, indent: int | None = None, by_alias: bool = True, exclude_none: bool = False) -> str:
        """Return the value as JSON text.

        Args:
            indent: The spaces of each level. Default: all in one line.
            by_alias: As for `model_dump`.
            exclude_none: As for `model_dump`.

        Raises:
            SerializationError: A value has no form in JSON.
        """
        plain = self.model_dump(mode="json", by_alias=by_alias, exclude_none=exclude_none)
        separators = (",", ":") if indent is None else (",", ": ")
        try:
            return json.dumps(plain, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise SerializationError(f"{type(self).__name__}: {error}") from error

    @classmethod
    def model_validate(cls, obj: object) -> Self:
        """Create a value from an instance or from plain data.

        Args:
            obj: An instance, or a dict.

        Raises:
            ValidationError: A value is missing or has the wrong type.
        """
        return cast("Self", _read_class(cls, obj, ()))

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray) -> Self:
        """Create a value from JSON text.

        Args:
            json_data: The text, or its bytes in UTF-8.

        Raises:
            ValidationError: The text is not JSON, or a value is missing or has the wrong type.
        """
        if isinstance(json_data, Mapping):
            raise TypeError("json_data must be str or bytes; use model_validate for a dict")
        return cls.model_validate(_parsed(json_data))

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of the class."""
        definitions: dict[str, Any] = {}
        schema = _schema_of_class(cls, definitions)
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **schema,
            **({"$defs": definitions} if definitions else {}),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain data."""
        return self.model_dump(mode="json")

    def to_json(self) -> str:
        """Return the value as compact JSON text."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, data: str | bytes | bytearray | Mapping[str, Any]) -> Self:
        """Create a value from JSON text or from a dict.

        Args:
            data: The text or the dict.

        Raises:
            ValidationError: As for `model_validate_json`.
        """
        return cls.model_validate(data) if isinstance(data, Mapping) else cls.model_validate_json(data)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        """Return the core schema of the class, for pydantic."""
        from turntree._pydantic import core_schema_of

        return core_schema_of(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: object, handler: Any) -> dict[str, Any]:
        """Return the JSON Schema of the class, for pydantic."""
        from turntree._pydantic import json_schema_of

        return json_schema_of(cls, handler)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _fields(type(self)))

    def __hash__(self) -> int:
        return hash((type(self), *(_frozen(getattr(self, name)) for name in _fields(type(self)))))


def _fields(cls: type[Any]) -> dict[str, bool]:
    """The public attributes of a class, and whether each is required."""
    if not dataclasses.is_dataclass(cls):
        return {name: name not in cls._field_defaults for name in cls._fields}
    missing = dataclasses.MISSING
    return {
        field.name: field.default is missing and field.default_factory is missing
        for field in dataclasses.fields(cls)
        if not field.name.startswith("_")
    }


_HINTS: dict[type[Any], dict[str, Any]] = {}


def _hints(cls: type[Any]) -> dict[str, Any]:
    if cls not in _HINTS:
        _HINTS[cls] = get_type_hints(cls)
    return _HINTS[cls]


def _dumped(value: Any, mode: str, exclude_none: bool) -> Any:  # noqa: FBT001
    if isinstance(value, DataModel):
        return value.model_dump(mode=cast("Any", mode), exclude_none=exclude_none)
    if isinstance(value, list):
        return [_dumped(item, mode, exclude_none) for item in cast("list[Any]", value)]
    if isinstance(value, Path):
        return str(value) if mode == "json" else value
    if isinstance(value, Mapping):
        return {key: copy.deepcopy(item) for key, item in cast("Mapping[str, Any]", value).items()}
    return value


def _frozen(value: Any) -> object:
    """A hashable form of a value: that of equal values is equal."""
    if isinstance(value, Mapping):
        return frozenset((key, _frozen(item)) for key, item in cast("Mapping[Any, Any]", value).items())
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item) for item in cast("Iterable[Any]", value))
    return cast("object", value)


def _refuse(place: _Place, message: str, value: object, kind: str = "invalid") -> NoReturn:
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in place)
    pointer = "".join(f"/{step}" for step in steps)
    details = {"loc": place, "pointer": pointer, "type": kind, "msg": message, "input": value}
    raise ValidationError(f"{pointer}: {message}" if pointer else message, [cast("Any", details)])


def _parsed(data: str | bytes | bytearray) -> object:
    text = ""
    try:
        text = data if isinstance(data, str) else bytes(data).decode()
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        kind = "invalid_utf8" if isinstance(error, UnicodeDecodeError) else "json_invalid"
        if isinstance(error, json.JSONDecodeError) and error.pos >= len(text.rstrip()):
            kind = "json_truncated"
        _refuse((), f"not valid JSON: {error}", None, kind)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _got(value: object) -> str:
    return "null" if value is None else f"{type(value).__name__} {value!r:.100}"


def _read_class(cls: type[Any], value: Any, place: _Place) -> Any:
    if isinstance(value, cls):
        return value
    if not isinstance(value, Mapping):
        _refuse(place, f"expected an object, got {_got(value)}", value)
    members = cast("Mapping[Any, Any]", value)
    fields, hints = _fields(cls), _hints(cls)
    unknown = next((key for key in members if key not in fields), None) if cls._is_closed else None
    if unknown is not None:
        _refuse((*place, str(unknown)), f"unknown key; expected one of {', '.join(fields)}", members[unknown])
    found: dict[str, Any] = {}
    for name, is_required in fields.items():
        if name in members:
            found[name] = _read(hints[name], members[name], (*place, name))
        elif is_required:
            _refuse(place, f'"{name}" is missing; add it', members)
    return cls(**found)


def _read(hint: Any, value: Any, place: _Place) -> Any:
    """Read a value by the annotation of its attribute."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _read(next(option for option in arguments if option is not type(None)), value, place)
    if origin is Literal:
        if value not in arguments:
            _refuse(place, f"expected one of {', '.join(map(repr, arguments))}, got {_got(value)}", value)
        return value
    if origin is list:
        if not isinstance(value, (list, tuple)):
            _refuse(place, f"expected an array, got {_got(value)}", value)
        items = enumerate(cast("Iterable[Any]", value))
        return [_read(arguments[0], item, (*place, index)) for index, item in items]
    if origin is not None:
        return _read_mapping(value, place)
    return value if hint is Any else _read_plain(hint, value, place)


def _read_mapping(value: Any, place: _Place) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        _refuse(place, f"expected an object, got {_got(value)}", value)
    members = cast("Mapping[Any, Any]", value)
    for key in members:
        if not isinstance(key, str):
            _refuse(place, f"expected keys that are strings, got {_got(key)}", members)
    return dict(members)


def _read_plain(hint: Any, value: Any, place: _Place) -> Any:
    if issubclass(hint, DataModel):
        return _read_class(hint, value, place)
    if hint is Path and isinstance(value, (str, os.PathLike)):
        return Path(cast("str", value))
    expected: Any = (int, float) if hint is float else hint
    if not isinstance(value, expected) or (isinstance(value, bool) and hint is not bool):
        _refuse(place, f"expected {_NAMES[hint]}, got {_got(value)}", value)
    return value


def _schema_of_class(cls: type[Any], definitions: dict[str, Any]) -> dict[str, Any]:
    fields, hints = _fields(cls), _hints(cls)
    texts = _descriptions(cls)
    properties = {name: {**_schema(hints[name], definitions), **texts.get(name, {})} for name in fields}
    required = [name for name, is_required in fields.items() if is_required]
    closed = {"additionalProperties": False} if cls._is_closed else {}
    return {"title": cls.__name__, "type": "object", "properties": properties, "required": required, **closed}


def _descriptions(cls: type[Any]) -> dict[str, dict[str, str]]:
    """The texts of the attributes in the docstring."""
    _, _, attributes = (inspect.getdoc(cls) or "").partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n {6,}.*)*)", attributes, re.MULTILINE)
    return {name: {"description": " ".join(text.split())} for name, text in found}


def _schema(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        options = [_schema(option, definitions) for option in arguments if option is not type(None)]
        return {"anyOf": [*options, {"type": "null"}]}
    if origin is Literal:
        return {"enum": list(arguments), "type": "string"}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is not None:
        return {"type": "object"}
    if hint is Any:
        return {}
    if issubclass(hint, DataModel):
        definitions.setdefault(hint.__name__, _schema_of_class(hint, definitions))
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return {"type": _TYPES[hint]}
