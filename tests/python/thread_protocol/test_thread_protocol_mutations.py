"""Every change is detected: swapped actions, a dropped action, a changed digit, in fixtures and real histories."""

import copy
import os
from collections.abc import Iterable, Iterator
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest

from turntree import ValidationError
from turntree import thread_protocol as tp

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = [
    *sorted((ROOT / "tests/data/thread_protocol/pydantic_ai").glob("*.json")),
    *sorted((ROOT / "examples/data").glob("*.json")),
]
CORPUS = os.environ.get("TURNTREE_CORPUS")

# The number of locations that are changed in each history of the corpus.
SAMPLED = 5


def identity(thread: tp.Thread) -> Any:
    """The digest that distinguishes two threads: with times, or without them if a time has no offset."""
    try:
        return thread.digest(include_times=True)
    except ValidationError:
        agents = [agent.created_at for agent in thread.agents.values()]
        times = [action.timestamp for action in thread]
        return thread.digest(), thread.created_at, thread.updated_at, agents, times


def undetected(thread: tp.Thread, mutations: Iterable[tuple[Any, tp.Thread]]) -> list[Any]:
    """The mutations that neither the digest nor validation detects."""
    before = identity(thread)
    return [how for how, mutated in mutations if identity(mutated) == before and not is_detected(thread, mutated)]


def is_detected(thread: tp.Thread, mutated: tp.Thread) -> bool:
    """Whether validation detects a change, or reports a value that canonical bytes omit.

    Canonical bytes replace a decreasing time by the previous one, and a number by its nearest double.
    """
    known = {(issue.rule, issue.pointer) for issue in thread.validate()}
    found = mutated.validate(strict=True)
    new = {(issue.rule, issue.pointer) for issue in mutated.validate()} - known
    return bool(new) or any(issue.rule in {"chronology", "number"} for issue in found)


def read(document: dict[str, Any]) -> tp.Thread:
    return tp.Thread.model_validate(document)


def numbered(document: dict[str, Any]) -> dict[str, Any]:
    """The same document with new sequence numbers, which hide a change."""
    for place, action in enumerate(document["actions"]):
        action["sequence"] = place + 1
    return document


def is_distinguished(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return {**one, "sequence": 0} != {**other, "sequence": 0}


def swaps(document: dict[str, Any], pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[Any, tp.Thread]]:
    for one, other in pairs:
        actions = document["actions"]
        mutated = copy.deepcopy(document)
        mutated["actions"][one], mutated["actions"][other] = (
            copy.deepcopy(actions[other]),
            copy.deepcopy(actions[one]),
        )
        yield ("swap", one, other), read(mutated)
        if is_distinguished(actions[one], actions[other]):
            yield ("swap and number", one, other), read(numbered(mutated))


def drops(document: dict[str, Any], places: Iterable[int]) -> Iterator[tuple[Any, tp.Thread]]:
    for place in places:
        mutated = copy.deepcopy(document)
        del mutated["actions"][place]
        if place < len(mutated["actions"]):
            yield ("drop", place), read(mutated)
        yield ("drop and number", place), read(numbered(mutated))


def digits(text: str, step: int) -> Iterator[tuple[Any, tp.Thread]]:
    found = [place for place, character in enumerate(text) if character in "0123456789"]
    for place in found[::step]:
        changed = text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]
        try:
            yield ("digit", text[max(0, place - 30) : place + 9]), tp.Thread.model_validate_json(changed)
        except ValueError:  # no longer a thread
            continue


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
@pytest.mark.parametrize("profile", ["full", "portable"])
def test_the_digest_detects_every_mutation_of_a_fixture(path: Path, profile: Any) -> None:
    thread = tp.from_pydantic_ai(path.read_bytes(), profile=profile)
    document = thread.to_dict()
    count = len(thread)

    mutations = chain(
        swaps(document, combinations(range(count), 2)),
        drops(document, range(count)),
        digits(thread.to_json(), 1),
    )

    assert undetected(thread, mutations) == []


@pytest.mark.skipif(CORPUS is None, reason="NOT TESTED on real histories: TURNTREE_CORPUS is not set")
@pytest.mark.timeout(900)
def test_the_digest_detects_every_mutation_of_a_real_history() -> None:
    missed, tried = [], 0
    for number, path in enumerate(sorted((Path(CORPUS or "") / "histories").rglob("*/*.json"))):
        thread = tp.from_pydantic_ai(path.read_bytes())
        document, count, text = thread.to_dict(), len(thread), thread.to_json()
        if not count or len(text) > 100_000:
            continue
        # Each history is changed at other locations, so that together they cover all locations.
        place = number % count
        mutations = [
            *swaps(document, [(place, other) for other in range(count) if other != place][:SAMPLED]),
            *drops(document, {place, count - 1 - place}),
            *digits(text, 1 + sum(map(str.isdigit, text)) // SAMPLED),
        ]
        tried += len(mutations)
        missed += [(path.name, how) for how in undetected(thread, mutations)]

    print(f"{tried} mutations of real histories, {len(missed)} undetected")
    assert missed == []
