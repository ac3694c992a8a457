"""The commands ``turntree worker`` and ``turntree enqueue``: runs of agents in other processes."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import signal
import sys
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from turntree._cli._environment import add_env, load_env
from turntree._cli._events import add_json, event_output, print_event, start_log
from turntree._cli._objects import load_object, load_store
from turntree._cli._terminal import CliError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import TextIO

    from turntree._agent import Agent


def add(commands: Any) -> None:
    """Add the commands to a parser."""
    worker: argparse.ArgumentParser = commands.add_parser(
        "worker",
        help="execute the queued runs of a store",
        description="Executes the runs that were enqueued in a store, with an agent. SIGTERM ends the worker after its "
        "current runs; a second one, or the end of the process, leaves them to other workers.",
        allow_abbrev=False,
    )
    worker.add_argument("agent", metavar="MODULE:AGENT", help="where the agent is, such as app.agents:assistant")
    worker.add_argument(
        "--store", required=True, metavar="URL", help="sqlite:///path.db, postgresql://… or MODULE:STORE"
    )
    worker.add_argument("--concurrency", type=int, default=8, metavar="N", help="runs at the same time (default: 8)")
    worker.add_argument(
        "--lease", type=float, default=60.0, metavar="SECONDS", help="a dead worker's runs are taken over then (60)"
    )
    worker.add_argument(
        "--max-attempts", type=int, default=3, metavar="N", help="failed attempts before a run is given up (3)"
    )
    worker.add_argument(
        "--backoff", type=float, default=1.0, metavar="SECONDS", help="the pause after a failed attempt; it doubles (1)"
    )
    worker.add_argument("--name", help="the name of the worker (default: machine and process)")
    add_json(worker, "print a JSON object at the start, for each run and at the end, and write the log as JSON")
    add_env(worker)
    worker.set_defaults(run=run_worker)

    enqueue: argparse.ArgumentParser = commands.add_parser(
        "enqueue",
        help="add a run to the queue of a store",
        description="Adds a run to the queue of a store, and prints the run's id.",
        allow_abbrev=False,
    )
    enqueue.add_argument("text", nargs="?", metavar="TEXT", help="the input; - reads standard input")
    enqueue.add_argument(
        "--store", required=True, metavar="URL", help="sqlite:///path.db, postgresql://… or MODULE:STORE"
    )
    enqueue.add_argument("--session", required=True, metavar="ID", help="the session's id")
    enqueue.add_argument("--resume", action="store_true", help="resume the session instead of a new input")
    enqueue.add_argument("--agent", metavar="NAME", help="the name or id of the agent (default: any worker)")
    enqueue.add_argument("--not-before", metavar="TIME", type=_time, help="an ISO 8601 time, such as 2030-01-31T08:00Z")
    enqueue.add_argument("--priority", type=int, default=0, metavar="N", help="higher is earlier (default: 0)")
    enqueue.add_argument("--json", action="store_true", help="print one JSON object")
    enqueue.set_defaults(run=run_enqueue)


def run_worker(options: argparse.Namespace) -> int:
    """Execute runs until a signal, and return the exit status."""
    with event_output(as_json=options.json) as output:
        return _run_worker(options, output)


def _run_worker(options: argparse.Namespace, output: TextIO) -> int:
    load_env(options.env)
    agent = load_agent(options.agent)
    importlib.import_module("turntree.tracing")  # shows a line for each request to a model
    start_log(logging.INFO, as_json=options.json)
    asyncio.run(_work(agent, options, output))
    return 0


async def _work(agent: Agent, options: argparse.Namespace, output: TextIO) -> None:
    from turntree._worker import Worker

    store = load_store(options.store)
    try:
        await store.runs(limit=1)  # fails if the store has no queue
        worker = Worker(
            store,
            agent,
            concurrency=options.concurrency,
            lease=options.lease,
            max_attempts=options.max_attempts,
            backoff=options.backoff,
            name=options.name,
            on_run=partial(_print_run, output) if options.json else None,
        )
    except ValueError as error:
        raise CliError(str(error), 2) from error
    _stop_on_signals(worker.stop)
    logging.getLogger("turntree.worker").info("worker %s started with %r", worker.name, worker.store)
    if options.json:
        print_event(
            "started", {"worker": worker.name, "agent": options.agent, "concurrency": worker.concurrency}, output
        )
    try:
        await worker.run()
    finally:
        await worker.store.close()
    if options.json:
        print_event("stopped", {"reason": "signal"}, output)


def _print_run(output: TextIO, values: dict[str, Any]) -> None:
    with suppress(OSError):  # standard output may be closed; the runs go on
        print_event("run", values, output)


def _stop_on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(stop))


def run_enqueue(options: argparse.Namespace) -> int:
    """Add a run, print its id and return the exit status."""
    if (options.text is None) != options.resume:
        message = "give either the TEXT of the input or --resume"
        raise CliError(message, 2)
    text = sys.stdin.read() if options.text == "-" else options.text
    with load_store(options.store) as store:
        try:
            id = store.enqueue_sync(
                options.session, text, agent=options.agent, not_before=options.not_before, priority=options.priority
            )
        except ValueError as error:
            raise CliError(str(error), 2) from error
    print(json.dumps({"run": id, "session": options.session}) if options.json else id)
    return 0


def load_agent(place: str) -> Agent:
    """Import an agent that is given as ``module:name``, also from the current folder."""
    from turntree._agent import Agent

    found = load_object(place, "an agent", "app.agents:assistant")
    if not isinstance(found, Agent):
        message = f"{place!r} is not an agent but {type(found).__name__}; give the name of an object made by agent(…)"
        raise CliError(message, 2)
    return cast("Agent[Any, Any]", found)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
