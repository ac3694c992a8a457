"""The functions with which Python programs and people look at objects work on every public name."""

import copy
import dataclasses
import importlib
import inspect
import io
import pkgutil
import pprint
import pydoc
import sys
import typing

import pytest
import rich.console
from pydantic import TypeAdapter
from test_data_face import TIME, samples

import turntree
from turntree import Limits, thread_protocol, uamp, upp
from turntree.models import ModelSettings
from turntree.upp import CycleUsage, Text, TokenUsage, UserMessage


def modules():
    """The public modules that can be imported here."""
    yield turntree
    for found in pkgutil.walk_packages(turntree.__path__, "turntree."):
        if any(part.startswith("_") for part in found.name.split(".")) or found.name == "turntree.exceptions":
            continue
        try:
            yield importlib.import_module(found.name)
        except ImportError:
            assert found.name.startswith("turntree.durable.")  # The engine is not installed.


def public_objects():
    for module in modules():
        for name in module.__all__:
            if name == "__version__":
                continue
            yield pytest.param(getattr(module, name), id=f"{module.__name__}.{name}")


def is_ours(owner):
    return owner.__module__.partition(".")[0] == "turntree"


def functions_of(value):
    yield value
    if inspect.isclass(value):
        members = {
            name: member for owner in reversed(value.__mro__) if is_ours(owner) for name, member in vars(owner).items()
        }
        for name, member in members.items():
            function = member.fget if isinstance(member, property) else getattr(value, name)
            if inspect.isroutine(function) and (not name.startswith("_") or name == "__init__"):
                yield function


@pytest.mark.parametrize("value", list(public_objects()))
def test_python_can_look_at_every_public_object(value):
    rich.console.Console(file=io.StringIO()).print(value)
    assert pprint.pformat(value)
    assert dir(value)
    if typing.get_origin(value) is not None:
        return  # An alias of a type of Python.
    assert pydoc.render_doc(value)
    for function in functions_of(value):
        if inspect.isclass(function) or inspect.isfunction(function):
            typing.get_type_hints(function)
        is_plain_dict = inspect.isclass(function) and issubclass(function, dict) and "__init__" not in vars(function)
        if callable(function) and not is_plain_dict:  # Python has no signature of dict.
            inspect.signature(function)


@pytest.mark.parametrize("module", [pytest.param(module, id=module.__name__) for module in modules()])
def test_dir_of_a_module_shows_public_names_only(module):
    shown = {name for name in dir(module) if not name.startswith("_")}
    submodules = {name for name in shown if f"{module.__name__}.{name}" in sys.modules}

    assert shown - submodules == {name for name in module.__all__ if not name.startswith("_")} - submodules


@pytest.mark.parametrize("value", samples(), ids=lambda value: type(value).__name__)
def test_data_can_be_printed_and_replaced(value):
    rich.console.Console(file=io.StringIO(), width=20).print(value)

    assert pprint.pformat(value, width=10) == repr(value)
    assert value.__replace__() == value
    if sys.version_info >= (3, 13):
        assert copy.replace(value) == value


def test_replace_changes_one_attribute():
    message = UserMessage("Hi", id="u", timestamp=TIME, metadata={"a": {"b": 1}})

    changed = dataclasses.replace(message, content=[Text("Bye")])

    assert (changed.text, changed.id, changed.metadata) == ("Bye", "u", {"a": {"b": 1}})
    assert message.__replace__(id="v").id == "v"
    assert CycleUsage(input_tokens=1, output_tokens=2).__replace__(output_tokens=5).output_tokens == 5


def test_replace_refuses_what_it_cannot_do():
    with pytest.raises(TypeError, match="CycleUsage has no attribute 'inputs'; its attributes are input_tokens"):
        CycleUsage(inputs=1)
    used = TokenUsage(1, 2).__replace__(cycles=[CycleUsage(input_tokens=1)])
    # Python 3.14 raises a TypeError with the same name.
    with pytest.raises((TypeError, ValueError), match="replace_+for_cycles"):
        dataclasses.replace(used)
    with pytest.raises((TypeError, ValueError), match="replace_+for_nodes"):
        dataclasses.replace(turntree.ThreadTree())
    with pytest.raises(TypeError, match="TokenUsage\\(\\) has no argument 'inputs'"):
        dataclasses.replace(TokenUsage(1, 2), inputs=1)
    with pytest.raises(TypeError, match="Limits\\(\\) has no argument 'max_cost': write cost="):
        dataclasses.replace(Limits(), max_cost=1)
    with pytest.raises(ValueError, match="must not be negative"):
        dataclasses.replace(Limits(), cost=-1)


# Their constructors take the content alone, with new ids, times and nodes; or the type by position. Applications do not
# create an `ImageEvent`. An agent is no value: with_() makes copies.
NOT_REPLACED = (
    *(turntree.Agent, turntree.ThreadTree, turntree.ThreadNode, upp.Thread, upp.ImageEvent),
    *(uamp.ClientEvent, uamp.ServerEvent, uamp.SystemEvent, uamp.ContentItem),
)
ACTION = {"sequence": 1, "timestamp": TIME}
VALUES = [
    *samples(),
    Limits(requests=3, cost=0.5),
    ModelSettings(max_tokens=5, stop=["a"], raw=True),
    CycleUsage(input_tokens=1, total_input_tokens=1, reasoning_tokens=0, audio_tokens=0),
    thread_protocol.ToolCallAction("t", {"x": 1}, agent_id="a", tool_call_id="c"),
    thread_protocol.SystemAction.model_validate({**ACTION, "action_type": "system.note", "data": None}),
    thread_protocol.OtherAction.model_validate({**ACTION, "action_type": "other"}),
]


def smallest(shape, schema):
    """The data with the required members of a schema."""
    if "$ref" in shape:
        return smallest(schema["$defs"][shape["$ref"].rpartition("/")[2]], schema)
    if "const" in shape or "enum" in shape:
        return shape.get("const", shape.get("enum", [None])[0])
    if "oneOf" in shape or "anyOf" in shape:
        return smallest((shape.get("oneOf") or shape["anyOf"])[0], schema)
    if shape.get("type") == "object":
        return {name: smallest(shape["properties"][name], schema) for name in shape.get("required", ())}
    by_type = {"string": TIME, "integer": 1, "number": 1, "boolean": True, "array": [], "null": None}
    return by_type[shape.get("type", "null")]


def classes_with_replace():
    """Public classes that `copy.replace` takes, except those of Python's own kinds."""
    public = [parameter.values[0] for parameter in public_objects()]
    for owner in {value for value in public if inspect.isclass(value) and value not in NOT_REPLACED}:
        own_kind = "_fields" in vars(owner) or isinstance(vars(owner).get("__dataclass_fields__"), dict)
        if is_ours(owner) and hasattr(owner, "__replace__") and not own_kind:
            yield pytest.param(owner, id=f"{owner.__module__}.{owner.__name__}")


@pytest.mark.parametrize("owner", sorted(classes_with_replace(), key=lambda parameter: parameter.id))
def test_dataclasses_replaces_what_copy_replaces(owner):
    found = [value for value in VALUES if isinstance(value, owner)]
    if not found:
        schema = owner.model_json_schema()
        found = [owner.model_validate(smallest(schema, schema))]
    for value in found:
        fields = [field.name for field in dataclasses.fields(value)]
        assert dataclasses.is_dataclass(owner) == dataclasses.is_dataclass(value)
        assert [name for name in fields if not hasattr(value, name)] == []
        assert dataclasses.replace(value) == value == value.__replace__()
        assert dataclasses.asdict(value).keys() == set(fields)


def test_limits_and_settings_are_data_classes():
    limits, settings = Limits(requests=3), ModelSettings(seed=1)

    assert dataclasses.replace(limits, cost=0.5) == Limits(requests=3, cost=0.5)
    assert dataclasses.replace(settings, stop="x") == ModelSettings(seed=1, stop="x")
    assert dataclasses.replace(TokenUsage(1, 2, 3), output_tokens=5).output_tokens == 5
    assert {field.default for field in dataclasses.fields(Limits)} == {None}
    assert [field.name for field in dataclasses.fields(ModelSettings)][:2] == ["max_tokens", "temperature"]
    assert dataclasses.asdict(limits)["requests"] == 3
    assert TypeAdapter(Limits).validate_python(limits) is limits
    assert repr(limits) == pprint.pformat(limits) == "Limits(requests=3)"
