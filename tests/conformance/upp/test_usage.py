"""UPP-1.2 §6: usage as each vendor reports it, and the counts that mean the same for every vendor."""

import json

import pytest

from turntree import agent
from turntree.testing import RawReply, serve
from turntree.upp import TokenUsage, anthropic, google, llm, ollama, openai, openrouter, scripted

CHAT = {
    "id": "chatcmpl-1",
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": 60, "audio_tokens": 7},
        "completion_tokens_details": {"reasoning_tokens": 20, "audio_tokens": 2},
    },
}
RESPONSES = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "m",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "ok", "annotations": []}],
        }
    ],
    "usage": {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 130,
    },
}
MESSAGES = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "ok"}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 10,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 30,
        "output_tokens": 30,
        "output_tokens_details": {"thinking_tokens": 20},
    },
}
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}],
    "usageMetadata": {
        "promptTokenCount": 90,
        "toolUsePromptTokenCount": 10,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 10,
        "thoughtsTokenCount": 20,
        "totalTokenCount": 130,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 83}, {"modality": "AUDIO", "tokenCount": 7}],
        "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 2}],
    },
}
OLLAMA = {"model": "m", "message": {"role": "assistant", "content": "ok"}, "done": True, "done_reason": "stop"}
OLLAMA |= {"prompt_eval_count": 100, "eval_count": 30}

#: Vendor: model, body, then `input_tokens`, `cache_read_tokens`, `reasoning_tokens` and `audio_tokens`.
VENDORS = {
    "openai-chat": (lambda url: openai("m", "completions", base_url=url, api_key="k"), CHAT, (100, 60, 20, 9)),
    "openai-responses": (lambda url: openai("m", base_url=url, api_key="k"), RESPONSES, (100, 60, 20, 0)),
    "openrouter": (lambda url: openrouter("m", base_url=url, api_key="k"), CHAT, (100, 60, 20, 9)),
    "anthropic": (lambda url: anthropic("m", base_url=url, api_key="k"), MESSAGES, (10, 60, 20, 0)),
    "google": (lambda url: google("m", base_url=url, api_key="k"), GEMINI, (100, 60, 20, 9)),
    "ollama": (lambda url: ollama("m", base_url=url), OLLAMA, (100, 0, 0, 0)),
}


@pytest.fixture(scope="module")
def server():
    body = {}
    with serve(lambda _: RawReply(json.dumps(body["next"]))) as running:
        yield running, body


@pytest.mark.parametrize("vendor", VENDORS)
async def test_counts_that_mean_the_same_for_every_vendor(server, vendor):
    running, body = server
    make, body["next"], (input_tokens, cached, reasoning, audio) = VENDORS[vendor]
    url = running.url if vendor in ("ollama", "google") else running.base_url
    turn = await llm(model=make(url), params={"max_tokens": 64}).generate("hi")

    usage = turn.usage
    assert (usage.total_input_tokens, usage.output_tokens, usage.requests) == (100, 30, 1)
    assert (usage.input_tokens, usage.cache_read_tokens) == (input_tokens, cached)
    assert (usage.reasoning_tokens, usage.audio_tokens) == (reasoning, audio)
    (call,) = usage.cycles
    assert (call.total_input_tokens, call.reasoning_tokens, call.audio_tokens) == (100, reasoning, audio)


async def test_they_are_summed_over_the_calls_of_a_turn(server):
    running, body = server
    body["next"] = {
        **MESSAGES,
        "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}],
    }

    def look() -> str:
        """Look."""
        body["next"] = MESSAGES
        return "seen"

    model = anthropic("m", base_url=running.base_url, api_key="k")
    turn = await agent(model=model, params={"max_tokens": 64}, tools=[look]).run("hi")

    assert (turn.usage.requests, turn.usage.total_input_tokens, turn.usage.reasoning_tokens) == (2, 200, 40)
    assert turn.usage.input_tokens == 20
    saved = type(turn).model_validate_json(turn.model_dump_json()).usage
    assert saved == turn.usage
    assert (saved.requests, saved.total_input_tokens) == (2, 200)


async def test_usage_of_sub_agents_has_them_too(server):
    running, body = server
    body["next"] = MESSAGES
    inner = agent(model=anthropic("m", base_url=running.base_url, api_key="k"), params={"max_tokens": 64}, name="inner")
    outer = agent(
        model=scripted(
            [
                {"tool_call_id": "c1", "tool_name": "inner", "arguments": {"task": "a"}},
                "done",
            ]
        ),
        tools=[inner.to_tool(name="inner")],
    )
    turn = await outer.run("go")

    of_inner = turn.usage.by_agent["inner"]
    assert (of_inner.requests, of_inner.total_input_tokens, of_inner.reasoning_tokens) == (1, 100, 20)


def test_usage_that_an_application_makes():
    usage = TokenUsage(10, 5, cache_read_tokens=90, total_input_tokens=100, reasoning_tokens=3, audio_tokens=1)

    assert (usage.total_input_tokens, usage.reasoning_tokens, usage.audio_tokens) == (100, 3, 1)
    assert TokenUsage(10, 5).total_input_tokens == 10
    assert TokenUsage.model_validate({"inputTokens": 4, "cycles": []}).requests == 0
