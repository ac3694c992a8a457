"""Makes the agent whose model calls and tool calls are recorded, and executes its runs."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any, Literal, cast

from turntree import _core
from turntree._agent import Agent
from turntree._agent_options import AgentOptions
from turntree._strategies import LoopStrategy, PlanStrategy, ReactStrategy
from turntree._toolsets import Toolset, name_of, tools_of
from turntree._types import History, Input
from turntree.durable._steps import Engine, InDoubt, Run, current_run
from turntree.upp._tools import Tool


class _DurableTool(Tool[..., Any]):
    """A tool whose calls are recorded by the current run."""

    __slots__ = ("_original", "path")

    def __init__(self, original: Tool[..., Any], path: str, sub_agent: Agent | None) -> None:
        super().__init__(
            original.name,
            original.description,
            original._parameters,
            original.run,
            original.approval,
            original.metadata,
            inline=original.inline,
            idempotent=original.idempotent,
            retries=original.retries,
        )
        self._original = original
        self.path: str = path
        if sub_agent is not None:
            self._agent = sub_agent
            self._sub_agent = sub_agent._native

    async def execute(self, arguments: dict[str, Any], context: _core.ToolContext) -> Any:
        """Call the function of the tool."""
        original = self._original
        given = context if original._takes_context else None
        if original._mode == "thread":
            result = await asyncio.to_thread(original._call, arguments, given)
        else:
            result = original._call(arguments, given)
        return await result if inspect.isawaitable(result) else result

    async def ask(self, arguments: dict[str, Any]) -> bool | Literal["ask"]:
        """Call the approval function of the tool."""
        approval = self.approval
        answer = approval(arguments) if callable(approval) else "ask"
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, str) and answer != "ask":
            message = f'approval must return True, False or "ask", not {answer!r}'
            raise TypeError(message)
        return "ask" if answer == "ask" else bool(answer)

    # The native core uses the members below.

    @property
    def _mode(self) -> str:
        return "async"

    @property
    def _has_custom_schema(self) -> bool:
        return self._original._has_custom_schema

    @property
    def _takes_context(self) -> bool:
        return True

    async def _call(self, arguments: dict[str, Any], context: Any = None) -> Any:
        run = current_run.get()
        return await (self.execute(arguments, context) if run is None else run.tool_call(self, arguments, context))

    async def _approve(self, arguments: dict[str, Any], context: _core.ToolContext) -> bool | Literal["ask"]:
        run = current_run.get()
        return await (self.ask(arguments) if run is None else run.approve(self, arguments, context))


def recorded_agent(agent: Agent, path: str) -> Agent:
    """Return a copy of the agent, with the same id, that records its calls in the current run.

    Args:
        agent: The agent.
        path: The name that the names of its steps start with.

    Raises:
        TypeError: An agent has an execution strategy that is written in Python, whose own steps cannot be recorded.
        ValueError: An agent has no model or no fixed name where it needs one.
    """
    options = agent.options
    execution = options.get("execution")
    if execution is not None and not isinstance(execution, LoopStrategy | ReactStrategy | PlanStrategy):
        message = f"{path}: a durable run needs loop(), react() or plan(), not the strategy {type(execution).__name__}"
        raise TypeError(message)
    model = options.get("model")
    tools = [_recorded_tool(tool, path) for tool in agent.tools]
    tools += [_RecordedToolset(toolset, path) for toolset in agent.toolsets]
    changed: AgentOptions = {**options, "tools": tools, "id": agent.id}
    if isinstance(model, _core.ModelReference):
        changed["model"] = _recorded_model(model, path)
    return Agent(**changed)


def _recorded_model(model: _core.ModelReference, path: str) -> _core.ModelReference:
    async def record(call: _core.ModelCall) -> str:
        run = current_run.get()
        return await (call.run() if run is None else run.model_call(path, call))

    return _core.recorded_model(model, record)


def _recorded_tool(tool: Any, path: str) -> Any:
    if not isinstance(tool, Tool):
        return tool
    original = cast("Tool[..., Any]", tool)
    sub_agent: Agent | None = original._agent
    if sub_agent is None:
        return _DurableTool(original, f"{path}/tool/{original.name}", None)
    if original.name == f"agent_{sub_agent.id}" and sub_agent.options.get("id") is None:
        message = (
            f"{path}: the name of the sub-agent {sub_agent.name or sub_agent.id!r} changes with each process; "
            "pass agent.to_tool(name=…) in tools"
        )
        raise ValueError(message)
    nested = f"{path}/{original.name}"
    return _DurableTool(original, nested, recorded_agent(sub_agent, nested))


class _RecordedToolset:
    """A toolset whose tools record their calls. It is asked again when a run is repeated."""

    def __init__(self, original: Toolset, path: str) -> None:
        self.name: str = name_of(original)
        self._original = original
        self._path = path

    async def tools(self, context: _core.RunContext[Any], /) -> list[Any]:
        """Return the tools that the run has now."""
        returned = self._original.tools(context)
        found = await returned if inspect.isawaitable(returned) else returned
        return [_recorded_tool(tool, self._path) for tool in tools_of(self.name, found)]


class Recorded:
    """An agent whose runs are executed step by step.

    Args:
        agent: The agent.
        name: The name of the workflow.
        in_doubt: See the classes ``DurableAgent``.
    """

    def __init__(self, agent: Agent, name: str, in_doubt: InDoubt) -> None:
        if not isinstance(agent, Agent):
            message = f"agent must be an Agent, not {type(agent).__name__}"
            raise TypeError(message)
        if not isinstance(name, str) or not name:
            message = "name must be a non-empty str: a process that continues a run finds the agent by it"
            raise TypeError(message)
        if in_doubt not in ("ask", "repeat"):
            message = f'in_doubt must be "ask" or "repeat", not {in_doubt!r}'
            raise ValueError(message)
        if agent.model is None:
            message = f"{name}: the agent needs a model; set agent(model=…)"
            raise ValueError(message)
        self.agent: Agent = recorded_agent(agent, name)
        self._in_doubt: InDoubt = in_doubt

    async def execute(self, engine: Engine, id: str, request: str) -> str:
        """Execute a run, or continue it, and return its turn as JSON text."""
        fields = json.loads(request)
        history = _core.Thread.model_validate(fields["history"]) if fields["history"] is not None else None
        given = _core.Message.model_validate(fields["input"])
        run = Run(engine, self._in_doubt, self.agent.id)
        turn = await run.complete(lambda: self.agent._native.run(history, given, id))
        return json.dumps(turn)

    def turn(self, text: str) -> _core.Turn:
        """Return the turn of a run from its JSON text, with its data as the type of the structure."""
        return self.agent._native.typed_turn(_core.Turn.model_validate_json(text))


def request_of(input: Input, history: History | None) -> str:
    """Return the arguments of a run as JSON text. The message of the input gets its id and its time here.

    Raises:
        TypeError: `input` or `history` has the wrong type.
    """
    if isinstance(input, _core.Message):
        message = input
    elif isinstance(input, dict) and "timestamp" in input:
        message = _core.Message.model_validate(input)
    else:
        content: Any = input if isinstance(input, str | list) else [input]
        message = _core.UserMessage(content)
    thread = None
    if history is not None:
        thread = history if isinstance(history, _core.Thread) else _core.Thread(list(history))
    return json.dumps({"input": message.model_dump(mode="json"), "history": thread and thread.to_dict()})
