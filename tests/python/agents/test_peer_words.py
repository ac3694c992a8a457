"""Mistakes of users of other libraries: each error names what to write instead."""

import asyncio
import dataclasses
import datetime
import pathlib
import traceback

import pytest

import turntree
from turntree import (
    Agent,
    AgentStrategy,
    Limits,
    Session,
    agent,
    ask,
    execution,
    middleware,
    query,
    session,
    store,
    thread_protocol,
)
from turntree.upp import (
    AssistantMessage,
    Document,
    Image,
    ModelSettings,
    Text,
    Thread,
    Tool,
    ToolResultMessage,
    Turn,
    UPPError,
    UserMessage,
    llm,
    openai,
    scripted,
    tool,
)

NOW = "2026-01-01T00:00:00Z"


def helper(**options):
    return agent(model=scripted(["ok"] * 3), **options)


def run(given, *arguments, **options):
    return helper().run_sync(given, *arguments, **options)


def look_up(place: str) -> str:
    "Look up."
    return place


@dataclasses.dataclass
class City:
    name: str


class OfLangChain:
    content = "hi"


OfLangChain.__module__ = "langchain_core.messages.human"


class Log:
    name = "log"

    def before(self, context):
        pass


DEFINITIONS = {
    "Agent('openai:gpt-5')": (lambda: Agent("openai:gpt-5"), r"Agent\(\) takes its arguments by name, such as model="),
    "Agent(instructions=)": (lambda: Agent(instructions="x"), r"Agent\(\) has no argument 'instructions': .*system="),
    "with_(output_type=)": (lambda: helper().with_(output_type=City), "'output_type': .*structure="),
    "model without a provider": (lambda: agent(model="gpt-5"), "expected provider:model, such as 'openai:gpt-5'"),
    "model of LiteLLM": (lambda: agent(model="gemini/gemini-2.5-pro"), "such as 'google:gemini-2.5-pro'"),
    "a family of models": (lambda: agent(model="claude-sonnet-4-5"), "such as 'anthropic:claude-sonnet-4-5'"),
    "model of Pydantic AI": (lambda: agent(model="google-gla:gemini-2.5-pro"), "write 'google:gemini-2.5-pro'"),
    "a misspelt provider": (lambda: agent(model="opnai:gpt-5"), "unknown provider 'opnai'; write 'openai:gpt-5'"),
    "a factory as model": (lambda: agent(model=openai), r'the function or class openai; call it: openai\("…"\)'),
    "a number as model": (lambda: agent(model=3), 'not int; write model="openai:gpt-5"'),
    "a number as name": (lambda: helper(name=3), "name must be a str, not int"),
    "texts as system": (lambda: helper(system=["a", "b"]), r"system\[0\] is a str; join the texts"),
    "a number as system": (lambda: helper(system=3), "system must be a str, a list of blocks or a function, not int"),
    "an instance as structure": (lambda: helper(structure=City("x")), "not an instance; write structure=City"),
    "a name as execution": (lambda: helper(execution="react"), r"write execution=react\(\)"),
    "a function as execution": (lambda: helper(execution=execution.loop), r"write execution=loop\(\)"),
    "a name as strategy": (lambda: helper(strategy="react"), "how an agent works is execution="),
    "a class as middleware": (lambda: helper(middleware=[Log]), r"middleware\[0\] is the class Log; write Log\(\)"),
    "a function as middleware": (lambda: helper(middleware=[middleware.logging]), r"write logging\(\)"),
    "a schema of OpenAI as tool": (
        lambda: helper(tools=[{"type": "function", "function": {"name": "x"}}]),
        r"write a function, or Tool\(name, description, schema, function\)",
    ),
    "a name as tool": (lambda: helper(tools=["look_up"]), "not str; give the function itself"),
    "tool(requires_approval=)": (lambda: tool(requires_approval=True), 'write approval="ask"'),
    "tool(name_override=)": (lambda: tool(name_override="x"), "write name="),
    "tool('name')": (lambda: tool("search"), r"write @tool\(name='search'\)"),
    "tool(Class)": (lambda: tool(Log), "takes a function, not the class Log"),
    "Tool(args_schema=)": (
        lambda: Tool("x", "y", None, look_up, args_schema={}),
        "the schema is that of the signature",
    ),
    "Tool(parameters='…')": (lambda: Tool("x", "y", "z", look_up), "parameters must be a JSON Schema, a dict, not str"),
    "ModelSettings(max_output_tokens=)": (lambda: ModelSettings(max_output_tokens=3), "write max_tokens="),
    "ModelSettings(other=)": (lambda: ModelSettings(other=3), "the arguments are cache, max_tokens, "),
    "loop(max_steps=)": (lambda: execution.loop(max_steps=3), "max_iterations="),
    "react(max_iterations=)": (lambda: execution.react(max_iterations=3), "max_steps="),
    "AgentStrategy(on_start=)": (lambda: AgentStrategy(on_start=look_up), "write on_step_start="),
    "openai(temperature=)": (lambda: openai("x", temperature=1), r'params=\{"temperature": …\}'),
    "openai(api_base=)": (lambda: openai("x", api_base="http://localhost"), "write base_url="),
    "llm(instructions=)": (lambda: llm(model="openai:gpt-5", instructions="x"), "system="),
}
RUNS = {
    "dict of LangGraph": (
        lambda: run({"messages": []}),
        r"the earlier messages are the history: run\(history, input\)",
    ),
    "tuples of LangChain": (lambda: run([("user", "hi")]), r"input\[0\] is a tuple; write UserMessage"),
    "messages of LangChain": (lambda: run([OfLangChain()], "x"), r"history\[0\] is a message of LangChain; write"),
    "an image of OpenAI": (lambda: run([{"type": "image_url"}]), r"Image\.from_url"),
    "a text of OpenAI": (lambda: run([{"type": "input_text"}]), "write the text itself"),
    "a turn": (lambda: run(run("x")), r"write turn\.text"),
    "no input": (lambda: helper().run_sync(), r"expected run_sync\(input\), or run_sync\(history, input\)"),
    "input and history": (lambda: run("x", Thread()), r"write run_sync\(history, input\)"),
    "a session as history": (lambda: run(session(helper()), "x"), r"session\.run\(input\)"),
    "run(structure=)": (lambda: run("x", structure=City), r"agent\.with_\(structure=…\)"),
    "run(output_type=)": (lambda: run("x", output_type=City), "structure="),
    "run(stream=True)": (lambda: run("x", stream=True), r"agent\.stream\(input\)"),
    "run(max_turns=)": (lambda: run("x", max_turns=3), r"Limits\(requests=…\)"),
    "run(temperature=)": (lambda: run("x", temperature=1), r'params=\{"temperature": …\}'),
    "run(other=)": (lambda: run("x", other=1), "the arguments are deps, limits, metadata, "),
    "run(timeout=timedelta)": (lambda: run("x", timeout=datetime.timedelta(1)), r"write timeout\.total_seconds\(\)"),
    "Limits(request_limit=)": (lambda: Limits(request_limit=3), r"Limits\(\) has no argument .* write requests="),
    "Limits(3)": (lambda: Limits(3), r"Limits\(\) takes its arguments by name, such as requests="),
    "list(map())": (lambda: list(helper().map(["a"])), "async for turn in agent.map"),
    "ask(input, agent)": (lambda: asyncio.run(ask("x", helper())), r"write ask\(agent, input\)"),
    "query(input, agent)": (lambda: asyncio.run(query("x", helper())), r"write query\(agent, input\)"),
    "ask(thread=[…])": (lambda: asyncio.run(ask(helper(), "x", [])), r"write Thread\(messages\)"),
}
SESSIONS = {
    "a model as agent": (lambda: session("openai:gpt-5"), r"write session\(agent\(model=…\)\)"),
    "two positions": (lambda: session(helper(), "x"), r"takes 1 by position, the others by name, such as persistence="),
    "a path": (lambda: session(helper(), persistence="x.db"), "write 'sqlite:///x.db' for a file of SQLite"),
    "a Path": (lambda: session(helper(), persistence=pathlib.Path("x.db")), 'write "sqlite:///x.db"'),
    "a function": (lambda: session(helper(), persistence=store.memory), r"call it: memory\(…\)"),
    "a class": (lambda: session(helper(), persistence=store.Store), r"call it: Store\(…\)"),
    "message_history=": (lambda: session(helper()).run_sync("x", message_history=[]), "keeps the history by itself"),
    "swapped load": (lambda: asyncio.run(Session.load("id", store.memory(), helper())), r"\(store, id, agent\)"),
    "swapped open": (lambda: asyncio.run(Session.open("id", store.memory(), helper())), r"\(store, id, agent\)"),
    "a dict as input": (lambda: session(helper()).run_sync({"messages": []}), "the earlier messages are the history"),
}


@pytest.mark.parametrize(
    ("call", "words"),
    [*DEFINITIONS.values(), *RUNS.values(), *SESSIONS.values()],
    ids=[*DEFINITIONS, *RUNS, *(f"session: {name}" for name in SESSIONS)],
)
def test_a_mistake_is_explained(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


@pytest.mark.parametrize(
    ("make", "attribute", "words"),
    [
        (helper, "run_stream", "agent.stream"),
        (helper, "invoke", "run_sync"),
        (helper, "as_tool", "to_tool"),
        (helper, "tool_plain", "tools="),
        (lambda: session(helper()), "messages", r"session\.tree\.history\(\)"),
        (lambda: llm(model=scripted(["ok"])), "invoke", r"llm\.generate\(input\)"),
        (lambda: run("x"), "output", r"turn\.text"),
        (lambda: run("x"), "all_messages", r"turn\.messages"),
        (lambda: run("x"), "tool_calls", r"turn\.tool_executions"),
        (lambda: run("x").usage, "prompt_tokens", r"usage\.input_tokens"),
        (lambda: turntree, "Runner", "agents run themselves"),
        (lambda: turntree.upp, "SystemMessage", "system="),
    ],
)
def test_an_attribute_of_another_library_is_explained(make, attribute, words):
    made = make()
    assert not hasattr(made, attribute)
    with pytest.raises(AttributeError, match=f"no attribute '{attribute}': .*{words}"):
        getattr(made, attribute)


def test_other_attributes_have_the_usual_error():
    for made in (helper(), session(helper()), run("x"), run("x").usage, turntree, turntree.upp):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'$"):
            _ = made.nothing


def test_an_import_of_a_name_from_elsewhere_is_explained():
    with pytest.raises(ImportError, match="write `from turntree.tools import tool`"):
        from turntree import tool  # noqa: F401
    with pytest.raises(ImportError, match="write `from turntree.models import openai`"):
        from turntree import openai  # noqa: F401


async def test_a_map_that_is_awaited_is_explained():
    with pytest.raises(TypeError, match=r"async for turn in agent\.map"):
        await helper().map(["a"])


async def test_a_forgotten_await_of_the_input_is_explained():
    async def question():
        return "hi"

    for arguments in [(question(),), (question(), "hi")]:
        with pytest.raises(TypeError, match="is a coroutine: await it first"):
            await helper().run(*arguments)
        arguments[0].close()


def test_messages_and_blocks_of_turntree_are_accepted():
    assert run([UserMessage("a")], "b").text == "ok"
    assert run(["a", {"type": "text", "text": "b"}]).text == "ok"
    assert run((UserMessage("a"),), "b").text == "ok"


OBJECTS = {
    "a message without a type": (lambda: UserMessage.model_validate({"content": "x"}), r'"type" is missing; add it'),
    "wrong content": (
        lambda: UserMessage.model_validate({"type": "user", "id": "a", "timestamp": NOW, "content": 3}),
        r"/content: expected a list of content blocks or a string, got the number 3$",
    ),
    "a turn without messages": (lambda: Turn.model_validate({"usage": {}}), r'^"messages" is missing; add it$'),
    "a message of a turn": (
        lambda: Turn.model_validate({"messages": [{"type": "user"}]}),
        r'^/messages/0: "content" is missing; add it$',
    ),
    "a history": (lambda: run([{"type": "user"}], "x"), r'^history\[0\]: "content" is missing; add it$'),
    "a block": (lambda: UserMessage([{"type": "text"}]), r'^content\[0\]: "text" is missing; add it$'),
    "a result": (lambda: ToolResultMessage([{}]), r'^results\[0\]: "toolCallId" is missing; add it$'),
    "a thread": (lambda: Thread.from_json({"messages": [{}]}), r'^/messages/0: "type" is missing; add it$'),
    "a session": (lambda: Session.from_json({"version": "1.0.0"}, helper()), r"is missing; add it$"),
    "a document": (lambda: thread_protocol.Thread.model_validate({}), r'^"version" is missing; add it$'),
    "an image of OpenAI in a message": (
        lambda: UserMessage([{"type": "image_url", "image_url": {"url": "https://x"}}]),
        r"content\[0\] is a block in the form of OpenAI's API; write turntree\.upp\.Image\.from_url",
    ),
    "a text of OpenAI in a message": (lambda: UserMessage([{"type": "input_text"}]), "write the text itself"),
    "Text(3)": (lambda: Text(3), r"^Text\(\): text must be a str, not int$"),
    "Text()": (Text, r'^Text\(\) needs text; write Text\("…"\)$'),
    "UserMessage()": (UserMessage, r'^UserMessage\(\) needs content; write UserMessage\("…"\)$'),
    "AssistantMessage()": (AssistantMessage, r"^AssistantMessage\(\) needs content; "),
    "ToolResultMessage()": (ToolResultMessage, r"^ToolResultMessage\(\) needs results; "),
    "Image(data)": (lambda: Image(b"x"), r"^Image\(\) needs source and mime_type; write Image\.from_path"),
    "Document()": (Document, r"^Document\(\) needs source and mime_type; write Document\.from_path"),
    "append a message": (lambda: Thread().append(UserMessage("x")), r"write thread\.push\(message\)"),
    "append a text": (lambda: Thread().append("x"), r"write thread\.user\(text\)"),
}


@pytest.mark.parametrize(("call", "words"), OBJECTS.values(), ids=OBJECTS)
def test_errors_of_objects_name_the_path_and_no_offset(call, words):
    with pytest.raises((TypeError, ValueError), match=words) as raised:
        call()

    assert "column" not in str(raised.value)
    assert "__new__" not in str(raised.value)


def test_errors_of_json_text_name_the_member_or_the_line():
    with pytest.raises(ValueError, match=r'"type" is missing; add it$'):
        UserMessage.model_validate_json('{"content": "x"}')
    with pytest.raises(ValueError, match=r"content/0/text: expected a string, got the number 3$"):
        UserMessage.model_validate_json('{"type": "user", "content": [{"type": "text", "text": 3}]}')
    with pytest.raises(ValueError, match="invalid JSON at line 2 column 3"):
        UserMessage.model_validate_json('{"content":\n  x}')


def test_a_upp_error_has_its_class_once_and_no_empty_provider():
    with pytest.raises(UPPError) as raised:
        agent(name="lost").run_sync("x")
    failed = UPPError("no", code="RATE_LIMITED", provider="openai", status_code=429)

    assert "".join(traceback.format_exception_only(raised.value)).count("UPPError") == 1
    assert str(raised.value).startswith("[INVALID_REQUEST] agent 'lost' has no model")
    assert "provider:" not in str(raised.value)
    assert str(failed) == "[RATE_LIMITED] no (provider: openai, modality: llm, status: 429)"


def test_a_missing_key_names_the_argument_of_python(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(UPPError, match=r"no API key: set the environment variable OPENAI_API_KEY, or pass api_key= "):
        llm(model=openai("gpt-5")).generate_sync("x")
