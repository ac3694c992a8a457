"""ACP with the client of the package agent-client-protocol: standard streams, WebSocket and Streamable HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from uamp_support import FACES, http, served

from turntree import agent, uamp
from turntree.execution import plan
from turntree.upp import ToolCall, scripted, tool

acp = pytest.importorskip("acp")

CWD = str(Path("/").resolve())


class Editor:
    """The client's side: what an editor shows, and what its user answers."""

    def __init__(self, *options: str) -> None:
        self.updates: list[Any] = []
        self.asked: list[Any] = []
        self.options = list(options)
        self.shown = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self.shown.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        self.asked.append(tool_call)
        option = self.options.pop(0)
        if option == "cancelled":
            return acp.RequestPermissionResponse(outcome={"outcome": "cancelled"})
        assert option in {choice.option_id for choice in options}
        return acp.RequestPermissionResponse(outcome={"outcome": "selected", "optionId": option})

    def kinds(self) -> list[str]:
        return [update.session_update for update in self.updates]

    def of(self, kind: str) -> list[Any]:
        return [update for update in self.updates if update.session_update == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update.content.text for update in self.of(kind))

    async def show(self, kind: str) -> Any:
        """Wait for an update."""
        while not self.of(kind):
            self.shown.clear()
            await self.shown.wait()
        return self.of(kind)[0]


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(tool_call_id=f"call_{name}", tool_name=name, arguments=arguments)


def text(words: str) -> list[Any]:
    return [acp.text_block(words)]


TRANSPORTS = tuple((face, kind) for face in FACES for kind in ("http", "websocket"))


@contextlib.asynccontextmanager
async def connected(transport: tuple[str, str], editor: Editor, *agents: Any, **options: Any) -> AsyncGenerator[Any]:
    """Serve agents and connect an editor."""
    face, kind = transport
    async with served(face, *agents, **options) as url, linked(url, kind, editor) as connection:
        yield connection


@contextlib.asynccontextmanager
async def linked(url: str, kind: str, editor: Editor, **headers: str) -> AsyncGenerator[Any]:
    """Connect an editor to a server."""
    if kind == "http":
        from acp.http import create_http_stream

        async with http("", headers=headers) as client:
            stream = create_http_stream(f"{url}/acp", client=client)
            async with acp.connect_to_agent(editor, stream) as connection:
                yield connection
        return
    from acp.ws import create_websocket_stream

    stream = await create_websocket_stream(f"{url.replace('http', 'ws', 1)}/acp", headers=headers)
    async with acp.connect_to_agent(editor, stream) as connection:
        yield connection


async def begin(connection: Any) -> str:
    """Initialize a connection and begin a session."""
    answer = await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
    assert answer.protocol_version == acp.PROTOCOL_VERSION
    assert answer.agent_capabilities.load_session
    return (await connection.new_session(cwd=CWD, mcp_servers=[])).session_id


@pytest.mark.parametrize("transport", TRANSPORTS, ids="-".join)
async def test_a_prompt_is_answered_with_its_tool_calls(transport: tuple[str, str]) -> None:
    async def stock(product: str) -> int:
        """How many packets are in stock."""
        return 12

    editor = Editor()
    helper = agent(name="helper", model=scripted([call("stock", product="tea"), "12 packets"]), tools=[stock])
    async with connected(transport, editor, helper) as connection:
        session = await begin(connection)
        answer = await connection.prompt(session_id=session, prompt=text("How many?"))

    assert (answer.stop_reason, editor.text()) == ("end_turn", "12 packets")
    assert answer.usage.output_tokens > 0
    assert (editor.of("tool_call")[0].title, editor.of("tool_call")[0].status) == ("stock", "pending")
    changed = editor.of("tool_call_update")
    assert (changed[0].status, changed[0].raw_input) == ("in_progress", {"product": "tea"})
    assert (changed[-1].status, changed[-1].raw_output) == ("completed", 12)


@pytest.mark.parametrize("transport", TRANSPORTS, ids="-".join)
async def test_the_user_is_asked_for_permission(transport: tuple[str, str]) -> None:
    paid: list[int] = []

    @tool(approval="ask")
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    answers = [[call("pay", amount=amount), "done"] for amount in (1, 2, 3, 4)]
    helper = agent(name="helper", model=scripted([reply for turn in answers for reply in turn]), tools=[pay])
    editor = Editor("reject_once", "allow_once", "allow_always")
    async with connected(transport, editor, helper) as connection:
        session = await begin(connection)
        for _ in answers:
            assert (await connection.prompt(session_id=session, prompt=text("pay"))).stop_reason == "end_turn"

    assert paid == [2, 3, 4], "the last call needs no question"
    assert [asked.raw_input for asked in editor.asked] == [{"amount": 1}, {"amount": 2}, {"amount": 3}]


@pytest.mark.parametrize("transport", TRANSPORTS, ids="-".join)
async def test_permissions_for_calls_of_sub_agents_with_one_id_reach_their_calls(transport: tuple[str, str]) -> None:
    paid: list[str] = []

    @tool(approval="ask")
    async def pay(to: str) -> str:
        """Pay."""
        paid.append(to)
        return f"paid {to}"

    def payer(to: str) -> Any:
        return agent(name=to, model=scripted([call("pay", to=to), f"{to} is done"]), tools=[pay]).to_tool(to)

    both = [call(to, task="pay") for to in ("ann", "bob")]
    helper = agent(name="helper", model=scripted([both, "done"]), tools=[payer("ann"), payer("bob")])
    editor = Editor("reject_once", "allow_once")
    async with connected(transport, editor, helper) as connection:
        session = await begin(connection)
        assert (await connection.prompt(session_id=session, prompt=text("pay"))).stop_reason == "end_turn"

    assert paid == ["bob"]
    assert [asked.raw_input for asked in editor.asked] == [{"to": "ann"}, {"to": "bob"}]
    assert len({asked.tool_call_id for asked in editor.asked}) == 2
    # The editor knows the input of each call that it is asked about.
    begun = {update.tool_call_id: update.raw_input for update in editor.of("tool_call")}
    assert {asked.tool_call_id for asked in editor.asked} <= set(begun)


@pytest.mark.parametrize("transport", TRANSPORTS, ids="-".join)
async def test_a_cancelled_prompt_is_answered_after_its_tool_has_cleaned_up(transport: tuple[str, str]) -> None:
    started, cleaned = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()
        return ""

    editor = Editor()
    async with connected(
        transport, editor, agent(name="helper", model=scripted([call("slow"), "after"]), tools=[slow])
    ) as connection:
        session = await begin(connection)
        prompt = asyncio.ensure_future(connection.prompt(session_id=session, prompt=text("wait")))
        await started.wait()
        await connection.cancel(session_id=session)
        answer = await prompt
        assert (answer.stop_reason, cleaned.is_set()) == ("cancelled", True)
        assert (await connection.prompt(session_id=session, prompt=text("go on"))).stop_reason == "end_turn"
    assert editor.text() == "after"


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_a_conversation_is_loaded_after_a_restart(face: str, kind: str, tmp_path: Path) -> None:
    def helper() -> Any:
        return agent(name="helper", model=scripted(["one"]))

    store = f"sqlite:///{tmp_path / 'sessions.db'}"
    async with connected((face, kind), Editor(), helper(), store=store) as connection:
        session = await begin(connection)
        await connection.prompt(session_id=session, prompt=text("first"))

    editor = Editor()
    async with connected((face, kind), editor, helper(), store=store) as connection:
        await connection.initialize(protocol_version=1)
        listed = (await connection.list_sessions(cwd=CWD)).sessions
        assert [(found.session_id, found.title) for found in listed] == [(session, "first")]
        await connection.load_session(cwd=CWD, session_id=session, mcp_servers=[])
        await editor.show("agent_message_chunk")
        assert editor.kinds() == ["user_message_chunk", "agent_message_chunk"]
        assert (editor.text("user_message_chunk"), editor.text()) == ("first", "one")
        await connection.prompt(session_id=session, prompt=text("second"))
        with pytest.raises(acp.RequestError) as refused:
            await connection.load_session(cwd=CWD, session_id="other", mcp_servers=[])
        assert refused.value.code == -32002


async def test_servers_of_the_client_that_nobody_uses_are_logged(caplog: Any, wait_for_log: Any) -> None:
    unused = acp.schema.McpServerStdio(name="files", command="files", args=[], env=[])
    async with connected(("native", "websocket"), Editor(), agent(model=scripted([]))) as connection:
        await connection.initialize(protocol_version=1)
        await connection.new_session(cwd=CWD, mcp_servers=[unused])
        wait_for_log("the client has 1 MCP servers")

    (record,) = [record for record in caplog.records if "MCP servers" in record.getMessage()]
    assert (record.name, record.levelname) == ("turntree.uamp", "WARNING")


async def test_a_plan_is_shown() -> None:
    def step(name: str, *needed: str) -> dict[str, Any]:
        return {"id": name, "description": f"do {name}", "tool": None, "dependsOn": list(needed)}

    steps = json.dumps({"steps": [step("a"), step("b", "a")]})
    planner = agent(name="planner", model=scripted([steps, "one", "two"]), execution=plan())
    editor = Editor()
    async with connected(("native", "websocket"), editor, planner) as connection:
        session = await begin(connection)
        await connection.prompt(session_id=session, prompt=text("do it"))

    shown = [[(entry.content, entry.status) for entry in update.entries] for update in editor.of("plan")]
    assert shown[0] == [("do a", "in_progress"), ("do b", "pending")]
    assert shown[-1] == [("do a", "completed"), ("do b", "completed")]
    assert editor.text() == "onetwo"


async def test_files_and_images_of_a_prompt_reach_the_model() -> None:
    model = scripted(["seen"])
    async with connected(("native", "websocket"), Editor(), agent(name="helper", model=model)) as connection:
        session = await begin(connection)
        blocks = [
            acp.text_block("Look"),
            acp.resource_block(acp.embedded_text_resource("file:///a.py", "print(1)")),
            acp.resource_link_block("b.py", "file:///b.py"),
            acp.image_block("iVBORw0KGgo=", "image/png"),
        ]
        answer = await connection.prompt(session_id=session, prompt=blocks)

    assert answer.stop_reason == "end_turn"
    message = model.requests[0].messages[-1]
    assert [block.type for block in message.content] == ["text", "text", "text", "image"]
    assert "file:///a.py" in message.text
    assert "print(1)" in message.text
    assert "[b.py](file:///b.py)" in message.text


@pytest.mark.parametrize("face", FACES)
async def test_connections_over_http_need_the_token_of_their_principal(face: str) -> None:
    async def auth(token: str) -> str | None:
        return token if token in {"anna", "ben"} else None

    helper = agent(name="helper", model=scripted(["hi"]))
    initialize = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
    async with served(face, helper, auth=auth) as url, http(url) as client:
        assert (await client.post("/acp", json=initialize)).status_code == 401
        answer = await client.post("/acp", json=initialize, headers={"authorization": "Bearer anna"})
        headers = {"acp-connection-id": answer.headers["acp-connection-id"]}
        new = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}
        for token, status in (("ben", 404), ("anna", 202)):
            named = {**headers, "authorization": f"Bearer {token}"}
            assert (await client.post("/acp", json=new, headers=named)).status_code == status
        editor = Editor()
        async with linked(url, "websocket", editor, authorization="Bearer anna") as connection:
            session = await begin(connection)
            assert (await connection.prompt(session_id=session, prompt=text("hi"))).stop_reason == "end_turn"


PROGRAM = """
import sys

print("printed while the module is imported")

from turntree import agent
from turntree.upp import ToolCall, scripted, tool


@tool(approval="ask")
def stock(product: str) -> int:
    "How many packets are in stock."
    print("printed by a tool")
    sys.stdout.flush()
    assert sys.stdin.read() == ""
    return 12


def model():
    call = ToolCall(tool_call_id="call_1", tool_name="stock", arguments={"product": "tea"})
    return scripted([call, "12 packets"])


helper = agent(name="helper", model=model(), tools=[stock])
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    """The command that serves an agent, in the folder of its module."""
    (tmp_path / "app.py").write_text(PROGRAM)
    return [sys.executable, "-m", "turntree", "acp", "app:helper"]


async def test_an_editor_starts_the_command_and_loads_the_conversation_with_the_next_one(
    program: list[str], tmp_path: Path
) -> None:
    command = [*program, "--store", f"sqlite:///{tmp_path / 'sessions.db'}"]
    editor = Editor("allow_once")
    # The package ends a process by a signal that needs longer.
    patient = {"shutdown_timeout": 30}
    spawned = acp.spawn_agent_process(editor, *command, env=os.environ, cwd=tmp_path, transport_kwargs=patient)
    async with spawned as (connection, process):
        session = await begin(connection)
        answer = await connection.prompt(session_id=session, prompt=text("How many?"))
        assert (answer.stop_reason, editor.text()) == ("end_turn", "12 packets")
        assert editor.of("tool_call_update")[-1].raw_output == 12
        capabilities = await connection.ext_method("capabilities", {})
        assert (capabilities["id"], capabilities["provider"]) == ("helper", "turntree")
    assert process.returncode == 0

    editor = Editor()
    async with acp.spawn_agent_process(editor, *command, env=os.environ, cwd=tmp_path) as (connection, _process):
        await connection.initialize(protocol_version=1)
        await connection.load_session(cwd=CWD, session_id=session, mcp_servers=[])
        await editor.show("agent_message_chunk")
        assert editor.text("user_message_chunk") == "How many?"
        assert editor.text() == "12 packets"


INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'


def test_malformed_lines_are_answered_and_the_end_of_the_input_ends_the_command(
    program: list[str], tmp_path: Path
) -> None:
    lines = b"\n{not json}\n\xff\xfe\n[]\n" + INITIALIZE + b'{"jsonrpc":"2.0","method":"session/fly"}\n'
    done = subprocess.run(program, input=lines, cwd=tmp_path, capture_output=True, timeout=60, check=False)

    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer.get("error", {}).get("code") for answer in answers] == [-32700, -32700, -32600, None]
    assert answers[-1]["result"]["protocolVersion"] == 1
    assert done.returncode == 0, done.stderr
    assert b"printed while the module is imported" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM for other processes")
def test_sigterm_ends_the_command(program: list[str], tmp_path: Path) -> None:
    process = subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(INITIALIZE)
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == b""
        assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("place", "words"),
    [("app", "MODULE:AGENT"), ("app:model", "is not an agent"), ("other:helper", "there is no module")],
)
def test_what_is_not_an_agent_is_an_error_of_use(program: list[str], tmp_path: Path, place: str, words: str) -> None:
    command = [*program[:-1], place]
    done = subprocess.run(command, input=b"", cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert words in done.stderr.decode()


async def test_acp_stdio_takes_an_agent() -> None:
    with pytest.raises(TypeError, match="expected an agent"):
        await uamp.acp_stdio("helper")  # type: ignore[arg-type]
