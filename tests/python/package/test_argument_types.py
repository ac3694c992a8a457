"""Arguments of the wrong type: errors of the native module name the call, the argument and its type."""

import ast
import asyncio
import functools
import inspect
import pathlib
import pickle
import re

import pytest
from test_data_face import samples
from test_introspection import modules
from test_lone_surrogates import OTHERS, RUNNING, parameters_of

import turntree
from turntree import ValidationError, _core, agent, execution, handoff, middleware, session, store, upp
from turntree import thread_protocol as tp
from turntree.upp import scripted
from turntree.upp.middleware import MemoryPubsub

WORDS = {"str": "a str", "int": "an int", "float": "a number", "bool": "a bool"}
# What PyO3 and Python say about a value, and not about the argument.
RAW = re.compile(
    r"is not an instance of|must be real number|cannot be interpreted|while processing|object has no attribute|can't "
    r"(convert|extract)|not supported between|is not iterable|cannot be (converted|cast)|is not callable"
)
# A parameter that is not documented, one that is checked when it is used, and two behind others that are checked first.
UNCHECKED = {"recipe", "Reply() says", "downgrade_pydantic_ai() history", "SystemAction() data"}


class Wrong:
    """Fits no argument."""


@functools.cache
def stubs():
    """The annotations of the parameters, by class and function."""
    found = {}
    for path in (pathlib.Path(turntree.__file__).parent / "_core").glob("*.pyi"):
        for node in ast.parse(path.read_text("utf-8")).body:
            functions = [(node.name, one) for one in getattr(node, "body", []) if isinstance(node, ast.ClassDef)]
            for owner, function in [*functions, ("", node)]:
                if isinstance(function, ast.FunctionDef):
                    arguments = function.args
                    found[owner, function.name] = {
                        one.arg: ast.unparse(one.annotation)
                        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                        if one.annotation
                    }
    return found


def native_calls():
    """The public constructors, methods and functions of the native module: their names in errors, and annotations."""
    owners = {type(value): value for value in [*samples(), tp.Thread(), turntree.ThreadTree()]}
    for module in modules():
        for name in module.__all__:
            value = getattr(module, name)
            if not str(getattr(value, "__module__", "")).startswith("turntree") or name in RUNNING:
                continue
            if inspect.isbuiltin(value):
                yield f"{value.__name__}()", value, stubs().get(("", value.__name__), {})
            if not inspect.isclass(value):
                continue
            stub = next((one for one, native in vars(_core).items() if native is value), name)
            known = {**stubs().get((stub, "__new__"), {}), **stubs().get((stub, "__init__"), {})}
            if known:
                yield f"{name}()", value, known
            for method, member in ((one, getattr(owners.get(value, value), one, None)) for one in dir(value)):
                if inspect.isbuiltin(member) and not method.startswith("_") and method not in RUNNING:
                    base = next(base for base in value.__mro__ if method in vars(base)).__name__
                    yield f"{base}.{method}()", member, stubs().get((base, method), {})


def scalars():
    found = {}
    for call, function, annotations in native_calls():
        for parameter in parameters_of(function):
            kind, _, rest = annotations.get(parameter.name, "").partition(" | ")
            if kind in WORDS and rest in ("", "None"):
                found[call, parameter.name] = (function, parameter, WORDS[kind] + (" or None" if rest else ""))
    return [pytest.param(call, *rest, id=f"{call} {name}") for (call, name), rest in found.items()]


def refusal(function, target):
    """The exception of a call in which one argument is wrong, and the others are what the function accepts."""
    values = (*OTHERS, True, MemoryPubsub())
    others = {
        parameter.name: 0
        for parameter in parameters_of(function)
        if parameter.default is parameter.empty and parameter.name != target.name
    }
    while True:
        positional, named = [], {}
        for parameter in parameters_of(function):
            if parameter.name == target.name or parameter.name in others:
                given = Wrong() if parameter.name == target.name else values[others[parameter.name]]
                if parameter.kind is parameter.POSITIONAL_ONLY:
                    positional.append(given)
                else:
                    named[parameter.name] = given
        with pytest.raises(Exception) as caught:  # Any: the test looks at it.
            function(*positional, **named)
        text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
        blamed = [name for name in others if re.search(rf"\b{name}\b", text)]
        blamed = [name for name in blamed if others[name] + 1 < len(values)]
        if target.name in text or not blamed:
            return caught.value
        others[blamed[0]] += 1


@pytest.mark.parametrize(("call", "function", "parameter", "expected"), scalars())
def test_a_wrong_type_is_refused_with_the_call_the_argument_and_the_type(call, function, parameter, expected):
    error = refusal(function, parameter)

    assert isinstance(error, TypeError)
    assert re.fullmatch(
        rf"{re.escape(call)}: {parameter.name} must be {expected}( or None)?, not Wrong",
        str(error),
    )
    assert not hasattr(error, "__notes__")


def test_the_calls_include_constructors_methods_and_functions():
    names = {parameter.values[0] for parameter in scalars()}

    assert len(scalars()) > 150
    assert {"Thread()", "Thread.tail()", "from_pydantic_ai()", "TokenUsage()", "Video.from_bytes()"} <= names


def objects():
    """The parameters that are not a scalar: dicts, lists, functions, objects of a class."""
    natives = {id(one) for one in vars(_core).values()}
    found = {}
    for call, function, annotations in native_calls():
        if inspect.isclass(function) and id(function) not in natives:
            continue
        for parameter in parameters_of(function):
            kind, _, rest = annotations.get(parameter.name, "").partition(" | ")
            if parameter.name not in annotations or (kind in WORDS and rest in ("", "None")):
                continue
            if UNCHECKED & {parameter.name, f"{call} {parameter.name}"}:
                continue
            if annotations[parameter.name] not in ("object", "Any"):
                found[call, parameter.name] = (function, parameter)
    return [pytest.param(call, *rest, id=f"{call} {name}") for (call, name), rest in found.items()]


@pytest.mark.parametrize(("call", "function", "parameter"), objects())
def test_a_wrong_object_is_refused_with_the_call_and_the_argument(call, function, parameter):
    error = refusal(function, parameter)

    assert not hasattr(error, "__notes__")
    if isinstance(error, ValidationError):
        assert str(error).startswith(f"{parameter.name}: values of test_argument_types.Wrong have no JSON form")
        return
    assert isinstance(error, TypeError)
    rule = r"(must be .*, not Wrong|: values of test_argument_types\.Wrong have no JSON form; give plain data$)"
    assert re.match(rf"{re.escape(call)}: {parameter.name} ?{rule}", str(error))


def test_the_objects_are_dicts_lists_functions_and_instances():
    names = {f"{parameter.values[0]} {parameter.values[2].name}" for parameter in objects()}

    assert len(objects()) > 50
    assert {
        "StreamEvent() delta",
        "AssistantMessage() tool_calls",
        "Middleware.pubsub() adapter",
        "replay() redact",
        "UserMessage() timestamp",
    } <= names


@pytest.fixture
def conversation():
    return session(agent(model=scripted(["Hi"])))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda chat: chat.fork(3), "Session.fork(): node_id must be a str, not int"),
        (lambda chat: chat.tree.branch(None), "ThreadTree.branch(): from_id must be a str, not None"),
        (
            lambda _: store.memory().sessions_sync(agent=3),
            "Store.sessions(): agent must be a str or None, not int",
        ),
        (
            lambda _: asyncio.run(store.memory().sessions(status=b"x")),
            "Store.sessions(): status must be a str or None, not bytes",
        ),
        (lambda _: tp.Thread(title=3), "Thread(): title must be a str, not int"),
        (lambda _: upp.Text(3), "Text(): text must be a str, not int"),
        (lambda _: upp.RoundRobinKeys(["a", 3]), "RoundRobinKeys(): keys[1] must be a str, not int"),
        (lambda _: upp.RoundRobinKeys("a"), "RoundRobinKeys(): keys must be a list of str, not str"),
        (lambda _: upp.ToolCall("c", "t", {}, 3), "ToolCall() takes 3 arguments"),
        (lambda _: tp.Thread().merge(3), "Thread.merge(): other must be a Thread, not int"),
        (
            lambda _: tp.Thread().merge(upp.Thread()),
            "Thread.merge(): other must be a Thread, not turntree.upp.Thread",
        ),
        (lambda _: upp.StreamEvent("text_delta", 0, []), "StreamEvent(): delta must be a dict, not list"),
        (lambda _: upp.UserMessage("x", metadata=3), "UserMessage(): metadata must be a dict, not int"),
        (lambda _: upp.UserMessage("x", metadata=print), "UserMessage(): metadata must be a dict, not builtin"),
        (
            lambda _: upp.UserMessage("x", timestamp=3),
            "UserMessage(): timestamp must be a datetime or ISO 8601 text, not int",
        ),
        (
            lambda _: upp.AssistantMessage("x", tool_calls=3),
            "AssistantMessage(): tool_calls must be a list, not int",
        ),
        (lambda _: upp.ToolResultMessage(3), "ToolResultMessage(): results must be a list, not int"),
        (lambda _: scripted(3), "scripted(): replies must be a list of replies or a function, not int"),
        (lambda _: upp.DynamicKey(3), "DynamicKey(): function must be a function, not int"),
        (lambda _: upp.WeightedKeys(3), "WeightedKeys(): keys must be a list, not int"),
        (
            lambda _: upp.Image({"type": "film"}, "image/png"),
            'Image(): source must be a dict whose "type" is one of base64, url, bytes',
        ),
    ],
)
def test_errors_about_types(conversation, call, message):
    with pytest.raises(TypeError) as caught:
        call(conversation)

    assert str(caught.value).startswith(message)
    assert not RAW.search("\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: agent(model=scripted([]), id=3), "id must be a str, not int"),
        (lambda: agent(model=scripted([]), output_retries="2"), "output_retries must be an int, not str"),
        (lambda: session(agent(model=scripted([])), id=3), "id must be a str, not int"),
        (lambda: execution.loop(max_iterations=[]), "max_iterations must be an int, not list"),
        (lambda: middleware.budget(tokens="9"), "budget(): tokens must be an int or None, not str"),
        (lambda: middleware.memory(max_turns="9"), "memory(): max_turns must be an int or None, not str"),
        (
            lambda: middleware.logging(include_timing="no"),
            "AgentMiddleware.logging(): include_timing must be a bool, not str",
        ),
        (lambda: handoff(lambda: 1, name=3), "handoff(): name must be a str or None, not int"),
        (lambda: turntree.Limits(requests="3"), "Limits(requests=…) must be an int, not str"),
        (lambda: session(agent(model=scripted([])), metadata=3), "metadata must be a dict, not int"),
        (lambda: agent(model=scripted([]), params=3), "Agent(): params must be a dict, not int"),
        (lambda: agent(model=scripted([])).run_sync("x", params=3), "params must be a dict, not int"),
        (lambda: upp.replay("x.json", redact=3), "replay(): redact must be a function, not int"),
    ],
)
def test_functions_of_python_name_the_argument_too(call, message):
    with pytest.raises(TypeError) as caught:
        call()

    assert str(caught.value).startswith(message)


def test_a_type_error_that_is_not_about_an_argument_is_unchanged():
    def check(text):
        return text.missing

    with pytest.raises(TypeError, match=r"^a rule is a regular expression, a function or a JSON Schema, not int$"):
        middleware.rule(3, name="x")
    assert middleware.rule(check, name="x").name == "x"


def test_a_number_out_of_range_is_refused_with_the_limit():
    thread = upp.Thread([])

    with pytest.raises(OverflowError, match=r"^Thread\.tail\(\): n must be at least 0, not -1$"):
        thread.tail(-1)
    with pytest.raises(
        OverflowError, match=r"^TokenUsage\(\): input_tokens must be at most 18446744073709551615, not 1"
    ):
        upp.TokenUsage(10**20, 1)
    with pytest.raises(OverflowError, match=r"at most 18446744073709551615, not a larger number$"):
        upp.TokenUsage(10**5000, 1)


def test_a_type_error_of_the_application_is_unchanged():
    class Times:
        def isoformat(self):
            raise TypeError("timestamp must be mine")

    with pytest.raises(TypeError) as caught:
        upp.UserMessage("x", timestamp=Times())
    assert str(caught.value) == "timestamp must be mine"


def test_exceptions_of_a_value_are_those_of_the_value():
    class Broken:
        def __index__(self):
            raise RuntimeError("mine")

    class Refusing:
        def __index__(self):
            raise TypeError("of the value")

    with pytest.raises(RuntimeError) as broken:
        upp.Thread([]).tail(Broken())
    assert str(broken.value) == "mine"
    with pytest.raises(TypeError) as caught:
        upp.Thread([]).tail(Refusing())
    assert str(caught.value) == "of the value"


def test_subclasses_and_numbers_that_fit_are_accepted():
    class Name(str):
        pass

    class Three:
        def __index__(self):
            return 3

    assert tp.Thread(title=Name("x")).title == "x"
    assert upp.TokenUsage(Three(), True).input_tokens == 3
    assert upp.Audio(b"RIFF", "audio/wav", 2).duration == 2.0


def test_the_errors_can_be_pickled_and_have_notes():
    with pytest.raises(TypeError) as caught:
        tp.Thread(title=3)

    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == "Thread(): title must be a str, not int"
    if hasattr(again, "add_note"):
        caught.value.add_note("mine")
        assert caught.value.__notes__ == ["mine"]
