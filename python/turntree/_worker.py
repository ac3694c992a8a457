"""Executes the queued runs of a store: the command ``turntree worker``."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from turntree import _core
from turntree._agent import Agent
from turntree._session import Session
from turntree.exceptions import ApprovalRequired, ConflictError, StoreError
from turntree.store import Store, from_url

_log = logging.getLogger("turntree.worker")

IDLE_SECONDS = 1.0
"""The longest time between two looks at the queue of an idle worker."""

MAX_BACKOFF = 60.0
"""The longest pause between two attempts of a run, in seconds."""

TAKEOVERS = 10
"""A run that was started this many times `max_attempts` is given up: it seems to end its workers' processes."""


REBASES = 5
"""The number of times that an attempt continues after another writer has changed its session."""


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended."""

    kind: Literal["done", "failed", "retry", "waiting", "released"]
    text: str | None = None
    delay: float = 0.0
    updated_at: datetime | None = None


@dataclass(frozen=True)
class Claimed:
    """A run that this worker has claimed."""

    id: str
    session: str
    input: str | None
    attempts: int
    failures: int
    token: int
    was_started: bool


class Worker:
    """Executes the queued runs of a store with an agent.

    A run whose worker has died is taken over by another worker when the lease of its session has expired.

    Args:
        store: The store or its URL.
        agent: The agent. Runs that were enqueued for another agent are left to other workers.
        concurrency: The largest number of runs that are executed at the same time, each of another session.
        lease: How long a session belongs to this worker without a sign of life, in seconds. The worker renews its
            leases three times as often. An event loop that is blocked for longer loses them.
        max_attempts: The number of attempts that may fail before a run is given up.
        backoff: The pause after the first failed attempt, in seconds. It doubles with each further one, up to 60 s.
        name: The name of the worker in the store. Default: the names of the machine and the process.
        on_run: Called with the id, session, attempt and status of a run when an attempt starts and when its outcome is
            stored. The status is "running", "done", "failed", "retry", "waiting", "released" or "lost".
    """

    def __init__(
        self,
        store: Store | str,
        agent: Agent,
        *,
        concurrency: int = 8,
        lease: float = 60.0,
        max_attempts: int = 3,
        backoff: float = 1.0,
        name: str | None = None,
        on_run: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        if concurrency < 1 or max_attempts < 1 or not lease > 0 or not backoff >= 0:
            message = (
                "concurrency and max_attempts must be at least 1, lease must be positive and backoff not negative; "
                f"got {concurrency}, {max_attempts}, {lease} and {backoff}"
            )
            raise ValueError(message)
        self.store = from_url(store) if isinstance(store, str) else store
        self.agent = agent
        self.concurrency = concurrency
        self.lease = lease
        self.max_attempts = max_attempts
        self.backoff = backoff
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._on_run = on_run
        self._native = self.store._native
        self._agents = [name for name in (agent.id, agent.name) if name]
        self._stopping = asyncio.Event()
        self._runs: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Claim no further runs. `run` returns when the current ones have ended. The second call cancels those."""
        if self._stopping.is_set():
            for task in self._runs:
                task.cancel()
        self._stopping.set()

    async def run(self) -> None:
        """Execute runs until `stop` is called.

        Raises:
            ValueError: The store has no queue.
            StoreError: The store cannot be used at the start. Later the worker waits until it can be used again.
        """
        # Errors of the configuration.
        await self._native.run("", blocking=False)
        try:
            while not self._stopping.is_set():
                if len(self._runs) >= self.concurrency:
                    await self._until_stop(asyncio.wait(self._runs, return_when=asyncio.FIRST_COMPLETED))
                elif (claimed := await self._claim()) is not None:
                    task = asyncio.create_task(self._execute(claimed))
                    self._runs.add(task)
                    task.add_done_callback(self._runs.discard)
            while self._runs:
                await asyncio.wait(self._runs)
        except asyncio.CancelledError:
            self._stopping.set()
            for task in self._runs:
                task.cancel()
            await asyncio.gather(*self._runs, return_exceptions=True)
            raise

    async def _until_stop(self, waiting: Coroutine[Any, Any, Any]) -> None:
        """Wait for something, or until `stop` is called."""
        tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _claim(self) -> Claimed | None:
        """Return the next run; None if there is none, after a while."""
        try:
            found = await self._native.claim(self.name, self._agents, self.lease)
        except StoreError as error:
            _log.warning("no run can be claimed: %s", error)
            await self._until_stop(asyncio.sleep(IDLE_SECONDS))
            return None
        if found is None:
            await self._until_stop(self._wait())
            return None
        (id, session, _status, _turn, _error, attempts, failures, input), token, was_started = found
        return Claimed(id, session, input, attempts, failures, token, was_started)

    async def _wait(self) -> None:
        try:
            await self._native.wait_for_runs(IDLE_SECONDS)
        except StoreError:
            await asyncio.sleep(IDLE_SECONDS)

    async def _execute(self, run: Claimed) -> None:
        """Execute one attempt and store its outcome."""
        _log.info("run %s of session %r: attempt %d", run.id, run.session, run.attempts)
        self._report(run, "running")
        attempt = asyncio.create_task(self._attempt(run))
        heartbeat = asyncio.create_task(self._keep_lease(run, attempt))
        try:
            outcome = await attempt
        except asyncio.CancelledError as error:
            attempt.cancel()
            await asyncio.gather(attempt, return_exceptions=True)
            if heartbeat.done():
                outcome = None
            elif self._stopping.is_set():
                outcome = Outcome("released")
            else:
                # A tool has raised it.
                outcome = self._failure(run, error)
        finally:
            heartbeat.cancel()
            await asyncio.gather(heartbeat, return_exceptions=True)
        if outcome is None:
            _log.warning("run %s: the lease of session %r was lost", run.id, run.session)
            self._report(run, "lost")
            return
        await self._finish(run, outcome)

    async def _keep_lease(self, run: Claimed, attempt: asyncio.Task[Any]) -> None:
        """Renew the lease. Cancel the attempt when it is lost."""
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while loop.time() < renewed + self.lease:
            await asyncio.sleep(self.lease / 3)
            started = loop.time()
            try:
                if not await self._native.heartbeat(run.session, run.token, self.lease):
                    break
                renewed = started
            except StoreError as error:
                _log.warning("the lease of session %r cannot be renewed: %s", run.session, error)
        attempt.cancel()

    async def _finish(self, run: Claimed, outcome: Outcome) -> None:
        level = logging.INFO if outcome.kind in ("done", "released") else logging.WARNING
        shown = f"{outcome.kind}: {outcome.text}" if level == logging.WARNING else outcome.kind
        _log.log(level, "run %s of session %r: %s", run.id, run.session, shown)
        arguments = (outcome.kind, outcome.text, outcome.delay, outcome.updated_at)
        loop = asyncio.get_running_loop()
        limit = loop.time() + self.lease
        while True:
            try:
                await self._native.finish(run.id, run.session, run.token, *arguments)
            except ConflictError:
                # Also if an earlier attempt to store it has succeeded.
                _log.warning("run %s: the lease of session %r was lost", run.id, run.session)
                self._report(run, "lost")
            except StoreError as error:
                _log.warning("the end of run %s cannot be stored: %s", run.id, error)
                if loop.time() < limit:
                    await asyncio.sleep(IDLE_SECONDS)
                    continue
                self._report(run, "lost")
            else:
                self._report(run, outcome.kind, None if outcome.kind == "done" else outcome.text)
            return

    def _report(self, run: Claimed, status: str, error: str | None = None) -> None:
        values = {"run": run.id, "session": run.session, "attempt": run.attempts, "status": status}
        if self._on_run is not None:
            self._on_run(values if error is None else {**values, "error": error})

    async def _attempt(self, run: Claimed) -> Outcome:
        if run.attempts > self.max_attempts * TAKEOVERS:
            return Outcome("failed", f"given up after {run.attempts - 1} attempts that ended with their process")
        session: Session | None = None
        try:
            session = await Session.open(Store(self._native.with_fence(run.token)), run.session, self.agent)
            turn = await _turn_despite_conflicts(session, run)
        except ApprovalRequired as required:
            return await self._wait_for_approval(run, session, required)
        except Exception as error:
            return self._failure(run, error)
        return Outcome("done", None if turn is None else turn.model_dump_json())

    async def _wait_for_approval(self, run: Claimed, session: Session | None, required: ApprovalRequired) -> Outcome:
        if session is None:
            return self._failure(run, required)
        try:
            await _save_despite_conflicts(session)
        except StoreError as error:
            return self._failure(run, error)
        return Outcome("waiting", str(required), updated_at=session.updated_at)

    def _failure(self, run: Claimed, error: BaseException) -> Outcome:
        text = f"{type(error).__name__}: {error}"
        if run.failures + 1 >= self.max_attempts:
            return Outcome("failed", text)
        delay = min(self.backoff * 2.0**run.failures, MAX_BACKOFF)
        return Outcome("retry", text, delay * random.uniform(0.9, 1.1))


async def _turn_despite_conflicts(session: Session, run: Claimed) -> _core.Turn | None:
    """Execute a run. If a writer without a lease changes the session meanwhile, continue after its changes.

    The results of tools are only in this process then: another attempt would call the tools again.
    """
    work = _turn(session, run)
    for left in reversed(range(REBASES)):
        try:
            return await work
        except ConflictError as error:
            # If the lease was lost, the store also refuses the rebased session.
            if not left:
                raise
            await _save_despite_conflicts(session, rebase=True)
            work = _after_conflict(session, run, error)
    return None


async def _after_conflict(session: Session, run: Claimed, error: ConflictError) -> _core.Turn | None:
    """Continue a run of a session that was rebased and saved."""
    turn: _core.Turn | None = getattr(error, "turn", None)
    if turn is not None:
        # The turn is in the tree; only its save had failed.
        return turn
    if session.is_unfinished and (run.input is None or _has_input(session, run.id)):
        return await session.resume()
    return await _turn(session, run)


async def _save_despite_conflicts(session: Session, *, rebase: bool = False) -> None:
    """Save a session, after the changes of writers without a lease. `rebase`: another writer has changed it already.

    Raises:
        ConflictError: The lease was lost, or other writers change the session all the time.
        StoreError: The store cannot be used.
    """
    for left in reversed(range(REBASES)):
        if rebase:
            await session.rebase()
        try:
            return await session.save()
        except ConflictError:
            if not left:
                raise
            rebase = True
    return None


async def _turn(session: Session, run: Claimed) -> _core.Turn | None:
    """Execute a run, or continue it where an earlier attempt has stopped."""
    if run.input is None:
        return await session.resume() if session.is_unfinished else None
    if run.was_started:
        if session.is_unfinished and _has_input(session, run.id):
            return await session.resume()
        if (turn := _finished_turn(session, run.id)) is not None:
            return turn
    return await session.run(_core.UserMessage.model_validate_json(run.input))


def _has_input(session: Session, id: str) -> bool:
    """Whether the unfinished run of a session has the input of this run, whose message has the run's id."""
    return session.state is not None and any(message.id == id for message in session.state.messages)


def _finished_turn(session: Session, id: str) -> _core.Turn | None:
    """Return the turn that an earlier attempt has saved; None if there is none."""
    for node in session.tree.nodes.values():
        messages = node.thread.messages
        start = next((index for index, message in enumerate(messages) if message.id == id), None)
        if start is not None:
            end = next((i for i in range(start + 1, len(messages)) if messages[i].type == "user"), len(messages))
            return _turn_of(messages[start:end])
    return None


def _turn_of(messages: Sequence[_core.Message]) -> _core.Turn | None:
    """Return the turn with these messages, without records of tools and tokens; None if there is no answer."""
    answers = [message for message in messages if message.type == "assistant"]
    if not answers:
        return None
    return _core.Turn.model_validate(
        {
            "messages": [message.model_dump() for message in messages],
            "response": answers[-1].model_dump(),
            "toolExecutions": [],
            "usage": _core.TokenUsage().model_dump(),
            "cycles": len(answers),
        }
    )
