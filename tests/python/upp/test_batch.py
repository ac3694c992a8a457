"""`llm.batch` against the documented wire of each vendor."""

import json
from dataclasses import dataclass
from functools import partial

import pytest
from batch_support import Steps, VendorServer, lines, parts_of

from turntree.upp import (
    Batch,
    ErrorCode,
    ModelSettings,
    Turn,
    UPPError,
    UserMessage,
    _registry,
    anthropic,
    google,
    groq,
    llm,
    openai,
    scripted,
    tool,
)

KEY = "sk-secret-key"


@dataclass
class City:
    name: str


@pytest.fixture(scope="module")
def server():
    server = VendorServer()
    yield server
    server.close()


@pytest.fixture
def vendor(server):
    server.answers.clear()
    server.seen.clear()
    return server


@tool
def weather(city: str) -> str:
    """Return the weather."""
    raise AssertionError(city)


def responses_answer(text):
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    return {
        "id": "r",
        "object": "response",
        "status": "completed",
        "model": "gpt-5",
        "output": [message],
        "usage": usage,
    }


def chat_answer(text):
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return {"id": "c", "object": "chat.completion", "model": "gpt-5", "choices": [choice], "usage": usage}


def messages_answer(*content):
    usage = {"input_tokens": 3, "output_tokens": 2}
    head = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    return {**head, "content": list(content), "stop_reason": "end_turn", "usage": usage}


def google_answer(text):
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
    return {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2}}


def openai_line(place, body, status=200):
    response = {"status_code": status, "request_id": "req-1", "body": body}
    return {"id": f"batch_req_{place}", "custom_id": f"call-{place}", "response": response, "error": None}


def openai_batch(status, **members):
    return {"id": "batch_1", "object": "batch", "status": status, **members}


def texts(results):
    return [result.response.text if isinstance(result, Turn) else result.code for result in results]


async def test_openai_answers_in_the_order_of_the_inputs(vendor):
    refused = {"error": {"message": "too many", "code": "rate_limit_exceeded", "type": "requests"}}
    vendor.answers |= {
        "POST /v1/files": {"id": "file-in", "bytes": 1, "filename": "batch.jsonl"},
        "POST /v1/batches": openai_batch("validating"),
        "GET /v1/batches/batch_1": Steps(
            openai_batch("in_progress"),
            openai_batch("completed", output_file_id="file-out", error_file_id="file-errors"),
        ),
        "GET /v1/files/file-out/content": lines(
            openai_line(2, responses_answer("two")), openai_line(0, responses_answer("zero"))
        ),
        "GET /v1/files/file-errors/content": lines(openai_line(1, refused, 429)),
    }
    model = openai("gpt-5", base_url=vendor.url, api_key=KEY)
    bound = llm(model=model, system="Be brief.", settings=ModelSettings(max_tokens=50))

    batch = await bound.batch(["a", UserMessage("b"), ([UserMessage("before")], "c")])
    created = (batch.id, batch.status, len(batch))
    results = await batch.results(poll_interval=0.001)

    (_, content) = parts_of(*vendor.seen[0][2:])
    entries = [json.loads(line) for line in content[1].splitlines()]
    assert parts_of(*vendor.seen[0][2:])[0][1] == b"batch"
    assert [(entry["custom_id"], entry["method"], entry["url"]) for entry in entries] == [
        (f"call-{place}", "POST", "/v1/responses") for place in range(3)
    ]
    assert (entries[0]["body"]["model"], entries[0]["body"]["max_output_tokens"]) == ("gpt-5", 50)
    assert [item["content"] for item in entries[0]["body"]["input"]] == ["Be brief.", "a"]
    assert [item["content"] for item in entries[2]["body"]["input"]] == ["Be brief.", "before", "c"]
    assert json.loads(vendor.seen[1][3]) == {
        "input_file_id": "file-in",
        "endpoint": "/v1/responses",
        "completion_window": "24h",
    }
    assert created == ("openai:gpt-5#3#batch_1", "in_progress", 3)
    assert batch.status == "completed"
    assert texts(results) == ["zero", ErrorCode.RATE_LIMITED, "two"]
    assert [message.text for message in results[0].messages] == ["a", "zero"]
    assert [message.text for message in results[2].messages] == ["c", "two"]
    assert (results[0].usage.input_tokens, results[0].usage.cost) == (3, None)
    assert (results[1].message, results[1].status_code, results[1].vendor_code, results[1].request_id) == (
        "too many",
        429,
        "rate_limit_exceeded",
        "req-1",
    )


async def test_openai_completions_have_their_own_endpoint_and_id(vendor):
    vendor.answers |= {
        "POST /v1/files": {"id": "file-in"},
        "POST /v1/batches": openai_batch("validating"),
        "GET /v1/batches/batch_1": openai_batch("completed", output_file_id="file-out"),
        "GET /v1/files/file-out/content": lines(openai_line(0, chat_answer("yes"))),
    }
    model = openai("gpt-5", api="completions", base_url=vendor.url, api_key=KEY)

    batch = await llm(model=model).batch(["a"])

    assert json.loads(vendor.seen[1][3])["endpoint"] == "/v1/chat/completions"
    assert batch.id == "openai_chat:gpt-5#1#batch_1"
    assert texts(await batch.results()) == ["yes"]
    assert texts(await Batch.resume(batch.id, model).results()) == ["yes"]


async def test_anthropic_answers_in_the_order_of_the_inputs(vendor):
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens is missing"}}
    text = {"type": "text", "text": "one"}
    vendor.answers |= {
        "POST /v1/messages/batches": {"id": "msgbatch_1", "processing_status": "in_progress"},
        "GET /v1/messages/batches/msgbatch_1": {"id": "msgbatch_1", "processing_status": "ended"},
        "GET /v1/messages/batches/msgbatch_1/results": lines(
            {"custom_id": "call-3", "result": {"type": "expired"}},
            {"custom_id": "call-1", "result": {"type": "succeeded", "message": messages_answer(text)}},
            {"custom_id": "call-0", "result": {"type": "errored", "error": error}},
            {"custom_id": "call-2", "result": {"type": "canceled"}},
        ),
    }
    model = anthropic("claude-sonnet-4-5", base_url=vendor.url, api_key=KEY)
    batch = await llm(model=model, params={"max_tokens": 9}).batch(["a", "b", "c", "d", "e"])

    results = await batch.results()

    requests = json.loads(vendor.seen[0][3])["requests"]
    assert requests[1] == {
        "custom_id": "call-1",
        "params": {
            "model": "claude-sonnet-4-5",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "b"}]}],
        },
    }
    assert batch.id == "anthropic:claude-sonnet-4-5#5#msgbatch_1"
    assert texts(results) == [
        ErrorCode.INVALID_REQUEST,
        "one",
        ErrorCode.CANCELLED,
        ErrorCode.TIMEOUT,
        ErrorCode.INVALID_RESPONSE,
    ]
    assert (results[0].message, results[0].vendor_code) == ("max_tokens is missing", "invalid_request_error")


async def test_google_answers_in_the_order_of_the_inputs(vendor):
    path = "/v1/models/gemini-2.5-flash:batchGenerateContent"
    responses = [
        {"metadata": {"key": "call-1"}, "error": {"code": 3, "message": "bad", "status": "INVALID_ARGUMENT"}},
        {"metadata": {"key": "call-0"}, "response": google_answer("zero")},
    ]
    vendor.answers |= {
        f"POST {path}": {"name": "batches/b1", "metadata": {"state": "BATCH_STATE_PENDING"}},
        "GET /v1/batches/b1": Steps(
            {"name": "batches/b1", "metadata": {"state": "BATCH_STATE_RUNNING"}},
            {
                "name": "batches/b1",
                "metadata": {"state": "BATCH_STATE_SUCCEEDED"},
                "done": True,
                "response": {"inlinedResponses": {"inlinedResponses": responses}},
            },
        ),
    }
    model = google("gemini-2.5-flash", base_url=vendor.url, api_key=KEY)
    batch = await llm(model=model).batch(["a", "b"])

    results = await batch.results(poll_interval=0)

    requests = json.loads(vendor.seen[0][3])["batch"]["inputConfig"]["requests"]["requests"]
    assert requests[0] == {
        "request": {"contents": [{"role": "user", "parts": [{"text": "a"}]}]},
        "metadata": {"key": "call-0"},
    }
    assert batch.id == "google:gemini-2.5-flash#2#b1"
    assert texts(results) == ["zero", ErrorCode.INVALID_REQUEST]


async def test_another_process_finds_a_batch_by_its_id(vendor, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setitem(_registry._FACTORIES, "openai", partial(openai, base_url=vendor.url))
    vendor.answers |= {
        "GET /v1/batches/batch_1": openai_batch("completed", output_file_id="file-out"),
        "GET /v1/files/file-out/content": lines(openai_line(0, responses_answer("zero"))),
    }
    model = openai("gpt-5", base_url=vendor.url, api_key=KEY)
    id = "openai:gpt-5#2#batch_1"

    batch = Batch.resume(id)
    status = batch.status
    results = await batch.results()
    whole = await Batch.resume(id, llm(model=model), inputs=["a", "b"]).results()

    assert (batch.id, batch.vendor_id, status) == (id, "batch_1", "unknown")
    assert {headers["authorization"] for _, _, headers, _ in vendor.seen} == {f"Bearer {KEY}"}
    assert texts(results) == ["zero", ErrorCode.INVALID_RESPONSE]
    assert [message.text for message in results[0].messages] == ["zero"]
    assert [message.text for message in whole[0].messages] == ["a", "zero"]


async def test_structured_output_is_read_and_checked(vendor):
    vendor.answers |= {
        "POST /v1/files": {"id": "file-in"},
        "POST /v1/batches": openai_batch("validating"),
        "GET /v1/batches/batch_1": openai_batch("completed", output_file_id="file-out"),
        "GET /v1/files/file-out/content": lines(
            openai_line(0, responses_answer('{"name": "Kyoto"}')), openai_line(1, responses_answer('{"name": 5}'))
        ),
    }
    bound = llm(model=openai("gpt-5", base_url=vendor.url, api_key=KEY), structure=City, structure_repair=True)
    batch = await bound.batch(["a", "b"])

    results = await batch.results()
    resumed = await Batch.resume(batch.id, bound).results()

    for first, second in (results, resumed):
        assert first.data == City("Kyoto")
        assert second.code == ErrorCode.INVALID_RESPONSE


async def test_tools_are_sent_and_not_executed(vendor):
    use = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Kyoto"}}
    answer = {**messages_answer(use), "stop_reason": "tool_use"}
    vendor.answers |= {
        "POST /v1/messages/batches": {"id": "b", "processing_status": "in_progress"},
        "GET /v1/messages/batches/b": {"id": "b", "processing_status": "ended"},
        "GET /v1/messages/batches/b/results": lines(
            {"custom_id": "call-0", "result": {"type": "succeeded", "message": answer}}
        ),
    }
    model = anthropic("claude-sonnet-4-5", base_url=vendor.url, api_key=KEY)
    (turn,) = await (await llm(model=model, tools=[weather], params={"max_tokens": 9}).batch(["a"])).results()

    assert json.loads(vendor.seen[0][3])["requests"][0]["params"]["tools"][0]["name"] == "weather"
    assert [(call.tool_name, call.arguments) for call in turn.response.tool_calls] == [("weather", {"city": "Kyoto"})]


async def test_an_answer_that_the_vendor_paused_is_an_error(vendor):
    answer = {**messages_answer({"type": "text", "text": "wait"}), "stop_reason": "pause_turn"}
    vendor.answers |= {
        "GET /v1/messages/batches/b": {"id": "b", "processing_status": "ended"},
        "GET /v1/messages/batches/b/results": lines(
            {"custom_id": "call-0", "result": {"type": "succeeded", "message": answer}}
        ),
    }
    model = anthropic("claude-sonnet-4-5", base_url=vendor.url, api_key=KEY)

    (error,) = await Batch.resume("anthropic:claude-sonnet-4-5#1#b", model).results()

    assert error.code == ErrorCode.INVALID_RESPONSE
    assert "second call" in error.message


async def test_a_cancelled_batch_has_the_results_until_then(vendor):
    cancelled = openai_batch("cancelled", output_file_id="file-out")
    vendor.answers |= {
        "POST /v1/batches/batch_1/cancel": openai_batch("cancelling"),
        "GET /v1/batches/batch_1": Steps(openai_batch("cancelling"), cancelled),
        "GET /v1/files/file-out/content": lines(openai_line(1, responses_answer("one"))),
    }
    model = openai("gpt-5", base_url=vendor.url, api_key=KEY)
    batch = Batch.resume("openai:gpt-5#2#batch_1", model)

    await batch.cancel()

    assert batch.status == "cancelling"
    assert texts(await batch.results(poll_interval=0)) == [ErrorCode.CANCELLED, "one"]


async def test_a_batch_that_failed_raises_with_the_reason(vendor):
    errors = {"data": [{"code": "invalid_json_line", "message": "line 1 is not JSON", "line": 1}]}
    vendor.answers["GET /v1/batches/batch_1"] = openai_batch("failed", errors=errors)
    batch = Batch.resume("openai:gpt-5#2#batch_1", openai("gpt-5", base_url=vendor.url, api_key=KEY))

    with pytest.raises(UPPError, match="failed: line 1 is not JSON") as caught:
        await batch.results()

    assert caught.value.code == ErrorCode.INVALID_REQUEST


async def test_waiting_ends_after_the_timeout(vendor):
    vendor.answers["GET /v1/batches/batch_1"] = openai_batch("in_progress")
    batch = Batch.resume("openai:gpt-5#2#batch_1", openai("gpt-5", base_url=vendor.url, api_key=KEY))

    with pytest.raises(UPPError, match="is not over after 0 seconds; call") as caught:
        await batch.results(timeout=0)

    assert caught.value.code == ErrorCode.TIMEOUT


async def test_no_key_is_shown(vendor):
    batch = Batch.resume("openai:gpt-5#2#batch_9", openai("gpt-5", base_url=vendor.url, api_key=KEY))

    with pytest.raises(UPPError) as caught:
        await batch.refresh()

    assert KEY not in f"{batch!r} {batch.id} {caught.value!r} {caught.value.body}"
    assert repr(batch) == "Batch(id='openai:gpt-5#2#batch_9', status='unknown')"


@pytest.mark.parametrize("model", [groq("m", api_key=KEY), scripted([])], ids=["vendor", "scripted"])
async def test_other_vendors_are_refused_with_those_that_have_batches(model):
    with pytest.raises(UPPError, match=r"batches are not supported for .*anthropic or google or openai") as caught:
        await llm(model=model).batch(["a"])

    assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("inputs", "error", "text"),
    [
        ("a", TypeError, r"inputs must be a list of inputs, not str; write batch\(\[input\]\)"),
        ([], ValueError, "inputs is empty"),
        (["a", 5], UPPError, r"inputs\[1\]: .*int"),
    ],
)
async def test_wrong_inputs_are_named_before_a_request_is_sent(vendor, inputs, error, text):
    with pytest.raises(error, match=text):
        await llm(model=openai("gpt-5", base_url=vendor.url, api_key=KEY)).batch(inputs)

    assert vendor.seen == []


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((5,), TypeError, "id must be a str, not int"),
        (("batch_1",), ValueError, "id must be the id of a batch, such as"),
        (("openai:gpt-5#x#batch_1",), ValueError, "id must be the id of a batch, such as"),
        (("openai:gpt-5#1#../x",), ValueError, "vendor's id in id must be an id"),
        (("nobody:m#1#b",), ValueError, "unknown provider 'nobody'"),
        (("anthropic:m#1#b", "openai:gpt-5"), ValueError, "is one of anthropic, and llm has a model of openai"),
        (("openai:gpt-5#1#b", 5), TypeError, "model must come from a provider's factory"),
    ],
)
def test_a_wrong_id_is_explained(arguments, error, text):
    with pytest.raises(error, match=text):
        Batch.resume(*arguments)


def test_the_inputs_of_a_resumed_batch_have_its_length():
    with pytest.raises(ValueError, match="has 2 calls, and inputs has 1"):
        Batch.resume("openai:gpt-5#2#b", "openai:gpt-5", inputs=["a"])


@pytest.mark.parametrize(
    ("options", "error"),
    [({"poll_interval": "1"}, TypeError), ({"timeout": -1}, ValueError), ({"timeout": float("nan")}, ValueError)],
)
async def test_wrong_seconds_are_named(options, error):
    with pytest.raises(error, match=next(iter(options))):
        await Batch.resume("openai:gpt-5#2#b", "openai:gpt-5").results(**options)


def test_a_batch_is_not_constructed():
    with pytest.raises(TypeError, match="created by `await llm.batch"):
        Batch()


async def test_a_batch_of_google_is_cancelled_or_fails(vendor):
    cancelled = {"name": "batches/b1", "done": True, "metadata": {"state": "BATCH_STATE_CANCELLED"}}
    failed = {"name": "batches/b1", "done": True, "metadata": {}, "error": {"code": 13, "message": "broken"}}
    vendor.answers |= {"POST /v1/batches/b1:cancel": {}, "GET /v1/batches/b1": Steps(cancelled, cancelled, failed)}
    model = google("gemini-2.5-flash", base_url=vendor.url, api_key=KEY)
    batch = Batch.resume("google:gemini-2.5-flash#1#b1", model)

    await batch.cancel()
    results = await batch.results()

    assert (batch.status, texts(results)) == ("cancelled", [ErrorCode.CANCELLED])
    with pytest.raises(UPPError, match="failed: broken"):
        await batch.results()
