"""Invalid and unusual streams: the reader fails where the real client fails and assembles the same message.

The streams are random: most chunks fit the chunks before them, and the framing uses every form that a client reads.
"""

import base64
import json
import random
from typing import Any

import pytest
from test_ui_real_client import Client, client, plain  # noqa: F401  # pyright: ignore[reportUnusedImport]

import turntree
from turntree import thread_protocol as tp

VALUES: list[Any] = [
    1, 1.5, "x", None, {}, [], {"a": {"b": [1, None]}}, True, "", {"constructor": 1}, {"prototype": {"x": 1}},
    {"toString": 1, "length": 2, "hasOwnProperty": 3},
]  # fmt: skip
METADATA: list[Any] = [
    {"a": {"b": 1}}, {"a": {"c": [1]}}, {"a": 1}, {"prototype": {"x": 1}}, {"constructor": {"y": 1}}, {"a": None},
    None, "s👍", 5, [1, {"a": 2}], False,
]  # fmt: skip
PROVIDERS = [{"p": {"k": 1}}, {"p": {}}, {"constructor": {"k": 1}}, {"__proto__x": {"a": 1}}]
PIECES = [
    '{"a"', ":1", "}", '{"x":"', 'é"', "[1,", "tru", '"', "", " ", '{"__proto__":{"a":1}}', "nul", "1e5", "-", "\\",
    '{"a":1,"a":2}', "\\u12", "1e400",
]  # fmt: skip
NAMES = ["x", "__proto__", "constructor", "prototype", "toString", "a-b", ""]
BLOCK = {"id": ["1", "2"]}
CALL = {"toolCallId": ["a", "b"]}
TOOL = {"toolName": ["t", "u", "__proto__", "constructor"]}
# The required and the optional members of each kind of chunk.
KINDS: dict[str, tuple[dict[str, list[Any]], dict[str, list[Any]]]] = {
    "start": ({}, {"messageId": ["m", "n"], "messageMetadata": METADATA}),
    "finish": ({}, {"finishReason": ["stop", "length", "error", "other"], "messageMetadata": METADATA}),
    "message-metadata": ({"messageMetadata": METADATA}, {}),
    "start-step": ({}, {}),
    "finish-step": ({}, {}),
    "reset-step": ({}, {}),
    "error": ({"errorText": ["e"]}, {}),
    "abort": ({}, {"reason": ["why"]}),
    "text-start": (BLOCK, {"providerMetadata": PROVIDERS}),
    "text-delta": ({**BLOCK, "delta": ["a", "", "é👍", "\u2028", "\\"]}, {"providerMetadata": PROVIDERS}),
    "text-end": (BLOCK, {"providerMetadata": PROVIDERS}),
    "reasoning-start": (BLOCK, {"providerMetadata": PROVIDERS}),
    "reasoning-delta": ({**BLOCK, "delta": ["hm"]}, {"providerMetadata": PROVIDERS}),
    "reasoning-end": (BLOCK, {"providerMetadata": PROVIDERS}),
    "tool-input-start": ({**CALL, **TOOL}, {"inputEncoding": ["json", "text"], "title": ["T"]}),
    "tool-input-delta": ({**CALL, "inputTextDelta": PIECES}, {}),
    "tool-input-available": ({**CALL, **TOOL, "input": VALUES}, {"title": ["T"], "providerMetadata": PROVIDERS}),
    "tool-input-error": ({**CALL, **TOOL, "input": VALUES, "errorText": ["bad"]}, {"providerMetadata": PROVIDERS}),
    "tool-output-available": (
        {**CALL, "output": VALUES},
        {"preliminary": [True, False], "providerMetadata": PROVIDERS},
    ),
    "tool-output-error": ({**CALL, "errorText": ["no"]}, {"providerMetadata": PROVIDERS}),
    "tool-output-denied": (CALL, {}),
    "tool-approval-request": ({**CALL, "approvalId": ["p", "q"]}, {"isAutomatic": [True, False], "reason": ["r"]}),
    "tool-approval-response": ({"approvalId": ["p", "q"], "approved": [True, False]}, {"reason": ["r"]}),
    "source-url": ({"sourceId": ["s"], "url": ["u"]}, {"title": ["T"]}),
    "source-document": ({"sourceId": ["s"], "mediaType": ["a/b"], "title": ["t"]}, {"filename": ["f"]}),
    "file": ({"url": ["https://x.org"], "mediaType": ["a/b"]}, {"providerMetadata": PROVIDERS}),
    "reasoning-file": ({"url": ["https://x.org"], "mediaType": ["a/b"]}, {}),
    "custom": ({"kind": ["a.b"]}, {"providerMetadata": PROVIDERS}),
    "steering-message": ({"id": ["s"], "parts": [[{"type": "text", "text": "x"}]]}, {}),
    "data-": ({"data": VALUES}, {"id": ["1", "2"], "transient": [True, False]}),
}
OF_TOOLS: dict[str, list[Any]] = {
    "dynamic": [True, False], "providerExecuted": [True, False], "toolMetadata": [{"m": 1}, {}],
}  # fmt: skip
# Members of any kind, which are also inserted into chunks of other kinds.
STRAYS = {
    name: values for both in [*KINDS.values(), (OF_TOOLS,)] for members in both for name, values in members.items()
}


def chunk(rng: random.Random, kind: str) -> dict[str, Any]:
    must, may = KINDS[kind]
    made = {"type": f"data-{rng.choice(NAMES)}" if kind == "data-" else kind}
    made |= {name: rng.choice(values) for name, values in must.items()}
    if kind.startswith(("tool-input", "tool-output")) and kind not in ("tool-input-delta", "tool-output-denied"):
        may = may | OF_TOOLS
    made |= {name: rng.choice(values) for name, values in may.items() if rng.random() < 0.25}
    if rng.random() < 0.05:
        made["later"] = rng.choice(VALUES)
    if rng.random() < 0.1:
        stray = rng.choice(list(STRAYS))
        made.setdefault(stray, rng.choice(STRAYS[stray]))
    return made


def stream(rng: random.Random) -> list[dict[str, Any]]:
    """Chunks; 19 of 20 fit the chunks before them."""
    # `useChat` keeps parts before the first id of a message, `readUIMessageStream` drops them.
    named = rng.random() < 0.7
    made: list[dict[str, Any]] = [{"type": "start", "messageId": "m"}] if named else []
    known: set[tuple[str, str]] = set()
    for kind in rng.choices(list(KINDS), k=rng.randint(1, 30)):
        new = chunk(rng, kind)
        if kind == "start" and not named:
            new.pop("messageId", None)
        what, _, piece = kind.partition("-")
        is_block = what in ("text", "reasoning") and piece in ("start", "delta", "end")
        if is_block:
            needs = () if piece == "start" else (what, new["id"])
        elif kind == "tool-approval-response":
            needs = ("approval", new["approvalId"])
        elif kind == "tool-input-delta":
            needs = ("input", new["toolCallId"])
        elif kind.startswith("tool-output") or kind == "tool-approval-request":
            needs = ("call", new["toolCallId"])
        else:
            needs = ()
        if needs and needs not in known and rng.random() < 0.95:
            continue
        made.append(new)
        if is_block:
            (known.discard if piece == "end" else known.add)((what, new["id"]))
        elif kind.startswith("tool-input") and kind != "tool-input-delta":
            known.add(("call", new["toolCallId"]))
            (known.add if kind == "tool-input-start" else known.discard)(("input", new["toolCallId"]))
        elif kind == "tool-approval-request":
            known.add(("approval", new["approvalId"]))
        elif kind == "reset-step":
            known.clear()
    return made


def body(rng: random.Random, chunks: list[dict[str, Any]]) -> bytes:
    """The chunks as server-sent events in random valid framing; sometimes the last one is truncated."""
    line = rng.choice(["\n", "\n", "\r\n", "\r"])
    out = rng.choice(["", "", "\ufeff"])
    for made in chunks:
        text = json.dumps(made, ensure_ascii=rng.random() < 0.5)
        out += rng.choice(["", "", f":x{line}{line}", f"event: y{line}id: 1{line}", f"data: [DONE]{line}{line}"])
        if ", " in text and rng.random() < 0.1:
            text = text.replace(", ", f",{line}data:", 1)
        out += f"{rng.choice(['data: ', 'data:'])}{text}{line}{line}"
    if line == "\r":  # at the end it could be the start of CRLF
        out += "\n:end\n\n"
    elif rng.random() < 0.1:
        out = out.removesuffix(line)
    return out.encode()


def broken(rng: random.Random, chunks: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """The chunks with one invalid chunk, and its index."""
    place = rng.randrange(len(chunks))
    new = dict(chunks[place])
    name = rng.choice(list(new))
    how = rng.choice(["gone", "null", "wrong", "unknown"])
    if how == "gone":
        del new[name]
    elif how == "unknown":
        new["type"] = rng.choice(["tool-call", "text", "data", "finish-message", "__proto__", "toString", ""])
    else:
        new[name] = None if how == "null" else rng.choice([7, [], {}, True, "str"])
    return [*chunks[:place], new, *chunks[place + 1 :]], place


def read(sent: bytes, size: int) -> tuple[Any, str | None]:
    """The message that the reader assembles from a body in pieces, and its error."""
    reader = tp.UiStreamReader()
    try:
        for start in range(0, len(sent), size):
            reader.feed(sent[start : start + size])
    except turntree.ValidationError as error:
        return shape(reader.message), str(error)
    return shape(reader.message), None


def shape(message: Any) -> Any:
    """The message without allowed differences: empty steps, which clients show together with the next part, and lone
    surrogates, which exist only in JavaScript."""
    if message is None:
        return None
    text = json.dumps(message, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    message = json.loads(text)
    parts = list(message["parts"])
    while parts and parts[-1]["type"] == "step-start":
        parts.pop()
    if not parts and not message.get("metadata") and not message["id"]:
        return None
    return plain({**message, "parts": parts})


def asked(client: Client, sent: bytes, chunks: list[dict[str, Any]]) -> tuple[Any, list[str]]:  # noqa: F811
    """The message that the real client assembles from a body, and its errors."""
    answer = client.ask(do="read", sdk=7, bytes=base64.b64encode(sent).decode())
    told = [made.get("errorText") for made in chunks if made.get("type") == "error"]
    return shape(answer["message"]), [error for error in answer["errors"] if error not in told]


@pytest.mark.parametrize("seed", range(12))
def test_reader_and_client_fail_at_the_same_chunk(client: Client, seed: int) -> None:  # noqa: F811
    for number in range(50):
        rng = random.Random(f"{seed}-{number}")
        chunks = stream(rng)
        sent = body(rng, chunks)

        theirs, ended = asked(client, sent, chunks)
        ours, error = read(sent, rng.choice([1, 3, 17, 10_000]))

        where = f"seed {seed}-{number}: {ended} and {error}\n{sent!r}"
        assert (error is None) == (not ended), where
        assert ours == theirs, where


@pytest.mark.parametrize("seed", range(12))
def test_the_reader_is_more_lenient_than_the_client_only_at_schema_errors(client: Client, seed: int) -> None:  # noqa: F811
    for number in range(50):
        rng = random.Random(f"{seed}-{number}")
        chunks, place = broken(rng, stream(rng) or [{"type": "start"}])
        sent = body(random.Random(0), chunks)

        theirs, ended = asked(client, sent, chunks)
        ours, error = read(sent, 100)

        where = f"seed {seed}-{number}: {ended} and {error}\n{sent!r}"
        if ended and ended[0].startswith("Type validation failed"):
            # The client failed before the broken chunk; the reader may have continued.
            before = b"".join(b"data: " + json.dumps(made).encode() + b"\n\n" for made in chunks[:place])
            ours, error = read(before, 100)
            assert error is None, where
        else:
            assert (error is None) == (not ended), where
        assert ours == theirs, where


def begins(**more: Any) -> dict[str, Any]:
    return {"type": "tool-input-start", "toolCallId": "c", "toolName": "t", **more}


def grows(piece: str) -> dict[str, Any]:
    return {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": piece}


STEP, RESET = {"type": "start-step"}, {"type": "reset-step"}
FILE = {"url": "https://x.org", "mediaType": "a/b"}
# Streams that an earlier reader read differently from the client.
CASES: dict[str, list[dict[str, Any]]] = {
    "an argument delta of a dynamic tool in a later step adds no text": [
        begins(dynamic=True),
        grows('{"a"'),
        STEP,
        grows(": 1"),
    ],
    "the second argument delta in a later step adds text": [
        begins(dynamic=True),
        grows('{"a"'),
        STEP,
        grows(": 1"),
        grows("}"),
    ],
    "an argument delta of a static tool in a later step": [begins(), grows('{"a"'), STEP, grows(": 1")],
    "arguments in the step before a reset step": [begins(), grows('{"a": "b'), STEP, RESET],
    "a file part has no name": [{"type": "file", **FILE, "filename": "f", "title": "T", "sourceId": "s"}],
    "a source part has no file members": [{"type": "source-url", "sourceId": "s", **FILE, "kind": "a.b"}],
    "a data part has only its data": [{"type": "data-x", "data": 1, "title": "T", "delta": "d", "approved": True}],
    "only text parts have citations": [
        {"type": "reasoning-start", "id": "1"},
        {"type": "reasoning-end", "id": "1", "citations": []},
    ],
    "a number outside the double range": [begins(), grows('{"a": [1e400, -1e400')],
}


@pytest.mark.parametrize("case", CASES)
def test_unusual_streams_are_read_as_the_client_reads_them(client: Client, case: str) -> None:  # noqa: F811
    chunks = [{"type": "start", "messageId": "m"}, *CASES[case]]
    sent = b"".join(b"data: " + json.dumps(made).encode() + b"\n\n" for made in chunks)

    theirs, ended = asked(client, sent, chunks)

    assert ended == []
    for size in (1, 1000):
        assert read(sent, size) == (theirs, None)


def test_a_message_continues_as_in_the_client(client: Client) -> None:  # noqa: F811
    question = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    tried = 0
    for number in range(150):
        rng = random.Random(f"prior-{number}")
        first = client.ask(do="read", sdk=7, bytes=base64.b64encode(body(rng, stream(rng))).decode())["message"]
        if not first or not first["id"]:
            continue
        prior, chunks = [question, first], stream(rng)
        sent = body(rng, chunks)
        answer = client.ask(do="read", sdk=7, bytes=base64.b64encode(sent).decode(), prior=prior)
        reader = tp.UiStreamReader(messages=prior)
        ended = None
        try:
            reader.feed(sent)
        except turntree.ValidationError as error:
            ended = str(error)

        told = [made.get("errorText") for made in chunks if made.get("type") == "error"]
        where = f"prior-{number}: {answer['errors']} and {ended}\n{sent!r}"
        assert (ended is None) == (not [error for error in answer["errors"] if error not in told]), where
        if answer["message"]:  # the client returns no message before the first change
            tried += 1
            assert shape(reader.message) == shape(answer["message"]), where
    assert tried > 80


@pytest.mark.parametrize("dynamic", [True, False])
def test_unfinished_arguments_of_a_message_continue_in_the_stream(client: Client, dynamic: bool) -> None:  # noqa: F811
    name = {"type": "dynamic-tool", "toolName": "t"} if dynamic else {"type": "tool-t"}
    begun = {**name, "toolCallId": "c", "state": "input-streaming", "input": {"a": 1}, "rawInput": '{"a": 1'}
    prior = [
        {"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]},
        {"id": "m", "role": "assistant", "parts": [{"type": "step-start"}, begun]},
    ]
    sent = b"data: " + json.dumps(grows("2}")).encode() + b"\n\n"
    reader = tp.UiStreamReader(messages=prior)
    reader.feed(sent)

    answer = client.ask(do="read", sdk=7, bytes=base64.b64encode(sent).decode(), prior=prior)

    assert reader.message == answer["message"]
    assert answer["message"]["parts"][1]["input"] == {"a": 12}


@pytest.mark.parametrize(
    "piece",
    [b"\xff", b"\xc3", b"\xf0\x9f\x91", b"\xed\xa0\x80", b"\xc0\xaf", b"\\ud83d", b"\\udc4d", b"\\ud83d\\ud83d\\udc4d"],
)
def test_invalid_utf8_is_read_as_the_client_reads_it(client: Client, piece: bytes) -> None:  # noqa: F811
    frames = [
        b'data: {"type":"start","messageId":"m"}\n\n',
        b'data: {"type":"text-start","id":"1"}\n\n',
        b'data: {"type":"text-delta","id":"1","delta":"a' + piece + b'b"}\n\n',
        b'data: {"type":"text-end","id":"1"}\n\n',
    ]

    theirs, ended = asked(client, b"".join(frames), [])

    for size in (1, 2, 1000):
        ours, error = read(b"".join(frames), size)
        assert (error, ended) == (None, [])
        assert ours == theirs


def test_huge_chunks_are_read_as_the_client_reads_them(client: Client) -> None:  # noqa: F811
    huge = "é" * 3_000_000
    chunks: list[dict[str, Any]] = [{"type": "start", "messageId": "m"}, {"type": "text-start", "id": "1"}]
    chunks += [{"type": "text-delta", "id": "1", "delta": huge}] * 2
    sent = b"".join(b"data: " + json.dumps(made, ensure_ascii=False).encode() + b"\n\n" for made in chunks)

    assert read(sent, 65_537) == (asked(client, sent, [])[0], None)
