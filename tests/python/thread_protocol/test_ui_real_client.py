"""The real client and server of the Vercel AI SDK, majors 5, 6 and 7, read and write the same streams as turntree.

The packages are those of ``tests/node/package-lock.json``; ``make test`` installs them. Without Node.js or the packages
the tests are skipped and name the reason; with CI=1 or TURNTREE_REQUIRE_NODE=1 that is a failure.
"""

import json
import os
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_ui_response import ALIVE, agent_that, body_of, wants
from test_ui_stream import ASKED, ROWS, STEP

from turntree import ValidationError
from turntree import thread_protocol as tp

HERE = Path(__file__).resolve().parents[2] / "node"
CORPUS = os.environ.get("TURNTREE_CORPUS")
REQUIRED = any(os.environ.get(name, "") not in ("", "0") for name in ("CI", "TURNTREE_REQUIRE_NODE"))

needs_corpus = pytest.mark.skipif(CORPUS is None, reason="NOT TESTED on real streams: TURNTREE_CORPUS is not set")


class Client:
    """The process that runs the real package.

    The tests use a socket: on a pipe the first bytes of one of about 40 000 answers were missing. The answer depends
    only on the question, so after an answer that is not JSON the question goes to a new process; a second invalid
    answer in one module is a failure.
    """

    def __init__(self) -> None:
        self.garbled: list[bytes] = []
        self.start()

    def start(self) -> None:
        self.socket, end = socket.socketpair()
        with end:
            self.process = subprocess.Popen(["node", "client.mjs"], cwd=HERE, stdin=end, stdout=end)
        self.stream = self.socket.makefile("rwb")

    def exchange(self, request: dict[str, Any]) -> bytes:
        self.stream.write(json.dumps(request).encode() + b"\n")
        self.stream.flush()
        line = self.stream.readline()
        assert line, "the Node.js process ended"
        return line

    def ask(self, **request: Any) -> dict[str, Any]:
        line = self.exchange(request)
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            self.garbled.append(line[:200])
            self.close()
            self.start()
            answer = json.loads(self.exchange(request))
        return answer

    def close(self) -> None:
        self.stream.close()
        self.socket.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def missing() -> str | None:
    """The missing dependency and the command that installs it; None if nothing is missing."""
    if shutil.which("node") is None:
        return "node is not installed (Debian: apt-get install nodejs npm)"
    if not (HERE / "node_modules" / "ai7").is_dir():
        return "the packages are not installed (make node, or: cd tests/node && npm ci)"
    return None


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    reason = missing()
    if reason is not None:
        message = f"NOT TESTED against the real Vercel AI SDK: {reason}"
        if REQUIRED:
            pytest.fail(message)
        pytest.skip(message)
    client = Client()
    yield client
    client.close()
    assert len(client.garbled) <= 1, client.garbled


def plain(value: Any) -> Any:
    """The value as in JavaScript: all numbers are doubles."""
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, list):
        return [plain(member) for member in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return value


def accepted(client: Client, thread: tp.Thread, sdk: Any) -> None:
    """The client accepts stream and messages of a thread, and its messages give an equal thread."""
    body = thread.to_ui_stream_bytes(sdk)
    answer = client.ask(do="read", sdk=sdk, body=body.decode())
    reader = tp.UiStreamReader()
    reader.feed(body)
    told = [action.data["error_text"] for action in list(thread)[-1:] if action.action_type == "system.tp.error"]
    assert answer["errors"] == told
    assert plain(answer["message"]) == plain(reader.message)
    if answer["message"]["parts"]:
        assert client.ask(do="validate", sdk=sdk, messages=[answer["message"]])["errors"] == []
    assert tp.from_ui_messages([answer["message"]]).canonical_json(javascript=True) == thread.canonical_json(
        javascript=True
    )
    messages = thread.to_ui_messages(sdk)
    assert client.ask(do="validate", sdk=sdk, messages=messages)["errors"] == []
    back = json.loads(json.dumps(messages))
    assert tp.from_ui_messages(back).canonical_json(javascript=True) == thread.canonical_json(javascript=True)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("sdk", [5, 6, 7])
def test_the_client_accepts_every_row_of_the_mapping(client: Client, row: str, sdk: Any) -> None:
    thread = tp.from_ui_stream([*STEP, *ROWS[row][0]], profile="portable")
    if not len(thread):
        assert client.ask(do="read", sdk=sdk, body=thread.to_ui_stream_bytes(sdk).decode())["errors"] == []
        return

    accepted(client, thread, sdk)


@pytest.mark.parametrize("thread", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("sdk", [5, 6, 7])
def test_the_client_accepts_attachments(client: Client, thread: tp.Thread, sdk: Any) -> None:
    accepted(client, thread, sdk)


@pytest.mark.parametrize("sdk", [5, 6, 7])
async def test_the_client_accepts_the_stream_of_a_run(client: Client, sdk: int) -> None:
    agent = agent_that(wants("weather"), wants("broken"), "18 degrees")
    body = await body_of(tp.ui_response(agent.stream("hi"), message_id="m", metadata={"k": 1}))

    answer = client.ask(do="read", sdk=sdk, body=body.decode())

    assert answer["errors"] == []
    reader = tp.UiStreamReader()
    reader.feed(body)
    assert answer["message"] == reader.message
    assert client.ask(do="validate", sdk=sdk, messages=[answer["message"]])["errors"] == []
    assert [part["type"] for part in answer["message"]["parts"]] == [
        "step-start", "tool-weather", "step-start", "tool-broken", "step-start", "text",
    ]  # fmt: skip


@pytest.mark.parametrize("sdk", [5, 6, 7])
async def test_the_client_ignores_keep_alive_comments(client: Client, sdk: int) -> None:
    frames = [frame async for frame in tp.ui_response(agent_that(wants("weather"), "18 degrees").stream("hi"))]

    plain = client.ask(do="read", sdk=sdk, body=b"".join(frames).decode())
    kept = client.ask(do="read", sdk=sdk, body=(ALIVE + ALIVE.join(frames) + ALIVE).decode())

    assert kept == plain
    assert kept["errors"] == []


@pytest.mark.parametrize("sdk", [5, 6, 7])
async def test_the_client_receives_an_error(client: Client, sdk: int) -> None:
    agent = agent_that(wants("weather"), RuntimeError("secret"))
    body = await body_of(tp.ui_response(agent.stream("hi")))

    answer = client.ask(do="read", sdk=sdk, body=body.decode())

    assert answer["errors"] == ["An error occurred."]
    assert answer["message"]["parts"][1]["state"] == "output-available"


def usage(sdk: int) -> dict[str, Any]:
    if sdk == 5:
        return {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    return {"inputTokens": {"total": 1}, "outputTokens": {"total": 1}}


def turn(sdk: int, parts: list[dict[str, Any]], reason: str) -> list[dict[str, Any]]:
    finish: Any = reason if sdk == 5 else {"unified": reason, "raw": reason}
    start = {"type": "stream-start", "warnings": []}
    return [start, *parts, {"type": "finish", "finishReason": finish, "usage": usage(sdk)}]


def spoken(kind: str, words: str) -> list[dict[str, Any]]:
    return [
        {"type": f"{kind}-start", "id": "1"},
        {"type": f"{kind}-delta", "id": "1", "delta": words},
        {"type": f"{kind}-end", "id": "1"},
    ]


@pytest.mark.parametrize("sdk", [5, 6, 7])
def test_the_reader_accepts_streams_of_the_ai_sdk_server(client: Client, sdk: int) -> None:
    def calls(call_id: str, name: str, arguments: str) -> dict[str, Any]:
        return {"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": arguments}

    turns = [
        turn(sdk, [*spoken("reasoning", "hm"), calls("c1", "weather", '{"city":"Łódź"}')], "tool-calls"),
        turn(sdk, [calls("c2", "broken", '{"city":"x"}'), calls("c3", "weather", '{"no":1')], "tool-calls"),
        turn(sdk, spoken("text", "18 degrees"), "stop"),
    ]
    body = client.ask(do="serve", sdk=sdk, turns=turns, prompt="hi")["body"]
    message = client.ask(do="read", sdk=sdk, body=body)["message"]

    reader = tp.UiStreamReader()
    reader.feed(body)
    thread = reader.thread()

    if sdk < 7:  # older majors store a refused input in another member
        refused = message["parts"][-3]
        refused["input"] = refused.pop("rawInput")
    assert reader.message == message
    assert thread.to_ui_messages() == [message]
    kinds = [action.action_type for action in thread]
    assert kinds == ["thinking", "tool_call", "tool_return", "tool_call", "tool_call", "tool_return", "tool_return",
                     "assistant_message"]  # fmt: skip
    assert [action.status for action in thread if action.action_type == "tool_return"] == ["success", "error", "error"]
    assert list(thread)[-1].finish_reason == "stop"


@needs_corpus
@pytest.mark.timeout(600)
def test_the_client_accepts_every_thread_of_real_streams(client: Client) -> None:
    counts: Counter[str] = Counter()
    failures = []
    for path in sorted(Path(CORPUS or "", "ui-streams").glob("*/*.chunks.jsonl")):
        facts = json.loads(path.with_name(path.name.replace(".chunks.jsonl", ".json")).read_text(encoding="utf-8"))
        chunks = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        prior = facts.get("prior_messages") or None
        thread = tp.from_ui_stream(chunks, messages=prior, profile="portable", errors="stop")
        if not len(thread):
            continue
        for sdk in (5, 6, 7):
            counts["streams"] += 1
            try:
                accepted(client, thread, sdk)
            except AssertionError as error:
                failures.append(f"{path.parent.name}/{path.name} {sdk}: {str(error)[:400]}")

    print(f"{counts['streams']} streams sent, {len(failures)} not taken")
    assert failures == []


def kinds(thread: tp.Thread) -> set[str]:
    return {action.action_type for action in thread}


def table(counts: dict[str, list[int]]) -> str:
    """The number of sent threads by kind of action, and the threads that changed in the round trip."""
    rows = [f"{kind:42} {sent:6} {failed:6}" for kind, (sent, failed) in sorted(counts.items())]
    return "\n".join([f"{'action':42} {'sent':>6} {'failed':>6}", *rows])


def spelling(thread: tp.Thread) -> bytes | str:
    """The canonical bytes; the digest without times if a time has no offset. Both in the form of JavaScript clients."""
    try:
        return thread.canonical_json(javascript=True)
    except ValidationError as error:
        if any(issue["type"] != "timestamp" for issue in error.errors()):
            raise
        return thread.digest(javascript=True)


def problems(client: Client, thread: tp.Thread, sdk: Any, sidecar: Any) -> list[str]:
    """The errors of a client for a thread, and whether its message restores the thread byte for byte."""
    wanted = thread if sidecar == "full" else thread.core()
    answer = client.ask(do="read", sdk=sdk, body=thread.to_ui_stream_bytes(sdk, sidecar=sidecar).decode())
    found: list[str] = answer["errors"]
    if spelling(tp.from_ui_messages([answer["message"]], sidecar=sidecar)) != spelling(wanted):
        found.append("the stream does not restore the thread")
    return found


def every(paths: list[Path], client: Client) -> tuple[dict[str, list[int]], list[str]]:
    counts: dict[str, list[int]] = {}
    failures = []
    for path in paths:
        thread = tp.from_pydantic_ai(path.read_bytes())
        for sidecar in ("full", "portable"):
            for sdk in (5, 6, 7):
                found = problems(client, thread, sdk, sidecar)
                failures += [f"{path.name} {sdk} {sidecar}: {found[0][:300]}"] if found else []
                for kind in kinds(thread):
                    row = counts.setdefault(kind, [0, 0])
                    row[0] += 1
                    row[1] += bool(found)
    print(table(counts))
    return counts, failures


@needs_corpus
@pytest.mark.timeout(600)
def test_every_run_of_pydantic_ai_is_byte_identical_after_the_client(client: Client) -> None:
    paths = sorted(Path(CORPUS or "", "ui-streams", "pai").glob("*.pai_messages.json"))

    _, failures = every(paths, client)

    print(f"{len(paths)} runs, {len(failures)} failures")
    assert paths
    assert failures == []


@needs_corpus
@pytest.mark.timeout(1200)
def test_every_history_is_byte_identical_after_the_client(client: Client) -> None:
    found = Path(CORPUS or "", "histories").rglob("*.json")
    paths = sorted(path for path in found if path.name != "index.json")

    _, failures = every(paths, client)

    print(f"{len(paths)} histories, {len(failures)} failures")
    assert paths
    assert failures == []


@needs_corpus
@pytest.mark.timeout(600)
def test_the_client_accepts_every_history(client: Client) -> None:
    paths = sorted(Path(CORPUS or "", "histories").rglob("*.json"))
    failures, count = [], 0
    for path in paths:
        if path.name == "index.json":
            continue
        thread = tp.from_pydantic_ai(path.read_bytes())
        for sdk in (6, 7):
            count += 1
            answer = client.ask(do="read", sdk=sdk, body=thread.to_ui_stream_bytes(sdk).decode())
            messages = thread.to_ui_messages(sdk)
            problems = answer["errors"]
            if messages:
                # Some histories contain placeholders instead of URLs; the conversion for a model would refuse them.
                problems += client.ask(do="validate", sdk=sdk, messages=messages, convert=False)["errors"]
            full = tp.from_ui_messages(thread.to_ui_messages(sdk, sidecar="full"), sidecar="full")
            if len(thread) and full != thread:
                problems.append("the full sidecar does not restore the thread")
            if problems:
                failures.append(f"{path.name} {sdk}: {problems[0][:300]}")

    print(f"{count} histories sent, {len(failures)} not taken")
    assert failures == []


def tool_part(state: str, dynamic: bool, **members: Any) -> dict[str, Any]:
    named = {"type": "dynamic-tool", "toolName": "t"} if dynamic else {"type": "tool-t"}
    return {**named, "toolCallId": f"c-{state}-{dynamic}", "state": state, "input": {"a": "input"}, **members}


# Parts of major 7, and parts that lenient readers accept.
PARTS_OF_7: list[dict[str, Any]] = [
    {"type": "text", "text": "text", "citations": []},
    {"type": "custom", "kind": "openai.compaction", "providerMetadata": {"openai": {"id": "custom"}}},
    {"type": "reasoning-file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"},
    {"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": "steering"}]},
    {"type": "file", "mediaType": "image/png", "url": "", "providerReference": {"openai": "stored"}},
    {"type": "source-url", "sourceId": "1", "url": "https://source"},
    {"type": "data-x", "data": {"x": "data"}},
    *[
        part
        for dynamic in (False, True)
        for part in [
            tool_part("approval-requested", dynamic, approval={"id": "a", "isAutomatic": True, "requestReason": "why"}),
            tool_part("approval-responded", dynamic, approval={"id": "b", "approved": True, "reason": "because"}),
            tool_part("output-available", dynamic, output=1, approval={"id": "c", "approved": True}),
            tool_part("output-available", dynamic),
            tool_part("output-error", dynamic, errorText="failure"),
            tool_part("output-denied", dynamic, approval={"id": "d", "approved": False, "reason": "denial"}),
            tool_part("output-denied", dynamic),
        ]
    ],
]


@pytest.mark.parametrize("sdk", [5, 6, 7])
@pytest.mark.parametrize("part", PARTS_OF_7, ids=lambda part: f"{part['type']}-{part.get('state')}")
def test_each_major_accepts_messages_of_another_major(client: Client, sdk: Any, part: dict[str, Any]) -> None:
    messages = [{"id": "m", "role": "assistant", "parts": [{"type": "text", "text": "x"}, part]}]
    thread = tp.from_ui_messages(messages)

    written = thread.to_ui_messages(sdk)

    assert client.ask(do="validate", sdk=sdk, messages=written, convert=False)["errors"] == []
    assert thread.to_ui_messages() == messages
    words = ["text", "custom", "AAAA", "steering", "stored", "https://source", "input", "failure", "denial", "because"]
    lost = [word for word in words if word in json.dumps(messages) and word not in json.dumps(written)]
    assert lost == []
    again = tp.from_ui_messages(thread.to_ui_messages(sdk, sidecar="full"), sidecar="full")
    assert again.core() == thread.core()


@needs_corpus
@pytest.mark.parametrize("sdk", [5, 6, 7])
def test_each_major_accepts_recorded_messages(client: Client, sdk: Any) -> None:
    for path in sorted((Path(CORPUS or "") / "ui-streams").rglob("*.chunks.jsonl")):
        reader = tp.UiStreamReader()
        try:
            for line in path.read_text("utf-8").split("\n"):
                if line.strip():
                    reader.feed(json.loads(line))
        except ValidationError:
            pass
        written = reader.thread().to_ui_messages(sdk)
        if written:
            answer = client.ask(do="validate", sdk=sdk, messages=written, convert=False)
            assert answer["errors"] == [], path.name
