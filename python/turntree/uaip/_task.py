"""Functions of workflows: schemas from annotations, and the calls that the native core makes."""

from __future__ import annotations

import contextlib
import inspect
import json
import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any, cast, get_origin

from turntree._core import State, ToolContext
from turntree.uaip._approvals import ApprovalNeeded, Grants, answer_of
from turntree.uaip._errors import DefinitionError, TaskError
from turntree.upp._signature import ArgumentError, Signature, _hints, _is_async, _is_state
from turntree.upp._structure import AnswerType
from turntree.upp._tools import Tool, _summary

_NO_SCHEMA = (inspect.Signature.empty, None, type(None), Any, object)


def place_of(function: Callable[..., Any]) -> str:
    """Return where a function is defined, as ``file.py:12``; empty if that is unknown."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return ""
    return f"{code.co_filename.replace(chr(92), '/').rsplit('/', 1)[-1]}:{code.co_firstlineno}"


class TaskFunction:
    """A function that agents call in a stage: its definition and its call."""

    def __init__(
        self,
        function: Callable[..., Any] | Tool[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        output: Any = None,
        timeout: float | None = None,
        writes: Sequence[str] | None = None,
    ) -> None:
        self.approval: Any = None
        if isinstance(function, Tool):
            name, description = name or function.name, description or function.description
            self.approval, function = function.approval, function.run
        if not callable(function):
            message = f"a task must be a function, not {type(function).__name__}"
            raise TypeError(message)
        self.function: Callable[..., Any] = function
        self.name: str = name or str(getattr(function, "__name__", type(function).__name__))
        self.description = description if description is not None else _summary(function)
        self.timeout = timeout
        self.writes = list(writes) if writes is not None else None
        self.place = place_of(function)
        self._output = output
        try:
            self._signature = Signature(function, None, state=True)
            self.returns = self._result_schema()
        except TypeError as error:
            raise DefinitionError(f"{self}: {error}") from error

    @property
    def is_async(self) -> bool:
        """Whether the function is async."""
        return self._signature.is_async

    def definition(self) -> dict[str, Any]:
        """Return the definition for the native core."""
        definition: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "parameters": self._signature.schema,
        }
        optional = {"returns": self.returns, "writes": self.writes, "timeout": self.timeout}
        if self.approval is not None:
            definition["approval"] = True
        return {**definition, **{key: value for key, value in optional.items() if value is not None}}

    def call(self, arguments: dict[str, Any], state: State, context: ToolContext) -> Any:
        """Check the arguments and call the function; returns the coroutine of an async function."""
        return self._signature.call(arguments, context, state)

    def _result_schema(self) -> dict[str, Any] | None:
        """Return the JSON Schema of the result; None if the result has no annotation, or is None."""
        annotation = self._output
        if annotation is None:
            annotation = _hints(self.function).get("return", inspect.Signature.empty)
        if annotation in _NO_SCHEMA or isinstance(annotation, str):
            return None
        if isinstance(annotation, dict):
            return cast("dict[str, Any]", annotation)
        return schema_of(annotation, "the result", serialized=True)

    def __str__(self) -> str:
        return f'task "{self.name}"' + (f" ({self.place})" if self.place else "")


class HookFunction:
    """A function that is called when a stage is entered or left, or that decides about a transition."""

    def __init__(self, function: Callable[..., Any], what: str) -> None:
        if not callable(function):
            message = f"{what} must be a function of the state, not {type(function).__name__}"
            raise TypeError(message)
        self.function = function
        self.is_async: bool = _is_async(function)
        self._names = self._parameters(what)

    def _parameters(self, what: str) -> list[tuple[str, bool]]:
        """Return the parameters: the name, and whether it receives the context instead of the state."""
        try:
            parameters = inspect.signature(self.function).parameters.values()
        except (TypeError, ValueError):
            return [("", False)]
        hints = _hints(self.function)
        names: list[tuple[str, bool]] = []
        for parameter in parameters:
            annotation = hints.get(parameter.name, parameter.annotation)
            if getattr(annotation, "__name__", annotation) == "ToolContext":
                names.append((parameter.name, True))
            elif _is_state(parameter.name, annotation) or not names:
                names.append((parameter.name, False))
            elif parameter.default is parameter.empty:
                message = (
                    f"{what} ({place_of(self.function)}): it receives the state only, so the parameter "
                    f"{parameter.name!r} has no value; remove it, or give it a default"
                )
                raise DefinitionError(message)
        return names

    def call(self, _arguments: dict[str, Any], state: State, context: ToolContext) -> Any:
        """Call the function; returns the coroutine of an async function."""
        return self.function(*[context if is_context else state for _, is_context in self._names])


class PrerequisiteCheck:
    """The models that a stage has as prerequisites, with the validators that their schemas cannot express."""

    def __init__(self, models: Sequence[type[Any]]) -> None:
        self._types = [AnswerType(model) for model in models]

    def call(self, _arguments: dict[str, Any], state: State, _context: ToolContext) -> list[tuple[str, str, str]]:
        """Return the violations of the values in the state: pointer, rule and message."""
        found: list[tuple[str, str, str]] = []
        for kind in self._types:
            keys = kind.schema.get("properties", {})
            values = {key: state.get(key) for key in keys if state.has(key)}
            found += kind.check(json.dumps(values))
        return found


def native_function(
    task: TaskFunction | HookFunction, grants: Grants
) -> Callable[[dict[str, Any], State, ToolContext], Any]:
    """Return the function that the native core calls; async if the task is, or waits for approvals."""
    if isinstance(task, TaskFunction) and task.approval is not None:
        return _with_approval(task, grants)
    if not task.is_async:

        def call_now(arguments: dict[str, Any], state: State, context: ToolContext) -> Any:
            with _no_exit():
                return task.call(arguments, state, context)

        return call_now

    async def call(arguments: dict[str, Any], state: State, context: ToolContext) -> Any:
        with _no_exit():
            return await task.call(arguments, state, context)

    return call


@contextlib.contextmanager
def _no_exit() -> Generator[None]:
    """Turn SystemExit into a failure: a function that exits must not end the server of all others.

    Raises:
        RuntimeError: The block has raised SystemExit.
    """
    try:
        yield
    except SystemExit as error:
        message = f"the function has called sys.exit({error.code!r}); raise TaskError to tell the agent why it fails"
        raise RuntimeError(message) from error


def _with_approval(task: TaskFunction, grants: Grants) -> Callable[[dict[str, Any], State, ToolContext], Any]:
    async def call(arguments: dict[str, Any], state: State, context: ToolContext) -> Any:
        answer = await answer_of(task.approval, arguments)
        if answer is False:
            raise TaskError("the application has denied the call")
        if answer == "ask" and not grants.take(context.session_id or "", task.name, arguments):
            _check_decision(context.metadata.pop("approval", None))
        with _no_exit():
            if task.is_async:
                return await task.call(arguments, state, context)
            import asyncio

            return await asyncio.to_thread(task.call, arguments, state, context)

    return call


def _check_decision(decision: Any) -> None:
    """Return if a person has granted the call: True. A text is the reason of a denial.

    Raises:
        TaskError: A person has denied the call.
        ApprovalNeeded: Nobody has decided.
    """
    if decision is None:
        raise ApprovalNeeded
    if decision is not True:
        raise TaskError(f"a person has denied the call: {decision}" if decision else "a person has denied the call")


def failure_of(error: BaseException, what: str, correlation_id: str) -> tuple[str, Any]:
    """Return the kind of an exception and what the agent may know; log what it may not know.

    Called by the native core.
    """
    if isinstance(error, TaskError):
        return "task", str(error) or type(error).__name__
    if isinstance(error, ApprovalNeeded):
        return "approval", None
    if isinstance(error, ArgumentError):
        return "arguments", error.violations or [("", "arguments", str(error))]
    logging.getLogger("turntree.uaip").error("%s: %s raised an exception", correlation_id, what, exc_info=error)
    return "internal", None


def schema_of(annotation: Any, place: str, *, serialized: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of an annotation, or of a model as it is serialized.

    Raises:
        TypeError: The annotation has no JSON Schema.
    """
    if get_origin(annotation) is None and not serialized and isinstance(annotation, dict):
        return cast("dict[str, Any]", annotation)
    if not serialized:
        return AnswerType(annotation).schema
    try:
        import pydantic
    except ImportError:
        return AnswerType(annotation).schema
    try:
        adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(annotation)
        return adapter.json_schema(mode="serialization")
    except pydantic.errors.PydanticUserError as error:
        message = f"{place}: {annotation!r} has no JSON Schema; annotate a type that pydantic knows"
        raise TypeError(message) from error
