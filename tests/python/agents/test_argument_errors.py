"""Errors for the words of other libraries: each names what to write instead."""

import inspect

import pytest

import turntree
import turntree.models
import turntree.tools
from turntree import Session, agent, execution, mcp, middleware, query, session, store, thread_protocol
from turntree._argument_errors import AGENT, RUN
from turntree.upp import (
    AssistantMessage,
    Reply,
    Thread,
    ToolUseStrategy,
    UserMessage,
    from_pydantic_ai,
    llm,
    scripted,
    tool,
)


def model():
    return scripted(["ok"])


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("instructions", "system="),
        ("system_prompt", "system="),
        ("output_type", "structure="),
        ("response_model", "structure="),
        ("llm", "model="),
        ("temperature", 'params={"temperature": …}'),
        ("handoffs", "tools="),
        ("max_turns", "loop(max_iterations=…)"),
        ("checkpointer", "turntree.session(agent, persistence=…)"),
        ("persistence", "turntree.session(agent, persistence=…)"),
        ("message_history", "run(history, input)"),
        ("user_prompt", "run(input)"),
        ("description", "agent.to_tool(description=…)"),
        ("dependencies", "run(input, deps=…)"),
        ("timeout", "run(input, timeout=…)"),
        ("stream", "agent.stream(input)"),
    ],
)
def test_options_of_other_libraries_are_explained(name, remedy):
    with pytest.raises(TypeError) as error:
        agent(model=model(), **{name: "x"})
    assert str(error.value).startswith(f"agent() has no argument '{name}': ")
    assert remedy in str(error.value)


def test_unknown_options_list_the_known_ones():
    with pytest.raises(
        TypeError, match="agent\\(\\) has no argument 'modle': the arguments are cleanup_timeout, .*model, "
    ):
        agent(modle=model())
    with pytest.raises(TypeError, match="llm\\(\\) has no argument 'instructions': .*system="):
        llm(model=model(), instructions="x")
    with pytest.raises(TypeError, match="session\\(\\) has no argument 'checkpointer': .*persistence="):
        session(agent(model=model()), checkpointer="x")


@pytest.mark.parametrize("strategy", [execution.loop, execution.sequence(agent(model=model())), "loop"])
def test_a_way_to_work_that_is_given_as_strategy_is_explained(strategy):
    with pytest.raises(TypeError, match="how an agent works is execution="):
        agent(model=model(), strategy=strategy)


def test_arguments_by_position_are_explained():
    with pytest.raises(TypeError, match="agent\\(\\) takes its arguments by name, such as model="):
        agent(model())


def test_explained_functions_keep_their_signatures():
    assert "system" in inspect.signature(agent).parameters
    assert agent.__name__ == "agent"
    assert agent.__doc__


def test_hints_name_no_real_argument():
    assert not AGENT.keys() & inspect.signature(agent).parameters.keys()
    assert not RUN.keys() & {"sub_agent_events", "concurrency"}


async def test_options_of_runs_are_explained():
    helper = agent(model=model())
    with pytest.raises(TypeError, match=r"Agent.run\(\) has no argument 'message_history': the history comes first"):
        await helper.run("x", message_history=[])
    with pytest.raises(TypeError, match=r"Agent.run_sync\(\) has no argument 'prompt': .*run\(input\)"):
        helper.run_sync(prompt="x")
    with pytest.raises(TypeError, match=r"Agent.stream\(\) has no argument 'thread_id'"):
        helper.stream("x", thread_id="t")
    with pytest.raises(TypeError, match=r"Agent.stream_sync\(\) has no argument 'other': it is not an argument"):
        helper.stream_sync("x", other="t")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"kind": "request", "parts": []}, r"history\[0\] is a message of Pydantic AI as a dict; .*from_pydantic_ai"),
        ({"role": "user", "parts": [{"text": "Hi"}]}, r"history\[0\] is .*useChat.*Gemini.*ui_input\(body\)"),
    ],
)
def test_messages_of_other_libraries_as_dicts_say_how_to_convert_them(message, words):
    with pytest.raises(TypeError, match=words):
        agent(model=scripted(["Hi"])).run_sync([message], "x")


def test_a_dumped_history_says_what_to_pass():
    with pytest.raises(
        TypeError, match=r"messages\[0\] must be a ModelRequest .*not dict; pass the messages themselves"
    ):
        from_pydantic_ai([{"kind": "request", "parts": []}])


async def test_messages_of_other_libraries_are_explained():
    helper = agent(model=model())
    openai = [{"role": "user", "content": "hi"}]
    with pytest.raises(TypeError, match=r"history\[0\] is a message in the form of OpenAI's API"):
        await helper.run(openai, "x")
    with pytest.raises(
        TypeError, match=r"input\[0\] is a message in the form of OpenAI's API; write it as UserMessage"
    ):
        await helper.run(openai)
    from pydantic_ai.messages import ModelRequest

    with pytest.raises(TypeError, match=r"history\[0\] is a message of Pydantic AI; convert .*from_pydantic_ai"):
        await helper.run([ModelRequest.user_text_prompt("hi")], "x")
    turn = await helper.run([UserMessage("a"), AssistantMessage("b")], "x")
    assert turn.text == "ok"


async def test_swapped_arguments_are_explained():
    with pytest.raises(TypeError, match="the history comes before the input"):
        await agent(model=model()).run("x", Thread())


@pytest.mark.parametrize("path", ["session.json", "/tmp/session", "./data/a.txt", "~/thread"])
def test_a_path_instead_of_json_is_explained(path):
    helper = agent(model=model())
    for read in (Thread.from_json, lambda text: Session.from_json(text, helper)):
        with pytest.raises(turntree.ValidationError, match="the path of a file, not JSON; read the file"):
            read(path)


async def test_a_missing_await_of_a_streamed_turn_is_explained():
    stream = agent(model=model()).stream("x")
    with pytest.raises(AttributeError, match=r"'text': await it first, as \(await stream\.turn\)\.text"):
        _ = stream.turn.text
    assert not hasattr(stream.turn, "__len__")
    assert (await stream.turn).text == "ok"


async def test_loops_of_the_wrong_kind_are_explained():
    helper = agent(model=model())
    with pytest.raises(TypeError, match="write `async for`, or use stream_sync"):
        for _ in helper.stream("x"):  # type: ignore[attr-defined]
            pass
    with pytest.raises(TypeError, match="write `for`, or use stream"):
        async for _ in helper.stream_sync("x"):  # type: ignore[attr-defined]
            pass


def test_wrong_tools_are_explained_when_the_agent_is_created():
    @tool
    def add(a: int) -> int:
        "Add."
        return a

    class Tools:
        def add(self) -> None: ...

    with pytest.raises(TypeError, match=r"tools must be a list; write tools=\[add\]"):
        agent(model=model(), tools=add)
    with pytest.raises(TypeError, match="not the class Tools; pass an instance, or"):
        agent(model=model(), tools=[Tools])
    with pytest.raises(ValueError, match=r"two tools are named 'add'; .* @tool\(name=…\)"):
        agent(model=model(), tools=[add, add])


async def test_the_text_of_turns_and_streams():
    helper = agent(model=scripted(["Hello you.", "Hello you.", "Hello you."]))
    assert (await helper.run("hi")).text == "Hello you."
    pieces = [piece async for piece in helper.stream("hi").text()]
    assert "".join(pieces) == "Hello you."
    assert len(pieces) > 1
    assert "".join(helper.stream_sync("hi").text()) == "Hello you."


async def test_leaving_the_text_of_a_stream_ends_the_run():
    stream = agent(model=scripted([Reply("one two three four", pace=0.05)])).stream("hi")
    async for _ in stream.text():
        break
    with pytest.raises(turntree.upp.UPPError) as error:
        await stream.turn
    assert error.value.code == "CANCELLED"


MISTAKES = {
    "guardrails": (lambda: agent(guardrails=[]), r"middleware=\[turntree\.middleware\.guardrails"),
    "mcp_servers": (lambda: agent(mcp_servers=[]), r"tools=\[turntree\.mcp\.stdio"),
    "an id that is no text": (lambda: agent(id=3), r"^id must be a str, not int$"),
    "a name instead of tools": (
        lambda: agent(tools="search"),
        r"^tools must be a list; give functions, not their names$",
    ),
    "one tool": (lambda: agent(tools=print), r"write tools=\[print\]"),
    "approval=True": (lambda: tool(approval=True)(len), r'write approval="ask"$'),
    "steps of plan": (lambda: execution.plan(max_steps=3), r"the limit of plan\(\) is max_plan_steps="),
    "iterations of react": (lambda: execution.react(max_iterations=3), r"the limit of react\(\) is max_steps="),
    "steps of loop": (lambda: execution.loop(max_steps=3), r"the limit of loop\(\) is max_iterations="),
    "a cost": (lambda: middleware.budget(max_cost=3), r"budget\(\) has no argument 'max_cost': write cost="),
    "retries": (
        lambda: ToolUseStrategy(retries=3),
        r"ToolUseStrategy\(\) has no argument 'retries': .*@tool\(retries=",
    ),
    "a tool name that is no text": (lambda: agent(name="a").to_tool(3), r"^name must be a str, not int$"),
    "a run instead of a stream": (
        lambda: thread_protocol.ui_response("x"),
        r"^stream must be agent\.stream\(input\).* not str$",
    ),
    "hooks of a run": (lambda: agent(model=model()).run_sync("x", hooks={}), r"agent\.with_\(hooks=…\)"),
    "images of a run": (lambda: agent(model=model()).run_sync("x", images=[]), r"Image\.from_url"),
    "the message of ADK": (
        lambda: agent(model=model()).run_sync(new_message="x"),
        r"the input has no name: run\(input\)",
    ),
    "the usage of Pydantic AI": (lambda: agent(model=model()).run_sync("x", usage=1), r"limits=turntree\.Limits"),
    "the state of a run": (lambda: session(agent(model=model())).run_sync("x", session_state={}), "is deps="),
    "a team": (lambda: agent(team=[]), "other agents are among tools="),
    "a backstory": (lambda: agent(backstory="x"), "the instructions of an agent are system="),
    "the key of a result": (lambda: agent(output_key="x"), r"run\(input, deps=…\)"),
    "traces": (lambda: agent(instrument=True), r"turntree\.tracing"),
    "the session of an agent": (lambda: agent(session_id="x"), r"turntree\.session\(agent, id=…"),
    "a callback": (lambda: agent(before_model_callback=print), "middleware=, and those of its steps hooks="),
    "tools of vendors": (lambda: agent(builtin_tools=[]), r"turntree\.upp\.native"),
    "a word like no other": (lambda: agent(goals_of_mine=1), "the arguments are cleanup_timeout, "),
    "a number as a tool": (lambda: tool(5), r"^tool\(\) takes a function, not int$"),
    "the arguments of a server": (lambda: mcp.stdio("npx", args=["x"]), r"mcp\.stdio\(command, \*args\)"),
    "the token of a server": (lambda: mcp.http("https://example.com/mcp", token="x"), "write auth=, or headers="),
    "a URL as a path": (lambda: store.sqlite("sqlite:///x.db"), r"write store\.from_url\('sqlite:///x\.db'\)"),
    "a program as a URL": (lambda: mcp.http("uvx server"), r"address of a server.*a program is mcp\.stdio\(command\)"),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_first_day_mistakes_are_answered_with_what_to_write(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_names_of_other_libraries_are_explained():
    with pytest.raises(ImportError, match="from turntree.models import ModelSettings"):
        from turntree import ModelSettings  # noqa: F401
    with pytest.raises(AttributeError, match=r": write openai\("):
        _ = turntree.models.ChatOpenAI
    with pytest.raises(AttributeError, match="from turntree.tools import tool"):
        _ = turntree.tools.function_tool


def test_attributes_of_trees_and_turns_are_explained():
    sess = session(agent(model=model()))
    turn = sess.run_sync("hi")
    with pytest.raises(AttributeError, match=r"tree\.history\(\)"):
        _ = sess.tree.messages
    with pytest.raises(AttributeError, match=r"turn\.model_dump_json\(\)"):
        turn.json()


def test_tools_that_are_neither_a_list_nor_a_tool_are_named_by_their_type():
    with pytest.raises(TypeError, match="^tools must be a list, not int$"):
        agent(model=scripted([]), tools=3)


async def test_a_query_with_a_wrong_argument_does_not_run_the_agent():
    model = scripted(["answer"])

    with pytest.raises(TypeError, match="^session must be a Session, not int$"):
        await query(agent(model=model), "question", session=3)
    with pytest.raises(TypeError, match="^agent must be an Agent, not int; write query"):
        await query(3, "question")

    assert model.requests == []
