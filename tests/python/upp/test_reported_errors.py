"""Errors of servers and gateways in responses that say success, and byte order marks before bodies."""

import json

import pytest

from turntree.upp import (
    ErrorCode,
    HttpResponse,
    UPPError,
    anthropic,
    bedrock,
    embedding,
    files,
    google,
    image,
    llm,
    ollama,
    openai,
)

KEY = {"api_key": "k"}
MARK = "\ufeff"

#: A model and the content type of its streams; Bedrock's are not text.
VENDORS = {
    "chat": (lambda **o: openai("m", "completions", **KEY, **o), "text/event-stream"),
    "responses": (lambda **o: openai("m", **KEY, **o), "text/event-stream"),
    "anthropic": (lambda **o: anthropic("m", **KEY, **o), "text/event-stream"),
    "google": (lambda **o: google("m", **KEY, **o), "text/event-stream"),
    "ollama": (lambda **o: ollama("m", **o), "application/x-ndjson"),
    "bedrock": (lambda **o: bedrock("m", region="us-east-1", auth="k", **o), None),
}

#: What servers send, and the code it has.
REPORTS = {
    "FastAPI": ({"detail": "Not today"}, ErrorCode.PROVIDER_ERROR),
    "FastAPI, a list": (
        {"detail": [{"loc": ["body", "n"], "msg": "Not today", "type": "value_error"}]},
        ErrorCode.PROVIDER_ERROR,
    ),
    "a text": ({"error": "Not today"}, ErrorCode.PROVIDER_ERROR),
    "an object": ({"error": {"message": "Not today", "type": "rate_limit_error"}}, ErrorCode.RATE_LIMITED),
    "a mark": ({"error": True, "message": "Not today"}, ErrorCode.PROVIDER_ERROR),
    "vLLM": (
        {"object": "error", "message": "Not today", "type": "BadRequestError", "code": 400},
        ErrorCode.INVALID_REQUEST,
    ),
    "a message": ({"message": "Not today"}, ErrorCode.PROVIDER_ERROR),
    "msg": ({"success": False, "msg": "Not today", "code": 401}, ErrorCode.AUTHENTICATION_FAILED),
    "a list": ([{"error": {"message": "Not today", "status": "RESOURCE_EXHAUSTED"}}], ErrorCode.RATE_LIMITED),
    "errors": ({"success": False, "errors": [{"message": "Not today"}]}, ErrorCode.PROVIDER_ERROR),
    "errors by member": ({"errors": {"model": ["Not today", "not found"]}}, ErrorCode.PROVIDER_ERROR),
    "an object in detail": ({"detail": {"message": "Not today", "request_id": "1"}}, ErrorCode.PROVIDER_ERROR),
    "Databricks": ({"error_code": "RATE_LIMITED", "message": "Not today"}, ErrorCode.RATE_LIMITED),
    "Baidu": ({"error_code": 429, "error_msg": "Not today"}, ErrorCode.RATE_LIMITED),
    "AWS Lambda": ({"errorType": "ValueError", "errorMessage": "Not today"}, ErrorCode.PROVIDER_ERROR),
    "MiniMax": ({"base_resp": {"status_code": 1004, "status_msg": "Not today"}}, ErrorCode.PROVIDER_ERROR),
    "Apigee": (
        {"fault": {"faultstring": "Not today", "detail": {"errorcode": "oauth.v2.InvalidApiKey"}}},
        ErrorCode.PROVIDER_ERROR,
    ),
}


def model_of(vendor, content_type, body):
    class Fixed:
        async def send(self, request):
            return HttpResponse(headers={"content-type": content_type}, body=body.encode())

    make, _ = VENDORS[vendor]
    return llm(model=make(transport=Fixed()), params={"max_tokens": 9})


def framed(vendor, data):
    return f"data: {data}\n\n" if VENDORS[vendor][1] == "text/event-stream" else f"{data}\n"


FORMS = [(vendor, form) for vendor in VENDORS for form in ("whole", "frame", "json")]
#: The events of Bedrock have names, so that they are not taken for something else.
FORMS.remove(("bedrock", "frame"))


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize(("vendor", "form"), FORMS)
async def test_the_vendors_word_is_raised(vendor, report, form):
    document, code = REPORTS[report]
    body, streams = json.dumps(document), VENDORS[vendor][1]
    with pytest.raises(UPPError) as caught:
        if form == "whole":
            await model_of(vendor, "application/json", body).generate("hi")
        elif form == "frame":
            await model_of(vendor, streams, framed(vendor, body)).stream("hi").turn
        else:
            await model_of(vendor, "application/json", body).stream("hi").turn

    assert "Not today" in caught.value.message
    assert caught.value.code == code
    assert caught.value.status_code == (None if form == "json" and vendor != "ollama" else 200)


@pytest.mark.parametrize("vendor", [name for name, (_, streams) in VENDORS.items() if streams == "text/event-stream"])
async def test_an_error_after_the_beginning_of_a_stream(vendor):
    beginning = {
        "chat": {"id": "c", "choices": [{"index": 0, "delta": {"content": "Hel"}}]},
        "responses": {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hel"},
        "anthropic": {"type": "message_start", "message": {"id": "m", "type": "message", "content": [], "usage": {}}},
        "google": {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hel"}]}}]},
    }[vendor]
    frames = [framed(vendor, json.dumps(data)) for data in (beginning, {"detail": "Not today"})]

    with pytest.raises(UPPError, match="Not today") as caught:
        await model_of(vendor, "text/event-stream", "".join(frames)).stream("hi").turn

    assert caught.value.code == ErrorCode.PROVIDER_ERROR


async def test_the_body_and_the_code_of_the_vendor_are_kept():
    body = json.dumps({"detail": "Not today", "code": "maintenance"})

    with pytest.raises(UPPError) as caught:
        await model_of("google", "application/json", body).generate("hi")

    assert (caught.value.body, caught.value.vendor_code) == (body, "maintenance")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"error": "invalid_grant", "error_description": "Not today"}, "invalid_grant: Not today"),
        ({"error": "Bad Gateway", "message": "Not today"}, "Bad Gateway: Not today"),
        ({"error": "Not today", "message": "Not today"}, "Not today"),
        ({"error": "unavailable", "message": "the host is unavailable"}, "the host is unavailable"),
        ({"error": "Conflict", "reason": "Not today"}, "Conflict: Not today"),
        ({"error": {"code": "busy", "description": "Not today"}}, "Not today"),
        ({"error": ["Not today", "nor tomorrow"]}, "Not today"),
        ({"title": "Too busy", "status": 503, "detail": "Not today"}, "Too busy: Not today"),
    ],
)
@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_name_and_its_explanation_are_both_in_the_message(vendor, document, message):
    body = json.dumps(document)
    with pytest.raises(UPPError) as caught:
        await model_of(vendor, "application/json", body).generate("hi")
    assert caught.value.message == message

    class Refusing:
        async def send(self, request):
            return HttpResponse(409, {"content-type": "application/json"}, body)

    make, _ = VENDORS[vendor]
    with pytest.raises(UPPError) as caught:
        await llm(model=make(transport=Refusing(), max_retries=0), params={"max_tokens": 9}).generate("hi")
    assert caught.value.message == message


async def test_ollama_explains_an_error_in_a_stream():
    line = json.dumps({"error": "invalid_request", "error_description": "Not today"})

    with pytest.raises(UPPError) as caught:
        await model_of("ollama", "application/x-ndjson", f"{line}\n").stream("hi").turn

    assert caught.value.message == "invalid_request: Not today"


@pytest.mark.parametrize(
    ("document", "vendor_code"),
    [
        ({"message": "Not today", "__type": "com.amazon.coral#ThrottlingException"}, "ThrottlingException"),
        ({"message": "Not today", "status": "error"}, None),
        ({"message": "Not today", "errorCode": "X1"}, "X1"),
        ({"base_resp": {"status_code": 1004, "status_msg": "Not today"}}, "1004"),
    ],
)
async def test_the_code_of_the_vendor_has_several_names(document, vendor_code):
    with pytest.raises(UPPError, match="Not today") as caught:
        await model_of("chat", "application/json", json.dumps(document)).generate("hi")

    assert caught.value.vendor_code == vendor_code


async def test_a_response_that_says_success_beside_it_is_no_error():
    body = {**ANSWERS["chat"], "base_resp": {"status_code": 0, "status_msg": "success"}}

    turn = await model_of("chat", "application/json", json.dumps(body)).generate("hi")

    assert turn.response.text == "Hi."
    with pytest.raises(UPPError) as caught:
        await model_of("chat", "application/json", json.dumps({"base_resp": body["base_resp"]})).generate("hi")
    assert caught.value.code == ErrorCode.INVALID_RESPONSE


@pytest.mark.parametrize("body", ["{}", '{"id": "x", "error": null}', '{"message": ""}', '{"detail": null}', "[]"])
@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_body_that_reports_nothing_is_an_invalid_response(vendor, body):
    with pytest.raises(UPPError) as caught:
        await model_of(vendor, "application/json", body).generate("hi")

    assert caught.value.code == ErrorCode.INVALID_RESPONSE


async def test_files_and_batches_raise_it_too():
    class Fixed:
        async def send(self, request):
            return HttpResponse(body={"detail": "Not today"})

    for model in (openai("gpt-5", transport=Fixed(), **KEY), anthropic("m", transport=Fixed(), **KEY)):
        with pytest.raises(UPPError, match="Not today"):
            await files.upload(model, b"hi", name="a.pdf")
        with pytest.raises(UPPError, match="Not today"):
            await llm(model=model, params={"max_tokens": 9}).batch(["hi"])


async def test_an_embedding_model_raises_it_too():
    class Fixed:
        async def send(self, request):
            return HttpResponse(headers={"content-type": "application/json"}, body='{"detail": "Not today"}')

    with pytest.raises(UPPError, match="Not today"):
        await embedding(model=openai("text-embedding-3-small", transport=Fixed(), **KEY)).embed("hi")


async def test_the_explanation_of_an_error_of_an_embedding_or_an_image_is_in_the_message():
    class Fixed:
        async def send(self, request):
            body = '{"error": "invalid_request", "error_description": "Not today"}'
            return HttpResponse(headers={"content-type": "application/json"}, body=body)

    options = {"transport": Fixed(), **KEY}
    for model in (openai("m", **options), google("m", **options), ollama("m", transport=Fixed())):
        with pytest.raises(UPPError, match="invalid_request: Not today"):
            await embedding(model=model).embed("hi")
    for model in (openai("gpt-image-1", **options), google("imagen-4", **options)):
        with pytest.raises(UPPError, match="invalid_request: Not today"):
            await image(model=model).generate("a cat")


ANSWERS = {
    "chat": {"choices": [{"index": 0, "message": {"content": "Hi."}, "finish_reason": "stop"}]},
    "responses": {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}],
    },
    "anthropic": {"type": "message", "content": [{"type": "text", "text": "Hi."}], "stop_reason": "end_turn"},
    "google": {"candidates": [{"content": {"parts": [{"text": "Hi."}]}, "finishReason": "STOP"}]},
    "ollama": {"message": {"role": "assistant", "content": "Hi."}, "done": True, "done_reason": "stop"},
    "bedrock": {"output": {"message": {"role": "assistant", "content": [{"text": "Hi."}]}}, "stopReason": "end_turn"},
}


@pytest.mark.parametrize("vendor", ANSWERS)
async def test_a_byte_order_mark_before_a_body_is_ignored(vendor):
    body = MARK + json.dumps(ANSWERS[vendor])

    turn = await model_of(vendor, "application/json", body).generate("hi")

    assert turn.response.text == "Hi."


@pytest.mark.parametrize("vendor", ["chat", "google", "ollama"])
async def test_a_byte_order_mark_before_a_stream_is_ignored(vendor):
    end = framed(vendor, "[DONE]") if vendor == "chat" else ""
    body = MARK + framed(vendor, json.dumps(ANSWERS[vendor])) + end

    turn = await model_of(vendor, VENDORS[vendor][1], body).stream("hi").turn

    assert turn.response.text == "Hi."


async def test_a_byte_order_mark_before_the_body_of_an_error_is_ignored():
    class Refusing:
        async def send(self, request):
            error = {"error": {"message": "Too long", "code": "context_length_exceeded"}}
            return HttpResponse(400, {"content-type": "application/json"}, MARK + json.dumps(error))

    with pytest.raises(UPPError, match="Too long") as caught:
        await llm(model=openai("m", transport=Refusing(), **KEY)).generate("hi")

    assert caught.value.code == ErrorCode.CONTEXT_LENGTH_EXCEEDED


async def test_a_byte_order_mark_alone_is_an_empty_body():
    with pytest.raises(UPPError, match="Empty response body"):
        await model_of("chat", "application/json", MARK).generate("hi")
