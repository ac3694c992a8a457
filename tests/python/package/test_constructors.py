"""Calls of public classes without their arguments: the errors name the class, the arguments and the call to write."""

import copy
import enum
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_introspection import modules

import turntree
from turntree import Toolset, mcp, middleware, store, testing, thread_protocol, upp


def public_classes():
    found = {}
    for module in modules():
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) and value.__module__.startswith("turntree") and not issubclass(value, enum.Enum):
                found.setdefault(value, pytest.param(value, id=f"{module.__name__}.{name}"))
    return found.values()


@pytest.mark.parametrize("public_class", list(public_classes()))
def test_a_call_without_arguments_works_or_names_the_class_and_what_to_write(public_class, monkeypatch):
    monkeypatch.setenv("AZURE_TENANT_ID", "t")
    monkeypatch.setenv("AZURE_CLIENT_ID", "c")
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "s")
    try:
        public_class()
    except (TypeError, turntree.ValidationError) as error:
        message = str(error)
        assert re.search(rf"\b{public_class.__name__}\b", message)
        assert not re.search(r"__new__|__init__|positional|keyword argument|cannot create|instantiated", message)
        assert re.search(r"; |, or found again", message)  # What to write.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: upp.Audio(),
            "Audio() needs data and mime_type; write Audio.from_path(path) or Audio(data, mime_type)",
        ),
        (lambda: upp.Audio(b"x"), "Audio() needs mime_type; write Audio.from_path(path) or Audio(data, mime_type)"),
        (lambda: upp.Binary(mime_type="a/b"), "Binary() needs data; write Binary(data, mime_type)"),
        (
            lambda: upp.ToolCall("c", "f"),
            "ToolCall() needs arguments; write ToolCall(tool_call_id, tool_name, arguments)",
        ),
        (lambda: upp.Reply(), "Reply() needs says; write Reply(says)"),
        (
            lambda: thread_protocol.Attachment("a"),
            "Attachment() needs media_type; write Attachment(name, media_type=…)",
        ),
        (
            lambda: upp.ModelReference("openai"),
            "ModelReference() needs model_id, options and config; write turntree.models.openai(model), or call the "
            "function of another vendor",
        ),
        (lambda: testing.Case(), "Case() needs input; write Case(input)"),
        (
            lambda: turntree.Session(),
            "Session() is not called by applications; write turntree.session(agent), or await Session.open(store, id, "
            "agent)",
        ),
        (
            lambda: turntree.ToolContext(deps=1),
            "ToolContext() is not called by applications; a tool receives it: annotate its first parameter with "
            "ToolContext",
        ),
        (
            lambda: Toolset(),
            "Toolset is a protocol, and has no objects of its own; write a class with `async def tools(self, "
            "context)`, which returns a list of tools",
        ),
        (lambda: turntree.LimitExceeded(), "LimitExceeded() needs message; write LimitExceeded(message)"),
        (
            lambda: mcp.McpServer(),
            "McpServer() is not called by applications; write mcp.stdio(command), mcp.http(url) or mcp.sse(url)",
        ),
    ],
)
def test_errors_about_missing_arguments(call, message):
    with pytest.raises(TypeError) as raised:
        call()

    assert str(raised.value) == message


def test_attributes_that_are_missing_are_validation_errors():
    with pytest.raises(
        turntree.ValidationError, match=r"^ThreadNode\(\) needs id, thread and children; write ThreadNode\(id=…"
    ):
        turntree.ThreadNode()
    with pytest.raises(
        turntree.ValidationError, match=r"^Embedding\(\) needs dimensions and index; write Embedding\(vector=…, "
    ):
        upp.Embedding(vector=[1.0])


def test_none_is_a_value_of_required_arguments():
    assert upp.ToolResult("c", None).result is None


def test_errors_inside_a_constructor_are_unchanged():
    with pytest.raises(TypeError, match="data"):
        upp.Audio(3, "audio/wav")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: testing.Case(inputs="Hi"),
            r"Case() has no argument 'inputs': the arguments are .*; did you mean input=?",
        ),
        (lambda: testing.Case("Hi", tool="x"), r"Case() has no argument 'tool': .*; did you mean tools=?"),
        (lambda: testing.Reply("Hi", gaps=1), r"Reply() has no argument 'gaps': .*; did you mean gap=?"),
        (
            lambda: testing.Reply("Hi", "no"),
            r"Reply() takes 1 argument by position (text), not 2, the others by name.*",
        ),
        (
            lambda: mcp.Elicitation("Hi", scheme={}),
            r"Elicitation() has no argument 'scheme': .*; did you mean schema=?",
        ),
        (lambda: turntree.Session(ids=1), r"Session() is not called by applications; write turntree.session(agent).*"),
    ],
)
def test_arguments_that_a_class_does_not_take_are_answered_with_those_that_it_takes(call, message):
    pattern = re.escape(message).replace(r"\.\*", ".*")
    with pytest.raises(TypeError, match=f"^{pattern}$"):
        call()


def test_constructors_keep_their_signatures():
    assert str(inspect.signature(testing.Case)).startswith("(input: ")
    assert list(inspect.signature(upp.Audio).parameters)[:2] == ["data", "mime_type"]
    assert inspect.signature(upp.Audio).parameters["data"].default is inspect.Parameter.empty


def test_objects_with_such_constructors_can_be_copied_and_pickled():
    case = testing.Case("Hi")
    error = turntree.LimitExceeded("too much")

    assert copy.copy(case) == case
    assert pickle.loads(pickle.dumps(case)) == case
    assert str(pickle.loads(pickle.dumps(error))) == "too much"


def test_classes_that_extend_a_protocol_have_their_own_constructor():
    class Named(middleware.Middleware):
        def __init__(self, name):
            super().__init__()
            self.given = name

    class Plain(store.PersistenceAdapter):
        def delete(self, key):
            return key

    assert Named("mine").given == "mine"
    assert Plain().delete("a") == "a"


def native_classes():
    """The classes with a constructor in Rust that has parameters."""
    for parameter in public_classes():
        (value,) = parameter.values
        text = getattr(value, "__text_signature__", None)
        if text not in (None, "()", "($self, /, *args, **kwargs)", "(*args, **kwargs)") and "**" not in text:
            yield parameter


@pytest.mark.parametrize("native_class", list(native_classes()))
def test_an_unknown_keyword_is_answered_with_the_class_and_its_arguments(native_class):
    names = list(inspect.signature(native_class).parameters)

    with pytest.raises(TypeError) as raised:
        native_class(**{names[-1] + "x": 1})

    message = str(raised.value)
    assert message == (
        f"{native_class.__name__}() has no argument '{names[-1]}x': the arguments are {', '.join(names)}; "
        f"did you mean {names[-1]}=?"
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: upp.ToolCall(id="c", name="f", args={}),
            "ToolCall() has no argument 'id': write tool_call_id=",
        ),
        (lambda: upp.Image(url="https://e.org/a.png"), "Image() has no argument 'url': write Image.from_url(url)"),
        (
            lambda: upp.UserMessage("Hi", 3),
            "UserMessage() takes 1 argument by position (content), not 2, the others by name, such as id=",
        ),
        (lambda: upp.Text("a", "b", "c"), "Text() takes 1 argument by position (text), not 3"),
        (
            lambda: upp.ExponentialBackoff(3),
            "ExponentialBackoff() takes its arguments by name, such as max_attempts=",
        ),
        (
            lambda: turntree.Agent(model=upp.scripted([]), instructons="Be kind."),
            "Agent() has no argument 'instructons': the instructions of an agent are system=",
        ),
        (
            lambda: turntree.Limits(request=3),
            "Limits() has no argument 'request': the arguments are cost, input_tokens, output_tokens, requests, "
            "seconds, tool_calls, total_tokens; did you mean requests=?",
        ),
        (
            lambda: upp.Embedding(vectr=[1.0]),
            "Embedding has no attribute 'vectr'; its attributes are vector, dimensions, index, tokens, metadata; did "
            "you mean vector=?",
        ),
    ],
)
def test_errors_about_unknown_arguments(call, message):
    with pytest.raises(TypeError) as raised:
        call()

    assert str(raised.value) == message


def is_native(cls):
    """Return whether the class, or one of its bases, is defined in Rust: it has no Python function and no slots."""
    native = {value for value in vars(turntree._core).values() if inspect.isclass(value)}
    return not native.isdisjoint(cls.__mro__)


def make_without_constructors():
    """Print the native public classes, and those of which `object.__new__` makes an object."""
    native = [parameter.values[0] for parameter in public_classes() if is_native(parameter.values[0])]
    made = []
    for cls in native:
        try:
            empty = object.__new__(cls)
        except TypeError:
            continue
        made.append(cls.__name__)
        repr(empty)
    print(len(native), made, flush=True)


def test_no_native_object_is_made_without_its_constructor():
    """An object without a value ends the process, so this is one of its own."""
    program = "import test_constructors; test_constructors.make_without_constructors()"
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=300
    )

    assert ended.returncode == 0, ended.stderr
    count, made = ended.stdout.split(maxsplit=1)
    assert int(count) > 100
    assert made.strip() == "[]"
