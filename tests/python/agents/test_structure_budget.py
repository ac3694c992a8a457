"""Schemas from untrusted sources: their work is limited, and other threads run meanwhile."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from turntree import agent
from turntree.middleware import guardrails
from turntree.upp import UPPError, scripted

if TYPE_CHECKING:
    from collections.abc import Callable


def doubling(levels: int) -> dict[str, Any]:
    """A schema in which each definition applies the next one twice."""
    pairs = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)}
    return {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/a0"}},
        "$defs": {**pairs, f"a{levels}": {"type": "string"}},
    }


def assert_other_threads_run(prepare: Callable[[], Callable[[], object]]) -> None:
    """Fail if another thread pauses for half of the work in each of several attempts.

    One attempt is not enough: on a busy machine the other thread also waits for a processor.
    """
    measured: list[tuple[float, float]] = []
    for _ in range(5):
        pause, took = longest_pause(prepare())
        if pause < max(took / 2, 0.05):
            return
        measured.append((pause, took))
    raise AssertionError(measured)


def longest_pause(work: Callable[[], object]) -> tuple[float, float]:
    """The longest time in which another thread does not run while `work` runs, and the time of `work`."""
    pauses, done = [0.0], threading.Event()

    def count() -> None:
        last = time.process_time()
        while not done.is_set():
            time.sleep(0.001)
            now = time.process_time()
            pauses.append(now - last)
            last = now

    other = threading.Thread(target=count)
    other.start()
    started = time.process_time()
    try:
        work()
    finally:
        took = time.process_time() - started
        done.set()
        other.join()
    return max(pauses), took


def test_a_schema_of_exponential_cost_is_refused_with_its_place() -> None:
    with pytest.raises(UPPError, match=r"structure: /\$defs/a0: validation takes more than \d+ steps for every value"):
        agent(model=scripted(['{"x": 1}']), structure=doubling(60)).run_sync("go")


def test_other_threads_run_while_a_schema_is_compiled() -> None:
    many = {f"d{n}": {"type": "object", "properties": {"y": {"type": "string"}}} for n in range(2_000)}
    properties = {name: {"$ref": f"#/$defs/{name}"} for name in many}
    structure = {"type": "object", "properties": properties, "$defs": many}

    def prepare() -> Callable[[], object]:
        helper = agent(model=scripted(["{}"]), structure=structure)
        return lambda: helper.run_sync("go")

    assert_other_threads_run(prepare)


def test_other_threads_run_while_a_value_is_validated() -> None:
    helper = agent(model=scripted(['{"x": 1}'] * 40), structure=doubling(14))

    def validate() -> None:
        with pytest.raises(UPPError):
            helper.run_sync("go")

    validate()
    assert_other_threads_run(lambda: validate)


def test_a_data_rule_of_exponential_cost_is_refused() -> None:
    with pytest.raises(ValueError, match="validation takes more than"):
        guardrails(output=doubling(60))
