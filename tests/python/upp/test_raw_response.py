"""`turn.raw` and probabilities of tokens: what the vendor said, unchanged."""

import json

import pytest
from test_bedrock import STREAM, event

import turntree
from turntree.testing import RawReply, ToolCall, serve
from turntree.upp import ModelSettings, Turn, bedrock, llm, openai, tool

RAW = ModelSettings(raw=True)
LOGPROBS = [{"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": []}]
ANSWER = {
    "id": "resp_1",
    "model": "m",
    "status": "completed",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": LOGPROBS},
                {"type": "output_text", "text": " you", "annotations": [], "logprobs": []},
            ],
        }
    ],
    "of_the_vendor": {"b": 1, "a": [2.50]},
}


def responses(server):
    return openai("m", base_url=server.base_url, api_key="k")


@tool
def weather(city: str) -> str:
    """The weather."""
    return city


def test_raw_has_the_response_of_each_call():
    replies = [ToolCall("weather", {"city": "Oslo"}), "Cold."]
    with serve(replies) as server:
        agent = turntree.agent(model=openai("m", "completions", base_url=server.base_url, api_key="k"), tools=[weather])
        turn = agent.run_sync("Go", settings=RAW)
    assert [one["choices"][0]["finish_reason"] for one in turn.raw] == ["tool_calls", "stop"]
    assert Turn.model_validate_json(turn.model_dump_json()).raw == turn.raw


def test_raw_is_unchanged():
    with serve(lambda request: RawReply(json.dumps(ANSWER))) as server:
        turn = llm(model=responses(server), settings=RAW).generate_sync("Go")
        assert "raw" not in json.dumps(server.requests[0].json)
    assert turn.raw == [ANSWER]


def test_raw_of_a_stream_is_the_list_of_its_events():
    events = [
        {"type": "response.created", "response": {}},
        {"type": "response.output_text.delta", "delta": "Hi", "output_index": 0},
        {"type": "response.vendors_own", "x": 1},
        {"type": "response.completed", "response": ANSWER},
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    with serve(lambda request: RawReply(body, content_type="text/event-stream")) as server:
        stream = llm(model=responses(server), settings=RAW).stream_sync("Go")
        assert [event.type for event in stream][-1] == "message_stop"
    assert stream.turn.raw == [events]
    assert stream.turn.response.metadata["openai"]["logprobs"] == [LOGPROBS, None]


def test_events_of_bedrock_have_their_names():
    body = b"".join(event(name, payload) for name, payload in STREAM)
    reply = RawReply(body, content_type="application/vnd.amazon.eventstream")
    with serve(lambda request: reply) as server:
        model = bedrock("m", region="eu-west-1", base_url=server.base_url, access_key_id="a", secret_access_key="s")
        turn = llm(model=model, settings=RAW).stream_sync("Go").turn
    assert turn.raw == [[{name: payload} for name, payload in STREAM]]


def test_nothing_is_kept_without_the_setting():
    with serve(lambda request: RawReply(json.dumps(ANSWER))) as server:
        for settings in (None, ModelSettings(raw=False)):
            turn = llm(model=responses(server), settings=settings).generate_sync("Go")
            assert turn.raw == []
            assert "of_the_vendor" not in turn.model_dump_json()


def test_the_next_request_has_no_raw_response():
    with serve(lambda request: RawReply(json.dumps(ANSWER))) as server:
        model = llm(model=responses(server), settings=RAW)
        model.generate_sync(model.generate_sync("Go").messages, "Go on")
        assert "of_the_vendor" not in json.dumps(server.requests[1].json)


def test_probabilities_of_tokens_are_in_the_metadata():
    with serve(lambda request: RawReply(json.dumps(ANSWER))) as server:
        turn = llm(model=responses(server)).generate_sync("Go")
    assert turn.response.metadata["openai"]["logprobs"] == [LOGPROBS, None]


def test_raw_is_a_bool():
    with pytest.raises(TypeError, match=r"raw=.* must be a bool"):
        ModelSettings(raw=1)
