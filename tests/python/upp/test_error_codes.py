"""The code of each error that vendors report, whole and inside streams. UPP-1.2 §12."""

import json

import pytest

from turntree.testing import RawReply, serve
from turntree.upp import (
    ErrorCode,
    UPPError,
    anthropic,
    bedrock,
    google,
    groq,
    llm,
    mistral,
    ollama,
    openai,
    openai_compatible,
    xai,
)

KEY = {"api_key": "k", "retry_strategy": None}


def chat(message, kind="invalid_request_error", code=None, **members):
    return {"error": {"message": message, "type": kind, "code": code, **members}}


def messages(kind, message):
    return {"type": "error", "error": {"type": kind, "message": message}}


def gemini(code, status, message):
    return {"error": {"code": code, "status": status, "message": message}}


MODELS = {
    "anthropic": lambda url: anthropic("m", base_url=url, **KEY),
    "bedrock": lambda url: bedrock("m", "eu-west-1", base_url=url, auth="k", retry_strategy=None),
    "compatible": lambda url: openai_compatible("m", url, **KEY),
    "google": lambda url: google("m", base_url=url, **KEY),
    "groq": lambda url: groq("m", base_url=url, **KEY),
    "mistral": lambda url: mistral("m", base_url=url, **KEY),
    "ollama": lambda url: ollama("m", base_url=url, retry_strategy=None),
    "openai": lambda url: openai("m", base_url=url, **KEY),
    "openai chat": lambda url: openai("m", "completions", base_url=url, **KEY),
    "xai": lambda url: xai("m", base_url=url, **KEY),
}

LENGTH, RATE, FILTERED = ErrorCode.CONTEXT_LENGTH_EXCEEDED, ErrorCode.RATE_LIMITED, ErrorCode.CONTENT_FILTERED
MODEL, REQUEST, VENDOR = ErrorCode.MODEL_NOT_FOUND, ErrorCode.INVALID_REQUEST, ErrorCode.PROVIDER_ERROR
ROWS = {
    "context length of Anthropic": (
        "anthropic",
        400,
        messages("invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"),
        LENGTH,
    ),
    "input and max_tokens of Anthropic": (
        "anthropic",
        400,
        messages(
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
        ),
        LENGTH,
    ),
    "size of a request to Anthropic": ("anthropic", 413, messages("request_too_large", "Request exceeds"), LENGTH),
    "context length of xAI": (
        "xai",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        },
        LENGTH,
    ),
    "context length of OpenAI": ("openai", 400, chat("too long", code="context_length_exceeded"), LENGTH),
    "context length of Gemini": (
        "google",
        400,
        gemini(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ),
        LENGTH,
    ),
    "context length of vLLM": (
        "compatible",
        400,
        {"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400},
        LENGTH,
    ),
    "context length of Bedrock": ("bedrock", 400, {"message": "Input is too long for requested model."}, LENGTH),
    "Groq's tokens per minute": (
        "groq",
        413,
        chat(
            "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000",
            "tokens",
            "rate_limit_exceeded",
        ),
        RATE,
    ),
    "a prompt against the policy": (
        "openai",
        400,
        chat("Invalid prompt: your prompt was flagged as violating our usage policy.", code="invalid_prompt"),
        FILTERED,
    ),
    "a prompt of a wrong form": (
        "openai",
        400,
        chat("Invalid prompt: expected a list", code="invalid_prompt"),
        REQUEST,
    ),
    "a decommissioned model": (
        "groq",
        400,
        chat("The model `m` has been decommissioned and is no longer supported.", code="model_decommissioned"),
        MODEL,
    ),
    "a deprecated model": ("openai", 404, chat("The model `m` has been deprecated", code="model_not_found"), MODEL),
    "an unknown model of Anthropic": ("anthropic", 404, messages("not_found_error", "model: m"), MODEL),
    "an unknown model of Gemini": (
        "google",
        404,
        gemini(404, "NOT_FOUND", "models/m is not found for API version v1beta"),
        MODEL,
    ),
    "an unknown model of Ollama": ("ollama", 404, {"error": 'model "m" not found, try pulling it first'}, MODEL),
    "an unknown model of Mistral": (
        "mistral",
        400,
        {"object": "error", "message": "Invalid model: m", "type": "invalid_model", "code": "1500"},
        MODEL,
    ),
    "a page that is not there": ("openai", 404, "<html>404 Not Found</html>", REQUEST),
    "a path that is not there": ("compatible", 404, {"detail": "Not Found"}, REQUEST),
    "the time limit of Gemini": (
        "google",
        504,
        gemini(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),
        ErrorCode.TIMEOUT,
    ),
    "overload of Anthropic": ("anthropic", 529, messages("overloaded_error", "Overloaded"), VENDOR),
    "overload of Gemini": ("google", 503, gemini(503, "UNAVAILABLE", "The model is overloaded."), VENDOR),
    "overload of OpenAI": ("openai chat", 503, chat("Overloaded", "server_error"), VENDOR),
    "throttling of Bedrock": ("bedrock", 429, {"message": "Too many requests"}, RATE),
    "no credit": ("openai", 429, chat("You exceeded your quota", "insufficient_quota"), ErrorCode.QUOTA_EXCEEDED),
}


def failure(vendor, reply, *, streamed):
    with serve(lambda request: reply) as server:
        url = server.url if vendor in ("bedrock", "ollama") else server.base_url
        model = llm(model=MODELS[vendor](url), params={"max_tokens": 9} if vendor == "anthropic" else {})
        with pytest.raises(UPPError) as caught:
            list(model.stream_sync("hi")) if streamed else model.generate_sync("hi")
    return caught.value


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("vendor", "status", "body", "code"), ROWS.values(), ids=ROWS)
def test_the_code_of_an_error(vendor, status, body, code, streamed):
    text = body if isinstance(body, str) else json.dumps(body)
    error = failure(vendor, RawReply(text, status=status), streamed=streamed)
    assert (error.code, error.status_code, error.body) == (code, status, text)


def test_a_path_that_is_not_there_asks_about_the_base_url():
    for body in ("<html>404 Not Found</html>", '{"detail": "Not Found"}'):
        error = failure("compatible", RawReply(body, status=404), streamed=False)
        assert "/v1/chat/completions" in error.message
        assert "is the base URL right?" in error.message


# The same errors as events of a stream that has begun with status 200.
EVENTS = {
    "Anthropic": ("anthropic", f"event: error\ndata: {json.dumps(messages('overloaded_error', 'Overloaded'))}\n\n"),
    "Gemini": ("google", f"data: {json.dumps(gemini(503, 'UNAVAILABLE', 'Overloaded'))}\n\n"),
    "Chat": ("openai chat", f"data: {json.dumps(chat('Overloaded', 'server_error'))}\n\n"),
    "Responses": (
        "openai",
        f"data: {json.dumps({'type': 'error', 'code': 'server_error', 'message': 'Overloaded'})}\n\n",
    ),
}


@pytest.mark.parametrize(("vendor", "body"), EVENTS.values(), ids=EVENTS)
def test_overload_has_one_code_in_streams_and_outside(vendor, body):
    error = failure(vendor, RawReply(body, content_type="text/event-stream"), streamed=True)
    assert error.code == VENDOR
    assert "Overloaded" in error.message
