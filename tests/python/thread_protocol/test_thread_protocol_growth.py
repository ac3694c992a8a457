"""Readers and exporters take linear time: twice the size costs less than 2.3 times.

Each test measures the operations on one shape of data: many messages, many parts, repeated ids, and so on.
`TURNTREE_GROWTH` is the number of elements, by default 300. More elements show smaller quadratic shares.
"""

import gc
import io
import json
import os
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from growth_support import (
    BOUND,
    CHATS,
    CHUNKS,
    HISTORIES,
    THREADS,
    TIME,
    Operation,
    growth,
)
from pydantic_ai.messages import ModelMessagesTypeAdapter as Adapter

from turntree import thread_protocol as tp

# The gate runs the release build. A debug build on a busy machine takes minutes.
pytestmark = pytest.mark.timeout(600)

COUNT = int(os.environ.get("TURNTREE_GROWTH", "300"))

Prepared = Callable[[int], Operation]


@pytest.fixture(scope="module", autouse=True)
def frozen_heap() -> None:
    """Leave what earlier tests have made out of the collections before each measurement."""
    gc.collect()
    gc.freeze()


def first_agent(thread: tp.Thread) -> str:
    return next(iter(thread.agents))


def view(method: str, visibility: str, role: str) -> Callable[[tp.Thread], object]:
    return lambda thread: getattr(thread, method)(first_agent(thread), "prefix", visibility, others_role=role)


def ui(method: str, sdk: int, sidecar: str) -> Callable[[tp.Thread], object]:
    return lambda thread: getattr(thread, method)(sdk, sidecar=sidecar)


# Operations on a thread.
EXPORTS: dict[str, Callable[[tp.Thread], object]] = {
    "validate": lambda thread: thread.validate(),
    "validate strictly": lambda thread: thread.validate(strict=True),
    "canonical_json": lambda thread: thread.canonical_json(),
    "canonical_json for JavaScript": lambda thread: thread.canonical_json(javascript=True),
    "digest": lambda thread: thread.digest(include_times=True),
    "core": lambda thread: thread.core(),
    "with_hoisted_metadata": lambda thread: thread.with_hoisted_metadata(),
    "usage": lambda thread: thread.usage(),
    "merge": lambda thread: thread.merge(thread.branch()),
    "redact": lambda thread: thread.redact(lambda action: True),
    "slice by agent": lambda thread: thread.slice(agent_id=first_agent(thread)),
    "slice by time": lambda thread: thread.slice(since=TIME),
    "==": lambda thread: thread == thread.branch(),
    "model_dump": lambda thread: thread.model_dump(),
    "model_dump_json": lambda thread: thread.model_dump_json(indent=1),
    "to_json": lambda thread: thread.to_json(),
    "actions": lambda thread: list(thread),
    "pydantic_ai_version": tp.pydantic_ai_version,
    "to_upp": lambda thread: thread.to_upp(),
    "to_pydantic_ai": lambda thread: thread.to_pydantic_ai(),
    "to_pydantic_ai_json": lambda thread: thread.to_pydantic_ai_json(),
    "to_pydantic_ai_json for an older version": lambda thread: thread.to_pydantic_ai_json(downgrade="1.x"),
    "to_upp, tools hidden": view("to_upp", "hide", "user"),
    "to_upp, tools shown": view("to_upp", "show", "assistant"),
    "to_pydantic_ai, tools summarized": view("to_pydantic_ai", "summarize", "user"),
    "to_pydantic_ai_json, tools hidden": view("to_pydantic_ai_json", "hide", "assistant"),
    "to_pydantic_ai_json, tools shown": view("to_pydantic_ai_json", "show", "user"),
    "to_ui_messages": ui("to_ui_messages", 6, "portable"),
    "to_ui_messages, full sidecar": ui("to_ui_messages", 7, "full"),
    "to_ui_messages, no sidecar": ui("to_ui_messages", 5, "none"),
    "to_ui_stream": lambda thread: list(thread.to_ui_stream(6)),
    "to_ui_stream_bytes": ui("to_ui_stream_bytes", 6, "portable"),
    "to_ui_stream_bytes, full sidecar": ui("to_ui_stream_bytes", 7, "full"),
    "to_ui_stream_bytes, no sidecar": ui("to_ui_stream_bytes", 5, "none"),
}


def again(messages: list[dict[str, Any]]) -> object:
    """Read messages as the conversation before a stream."""
    return tp.UiStreamReader(messages=messages).messages


def read(chunks: list[dict[str, Any]], looks: int = 0) -> object:
    """Feed chunks, and read the message a number of times in between."""
    reader = tp.UiStreamReader()
    for number, chunk in enumerate(chunks):
        reader.feed(chunk)
        if looks and number % (len(chunks) // looks + 1) == 0:
            _ = reader.message
    return reader.thread()


def body_of(chunks: list[dict[str, Any]]) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)


def on(function: Callable[..., object], data: Any, **options: Any) -> Callable[[], object]:
    return lambda: function(data, **options)


def check(name: str, prepared: dict[str, Prepared]) -> None:
    """Fail for the operations that grow faster than the bound."""
    ratios = {operation: growth(prepare, COUNT) for operation, prepare in prepared.items()}
    steep = {operation: round(ratio, 2) for operation, ratio in ratios.items() if ratio >= BOUND}
    assert not steep, f"{name}: twice the size costs more than {BOUND} times"


def exports_of(make: Callable[[int], tp.Thread]) -> dict[str, Prepared]:
    return {name: lambda n, export=export: on(export, make(n)) for name, export in EXPORTS.items()}


@pytest.mark.parametrize("shape", THREADS)
def test_threads_are_read_and_exported_in_linear_time(shape: str) -> None:
    @cache
    def thread(n: int) -> tp.Thread:
        return tp.Thread.model_validate(THREADS[shape](n))

    def append(document: dict[str, Any]) -> object:
        made = tp.Thread(agents=document["agents"])
        for action in document["actions"]:
            made.append(action)
        return made

    check(
        shape,
        {
            "model_validate": lambda n: on(tp.Thread.model_validate, THREADS[shape](n)),
            "model_validate_json": lambda n: on(tp.Thread.model_validate_json, json.dumps(THREADS[shape](n))),
            "append": lambda n: on(append, THREADS[shape](n)),
            **exports_of(thread),
            "from_upp": lambda n: on(tp.from_upp, thread(n).to_upp()),
            "from_ui_messages": lambda n: on(tp.from_ui_messages, thread(n).to_ui_messages(6)),
            "from_ui_messages, full sidecar": lambda n: on(
                tp.from_ui_messages, json.dumps(thread(n).to_ui_messages(7, sidecar="full")), sidecar="full"
            ),
            "from_ui_stream": lambda n: on(tp.from_ui_stream, thread(n).to_ui_stream_bytes(6)),
            "from_ui_stream, full sidecar": lambda n: on(
                tp.from_ui_stream, thread(n).to_ui_stream_bytes(7, sidecar="full"), sidecar="full"
            ),
        },
    )


@pytest.mark.parametrize("shape", HISTORIES)
def test_histories_are_read_and_exported_in_linear_time(shape: str) -> None:
    def text(n: int) -> str:
        return json.dumps(HISTORIES[shape](n))

    def objects(n: int) -> list[Any]:
        return Adapter.validate_python(HISTORIES[shape](n))

    @cache
    def thread(n: int) -> tp.Thread:
        return tp.from_pydantic_ai(text(n))

    check(
        shape,
        {
            "JSON": lambda n: on(tp.from_pydantic_ai, text(n)),
            "objects": lambda n: on(tp.from_pydantic_ai, objects(n)),
            "portable": lambda n: on(tp.from_pydantic_ai, text(n), profile="portable", usage_actions=True),
            "strict": lambda n: on(
                tp.from_pydantic_ai, text(n), strict=True, combine_text="response", validation_status=True
            ),
            "downgrade": lambda n: on(tp.downgrade_pydantic_ai, text(n), to="1.x"),
            "version": lambda n: on(tp.pydantic_ai_version, text(n)),
            "canonicalize": lambda n: on(tp.canonicalize_pydantic_ai, text(n)),
            **exports_of(thread),
            **{
                f"strict, {name}": lambda n, export=EXPORTS[name]: on(export, tp.from_pydantic_ai(text(n), strict=True))
                for name in ("core", "to_pydantic_ai_json", "to_upp", "redact", "merge")
            },
        },
    )


@pytest.mark.parametrize("shape", CHUNKS)
def test_streams_are_read_in_linear_time(shape: str) -> None:
    chunks = CHUNKS[shape]
    check(
        shape,
        {
            "bytes": lambda n: on(tp.from_ui_stream, body_of(chunks(n))),
            "chunks": lambda n: on(tp.from_ui_stream, chunks(n)),
            "portable": lambda n: on(tp.from_ui_stream, body_of(chunks(n)), profile="portable"),
            "UiStreamReader": lambda n: on(read, chunks(n)),
            "UiStreamReader.message": lambda n: on(read, chunks(n), looks=5),
            "to_ui_messages": lambda n: on(EXPORTS["to_ui_messages"], tp.from_ui_stream(chunks(n))),
            "to_ui_stream_bytes": lambda n: on(EXPORTS["to_ui_stream_bytes"], tp.from_ui_stream(chunks(n))),
        },
    )


@pytest.mark.parametrize("shape", CHATS)
def test_chat_messages_are_read_in_linear_time(shape: str) -> None:
    messages = CHATS[shape]
    check(
        shape,
        {
            "dicts": lambda n: on(tp.from_ui_messages, messages(n)),
            "JSON": lambda n: on(tp.from_ui_messages, json.dumps(messages(n))),
            "portable": lambda n: on(tp.from_ui_messages, json.dumps(messages(n)), profile="portable"),
            "UiStreamReader": lambda n: on(again, messages(n)),
            **{
                name: lambda n, export=EXPORTS[name]: on(export, tp.from_ui_messages(messages(n)))
                for name in ("to_ui_messages", "to_ui_messages, full sidecar", "to_ui_stream_bytes", "core", "redact")
            },
        },
    )


@pytest.mark.parametrize("to", ["thread-protocol", "pydantic-ai", "ui-messages", "ui-stream"])
def test_files_of_many_documents_are_converted_in_linear_time(to: str) -> None:
    def convert(data: bytes) -> object:
        return tp.convert_jsonl(io.BytesIO(data), io.BytesIO(), from_="pydantic-ai", to=to, jobs=1)

    def lines(n: int) -> bytes:
        return b"\n".join([json.dumps(HISTORIES["many messages"](2)).encode()] * n)

    def one(n: int) -> bytes:
        return json.dumps(HISTORIES["many calls"](n)).encode()

    check(to, {"many documents": lambda n: on(convert, lines(n)), "one document": lambda n: on(convert, one(n))})
