"""``turntree serve``: objects, tokens, signals and reload. The application of these tests brings its own protocol."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import turntree

APPLICATION = """
import asyncio
from contextlib import asynccontextmanager

from turntree import _servables, agent
from turntree.upp import scripted

VERSION = "one"


class Shop:
    pass


class Library:
    pass


class Running:
    def __init__(self, url):
        self.url = url


@asynccontextmanager
async def serve(*shops, host, port, auth):
    async def answer(reader, writer):
        head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode()
        token = head.partition("Bearer ")[2].partition("\\r\\n")[0]
        principal = "anyone" if auth is None else await auth(token)
        body = f"{VERSION} {len(shops)} {principal}"
        writer.write(f"HTTP/1.0 200 OK\\r\\n\\r\\n{body}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, host, port)
    yield Running("http://%s:%d" % server.sockets[0].getsockname()[:2])
    server.close()
    print("closed", flush=True)


_servables.register(_servables.Servable("shop", lambda found: isinstance(found, Shop), serve))
_servables.register(_servables.Servable("library", lambda found: isinstance(found, Library), serve))
shop, other, library, helper, number = Shop(), Shop(), Library(), agent(model=scripted(["x"])), 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "application.py").write_text(APPLICATION, encoding="utf-8")
    return tmp_path


def command(*arguments: str, python: str | Path = sys.executable) -> list[str]:
    return [str(python), "-m", "turntree", "serve", "--port", "0", *arguments]


@pytest.fixture
def start(folder: Path) -> Iterator[Any]:
    """Start the command; returns the process, whose first line is the address."""
    processes: list[subprocess.Popen[str]] = []

    def start(
        *arguments: str, cwd: Path = folder, python: str | Path = sys.executable, **environment: str
    ) -> subprocess.Popen[str]:
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment}
        process = subprocess.Popen(
            command(*arguments, python=python),
            cwd=cwd,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        # The server of --reload is a child, which ends with its parent.
        process.terminate()
        process.communicate(timeout=20)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def error_line(process: subprocess.Popen[str], words: str) -> None:
    """Read standard error until a line contains the words."""
    assert process.stderr is not None
    seen = []
    for text in process.stderr:
        seen.append(text)
        if words in text:
            return
    raise AssertionError("".join(seen))


def get(url: str, token: str = "") -> str:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20) as answer:
        return answer.read().decode()


def save(path: Path, text: str) -> None:
    """Replace a file in one step, so that no process reads an empty one."""
    written = path.with_suffix(".new")
    written.write_text(text, encoding="utf-8")
    written.replace(path)


def refused(folder: Path, *arguments: str) -> str:
    done = subprocess.run(command(*arguments), cwd=folder, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal(start: Any, number: signal.Signals) -> None:
    process = start("application:shop", "application:other")

    answer = get(line(process))
    process.send_signal(number)

    assert answer == "one 2 anyone"
    assert line(process) == "closed"
    assert process.wait(20) == 0


def test_a_token_is_required_if_its_variable_is_named(start: Any) -> None:
    process = start("application:shop", "--auth-token-env", "SHOP_TOKEN", SHOP_TOKEN="secret")
    url = line(process)

    assert get(url, "secret") == "one 1 SHOP_TOKEN"
    assert get(url, "secre") == "one 1 None"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["application:number"], "expected a shop or library or workflow or agent, got int"),
        (["application:missing"], "got NoneType"),
        (["application:shop", "application:helper"], "not shop and agent"),
        (["application:shop", "application:library"], "one kind, not shop and library"),
        (["application"], "expected MODULE:OBJECT"),
        (["nowhere:shop"], "there is no module 'nowhere'"),
        (["application:shop", "--auth-token-env", "NOT_SET"], "NOT_SET: the environment variable is not set"),
    ],
)
def test_what_cannot_be_served_is_an_error_that_says_why(folder: Path, arguments: list[str], words: str) -> None:
    assert words in refused(folder, *arguments)


def test_reload_starts_again_when_a_file_changes_while_it_is_loaded(start: Any, folder: Path) -> None:
    source = folder / "application.py"
    waits = """
import pathlib, time
print("loading", flush=True)
while not pathlib.Path("go-on").exists():
    time.sleep(0.01)
"""
    save(source, APPLICATION + waits)
    process = start("application:shop", "--reload")
    assert line(process) == "loading"
    save(source, APPLICATION.replace('"one"', '"two"'))
    (folder / "go-on").touch()

    # The server that has the old code ends at once.
    assert line(process).startswith("http://")
    assert line(process) == "closed"
    assert get(line(process)) == "two 1 anyone"


def test_reload_starts_again_when_a_file_changes_and_survives_a_broken_one(start: Any, folder: Path) -> None:
    source = folder / "application.py"
    process = start("application:shop", "--reload")
    assert get(line(process)) == "one 1 anyone"

    save(source, "this is not Python")
    assert line(process) == "closed"
    error_line(process, "waiting for a change")
    save(source, APPLICATION.replace('"one"', '"two"'))

    assert get(line(process)) == "two 1 anyone"
    process.terminate()
    assert line(process) == "closed"


@pytest.mark.parametrize("inside", ["app", "lib/app"])
def test_reload_watches_a_project_inside_the_folder_of_its_virtual_environment(
    start: Any, tmp_path: Path, inside: str
) -> None:
    environment = tmp_path / ".venv"
    venv.create(environment, symlinks=sys.platform != "win32")
    project = environment / inside
    project.mkdir(parents=True)
    save(project / "application.py", "import below\n" + APPLICATION.replace('"one"', "below.VERSION"))
    save(project / "below.py", "VERSION = 'one'")
    python = environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    packages = os.pathsep.join([str(Path(turntree.__file__).parents[1]), sysconfig.get_path("purelib")])
    process = start("application:shop", "--reload", cwd=project, python=python, PYTHONPATH=packages)
    assert get(line(process)) == "one 1 anyone"

    save(project / "below.py", "VERSION = 'second'")

    assert line(process) == "closed"
    assert get(line(process)) == "second 1 anyone"


def test_reload_prints_a_broken_file_as_json(start: Any, folder: Path) -> None:
    process = start("application:shop", "--reload", "--json")
    assert json.loads(line(process))["type"] == "started"

    save(folder / "application.py", "this is not Python")

    assert process.stderr is not None
    objects = (json.loads(text) for text in process.stderr if text != "closed\n")  # The application prints this.
    found = [next(objects) for _ in range(3)]
    assert [row["type"] for row in found] == ["note", "error", "note"]
    assert "NameError: name 'this' is not defined" in found[1]["message"]
    assert found[1]["status"] is None
