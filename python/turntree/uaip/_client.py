"""Clients of workflows, over HTTP and in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from html import escape
from types import TracebackType
from typing import Any, TypeAlias, cast

from turntree import _core
from turntree._recipes import shown_url
from turntree._reprs import literal
from turntree._typing import Self
from turntree.store import Store
from turntree.uaip import _graph
from turntree.uaip._decorators import workflow_of
from turntree.uaip._serving import service_settings, store_of
from turntree.uaip._workflow import Workflow

OnProgress: TypeAlias = Callable[[dict[str, Any]], Awaitable[None] | None]


class ToolInfo(dict[str, Any]):
    """A tool that can be called now: a dict with ``name``, ``description`` and ``input_schema``."""

    @property
    def name(self) -> str:
        """The name."""
        return str(self["name"])

    @property
    def description(self) -> str:
        """What the tool does."""
        return self.get("description") or ""

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self.get("input_schema") or {"type": "object", "properties": {}}


class _AnySession:
    """What both kinds of sessions share: the stage, the tools and the state as the last answer has shown them."""

    def __init__(
        self, core: _core.UaipSessionCore, workflows: dict[str, Workflow], view: dict[str, Any] | None
    ) -> None:
        self._core = core
        self._workflows = workflows
        self._view = view
        self._state: dict[str, Any] = {}
        self._state_version: int | None = None
        self._tracks_state = True

    @property
    def id(self) -> str:
        """The id. It is a secret: who knows it can use the session."""
        return self._core.id

    @property
    def workflow(self) -> str:
        """The name of the workflow."""
        return self._core.workflow

    @property
    def stage(self) -> str:
        """The current stage."""
        return self._core.stage

    @property
    def stages(self) -> list[str]:
        """The names of all stages; empty if the server does not send them."""
        return self._core.stages

    @property
    def tools(self) -> list[ToolInfo]:
        """The tools that can be called now: the tasks of the stage and the actions of the protocol."""
        return [ToolInfo(tool) for tool in self._core.tools]

    @property
    def state(self) -> dict[str, Any]:
        """The state that agents may see, as it was after the last action. Empty for servers of version 0.4."""
        return dict(self._state)

    @property
    def version(self) -> int | None:
        """The number of actions that have changed the session; None if the server does not send it."""
        return self._core.version

    @property
    def terminal(self) -> bool:
        """Whether no transition leaves the current stage."""
        return self._core.terminal

    @property
    def ended(self) -> bool:
        """Whether the session was ended."""
        return self._core.ended

    def _start(self, task: str, arguments: dict[str, Any], on_progress: OnProgress | None, *, blocking: bool) -> Any:
        if on_progress is None:
            return self._core.call(task, arguments, blocking)
        if not callable(on_progress):
            message = f"on_progress must be a function of a report, not {type(on_progress).__name__}"
            raise TypeError(message)
        return self._core.call_with_progress(task, arguments, on_progress, blocking)

    def _is_stale(self) -> bool:
        version = self._core.version
        return self._tracks_state and version is not None and version != self._state_version and not self._core.ended

    def _note_state(self, state: dict[str, Any], version: int | None) -> None:
        self._state, self._state_version = state, version

    def _outline(self) -> _graph.Outline | None:
        if self.workflow in self._workflows:
            return self._workflows[self.workflow]._outline()
        return None if self._view is None else _graph.outline_of_view(self._view)

    def _repr_html_(self) -> str:
        from turntree.notebook._page import NO_FORMULAS

        outline = self._outline()
        graph = "" if outline is None else _graph.html(outline, self.stage)
        tools = _graph.table([(tool.name, tool.description) for tool in self.tools], ("tool", "description"))
        state = _graph.table([(key, repr(value)) for key, value in self._state.items()], ("state", "value"))
        return f"<div class='{NO_FORMULAS}'>{graph}<p>Stage: <b>{escape(self.stage)}</b></p>{tools}{state}</div>"

    def _repr_markdown_(self) -> str:
        workflow, stage = self.workflow.replace("$", "\\$"), self.stage.replace("$", "\\$")
        lines = [f"**{workflow}** in stage **{stage}**", "", "| tool | description |", "|---|---|"]
        lines += [f"| {_cell(tool.name)} | {_cell(tool.description)} |" for tool in self.tools]
        lines += ["", "| state | value |", "|---|---|"]
        lines += [f"| {_cell(key)} | {_cell(repr(value))} |" for key, value in self._state.items()]
        return "\n".join(lines) + "\n"

    def __rich_repr__(self) -> Iterable[Any]:
        yield "workflow", self.workflow
        yield "stage", self.stage
        yield "tools", [tool.name for tool in self.tools]
        yield "state", self._state

    def __repr__(self) -> str:
        tools = ", ".join(tool.name for tool in self.tools)
        return f"<{type(self).__name__} of {self.workflow!r} in stage {self.stage!r}: {tools}>"


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;").replace("$", "\\$")


def _values(what: str, values: Any, more: dict[str, Any]) -> dict[str, Any]:
    if values is not None and not isinstance(values, Mapping):
        message = f"{what} must be a mapping, not {type(values).__name__}"
        raise TypeError(message)
    return {**cast("dict[str, Any]", values or {}), **more}


class Session(_AnySession):
    """A session on a server. Created by `Client.open`.

    Every method raises `UaipError` with the code of the server, for example ``task_not_in_stage``. A task that fails
    has the code ``task_error``, one that waits for a person ``approval_required``; nothing has changed then.
    """

    async def call(self, task: str, /, *, on_progress: OnProgress | None = None, **arguments: Any) -> Any:
        """Call a task of the current stage.

        Args:
            task: The name of the task.
            on_progress: A function, sync or async, that is called with each report of the task while it runs: a dict
                with ``step``, ``message`` and ``data``, as far as the task has given them. If it raises, the request is
                cancelled and the exception is raised here. It must not block the event loop.
            **arguments: The arguments of the task. One that is named ``on_progress`` cannot be passed.

        Returns:
            The result of the task.
        """
        result = await self._start(task, arguments, on_progress, blocking=False)
        await self._refresh()
        return result

    async def go(self, stage: str) -> None:
        """Move to another stage."""
        await cast("Any", self._core.go(stage, blocking=False))
        await self._refresh()

    async def provide(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Write values of the state: a mapping, keywords, or both."""
        await cast("Any", self._core.provide(_values("values", values, more), blocking=False))
        await self._refresh()

    async def end(self) -> None:
        """End the session. No effect if it was ended."""
        await cast("Any", self._core.end(blocking=False))

    async def _refresh(self) -> None:
        if self._is_stale():
            version = self._core.version
            self._note_state(await cast("Any", self._core.state(blocking=False)), version)


class SyncSession(_AnySession):
    """Like `Session`, but its methods block. Created by `SyncClient.open`."""

    def call(self, task: str, /, *, on_progress: OnProgress | None = None, **arguments: Any) -> Any:
        """Call a task of the current stage, and return its result; see `Session.call`."""
        result = self._start(task, arguments, on_progress, blocking=True)
        self._refresh()
        return result

    def go(self, stage: str) -> None:
        """Move to another stage."""
        self._core.go(stage, blocking=True)
        self._refresh()

    def provide(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Write values of the state: a mapping, keywords, or both."""
        self._core.provide(_values("values", values, more), blocking=True)
        self._refresh()

    def end(self) -> None:
        """End the session. No effect if it was ended."""
        self._core.end(blocking=True)

    def _refresh(self) -> None:
        if self._is_stale():
            version = self._core.version
            self._note_state(cast("Any", self._core.state(blocking=True)), version)


class _AnyClient:
    def __init__(
        self,
        target: Any,
        token: str | None,
        store: Store | str | None,
        options: dict[str, Any],
        principal: str | None = None,
    ) -> None:
        self._workflows: dict[str, Workflow] = {}
        if isinstance(target, str):
            if store is not None or options:
                message = "store and settings belong to the server; give them to `serve`, not to a client of a URL"
                raise TypeError(message)
            self._core = _core.UaipClientCore.connect(target, token)
            self._target = repr(shown_url(target))
            return
        if token is not None:
            message = "token is for servers that are given by their URL"
            raise TypeError(message)
        workflow = workflow_of(target)
        self._workflows = {workflow.name: workflow}
        self._target = f"workflow={literal(workflow.name, 100)}"
        self._store = store_of(store)
        settings = service_settings(options)
        natives = [workflow._native()]
        self._core = _core.UaipClientCore.in_process(natives, self._store._native, settings, principal)

    def __repr__(self) -> str:
        """The class with the address of the server, without secrets, or with the workflow."""
        return f"{type(self).__name__}({self._target})"

    def __reduce__(self) -> Any:
        """Refuse to be pickled."""
        message = "a client of UAIP cannot be pickled: it holds connections. Connect in the process that uses it"
        raise TypeError(message)


class Client(_AnyClient):
    """A client of a server. Created by `connect`."""

    async def open(self, workflow: str | None = None) -> Session:
        """Open a session.

        Args:
            workflow: The name of the workflow. None if the server has one workflow.
        """
        session = await self._open(workflow)
        if not session._workflows:
            session._view = await self.workflow(session.workflow)
        await session._refresh()
        return session

    async def _open(self, workflow: str | None, key: str | None = None) -> Session:
        core = await cast("Any", self._core.open(workflow, key, blocking=False))
        return Session(core, self._workflows, None)

    async def workflow(self, name: str) -> dict[str, Any]:
        """Return the stages, tasks and transitions of a workflow."""
        return cast("dict[str, Any]", await cast("Any", self._core.workflow(name, blocking=False)))

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do nothing: sessions stay open until they are ended or expire."""


class SyncClient(_AnyClient):
    """Like `Client`, but its methods block. Created by `connect_sync`."""

    def open(self, workflow: str | None = None) -> SyncSession:
        """Open a session; see `Client.open`."""
        core = cast("Any", self._core.open(workflow, None, blocking=True))
        session = SyncSession(core, self._workflows, None)
        if not self._workflows:
            session._view = self.workflow(session.workflow)
        session._refresh()
        return session

    def workflow(self, name: str) -> dict[str, Any]:
        """Return the stages, tasks and transitions of a workflow."""
        return cast("dict[str, Any]", self._core.workflow(name, blocking=True))

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do nothing: sessions stay open until they are ended or expire."""


def connect(
    target: str | Workflow | type[Any], token: str | None = None, *, store: Store | str | None = None, **options: Any
) -> Client:
    """Connect to a server, or to a workflow in this process.

    Requests that were lost are sent again, and their actions run once: each has an idempotency key. Servers of version
    0.4 get each request once.

    Args:
        target: The URL of a server, or a workflow whose tasks then run in this process without HTTP.
        token: The bearer token.
        store: For a workflow: as for `serve`.
        **options: For a workflow: ``idle_ttl``, ``absolute_ttl``, ``queue_depth`` and ``task_timeout``, as for `serve`.
    """
    return Client(target, token, store, options)


def connect_sync(
    target: str | Workflow | type[Any], token: str | None = None, *, store: Store | str | None = None, **options: Any
) -> SyncClient:
    """Like `connect`, for callers without an event loop."""
    return SyncClient(target, token, store, options)
