"""Clients and servers of turntree with each other, and clients of the official SDK at our servers."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys

import pytest
from mcp_support import OFFICIAL_CLIENT, OWN_SERVER, environment, model_events
from support.ports import reserved_port

from turntree import agent, handoff, mcp
from turntree.upp import Tool, scripted


def own() -> mcp.McpServer:
    return mcp.stdio(sys.executable, str(OWN_SERVER))


async def test_an_agent_calls_the_tools_of_a_program():
    model = scripted([[{"toolName": "add", "arguments": {"a": 2, "b": 3}}], "Five."])

    async with own() as server:
        turn = await agent(model=model, tools=[server]).run("2 + 3?")

    assert turn.response.text == "Five."
    assert [call.result for call in turn.tool_executions] == ["5"]
    assert [tool["name"] for tool in model.requests[0].tools] == ["add", "city", "count", "helper"]


async def test_results_are_structured_and_errors_are_read_by_the_model():
    calls = [
        [{"toolName": "city", "arguments": {"name": "Oulu"}}],
        [{"toolName": "city", "arguments": {"name": "Rome"}}],
        "Done.",
    ]

    async with own() as server:
        turn = await agent(model=scripted(calls), tools=[server]).run("Look them up.")

    found, refused = turn.tool_executions
    assert found.result == {"name": "Oulu", "country": "Finland"}
    assert refused.is_error
    assert "only Oulu is known" in str(refused.result)


async def test_an_agent_is_a_tool_of_a_server():
    async with own() as server:
        result = await server.call("helper", task="Hello!")

    assert result["content"][0]["text"] == "You said: Hello!"


async def test_progress_reaches_the_stream_of_the_run():
    model = scripted([[{"toolName": "count", "arguments": {"to": 3}}], "Counted."])

    async with own() as server:
        events = [event async for event in agent(model=model, tools=[server]).stream("Count!")]

    reports = [event.delta["progress"] for event in model_events(events, "tool_execution_progress")]
    assert reports == [{"progress": number, "total": 3} for number in (1, 2, 3)]


async def test_names_are_prefixed_and_filtered():
    async with mcp.stdio(sys.executable, str(OWN_SERVER), prefix="my_", allow=["add", "city"], deny=["city"]) as server:
        assert [tool.name for tool in await server.tools()] == ["my_add"]


async def test_a_program_that_does_not_exist_is_named():
    with pytest.raises(mcp.McpError, match='cannot start the MCP server "no-such-program"') as caught:
        async with mcp.stdio("no-such-program"):
            pass
    assert caught.value.kind == "connect"


async def test_a_program_that_ends_at_once_is_an_error():
    with pytest.raises(mcp.McpError, match="cannot connect"):
        async with mcp.stdio(sys.executable, "-c", "pass"):
            pass


async def test_the_environment_of_the_application_is_not_passed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    source = (
        "import asyncio, os\nfrom turntree import mcp\n"
        "def look(name: str) -> str:\n    'Look.'\n    return os.environ.get(name, 'unset')\n"
        "asyncio.run(mcp.serve(look))"
    )

    async with mcp.stdio(sys.executable, "-c", source, env={"GIVEN": "yes"}) as server:
        seen = [(await server.call("look", name=name))["content"][0]["text"] for name in ("SECRET_KEY", "GIVEN")]

    assert seen == ["unset", "yes"]


async def test_a_server_over_http_serves_several_clients():
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    async with (
        mcp.serve(shout, transport="http") as server,
        mcp.http(server.url) as first,
        mcp.http(server.url) as second,
    ):
        results = await asyncio.gather(first.call("shout", text="a"), second.call("shout", text="b"))
        assert [result["content"][0]["text"] for result in results] == ["A", "B"]


async def test_a_server_over_http_checks_the_token():
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    async with mcp.serve(shout, transport="http", auth=lambda token: "ann" if token == "t1" else None) as server:
        with pytest.raises(mcp.McpError) as refused:
            async with mcp.http(server.url, auth="t2"):
                pass
        async with mcp.http(server.url, auth=lambda: "t1") as client:
            assert [tool.name for tool in await client.tools()] == ["shout"]

    assert refused.value.kind == "unauthorized"


async def test_a_cancelled_call_is_cancelled_on_the_server():
    started, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    async with mcp.serve(wait, transport="http") as server, mcp.http(server.url) as client:
        call = asyncio.create_task(client.call("wait"))
        await started.wait()
        call.cancel()
        await asyncio.wait_for(ended.wait(), 60)
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_slow_call_times_out():
    async def wait() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return "never"

    async with mcp.serve(wait, transport="http") as server, mcp.http(server.url, timeout=3) as client:
        with pytest.raises(mcp.McpError, match="raise timeout=") as caught:
            await client.call("wait")

    assert caught.value.kind == "timeout"


async def test_a_tool_with_an_approval_is_not_served():
    def pay() -> str:
        """Pay."""
        return "paid"

    with pytest.raises(ValueError, match="asks for approval"):
        mcp.serve(Tool("pay", "Pay.", None, pay, "ask"))


SEEN = {
    "tools": ["add", "city", "count", "helper"],
    "added": "5",
    "refused": [True, "only Oulu is known"],
    "found": {"name": "Oulu", "country": "Finland"},
}


async def test_the_official_client_uses_our_server_over_stdio():
    seen = await official_client("stdio", sys.executable, str(OWN_SERVER))

    assert seen == SEEN


async def test_the_official_client_uses_our_server_over_http():
    from own_server import add, city, count, helper

    async with mcp.serve(add, city, count, helper, transport="http") as server:
        seen = await official_client("http", server.url)

    assert seen == SEEN


async def official_client(*arguments: str) -> object:
    python = await asyncio.to_thread(environment)
    process = await asyncio.create_subprocess_exec(
        python, str(OFFICIAL_CLIENT), *arguments, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return json.loads(output)


def test_the_kinds_of_servers_have_the_same_options():
    options = [
        {name: parameter.default for name, parameter in inspect.signature(make).parameters.items()}
        for make in (mcp.stdio, mcp.http, mcp.sse)
    ]

    shared = {"prefix": None, "allow": None, "deny": None, "timeout": 60, "on_elicitation": None, "on_sampling": None}
    assert all({**shared, "roots": ()}.items() <= own.items() for own in options)
    with pytest.raises(TypeError, match=r"mcp\.http\(\) has no argument 'tool_prefix': write prefix=$"):
        mcp.http("http://127.0.0.1:1/mcp", tool_prefix="x")


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"timeout": "5"}, TypeError, "timeout must be a number of seconds or None, not str"),
        ({"timeout": True}, TypeError, "timeout must be a number of seconds or None, not bool"),
        ({"timeout": 0}, ValueError, "timeout must be a number of seconds greater than 0, not 0"),
        ({"timeout": float("nan")}, ValueError, "timeout must be a number of seconds greater than 0, not nan"),
        ({"timeout": 10**400}, ValueError, "timeout is too large; write timeout=None for no limit"),
        ({"prefix": 3}, TypeError, "prefix must be a str, not int"),
        ({"allow": 3}, TypeError, "allow must be a list of names of tools, not int"),
        ({"deny": [3]}, TypeError, r"deny\[0\] must be a str, not int"),
        ({"roots": "/tmp"}, TypeError, r"roots must be a list of folders; write roots=\['/tmp'\]"),
        ({"roots": 3}, TypeError, "roots must be a list of folders, not int"),
        ({"media": 3}, TypeError, "media must be a list of kinds of media, not int"),
        ({"on_elicitation": "ask"}, TypeError, "on_elicitation must be a function or \"approval\", not 'ask'"),
        ({"on_sampling": "openai:gpt-5"}, TypeError, "on_sampling must be a model, such as .* not str"),
        ({"env": {"A": 3}}, TypeError, r"env\['A'\] must be a str, not int"),
        ({"env": ["A=3"]}, TypeError, "env must be a dict, not list"),
    ],
)
def test_options_of_servers_are_checked_where_they_are_given(options, kind, text):
    with pytest.raises(kind, match=text):
        mcp.stdio("server", **options)


def test_arguments_of_servers_are_checked_where_they_are_given():
    with pytest.raises(TypeError, match="command must be a str, not int"):
        mcp.stdio(3)
    with pytest.raises(TypeError, match=r"args\[1\] must be a str, not int"):
        mcp.stdio("server", "--port", 3)
    for connect in (mcp.http, mcp.sse):
        with pytest.raises(TypeError, match=r"headers\['A'\] must be a str, not int"):
            connect("https://example.com/mcp", headers={"A": 3})
        with pytest.raises(
            TypeError, match=r"auth must be a token, a function that returns one, or mcp.oauth\(url\), not int"
        ):
            connect("https://example.com/mcp", auth=3)


def test_a_handoff_is_not_served():
    billing = agent(model=scripted(["Refunded."]), name="billing")

    with pytest.raises(ValueError, match="'transfer_to_billing' hands a conversation over.*serve the agent itself"):
        mcp.serve(handoff(billing), transport="http")


@pytest.mark.parametrize("option", ["name", "instructions"])
def test_texts_of_a_server_are_checked(option):
    with pytest.raises(TypeError, match=f"{option} must be a str, not int"):
        mcp.serve(agent(model=scripted(["Hi."]), name="helper"), transport="http", **{option: 3})


@pytest.mark.parametrize("connect", [mcp.http, mcp.sse])
async def test_a_server_that_is_not_there_is_named_without_types_of_rust(connect):
    message = r"^cannot connect to the MCP server: .*refused"
    with reserved_port() as port, pytest.raises(mcp.McpError, match=message) as raised:
        async with connect(f"http://127.0.0.1:{port}/mcp"):
            pass

    assert "::" not in str(raised.value)
    assert "Transport" not in str(raised.value)


def test_a_server_without_a_client_says_so():
    program = (
        "import asyncio\n"
        "from turntree import agent, mcp\n"
        "from turntree.upp import scripted\n"
        "try:\n"
        "    asyncio.run(mcp.serve(agent(model=scripted(['Hi.']), name='helper')))\n"
        "except mcp.McpError as error:\n"
        "    print(error.kind, error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    assert ended.stdout.strip() == (
        "connect cannot serve the MCP client: standard input ended before its first message; a client starts this "
        "program and writes to it"
    )


async def test_arguments_are_validated_with_the_schema_of_a_tool_and_of_an_agent():
    called = []

    def run(**arguments: object) -> str:
        called.append(arguments)
        return "done"

    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    helper = agent(model=scripted(["Hi."]), name="helper")
    async with (
        mcp.serve(Tool("raw", "Run it.", schema, run), helper, transport="http") as server,
        mcp.http(server.url) as client,
    ):
        for name, arguments, words in [
            ("raw", {}, '"count" is a required property'),
            ("raw", {"count": "x"}, '/count: "x" is not of type "integer"'),
            ("helper", {}, '"task" is a required property'),
        ]:
            result = await client.call(name, **arguments)
            assert result["isError"]
            assert words in result["content"][0]["text"]
        assert called == []
        done = await client.call("raw", count=1)
        assert done["content"] == [{"type": "text", "text": "done"}]
        assert not (await client.call("helper", task="Greet."))["isError"]
        assert called == [{"count": 1}]
