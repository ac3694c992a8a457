"""Data classes for the functions of `dataclasses`, `copy.replace` and `pprint`.

FastAPI accepts a class as a body only if it is a dataclass or a model.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Parameters:
    """The ``__dataclass_params__`` of data classes. `pprint` prints objects by their own repr."""

    init: bool = True
    repr: bool = False
    eq: bool = False
    order: bool = False
    unsafe_hash: bool = False
    frozen: bool = True


# Members that have one value for each class, or that others determine.
_DETERMINED = frozenset({"type", "action_type", "version", "content"})
# Python has `copy.replace` from 3.13 on.
_REMEDY = "use_copy_replace" if sys.version_info >= (3, 13) else "use___replace__"


class Fields:
    """A descriptor that creates the ``__dataclass_fields__`` of a class at each access."""

    def __get__(self, instance: object, owner: type[Any]) -> dict[str, Any]:
        """Return a field for each attribute that is a member of the class's JSON.

        `dataclasses.replace` passes those fields to the constructor that are its parameters. Other fields of the object
        must be empty, as the cycles of a `TokenUsage`, or it raises an error that names ``__replace__``,
        which also keeps members that the class does not know.
        """
        import dataclasses
        import inspect
        import typing

        from turntree._dataclass_fields import fields_of

        parameters = inspect.signature(owner).parameters
        takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        members = _aliases(owner)
        # Classes of UAMP have their members as attributes of objects alone.
        found = [name for name in members if hasattr(owner if instance is None else instance, name)]
        fields: dict[str, tuple[Any, dict[str, Any]]] = {}
        for name in found or members:
            is_parameter = takes_all or name in parameters
            fields[name] = (typing.Any, {"init": is_parameter})
            if not is_parameter and name not in _DETERMINED and getattr(instance, name, None):
                fields[f"{_REMEDY}_for_{name}"] = (dataclasses.InitVar[typing.Any], {})
        return fields_of(owner, fields)


def complete(base: Any) -> None:
    """Add the functions of this module to the base of all data classes, and constructors to classes without one."""
    base.__dataclass_params__ = Parameters()
    base.__dataclass_fields__ = Fields()
    base.__replace__ = _replaced
    found = list(base.__subclasses__())
    while found:
        data_class: Any = found.pop()
        subclasses = data_class.__subclasses__()
        found += subclasses
        # The attributes of an ImageEvent are not those of its JSON.
        if "__new__" not in vars(data_class) and not subclasses and data_class.__name__ != "ImageEvent":
            data_class.__new__ = _new


def share(immutable: Any) -> None:
    """Let `copy.copy` and `copy.deepcopy` return the object itself, not one made by its pickle, which has no keys."""
    immutable.__copy__ = _itself
    immutable.__deepcopy__ = _itself_deeply


def _itself(self: object) -> object:
    return self


def _itself_deeply(self: object, memo: object) -> object:
    return self


def _new(cls: type, **fields: object) -> object:
    """Create an object from its attributes. Missing ones have their defaults.

    Raises:
        TypeError: The class has no such attribute.
        ValidationError: A value is invalid, or a required one is missing.
    """
    from turntree.exceptions import ValidationError

    data_class: Any = cls
    try:
        return data_class.model_validate(_renamed(data_class, fields))
    except ValidationError as error:
        names = {key: name for name, key in _aliases(data_class).items()}
        schema: dict[str, Any] = data_class.model_json_schema()
        is_determined = isinstance(data_class.__dict__.get("type"), str)
        keys = [key for key in _required(schema, schema) if key != "type" or not is_determined]
        required = [names[key] for key in keys]
        missing = [name for name in required if name not in fields]
        if not missing:
            raise
        needs = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        call = f"{data_class.__name__}({', '.join(f'{name}=…' for name in required)})"
        message = f"{data_class.__name__}() needs {needs}; write {call}"
        raise ValidationError(message, error.errors()) from None


def _required(shape: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """Return the members that a shape must have: of a union, those that all of its shapes must have."""
    if "$ref" in shape:
        return _required(schema["$defs"][shape["$ref"].rpartition("/")[2]], schema)
    shapes: list[dict[str, Any]] = [*shape.get("anyOf", ()), *shape.get("oneOf", ())]
    if not shapes:
        return list(shape.get("required", ()))
    first, *others = (_required(one, schema) for one in shapes)
    return [key for key in first if all(key in other for other in others)]


def _replaced(self: object, /, **changes: object) -> object:
    """Return a copy with other values of some attributes, as `copy.replace` does.

    Raises:
        TypeError: The class has no such attribute.
        ValidationError: A value is invalid.
    """
    data: Any = self
    cls: Any = data.__class__
    return cls.model_validate({**data.to_dict(), **_renamed(cls, changes)})


def _renamed(cls: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields under the names of the JSON."""
    aliases = _aliases(cls)
    for name in fields:
        if name not in aliases:
            from difflib import get_close_matches

            near = "".join(f"; did you mean {one}=?" for one in get_close_matches(name, aliases, 1))
            message = f"{cls.__name__} has no attribute {name!r}; its attributes are {', '.join(aliases)}{near}"
            raise TypeError(message)
    # A union of shapes, as of events, has no member for an attribute that is None.
    optional = "properties" not in cls.model_json_schema()
    return {aliases[name]: value for name, value in fields.items() if value is not None or not optional}


def _aliases(cls: Any) -> dict[str, str]:
    """Return the names in JSON by the names of the attributes."""
    try:
        schema: dict[str, Any] = cls.model_json_schema()
    except TypeError as error:
        # The base class of all data classes has no fields. `inspect` and `pydoc` ask it for them.
        raise AttributeError("__dataclass_fields__") from error
    import re  # `import turntree` does not load it

    keys: dict[str, None] = {}
    shapes: list[dict[str, Any]] = [schema]
    for shape in shapes:  # It grows: a union of shapes can be nested.
        keys |= dict.fromkeys(shape.get("properties", {}))
        if "$ref" in shape:
            shapes.append(schema["$defs"][shape["$ref"].rpartition("/")[2]])
        shapes += [*shape.get("anyOf", ()), *shape.get("oneOf", ())]
    return {re.sub(r"(?<!^)([A-Z])", r"_\1", key).lower(): key for key in keys}
