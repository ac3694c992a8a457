"""Why a model stopped, what happens with refused and paused answers, and what errors tell."""

import json

import pytest

from turntree.testing import RawReply, serve
from turntree.upp import ErrorCode, Turn, UPPError, anthropic, google, llm, openai


def chat(finish, message):
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}


def claude(reason, *texts):
    content = [{"type": "text", "text": text} for text in texts]
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    return {**head, "content": content, "stop_reason": reason, "stop_sequence": None, "usage": usage}


def gemini(reason, *texts):
    parts = {"role": "model", "parts": [{"text": text} for text in texts]}
    return {"candidates": [{"content": parts, "finishReason": reason}], "usageMetadata": {"promptTokenCount": 1}}


def openai_chat(model, **options):
    return openai(model, api="completions", **options)


def ask(factory, *bodies, status=200, headers=None, **options):
    replies = [RawReply(json.dumps(body), status, headers=headers or {}) for body in bodies]
    params = {"max_tokens": 10} if factory is anthropic else None
    with serve(replies) as server:
        model = factory("m", base_url=server.base_url, api_key="secret-key-1")
        return llm(model=model, params=params, **options).generate_sync("hi"), server.requests


@pytest.mark.parametrize(
    ("factory", "body", "expected"),
    [
        (openai_chat, chat("stop", {"content": "a"}), "end_turn"),
        (openai_chat, chat("length", {"content": "a"}), "max_tokens"),
        (openai_chat, chat("content_filter", {"content": "a"}), "content_filter"),
        (openai_chat, chat("stop", {"content": None, "refusal": "I cannot."}), "refusal"),
        (anthropic, claude("stop_sequence", "a"), "stop_sequence"),
        (anthropic, claude("refusal", "a"), "refusal"),
        (google, gemini("MAX_TOKENS", "a"), "max_tokens"),
        (google, gemini("SAFETY", "a"), "content_filter"),
        (google, gemini("LANGUAGE", "a"), "content_filter"),
    ],
)
def test_the_reason_has_the_same_words_for_all_vendors(factory, body, expected):
    turn, _ = ask(factory, body)
    assert turn.stop_reason == expected
    assert Turn.model_validate_json(turn.model_dump_json()).stop_reason == expected
    assert "stop_reason" not in turn.model_dump()


def test_calls_that_are_left_to_the_caller_are_tool_use():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn, _ = ask(openai_chat, chat("tool_calls", {"content": None, "tool_calls": [call]}))
    assert turn.stop_reason == "tool_use"


@pytest.mark.parametrize(("factory", "body"), [(anthropic, claude("refusal")), (google, gemini("SAFETY"))])
def test_a_refusal_without_content_raises_unless_it_is_returned(factory, body):
    with pytest.raises(UPPError) as caught:
        ask(factory, body)
    assert caught.value.code == ErrorCode.CONTENT_FILTERED
    turn, _ = ask(factory, body, on_refusal="return")
    assert turn.stop_reason in {"refusal", "content_filter"}


@pytest.mark.parametrize("reason", ["OTHER", "NO_IMAGE", "MALFORMED_FUNCTION_CALL", "FINISH_REASON_UNSPECIFIED"])
@pytest.mark.parametrize("member", [{}, {"content": {}}, {"content": {"role": "model", "parts": [{"text": ""}]}}])
def test_an_answer_without_content_is_no_silent_success(reason, member):
    body = {"candidates": [{**member, "finishReason": reason, "finishMessage": "it broke"}]}
    with pytest.raises(UPPError, match=rf"without content \({reason}: it broke\)") as caught:
        ask(google, body)
    assert caught.value.code == ErrorCode.PROVIDER_ERROR
    turn, _ = ask(google, body, on_refusal="return")
    assert (turn.stop_reason, turn.response.text) == ("error", "")


def test_a_stream_without_content_is_no_silent_success():
    frames = [{"candidates": [{"content": {"role": "model"}, "finishReason": "OTHER"}]}]
    reply = RawReply("".join(f"data: {json.dumps(frame)}\n\n" for frame in frames), content_type="text/event-stream")
    with serve(reply) as server:
        stream = llm(model=google("m", base_url=server.base_url, api_key="k")).stream_sync("hi")
        with pytest.raises(UPPError, match="ended the answer without content"):
            list(stream)


def test_a_reason_that_says_nothing_ends_an_answer():
    turn, _ = ask(google, gemini("OTHER", "a"))
    assert (turn.stop_reason, turn.response.text) == ("end_turn", "a")


@pytest.mark.parametrize("reason", ["STOP", "MAX_TOKENS"])
def test_an_empty_answer_says_why_the_model_stopped(reason):
    turn, _ = ask(google, gemini(reason))
    assert turn.stop_reason == {"STOP": "end_turn", "MAX_TOKENS": "max_tokens"}[reason]


def test_a_refusal_with_content_raises_on_request():
    with pytest.raises(UPPError, match="refused to answer") as caught:
        ask(anthropic, claude("refusal", "I stop here."), on_refusal="raise")
    assert caught.value.code == ErrorCode.CONTENT_FILTERED
    assert caught.value.partial.response.text == "I stop here."


def test_a_paused_answer_is_continued():
    turn, requests = ask(anthropic, claude("pause_turn", "Searching."), claude("end_turn", "Found."))
    assert [message["role"] for message in requests[1].json["messages"]] == ["user", "assistant"]
    assert (turn.response.text, turn.stop_reason, len(turn.messages)) == ("Found.", "end_turn", 3)


def test_errors_have_the_body_the_headers_and_the_words_of_the_vendor():
    error = {"message": "Bad secret-key-1", "type": "invalid_request_error", "code": "bad_value", "param": "top_p"}
    headers = {"X-Shard": "7", "Set-Cookie": "session=abc"}
    with pytest.raises(UPPError) as caught:
        ask(openai_chat, {"error": error}, status=400, headers=headers)
    failure = caught.value
    assert (failure.vendor_code, failure.param) == ("bad_value", "top_p")
    assert json.loads(failure.body)["error"]["message"] == "Bad ***"
    assert (failure.headers["x-shard"], failure.headers["set-cookie"]) == ("7", "***")


def test_a_path_that_does_not_exist_is_a_question_about_the_base_url():
    with pytest.raises(UPPError, match="is the base URL right") as caught:
        ask(openai_chat, {"detail": "Not Found"}, status=404)
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    with pytest.raises(UPPError) as caught:
        ask(openai_chat, {"error": {"message": "The model `m` does not exist", "code": "model_not_found"}}, status=404)
    assert caught.value.code == ErrorCode.MODEL_NOT_FOUND
