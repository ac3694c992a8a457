"""UPP-1.2 §6: usage as each vendor reports it, and the counts that mean the same for every vendor."""

import json

import pytest

from turntree import agent
from turntree.testing import RawReply, serve
from turntree.upp import TokenUsage, anthropic, llm, scripted

from .usage_words import COSTS, VENDORS, Answers, Words

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


@pytest.fixture(scope="module")
def server():
    body = {}
    with serve(lambda _: RawReply(json.dumps(body["next"]))) as running:
        yield running, body


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("vendor", VENDORS)
async def test_counts_that_mean_the_same_for_every_vendor(vendor, streamed):
    words = VENDORS[vendor]
    asked = llm(model=words.model(Answers(words, streamed=streamed)), params={"max_tokens": 64})
    turn = await (asked.stream("hi").turn if streamed else asked.generate("hi"))

    assert turn.response.text == "ok"
    usage, (call,) = turn.usage, turn.usage.cycles
    assert {name: getattr(usage, name) for name in words.expected} == words.expected
    assert {name: getattr(call, name) for name in words.expected} == words.expected
    assert usage.requests == 1
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens


#: A vendor, a usage that it does not document, and the input tokens that can be read.
ODD = [
    *((vendor, usage, 0) for vendor in ("openai: no details", "openai responses", "bedrock") for usage in (7, "x", [])),
    *((vendor, 7, 0) for vendor in ("anthropic: no cache", "mistral: num_cached_tokens")),
    ("openai: no details", {"prompt_tokens": 5, "prompt_tokens_details": 7, "completion_tokens_details": "x"}, 5),
    ("openai responses", {"input_tokens": 5, "input_tokens_details": 7, "output_tokens_details": "x"}, 5),
    ("anthropic: no cache", {"input_tokens": 5, "iterations": {}, "cache_creation": 7}, 5),
    ("anthropic: no cache", {"input_tokens": 5, "iterations": [7], "output_tokens_details": "x"}, 5),
    ("google", {"promptTokenCount": 5, "promptTokensDetails": 7}, 5),
    ("bedrock", {"inputTokens": 5, "cacheDetails": 7}, 5),
]


@pytest.mark.parametrize(("vendor", "usage", "counted"), ODD)
async def test_an_odd_usage_does_not_lose_the_answer(vendor, usage, counted):
    make, dialect = VENDORS[vendor].model, VENDORS[vendor].dialect
    words = Words(make, dialect, usage, counted, 0)
    for streamed in (False, True):
        asked = llm(model=make(Answers(words, streamed=streamed)), params={"max_tokens": 64})
        turn = await (asked.stream("hi").turn if streamed else asked.generate("hi"))

        assert (turn.response.text, turn.usage.total_input_tokens) == ("ok", counted)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("vendor", COSTS)
async def test_costs_that_a_vendor_reports(vendor, streamed):
    make, dialect, usage, cost = COSTS[vendor]
    answers = Answers(Words(make, dialect, usage, 100, 30), streamed=streamed)
    asked = llm(model=make(answers))
    turn = await (asked.stream("hi").turn if streamed else asked.generate("hi"))

    assert turn.usage.cost == (pytest.approx(cost) if cost is not None else None)


async def test_writes_for_one_hour_have_their_own_price():
    words = VENDORS["anthropic: read, written for 5 minutes and 1 hour"]
    rows = [{"provider": "anthropic", "models": ["m"], "input": 1e6, "output": 0.0, "cache_read": 0.0}]
    rows[0] |= {"cache_write": 1e6, "cache_write_1h": 1e9}
    model = anthropic("m", api_key="k", prices=rows, transport=Answers(words, streamed=False))

    turn = await llm(model=model, params={"max_tokens": 64}).generate("hi")

    assert turn.usage.cost == pytest.approx(10 + 10 + 20 * 1000)


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
