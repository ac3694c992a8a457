"""The command ``turntree serve``: a server of workflows or agents, with reload for development."""

from __future__ import annotations

import asyncio
import hmac
import importlib
import logging
import os
import signal
import site
import subprocess
import sys
import sysconfig
import traceback
from contextlib import suppress
from importlib.util import source_from_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turntree._cli._environment import add_env, load_env
from turntree._cli._events import add_json, event_output, print_event, start_log
from turntree._cli._objects import load_object
from turntree._cli._terminal import CliError, print_error, print_note

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from typing import TextIO

# The exit status of a server that ends because a file has changed.
_CHANGED = 75

# The pause in seconds between two looks at the files.
_WATCH_INTERVAL = 0.3

# Set for the process that serves under --reload.
_RELOADING = "TURNTREE_SERVE_RELOADING"


def add(commands: Any) -> None:
    """Add the command to a parser."""
    serve: argparse.ArgumentParser = commands.add_parser(
        "serve",
        help="serve workflows or agents over HTTP",
        description="Serves objects of an application until SIGINT or SIGTERM. Prints the address as its first line.",
        allow_abbrev=False,
    )
    serve.add_argument("objects", nargs="+", metavar="MODULE:OBJECT", help="what to serve, such as app.shop:store")
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    serve.add_argument("--port", type=int, default=8000, help="the port; 0 chooses a free one (default: 8000)")
    serve.add_argument(
        "--auth-token-env",
        metavar="NAME",
        help="the environment variable with the bearer token that requests need; required for other hosts",
    )
    serve.add_argument("--reload", action="store_true", help="start again when a file of the application changes")
    add_json(serve, "print the address as a JSON object, another one at the end, and the log as JSON")
    add_env(serve)
    serve.set_defaults(run=run_serve)


def run_serve(options: argparse.Namespace) -> int:
    """Serve until a signal, and return the exit status."""
    if options.reload and _RELOADING not in os.environ:
        return _supervise()
    with event_output(as_json=options.json) as output:
        return _run(options, output)


def _run(options: argparse.Namespace, output: TextIO) -> int:
    load_env(options.env)
    auth = _token_check(options.auth_token_env) if options.auth_token_env else None
    importlib.import_module("turntree.tracing")  # shows a line for each request to a model
    start_log(logging.INFO, as_json=options.json)
    if not options.reload:
        return asyncio.run(_serve(options, auth, output))
    files = _Files()
    try:
        return asyncio.run(_serve(options, auth, output, files))
    except CliError as error:
        print_error(str(error), None)
        broken: list[Path] = []
    except Exception as error:
        print_error(traceback.format_exc(), None) if options.json else traceback.print_exc()
        broken = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError) and error.filename:
            broken.append(Path(error.filename))
    files.add(broken)
    print_note("waiting for a change of a file")
    return asyncio.run(files.changed())


async def _serve(
    options: argparse.Namespace,
    auth: Callable[[str], Awaitable[str | None]] | None,
    output: TextIO,
    files: _Files | None = None,
) -> int:
    from turntree import _servables

    objects = [load_object(place, "an object", "app.shop:store") for place in options.objects]
    try:
        kind = _servables.find(objects)
    except TypeError as error:
        message = f"{' '.join(options.objects)}: {error}"
        raise CliError(message, 2) from error
    async with kind.serve(*objects, host=options.host, port=options.port, auth=auth) as server:
        stopped = asyncio.Event()
        _on_signals(stopped.set)
        if options.json:
            print_event("started", {"url": server.url, "objects": options.objects}, output)
        else:
            print(server.url, file=output, flush=True)
        waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(stopped.wait())]
        if files is not None:
            waiting.append(asyncio.ensure_future(files.changed()))
        done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
    if options.json:
        print_event("stopped", {"reason": "signal" if stopped.is_set() else "change"}, output)
    return 0 if stopped.is_set() else done.pop().result()


def _token_check(variable: str) -> Callable[[str], Awaitable[str | None]]:
    """The ``auth`` that accepts one token."""
    expected = os.environ.get(variable, "").strip()
    if not expected:
        message = f"--auth-token-env {variable}: the environment variable is not set or empty; set it to a secret token"
        raise CliError(message, 2)

    async def auth(token: str) -> str | None:
        return variable if hmac.compare_digest(token.encode(), expected.encode()) else None

    return auth


def _on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(stop))


def _supervise() -> int:
    """Run the server in a child process, and start it again when a file has changed."""
    command = [sys.executable, "-m", "turntree", *sys.argv[1:]]
    while True:
        child = subprocess.Popen(command, env={**os.environ, _RELOADING: "1"})
        try:
            status = child.wait()
        except KeyboardInterrupt:
            # The terminal has sent the signal to the child as well.
            return child.wait()
        except BaseException:
            child.terminate()
            child.wait()
            raise
        if status != _CHANGED:
            return status
        print_note("a file has changed; starting again")


class _Files:
    """The files of the application and when they were changed.

    A file is known from the moment when it is read, so that a change during the start of the application is found.
    """

    def __init__(self) -> None:
        self._more: list[Path] = []
        self._known: dict[Path, float] = {}
        self._parent = os.getppid()
        sys.addaudithook(self._on_event)

    def add(self, files: Iterable[Path]) -> None:
        """Also look at these files, which no loaded module may have."""
        self._more.extend(file.resolve() for file in files)

    async def changed(self) -> int:
        """Wait until a file changes, and return the exit status that says so. 0 if the supervisor has gone."""
        while not self._scan():
            if os.getppid() != self._parent:
                return 0
            await asyncio.sleep(_WATCH_INTERVAL)
        return _CHANGED

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Remember the time of a source file before it, or what Python has compiled of it, is read."""
        name = arguments[0] if event == "open" else None
        if isinstance(name, str) and name.endswith((".py", ".pyc")):
            with suppress(OSError, ValueError):
                source = Path(source_from_cache(name) if name.endswith(".pyc") else name).resolve()
                self._known.setdefault(source, source.stat().st_mtime)

    def _scan(self) -> bool:
        found = False
        for path in {*_application_files(), *self._more}:
            with suppress(OSError):
                changed = path.stat().st_mtime
                found = found or self._known.setdefault(path, changed) != changed
        return found


def _application_files() -> Iterator[Path]:
    """The files of loaded modules, without those of Python and of installed packages."""
    installed = _installed_folders(Path.cwd().resolve())
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        path = Path(file).resolve()
        if not any(path.is_relative_to(prefix) for prefix in installed):
            yield path


def _installed_folders(project: Path) -> list[Path]:
    """The folders of Python and of installed packages, except those that contain the folder of the project.

    A project may be in the folder of its virtual environment, or below the prefix of Python, such as /usr/src/app.
    """
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    libraries = [*map(sysconfig.get_path, names), *site.getsitepackages(), site.getusersitepackages()]
    folders = {Path(folder).resolve() for folder in (sys.prefix, sys.base_prefix, *libraries)}
    return [folder for folder in folders if not project.is_relative_to(folder)]
