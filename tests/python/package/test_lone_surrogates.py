"""A lone surrogate, which UTF-8 cannot represent, is refused by the name of the argument that has it."""

import functools
import inspect
import pickle
import re
import types
import typing

import pytest
from test_data_face import samples
from test_introspection import modules

from turntree import ValidationError, _core, agent, upp
from turntree import thread_protocol as tp
from turntree.tools import Tool
from turntree.upp import scripted

LONE = "a\ud800"
RULE = 'the character at index 1 is a lone surrogate; JSON is UTF-8: decode the source with errors="replace"'
# What other parameters are tried with, until they are accepted.
OTHERS = (
    "x",
    1,
    {},
    [],
    None,
    b"{}",
    "[]",
    "{}",
    len,
    upp.Thread([]),
    [upp.Text("x")],
    "2026-01-01T00:00:00Z",
    agent(model=scripted([])),
)
# They wait for a client, a peer or a person, or change the process.
RUNNING = {"serve", "serve_sync", "acp_stdio", "dial", "connect_sync", "loopback"}


def namespaces():
    """The modules whose functions and classes are called: the public ones and those of the native module."""
    yield from modules()
    pending = [_core]
    while pending:
        module = pending.pop()
        yield module
        pending += [value for value in vars(module).values() if isinstance(value, types.ModuleType)]


@functools.cache
def callables():
    """Constructors, functions, and the methods of classes and of samples of them, each once, by name."""
    found = {}
    owners = {type(value): value for value in samples()}
    for module in namespaces():
        names = getattr(module, "__all__", None) or vars(module)
        for name in names:
            value = getattr(module, name)
            if not callable(value) or name in RUNNING or typing.get_origin(value) is not None:
                continue
            if not str(getattr(value, "__module__", "")).startswith("turntree"):
                continue
            found.setdefault(id(value), (f"{module.__name__}.{name}", value))
            if not inspect.isclass(value):
                continue
            owner = owners.get(value, value)
            for method in dir(value):
                member = inspect.getattr_static(value, method)
                is_static = isinstance(member, (classmethod, staticmethod, types.ClassMethodDescriptorType))
                if (is_static or owner is not value) and not method.startswith("__") and method not in RUNNING:
                    function = getattr(owner, method, None)  # Words of other libraries have no value.
                    if inspect.isroutine(function):
                        found[(value, method)] = (f"{value.__qualname__}.{method}", function)
    return sorted(found.values(), key=lambda one: one[0])


@functools.cache
def parameters_of(function):
    try:
        signature = inspect.signature(function)
    except ValueError:
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter for parameter in signature.parameters.values() if parameter.kind not in kinds]


def refusal(function, target, value):
    """The exception of a call in which one argument is `value`, and the others are what the function accepts."""
    others = {
        parameter.name: 0
        for parameter in parameters_of(function)
        if parameter.default is parameter.empty and parameter.name != target.name
    }
    while True:
        positional, named = [], {}
        for parameter in parameters_of(function):
            if parameter.name != target.name and parameter.name not in others:
                continue
            given = value if parameter.name == target.name else OTHERS[others[parameter.name]]
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(given)
            else:
                named[parameter.name] = given
        try:
            result = function(*positional, **named)
        except Exception as error:
            text = "\n".join([str(error), *getattr(error, "__notes__", [])])
            if isinstance(error, UnicodeEncodeError) or RULE in text:
                return error
            # The text names the argument that was not accepted: the next value is tried for it.
            blamed = [name for name in others if re.search(rf"\b{name}\b", text)]
            blamed = [name for name in blamed if others[name] + 1 < len(OTHERS)]
            if not blamed:
                return error
            others[blamed[0]] += 1
        else:
            if inspect.iscoroutine(result):
                result.close()
            return None


@functools.cache
def takes_text(function, parameter):
    """True if the native module refuses another object than a text here."""
    error = refusal(function, parameter, object())
    return bool(re.search(rf"\(\): {parameter.name} must be a str\b", str(error)))


def violations(function):
    """How a function treats a lone surrogate in another way than all others."""
    for parameter in parameters_of(function):
        for value in (LONE, [LONE], {"k": LONE}):
            error = refusal(function, parameter, value)
            if isinstance(error, UnicodeEncodeError):
                yield f"{parameter.name}: UnicodeEncodeError"
            elif error is None or RULE not in str(error):
                continue
            elif type(error) is not ValidationError or error.errors()[0]["type"] != "invalid_utf8":
                yield f"{parameter.name}: {error!r}"
        if takes_text(function, parameter):
            error = refusal(function, parameter, LONE)
            if str(error) != f"{parameter.name}: {RULE}":
                yield f"{parameter.name}: {error!r}"


# A test has many calls, because pytest takes longer for a test than for a call.
@pytest.mark.parametrize("first", range(0, len(callables()), 40))
def test_every_call_refuses_a_lone_surrogate_by_the_name_of_its_argument(first):
    found = [
        f"{name}: {violation}"
        for name, function in callables()[first : first + 40]
        for violation in violations(function)
    ]

    assert found == []


def test_the_calls_reach_the_texts_of_the_native_module():
    texts = [
        (function, parameter)
        for _, function in callables()
        for parameter in parameters_of(function)
        if inspect.isclass(function) and takes_text(function, parameter)
    ]

    assert len(texts) > 60


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: upp.Document.from_text(LONE), "text"),
        (lambda: upp.Text(text=LONE), "text"),
        (lambda: upp.UserMessage("x", id=LONE), "id"),
        (lambda: upp.UserMessage(LONE), "content"),
        (lambda: upp.UserMessage(["x", LONE]), "content[1]"),
        (lambda: upp.ToolCall("c", LONE, {}), "tool_name"),
        (lambda: upp.ToolCall("c", "t", {"a": ["x", LONE]}), "arguments/a/1"),
        (lambda: upp.ToolResult("c", LONE), "result"),
        (lambda: tp.UserMessageAction(LONE), "content"),
        (lambda: tp.from_pydantic_ai([], title=LONE), "title"),
        (lambda: agent(model=scripted([]), tools=[Tool(LONE, "x", {"type": "object"}, len)]), "name"),
        (lambda: agent(model=scripted([]), system=LONE), "system"),
        (lambda: agent(model=scripted(["Hi"])).run_sync(LONE), "input"),
    ],
)
def test_the_error_names_the_argument_and_the_place_in_it(call, place):
    with pytest.raises(ValidationError) as caught:
        call()

    assert type(caught.value) is ValidationError
    assert str(caught.value) == f"{place}: {RULE}"
    assert caught.value.errors()[0]["type"] == "invalid_utf8"
    assert not hasattr(caught.value, "__notes__")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.errors()) == (str(caught.value), caught.value.errors())
