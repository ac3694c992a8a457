"""Workflows in the style of functions."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias, TypeVar, cast

from turntree import _core
from turntree.uaip import _graph
from turntree.uaip._approvals import Approval, Grants
from turntree.uaip._errors import DefinitionError
from turntree.uaip._task import HookFunction, PrerequisiteCheck, TaskFunction, native_function, schema_of
from turntree.upp._tools import Tool

StateFunction: TypeAlias = Callable[[_core.State], Any]

F = TypeVar("F", bound="Callable[..., Any] | Tool[..., Any]")
C = TypeVar("C", bound=type[Any])

STAGE_OF = "__uaip_stage__"


class StateTransfer(Enum):
    """What a transition copies from the state of the stage that is left; see ``state_management`` of `workflow`."""

    ALL = "all"
    NONE = "none"


class Stage:
    """A stage of a workflow. Created by `Workflow.stage`.

    Attributes:
        name: The name.
        description: What the stage is for.
    """

    def __init__(self, name: str, prerequisites: Iterable[str | type[Any]] | str | type[Any]) -> None:
        self.name = name
        self.description: str | None = None
        self.initial = False
        self.complete_on_enter = False
        self.on_enter: HookFunction | None = None
        self.on_exit: HookFunction | None = None
        self.tasks: list[TaskFunction] = []
        single = isinstance(prerequisites, (str, type))
        listed: Any = [prerequisites] if single else prerequisites
        self.prerequisites: list[str | type[Any]] = list(listed)

    def __call__(self, cls: C) -> C:
        """Take the description from the docstring of a class: ``@wf.stage("cart")``. Returns the class."""
        if not isinstance(cls, type):
            message = (
                f'stage "{self.name}" decorates a class whose docstring describes it, not a {type(cls).__name__}; '
                f'for a task write @wf.task(stage="{self.name}")'
            )
            raise TypeError(message)
        if cls.__doc__:
            self.description = _cleaned(cls.__doc__)
        setattr(cls, STAGE_OF, self)
        return cls

    def definition(self) -> dict[str, Any]:
        """Return the definition for the native core."""
        return {
            "name": self.name,
            "description": self.description,
            "tasks": [task.definition() for task in self.tasks],
            "prerequisites": [self._prerequisite(item) for item in self.prerequisites],
            "initial": self.initial,
            "on_enter": self.on_enter is not None,
            "on_exit": self.on_exit is not None,
            "complete_on_enter": self.complete_on_enter,
        }

    def _prerequisite(self, item: Any) -> str | dict[str, Any]:
        if isinstance(item, str):
            return item
        if not isinstance(item, type):
            message = (
                f'prerequisites of stage "{self.name}": expected names of keys, or models whose fields are keys, '
                f"got {type(item).__name__}"
            )
            raise DefinitionError(message)
        try:
            schema = schema_of(item, f'prerequisite {item.__name__} of stage "{self.name}"')
        except TypeError as error:
            raise DefinitionError(f'prerequisite {item.__name__} of stage "{self.name}": {error}') from error
        return {"model": item.__name__, "schema": schema, "validated": True}

    def __repr__(self) -> str:
        tasks = ", ".join(task.name for task in self.tasks)
        return f"<Stage {self.name}: {tasks}>"


StageReference: TypeAlias = str | type[Any] | Stage


class Workflow:
    """A workflow: stages with tasks, and the transitions between them. An agent sees only the tasks of its stage.

    ::

        shop = Workflow("shop", private=["total"])
        shop.stage("browse")
        shop.stage("cart")
        shop.transition("browse", "cart")


        @shop.task(stage="browse")
        def search(query: str) -> list[str]:
            "Search the catalogue."

    Stages, tasks and transitions may be added in any order. They are checked at the first use (`check`, `graph`,
    `serve`).

    Args:
        name: The name, by which clients open sessions: 1 to 100 printable characters without ``/``.
        description: What the workflow is for.
        state: The type of the state: a model, a dataclass, a TypedDict or a JSON Schema. Its fields are the keys; what
            tasks and agents write is checked.
        private: Keys that agents neither see nor write, such as prices and totals.
        agent_writable: Keys that agents may write, besides the prerequisites of stages. If a workflow has neither
            `state`, `private`, `agent_writable` nor prerequisites, agents may write any key.
        require_terminal: Whether a session can be ended only in a stage without transitions.
    """

    def __init__(
        self,
        name: str,
        description: str | None = None,
        state: type[Any] | Mapping[str, Any] | None = None,
        private: Iterable[str] = (),
        agent_writable: Iterable[str] = (),
        require_terminal: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        if not isinstance(name, str):
            message = f"name must be a str, not {type(name).__name__}"
            raise TypeError(message)
        self.name = name
        self.description = description
        self._state = state
        self._private = _keys("private", private)
        self._agent_writable = _keys("agent_writable", agent_writable)
        self._require_terminal = require_terminal
        self._stages: dict[str, Stage] = {}
        self._tasks: list[tuple[StageReference, TaskFunction]] = []
        self._transitions: dict[tuple[str, str], HookFunction | None] = {}
        self._propagation: list[dict[str, Any]] | None = None
        self._core: _core.WorkflowCore | None = None
        self._grants = Grants()

    def stage(
        self,
        name: str,
        prerequisites: Iterable[str | type[Any]] | str | type[Any] = (),
        initial: bool = False,  # noqa: FBT001, FBT002
        on_enter: StateFunction | None = None,
        on_exit: StateFunction | None = None,
        complete_on_enter: bool = False,  # noqa: FBT001, FBT002
        description: str | None = None,
    ) -> Stage:
        """Add a stage. The result can decorate an empty class whose docstring describes the stage.

        Args:
            name: The name.
            prerequisites: What the state must contain before the stage is entered: names of keys, and models whose
                fields are keys and whose types the values must have.
            initial: Whether sessions start here. Default: the first stage.
            on_enter: A function of the state, sync or async, that is called when a session enters the stage. If it
                fails, the transition does not happen.
            on_exit: As `on_enter`, before the stage is left.
            complete_on_enter: Whether a session is completed when it enters the stage.
            description: What the stage is for.

        Raises:
            DefinitionError: The workflow has a stage with this name.
        """
        if not isinstance(name, str):
            message = f"name of a stage must be a str, not {type(name).__name__}"
            raise TypeError(message)
        if name in self._stages:
            message = f'workflow "{self.name}": two stages are named "{name}"; rename one of them'
            raise DefinitionError(message)
        stage = Stage(name, prerequisites)
        stage.initial, stage.complete_on_enter, stage.description = initial, complete_on_enter, description
        if on_enter is not None:
            stage.on_enter = HookFunction(on_enter, f'on_enter of stage "{name}"')
        if on_exit is not None:
            stage.on_exit = HookFunction(on_exit, f'on_exit of stage "{name}"')
        self._stages[name] = stage
        self._core = None
        return stage

    def task(
        self,
        stage: StageReference,
        name: str | None = None,
        timeout: float | None = None,
        writes: Sequence[str] | None = None,
        description: str | None = None,
        output: Any = None,
    ) -> Callable[[F], F]:
        """Add a function, sync or async, that agents can call in a stage. Returns the function.

        A parameter that is annotated `State` receives the state of the session, one that is annotated `ToolContext`
        receives the context of the call; they are not part of the schema. If the function raises, what it has written
        to the state is discarded. A `Tool` with ``approval=`` waits for the decision of a person; see `approve`.

        Args:
            stage: The stage: its name, or the class that `stage` has decorated.
            name: The name for agents. Default: the name of the function.
            timeout: How long a call may take, in seconds. Default: that of the server.
            writes: All keys of the state that the task writes, for the check that prerequisites can be met.
            description: What the task does, for the model. Default: the docstring up to ``Args:``.
            output: The type of the result, or its JSON Schema. Default: the return annotation. A result that does not
                match is an error.

        Raises:
            DefinitionError: The signature has no JSON Schema.
        """

        def add(function: F) -> F:
            if isinstance(writes, str):
                message = f'writes must be a list of keys, not a str; write ["{writes}"]'
                raise TypeError(message)
            options: dict[str, Any] = {"name": name, "description": description, "output": output}
            self._add_task(stage, TaskFunction(function, timeout=timeout, writes=writes, **options))
            return function

        return add

    def _add_task(self, stage: StageReference, task: TaskFunction) -> None:
        self._tasks.append((stage, task))
        self._core = None

    def transition(self, source: StageReference, target: StageReference, when: StateFunction | None = None) -> None:
        """Allow sessions to move from one stage to another, or from a stage to itself.

        Args:
            source: The stage that is left.
            target: The stage that is entered.
            when: A function of the state, sync or async, that returns whether the move is allowed now.

        Raises:
            DefinitionError: The transition exists.
        """
        names = (_name_of(source), _name_of(target))
        if names in self._transitions:
            message = f'workflow "{self.name}": there are two transitions from "{names[0]}" to "{names[1]}"; remove one'
            raise DefinitionError(message)
        guard = None if when is None else HookFunction(when, f'the guard from "{names[0]}" to "{names[1]}"')
        self._transitions[names] = guard
        self._core = None

    def _propagate(self, rules: Iterable[tuple[StageReference, StageReference, Any]]) -> None:
        """Give each stage a store of its own. Transitions without a rule copy everything."""
        self._propagation = []
        for source, target, copies in rules:
            copied: Any = copies.value if isinstance(copies, StateTransfer) else {"keys": _keys("fields", copies)}
            self._propagation.append({"from": _name_of(source), "to": _name_of(target), "copies": copied})
        self._core = None

    def check(self) -> None:
        """Check the names, the schemas and the graph of the stages.

        Raises:
            DefinitionError: The workflow cannot be served; the message has the place, the rule and the remedy.
        """
        self._native()

    def _native(self) -> _core.WorkflowCore:
        if self._core is None:
            definition = self._definition()
            try:
                self._core = _core.WorkflowCore(definition, self._functions())
            except ValueError as error:
                raise DefinitionError(f"{error}{self._places_in(str(error))}") from None
        return self._core

    def _definition(self) -> dict[str, Any]:
        for stage in self._stages.values():
            stage.tasks = []
        for reference, task in self._tasks:
            name = _name_of(reference)
            if name not in self._stages:
                raise DefinitionError(f'{task}: unknown stage "{name}"; {self._known_stages(name)}')
            self._stages[name].tasks.append(task)
        definition: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "stages": [stage.definition() for stage in self._stages.values()],
            "transitions": [
                {"from": source, "to": target, "guarded": guard is not None}
                for (source, target), guard in self._transitions.items()
            ],
            "private": self._private,
            "agent_writable": self._agent_writable,
            "require_terminal": self._require_terminal,
        }
        if self._state is not None:
            try:
                definition["state_schema"] = schema_of(self._state, "state")
            except TypeError as error:
                raise DefinitionError(f'state of workflow "{self.name}": {error}') from error
        if self._propagation is not None:
            definition["state_management"] = self._propagation
        return definition

    def _functions(self) -> dict[tuple[str, str, str], Callable[..., Any]]:
        functions: dict[tuple[str, str, str], Callable[..., Any]] = {}
        for stage in self._stages.values():
            for task in stage.tasks:
                functions["task", stage.name, task.name] = native_function(task, self._grants)
            for kind, hook in (("on_enter", stage.on_enter), ("on_exit", stage.on_exit)):
                if hook is not None:
                    functions[kind, stage.name, ""] = native_function(hook, self._grants)
            models = [item for item in stage.prerequisites if isinstance(item, type)]
            if models:
                functions["prerequisites", stage.name, ""] = PrerequisiteCheck(models).call
        for (source, target), guard in self._transitions.items():
            if guard is not None:
                functions["guard", source, target] = native_function(guard, self._grants)
        return functions

    def _known_stages(self, name: str) -> str:
        close = difflib.get_close_matches(name, self._stages, 1)
        if close:
            return f'did you mean "{close[0]}"?'
        known = ", ".join(self._stages) or "there are none yet"
        return f'the stages are {known}; add it with stage("{name}")'

    def _places_in(self, message: str) -> str:
        """Return where the tasks are defined that an error names, or that have a name which it names."""
        named = [task for _, task in self._tasks if task.place and f'"{task.name}"' in message]
        return f" (defined at {', '.join(task.place for task in named)})" if named else ""

    @property
    def approvals(self) -> list[Approval]:
        """The calls of tasks that wait for the decision of a person, in the stores of the servers of this process.

        A call of a task that is a `Tool` with ``approval=`` is answered with the status ``approval_required`` and the
        id of its approval. After `approve` the same call goes on when the client repeats it. Calls and decisions are
        stored with the sessions: they outlive the process if the store does.

        Reading them, and deciding, waits for the store. In async code with a store on a network, use
        ``asyncio.to_thread``.
        """
        return [Approval(*waiting) for waiting in self._native().approvals()]

    def approve(self, id: str) -> None:
        """Allow one call that waits: the client can repeat it.

        Raises:
            KeyError: No call with this id waits.
        """
        self._decide(id, None)

    def deny(self, id: str, reason: str = "") -> None:
        """Deny one call that waits: the agent that repeats it reads the reason.

        Raises:
            KeyError: No call with this id waits.
        """
        self._decide(id, reason)

    def _decide(self, id: str, reason: str | None) -> None:
        if not self._native().decide(id, reason):
            message = f"no call with the id {id!r} waits for a decision; `approvals` lists those that wait"
            raise KeyError(message)

    def _approval_of(self, stage: str, task: str) -> Any:
        """Return who approves calls of a task: a function or "ask"; None if nobody must."""
        tasks = self._stages[stage].tasks if stage in self._stages else []
        return next((item.approval for item in tasks if item.name == task), None)

    @property
    def initial_stage(self) -> str:
        """The name of the stage in which sessions start."""
        return self._native().initial_stage

    def outline(self) -> dict[str, Any]:
        """Return the definition as plain data: stages, tasks with their schemas, and transitions.

        Raises:
            DefinitionError: The workflow has an error.
        """
        self.check()
        return self._definition()

    def graph(self, current: str | None = None) -> str:
        """Return the stages and transitions as a Mermaid diagram.

        Args:
            current: The stage that is highlighted.

        Raises:
            DefinitionError: The workflow has an error.
            KeyError: There is no stage `current`.
        """
        return _graph.mermaid(self._outline(), self._checked_stage(current))

    def _checked_stage(self, name: str | None) -> str | None:
        if name is not None and name not in self._stages:
            message = f'workflow "{self.name}" has no stage "{name}"; {self._known_stages(name)}'
            raise KeyError(message)
        return name

    def _outline(self) -> _graph.Outline:
        initial = self.initial_stage
        stages = [
            _graph.StageOutline(stage.name, stage.description or "", [task.name for task in stage.tasks])
            for stage in self._stages.values()
        ]
        transitions = [(source, target, guard is not None) for (source, target), guard in self._transitions.items()]
        return _graph.Outline(self.name, self.description or "", initial, stages, transitions)

    def _repr_html_(self) -> str:
        try:
            return _graph.html(self._outline(), None)
        except DefinitionError as error:
            from turntree.notebook._page import escape

            # MathJax leaves out what is preformatted.
            return f"<pre>{escape(repr(self))}\n{escape(str(error))}</pre>"

    def _repr_markdown_(self) -> str:
        try:
            return f"```mermaid\n{self.graph()}```\n"
        except DefinitionError as error:
            return f"```text\n{error}\n```\n"

    def __rich_repr__(self) -> Iterable[Any]:
        yield self.name
        yield "stages", list(self._stages)

    def __repr__(self) -> str:
        from turntree._reprs import literal, shortened

        return f"Workflow({literal(self.name, 100)}, stages=[{shortened(', '.join(self._stages), 1_000)}])"


def _name_of(reference: Any) -> str:
    """Return the name of a stage that is given by name, by its class or by what `Workflow.stage` returned."""
    if isinstance(reference, str):
        return reference
    stage: Any = reference if isinstance(reference, Stage) else getattr(reference, STAGE_OF, None)
    if isinstance(stage, Stage):
        return stage.name
    message = f"a stage is given by its name or its class, not by {reference!r}"
    raise TypeError(message)


def _keys(what: str, keys: Any) -> list[str]:
    if isinstance(keys, str):
        message = f'{what} must be a list of keys, not a str; write ["{keys}"]'
        raise TypeError(message)
    if not isinstance(keys, Iterable):
        message = f"{what} must be a list of keys, not {type(keys).__name__}"
        raise TypeError(message)
    listed = list(cast("Iterable[Any]", keys))
    for key in listed:
        if not isinstance(key, str):
            message = f"{what}: expected names of keys, got {type(key).__name__}"
            raise TypeError(message)
    return listed


def _cleaned(docstring: str) -> str:
    return " ".join(docstring.split())
