"""UPP-1.2 §18: tests of every provider of language models, one level after another, over real HTTP.

Each test verifies one requirement of the protocol. It runs for every provider, against a loopback server that
speaks the vendor's API and refuses the requests that the vendor would refuse.
"""

import asyncio
import base64
import json

import pytest

from turntree.testing import ErrorReply, RawReply, Reply, ToolCall
from turntree.upp import (
    AssistantMessage,
    Image,
    StreamEvent,
    ToolResultMessage,
    Turn,
    UPPError,
    UserMessage,
    embedding,
    llm,
    tool,
)

from .providers import KEY

# The smallest PNG: one transparent pixel.
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c636000010000000500010d0a2db40000000049454e44ae426082"
)


@tool
async def weather(city: str) -> dict:
    """The weather of a city."""
    return {"city": city, "sky": "sunny"}


def asked(provider, server, **options):
    return llm(model=provider.model(server), params=provider.params, **options)


async def streamed(model, *inputs):
    stream = model.stream(*inputs)
    return [event async for event in stream], await stream.turn


# Level 1: text, usage, parameters, errors, system


async def test_upp_l1_a_response_has_text_and_usage(provider, loopback):
    server = loopback(Reply("Hello, wörld 😀.", input_tokens=11, output_tokens=3))

    turn = await asked(provider, server).generate("Hi")

    assert type(turn) is Turn
    assert turn.response.text == "Hello, wörld 😀."
    assert [message.type for message in turn.messages] == ["user", "assistant"]
    assert (turn.usage.input_tokens, turn.usage.output_tokens, turn.usage.total_tokens) == (11, 3, 14)
    assert turn.cycles == 1
    assert server.requests[0].user_text == "Hi"


async def test_upp_l1_the_system_prompt_and_the_history_are_sent_in_order(provider, loopback):
    server = loopback(["Second."])
    history = [UserMessage("one"), AssistantMessage("First."), UserMessage("two")]

    await asked(provider, server, system="Be brief.").generate(history[:2], history[2])

    body = server.requests[0].body.decode()
    places = [body.index(text) for text in ("one", "First.", "two")]
    assert places == sorted(places)
    assert "Be brief." in body


async def test_upp_l1_parameters_are_passed_unchanged(provider, loopback):
    server = loopback(["ok"])
    params = {**provider.params, "temperature": 0.25}

    await llm(model=provider.model(server), params=params).generate("Hi")

    assert '"temperature":0.25' in server.requests[0].body.decode().replace(" ", "")


async def test_upp_l1_custom_headers_take_precedence_and_the_key_is_sent(provider, loopback):
    server = loopback(["ok"])
    model = provider.model(server, headers={"x-request-source": "conformance", "user-agent": "tests"})

    await llm(model=model, params=provider.params).generate("Hi")

    headers = server.requests[0].headers
    assert (headers["x-request-source"], headers["user-agent"]) == ("conformance", "tests")
    assert any(KEY in value for value in headers.values())


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "INVALID_REQUEST"),
        (401, "AUTHENTICATION_FAILED"),
        (404, "MODEL_NOT_FOUND"),
        (429, "RATE_LIMITED"),
        (500, "PROVIDER_ERROR"),
        (503, "PROVIDER_ERROR"),
    ],
)
async def test_upp_l1_errors_have_a_code(provider, loopback, status, code):
    server = loopback([ErrorReply(status)])

    with pytest.raises(UPPError) as caught:
        await asked(provider, server).generate("Hi")

    assert (caught.value.code, caught.value.status_code, caught.value.modality) == (code, status, "llm")
    assert caught.value.provider
    assert KEY not in str(caught.value) + repr(caught.value)


async def test_upp_l1_a_missing_key_is_an_authentication_error(provider, loopback):
    if provider.variable is None:
        pytest.skip(f"{provider.name} works without a key")
    server = loopback(["ok"])

    with pytest.raises(UPPError, match=provider.variable) as caught:
        await llm(model=provider.model(server, api_key=None), params=provider.params).generate("Hi")

    assert caught.value.code == "AUTHENTICATION_FAILED"
    assert server.requests == []


@pytest.mark.parametrize("body", [b"", b"{", b"<html>Bad gateway</html>", b"[]", b'{"unexpected": true}'])
async def test_upp_l1_an_invalid_response_body_raises_an_error(provider, loopback, body):
    server = loopback([RawReply(body=body, headers={"content-type": "application/json"})])

    with pytest.raises(UPPError) as caught:
        await asked(provider, server).generate("Hi")

    assert caught.value.code == "INVALID_RESPONSE"


async def test_upp_l1_a_modality_that_the_provider_lacks_is_refused(provider, loopback):
    server = loopback(["ok"])
    if provider.embeds:
        pytest.skip(f"{provider.name} has embedding models")

    with pytest.raises(UPPError) as caught:
        await embedding(model=provider.model(server)).embed("Hi")

    assert (caught.value.code, caught.value.modality) == ("INVALID_REQUEST", "embedding")
    assert server.requests == []


# Level 2: streams


async def test_upp_l2_a_stream_has_start_text_and_stop_and_the_same_turn(provider, loopback):
    text = "One two three, with ümläuts and 😀."
    server = loopback(Reply(text, input_tokens=11, output_tokens=9))
    model = asked(provider, server)

    events, turn = await streamed(model, "Hi")
    plain = await model.generate("Hi")

    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    assert all(isinstance(event, StreamEvent) for event in events)
    assert "".join(event.delta["text"] for event in events if event.type == "text_delta") == text
    assert kinds.count("text_delta") > 1
    assert turn.response.text == plain.response.text == text
    assert plain.usage.total_tokens == 20
    assert turn.usage.total_tokens == (20 if provider.asks_for_usage else 0)
    assert [request.stream for request in server.requests] == [True, False]


async def test_upp_l2_abort_ends_the_request(provider, loopback):
    server = loopback(Reply("word " * 200, gap=0.05))
    stream = asked(provider, server).stream("Hi")

    async for event in stream:
        if event.type == "text_delta":
            stream.abort()
            break
    with pytest.raises(UPPError) as caught:
        await stream.turn

    assert caught.value.code == "CANCELLED"
    await asyncio.to_thread(server.requests[0].wait, 10)
    assert server.requests[0].outcome == "dropped"


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_upp_l2_errors_of_streams_have_a_code(provider, loopback, status):
    codes = {401: "AUTHENTICATION_FAILED", 429: "RATE_LIMITED", 500: "PROVIDER_ERROR"}
    server = loopback([ErrorReply(status)])

    with pytest.raises(UPPError) as caught:
        await asked(provider, server).stream("Hi").turn

    assert caught.value.code == codes[status]


# Level 3: tools


@pytest.mark.parametrize("stream", [False, True])
async def test_upp_l3_a_tool_call_is_executed_and_answered(provider, loopback, stream):
    calls = [ToolCall("weather", {"city": "Oslo"}), ToolCall("weather", {"city": "Łódź"})]
    server = loopback([calls, "Sunny twice."])
    model = asked(provider, server, tools=[weather])

    turn = (await streamed(model, "Weather?"))[1] if stream else await model.generate("Weather?")

    assert [message.type for message in turn.messages] == ["user", "assistant", "tool_result", "assistant"]
    assert [call.arguments for call in turn.messages[1].tool_calls] == [{"city": "Oslo"}, {"city": "Łódź"}]
    results = {"city": "Oslo", "sky": "sunny"}, {"city": "Łódź", "sky": "sunny"}
    assert [result.result for result in turn.messages[2].results] == list(results)
    sent = server.requests[1].tool_results
    assert [json.loads(text) if isinstance(text, str) else text for text in sent.values()] == list(results)
    assert turn.response.text == "Sunny twice."
    assert turn.cycles == 2


async def test_upp_l3_a_failed_tool_gives_an_error_result(provider, loopback):
    @tool
    def broken() -> str:
        raise ValueError("out of order")

    server = loopback([ToolCall("broken", {}), "Sorry."])

    turn = await asked(provider, server, tools=[broken]).generate("Try")

    (result,) = turn.messages[2].results
    assert result.is_error
    assert "out of order" in str(result.result)
    assert "out of order" in server.requests[1].body.decode()


async def test_upp_l3_a_history_with_tools_is_sent_again(provider, loopback):
    server = loopback([ToolCall("weather", {"city": "Oslo"}), "Sunny.", "You are welcome."])
    model = asked(provider, server, tools=[weather])
    first = await model.generate("Weather?")

    # The strict server refuses a call without its result, and a result without its call.
    second = await model.generate(first.messages, "Thanks")

    assert second.response.text == "You are welcome."
    assert any(isinstance(message, ToolResultMessage) for message in first.messages)


# Level 4: structured output


async def test_upp_l4_a_structure_sets_data(provider, loopback):
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
        "additionalProperties": False,
    }
    data = {"city": "Oslo", "days": 3}
    # Vendors without structured output get the schema as a tool that the model has to call.
    server = loopback(lambda request: ToolCall("json_response", data) if "tools" in request.json else json.dumps(data))

    turn = await asked(provider, server, structure=schema).generate("Plan")

    assert turn.data == data
    assert not turn.response.has_tool_calls


# Level 5: media


async def test_upp_l5_an_image_is_sent(provider, loopback):
    server = loopback(["A pixel."])

    message = UserMessage([Image.from_bytes(PIXEL, "image/png")])
    if not provider.images:
        # A provider without image support raises before it sends a request.
        with pytest.raises(UPPError, match="image") as caught:
            await asked(provider, server).generate(message)
        assert (caught.value.code, server.requests) == ("INVALID_REQUEST", [])
        return

    turn = await asked(provider, server).generate(message)

    assert turn.response.text == "A pixel."
    assert base64.b64encode(PIXEL).decode() in server.requests[0].body.decode()
