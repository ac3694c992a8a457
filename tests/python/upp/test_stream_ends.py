"""How streams of Chat Completions end: errors without `error`, and `[DONE]` without a finish reason."""

import json

import pytest

from turntree.upp import ErrorCode, HttpResponse, UPPError, llm, openai_compatible


def frame(data, event=None):
    text = data if isinstance(data, str) else json.dumps(data)
    return f"event: {event}\ndata: {text}\n\n" if event else f"data: {text}\n\n"


def delta(**members):
    return frame({"id": "1", "choices": [{"index": 0, "delta": members}]})


def stream_of(*frames):
    class Fixed:
        async def send(self, request):
            return HttpResponse(headers={"content-type": "text/event-stream"}, body="".join(frames))

    return llm(model=openai_compatible("m", "https://nowhere.invalid/v1", transport=Fixed())).stream("Hi")


@pytest.mark.parametrize(
    ("failure", "message", "code"),
    [
        (
            frame({"object": "error", "message": "the engine is dead", "type": "InternalServerError", "code": 500}),
            "the engine is dead",
            ErrorCode.PROVIDER_ERROR,
        ),
        (frame({"detail": "Not today"}), "Not today", ErrorCode.PROVIDER_ERROR),
        (
            frame({"detail": [{"loc": ["body", "n"], "msg": "n must be 1", "type": "value_error"}]}),
            "n must be 1",
            ErrorCode.PROVIDER_ERROR,
        ),
        (frame("out of memory", "error"), "out of memory", ErrorCode.PROVIDER_ERROR),
        (frame({"message": "slow down", "type": "rate_limit_error"}, "error"), "slow down", ErrorCode.RATE_LIMITED),
        (frame({"error": {"message": "no", "type": "invalid_request_error"}}), "no", ErrorCode.INVALID_REQUEST),
    ],
    ids=["vllm", "fastapi", "fastapi list", "text", "event", "error"],
)
@pytest.mark.parametrize("begun", [False, True])
async def test_error_in_a_stream_has_its_text(failure, message, code, begun):
    frames = [delta(content="Hel"), failure] if begun else [failure]

    with pytest.raises(UPPError) as caught:
        await stream_of(*frames, "data: [DONE]\n\n").turn

    assert message in caught.value.message
    assert caught.value.code == code


async def test_done_without_a_finish_reason_is_whole():
    turn = await stream_of(delta(content="Hel"), delta(content="lo."), "data: [DONE]\n\n").turn

    assert turn.response.text == "Hello."
    assert turn.stop_reason == "end_turn"


@pytest.mark.parametrize("frames", [[delta(content="Hel")], ["data: [DONE]\n\n"], []], ids=["cut", "only", "empty"])
async def test_stream_without_an_end_is_cut_short(frames):
    with pytest.raises(UPPError) as caught:
        await stream_of(*frames).turn

    assert caught.value.code == ErrorCode.INVALID_RESPONSE


async def test_calls_before_done_are_made():
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}

    stream = stream_of(delta(tool_calls=[call]), "data: [DONE]\n\n")

    events = [event async for event in stream if event.type == "tool_call_delta"]
    assert events[0].delta["toolName"] == "weather"
