"""Each row of `docs/vendor-features.md`: what it says is what is sent."""

import json
import re
from pathlib import Path

import pytest

from turntree import upp
from turntree.testing import LoopbackServer, RawReply, serve
from turntree.upp import anthropic, bedrock, google, groq, llm, openai, openrouter, xai

PAGE = Path(__file__).parents[3] / "docs" / "vendor-features.md"
KEY = {"api_key": "k"}
MODELS = {
    "Anthropic": lambda url: anthropic("claude-sonnet-4-5", base_url=url, **KEY),
    "OpenAI": lambda url: openai("gpt-5", base_url=url, **KEY),
    "Google": lambda url: google("gemini-2.5-flash", base_url=url, **KEY),
    "Amazon Bedrock": lambda url: bedrock("eu.anthropic.claude-sonnet-4-5-v1:0", "eu-west-1", base_url=url, auth="k"),
    "xAI": lambda url: xai("grok-4", "responses", base_url=url, **KEY),
    "OpenRouter": lambda url: openrouter("anthropic/claude-sonnet-4.5", base_url=url, **KEY),
    "Groq": lambda url: groq("openai/gpt-oss-120b", base_url=url, **KEY),
}
ROW = re.compile(r"^\| ([^|]+) \| `([^|]+)` \| `([^|]+)` \|$")


def rows():
    vendor = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            vendor = line[3:]
        elif (row := ROW.match(line)) is not None:
            yield pytest.param(vendor, row[2], row[3], id=f"{vendor}: {row[1]}")


@pytest.fixture(scope="module")
def server():
    with serve(lambda _: RawReply("{}", status=418)) as running:
        yield running


def contains(sent, part):
    """Whether a value has a part: members of objects, items of lists in their order from the first that matches."""
    if isinstance(part, dict):
        return isinstance(sent, dict) and all(name in sent and contains(sent[name], part[name]) for name in part)
    if isinstance(part, list):
        found = iter(sent if isinstance(sent, list) else [])
        return all(any(contains(each, item) for each in found) for item in part)
    return sent == part


@pytest.mark.parametrize(("vendor", "how", "part"), list(rows()))
def test_the_row_is_what_is_sent(server, vendor, how, part):
    names = {name: getattr(upp, name) for name in ("Document", "Image", "ModelSettings", "native")}
    options = eval(f"dict({how})", names)
    given = options.pop("input", "hi")
    params = {**({"max_tokens": 8192} if vendor == "Anthropic" else {}), **options.pop("params", {})}
    url = server.base_url if vendor != "Amazon Bedrock" else server.url
    with pytest.raises(upp.UPPError):
        llm(model=MODELS[vendor](url), params=params, **options).generate_sync(given)

    body = json.loads(server.requests[-1].body)
    assert contains(body, json.loads(part)), body


def test_every_vendor_and_every_row_is_tested():
    text = PAGE.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| feature")]
    assert len(lines) == len(list(rows()))
    assert {row.values[0] for row in rows()} == set(MODELS)


class AnyPathServer(LoopbackServer):
    """Gives the replies of its script also on paths of vendors that the loopback server does not speak: Bedrock."""

    def _reply(self, request, dialect):
        return super()._reply(request, dialect) if dialect is not None else self._reply_to(request)


THINKING = [
    {"type": "thinking", "thinking": "hm", "signature": "SEALED"},
    {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
]
BACK = {
    "Anthropic": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": THINKING,
        "stop_reason": "tool_use",
        "usage": {},
    },
    "OpenAI": {
        "id": "r",
        "object": "response",
        "status": "completed",
        "model": "gpt-5",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEALED"},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"},
        ],
    },
    "Google": {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [{"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "SEALED"}],
                },
                "finishReason": "STOP",
            }
        ],
    },
    "Amazon Bedrock": {
        "output": {
            "message": {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "SEALED"}}},
                    {"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}},
                ],
            }
        },
        "stopReason": "tool_use",
        "usage": {},
    },
}


@pytest.mark.parametrize("vendor", BACK)
def test_what_a_vendor_has_sealed_is_sent_back(vendor):
    def look() -> str:
        """Look."""
        return "seen"

    replies = [RawReply(json.dumps(BACK[vendor])), RawReply("{}", status=418)]
    with AnyPathServer(replies) as server:
        url = server.base_url if vendor != "Amazon Bedrock" else server.url
        model = MODELS[vendor](url)
        with pytest.raises(upp.UPPError):
            llm(model=model, params={"max_tokens": 64}, tools=[upp.tool(look)]).generate_sync("hi")
        first, second = server.requests
    assert "SEALED" not in json.dumps(json.loads(first.body))
    assert "SEALED" in json.dumps(json.loads(second.body))
