"""Tools of other libraries in `tools=`, and our tools for other libraries."""

import inspect
import json
import sys
import typing
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from agent_support import add, call

from turntree import ApprovalRequired, ToolContext, agent, session
from turntree.upp import Document, Image, scripted, tool

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


async def result_of(foreign, *, deps=None, **arguments):
    """Call a tool through an agent."""
    helper = agent(model=scripted([call(foreign.name, **arguments), "done"]), tools=[foreign])
    turn = await helper.run("hi", deps=deps)
    return turn.tool_executions[0]


# Doubles with the attributes that the real tools have.


class LangChainTool:
    """As ``langchain_core.tools.BaseTool``."""

    name = "lookup"
    description = "Look a number up."
    args_schema = SCHEMA

    def __call__(self, text):
        raise AssertionError("the deprecated call")

    def invoke(self, given):
        raise AssertionError("the sync call")

    async def ainvoke(self, given):
        return given["a"] + 1


@dataclass
class OpenAIAgentsTool:
    """As ``agents.FunctionTool``."""

    name: str = "lookup"
    description: str = "Look a number up."
    params_json_schema: dict = field(default_factory=lambda: SCHEMA)

    async def on_invoke_tool(self, context, text):
        return [context.context, context.tool_name, json.loads(text)["a"]]


async def test_tools_of_langchain_are_accepted():
    helper = agent(model=scripted([]), tools=[LangChainTool()])
    assert (helper.tools[0].name, helper.tools[0].description) == ("lookup", "Look a number up.")
    assert helper.tools[0].parameters == SCHEMA
    assert (await result_of(LangChainTool(), a=1)).result == 2


async def test_tools_of_langchain_may_have_a_pydantic_schema():
    pydantic = pytest.importorskip("pydantic")

    class Arguments(pydantic.BaseModel):
        a: int

    foreign = LangChainTool()
    foreign.tool_call_schema = Arguments
    assert (await result_of(foreign, a=1)).result == 2
    assert (await result_of(foreign, b=1)).is_error


async def test_tools_of_the_openai_agents_sdk_are_accepted():
    assert (await result_of(OpenAIAgentsTool(), deps="deps", a=1)).result == ["deps", "lookup", 1]


async def test_tools_of_the_openai_agents_sdk_receive_the_context_of_their_library(monkeypatch):
    @dataclass
    class Context:
        context: object
        tool_name: str
        tool_call_id: str
        tool_arguments: str

    class Strict(OpenAIAgentsTool):
        async def on_invoke_tool(self, context, text):
            assert isinstance(context, Context)
            return [context.context, context.tool_call_id, context.tool_arguments == text]

    monkeypatch.setitem(sys.modules, "agents.tool_context", SimpleNamespace(ToolContext=Context))
    assert (await result_of(Strict(), deps="deps", a=1)).result == ["deps", "call_1_1", True]


@pytest.mark.parametrize("needed", [True, lambda context, arguments, call: False])
async def test_approval_of_the_openai_agents_sdk_asks_a_person(needed):
    foreign = OpenAIAgentsTool()
    foreign.needs_approval = needed
    chat = session(agent(model=scripted([call("lookup", a=1), "done"]), tools=[foreign]))
    with pytest.raises(ApprovalRequired):
        await chat.run("hi")
    chat.approve_all()
    assert (await chat.resume()).text == "done"


async def test_arguments_are_checked_before_the_call():
    execution = await result_of(OpenAIAgentsTool(), a="x")
    assert execution.is_error
    assert "Invalid arguments" in execution.result


def test_a_tool_without_a_schema_is_refused():
    with pytest.raises(TypeError, match="tool 'lookup' has no JSON Schema of its arguments"):
        agent(model=scripted([]), tools=[OpenAIAgentsTool(params_json_schema=None)])


def test_other_objects_with_a_name_are_still_refused():
    with pytest.raises(TypeError, match="tools must be functions, Tool objects or agents, not SimpleNamespace"):
        agent(model=scripted([]), tools=[SimpleNamespace(name="x")])


# pydantic-ai


async def test_tools_of_pydantic_ai_are_accepted():
    pydantic_ai = pytest.importorskip("pydantic_ai")

    def double(a: int) -> int:
        """Double a number."""
        return a * 2

    foreign = pydantic_ai.Tool(double)
    assert agent(model=scripted([]), tools=[foreign]).tools[0].description == "Double a number."
    assert (await result_of(foreign, a=2)).result == 4


async def test_tools_of_pydantic_ai_receive_deps():
    pydantic_ai = pytest.importorskip("pydantic_ai")

    async def who(ctx: pydantic_ai.RunContext[str], a: int) -> str:
        """Say who."""
        return f"{ctx.deps} {a}"

    assert (await result_of(pydantic_ai.Tool(who), deps="Ann", a=2)).result == "Ann 2"


async def test_a_retry_of_pydantic_ai_is_a_retry():
    pydantic_ai = pytest.importorskip("pydantic_ai")

    def never(a: int) -> int:
        """Never work."""
        raise pydantic_ai.ModelRetry("try 3")

    foreign = pydantic_ai.Tool(never, max_retries=0)
    helper = agent(model=scripted([call("never", a=1), "done"]), tools=[foreign])
    with pytest.raises(Exception, match="tool 'never' asked the model to call it again"):
        await helper.run("hi")


async def test_pydantic_ai_takes_our_tools():
    pydantic_ai = pytest.importorskip("pydantic_ai")
    models = pytest.importorskip("pydantic_ai.models.test")

    @tool
    def double(a: int) -> int:
        """Double a number."""
        return a * 2

    run = await pydantic_ai.Agent(models.TestModel(), tools=[double]).run("hi")
    assert json.loads(run.output) == {"double": 0}


# What describes a tool


def test_a_tool_has_what_describes_its_function():
    @tool(name="sum")
    async def total(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    assert total.name == "sum"
    assert total.__name__ == "total"
    assert total.__doc__ == "Add two numbers."
    assert total.__module__ == __name__
    assert str(inspect.signature(total)) == "(a: int, b: int = 2) -> int"
    assert typing.get_type_hints(total) == {"a": int, "b": int, "return": int}
    assert total.__wrapped__ is total.run
    assert type(total).__doc__.startswith("A function that a model may call.")


def test_a_plain_function_keeps_its_description_as_a_tool():
    converted = agent(model=scripted([]), tools=[add]).tools[0]
    assert converted.__wrapped__ is add
    assert converted.__doc__ == add.__doc__


def test_the_context_may_have_a_type_in_brackets_that_exists_for_type_checkers_only():
    namespace = {"tool": tool}
    source = """
@tool
def who(ctx: "missing.ToolContext[Nothing]", a: int) -> str:
    return ""
"""
    exec(source, namespace)
    assert namespace["who"]._takes_context
    assert list(namespace["who"].parameters["properties"]) == ["a"]
    assert ToolContext[int].__origin__ is ToolContext


# What they return

PNG = b"\x89PNG"
IMAGE = Image.from_base64("iVBORw==", "image/png").to_dict()


async def test_media_of_pydantic_ai_are_blocks_that_every_vendor_takes():
    pydantic_ai = pytest.importorskip("pydantic_ai")
    png = pydantic_ai.BinaryContent(PNG, media_type="image/png")

    def look(kind: str) -> typing.Any:
        """Look."""
        return {
            "one": png,
            "url": pydantic_ai.ImageUrl("https://example.com/a.png"),
            "pdf": pydantic_ai.BinaryContent(b"%PDF", media_type="application/pdf"),
            "sound": pydantic_ai.BinaryContent(b"123456", media_type="audio/wav"),
            "list": ["a dot", png],
            "return": pydantic_ai.ToolReturn("a dot", content=["see", png], metadata={"secret": 1}),
            "data": [{"type": "text", "text": "data of the application"}],
        }[kind]

    found = {
        kind: (await result_of(pydantic_ai.Tool(look), kind=kind)).result
        for kind in ("one", "url", "pdf", "sound", "list", "return", "data")
    }

    assert found == {
        "one": IMAGE,
        "url": Image.from_url("https://example.com/a.png").to_dict(),
        "pdf": Document.from_base64("JVBERg==", "application/pdf").to_dict(),
        "sound": "[audio/wav, 6 bytes]",
        "list": ["a dot", IMAGE],
        "return": ["a dot", "see", IMAGE],
        "data": [{"type": "text", "text": "data of the application"}],
    }


async def test_tools_of_pydantic_ai_receive_the_context_of_their_library():
    pydantic_ai = pytest.importorskip("pydantic_ai")

    def who(ctx: pydantic_ai.RunContext[str], a: int = 3) -> str:
        """Say who."""
        assert isinstance(ctx, pydantic_ai.RunContext)
        return f"{ctx.deps} {ctx.tool_name} {ctx.tool_call_id} {ctx.retry} {ctx.usage.requests} {a}"

    assert (await result_of(pydantic_ai.Tool(who), deps="Ann")).result == "Ann who call_1_1 0 0 3"


class ToolMessage:
    """As ``langchain_core.messages.ToolMessage``."""

    type = "tool"

    def __init__(self, content):
        self.content = content
        self.artifact = {"big": 1}


ToolMessage.__module__ = "langchain_core.messages.tool"


@dataclass
class Weather:
    rain: bool


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        (ToolMessage("found"), "found"),
        (Weather(rain=True), {"rain": True}),
        (
            [
                {"type": "text", "text": "a dot"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            ],
            ["a dot", IMAGE],
        ),
        ([{"type": "image", "base64": "iVBORw==", "mime_type": "image/png"}], [IMAGE]),
        ({"type": "file", "url": "of the application"}, {"type": "file", "url": "of the application"}),
    ],
)
async def test_results_of_langchain_are_those_that_its_model_reads(returned, result):
    class Returns(LangChainTool):
        async def ainvoke(self, given):
            return returned

    assert (await result_of(Returns(), a=1)).result == result


NEEDS_ID = {**SCHEMA, "required": ["a", "tool_call_id"]}


async def test_a_tool_of_langchain_that_needs_the_id_of_the_call_receives_the_call():
    class Injected(LangChainTool):
        args_schema = NEEDS_ID
        tool_call_schema = SCHEMA

        async def ainvoke(self, given):
            return ToolMessage(json.dumps(given))

    assert json.loads((await result_of(Injected(), a=1)).result) == {
        "type": "tool_call", "name": "lookup", "args": {"a": 1}, "id": "call_1_1",
    }  # fmt: skip


async def test_images_of_the_openai_agents_sdk_are_blocks():
    class Draws(OpenAIAgentsTool):
        async def on_invoke_tool(self, context, text):
            image = SimpleNamespace(type="image", image_url="data:image/png;base64,iVBORw==", file_id=None)
            return [SimpleNamespace(type="text", text="a dot"), image]

    assert (await result_of(Draws(), a=1)).result == ["a dot", IMAGE]
