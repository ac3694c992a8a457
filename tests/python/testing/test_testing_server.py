"""The loopback server, read with the standard library's own HTTP client."""

import json
import urllib.error
import urllib.request

import pytest
from testing_server_support import APIS, ask, parse, question

from turntree.testing import Reply, ToolCall, serve


def ask_json(server, api, body):
    status, headers, raw = ask(server, api, body)
    assert status == 200, raw
    assert headers["content-type"] == "application/json"
    return json.loads(raw)


def ask_events(server, api, body):
    """Send a POST request and return the events of the stream as (name, data)."""
    status, headers, raw = ask(server, api, body)
    assert status == 200, raw
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["transfer-encoding"] == "chunked"
    return parse(raw)


# Good replies


def test_chat_reply_contains_text():
    with serve(["Hello there"]) as server:
        body = ask_json(server, "openai-chat", question("openai-chat"))

    assert body["object"] == "chat.completion"
    assert body["model"] == "test-model"
    choice = body["choices"][0]
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"] == "Hello there"
    assert choice["finish_reason"] == "stop"
    usage = body["usage"]
    assert usage["completion_tokens"] == 3
    assert usage["total_tokens"] == usage["prompt_tokens"] + 3


def test_chat_stream_of_text_and_parallel_tool_calls():
    calls = [ToolCall("weather", {"city": "Tokyo"}), ToolCall("now")]
    with serve([Reply("Let me look.", tool_calls=calls, input_tokens=7, output_tokens=5)]) as server:
        events = ask_events(server, "openai-chat", question("openai-chat", stream=True))

    assert events[-1] == (None, "[DONE]")
    chunks = [data for _, data in events[:-1]]
    assert {chunk["id"] for chunk in chunks} == {"chatcmpl-00000001"}
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks[:-1]]
    assert deltas[0]["role"] == "assistant"
    assert [d["content"] for d in deltas if d.get("content")] == ["Let", " me", " look."]
    fragments = [call for d in deltas for call in d.get("tool_calls", [])]
    assert [(f["index"], f["id"], f["function"]["name"]) for f in fragments if "id" in f] == [
        (0, "call_1", "weather"),
        (1, "call_2", "now"),
    ]
    arguments = ["", ""]
    for fragment in fragments:
        arguments[fragment["index"]] += fragment["function"]["arguments"]
    assert arguments == ['{"city":"Tokyo"}', "{}"]
    assert sum(f["index"] == 0 for f in fragments) == 3
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["prompt_tokens"] == 7
    assert chunks[-1]["usage"]["total_tokens"] == 12


def test_chat_stream_has_no_usage_unless_requested():
    with serve(["Hello"]) as server:
        asked = question("openai-chat", stream=True, stream_options={})
        events = ask_events(server, "openai-chat", asked)

    assert all("usage" not in data for _, data in events[:-1])


def test_chat_thinking_is_reasoning_content():
    with serve(Reply("42", thinking="Let me think")) as server:
        whole = ask_json(server, "openai-chat", question("openai-chat"))
        events = ask_events(server, "openai-chat", question("openai-chat", stream=True))

    assert whole["choices"][0]["message"]["reasoning_content"] == "Let me think"
    assert whole["usage"]["completion_tokens_details"]["reasoning_tokens"] == 3
    deltas = [data["choices"][0]["delta"] for _, data in events[:-2]]
    assert "".join(d.get("reasoning_content", "") for d in deltas) == "Let me think"


def test_anthropic_reply_contains_thinking_text_and_tools():
    reply = Reply(
        "I will look.",
        thinking="Which city?",
        signature="c2ln",
        tool_calls=[ToolCall("weather", {"city": "Tokyo"}, id="toolu_9")],
        cached_tokens=4,
        input_tokens=10,
        output_tokens=6,
    )
    with serve([reply]) as server:
        body = ask_json(server, "anthropic-messages", question("anthropic-messages"))

    assert body["type"] == "message"
    assert body["content"] == [
        {"type": "thinking", "thinking": "Which city?", "signature": "c2ln"},
        {"type": "text", "text": "I will look."},
        {"type": "tool_use", "id": "toolu_9", "name": "weather", "input": {"city": "Tokyo"}},
    ]
    assert body["stop_reason"] == "tool_use"
    assert body["usage"]["input_tokens"] == 6
    assert body["usage"]["cache_read_input_tokens"] == 4
    assert body["usage"]["output_tokens"] == 6


def test_anthropic_stream_events():
    reply = Reply(
        "I will look.",
        thinking="Which city?",
        signature="c2ln",
        tool_calls=[ToolCall("weather", {"city": "Tokyo"})],
        output_tokens=6,
    )
    with serve([reply]) as server:
        events = ask_events(server, "anthropic-messages", question("anthropic-messages", stream=True))

    assert all(name == data["type"] for name, data in events)
    names = [name for name, _ in events]
    assert names[0] == "message_start"
    assert names[1:3] == ["content_block_start", "ping"]
    assert names[-2:] == ["message_delta", "message_stop"]
    deltas = [data for name, data in events if name == "content_block_delta"]

    def joined(index, key):
        return "".join(d["delta"].get(key, "") for d in deltas if d["index"] == index)

    assert joined(0, "thinking") == "Which city?"
    assert joined(0, "signature") == "c2ln"
    assert joined(1, "text") == "I will look."
    assert joined(2, "partial_json") == '{"city":"Tokyo"}'
    starts = [data["content_block"] for name, data in events if name == "content_block_start"]
    assert starts[2] == {"type": "tool_use", "id": "call_1", "name": "weather", "input": {}}
    assert events[-2][1]["delta"]["stop_reason"] == "tool_use"
    assert events[-2][1]["usage"]["output_tokens"] == 6


def test_responses_output_items():
    reply = Reply(
        "Looking.",
        thinking="Which city?",
        signature="opaque",
        tool_calls=[ToolCall("weather", {"city": "Tokyo"})],
    )
    with serve([reply]) as server:
        body = ask_json(server, "openai-responses", question("openai-responses"))

    assert body["status"] == "completed"
    reasoning, message, call = body["output"]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "Which city?"}]
    assert reasoning["encrypted_content"] == "opaque"
    assert message["content"][0]["text"] == "Looking."
    assert (call["call_id"], call["id"], call["name"]) == ("call_1", "fc_call_1", "weather")
    assert call["arguments"] == '{"city":"Tokyo"}'
    usage = body["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_responses_stream_events():
    reply = Reply("Looking.", thinking="Which city?", tool_calls=[ToolCall("weather", {"city": "Tokyo"})])
    with serve([reply]) as server:
        events = ask_events(server, "openai-responses", question("openai-responses", stream=True))

    assert all(name == data["type"] for name, data in events)
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    names = [name for name, _ in events]
    assert names[:2] == ["response.created", "response.in_progress"]
    assert names[-1] == "response.completed"
    assert names.count("response.output_item.added") == 3

    def joined(name):
        return "".join(data["delta"] for kind, data in events if kind == name)

    assert joined("response.reasoning_summary_text.delta") == "Which city?"
    assert joined("response.output_text.delta") == "Looking."
    assert joined("response.function_call_arguments.delta") == '{"city":"Tokyo"}'
    done = [data["item"] for name, data in events if name == "response.output_item.done"]
    assert done == events[-1][1]["response"]["output"]
    assert events[0][1]["response"]["usage"] is None
    assert events[-1][1]["response"]["usage"]["output_tokens"] > 0


@pytest.mark.parametrize(
    ("api", "place", "expected"),
    [
        ("openai-chat", lambda body: body["choices"][0]["finish_reason"], "length"),
        ("anthropic-messages", lambda body: body["stop_reason"], "max_tokens"),
        (
            "openai-responses",
            lambda body: (body["status"], body["incomplete_details"]["reason"]),
            ("incomplete", "max_output_tokens"),
        ),
    ],
)
def test_finish_reason_is_translated_for_each_api(api, place, expected):
    with serve(Reply("cut", finish="length")) as server:
        assert place(ask_json(server, api, question(api))) == expected


@pytest.mark.parametrize("api", APIS)
def test_joined_fragments_equal_the_text(api):
    text = "  A line,\n\nа строка, 日本語 🌸  "
    with serve(Reply(text, fragment=3)) as server:
        events = ask_events(server, api, question(api, stream=True))

    pieces = []
    for _, data in events:
        if data == "[DONE]":
            continue
        if api == "openai-chat" and data["choices"]:
            pieces.append(data["choices"][0]["delta"].get("content") or "")
        elif data.get("type") == "content_block_delta":
            pieces.append(data["delta"]["text"])
        elif data.get("type") == "response.output_text.delta":
            pieces.append(data["delta"])
    assert "".join(pieces) == text
    assert max(map(len, pieces)) == 3


# Scripts and records


def test_script_can_be_one_reply_or_a_function():
    with serve("always") as server:
        for _ in range(2):
            body = ask_json(server, "openai-chat", question("openai-chat"))
            assert body["choices"][0]["message"]["content"] == "always"
    with serve(lambda request: f"{request.number}: {request.user_text}") as server:
        body = ask_json(server, "anthropic-messages", question("anthropic-messages", "Who?"))
        assert body["content"][0]["text"] == "1: Who?"


def test_exhausted_script_returns_a_clear_error():
    with serve(["one"]) as server:
        ask_json(server, "openai-chat", question("openai-chat"))
        status, _, raw = ask(server, "openai-chat", question("openai-chat"))

    assert status == 400
    message = json.loads(raw)["error"]["message"]
    assert message == "the script has 1 replies, and this is request 2"


@pytest.mark.parametrize("script", [[3], {"text": "no"}, [[]], [["text"]], None])
def test_invalid_script_raises_type_error(script):
    with pytest.raises(TypeError, match="reply"):
        serve(script)


def test_exception_from_a_script_is_raised_in_the_test():
    def script(request):
        raise AssertionError("unexpected question")

    with pytest.raises(AssertionError, match="unexpected question"), serve(script) as server:
        status, _, raw = ask(server, "openai-chat", question("openai-chat"))
        assert status == 500
        assert b"unexpected question" in raw


def test_requests_are_recorded():
    with serve(["one"]) as server:
        ask(server, "openai-chat", question("openai-chat", "Hello?", temperature=0))

    (request,) = server.requests
    assert (request.number, request.method, request.path) == (1, "POST", "/v1/chat/completions")
    assert request.api == "openai-chat"
    assert request.headers["authorization"] == "Bearer test"
    assert request.json["temperature"] == 0
    assert (request.model, request.stream) == ("test-model", False)
    assert request.user_text == "Hello?"
    assert request.wait(30) == "sent"
    assert "Bearer" not in repr(request)


TOOL_HISTORIES = {
    "openai-chat": [
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}, {"id": "b"}]},
        {"role": "tool", "tool_call_id": "a", "content": "sunny"},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "rain"}]},
    ],
    "openai-responses": [
        {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        {"type": "function_call", "call_id": "a"},
        {"type": "function_call", "call_id": "b"},
        {"type": "function_call_output", "call_id": "a", "output": "sunny"},
        {"type": "function_call_output", "call_id": "b", "output": "rain"},
    ],
    "anthropic-messages": [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a"}, {"type": "tool_use", "id": "b"}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": "sunny"}],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "b",
                    "content": [{"type": "text", "text": "rain"}],
                }
            ],
        },
    ],
}


def with_history(api, messages):
    key = "input" if api == "openai-responses" else "messages"
    return question(api, **{key: messages})


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses"])
def test_request_exposes_tool_results(api):
    with serve("ok") as server:
        ask_json(server, api, with_history(api, TOOL_HISTORIES[api]))

    (request,) = server.requests
    assert request.tool_results == {"a": "sunny", "b": "rain"}
    assert request.user_text == "Weather?"


def test_request_exposes_anthropic_tool_results():
    with serve("ok") as server:
        history = TOOL_HISTORIES["anthropic-messages"]
        ask_json(server, "anthropic-messages", with_history("anthropic-messages", history))

    (request,) = server.requests
    assert request.tool_results == {"b": "rain"}
    assert request.user_text == "Weather?"


# Requests that the vendor would reject


@pytest.mark.parametrize("api", APIS)
def test_missing_key_returns_status_401(api):
    with serve("never") as server:
        status, _, raw = ask(server, api, question(api), headers={"anthropic-version": "x"})

    assert status == 401
    assert json.loads(raw)["error"]["message"]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("missing", ["model", "messages"])
def test_missing_field_returns_status_400(api, missing):
    body = question(api)
    del body["input" if (api, missing) == ("openai-responses", "messages") else missing]

    with serve("never") as server:
        status, _, _ = ask(server, api, body)

    assert status == 400


@pytest.mark.parametrize("api", APIS)
def test_tool_call_without_result_returns_status_400(api):
    body = with_history(api, TOOL_HISTORIES[api][:-1])

    with serve(["used later"]) as server:
        status, _, raw = ask(server, api, body)
        after, _, _ = ask(server, api, question(api))

    assert status == 400
    assert b"b" in raw
    assert after == 200  # a rejected request does not consume a reply of the script


@pytest.mark.parametrize("api", APIS)
def test_result_without_tool_call_returns_status_400(api):
    results = TOOL_HISTORIES[api][-1:]
    body = with_history(api, [TOOL_HISTORIES[api][0], *results])

    with serve("never") as server:
        status, _, _ = ask(server, api, body)

    assert status == 400


def test_lenient_server_rejects_nothing():
    with serve("fine", strict=False) as server:
        status, _, _ = ask(server, "openai-chat", {}, headers={})

    assert status == 200


def test_unknown_paths_and_methods_return_vendor_errors():
    with serve("never") as server:
        for path, status in (("/v2/things", 404), ("/v1/responses", 405)):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(server.url + path, timeout=30)
            with caught.value as error:
                assert error.code == status
                assert "message" in json.loads(error.read())["error"]
