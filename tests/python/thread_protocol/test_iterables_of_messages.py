"""Iterables that are not messages are refused at the first item, however long they are."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

import turntree
from turntree import thread_protocol as tp
from turntree import upp

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = upp.scripted(["hello"])


def long() -> Any:
    """More numbers than the memory holds."""
    return range(10**12)


def endless() -> Any:
    """An iterator that never ends."""
    return itertools.repeat(object())


ENTRIES: dict[str, Callable[[Any], object]] = {
    "from_pydantic_ai": tp.from_pydantic_ai,
    "downgrade_pydantic_ai": lambda given: tp.downgrade_pydantic_ai(given, "1.0.0"),
    "pydantic_ai_version": tp.pydantic_ai_version,
    "from_ui_messages": tp.from_ui_messages,
    "from_ui_stream": tp.from_ui_stream,
    "from_ui_stream messages": lambda given: tp.from_ui_stream([], messages=given),
    "from_upp": tp.from_upp,
    "Thread actions": lambda given: tp.Thread(actions=given),
    "Thread agents": lambda given: tp.Thread(agents=given),
    "content parts": lambda given: tp.UserMessageAction(content=given),
    "upp.Thread": upp.Thread,
    "upp.Thread.push": lambda given: upp.Thread().push(given),
    "llm": lambda given: upp.llm(model=MODEL).generate_sync(given, "hello"),
    "llm stream": lambda given: list(upp.llm(model=MODEL).stream(given, "hello")),
    "Agent.run_sync": lambda given: turntree.Agent(model=MODEL).run_sync(given, "hello"),
    "Agent.stream": lambda given: list(turntree.Agent(model=MODEL).stream(given, "hello")),
    "ThreadTree": lambda given: turntree.ThreadTree(given),
}


@pytest.mark.parametrize("given", [long, endless])
@pytest.mark.parametrize("entry", ENTRIES)
def test_iterables_without_messages_are_refused_at_the_first_item(entry: str, given: Callable[[], Any]) -> None:
    names_the_item = r"(\w+\[0\]|/0|a chunk).*(must be|expected|no JSON)"
    with pytest.raises((TypeError, ValueError, upp.UPPError), match=names_the_item):
        ENTRIES[entry](given())


def test_numbers_that_no_action_has_are_refused_at_the_first_one() -> None:
    with pytest.raises(ValueError, match="no action has the sequence 0"):
        tp.Thread().redact(long())
