"""Gemini, Ollama and Bedrock over the loopback server: agents, streams, tools, structure, errors. UPP-1.2 §19."""

import http.client
import json
from contextlib import closing

import pytest

from turntree import agent
from turntree.testing import ErrorReply, Fault, Reply, ToolCall
from turntree.upp import ErrorCode, Reasoning, UPPError, bedrock, google, ollama, tool

KEY = "sk-secret-0123456789"
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


def gemini(server):
    return google("gemini-2.5-flash", base_url=server.base_url, api_key=KEY)


def local(server):
    return ollama("llama3.2", base_url=server.url)


def amazon(server):
    return bedrock("amazon.nova-lite-v1:0", "eu-west-1", base_url=server.url, auth=KEY)


WIRES = [gemini, local, amazon]
APIS = {gemini: "google-generate-content", local: "ollama-chat", amazon: "bedrock-converse"}
NAMES = {gemini: "gemini-2.5-flash", local: "llama3.2", amazon: "amazon.nova-lite-v1:0"}
MODES = ["plain", "streamed"]


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny"


@tool
def population(city: str) -> dict[str, int]:
    """The people of a city."""
    return {"people": len(city)}


def ask(run, runner, mode, *arguments):
    """The turn, and the events if it was streamed."""

    async def streamed():
        stream = runner.stream(*arguments)
        events = [event.upp async for event in stream if event.upp]
        return await stream.turn, events

    return run(streamed()) if mode == "streamed" else (run(runner.run(*arguments)), [])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
def test_reply_text_usage_and_recorded_request(run, loopback, make, mode):
    text = "One two three, with ümläuts and 😀."
    server = loopback(Reply(text, input_tokens=11, output_tokens=3))

    turn, events = ask(run, agent(model=make(server), system="Be short."), mode, "Hi")

    assert turn.response.text == text
    assert (turn.usage.input_tokens, turn.usage.output_tokens, turn.usage.total_tokens) == (11, 3, 14)
    (request,) = server.requests
    assert request.api == APIS[make]
    assert request.model == NAMES[make]
    assert request.stream == (mode == "streamed")
    assert request.user_text == "Hi"
    if mode == "streamed":
        deltas = [event.delta["text"] for event in events if event.type == "text_delta"]
        assert "".join(deltas) == text
        assert len(deltas) > 3
        assert (events[0].type, events[-1].type) == ("message_start", "message_stop")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
def test_round_of_parallel_tools(run, loopback, make, mode):
    calls = [ToolCall("weather", {"city": "Tokyo"}), ToolCall("population", {"city": "Kyōto"})]
    server = loopback([Reply("Let me look.", tool_calls=calls), "Sunny, and five."])

    turn, events = ask(run, agent(model=make(server), tools=[weather, population]), mode, "Hi")

    assert turn.response.text == "Sunny, and five."
    assert turn.cycles == 2
    first = turn.messages[1]
    assert first.text == "Let me look."
    assert [(made.tool_name, made.arguments) for made in first.tool_calls] == [
        ("weather", {"city": "Tokyo"}),
        ("population", {"city": "Kyōto"}),
    ]
    assert [result.result for result in turn.messages[2].results] == ["Tokyo: sunny", {"people": 5}]
    assert list(server.requests[1].tool_results.values()) == ["Tokyo: sunny", '{"people":5}']
    if mode == "streamed":
        pieces = {}
        for event in events:
            if event.type == "tool_call_delta":
                pieces[event.delta["toolName"]] = pieces.get(event.delta["toolName"], "") + event.delta["argumentsJson"]
        assert {name: json.loads(text) for name, text in pieces.items()} == {
            "weather": {"city": "Tokyo"},
            "population": {"city": "Kyōto"},
        }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
def test_a_tool_without_arguments(run, loopback, make, mode):
    @tool
    def now() -> str:
        return "noon"

    server = loopback([ToolCall("now"), "It is noon."])

    turn, _ = ask(run, agent(model=make(server), tools=[now]), mode, "Hi")

    assert turn.messages[1].tool_calls[0].arguments == {}
    assert list(server.requests[1].tool_results.values()) == ["noon"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
def test_structured_output(run, loopback, make, mode):
    server = loopback('{"name": "Tokyo"}')

    turn, _ = ask(run, agent(model=make(server), structure=SCHEMA), mode, "Hi")

    assert turn.data == {"name": "Tokyo"}
    assert '"name"' in server.requests[0].body.decode()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
def test_thinking_is_a_separate_reasoning_block(run, loopback, make, mode):
    server = loopback(Reply("Yes.", thinking="Let me see.", signature="c2ln"))

    turn, events = ask(run, agent(model=make(server)), mode, "Hi")

    assert turn.response.text == "Yes."
    assert [block.text for block in turn.response.content if isinstance(block, Reasoning)] == ["Let me see."]
    if mode == "streamed":
        assert "".join(e.delta["text"] for e in events if e.type == "reasoning_delta") == "Let me see."


@pytest.mark.parametrize("make", WIRES)
def test_stream_and_complete_answer_are_equal(run, loopback, make):
    reply = Reply(
        "Let me look.",
        thinking="Hm.",
        tool_calls=[ToolCall("weather", {"city": "Oslo"})],
        input_tokens=9,
        output_tokens=8,
    )
    server = loopback([reply, "Sunny.", reply, "Sunny."])
    runner = agent(model=make(server), tools=[weather])

    plain, _ = ask(run, runner, "plain", "Hi")
    streamed, _ = ask(run, runner, "streamed", "Hi")

    def said(turn):
        return [
            (message.type, message.text, [(made.tool_name, made.arguments) for made in message.tool_calls or ()])
            for message in turn.messages
            if message.type == "assistant"
        ]

    assert said(plain) == said(streamed)
    assert plain.usage.cycles[0] == streamed.usage.cycles[0]


def test_conversation_sends_back_gemini_signatures(run, loopback):
    server = loopback([Reply(tool_calls=[ToolCall("weather", {"city": "Oslo"})], signature="c2ln"), "Sunny.", "Bye."])
    runner = agent(model=gemini(server), tools=[weather])

    async def talk():
        first = await runner.run("Weather?")
        return await runner.run(first.messages, "Thanks")

    assert run(talk()).response.text == "Bye."
    for request in server.requests[1:]:
        parts = [part for content in request.json["contents"] for part in content["parts"] if "functionCall" in part]
        assert [part["thoughtSignature"] for part in parts] == ["c2ln"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, ErrorCode.INVALID_REQUEST),
        (401, ErrorCode.AUTHENTICATION_FAILED),
        (403, ErrorCode.AUTHENTICATION_FAILED),
        (404, ErrorCode.MODEL_NOT_FOUND),
        (429, ErrorCode.RATE_LIMITED),
        (500, ErrorCode.PROVIDER_ERROR),
        (503, ErrorCode.PROVIDER_ERROR),
    ],
)
def test_vendor_errors_map_to_error_codes(run, loopback, make, mode, status, code):
    # A 404 that does not speak of a model is a wrong address.
    words = "the model: these are the words"
    server = loopback(ErrorReply(status, words))

    with pytest.raises(UPPError, match=words) as caught:
        ask(run, agent(model=make(server)), mode, "Hi")

    assert (caught.value.code, caught.value.status_code) == (code, status)


@pytest.mark.parametrize("make", WIRES)
@pytest.mark.parametrize("after", [0, 1, 3])
def test_error_in_a_stream_is_raised(run, loopback, make, after):
    server = loopback(Reply("one two three four five", fault=Fault(error_after=after, error_message="we are busy")))

    with pytest.raises(UPPError, match="we are busy") as caught:
        ask(run, agent(model=make(server)), "streamed", "Hi")

    assert caught.value.code == ErrorCode.PROVIDER_ERROR


@pytest.mark.parametrize(("finish", "reason"), [("length", "MAX_TOKENS"), ("content_filter", "SAFETY")])
@pytest.mark.parametrize("mode", MODES)
def test_gemini_finish_reason_is_reported(run, loopback, mode, finish, reason):
    server = loopback(Reply("half", finish=finish))

    turn, _ = ask(run, agent(model=gemini(server)), mode, "Hi")

    assert turn.response.metadata["google"]["finishReason"] == reason


@pytest.mark.parametrize("mode", MODES)
def test_ollama_done_reason_is_reported(run, loopback, mode):
    server = loopback(Reply("half", finish="length"))

    turn, _ = ask(run, agent(model=local(server)), mode, "Hi")

    assert turn.response.metadata["ollama"]["done_reason"] == "length"


# Validation of requests


def post(server, path, body, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=30)
    with closing(connection):
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, response.headers["content-type"], response.read()


GENERATE = "/v1beta/models/gemini:generateContent"
QUESTION = {"role": "user", "parts": [{"text": "Hi"}]}
CALL = {"role": "model", "parts": [{"functionCall": {"name": "now", "args": {}}}]}
RESPONSE = {"role": "user", "parts": [{"functionResponse": {"name": "now", "response": {"result": "noon"}}}]}


@pytest.mark.parametrize(
    ("contents", "status"),
    [
        ([QUESTION], 200),
        ([QUESTION, CALL, RESPONSE], 200),
        ([], 400),
        ([{"role": "user", "parts": []}], 400),
        ([{"role": "system", "parts": [{"text": "Hi"}]}], 400),
        ([QUESTION, CALL], 400),
        ([QUESTION, CALL, QUESTION], 400),
        ([QUESTION, RESPONSE], 400),
    ],
)
def test_gemini_server_rejects_invalid_requests(loopback, contents, status):
    server = loopback("ok")

    assert post(server, GENERATE, {"contents": contents}, **{"x-goog-api-key": "k"})[0] == status


def test_gemini_server_requires_a_key(loopback):
    server = loopback("ok")

    status, _, raw = post(server, GENERATE, {"contents": [QUESTION]})

    assert status == 403
    assert json.loads(raw)["error"]["status"] == "PERMISSION_DENIED"
    assert post(server, GENERATE + "?key=k", {"contents": [QUESTION]})[0] == 200


ASKED = {"role": "user", "content": [{"text": "Hi"}]}
USED = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "now", "input": {}}}]}
RETURNED = {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "noon"}]}}]}


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([ASKED], 200),
        ([ASKED, USED, RETURNED], 200),
        ([], 400),
        ([USED], 400),
        ([{"role": "user", "content": []}], 400),
        ([ASKED, USED], 400),
        ([ASKED, USED, ASKED], 400),
        ([ASKED, RETURNED], 400),
    ],
)
def test_bedrock_server_rejects_invalid_requests(loopback, messages, status):
    server = loopback("ok")
    body = {"messages": messages}

    assert post(server, "/model/m/converse", body, authorization="Bearer k")[0] == status
    assert post(server, "/model/m/converse", body)[0] == 403


def test_ollama_server_streams_lines_by_default(loopback):
    server = loopback("one two")
    question = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}

    _, kind, raw = post(server, "/api/chat", question)
    whole = post(server, "/api/chat", {**question, "stream": False})

    lines = [json.loads(line) for line in raw.splitlines()]
    assert kind == "application/x-ndjson"
    assert [line["message"]["content"] for line in lines] == ["one", " two", ""]
    assert [line["done"] for line in lines] == [False, False, True]
    assert whole[1] == "application/json"
    assert json.loads(whole[2])["message"]["content"] == "one two"
    assert post(server, "/api/chat", {"messages": []})[0] == 400
    assert post(server, "/api/chat", {"model": "m", "messages": [{"role": "boss"}]})[0] == 400
