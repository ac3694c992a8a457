"""Bars of `Agent.map`, conversions, imports, exports, and of sessions that are opened."""

import io
import re
import sys
import threading
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from kernel_support import Kernel

from turntree import ConflictError, Session, agent, store
from turntree import thread_protocol as tp
from turntree.upp import UserMessage, scripted

ROOT = Path(__file__).resolve().parents[3]


def replies(request):
    if request.messages[-1].text == "bad":
        raise ValueError("no")
    return "Fine."


def terminal_of(monkeypatch):
    """Let standard error be a terminal. In the test itself: pytest replaces it between fixtures and tests."""
    written = io.StringIO()
    written.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", written)
    return written


def without(monkeypatch, *names):
    """Let packages look as if they were not installed."""
    from turntree import _progress

    find = _progress.find_spec
    monkeypatch.setattr(_progress, "find_spec", lambda name: None if name in names else find(name))


async def mapped(**options):
    runner = agent(model=scripted(replies)).map(["a", "bad", "b"], return_exceptions=True, **options)
    return [turn async for turn in runner]


async def test_a_line_shows_rate_tokens_and_errors(monkeypatch):
    terminal = terminal_of(monkeypatch)
    without(monkeypatch, "tqdm", "rich")
    turns = await mapped(progress=True)

    assert [type(turn).__name__ for turn in turns] == ["Turn", "ValueError", "Turn"]
    last = terminal.getvalue().rstrip("\n").split("\r")[-1]
    assert re.fullmatch(r"3 of 3 runs · \d+\.\d/s · \d+ tokens · 1 error *", last)
    assert terminal.getvalue().endswith("\n")


async def test_a_bar_is_shown_before_the_first_run_ends(monkeypatch):
    terminal = terminal_of(monkeypatch)
    without(monkeypatch, "tqdm", "rich")
    shown = []

    def reply(request):
        shown.append(terminal.getvalue())
        return "Fine."

    runner = agent(model=scripted(reply)).map(["a", "b"], concurrency=1, progress=True)
    assert [turn.text async for turn in runner] == ["Fine.", "Fine."]

    assert shown[0] == "\r0 of 2 runs · 0.0/s · 0 tokens"


async def test_rich_draws_the_bar_before_the_first_run_ends(monkeypatch):
    terminal = terminal_of(monkeypatch)
    pytest.importorskip("rich")
    without(monkeypatch, "tqdm")
    monkeypatch.setenv("COLUMNS", "120")
    shown = []

    def reply(request):
        shown.append(terminal.getvalue())
        return "Fine."

    _ = [turn async for turn in agent(model=scripted(reply)).map(["a"], progress=True)]

    assert "0 of 1 runs" in shown[0]


SLOW_MAP = """
import asyncio
from turntree import _progress, agent
from turntree.upp import Reply, scripted

find = _progress.find_spec
_progress.find_spec = lambda name: None if name in ("tqdm", "rich") else find(name)

def late(request):
    asyncio.get_running_loop().call_soon(lambda: print("WAITING", flush=True))
    return Reply("late", delay=60)

async for turn in agent(model=scripted(late)).map(["a", "b"], progress=True): pass
"""


def test_a_notebook_shows_the_bar_while_the_first_run_goes_on(tmp_path):
    with Kernel.started(tmp_path) as kernel:
        cell = kernel.run(SLOW_MAP, stop_at="WAITING")

    assert cell.error == "CancelledError", cell.traceback
    assert cell.warned.startswith("\r0 of 2 runs · ")


async def test_a_file_gets_no_line(monkeypatch, capsys):
    without(monkeypatch, "tqdm", "rich")
    await mapped(progress=True)

    assert capsys.readouterr().err == ""


async def test_rich_draws_the_bar(monkeypatch):
    terminal = terminal_of(monkeypatch)
    pytest.importorskip("rich")
    without(monkeypatch, "tqdm")
    monkeypatch.setenv("COLUMNS", "120")
    await mapped(progress=True)

    assert "3 of 3 runs" in terminal.getvalue()
    assert "1 error" in terminal.getvalue()


async def test_tqdm_draws_the_bar(monkeypatch):
    shown = []

    class Bar:
        def __init__(self, total, unit):
            self.n, self.total = 0, total
            shown.append(self)

        def set_postfix_str(self, text, refresh):
            self.text = text

        def update(self, count):
            self.n += count

        def close(self):
            self.closed = True

    for name in ("tqdm", "tqdm.std", "tqdm.auto"):
        module = ModuleType(name)
        module.tqdm, module.__spec__ = Bar, ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    await mapped(progress=True)

    (bar,) = shown
    assert (bar.n, bar.total, bar.closed) == (3, 3, True)
    assert bar.text.endswith(" · 1 error")


async def test_functions_and_false_are_still_taken():
    counts = []
    await mapped(progress=counts.append)
    await mapped(progress=False)

    assert counts == [1, 2, 3]
    with pytest.raises(TypeError, match="progress must be a function, not int"):
        await mapped(progress=5)


@pytest.fixture
def histories(tmp_path):
    """Two conversations of Pydantic AI, and one that is damaged."""
    good = (ROOT / "examples" / "data" / "plain-text.json").read_text("utf-8")
    for name, content in (("a", good), ("b", "[5]"), ("c", good)):
        (tmp_path / f"{name}.json").write_text(content, "utf-8")
    return tmp_path


def test_an_import_shows_its_conversations(monkeypatch, histories):
    terminal = terminal_of(monkeypatch)
    without(monkeypatch, "tqdm", "rich")
    report = store.memory().import_from_sync(histories, format="pydantic-ai", on_error="skip", progress=True)

    assert report.count("imported") == 2
    assert re.search(r"3 conversations · [\d,]+/s · 1 failed\n", terminal.getvalue())


async def test_functions_receive_the_number_of_imported_conversations(histories):
    counts = []
    await store.memory().import_from(histories, format="pydantic-ai", on_error="skip", progress=counts.append)

    assert counts == [1, 2, 3]
    with pytest.raises(TypeError, match="progress must be a function, not int"):
        store.memory().import_from_sync(histories, progress=5)


def test_a_conversion_shows_its_documents(monkeypatch, tmp_path):
    terminal = terminal_of(monkeypatch)
    without(monkeypatch, "tqdm", "rich")
    source = tmp_path / "a.jsonl"
    source.write_text(tp.from_upp([UserMessage("Hi")]).model_dump_json() + "\n")
    report = tp.convert_jsonl(source, tmp_path / "b.jsonl", from_="thread-protocol", to="pydantic-ai", progress=True)

    assert report.documents == 1
    assert re.search(r"1 documents · [\d,]+/s · [\d.]+ MB/s\n", terminal.getvalue())


@pytest.fixture
async def filled():
    """A store with two sessions: one of them has three runs, each of which was saved."""
    sessions = store.memory()
    helper = agent(model=scripted(replies))
    for id, runs in (("large", 3), ("small", 1)):
        talk = await Session.open(sessions, id, helper, save_interval="turn")
        for _ in range(runs):
            await talk.run("Go")
    return sessions


def last_line(terminal):
    return terminal.getvalue().rstrip("\n").split("\r")[-1]


async def test_a_session_that_is_opened_shows_its_entries(monkeypatch, filled):
    terminal = terminal_of(monkeypatch)
    without(monkeypatch, "tqdm", "rich")
    helper = agent(model=scripted(replies))
    opened = await Session.open(filled, "large", helper, progress=True)
    loaded = await Session.load(filled, "large", helper, progress=True)

    assert len(opened.tree.history()) == len(loaded.tree.history()) == 6
    assert re.fullmatch(r"3 of 3 entries · [\d,]+/s *", last_line(terminal))
    assert terminal.getvalue().count("\n") == 2


async def test_a_session_that_is_new_shows_no_bar(monkeypatch, filled):
    terminal = terminal_of(monkeypatch)
    without(monkeypatch, "tqdm", "rich")
    await Session.open(filled, "new", agent(model=scripted(replies)), progress=True)
    await Session.open(filled, "large", agent(model=scripted(replies)))

    assert terminal.getvalue() == ""
    with pytest.raises(TypeError, match="progress must be a bool, not function"):
        await Session.open(filled, "large", agent(model=scripted(replies)), progress=last_line)
    with pytest.raises(TypeError, match="progress must be a bool, not int"):
        filled.export_sync("x.jsonl", progress=1)


async def test_exports_show_their_sessions_and_imports_their_bytes(monkeypatch, filled, tmp_path):
    terminal = terminal_of(monkeypatch)
    without(monkeypatch, "tqdm", "rich")
    path = tmp_path / "backup.jsonl"

    assert await filled.export(path, progress=True) == 2
    assert re.fullmatch(r"2 of 2 sessions · [\d,]+/s *", last_line(terminal))

    assert await store.memory().load_export(path, progress=True) == 2
    size = f"{path.stat().st_size:,}"
    assert re.fullmatch(rf"{size} of {size} bytes · [\d,]+/s *", last_line(terminal))

    assert filled.export_sync(path, progress=True) == store.memory().load_export_sync(path, progress=True) == 2
    assert terminal.getvalue().count("\n") == 4


async def test_a_bar_ends_with_its_operation_also_after_an_error(monkeypatch, filled, tmp_path):
    terminal = terminal_of(monkeypatch)
    without(monkeypatch, "tqdm", "rich")
    await filled.export(tmp_path / "backup.jsonl")

    with pytest.raises(ConflictError, match='has the session "(small|large)" already'):
        await filled.load_export(tmp_path / "backup.jsonl", progress=True)

    assert terminal.getvalue().endswith("\n")
    assert "turntree-progress" not in [thread.name for thread in threading.enumerate()]
