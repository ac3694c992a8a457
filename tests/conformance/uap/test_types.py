"""UAP-1.0 §1.3, §1.7, §2.1, §2.6, §3, §4, §14.3 and §15, point by point. The numbers are those of our checklist."""

import asyncio
import importlib
import inspect
import json
import re
import subprocess
import sys
import threading
import uuid
from importlib.metadata import metadata, version

import pytest

import turntree
from turntree import Agent, agent, execution, middleware, session, upp
from turntree.upp import (
    AssistantMessage,
    Thread,
    TokenUsage,
    ToolCall,
    ToolExecution,
    ToolResult,
    ToolResultMessage,
    Turn,
    UPPError,
    UserMessage,
    scripted,
    tool,
)

# UAP-1.0 §1.3: the UPP types that agents use and that have a class in Python.
UPP_TYPES = {
    "AssistantMessage",
    "ErrorCode",
    "LLM",
    "StreamEvent",
    "StreamResult",
    "Thread",
    "TokenUsage",
    "Tool",
    "ToolCall",
    "ToolExecution",
    "ToolResult",
    "ToolResultMessage",
    "ToolUseStrategy",
    "Turn",
    "UPPError",
    "UserMessage",
    "anthropic",
    "google",
    "llm",
    "openai",
}


def call(name, /, **arguments):
    return {"toolName": name, "arguments": arguments}


def is_v4(text):
    parsed = uuid.UUID(text)
    return parsed.version == 4 and str(parsed) == text


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def adder(**options):
    return agent(model=scripted([[call("add", a=1, b=2)], "It is 3."]), tools=[add], **options)


# Types and packaging


async def test_uap_1_agents_use_upp_types():
    turn = await adder().run(Thread([UserMessage("before")]), UserMessage("1 + 2?"))

    assert type(turn) is Turn
    assert type(turn.usage) is TokenUsage
    assert [type(message) for message in turn.messages] == [
        UserMessage,
        AssistantMessage,
        ToolResultMessage,
        AssistantMessage,
    ]
    assert type(turn.messages[1].tool_calls[0]) is ToolCall
    assert type(turn.messages[2].results[0]) is ToolResult
    assert type(turn.tool_executions[0]) is ToolExecution


async def test_uap_1_a_thread_accepts_a_turn():
    thread = Thread()
    thread.append(await adder().run("1 + 2?"))

    assert [message.type for message in thread] == ["user", "assistant", "tool_result", "assistant"]


def test_uap_2_no_upp_type_is_exported_again():
    assert set(upp.__all__) >= UPP_TYPES
    for name in ("turntree", "turntree.execution", "turntree.middleware"):
        module = importlib.import_module(name)
        shown = set(module.__all__) | {shown for shown in dir(module) if not shown.startswith("_")}
        assert shown & UPP_TYPES == set(), name
        # Two words differ in meaning: logging of runs and of requests, fallback of strategies and of models.
        assert set(module.__all__) & set(upp.__all__) - {"logging", "fallback"} == set(), name


def test_uap_2_no_class_wraps_a_turn_or_a_thread():
    shown = [getattr(turntree, name) for name in turntree.__all__]

    assert not [shown for shown in shown if inspect.isclass(shown) and issubclass(shown, (Turn, Thread))]


def test_uap_3_the_package_name_follows_the_conventions_of_python():
    name = metadata("turntree")["Name"]

    # PEP 503: the normalized name of a distribution; PEP 8: a short lowercase package.
    assert name == re.sub(r"[-_.]+", "-", name).lower() == turntree.__name__
    assert name.isidentifier()
    assert name not in sys.stdlib_module_names
    assert version(name) == turntree.__version__


ENTRY_POINTS = ["turntree", "turntree.execution", "turntree.middleware"]


@pytest.mark.parametrize("module", ENTRY_POINTS)
def test_uap_4_each_entry_point_can_be_imported_alone(module):
    usable = "[name for name in m.__all__ if hasattr(m, name)]"
    program = f"import json, {module} as m; print(json.dumps([m.__name__, {usable}, m.__all__]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    name, usable, exported = json.loads(done.stdout)
    assert name == module
    assert usable == exported
    assert exported


def test_uap_4_no_name_is_in_two_entry_points():
    names = [name for module in ENTRY_POINTS for name in importlib.import_module(module).__all__]

    assert sorted(names) == sorted(set(names))
    assert {"loop", "react", "plan", "logging"} & set(turntree.__all__) == set()


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("turntree", "agent session ask query ThreadTree ThreadNode Session Checkpoint"),
        ("turntree.execution", "loop react plan"),
        ("turntree.middleware", "logging"),
    ],
)
def test_uap_5_the_required_names_are_exported(module, names):
    loaded = importlib.import_module(module)
    imported = {}
    exec(f"from {module} import *", imported)

    assert set(names.split()) <= set(loaded.__all__)
    for name in names.split():
        assert imported[name] is getattr(loaded, name)
        assert inspect.getdoc(imported[name]), name


async def test_uap_5_the_required_names_have_the_specified_meaning():
    helper = turntree.agent(model=scripted(["Hi."] * 3))
    sess = turntree.session(helper)
    answers = [
        (await turntree.ask(helper, "Hello")).response.text,
        (await turntree.query(helper, "Hello")).turn.response.text,
    ]
    await sess.run("Hello")

    assert isinstance(helper, turntree.Agent)
    assert isinstance(sess, turntree.Session)
    assert isinstance(sess.tree, turntree.ThreadTree)
    assert isinstance(sess.tree.current, turntree.ThreadNode)
    assert isinstance(sess.checkpoints[0], turntree.Checkpoint)
    assert answers == ["Hi.", "Hi."]
    assert [strategy().name for strategy in (execution.loop, execution.react, execution.plan)] == [
        "loop",
        "react",
        "plan",
    ]
    assert middleware.logging().name == "logging"


async def test_uap_6_ids_are_v4():
    sess = session(adder())
    stream = sess.stream("1 + 2?")
    steps = [event.uap.data["stepId"] async for event in stream if event.uap and event.uap.type == "step_start"]

    nodes = list(sess.tree.nodes)
    checkpoints = [checkpoint.id for checkpoint in sess.checkpoints]
    threads = [sess.tree.current.thread.id]
    ids = [sess.agent.id, sess.id, *steps, *nodes, *checkpoints, *threads]
    assert len(steps) == len(checkpoints) == 2
    assert all(is_v4(one) for one in ids)
    assert len(set(steps)) == len(steps)


def test_uap_6_each_agent_has_a_unique_id():
    one = adder()

    assert one.with_().id != one.id
    assert adder(id=one.id).id == one.id


# State and concurrency


async def test_uap_8_tools_of_one_answer_run_in_parallel():
    meeting = asyncio.Barrier(3)

    @tool
    async def meet(n: int) -> int:
        async with asyncio.timeout(10):
            await meeting.wait()
        return n

    calls = [call("meet", n=n) for n in range(3)]
    turn = await agent(model=scripted([calls, "done"]), tools=[meet]).run("go")

    assert [result.result for result in turn.messages[2].results] == [0, 1, 2]


async def test_uap_8_sync_tools_of_one_answer_run_in_parallel():
    meeting = threading.Barrier(3)

    @tool
    def meet(n: int) -> int:
        meeting.wait(timeout=10)
        return n

    calls = [call("meet", n=n) for n in range(3)]
    turn = await agent(model=scripted([calls, "done"]), tools=[meet]).run("go")

    assert [result.result for result in turn.messages[2].results] == [0, 1, 2]


# Agents


@pytest.mark.parametrize("given", ["Hi", UserMessage("Hi")], ids=["text", "message"])
@pytest.mark.parametrize(
    "history",
    [None, [UserMessage("before")], Thread([UserMessage("before")])],
    ids=["none", "list", "thread"],
)
async def test_uap_9_run_and_stream_accept_the_documented_overloads(given, history):
    model = scripted(lambda _: "ok")
    one = agent(model=model)
    before = None if history is None else list(history)
    arguments = [given] if history is None else [history, given]

    turn = await one.run(*arguments)
    streamed = await one.stream(*arguments).turn

    words = ["Hi"] if history is None else ["before", "Hi"]
    assert [[message.text for message in request.messages] for request in model.requests] == [words, words]
    assert [type(turn), type(streamed)] == [Turn, Turn]
    assert [message.text for message in turn.messages] == ["Hi", "ok"]
    assert before is None or list(history) == before


async def test_uap_10_loop_is_the_default():
    limited = agent(model=scripted(lambda _: call("add", a=1, b=2)), tools=[add])

    with pytest.raises(UPPError, match=r"maximum iterations \(10\)") as caught:
        await limited.run("go")

    assert caught.value.code == "INVALID_REQUEST"


async def test_uap_10_structure_sets_data():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    turn = await agent(model=scripted(['{"n": 3}']), structure=schema).run("go")

    assert turn.data == {"n": 3}


def test_uap_a1_a_model_is_not_needed_to_define_an_agent():
    assert agent().model is None


async def test_uap_a1_the_error_of_a_run_without_a_model_names_the_agent():
    with pytest.raises(UPPError, match="nameless-helper") as caught:
        await agent(name="nameless-helper").run("go")

    assert caught.value.code == "INVALID_REQUEST"


async def test_uap_a2_an_agent_can_be_derived_with_changed_options():
    one = adder(system="Be brief.")
    other = agent(**{**one.options, "system": "Be long.", "id": None})

    assert isinstance(other, Agent)
    assert (other.model, other.tools, other.system) == (one.model, one.tools, "Be long.")
    assert other.id != one.id


async def test_uap_a7_the_history_is_not_changed():
    history = [UserMessage("My name is Alice"), AssistantMessage("Hello Alice")]
    turn = await agent(model=scripted(lambda request: str(len(request.messages)))).run(history, "Who am I?")

    assert len(history) == 2
    assert turn.response.text == "3"


def test_uap_a8_two_tools_with_the_same_name_are_refused():
    with pytest.raises((UPPError, ValueError, TypeError), match="add"):
        agent(model=scripted(["x"]), tools=[add, add]).run_sync("go")


def test_uap_a103_continue_is_named_continue_():
    from turntree import QueryResult

    assert hasattr(QueryResult, "continue_")
