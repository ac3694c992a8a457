"""Runs that are shown while they go on."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Generic

from turntree import _core
from turntree._agent import Agent
from turntree._agent_stream import AgentStream
from turntree._called_as import called_as
from turntree._generics import DataT, DepsT
from turntree._run_options import RunOptions
from turntree._session import Session
from turntree._stops import shorten
from turntree._types import Input
from turntree._typing import Unpack
from turntree.notebook._activity import Activity
from turntree.notebook._screen import NotebookScreen, PlainScreen, Screen, failure_note, kernel_shell

if TYPE_CHECKING:
    from turntree.notebook._controls import Controls


def live(
    agent_or_session: Agent[DepsT, DataT] | Session[DepsT, DataT], input: Input, /, **options: Unpack[RunOptions[DepsT]]
) -> Live[DataT]:
    """Run an agent or a session, and show the run while it goes on.

    Write ``turn = await live(agent, "…")``.

    In a notebook, one display shows the text as it comes, tool calls with their state, tokens and time, and is updated
    at most ten times a second. At the end it shows the turn. Elsewhere, the text is printed as it comes.

    If ipywidgets is installed, there are a Stop button, buttons that approve and deny calls, and, for a session, a
    field for the next message. Most front ends handle buttons only between cells: ``run = live(…).start()`` runs in
    the background, so that the cell ends at once; ``turn = await run`` then waits for the turn.

    Args:
        agent_or_session: Who runs.
        input: As `Agent.run` takes it.
        **options: As `Agent.run`; for a session, as `Session.run`.

    Raises:
        TypeError: `agent_or_session` is neither an agent nor a session.
    """
    if not isinstance(agent_or_session, (Agent, Session)):  # pyright: ignore[reportUnnecessaryIsInstance]
        message = f"live takes an agent or a session, not {type(agent_or_session).__name__}"
        raise TypeError(message)
    return Live(agent_or_session, input, options)


class Live(Generic[DataT]):
    """A run that is shown while it goes on. Created by `live`; it begins when it is awaited or started.

    Awaiting it again returns the same turn. It raises what `Agent.run` and `Session.run` raise.
    """

    __slots__ = ("_controls", "_input", "_options", "_screen", "_target", "_task")

    def __init__(
        self,
        target: Agent[Any, DataT] | Session[Any, DataT],
        input: Input,
        options: Mapping[str, Any],
    ) -> None:
        self._target = target
        self._input = input
        self._options = options
        self._task: asyncio.Task[_core.Turn[DataT]] | None = None
        self._screen: Screen | None = None
        self._controls: Controls | None = None

    def __await__(self) -> Generator[Any, Any, _core.Turn[DataT]]:
        """Run, and return the turn."""
        return self._started(background=False).__await__()

    def start(self) -> Live[DataT]:
        """Begin to run in the background and return at once, so that a cell ends and its buttons work.

        Raises:
            RuntimeError: No event loop is running.
        """
        task = self._started(background=True)
        # The display shows how the run has failed, also if nobody awaits it.
        task.add_done_callback(_retrieved)
        return self

    def stop(self) -> None:
        """Cancel the run, from any thread. Does nothing before it has begun and after its end."""
        task = self._task
        if task is not None:
            task.get_loop().call_soon_threadsafe(task.cancel)

    def _started(self, *, background: bool) -> asyncio.Task[_core.Turn[DataT]]:
        if self._task is None:
            loop = asyncio.get_running_loop()
            in_notebook = kernel_shell() is not None
            self._screen = NotebookScreen() if in_notebook else PlainScreen()
            self._task = loop.create_task(self._run(self._screen, self._input))
            if in_notebook:
                self._controls = _controls(self, loop, asks=background)
        return self._task

    async def _run(self, screen: Screen, input: Input) -> _core.Turn[DataT]:
        """Run once, and show it."""
        activity = Activity()
        try:
            screen.begin(activity, asyncio.get_running_loop())
            options: dict[str, Any] = {**self._options, **self._approval()}
            turn = await _shown(self._target.stream(input, sub_agent_events=True, **options), screen)
            await asyncio.sleep(max(0.0, screen.settled()))
        except BaseException as error:
            called_as(error, f"{type(self._target).__name__}.stream", "live")
            activity.end("stopped" if isinstance(error, asyncio.CancelledError) else "ended without a turn")
            screen.end(None, failure_note(error, self._target))
            shorten(error)
            raise
        else:
            activity.end("done")
            screen.end(turn, "")
            _remember(turn)
            return turn
        finally:
            if self._controls is not None:
                self._controls.idle()

    def _approval(self) -> dict[str, Any]:
        """Return the option that lets buttons decide, unless the application decides by a function of its own."""
        target, controls = self._target, self._controls
        if controls is None or not controls.asks or self._options.get("on_approval") is not None:
            return {}
        agent = target if isinstance(target, Agent) else target.agent
        own = target._on_approval if isinstance(target, Session) else None
        return {} if own or agent.options.get("on_approval") else {"on_approval": controls.ask}

    def send(self, text: str) -> None:
        """Run the session again with a message, in the same display. Does nothing during a run.

        Raises:
            TypeError: An agent without a session has no history.
        """
        if not isinstance(self._target, Session):
            message = "send needs a session: live(turntree.session(agent), …)"
            raise TypeError(message)
        task, screen = self._task, self._screen
        if task is None or screen is None or not task.done():
            return
        self._task = task.get_loop().create_task(self._run(screen, text))
        self._task.add_done_callback(_retrieved)
        if self._controls is not None:
            self._controls.busy()

    def __repr__(self) -> str:
        if self._task is None:
            return "This run has not begun. Write: turn = await live(…)"
        state = "has ended" if self._task.done() else "goes on in the background"
        return f"This run {state}. Write: turn = await run, with run = live(…).start()"


async def _shown(stream: AgentStream[DataT], screen: Screen) -> _core.Turn[DataT]:
    """Show the events of a stream, and return its turn."""
    try:
        async for event in stream:
            screen.add(event)
        return await stream.turn
    except asyncio.CancelledError:
        # The loop has ended the run. aclose would also wait for tools in threads, which nothing can interrupt.
        raise
    except BaseException:
        await stream.aclose()
        raise


def _retrieved(task: asyncio.Task[Any]) -> None:
    """Mark the exception of a task as seen."""
    if not task.cancelled():
        task.exception()


def _remember(turn: _core.Turn[Any]) -> None:
    """Let the notebook not show the turn twice, if it is the value of the cell too."""
    shell = kernel_shell()
    if shell is not None:
        from turntree.notebook._shown import shown_live

        shown_live(shell, turn)


def _controls(run: Live[Any], loop: asyncio.AbstractEventLoop, *, asks: bool) -> Controls | None:
    """Return buttons, if ipywidgets is installed."""
    from importlib.util import find_spec

    if find_spec("ipywidgets") is None:
        return None
    from turntree.notebook._controls import Controls

    return Controls(run.stop, run.send if isinstance(run._target, Session) else None, loop, asks=asks)
