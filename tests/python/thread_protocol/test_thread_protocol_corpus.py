"""Real histories, if they are provided: `TURNTREE_CORPUS` is a folder with `histories/`."""

import os
import warnings
from pathlib import Path

import pytest
from pydantic_ai import __version__ as installed
from pydantic_ai.messages import ModelMessagesTypeAdapter as Adapter

from turntree import thread_protocol as tp

CORPUS = os.environ.get("TURNTREE_CORPUS")
CURRENT = "v2.68.0"  # the version that wrote the current part, and that the canonical part is for

needed = pytest.mark.skipif(
    CORPUS is None,
    reason="NOT TESTED on real histories: TURNTREE_CORPUS is not set",
)


def histories(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in sorted((Path(CORPUS or "") / folder).rglob("*.json"))]
    return [path for path in found if path.name != "index.json"]


@needed
@pytest.mark.timeout(600)
def test_every_history_is_byte_identical_after_a_round_trip() -> None:
    paths = histories("histories", "histories-canonical")
    assert paths, f"there are no histories in {CORPUS}"

    failed = [
        path.name for path in paths if tp.from_pydantic_ai(data := path.read_bytes()).to_pydantic_ai_json() != data
    ]

    print(f"{len(paths)} histories, {len(failed)} not identical")
    assert failed == []


@needed
@pytest.mark.timeout(600)
@pytest.mark.skipif(f"v{installed}" != CURRENT, reason=f"the corpus is for pydantic-ai {CURRENT}")
def test_every_history_is_equal_after_a_round_trip_of_objects() -> None:
    paths = histories("histories-canonical", f"histories/{CURRENT}")
    assert paths, f"there are no current histories in {CORPUS}"
    failed = []

    for path in paths:
        data = path.read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            messages = Adapter.validate_json(data)
            dumped = Adapter.dump_json(messages)
        thread = tp.from_pydantic_ai(dumped)
        if tp.from_pydantic_ai(messages) != thread:
            failed.append(f"{path.name}: walked differently")
        if tp.from_pydantic_ai(data).to_pydantic_ai() != messages:
            failed.append(f"{path.name}: built differently")
        if Adapter.dump_json(thread.to_pydantic_ai()) != Adapter.dump_json(Adapter.validate_json(dumped)):
            failed.append(f"{path.name}: dumps differently")

    print(f"{len(paths)} live histories, {len(failed)} failures")
    assert failed == []
