"""The tools of a workflow's current stage, for agents."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from typing import Any

from turntree._core import RunContext
from turntree.store import Store
from turntree.uaip._approvals import answer_of
from turntree.uaip._client import Client, Session, SyncSession, ToolInfo
from turntree.uaip._errors import UaipError
from turntree.uaip._workflow import Workflow
from turntree.upp._signature import ArgumentError
from turntree.upp._tools import Tool

# Above it, the sessions that were used least recently are forgotten; they expire on the server.
_MAX_SESSIONS = 10_000

# To whom the sessions of toolsets in this process belong.
_PRINCIPAL = "turntree.toolset"

# How many walks of one agent's session are looked for that have ended.
_MAX_WALKS = 100


class WorkflowToolset:
    """The tools of the current stage of a session. Created by `toolset`.

    Attributes:
        name: The name of the toolset in errors.
    """

    def __init__(
        self, source: Any, workflow: str | None, token: str | None, store: Store | str | None, options: dict[str, Any]
    ) -> None:
        if isinstance(source, SyncSession):
            message = "a session of connect_sync blocks the event loop of the agent; open one with connect"
            raise TypeError(message)
        self.name: str = f"uaip {workflow}" if workflow else "uaip"
        self._workflow = workflow
        self._given = source if isinstance(source, Session) else None
        # In this process sessions belong to toolsets alone, because their keys can be guessed.
        self._is_local = not isinstance(source, (str, Session))
        principal = _PRINCIPAL if self._is_local else None
        self._client = None if self._given is not None else Client(source, token, store, options, principal)
        self._sessions: OrderedDict[str | None, Session] = OrderedDict()
        self._opening: dict[str | None, asyncio.Future[Session]] = {}

    @property
    def session(self) -> Session | None:
        """The session that was used last; None before the first run."""
        return self._given or next(reversed(self._sessions.values()), None)

    async def tools(self, context: RunContext[Any], /) -> list[Tool[..., Any]]:
        """Return the tasks of the current stage, ``transition_stage``, and ``provide_state`` if the server asks for it.

        They are those of the last answer: after the first call, nothing is requested.
        """
        session = await self._session_of(context.session_id)
        if session.ended:
            return []
        return [self._tool(session, tool) for tool in session.tools if tool.name != "terminate_session"]

    async def _session_of(self, key: str | None) -> Session:
        """Return the session of an agent's session: runs of one session continue one walk through the workflow."""
        if self._given is not None:
            return self._given
        found = self._sessions.get(key)
        if found is not None:
            self._sessions.move_to_end(key)
            return found
        if self._client is None:
            raise AssertionError
        opened = await self._open(self._client, key)
        opened._tracks_state = False
        # Another run of the session may have opened one meanwhile.
        session = self._sessions.setdefault(key, opened)
        while len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    async def _open(self, client: Client, key: str | None) -> Session:
        """Open a session; in this process the one that an agent's session has used before, also in another process."""
        if key is None or not self._is_local:
            return await client._open(self._workflow)
        named = json.dumps([list(client._workflows), key])
        digest = hashlib.sha256(named.encode()).hexdigest()
        for number in range(_MAX_WALKS):
            try:
                return await client._open(self._workflow, f"toolset-{digest}-{number}")
            except UaipError as error:
                # That walk has ended or expired.
                if error.code != "session_not_found":
                    raise
        return await client._open(self._workflow)

    def _tool(self, session: Session, info: ToolInfo) -> Tool[..., Any]:
        name = info.name
        approval = _approval_of(session, name)

        async def run(**values: Any) -> Any:
            try:
                return await _perform(session, name, values, is_approved=approval is not None)
            except UaipError as error:
                if error.code == "approval_required":
                    return {"status": "approval_required", "message": error.detail, **error.body}
                # The model reads why the server has refused the action; that is no failure of the program.
                raise ArgumentError(str(error)) from error

        handler: Any = None
        if approval is not None:

            async def ask(arguments: dict[str, Any]) -> bool | str:
                return await answer_of(approval, arguments)

            handler = ask
        return Tool(name, info.description, info.input_schema, run, handler)

    def __repr__(self) -> str:
        return f"<WorkflowToolset {self.session!r}>"


def _approval_of(session: Session, task: str) -> Any:
    """Return who approves calls of a task of a workflow in this process; None if nobody must."""
    workflow = session._workflows.get(session.workflow)
    return None if workflow is None else workflow._approval_of(session.stage, task)


async def _perform(session: Session, name: str, arguments: dict[str, Any], *, is_approved: bool) -> Any:
    if name == "transition_stage":
        await session.go(arguments["target_stage"])
        tools = [tool.name for tool in session.tools if tool.name != "terminate_session"]
        return {"stage": session.stage, "tools": tools}
    if name == "provide_state":
        await session.provide(arguments)
        return {"updated": list(arguments)}
    if is_approved:
        session._workflows[session.workflow]._grants.grant(session.id, name, arguments)
    return await session.call(name, **arguments)


def toolset(
    source: Session | str | Workflow | type[Any],
    workflow: str | None = None,
    *,
    token: str | None = None,
    store: Store | str | None = None,
    **options: Any,
) -> WorkflowToolset:
    """Return a toolset for ``agent(tools=[…])``: exactly the tools of the current stage.

    The agent sees the tasks of the stage, ``transition_stage`` if there is an exit, and ``provide_state`` after a move
    that lacked values. They are taken from the last answer before each model call, without further requests.

    Args:
        source: A session of `connect`; the URL of a server; or a workflow, whose tasks then run in this process. For a
            URL or a workflow the toolset opens one session for each session of the agent, and one for all runs without
            a session. With a workflow and a durable `store`, a session of the agent that goes on in another process
            within a day goes on in the same stage.
        workflow: For a URL: the name of the workflow, if the server has several.
        token: For a URL: the bearer token.
        store: For a workflow: as for `serve`.
        **options: For a workflow: as for `connect`.

    A task whose tool asks for approval stops the run with `ApprovalRequired` if the workflow is in this process, and
    goes on after `turntree.Session.approve`. Over HTTP, the model receives the status ``approval_required``.
    """
    return WorkflowToolset(source, workflow, token, store, options)
