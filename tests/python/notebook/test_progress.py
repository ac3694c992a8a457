"""Bars of `Agent.map` and `convert_jsonl`."""

import io
import re
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from turntree import agent
from turntree import thread_protocol as tp
from turntree.upp import UserMessage, scripted


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


def test_a_conversion_shows_its_documents(monkeypatch, tmp_path):
    terminal = terminal_of(monkeypatch)
    without(monkeypatch, "tqdm", "rich")
    source = tmp_path / "a.jsonl"
    source.write_text(tp.from_upp([UserMessage("Hi")]).model_dump_json() + "\n")
    report = tp.convert_jsonl(source, tmp_path / "b.jsonl", from_="thread-protocol", to="pydantic-ai", progress=True)

    assert report.documents == 1
    assert re.search(r"1 documents · [\d,]+/s · [\d.]+ MB/s\n", terminal.getvalue())
