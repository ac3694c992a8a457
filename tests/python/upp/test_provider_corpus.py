"""Recorded answers of real vendors, served over the loopback and read by the real client. UPP-1.2 §11, §12, §19.

For each exchange: no error where the vendor answered, the right code where it refused; text, calls and usage as an
independent reader finds them in the raw body; the message, sent back, fits the vendor's own schema. Needs
`TURNTREE_CORPUS`, a folder with `provider-traffic/`; prints a report by vendor and writes it as JSON to the file that
`TURNTREE_CORPUS_REPORT` names, by default `target/provider-corpus.json`.
"""

import asyncio
import json
import os
from collections import Counter
from pathlib import Path

import pytest
from vendor_requests import BY_API, problem

from turntree import agent
from turntree.testing import RawReply, serve
from turntree.upp import (
    ErrorCode,
    Text,
    UPPError,
    anthropic,
    bedrock,
    cerebras,
    google,
    groq,
    mistral,
    openai,
    openai_compatible,
    openrouter,
    responses,
    tool,
)

CORPUS = os.environ.get("TURNTREE_CORPUS")

pytestmark = [
    pytest.mark.skipif(not CORPUS, reason="NOT TESTED on recorded vendors: TURNTREE_CORPUS is not set"),
    pytest.mark.timeout(600),
]

KEY = "sk-secret-0123456789"


def compatible(url):
    return openai_compatible("model", url, api_key=KEY)


def amazon(url):
    return bedrock("model", "eu-west-1", base_url=url, auth=KEY)


VENDORS = {
    "anthropic.messages": ("anthropic-messages", lambda url: anthropic("model", base_url=url, api_key=KEY)),
    "azure.responses": ("openai-responses", lambda url: openai("model", base_url=url, api_key=KEY)),
    "cerebras.chat_completions": ("openai-chat", lambda url: cerebras("model", base_url=url, api_key=KEY)),
    "crusoe.chat_completions": ("openai-chat", compatible),
    "deepseek.responses": ("openai-responses", lambda url: responses("model", url, api_key=KEY)),
    "google.generate_content": (
        "google-generate-content",
        lambda url: google("gemini-2.5-flash", base_url=url, api_key=KEY),
    ),
    "google.generate_content.vertex": (
        "google-generate-content",
        lambda url: google("gemini-2.5-flash", base_url=f"{url}/publishers/google", api_key=KEY),
    ),
    "groq.chat_completions": ("openai-chat", lambda url: groq("model", base_url=url, api_key=KEY)),
    "huggingface.chat_completions": ("openai-chat", compatible),
    "local.chat_completions": ("openai-chat", compatible),
    "mistral.chat": ("openai-chat", lambda url: mistral("model", base_url=url, api_key=KEY)),
    "ollama.chat_completions": ("openai-chat", compatible),
    "openai.chat_completions": ("openai-chat", lambda url: openai("model", "completions", base_url=url, api_key=KEY)),
    "openai.responses": ("openai-responses", lambda url: openai("model", base_url=url, api_key=KEY)),
    "openrouter.chat_completions": ("openai-chat", lambda url: openrouter("model", base_url=url, api_key=KEY)),
    "zai.chat_completions": ("openai-chat", compatible),
}

# Folders without an entry: by the end of the path of their exchanges.
BY_PATH = {
    "/chat/completions": ("openai-chat", compatible),
    "/responses": VENDORS["openai.responses"],
    "/messages": VENDORS["anthropic.messages"],
    ":generateContent": VENDORS["google.generate_content"],
    ":streamGenerateContent": VENDORS["google.generate_content"],
    "/converse": ("bedrock-converse", amazon),
    "/converse-stream": ("bedrock-converse", amazon),
}

OTHER_APIS = {
    "anthropic.count_tokens": "counts tokens, makes no message",
    "anthropic.files": "the Files API",
    "embeddings": "the embeddings API, tested with embedding models",
    "openai.files": "the Files API",
    "realtime.google": "a WebSocket, no HTTP exchange",
    "realtime.openai": "a WebSocket, no HTTP exchange",
}


def other_api(recorded):
    """Why an exchange belongs to another API; None if it belongs to this one."""
    request = recorded["request"]
    if request["method"].upper() != "POST":
        return f"{request['method']} asks for an earlier response"
    for end, reason in {"/compact": "compacts a conversation", "/input_tokens": "counts tokens"}.items():
        if request["path"].endswith(end):
            return reason
    return None


# An independent reading of raw bodies


class Reading:
    """The texts, calls and tokens of an answer, independent of its format."""

    def __init__(self):
        self.text = ""
        self.calls = []
        self.tokens = (0, 0)

    def __repr__(self):
        return f"{self.text[:120]!r} {self.calls} {self.tokens}"

    def __eq__(self, other):
        return (self.text, self.calls, self.tokens) == (other.text, other.calls, other.tokens)

    __hash__ = None


def parsed(arguments):
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}


def words(content):
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content)
    return content or ""


def read_chat(frames):
    reading, calls = Reading(), {}
    refusal = ""
    for frame in frames:
        usage = frame.get("usage") or (frame.get("x_groq") or {}).get("usage")
        if usage:
            reading.tokens = (usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0)
        for choice in (frame.get("choices") or [])[:1]:
            said = choice.get("delta") or choice.get("message") or {}
            reading.text += words(said.get("content"))
            refusal += said.get("refusal") or ""
            for place, call in enumerate(said.get("tool_calls") or []):
                known = calls.setdefault(call.get("index", place), ["", ""])
                known[0] += call["function"].get("name") or ""
                known[1] += call["function"].get("arguments") or ""
    reading.text += refusal
    reading.calls = [(name, parsed(arguments)) for name, arguments in calls.values()]
    return reading


def read_responses(frames):
    ends = ("response.completed", "response.incomplete")
    body = next((f["response"] for f in reversed(frames) if f.get("type") in ends), frames[-1])
    reading = Reading()
    items = body.get("output") or [f["item"] for f in frames if f.get("type") == "response.output_item.done"]
    for item in items:
        if item["type"] == "message":
            reading.text += "".join(part.get("text") or part.get("refusal") or "" for part in item["content"])
        elif item["type"] == "function_call":
            reading.calls.append((item["name"], parsed(item["arguments"])))
    usage = body.get("usage") or {}
    reading.tokens = (usage.get("input_tokens") or 0, usage.get("output_tokens") or 0)
    return reading


def read_messages(frames):
    blocks, usage = {}, {}
    for frame in frames:
        match frame.get("type"):
            case "message":
                blocks, usage = dict(enumerate(frame["content"])), frame["usage"]
            case "message_start":
                usage = dict(frame["message"]["usage"])
            case "content_block_start":
                blocks[frame["index"]] = {**frame["content_block"], "json": ""}
            case "content_block_delta":
                block, delta = blocks[frame["index"]], frame["delta"]
                block["text"] = block.get("text", "") + delta.get("text", "")
                block["json"] += delta.get("partial_json", "")
            case "message_delta":
                usage |= {name: count for name, count in (frame.get("usage") or {}).items() if count is not None}
    reading = Reading()
    for _, block in sorted(blocks.items()):
        if block["type"] == "text":
            reading.text += block["text"]
        elif block["type"] == "tool_use":
            reading.calls.append((block["name"], parsed(block.get("json") or block["input"])))
    reading.tokens = (usage.get("input_tokens") or 0, usage.get("output_tokens") or 0)
    return reading


def read_gemini(frames):
    reading, usage = Reading(), {}
    for frame in frames:
        usage = frame.get("usageMetadata") or usage
        for candidate in (frame.get("candidates") or [])[:1]:
            for part in (candidate.get("content") or {}).get("parts") or []:
                if "functionCall" in part:
                    reading.calls.append((part["functionCall"]["name"], parsed(part["functionCall"].get("args", {}))))
                elif not part.get("thought"):
                    reading.text += part.get("text", "")
    counts = [usage.get(name) or 0 for name in ("promptTokenCount", "toolUsePromptTokenCount")]
    made = [usage.get(name) or 0 for name in ("candidatesTokenCount", "thoughtsTokenCount")]
    reading.tokens = (sum(counts), sum(made))
    return reading


def read_converse(frames):
    (body,) = frames
    reading = Reading()
    for block in body["output"]["message"]["content"]:
        reading.text += block.get("text", "")
        if "toolUse" in block:
            reading.calls.append((block["toolUse"]["name"], parsed(block["toolUse"]["input"])))
    reading.tokens = (body["usage"]["inputTokens"], body["usage"]["outputTokens"])
    return reading


READERS = {
    "bedrock-converse": read_converse,
    "openai-chat": read_chat,
    "openai-responses": read_responses,
    "anthropic-messages": read_messages,
    "google-generate-content": read_gemini,
}


def frames_of(recorded):
    """The JSON documents of a body; None if it is not an answer of this API."""
    body = recorded["response"]["body"]
    if recorded["format"] == "sse":
        data = [line[5:].strip() for line in body.replace("\r\n", "\n").split("\n") if line.startswith("data:")]
        return [json.loads(line) for line in data if line and line != "[DONE]"]
    return [body] if isinstance(body, dict) else None


def is_answer(api, frames):
    member = {
        "openai-chat": "choices",
        "openai-responses": "output",
        "anthropic-messages": "content",
        "google-generate-content": "candidates",
        "bedrock-converse": "output",
    }[api]
    return bool(frames) and (len(frames) > 1 or isinstance(frames[0].get(member), (list, dict)))


# Reading by the client


def ours(turn_messages, usage):
    message = next(message for message in turn_messages if message.type == "assistant")
    reading = Reading()
    reading.text = "".join(block.text for block in message.content if isinstance(block, Text))
    reading.calls = [(call.tool_name, call.arguments) for call in message.tool_calls or ()]
    first = usage.cycles[0]
    reading.tokens = (first.input_tokens, first.output_tokens)
    return reading


CODES = {400: ErrorCode.INVALID_REQUEST, 404: ErrorCode.MODEL_NOT_FOUND, 429: ErrorCode.RATE_LIMITED}


def reply_with(recorded):
    response = recorded["response"]
    body = response["body"]
    text = body if isinstance(body, str) else json.dumps(body)
    kinds = response["headers"].get("content-type") or response["headers"].get("Content-Type") or [None]
    kind = "text/event-stream" if recorded["format"] == "sse" else kinds[0]
    return RawReply(text, status=response["status"], content_type=kind, chunked=recorded["format"] == "sse")


@tool
def unused() -> str:
    """Nothing."""
    return ""


async def replay(api, make, raw, *, is_streamed):
    """The turn of the raw reply, and the requests that follow from it, each checked by the strict server."""
    with serve(lambda request: raw if request.number == 1 else "Well.") as server:
        # With a tool, calls get results and the conversation continues; its name may differ from that of the call.
        runner = agent(
            model=make(server.base_url),
            tools=[unused],
            on_refusal="return",
            params={"max_tokens": 100} if api == "anthropic-messages" else {},
        )
        turn = await runner.stream("Hi").turn if is_streamed else await runner.run("Hi")
        await runner.run([*turn.messages], "Go on")
        return turn, server.requests


async def check(api, make, recorded):
    """A description of the error in an exchange; None if it is correct."""
    status, frames = recorded["response"]["status"], frames_of(recorded)
    is_streamed = recorded["format"] == "sse"
    try:
        turn, requests = await replay(api, make, reply_with(recorded), is_streamed=is_streamed)
    except UPPError as error:
        if status == 200:
            is_right = error.code == ErrorCode.INVALID_RESPONSE and not is_answer(api, frames)
            return None if is_right else f"the vendor answered, but: {error}"
        told = (recorded["response"]["body"].get("error") or {}).get("code")
        code = CODES.get(404 if told == "model_not_found" else status, ErrorCode.PROVIDER_ERROR)
        is_right = error.code == code and error.status_code == status
        return None if is_right else f"{status} became {error}"
    if status != 200:
        return f"{status} was taken for an answer"
    read, truth = ours(turn.messages, turn.usage), READERS[api](frames)
    if read != truth:
        return f"read {read}, but it says {truth}"
    for request in requests[1:]:
        if api in BY_API and (wrong := problem(api, request.json)):
            return f"sent back, the vendor would refuse it: {wrong}"
    if api == "openai-responses" and is_streamed:
        return await check_agreement(api, make, frames, turn)
    return None


async def check_agreement(api, make, frames, streamed):
    """The last event contains the complete response; reading it without a stream must give the same result."""
    whole = frames[-1].get("response")
    if not whole or not whole.get("output"):
        return None
    plain, _ = await replay(api, make, RawReply(json.dumps(whole)), is_streamed=False)
    if ours(plain.messages, plain.usage) != ours(streamed.messages, streamed.usage):
        return "streamed and whole it reads differently"
    return None


def vendor_of(place, recorded):
    """The API and the model of a folder, or of an exchange of an unknown folder; None if no client reads it."""
    if place.name in VENDORS:
        return VENDORS[place.name]
    path = recorded["request"]["path"].partition("?")[0]
    return next((vendor for end, vendor in BY_PATH.items() if path.endswith(end)), None)


def test_recorded_vendor_answers_are_read_correctly(capsys, root):
    folder = Path(CORPUS) / "provider-traffic"
    report, failures = {}, []

    async def main():
        for place in sorted(path for path in folder.iterdir() if path.is_dir()):
            if place.name in OTHER_APIS:
                report[place.name] = {"excluded": OTHER_APIS[place.name]}
                continue
            entry = report[place.name] = {"exchanges": 0, "passed": 0, "failed": {}, "excluded": Counter()}
            for path in sorted(place.glob("*.json")):
                recorded = json.loads(path.read_text(encoding="utf-8"))
                if reason := other_api(recorded):
                    entry["excluded"][reason] += 1
                    continue
                vendor = vendor_of(place, recorded)
                # Bodies of event streams are not text.
                if vendor is None or (vendor[1] is amazon and recorded["format"] != "json"):
                    entry["excluded"][f"no client reads {recorded['format']} of {recorded['request']['path']}"] += 1
                    continue
                (api, make), entry["api"] = vendor, vendor[0]
                entry["exchanges"] += 1
                if wrong := await check(api, make, recorded):
                    entry["failed"][path.name] = wrong
                    failures.append(f"{place.name}/{path.name}: {wrong}")
                else:
                    entry["passed"] += 1

    asyncio.run(main())
    target = Path(os.environ.get("TURNTREE_CORPUS_REPORT", root / "target" / "provider-corpus.json"))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    with capsys.disabled():
        print("\n" + "\n".join(lines_of(report)) + f"\nreport: {target}")
    assert not failures, f"{len(failures)} wrong:\n" + "\n".join(failures[:40])


def lines_of(report):
    for name, entry in report.items():
        if isinstance(entry["excluded"], str):
            yield f"{name:32} excluded: {entry['excluded']}"
            continue
        others = "".join(f", {count} excluded ({reason})" for reason, count in entry["excluded"].items())
        counts = f"{entry['exchanges']:4} exchanges, {entry['passed']:4} passed, {len(entry['failed'])} failed"
        yield f"{name:32} {counts}{others}"
        for file, reason in entry["failed"].items():
            yield f"    {file}: {reason}"


def spelled_out(body):
    """A request as strict vendors require it: with the type of functions, without empty lists and null members."""
    if "messages" not in body:
        return body
    body = json.loads(json.dumps(body))
    for message in body["messages"]:
        parts = message["content"] if isinstance(message.get("content"), list) else []
        for members in [message, *parts]:
            for name in [name for name, value in members.items() if value is None and name != "content"]:
                del members[name]
        if message.get("content") == []:
            message["content"] = None
    calls = [call for message in body["messages"] for call in message.get("tool_calls") or ()]
    for function in [*calls, *(body.get("tools") or ())]:
        if "function" in function:
            function.setdefault("type", "function")
    if body.get("tools") == []:
        del body["tools"]
    return body


def test_schemas_accept_requests_that_vendors_accepted():
    """Recorded requests that were answered prove that the schemas are not too strict."""
    refused, count = [], 0
    for name, (api, _) in VENDORS.items():
        for path in sorted((Path(CORPUS) / "provider-traffic" / name).glob("*.json")):
            recorded = json.loads(path.read_text(encoding="utf-8"))
            body = recorded["request"]["body"]
            if recorded["response"]["status"] != 200 or other_api(recorded) or not isinstance(body, dict):
                continue
            count += 1
            if wrong := problem(api, spelled_out(body)):
                refused.append(f"{name}/{path.name}: {wrong}")

    assert count > 400
    assert not refused, f"{len(refused)} of {count}:\n" + "\n".join(refused[:40])
