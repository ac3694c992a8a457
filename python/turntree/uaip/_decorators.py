"""Workflows in the style of classes: the decorators `construct`, `task`, `stage` and `workflow`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from turntree.uaip._errors import DefinitionError
from turntree.uaip._task import HookFunction, TaskFunction
from turntree.uaip._workflow import STAGE_OF, Stage, Workflow, _cleaned
from turntree.upp._tools import Tool

F = TypeVar("F", bound="Callable[..., Any] | Tool[..., Any]")
C = TypeVar("C", bound=type[Any])

_TASK_OPTIONS = "__uaip_task__"
_STAGE_OPTIONS = "__uaip_stage_options__"
WORKFLOW_OF = "__uaip_workflow__"
_FUNCTIONS = "__uaip_functions__"


def construct() -> Callable[[C], C]:
    """Mark a model whose fields are keys of the state, for prerequisites of stages. Returns the class.

    A Pydantic model, a dataclass or a TypedDict stays as it is; another class becomes a dataclass.
    """

    def decorate(cls: C) -> C:
        if not isinstance(cls, type):
            message = f"@construct() decorates a class, not a {type(cls).__name__}"
            raise TypeError(message)
        is_model = hasattr(cls, "model_json_schema") or dataclasses.is_dataclass(cls) or hasattr(cls, "__total__")
        return cls if is_model else cast("C", dataclasses.dataclass(cls))

    return decorate


def task(
    description: str | None = None,
    output: Any = None,
    stage: str | type[Any] | None = None,
    name: str | None = None,
    timeout: float | None = None,
    writes: Sequence[str] | None = None,
) -> Callable[[F], F]:
    """Mark a method of a stage's class as a task. Returns the function.

    A parameter that is annotated `State`, or named ``state``, receives the state; one that is annotated `ToolContext`
    receives the context of the call.

    Args:
        description: What the task does, for the model. Default: the docstring.
        output: The type of the result. Default: the return annotation.
        stage: For methods of a workflow's class, the name or class of the stage; for functions outside of classes, the
            class of the stage.
        name: The name for agents. Default: the name of the function.
        timeout: How long a call may take, in seconds.
        writes: All keys of the state that the task writes.
    """
    if callable(description):
        message = "write @task() with parentheses"
        raise TypeError(message)
    options = {"description": description, "output": output, "name": name, "timeout": timeout, "writes": writes}

    def decorate(function: F) -> F:
        marks = {"stage": stage, "options": options}
        target: Any = cast("Any", function).run if isinstance(function, Tool) else function
        setattr(target, _TASK_OPTIONS, marks)
        if isinstance(stage, type):
            known: list[Any] = list(stage.__dict__.get(_FUNCTIONS, ()))
            setattr(stage, _FUNCTIONS, [*known, function])
        return cast("F", function)

    return decorate


def stage(
    name: str | None = None,
    prerequisites: Iterable[str | type[Any]] | str | type[Any] = (),
    initial: bool = False,  # noqa: FBT001, FBT002
    complete_on_enter: bool = False,  # noqa: FBT001, FBT002
) -> Callable[[C], C]:
    """Mark a class as a stage. Its methods that `task` marks are the tasks, ``on_enter`` and ``on_exit`` the hooks.

    The class is instantiated once for each workflow, without arguments; sessions share the instance. Keep what belongs
    to a session in the `State`.

    Args:
        name: The name. Default: the name of the attribute of the workflow's class.
        prerequisites: What the state must contain before the stage is entered: names of keys, and models.
        initial: Whether sessions start here. Default: the first stage.
        complete_on_enter: Whether a session is completed when it enters the stage.
    """
    if isinstance(name, type):
        message = "write @stage() with parentheses"
        raise TypeError(message)

    def decorate(cls: C) -> C:
        if not isinstance(cls, type):
            message = f"@stage() decorates a class, not a {type(cls).__name__}"
            raise TypeError(message)
        options = {"prerequisites": prerequisites, "initial": initial, "complete_on_enter": complete_on_enter}
        setattr(cls, _STAGE_OPTIONS, {"name": name, "options": options})
        return cls

    return decorate


def workflow(
    name: str | None = None,
    description: str | None = None,
    state: type[Any] | Mapping[str, Any] | None = None,
    private: Iterable[str] = (),
    agent_writable: Iterable[str] = (),
    require_terminal: bool = False,  # noqa: FBT001, FBT002
) -> Callable[[C], C]:
    """Make a workflow of a class. `serve` and the other functions take the class; `workflow_of` returns its `Workflow`.

    Attributes of the class that are stages are the stages. ``transitions`` maps stages to lists of stages.
    ``state_management`` is a list of ``(from, to, fields)`` with names of keys, `StateTransfer.ALL` or
    `StateTransfer.NONE`: each stage then has a state of its own, and a transition copies these keys, or all of them
    without a rule. Methods that ``@task(stage=…)`` marks are tasks too.

    Args:
        name: The name. Default: the name of the class.
        description: What the workflow is for. Default: the docstring.
        state: As for `Workflow`.
        private: As for `Workflow`.
        agent_writable: As for `Workflow`.
        require_terminal: As for `Workflow`.

    Raises:
        DefinitionError: The workflow has an error.
    """
    if isinstance(name, type):
        message = "write @workflow() with parentheses"
        raise TypeError(message)

    def decorate(cls: C) -> C:
        if not isinstance(cls, type):
            message = f"@workflow() decorates a class, not a {type(cls).__name__}"
            raise TypeError(message)
        described = description if description is not None else _cleaned(cls.__doc__ or "") or None
        made = Workflow(name or cls.__name__, described, state, private, agent_writable, require_terminal)
        _Reader(cls, made).read()
        made.check()
        setattr(cls, WORKFLOW_OF, made)
        return cls

    return decorate


def workflow_of(value: Any) -> Workflow:
    """Return the workflow of a class that `workflow` has decorated; a `Workflow` is returned unchanged.

    Raises:
        TypeError: The value is neither.
    """
    if isinstance(value, Workflow):
        return value
    made = getattr(value, WORKFLOW_OF, None)
    if isinstance(made, Workflow):
        return made
    message = f"expected a Workflow, or a class decorated with @workflow(), not {value!r}"
    raise TypeError(message)


class _Reader:
    """Reads the attributes of a workflow's class."""

    def __init__(self, cls: type[Any], made: Workflow) -> None:
        self._class = cls
        self._workflow = made
        # The stage of each attribute's name and of each class, because transitions may use both.
        self._by_name: dict[str, Stage] = {}
        self._by_class: dict[int, Stage] = {}

    def read(self) -> None:
        attributes = self._attributes()
        for attribute, value in attributes.items():
            cls: Any = value if isinstance(value, type) else type(value)
            marks = cls.__dict__.get(_STAGE_OPTIONS)
            if marks is not None:
                self._add_stage(attribute, value, cls, marks)
        if not self._by_name:
            message = (
                f'workflow "{self._workflow.name}": the class has no stages; add attributes that @stage() decorates'
            )
            raise DefinitionError(message)
        self._add_tasks_of_workflow()
        self._add_transitions(attributes.get("transitions", {}))
        rules = attributes.get("state_management")
        if rules is not None:
            self._add_propagation(rules)

    def _attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for cls in reversed(self._class.__mro__[:-1]):
            found.update(cls.__dict__)
        return found

    def _add_stage(self, attribute: str, value: Any, cls: type[Any], marks: dict[str, Any]) -> None:
        made = self._workflow.stage(marks["name"] or attribute, **marks["options"])
        if cls.__doc__:
            made.description = _cleaned(cls.__doc__)
        for key in (attribute, made.name):
            self._by_name[key] = made
        self._by_class[id(value)] = self._by_class[id(cls)] = made
        instance = value if not isinstance(value, type) else self._instance(cls)
        for name, member in inspect.getmembers(cls):
            options = _options_of(member)
            if options is not None:
                self._add_task(made, member, getattr(instance, name), options)
        for function in cls.__dict__.get(_FUNCTIONS, ()):
            self._add_task(made, function, function, cast("Any", _options_of(function)))
        for kind in ("on_enter", "on_exit"):
            hook = getattr(instance, kind, None)
            if hook is not None:
                setattr(made, kind, HookFunction(hook, f'{kind} of stage "{made.name}"'))

    def _instance(self, cls: type[Any]) -> Any:
        try:
            return cls()
        except TypeError as error:
            message = f"stage {cls.__name__}: it is created without arguments, and that fails: {error}"
            raise DefinitionError(message) from error

    def _add_task(self, made: Stage, member: Any, bound: Any, marks: dict[str, Any]) -> None:
        options = marks["options"]
        if isinstance(member, Tool):
            made_task = TaskFunction(cast("Tool[..., Any]", member), **options)
        else:
            made_task = TaskFunction(bound, **options)
        self._workflow._add_task(made, made_task)

    def _add_tasks_of_workflow(self) -> None:
        instance: Any = None
        for name, member in inspect.getmembers(self._class):
            marks = _options_of(member)
            if marks is None:
                continue
            if marks["stage"] is None:
                message = f'task "{name}" of workflow "{self._workflow.name}": write @task(stage=…) with its stage'
                raise DefinitionError(message)
            instance = self._instance(self._class) if instance is None else instance
            self._add_task(self._stage(marks["stage"]), member, getattr(instance, name), marks)

    def _add_transitions(self, transitions: Any) -> None:
        if not hasattr(transitions, "items"):
            message = (
                f'transitions of workflow "{self._workflow.name}": expected a dict of stages to lists of stages, '
                f"got {type(transitions).__name__}"
            )
            raise DefinitionError(message)
        for source, targets in transitions.items():
            is_list = isinstance(targets, (list, tuple, set, frozenset))
            listed: list[Any] = list(cast("Any", targets)) if is_list else [targets]
            for target in listed:
                self._workflow.transition(self._reference(source), self._reference(target))

    def _add_propagation(self, rules: Any) -> None:
        checked: list[tuple[Any, Any, Any]] = []
        for rule in rules:
            if not isinstance(rule, (tuple, list)) or len(cast("Any", rule)) != 3:
                message = (
                    f'state_management of workflow "{self._workflow.name}": expected (from, to, fields), got {rule!r}; '
                    "fields is a list of keys, StateTransfer.ALL or StateTransfer.NONE"
                )
                raise DefinitionError(message)
            source, target, copies = cast("Any", rule)
            fields = [copies] if isinstance(copies, str) else copies
            checked.append((self._reference(source), self._reference(target), fields))
        self._workflow._propagate(checked)

    def _reference(self, value: Any) -> str:
        """Return the name of a stage; unknown names are kept for the check of the graph."""
        found = self._found(value)
        if found is not None:
            return found.name
        if isinstance(value, str):
            return value
        message = (
            f'workflow "{self._workflow.name}": {getattr(value, "__name__", value)!r} is not one of its stages; '
            "add it as an attribute of the class, decorated with @stage()"
        )
        raise DefinitionError(message)

    def _stage(self, value: Any) -> Stage:
        return self._found(value) or self._workflow._stages.get(self._reference(value)) or self._unknown(value)

    def _unknown(self, value: Any) -> Stage:
        message = (
            f'workflow "{self._workflow.name}": unknown stage {value!r}; {self._workflow._known_stages(str(value))}'
        )
        raise DefinitionError(message)

    def _found(self, value: Any) -> Stage | None:
        if isinstance(value, str):
            return self._by_name.get(value)
        made = getattr(value, STAGE_OF, None)
        return made if isinstance(made, Stage) else self._by_class.get(id(value))


def _options_of(member: Any) -> dict[str, Any] | None:
    target = cast("Any", member).run if isinstance(member, Tool) else member
    marks = getattr(target, "__dict__", {}).get(_TASK_OPTIONS)
    return cast("dict[str, Any]", marks) if isinstance(marks, dict) else None
