"""The logging middleware of agents."""

from __future__ import annotations

import logging as stdlib
import re
import sys

import pytest
from agent_middleware_support import (
    double,
    with_tool,
)

from turntree import (
    agent,
)
from turntree.middleware import logging
from turntree.upp import (
    UPPError,
    scripted,
)

# logging


def test_logging_writes_the_lines_of_the_specification(run):
    lines = []
    helper = agent(model=scripted(["Hello there."]), middleware=[logging("debug", lines.append)])

    run(helper.run("Hello"))

    assert lines[0] == f"[INFO] Agent {helper.id} starting execution"
    assert lines[1] == '[DEBUG] Input: "Hello"'
    assert re.fullmatch(rf"\[INFO\] Agent {helper.id} completed in (\d+ms|\d+\.\ds) \(\d+ tokens\)", lines[-1])


def test_logging_writes_steps_and_tools_at_debug_level(run):
    lines = []
    helper = agent(model=with_tool(), tools=[double], middleware=[logging("debug", lines.append)])

    run(helper.run("Hello"))

    about = [line.replace(f"Agent {helper.id} ", "") for line in lines]
    assert "[DEBUG] step 1 started" in about
    assert '[DEBUG] calls tool double with {"x":4}' in about
    assert "[DEBUG] tool double answered 8" in about
    assert any(re.fullmatch(r"\[DEBUG\] step 2 ended \(\d+ tokens\)", line) for line in about)


@pytest.mark.parametrize(("level", "count"), [("info", 2), ("warn", 0), ("warning", 0), ("error", 0)])
def test_logging_filters_lines_by_level(run, level, count):
    lines = []

    run(agent(model=scripted(["x"]), middleware=[logging(level, lines.append)]).run("Hello"))

    assert len(lines) == count


def test_logging_shows_only_a_preview_by_default(run):
    secret = "word " * 30 + "SECRET"
    for level, include in [("debug", False), ("info", False)]:
        lines = []
        helper = agent(model=scripted([secret]), middleware=[logging(level, lines.append, include)])
        run(helper.run(secret))
        assert "SECRET" not in "".join(lines)
    lines = []
    run(agent(model=scripted([secret]), middleware=[logging(logger=lines.append, include_messages=True)]).run(secret))
    assert next(line for line in lines if "SECRET" in line).startswith('[INFO] Input: "word word')
    assert sum("SECRET" in line for line in lines) == 2


def test_logging_writes_the_error_and_at_debug_level_its_traceback(run):
    lines = []
    failing = scripted([UPPError("down", "PROVIDER_ERROR")])
    helper = agent(model=failing, middleware=[logging("debug", lines.append, include_timing=False)])

    with pytest.raises(UPPError):
        run(helper.run("Hello"))

    assert f"[ERROR] Agent {helper.id} failed: down" in lines
    assert lines[-1].startswith("[DEBUG] ")
    assert "UPPError" in lines[-1]


def test_logging_can_omit_times(run):
    lines = []

    run(agent(model=scripted(["x"]), middleware=[logging(logger=lines.append, include_timing=False)]).run("Hello"))

    assert re.search(r"completed \(\d+ tokens\)$", lines[-1])


def test_logging_uses_the_logger_of_the_package_by_default(run, caplog):
    caplog.set_level(stdlib.DEBUG, logger="turntree")

    run(agent(model=scripted(["x"]), middleware=[logging("debug")]).run("Hello"))

    records = [(record.name, record.levelname) for record in caplog.records]
    assert records[0] == ("turntree", "INFO")
    assert ("turntree", "DEBUG") in records


def test_failing_logger_does_not_end_the_run(run, monkeypatch):
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)

    def fail(line):
        raise OSError("disk full")

    assert run(agent(model=scripted(["x"]), middleware=[logging(logger=fail)]).run("Hello")).response.text == "x"
    assert raised


def test_logging_options_are_validated():
    with pytest.raises(ValueError, match='level must be one of "debug", "info", "warning", "error", not "loud"'):
        logging("loud")
    with pytest.raises(TypeError, match=r"logger must be a logging\.Logger or a function, not int"):
        logging(logger=3)
