"""The gate around the tools of our own agents."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from turntree.harness._errors import PolicyViolation
from turntree.harness._gate import Decision, Gate
from turntree.harness._project import PROJECT, Project, checked_project
from turntree.upp._tools import Tool

# The most decisions that wait for their calls.
_KEPT = 1000

ActionOf = Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None]


def guard(
    project: Project | Gate | None = None, *, action: ActionOf | None = None, leases: bool = True, ttl: float = 300
) -> Guard:
    """Make middleware for agents: the calls of their tools pass the gate of a project.

    A denied call does not run: the model gets the reason and the remedy as the tool's error. A call that needs a
    person's decision stops the run with `ApprovalRequired`, as with ``approval="ask"``. Every decision is recorded in
    the audit of the project, and on the span of the call if the run is traced.

    ::

        agent(model=…, tools=[shell, write_file], middleware=[guard()])

    Args:
        project: The project, or a gate with rules in Python. Default: the project of the working directory.
        action: Makes the action from the name of a tool and its arguments; None for a call that is not checked.
            Default: ``command`` is a shell command, ``path`` an edited file (a read one if the name of the tool starts
            with ``read``, ``list``, ``search`` or ``view``).
        leases: Whether a call that edits a file has a lease of it while it runs. A file that another agent has leased
            is an error for the model; runs of sub-agents are agents of their own.
        ttl: The seconds after which such a lease ends by itself.

    Raises:
        TypeError: ``project`` is neither a project nor a gate, or ``action`` is not a function.
        ValueError: ``ttl`` is not positive.
    """
    if action is not None and not callable(action):
        raise TypeError(f"action must be a function of a tool's name and arguments, not {type(action).__name__}")
    if not ttl > 0:
        raise ValueError(f"ttl must be a positive number of seconds, not {ttl}")
    if project is not None and not isinstance(project, Gate):
        project = checked_project(project, f"guard({PROJECT}), or guard(gate)")
    gate = project if isinstance(project, Gate) else Gate.load(project or Project.find())
    return Guard(gate, action or action_of, ttl if leases else None)


class Guard:
    """Middleware that asks the gate before each call of a tool. Created by `guard`.

    Tools that the vendor of a model runs itself are not seen.

    Attributes:
        gate: The gate.
        name: ``"guard"``.
    """

    name = "guard"

    def __init__(self, gate: Gate, action: ActionOf, ttl: float | None) -> None:
        self.gate: Gate = gate
        self._action = action
        self._ttl = ttl
        self._decided: dict[str, tuple[dict[str, Any], Decision]] = {}

    def wrap_tool(self, tool: Tool[..., Any]) -> Tool[..., Any]:
        """Return the tool with the gate around it. The agent calls it when it is made.

        Args:
            tool: The tool.
        """
        return _GuardedTool(tool, self)

    def __repr__(self) -> str:
        return f"guard({self.gate.project!r})"

    def _describe(self, tool: str, arguments: Mapping[str, Any], context: Any) -> dict[str, Any] | None:
        found = self._action(tool, arguments)
        if found is None:
            return None
        who = {"agent": f"run:{context.turn_id}", "session": context.session_id or "", "harness": "turntree"}
        return {**who, **found}

    def _decide(self, action: dict[str, Any], call: str) -> str:
        """Decide before a call; the call itself does not ask again."""
        decision = self.gate.check(action)
        self._decided[call] = (action, decision)
        while len(self._decided) > _KEPT:
            # Calls that a person has denied never come.
            self._decided.pop(next(iter(self._decided)), None)
        return decision.outcome

    @contextmanager
    def _around(self, action: dict[str, Any] | None, call: str) -> Generator[None]:
        if action is None:
            yield
            return
        decided = self._decided.pop(call, None)
        # A person may have changed the arguments, and a session that was loaded has decided in another process.
        decision = decided[1] if decided is not None and decided[0] == action else self.gate.check(action)
        rules = [rule.id for rule in decision.rules]
        _trace(decision.outcome, rules)
        if decision.outcome == "deny":
            raise PolicyViolation(decision.message, _as_dict(decision))
        with ExitStack() as stack:
            for resource in self._resources(action) if self._ttl is not None else ():
                stack.enter_context(self._lease(resource, action["agent"], self._ttl or 0))
            yield

    @contextmanager
    def _lease(self, resource: str, owner: str, ttl: float) -> Generator[None]:
        core = self.gate.project._core
        lease = core.claim(owner, resource, exclusive=True, ttl=ttl)
        try:
            yield
        finally:
            core.release(lease["id"], lease["resource"], owner)

    def _resources(self, action: Mapping[str, Any]) -> list[str]:
        if action.get("kind") not in ("edit", "write"):
            return []
        root = self.gate.project.worktree
        cwd = action.get("cwd") or root
        paths = [action["path"]] if "path" in action else action.get("paths", [])
        # Links stay: a name in the working tree is what agents agree on.
        absolute = [Path(os.path.normpath(Path(cwd, path))) for path in paths]
        return [f"file:{path.relative_to(root).as_posix()}" for path in absolute if path.is_relative_to(root)]


class _GuardedTool(Tool[..., Any]):
    """A tool with the gate around it. The run calls the members with an underscore."""

    def __init__(self, inner: Tool[..., Any], owner: Guard) -> None:
        super().__init__(
            inner.name,
            inner.description,
            None,
            inner.run,
            inner.approval or _approved,
            inner.metadata,
            inline=inner.inline,
            idempotent=inner.idempotent,
            retries=inner.retries,
        )
        self._agent, self._sub_agent, self._handoff = inner._agent, inner._sub_agent, inner._handoff
        self._inner = inner
        self._guard = owner

    @property
    def parameters(self) -> dict[str, Any]:
        return self._inner.parameters

    @property
    def _mode(self) -> str:
        # The gate opens files: it does not run on the thread of the event loop.
        return "async" if self._inner._mode == "async" else "thread"

    @property
    def _has_custom_schema(self) -> bool:
        return self._inner._has_custom_schema

    @property
    def _takes_context(self) -> bool:
        return True

    async def _approve(self, arguments: dict[str, Any], context: Any) -> Any:
        action = self._guard._describe(self.name, arguments, context)
        call = _call_of(context)
        outcome = "allow" if action is None else await asyncio.to_thread(self._guard._decide, action, call)
        if outcome == "ask":
            return "ask"
        if outcome == "deny":
            # A function is called, and tells the model why it does nothing. A sub-agent must not start.
            return self._sub_agent is None
        approval: Any = self._inner.approval
        if approval is None or approval == "ask":
            return approval or True
        with_context = getattr(self._inner, "_approve", None)
        found: Any = approval(arguments) if with_context is None else with_context(arguments, context)
        return await found if inspect.isawaitable(found) else found

    def _call(self, arguments: dict[str, Any], context: Any = None) -> Any:
        inner_context = context if self._inner._takes_context else None
        action = self._guard._describe(self.name, arguments, context)
        if self._mode == "async":
            return self._later(arguments, inner_context, action, _call_of(context))
        with self._guard._around(action, _call_of(context)):
            return self._inner._call(arguments, inner_context)

    async def _later(self, arguments: dict[str, Any], context: Any, action: dict[str, Any] | None, call: str) -> Any:
        around = self._guard._around(action, call)
        await asyncio.to_thread(around.__enter__)
        try:
            return await self._inner._call(arguments, context)
        finally:
            await asyncio.to_thread(around.__exit__, None, None, None)


def _call_of(context: Any) -> str:
    return f"{context.turn_id} {context.tool_call_id}"


def _as_dict(decision: Decision) -> dict[str, Any]:
    found = asdict(decision)
    del found["message"]
    return found


def _approved(_arguments: Mapping[str, Any]) -> bool:
    return True


def _trace(outcome: str, rules: list[str]) -> None:
    """Record a decision on the span of the call."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return
    span: Any = trace.get_current_span()
    span.set_attribute("turntree.policy.outcome", outcome)
    if rules:
        span.set_attribute("turntree.policy.rules", rules)


def action_of(tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Make an action by the names of arguments."""
    command = arguments.get("command")
    if isinstance(command, str):
        found: dict[str, Any] = {"kind": "shell", "command": command}
        cwd = arguments.get("cwd")
        return {**found, "cwd": cwd} if isinstance(cwd, str) else found
    path = next((arguments[key] for key in ("path", "file_path", "file") if arguments.get(key)), None)
    if path is not None:
        kind = "read" if tool.startswith(("read", "list", "search", "view")) else "edit"
        content = next((arguments[key] for key in ("content", "text", "new_text") if arguments.get(key)), "")
        return {"kind": kind, "path": str(path), "content": str(content)}
    plain = {
        key: value if isinstance(value, (str, int, float, bool)) else repr(value) for key, value in arguments.items()
    }
    return {"kind": "other", "tool": tool, "arguments": plain}
