"""Makes workflows from the definitions of the vectors; the README describes them."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from pydantic import Field, create_model

from turntree import ToolContext, uaip
from turntree.uaip import State, StateTransfer, TaskError, Workflow
from turntree.upp import Tool

TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}
EMPTY = inspect.Parameter.empty


def made_of(definition: dict[str, Any]) -> Any:
    """Make a workflow; with ``state_management`` by the decorators, which alone have it."""
    return _by_classes(definition) if "state_management" in definition else _by_functions(definition)


def _by_functions(definition: dict[str, Any]) -> Workflow:
    made = Workflow(
        definition["name"],
        definition.get("description"),
        state=definition.get("state_schema"),
        private=definition.get("private", ()),
        agent_writable=definition.get("agent_writable", ()),
        require_terminal=definition.get("require_terminal", False),
    )
    for stage in definition["stages"]:
        hooks = {name: _hook(stage[name]) for name in ("on_enter", "on_exit") if name in stage}
        options = {name: stage[name] for name in ("initial", "complete_on_enter", "description") if name in stage}
        made.stage(stage["name"], [_prerequisite(item) for item in stage.get("prerequisites", ())], **hooks, **options)
        for task in stage.get("tasks", ()):
            options = {name: task[name] for name in ("timeout", "writes") if name in task}
            described = {"description": task.get("description"), "output": task.get("returns")}
            made.task(stage["name"], **options, **described)(_task(task))
    for transition in definition["transitions"]:
        made.transition(transition["from"], transition["to"], when=_guard(transition.get("guard")))
    return made


def _by_classes(definition: dict[str, Any]) -> type[Any]:
    members: dict[str, Any] = {}
    for stage in definition["stages"]:
        cls = uaip.stage(stage["name"], stage.get("prerequisites", ()))(type(stage["name"], (), {}))
        for task in stage.get("tasks", ()):
            uaip.task(stage=cls)(_task(task))
        members[stage["name"]] = cls
    targets: dict[str, list[str]] = {}
    for transition in definition["transitions"]:
        targets.setdefault(transition["from"], []).append(transition["to"])
    copies = {"all": StateTransfer.ALL, "none": StateTransfer.NONE}
    rules = [
        (
            rule["from"],
            rule["to"],
            copies[rule["copies"]] if isinstance(rule["copies"], str) else rule["copies"]["keys"],
        )
        for rule in definition["state_management"]
    ]
    members.update(transitions=targets, state_management=rules)
    return uaip.workflow(definition["name"])(type("Made", (), members))


def _copies(copies: str | dict[str, list[str]]) -> Any:
    return StateTransfer(copies) if isinstance(copies, str) else copies["keys"]


def _prerequisite(item: str | dict[str, Any]) -> Any:
    if isinstance(item, str):
        return item
    fields: dict[str, Any] = {
        name: (TYPES[schema["type"]], Field(ge=schema["minimum"]) if "minimum" in schema else ...)
        for name, schema in item["schema"]["properties"].items()
    }
    return create_model(item["model"], **fields)


def _guard(guard: dict[str, str] | None) -> Any:
    return None if guard is None else lambda state: state.has(guard["allow_if"])


def _hook(behaviour: dict[str, Any]) -> Any:
    async def hook(state: State) -> None:
        await _perform(behaviour, state, None)

    return hook


def _task(task: dict[str, Any]) -> Any:
    """Make a function whose signature is that of the schema."""
    behaviour = task["do"]

    async def run(state: State, context: ToolContext, **_arguments: Any) -> Any:
        return await _perform(behaviour, state, context)

    schema = task.get("parameters", {"properties": {}, "required": []})
    parameters = [
        inspect.Parameter("state", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=State),
        inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=ToolContext),
    ]
    for name, part in schema["properties"].items():
        default = EMPTY if name in schema["required"] else part["default"]
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=TYPES[part["type"]]))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__name__ = run.__qualname__ = task["name"]
    if task.get("approval"):
        return Tool(task["name"], task.get("description", ""), schema, run, "ask")
    return run


async def _perform(behaviour: dict[str, Any], state: State, context: ToolContext | None) -> Any:
    """Do what a behaviour says, in the order of the README."""
    for report in behaviour.get("report", ()):
        if context is not None:
            context.report(report)
    for key, value in behaviour.get("set", {}).items():
        state.set(key, value)
    for key in behaviour.get("delete", ()):
        state.delete(key)
    counter = behaviour.get("increment")
    before = state.get(counter, 0) if counter else 0
    await asyncio.sleep(behaviour.get("wait", 0))
    if counter:
        state.set(counter, before + 1)
    if behaviour.get("raise") == "task":
        raise TaskError(behaviour["message"])
    if behaviour.get("raise") == "other":
        raise RuntimeError(behaviour["message"])
    if "return_state" in behaviour:
        return state.get(behaviour["return_state"])
    if "return_states" in behaviour:
        return [state.get(key) for key in behaviour["return_states"]]
    return behaviour.get("return")
