"""Errors and side effects of the Pydantic AI conversion."""

import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from pydantic_ai import messages as m
from pydantic_ai.messages import ModelMessagesTypeAdapter as Adapter
from thread_protocol_pydantic_ai_support import EXAMPLES, UTC, request, response, returned

import turntree
from turntree import thread_protocol as tp


def test_invalid_options_are_named_in_the_error() -> None:
    with pytest.raises(ValueError, match='profile must be "full" or "portable", not "half"'):
        tp.from_pydantic_ai([], profile="half")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='combine_text must be "adjacent" or "response", not "x"'):
        tp.from_pydantic_ai([], combine_text="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tool_visibility must be"):
        tp.Thread().to_pydantic_ai_json(None, "prefix", "x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="agent"):
        tp.from_pydantic_ai([], agent=object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            None,
            "messages must be a list of ModelMessage, or its JSON as str or bytes, not NoneType",
        ),
        (5, "not int"),
        ({"kind": "request"}, "not dict"),
        (m.ModelRequest(parts=[]), "not ModelRequest"),
        (
            [m.ModelRequest(parts=[]), {"kind": "request"}],
            r"messages\[1\] must be a ModelRequest or a ModelResponse, not dict",
        ),
        (["x"], r"messages\[0\] must be a ModelRequest or a ModelResponse, not str"),
    ],
)
def test_values_that_are_not_histories_are_refused_with_their_location(given: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        tp.from_pydantic_ai(given)


@pytest.mark.parametrize(
    ("text", "kind", "pointer"),
    [
        (b"", "json_truncated", ""),
        (b"{}", "invalid", ""),
        (b"null", "invalid", ""),
        (b"[{}]", "invalid", "/0"),
        (b'[{"kind":"request"}]', "invalid", "/0"),
        (b'[{"kind":"request","parts":[{}]}]', "invalid", "/0/parts/0"),
        (b'[{"kind":"request","parts":[5]}]', "invalid", "/0/parts/0"),
        (b'[{"kind":"request","parts":[', "json_truncated", None),
        (b'[{"kind":"request","parts":[]}', "json_truncated", None),
        (b"[\xff]", "invalid_utf8", ""),
        (b"[" * 100_000, "limit_exceeded", ""),
        (b"[}", "json_invalid", ""),
    ],
)
def test_invalid_json_is_refused_with_its_location(text: bytes, kind: str, pointer: str | None) -> None:
    with pytest.raises(turntree.ValidationError) as caught:
        tp.from_pydantic_ai(text)

    (error,) = caught.value.errors()
    assert error["type"] == kind
    assert pointer is None or error["pointer"] == pointer


def test_values_that_pydantic_cannot_dump_are_refused_with_their_location() -> None:
    good = request(m.UserPromptPart("x", timestamp=UTC))
    for bad in (request(m.UserPromptPart("\ud800", timestamp=UTC)), request(returned(object()))):
        with pytest.raises(turntree.SerializationError, match=r"messages\[1\]: Pydantic cannot dump") as caught:
            tp.from_pydantic_ai([good, bad])
        assert caught.value.__cause__ is not None
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    with pytest.raises(turntree.SerializationError):
        tp.from_pydantic_ai([request(returned(nested))])
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(turntree.SerializationError):
        tp.from_pydantic_ai([request(returned(loop))])


def test_damaged_metadata_is_reported_with_its_location() -> None:
    document = tp.from_pydantic_ai([response(m.TextPart("x"))]).to_dict()
    document["actions"][0]["metadata"]["pydantic_ai"] = {"message": 5}

    with pytest.raises(turntree.ValidationError) as caught:
        tp.Thread.model_validate(document).to_pydantic_ai_json()

    assert caught.value.errors()[0]["pointer"] == "/actions/0/metadata/pydantic_ai"


def test_conversion_does_not_change_the_given_objects() -> None:
    messages = Adapter.validate_json(EXAMPLES[0].read_bytes())
    before = Adapter.dump_json(messages)

    thread = tp.from_pydantic_ai(messages)
    built = thread.to_pydantic_ai()
    built[0].parts = []

    assert Adapter.dump_json(messages) == before
    assert thread.to_pydantic_ai() == messages


def test_conversion_restores_the_state_of_the_garbage_collector() -> None:
    import gc

    thread = tp.from_pydantic_ai(EXAMPLES[0].read_bytes())
    thread.to_pydantic_ai()
    assert gc.isenabled()
    gc.disable()
    try:
        thread.to_pydantic_ai()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_reading_json_lets_other_threads_run() -> None:
    data = b"[" + b",".join([EXAMPLES[0].read_bytes()[1:-1]] * 2000) + b"]"
    ticks = 0
    ticking, done = threading.Event(), threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            ticking.set()
            time.sleep(0.0005)  # the pace of the other thread

    other = threading.Thread(target=tick)
    other.start()
    try:
        assert ticking.wait(10)
        before = ticks
        tp.from_pydantic_ai(data)
        assert ticks > before
    finally:
        done.set()
        other.join()


def test_without_pydantic_ai_the_error_names_the_extra_and_json_still_works() -> None:
    code = """
import sys
sys.modules["pydantic_ai"] = None
sys.modules["pydantic_ai.messages"] = None
from turntree import thread_protocol as tp
data = open(sys.argv[1], "rb").read()
thread = tp.from_pydantic_ai(data)
assert thread.to_pydantic_ai_json() == data
assert "pydantic" not in sys.modules
for call in (thread.to_pydantic_ai, lambda: tp.from_pydantic_ai([object()])):
    try:
        call()
    except ImportError as error:
        assert "turntree[pydantic-ai]" in str(error), error
    else:
        raise SystemExit("no ImportError")
assert len(tp.from_pydantic_ai([])) == 0
"""
    done = subprocess.run([sys.executable, "-c", code, str(EXAMPLES[0])], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
