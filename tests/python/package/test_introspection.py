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
from test_data_face import TIME, samples

import turntree
from turntree import upp
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
    if not isinstance(value, (upp.Thread, upp.ImageEvent, TokenUsage)):
        assert dataclasses.replace(value) == value


def test_replace_changes_one_attribute():
    message = UserMessage("Hi", id="u", timestamp=TIME, metadata={"a": {"b": 1}})

    changed = dataclasses.replace(message, content=[Text("Bye")])

    assert (changed.text, changed.id, changed.metadata) == ("Bye", "u", {"a": {"b": 1}})
    assert message.__replace__(id="v").id == "v"
    assert CycleUsage(input_tokens=1, output_tokens=2).__replace__(output_tokens=5).output_tokens == 5


def test_replace_refuses_what_it_cannot_do():
    with pytest.raises(TypeError, match="CycleUsage has no attribute 'inputs'; its attributes are input_tokens"):
        CycleUsage(inputs=1)
    # Python 3.14 raises a TypeError with the same name.
    with pytest.raises((TypeError, ValueError), match="use_copy_replace_for_cycles"):
        dataclasses.replace(TokenUsage(1, 2))
    with pytest.raises((TypeError, ValueError), match="use_copy_replace_for_nodes"):
        dataclasses.replace(turntree.ThreadTree())
