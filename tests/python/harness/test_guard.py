"""`guard` as middleware of agents: what it sees, leases, spans; and the hook `wrap_tool` in general."""

import asyncio
import subprocess

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from turntree import ApprovalRequired, agent, session, tracing
from turntree.harness import Coordination, Gate, Project, Worktrees, guard
from turntree.upp import Tool, scripted, tool


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "main"
    folder.mkdir()
    for command in ("init -q -b main", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m Start"):
        subprocess.run(["git", "-C", folder, *command.split()], check=True)
    return Project.find(Worktrees(Project.find(folder)).create("x").path)


def calls(*commands):
    return scripted([*({"toolName": "shell", "arguments": {"command": command}} for command in commands), "Done."])


def make_shell(ran):
    def shell(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return "ok"

    return shell


class Source:
    name = "source"

    def __init__(self, *tools):
        self.given = list(tools)

    def tools(self, context):
        return self.given


async def test_tools_of_toolsets_are_guarded_too(project):
    ran = []
    helper = agent(model=calls("reboot", "ls"), tools=[Source(make_shell(ran))], middleware=[guard(project)])

    turn = await helper.run("Go")

    assert ran == ["ls"]
    assert "systems.process" in str(turn.tool_executions[0].result)


async def test_the_own_approval_of_a_tool_still_counts(project):
    shell = tool(approval="ask")(make_shell([]))
    talk = session(agent(model=calls("ls"), tools=[shell], middleware=[guard(project)]))

    with pytest.raises(ApprovalRequired):
        await talk.run("Go")

    talk.approve_all()
    assert (await talk.resume()).tool_executions[0].result == "ok"


async def test_a_sub_agent_that_the_gate_denies_does_not_start(project):
    asked = []

    def describe(name, arguments):
        asked.append(name)
        return {"kind": "shell", "command": "reboot"}

    inner = agent(model=scripted(["Hello."]), name="inner")
    outer = agent(
        model=scripted([[{"toolName": "inner", "arguments": {"message": "x"}}], "Done."]),
        tools=[inner.to_tool("inner", "Ask", {"type": "object", "properties": {"message": {"type": "string"}}})],
        middleware=[guard(project, action=describe)],
    )

    turn = await outer.run("Go")

    assert asked
    assert turn.tool_executions[0].is_error


async def test_an_edit_has_a_lease_while_it_runs(project):
    held = []

    async def write(path: str, content: str) -> str:
        """Write a file."""
        held.extend(claim["resource"] for claim in Coordination(project, "reader").claims)
        return "ok"

    model = scripted([[{"toolName": "write", "arguments": {"path": "src/a.rs", "content": "x"}}], "Done."])
    await agent(model=model, tools=[write], middleware=[guard(project)]).run("Go")

    assert held == ["file:src/a.rs"]
    assert Coordination(project, "reader").claims == []


async def test_a_file_that_another_agent_has_is_an_error_for_the_model(project):
    other = Coordination(project, "other")

    def write(path: str, content: str) -> str:
        """Write a file."""
        return "ok"

    model = scripted([[{"toolName": "write", "arguments": {"path": "a.rs", "content": "x"}}], "Done."])
    with other.claim("file:a.rs"):
        turn = await agent(model=model, tools=[write], middleware=[guard(project)]).run("Go")

    assert turn.tool_executions[0].is_error
    assert "other" in str(turn.tool_executions[0].result)


async def test_two_calls_of_one_run_may_edit_one_file(project):
    async def write(path: str, content: str) -> str:
        """Write a file."""
        await asyncio.sleep(0)
        return "ok"

    call = {"toolName": "write", "arguments": {"path": "a.rs", "content": "x"}}
    turn = await agent(model=scripted([[call, call], "Done."]), tools=[write], middleware=[guard(project)]).run("Go")

    assert [execution.result for execution in turn.tool_executions] == ["ok", "ok"]


async def test_a_decision_is_on_the_span_of_the_call(project):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.instrument(tracer_provider=provider)
    try:
        await agent(model=calls("reboot", "ls"), tools=[make_shell([])], middleware=[guard(project)]).run("Go")
    finally:
        tracing.uninstrument()

    spans = [span for span in exporter.get_finished_spans() if span.name == "execute_tool shell"]
    assert [span.attributes["turntree.policy.outcome"] for span in spans] == ["deny", "allow"]
    assert spans[0].attributes["turntree.policy.rules"] == ("systems.process",)


async def test_a_call_is_recorded_once_with_the_run(project):
    await agent(model=calls("ls"), tools=[make_shell([])], middleware=[guard(project)]).run("Go")

    (entry,) = Gate.load(project).audit()
    assert entry["outcome"] == "allow"
    assert entry["agent"].startswith("run:")


async def test_a_rule_in_python_counts_and_one_that_fails_denies(project):
    gate = Gate.load(project)

    @gate.rule("user.no-friday", remedy="wait until Monday")
    def friday(action):
        if "deploy" in action.get("command", ""):
            return "it is Friday"
        return None if "ls" in action.get("command", "") else action["missing"]

    ran = []
    helper = agent(model=calls("deploy", "ls", "pwd"), tools=[make_shell(ran)], middleware=[guard(gate)])
    turn = await helper.run("Go")

    assert ran == ["ls"]
    results = [str(execution.result) for execution in turn.tool_executions]
    assert "it is Friday" in results[0]
    assert "wait until Monday" in results[0]
    assert "the rule failed" in results[2]
    with pytest.raises(ValueError, match="user"):
        gate.rule("git.mine", remedy="none")


async def test_an_action_of_none_is_not_checked(project):
    ran = []
    middleware = guard(project, action=lambda name, arguments: None)
    await agent(model=calls("reboot"), tools=[make_shell(ran)], middleware=[middleware]).run("Go")

    assert ran == ["reboot"]
    assert Gate.load(project).audit() == []


async def test_the_first_middleware_wraps_outermost_and_a_wrong_wrapper_is_an_error():
    order = []

    class Wrap:
        def __init__(self, name):
            self.name = name

        def wrap_tool(self, inner):
            def run(word: str) -> str:
                """Say a word."""
                order.append(self.name)
                return inner.run(word)

            return Tool(inner.name, inner.description, None, run)

    def say(word: str) -> str:
        """Say a word."""
        return word

    model = scripted([[{"toolName": "say", "arguments": {"word": "hi"}}], "Done."])
    helper = agent(model=model, tools=[say], middleware=[Wrap("first"), Wrap("second")])
    await helper.run("Go")
    assert order == ["first", "second"]
    assert helper.tools[0].run is say

    class Wrong:
        name = "wrong"

        def wrap_tool(self, inner):
            return None

    with pytest.raises(TypeError, match="wrap_tool of middleware 'wrong' must return a Tool"):
        agent(model=model, tools=[say], middleware=[Wrong()])
