"""The usage of each vendor in its own words, whole and streamed, and the counts that turntree reads from it."""

import json
import struct
import zlib
from dataclasses import dataclass, field

from turntree.upp import (
    HttpResponse,
    anthropic,
    azure,
    bedrock,
    cerebras,
    cohere,
    deepseek,
    fireworks,
    google,
    groq,
    huggingface,
    litellm,
    mistral,
    moonshot,
    ollama,
    openai,
    openrouter,
    perplexity,
    together,
    vertex,
    xai,
    zai,
)


@dataclass
class Words:
    """What a vendor reports, and what it means. Counts that are not given are 0; the whole input is `input`."""

    model: object
    dialect: str
    usage: object
    input: int
    output: int
    counts: dict = field(default_factory=dict)

    @property
    def expected(self):
        """The counts of `TokenUsage`."""
        names = ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "audio_tokens")
        counts = {name: self.counts.get(name, 0) for name in names}
        own = {"input_tokens": self.input, "total_input_tokens": self.input, "output_tokens": self.output}
        return {**own, **counts, **{name: self.counts[name] for name in ("total_input_tokens",) if name in self.counts}}


def chat(usage):
    """Chat Completions: the body, and the events of a stream."""
    head = {"id": "c", "model": "m"}
    choice = {"index": 0, "finish_reason": "stop"}
    whole = {**head, "choices": [{**choice, "message": {"role": "assistant", "content": "ok"}}], "usage": usage}
    events = [
        {**head, "choices": [{"index": 0, "delta": {"content": "ok"}}]},
        {**head, "choices": [{**choice, "delta": {}}]},
        {**head, "choices": [], "usage": usage},
    ]
    return whole, sse(*events, "[DONE]")


def chat_of_groq(usage):
    """Groq's streams have the usage in `x_groq`."""
    whole, _ = chat(usage)
    choice = {"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}
    return whole, sse({"id": "c", "model": "m", "choices": [choice], "x_groq": {"id": "r", "usage": usage}}, "[DONE]")


def chat_of_moonshot(usage):
    """Moonshot's streams have the usage in the choice."""
    whole, _ = chat(usage)
    choice = {"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop", "usage": usage}
    return whole, sse({"id": "c", "model": "m", "choices": [choice]}, "[DONE]")


def responses(usage):
    """The Responses API."""
    text = {"type": "output_text", "text": "ok", "annotations": []}
    item = {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [text]}
    whole = {"id": "r", "object": "response", "status": "completed", "model": "m", "output": [item], "usage": usage}
    return whole, sse(
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    )


def messages(usage):
    """Anthropic's Messages. A stream reports the input first and all counts last."""
    head = {"id": "m", "type": "message", "role": "assistant", "model": "m"}
    whole = {**head, "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "usage": usage}
    first = usage
    if isinstance(usage, dict):
        first = {name: count for name, count in usage.items() if name != "iterations"} | {"output_tokens": 1}
    return whole, sse(
        {"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "usage": first}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    )


def gemini(usage):
    """Gemini's counts are cumulative: each event has those so far."""
    candidate = {"index": 0, "content": {"role": "model", "parts": [{"text": "ok"}]}}
    end = {"index": 0, "content": {"role": "model", "parts": []}, "finishReason": "STOP"}
    so_far = {"promptTokenCount": 1, "totalTokenCount": 1}
    whole = {"candidates": [{**candidate, "finishReason": "STOP"}], "usageMetadata": usage}
    first = {"candidates": [candidate], "usageMetadata": so_far}
    return whole, sse(first, {"candidates": [end], "usageMetadata": usage})


def converse(usage):
    """Bedrock's Converse, and the binary events of ConverseStream."""
    answer = {"message": {"role": "assistant", "content": [{"text": "ok"}]}}
    whole = {"output": answer, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}}
    events = [
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "ok"}}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {"usage": usage, "metrics": {"latencyMs": 1}}),
    ]
    return whole, b"".join(amazon_event(name, payload) for name, payload in events)


def ollama_chat(usage):
    """Ollama's lines; the last one has the counts."""
    message = {"role": "assistant", "content": "ok"}
    whole = {"model": "m", "message": message, "done": True, "done_reason": "stop", **usage}
    first, last = {"model": "m", "message": message, "done": False}, {**whole, "message": {**message, "content": ""}}
    return whole, "".join(json.dumps(line) + "\n" for line in (first, last))


def sse(*events):
    """Server-sent events."""
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return "".join(f"data: {text}\n\n" for text in texts)


def amazon_event(name, payload):
    """A message in Amazon's event-stream encoding."""
    headers = {":message-type": "event", ":event-type": name, ":content-type": "application/json"}
    head = b"".join(
        bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for key, value in headers.items()
    )
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", len(head) + len(body) + 16, len(head))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + body
    return whole + struct.pack(">I", zlib.crc32(whole))


DIALECTS = {
    "chat": (chat, "text/event-stream"),
    "chat of groq": (chat_of_groq, "text/event-stream"),
    "chat of moonshot": (chat_of_moonshot, "text/event-stream"),
    "responses": (responses, "text/event-stream"),
    "messages": (messages, "text/event-stream"),
    "gemini": (gemini, "text/event-stream"),
    "converse": (converse, "application/vnd.amazon.eventstream"),
    "ollama": (ollama_chat, "application/x-ndjson"),
}


class Answers:
    """A transport that answers with the usage, streamed if `streamed` is set."""

    def __init__(self, words, *, streamed):
        make, stream_type = DIALECTS[words.dialect]
        whole, stream = make(words.usage)
        self.response = (stream_type, stream) if streamed else ("application/json", json.dumps(whole))

    async def send(self, request):
        """Answer any request."""
        content_type, body = self.response
        return HttpResponse(headers={"content-type": content_type}, body=body)


def prompt(cached, **details):
    """Counts of Chat Completions: 100 tokens of input, 30 of output, 20 of them reasoning."""
    return {
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": cached, **details},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }


PLAIN = {"prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130}
READ = {"cache_read_tokens": 60}
THOUGHT = {"cache_read_tokens": 60, "reasoning_tokens": 20}
RESPONSES = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 130,
}
CACHED = {
    "input_tokens": 10,
    "cache_read_input_tokens": 60,
    "cache_creation_input_tokens": 30,
    "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    "output_tokens": 30,
    "service_tier": "standard",
}
APART = {"cache_read_tokens": 60, "cache_write_tokens": 30, "total_input_tokens": 100}
SUMMARY = {
    "type": "compaction",
    "input_tokens": 500,
    "output_tokens": 50,
    "cache_read_input_tokens": 5,
    "cache_creation_input_tokens": 3,
}
GEMINI = {
    "promptTokenCount": 90,
    "toolUsePromptTokenCount": 10,
    "cachedContentTokenCount": 60,
    "candidatesTokenCount": 10,
    "thoughtsTokenCount": 20,
    "totalTokenCount": 130,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 83}, {"modality": "AUDIO", "tokenCount": 7}],
    "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 5}],
    "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 2}],
}
CONVERSE = {
    "inputTokens": 10,
    "outputTokens": 30,
    "totalTokens": 130,
    "cacheReadInputTokens": 60,
    "cacheWriteInputTokens": 30,
    "cacheDetails": [{"ttl": "5m", "inputTokens": 10}, {"ttl": "1h", "inputTokens": 20}],
}
AUDIO = {
    **PLAIN,
    "prompt_tokens_details": {"cached_tokens": 60, "audio_tokens": 7},
    "completion_tokens_details": {"reasoning_tokens": 20, "audio_tokens": 2},
}
HEARD = {**THOUGHT, "audio_tokens": 9}
#: xAI counts reasoning apart from the completion; its total has both.
GROK = {**prompt(60, text_tokens=100, image_tokens=0), "completion_tokens": 10}

KEY = {"api_key": "k"}


def of(make, *arguments, **options):
    """A function that makes a model with a transport."""
    return lambda transport: make(*arguments, transport=transport, **{**KEY, **options})


VENDORS = {
    "openai: cached, reasoning, audio": Words(of(openai, "m", "completions"), "chat", AUDIO, 100, 30, HEARD),
    "openai: no details": Words(of(openai, "m", "completions"), "chat", PLAIN, 100, 30),
    "openai: details are null": Words(
        of(openai, "m", "completions"),
        "chat",
        {**PLAIN, "prompt_tokens_details": None, "completion_tokens_details": None},
        100,
        30,
    ),
    "openai responses": Words(of(openai, "m"), "responses", RESPONSES, 100, 30, THOUGHT),
    "openai responses: written to the cache": Words(
        of(openai, "m"),
        "responses",
        {**RESPONSES, "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}},
        100,
        30,
        {**THOUGHT, "cache_write_tokens": 30},
    ),
    "openai responses: audio": Words(
        of(openai, "m"),
        "responses",
        {**RESPONSES, "input_tokens_details": {"audio_tokens": 7}, "output_tokens_details": {"audio_tokens": 2}},
        100,
        30,
        {"audio_tokens": 9},
    ),
    "azure": Words(
        of(azure, "m", endpoint="https://a.invalid", api_version="2025-04-01-preview"),
        "chat",
        prompt(60),
        100,
        30,
        THOUGHT,
    ),
    "anthropic: no cache": Words(of(anthropic, "m"), "messages", {"input_tokens": 100, "output_tokens": 30}, 100, 30),
    "anthropic: read, written for 5 minutes and 1 hour": Words(of(anthropic, "m"), "messages", CACHED, 10, 30, APART),
    "anthropic: thinking": Words(
        of(anthropic, "m"),
        "messages",
        {**CACHED, "output_tokens_details": {"thinking_tokens": 20}},
        10,
        30,
        {**APART, "reasoning_tokens": 20},
    ),
    "anthropic: summaries of a long conversation": Words(
        of(anthropic, "m"),
        "messages",
        {**CACHED, "iterations": [SUMMARY, {**CACHED, "type": "message"}]},
        510,
        80,
        {"cache_read_tokens": 65, "cache_write_tokens": 33, "total_input_tokens": 608},
    ),
    "anthropic: advice of another model": Words(
        of(anthropic, "m"),
        "messages",
        {**CACHED, "iterations": [{**SUMMARY, "type": "advisor_message"}, {**CACHED, "type": "message"}]},
        10,
        30,
        APART,
    ),
    "google": Words(of(google, "m"), "gemini", GEMINI, 100, 30, HEARD),
    "vertex": Words(
        of(vertex, "gemini-2.5-flash", project="p", location="global", api_key=None, auth="token"),
        "gemini",
        {**GEMINI, "trafficType": "ON_DEMAND"},
        100,
        30,
        HEARD,
    ),
    "bedrock": Words(of(bedrock, "m", region="eu-west-1", api_key=None, auth="k"), "converse", CONVERSE, 10, 30, APART),
    "cohere": Words(of(cohere, "m"), "chat", PLAIN, 100, 30),
    "cohere: cached": Words(of(cohere, "m"), "chat", prompt(60), 100, 30, THOUGHT),
    "mistral: num_cached_tokens": Words(of(mistral, "m"), "chat", {**PLAIN, "num_cached_tokens": 60}, 100, 30, READ),
    "mistral: prompt_tokens_details": Words(
        of(mistral, "m"), "chat", {**PLAIN, "prompt_tokens_details": {"cached_tokens": 60}}, 100, 30, READ
    ),
    "mistral: prompt_audio_seconds": Words(of(mistral, "m"), "chat", {**PLAIN, "prompt_audio_seconds": 3}, 100, 30),
    "deepseek": Words(
        of(deepseek, "m"),
        "chat",
        {
            **PLAIN,
            "prompt_cache_hit_tokens": 60,
            "prompt_cache_miss_tokens": 40,
            "completion_tokens_details": {"reasoning_tokens": 20},
        },
        100,
        30,
        THOUGHT,
    ),
    "deepseek responses": Words(of(deepseek, "m", "responses"), "responses", RESPONSES, 100, 30, THOUGHT),
    "xai: reasoning apart": Words(of(xai, "m"), "chat", GROK, 100, 30, THOUGHT),
    "xai: reasoning within": Words(of(xai, "m"), "chat", prompt(60), 100, 30, THOUGHT),
    "xai responses": Words(of(xai, "m", "responses"), "responses", RESPONSES, 100, 30, THOUGHT),
    "xai messages": Words(of(xai, "m", "messages"), "messages", CACHED, 10, 30, APART),
    "openrouter": Words(
        of(openrouter, "m"),
        "chat",
        prompt(60, cache_write_tokens=30, audio_tokens=7, video_tokens=0),
        100,
        30,
        {**HEARD, "audio_tokens": 7, "cache_write_tokens": 30},
    ),
    "openrouter responses": Words(of(openrouter, "m", "responses"), "responses", RESPONSES, 100, 30, THOUGHT),
    "groq": Words(of(groq, "m"), "chat of groq", {**prompt(60), "queue_time": 0.1}, 100, 30, THOUGHT),
    "cerebras": Words(of(cerebras, "m"), "chat", prompt(60), 100, 30, THOUGHT),
    "moonshot": Words(of(moonshot, "m"), "chat of moonshot", {**PLAIN, "cached_tokens": 60}, 100, 30, READ),
    "together": Words(of(together, "m"), "chat", {**PLAIN, "cached_tokens": 60}, 100, 30, READ),
    "fireworks": Words(of(fireworks, "m"), "chat", prompt(60), 100, 30, THOUGHT),
    "huggingface": Words(of(huggingface, "m"), "chat", {**PLAIN, "cached_tokens": 60}, 100, 30, READ),
    "zai": Words(of(zai, "m"), "chat", prompt(60), 100, 30, THOUGHT),
    "perplexity": Words(
        of(perplexity, "m"),
        "chat",
        {**PLAIN, "reasoning_tokens": 20, "citation_tokens": 9},
        100,
        30,
        {"reasoning_tokens": 20},
    ),
    "litellm: a model of Anthropic": Words(
        of(litellm, "m"),
        "chat",
        {**PLAIN, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30},
        100,
        30,
        {**READ, "cache_write_tokens": 30},
    ),
    "ollama": Words(of(ollama, "m"), "ollama", {"prompt_eval_count": 100, "eval_count": 30}, 100, 30),
}

#: Costs that vendors report: model, dialect, usage, US dollars.
COSTS = {
    "openrouter": (of(openrouter, "m"), "chat", {**PLAIN, "cost": 0.00095}, 0.00095),
    "xai": (of(xai, "m"), "chat", {**GROK, "cost_in_usd_ticks": 232856000}, 0.0232856),
    "xai responses": (of(xai, "m", "responses"), "responses", {**RESPONSES, "cost_in_usd_ticks": 5}, 5e-10),
    "perplexity": (of(perplexity, "m"), "chat", {**PLAIN, "cost": {"request_cost": 0.005, "total_cost": 0.006}}, 0.006),
    "another host": (of(together, "m"), "chat", {**PLAIN, "cost": 0.5}, None),
}
