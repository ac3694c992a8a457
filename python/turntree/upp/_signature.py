"""JSON Schema of a function's signature, and validation of arguments.

Imported at the first use of a schema, so that ``import turntree`` is fast.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import inspect
import re
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, Literal, Union, cast, get_args, get_origin
from weakref import WeakKeyDictionary

_PLAIN: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_REQUIRED = inspect.Parameter.empty


class ArgumentError(ValueError):
    """The arguments of a tool call are invalid. The model receives the message.

    Attributes:
        violations: The JSON pointer, the rule and the message of each problem; empty if only the message is known.
    """

    def __init__(self, message: str, violations: Sequence[tuple[str, str, str]] = ()) -> None:
        super().__init__(message)
        self.violations = list(violations)


class Signature:
    """The signature of a tool: its schema, the validation of arguments, and the call.

    Args:
        function: The function of the tool.
        schema: A schema that the author wrote. The native core then validates the arguments. None: derive it from the
            signature.
        state: Whether a parameter that is annotated ``State``, or named ``state`` without an annotation, receives the
            state of a workflow's session and is not part of the schema.
    """

    def __init__(self, function: Callable[..., Any], schema: dict[str, Any] | None, *, state: bool = False) -> None:
        self._function = function
        self._takes_state = state
        self.state_parameter: str | None = None
        self.has_custom_schema = schema is not None
        self.is_async = _is_async(function)
        self.context_parameter: str | None = None
        if schema is not None:
            self._parameters()
            self._check = None
            self.schema = schema
            return
        derived = None if state else _derived_from(function)
        if derived is None:
            parameters, descriptions = self._parameters(), _descriptions(function)
            with_pydantic = _pydantic_checker(function, parameters, descriptions)
            derived = (with_pydantic or _AnnotationChecker(parameters, descriptions), self.context_parameter)
            if not state:
                _store_derived(function, derived)
        checker, self.context_parameter = derived
        self._check = checker.check
        # A copy, because applications may change the schema of one tool.
        self.schema = copy.deepcopy(checker.schema)

    def _parameters(self) -> dict[str, tuple[Any, Any]]:
        """Return annotation and default of each parameter for the model. Sets the context parameter."""
        try:
            signature = inspect.signature(self._function)
        except (TypeError, ValueError):
            return {}
        hints = _hints(self._function)
        parameters: dict[str, tuple[Any, Any]] = {}
        for name, parameter in signature.parameters.items():
            annotation = hints.get(name, parameter.annotation)
            if _is_context(annotation):
                self.context_parameter = name
                continue
            if self._takes_state and _is_state(name, annotation):
                self.state_parameter = name
                continue
            if self.has_custom_schema:
                continue
            _check_context(self._function, name, annotation)
            if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
                message = (
                    f"parameter {name!r} of tool {_name(self._function)!r} cannot be given by name; "
                    "write it as an ordinary parameter"
                )
                raise TypeError(message)
            parameters[name] = (Any if annotation is _REQUIRED else annotation, parameter.default)
        return parameters

    def call(self, arguments: dict[str, Any], context: Any, state: Any = None) -> Any:
        """Check the arguments and call the function."""
        checked = arguments if self._check is None else self._check(arguments)
        if self.context_parameter is not None:
            checked = {**checked, self.context_parameter: context}
        if self.state_parameter is not None:
            checked = {**checked, self.state_parameter: state}
        if self.has_custom_schema and self._takes_one_dict():
            return self._function(checked)
        return self._function(**checked)

    def _takes_one_dict(self) -> bool:
        """True if the only parameter is a dict of all arguments (``params``), as in the examples of UPP-1.2."""
        injected = {self.context_parameter, self.state_parameter}
        try:
            parameters = inspect.signature(self._function).parameters
        except (TypeError, ValueError):
            return False
        names = [name for name in parameters if name not in injected]
        if len(names) != 1 or parameters[names[0]].kind is inspect.Parameter.VAR_KEYWORD:
            return False
        return names[0] in {"params", "arguments", "args"} and names[0] not in self.schema.get("properties", {})


# The checker and the context parameter of each function: deriving them takes 0.1 to 0.5 ms. Checkers do not refer to
# the function, so that it can be freed.
_derived: WeakKeyDictionary[Any, tuple[_PydanticChecker | _AnnotationChecker, str | None]] = WeakKeyDictionary()


def _derived_from(function: Callable[..., Any]) -> tuple[_PydanticChecker | _AnnotationChecker, str | None] | None:
    """Return what was derived from the function before; None for the first tool of a function."""
    try:
        return _derived.get(function)
    except TypeError:
        return None  # The function cannot be hashed or has no weak references.


def _store_derived(
    function: Callable[..., Any], derived: tuple[_PydanticChecker | _AnnotationChecker, str | None]
) -> None:
    with contextlib.suppress(TypeError):
        _derived[function] = derived


def _is_context(annotation: Any) -> bool:
    """True for ``ToolContext`` and ``ToolContext[Deps]``, also as text that exists for type checkers only."""
    return _class_name(annotation) == "ToolContext" and not _module_of(annotation).startswith(_PEERS)


# What is injected into tools, by its class in other libraries and in turntree.
_CONTEXTS = frozenset(
    {"RunContext", "RunContextWrapper", "ToolContext", "ToolRuntime", "RunnableConfig", "InvocationContext"}
    | {
        "CallbackContext",
        "ReadonlyContext",
        "Context",
        "Runtime",
        "InjectedState",
        "InjectedStore",
        "InjectedToolCallId",
    }
)
_PEERS = ("pydantic_ai.", "agents.", "agno.", "langchain", "langgraph.", "google.adk.", "mcp.", "fastmcp.")
_ONLY_CONTEXT = frozenset({"ctx", "run_context", "tool_context"})


def _class_name(annotation: Any) -> str:
    name = getattr(annotation, "__name__", annotation)
    return name.partition("[")[0].rpartition(".")[2] if isinstance(name, str) else ""


def _module_of(annotation: Any) -> str:
    return str(getattr(get_origin(annotation) or annotation, "__module__", ""))


def _check_context(function: Callable[..., Any], name: str, annotation: Any) -> None:
    """Refuse a context of another library, which the model would have to give as an argument.

    Raises:
        TypeError: The parameter has one.
    """
    place = f"parameter {name!r} of tool {_name(function)!r}"
    remedy = f"write {name}: turntree.ToolContext, which has deps"
    if annotation is _REQUIRED and name in _ONLY_CONTEXT:
        message = f"{place} has no annotation: {remedy}, or the type of an argument from the model"
        raise TypeError(message)
    extras = get_args(annotation)[1:] if get_origin(annotation) is typing.Annotated else ()
    for kind in (annotation, *(extra if isinstance(extra, type) else type(extra) for extra in extras)):
        found, module = _class_name(kind), _module_of(kind)
        if found not in _CONTEXTS:
            continue
        if module == "turntree":
            message = f"{place} has the type {found}, which toolsets, system= and output_validators receive; {remedy}"
            raise TypeError(message)
        if module.startswith(_PEERS):
            message = f"{place} has the type {found} of {module.partition('.')[0]}; {remedy}"
            raise TypeError(message)
        if isinstance(kind, str):  # The name of a class that exists for type checkers only.
            message = f"{place} has the type {found}; {remedy}"
            raise TypeError(message)


def _is_state(name: str, annotation: Any) -> bool:
    if annotation is _REQUIRED:
        return name == "state"
    return bool(getattr(annotation, "__name__", annotation) == "State")


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _is_async(function: Callable[..., Any]) -> bool:
    target = inspect.unwrap(function)
    while isinstance(target, types.MethodType) or hasattr(target, "func"):
        wrapper = cast("Any", target)
        target = getattr(wrapper, "__func__", None) or wrapper.func
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(target, "__call__", None))  # noqa: B004


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = function if hasattr(function, "__annotations__") else getattr(function, "__call__", function)  # noqa: B004
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError):
        # Some names exist for type checkers only. Use the annotations that are not strings.
        return {
            name: hint for name, hint in getattr(target, "__annotations__", {}).items() if not isinstance(hint, str)
        }


def _descriptions(function: Callable[..., Any]) -> dict[str, str]:
    """Return the descriptions of parameters from the ``Args:`` section of a Google-style docstring."""
    pattern = r"^\s*(?:Args|Arguments|Parameters):\s*\n(.*?)(?:\n\s*\n|\Z)"
    section = re.search(pattern, function.__doc__ or "", re.S | re.M)
    if section is None:
        return {}
    descriptions: dict[str, str] = {}
    name = ""
    for line in section.group(1).splitlines():
        entry = re.match(r"\s*(\w+)\s*(?:\([^)]*\))?:\s*(.+)", line)
        if entry is not None:
            name = entry.group(1)
            descriptions[name] = entry.group(2).strip()
        elif name:
            descriptions[name] = f"{descriptions[name]} {line.strip()}".strip()
    return descriptions


def _pydantic_checker(
    function: Callable[..., Any], parameters: dict[str, tuple[Any, Any]], descriptions: dict[str, str]
) -> _PydanticChecker | None:
    """Return a checker that uses pydantic; None if it is not installed or does not support an annotation."""
    try:
        import pydantic
    except ImportError:
        return None
    try:
        return _PydanticChecker(function, parameters, descriptions)
    except (pydantic.errors.PydanticUserError, pydantic.errors.PydanticInvalidForJsonSchema):
        return None


class _PydanticChecker:
    """Derives the schema and validates arguments by a pydantic model of the parameters."""

    def __init__(
        self, function: Callable[..., Any], parameters: dict[str, tuple[Any, Any]], descriptions: dict[str, str]
    ) -> None:
        import pydantic

        fields: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        for index, (name, (annotation, default)) in enumerate(parameters.items()):
            # Generated field names allow parameters such as `schema` and `_x`; the schema has the alias.
            field = f"parameter_{index}"
            self._names[field] = name
            value = ... if default is _REQUIRED else default
            fields[field] = (annotation, pydantic.Field(value, alias=name, description=descriptions.get(name)))
        config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=False, title=_name(function))
        model = pydantic.create_model(_name(function), __config__=config, **fields)
        schema = model.model_json_schema()
        schema.pop("title", None)
        for name, (_, _) in parameters.items():
            schema["properties"][name].pop("title", None)
        schema.setdefault("properties", {})
        self.schema: dict[str, Any] = schema
        self._model = model
        self._invalid = pydantic.ValidationError

    def check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            checked = self._model.model_validate(arguments)
        except self._invalid as error:
            details = error.errors()
            problems = [
                f"{'.'.join(str(step) for step in problem['loc']) or 'arguments'}: {problem['msg']}"
                for problem in details
            ]
            violations = [
                ("".join(f"/{step}" for step in problem["loc"]), str(problem["type"]), str(problem["msg"]))
                for problem in details
            ]
            raise ArgumentError("Invalid arguments. " + "; ".join(problems), violations) from error
        return {
            name: getattr(checked, field) for field, name in self._names.items() if field in checked.model_fields_set
        }


class _AnnotationChecker:
    """Derives the schema and validates arguments by the annotations, without pydantic."""

    def __init__(self, parameters: dict[str, tuple[Any, Any]], descriptions: dict[str, str]) -> None:
        self._parameters = parameters
        properties: dict[str, Any] = {}
        for name, (annotation, default) in parameters.items():
            schema: dict[str, Any] = schema_of_annotation(annotation, name)
            if name in descriptions:
                schema = {**schema, "description": descriptions[name]}
            if default is not _REQUIRED and isinstance(default, str | int | float | bool | list | dict | None):
                schema = {**schema, "default": default}
            properties[name] = schema
        required = [name for name, (_, default) in parameters.items() if default is _REQUIRED]
        self.schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            self.schema["required"] = required

    def check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        problems = [f"{name}: unknown argument" for name in arguments if name not in self._parameters]
        checked: dict[str, Any] = {}
        for name, (annotation, default) in self._parameters.items():
            if name not in arguments:
                if default is _REQUIRED:
                    problems.append(f"{name}: missing")
                continue
            try:
                checked[name] = checked_value(arguments[name], annotation, name)
            except ArgumentError as error:
                problems.append(str(error))
        if problems:
            raise ArgumentError("Invalid arguments. " + "; ".join(problems))
        return checked


def schema_of_annotation(annotation: Any, name: str) -> dict[str, Any]:
    """Return the JSON Schema of an annotation.

    Raises:
        TypeError: The annotation has no JSON Schema.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return {}
    if annotation in _PLAIN:
        return {"type": _PLAIN[annotation]}
    if origin is typing.Annotated:
        text = [extra for extra in arguments[1:] if isinstance(extra, str)]
        return {**schema_of_annotation(arguments[0], name), **({"description": text[0]} if text else {})}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in {Union, types.UnionType}:
        return {"anyOf": [schema_of_annotation(argument, name) for argument in arguments]}
    if annotation in {list, tuple, set} or origin in {list, set, tuple}:
        items = [argument for argument in arguments if argument is not ...]
        return (
            {"type": "array", "items": schema_of_annotation(items[0], name)} if len(items) == 1 else {"type": "array"}
        )
    if annotation is dict or origin is dict:
        return {
            "type": "object",
            **({"additionalProperties": schema_of_annotation(arguments[1], name)} if arguments else {}),
        }
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return {"enum": [member.value for member in annotation]}
    members = _members(annotation)
    if members is not None:
        properties = {key: schema_of_annotation(hint, key) for key, (hint, _) in members.items()}
        required = [key for key, (_, is_required) in members.items() if is_required]
        return {"type": "object", "properties": properties, "required": required}
    remedy = "install turntree[pydantic] or annotate plain types"
    message = f"parameter {name!r}: {annotation!r} has no JSON Schema; {remedy}"
    raise TypeError(message)


def _members(annotation: Any) -> dict[str, tuple[Any, bool]] | None:
    """Return the members of a dataclass or a TypedDict: the annotation, and if the member is required."""
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        hints = typing.get_type_hints(annotation)
        missing = dataclasses.MISSING
        return {
            field.name: (hints[field.name], field.default is missing and field.default_factory is missing)
            for field in dataclasses.fields(annotation)
        }
    if typing.is_typeddict(annotation):
        required: frozenset[str] = cast("Any", annotation).__required_keys__
        return {key: (hint, key in required) for key, hint in typing.get_type_hints(annotation).items()}
    return None


def checked_value(value: Any, annotation: Any, place: str) -> Any:
    """Convert a JSON value to the type of its annotation.

    Raises:
        ArgumentError: The value does not match; the message starts with `place`.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return value
    if origin is typing.Annotated:
        return checked_value(value, arguments[0], place)
    if annotation is float and type(value) is int:
        return float(value)
    if annotation in _PLAIN:
        if type(value) is annotation:
            return value
        raise ArgumentError(f"{place}: expected {_PLAIN[annotation]}, got {type(value).__name__}")
    if origin is Literal:
        if value in arguments:
            return value
        raise ArgumentError(f"{place}: expected one of {', '.join(map(repr, arguments))}, got {value!r}")
    if origin in {Union, types.UnionType}:
        return _checked_union(value, arguments, place)
    if annotation in {list, tuple, set} or origin in {list, set, tuple}:
        if not isinstance(value, list):
            raise ArgumentError(f"{place}: expected array, got {type(value).__name__}")
        inner = next((argument for argument in arguments if argument is not ...), Any)
        values = cast("list[Any]", value)
        items = [checked_value(item, inner, f"{place}[{index}]") for index, item in enumerate(values)]
        return cast("Any", origin or annotation)(items)
    if annotation is dict or origin is dict:
        if not isinstance(value, dict):
            raise ArgumentError(f"{place}: expected object, got {type(value).__name__}")
        inner = arguments[1] if arguments else Any
        members = cast("dict[str, Any]", value)
        return {key: checked_value(item, inner, f"{place}.{key}") for key, item in members.items()}
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        try:
            return annotation(value)
        except ValueError as error:
            raise ArgumentError(f"{place}: {error}") from error
    return _checked_members(value, annotation, place)


def _checked_union(value: Any, alternatives: tuple[Any, ...], place: str) -> Any:
    problems: list[str] = []
    for alternative in alternatives:
        try:
            return checked_value(value, alternative, place)
        except ArgumentError as error:
            problems.append(str(error))
    raise ArgumentError(problems[0])


def _checked_members(value: Any, annotation: Any, place: str) -> Any:
    members = _members(annotation) or {}
    if not isinstance(value, dict):
        raise ArgumentError(f"{place}: expected object, got {type(value).__name__}")
    values = cast("dict[str, Any]", value)
    missing = [key for key, (_, is_required) in members.items() if is_required and key not in values]
    unknown = [key for key in values if key not in members]
    if missing or unknown:
        problems = [f"{key} is missing" for key in missing] + [f"{key} is unknown" for key in unknown]
        raise ArgumentError(f"{place}: {', '.join(problems)}")
    checked = {key: checked_value(item, members[key][0], f"{place}.{key}") for key, item in values.items()}
    return annotation(**checked)
