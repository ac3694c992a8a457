"""Models over HTTP with every vendor API. UPP-1.2 §9, §13, §19."""

import json
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from providers_support import (
    WIRES,
    chat,
    helper,
    messages,
    no_keys_of_this_machine,  # noqa: F401
    responses,
    streamed,
    text_of,
    weather,
)

from turntree import agent
from turntree.testing import ErrorReply, Reply, ToolCall
from turntree.upp import (
    ErrorCode,
    Image,
    Reasoning,
    UPPError,
    ollama,
)

# Every API


@pytest.mark.parametrize("make", WIRES)
def test_plain_answer(run, loopback, make):
    server = loopback(Reply("Hello.", input_tokens=11, output_tokens=3))

    turn = run(helper(make, server, system="Be short.").run("Hi"))

    assert turn.response.text == "Hello."
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (11, 3)
    (request,) = server.requests
    assert request.user_text == "Hi"
    assert not request.stream
    assert "Be short." in request.body.decode()
    assert request.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize("make", WIRES)
def test_streamed_answer_equals_the_plain_answer(run, loopback, make):
    text = "One two three, with ümläuts and 😀."
    server = loopback(Reply(text, input_tokens=11, output_tokens=3))

    events, turn = run(streamed(helper(make, server), "Hi"))
    plain = run(helper(make, server).run("Hi"))

    assert text_of(events) == text == turn.response.text == plain.response.text
    assert turn.usage == plain.usage
    assert server.requests[0].stream
    assert events[0].type == "message_start"
    assert events[-1].type == "message_stop"


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("make", WIRES)
def test_chunk_boundaries_do_not_change_the_streamed_answer(run, loopback, make, size):
    from turntree.testing import Fault

    text = "ümläuts and 😀 and more."
    server = loopback(Reply(text, fault=Fault(write_size=size)))

    events, turn = run(streamed(helper(make, server), "Hi"))

    assert text_of(events) == text == turn.response.text


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("make", WIRES)
def test_parallel_tool_calls_and_results(run, loopback, make, is_streamed):
    calls = [ToolCall("weather", {"city": "Tokyo"}), ToolCall("weather", {"city": "Kyōto"})]
    server = loopback([calls, "Sunny in both."])
    runner = helper(make, server, tools=[weather])

    turn = run(streamed(runner, "Hi"))[1] if is_streamed else run(runner.run("Hi"))

    assert turn.response.text == "Sunny in both."
    assert [made.arguments for made in turn.messages[1].tool_calls] == [{"city": "Tokyo"}, {"city": "Kyōto"}]
    assert [result.result for result in turn.messages[2].results] == ["Tokyo: sunny", "Kyōto: sunny"]
    assert list(server.requests[1].tool_results.values()) == ["Tokyo: sunny", "Kyōto: sunny"]
    assert turn.cycles == 2
    assert "weather" in server.requests[0].body.decode()


@pytest.mark.parametrize("make", WIRES)
def test_conversation_of_many_turns_is_accepted(run, loopback, make):
    server = loopback([[ToolCall("weather", {"city": "Tokyo"})], "Sunny.", "Bye."])
    runner = helper(make, server, tools=[weather])

    async def talk():
        first = await runner.run("Weather?")
        return await runner.run(first.messages, "Thanks")

    # The strict server refuses a conversation that the vendor would refuse.
    assert run(talk()).response.text == "Bye."


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("make", WIRES)
def test_tool_error_is_sent_to_the_vendor(run, loopback, make, is_streamed):
    server = loopback([[ToolCall("weather", {"town": "Tokyo"})], "I see."])
    runner = helper(make, server, tools=[weather])

    turn = run(streamed(runner, "Hi"))[1] if is_streamed else run(runner.run("Hi"))

    assert turn.response.text == "I see."
    (told,) = server.requests[1].tool_results.values()
    assert "town" in told


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("make", WIRES)
def test_thinking_is_a_separate_reasoning_block(run, loopback, make, is_streamed):
    server = loopback(Reply("Yes.", thinking="Let me see.", signature="sig"))
    runner = helper(make, server)

    turn = run(streamed(runner, "Hi"))[1] if is_streamed else run(runner.run("Hi"))

    assert turn.response.text == "Yes."
    thoughts = [block.text for block in turn.response.content if isinstance(block, Reasoning)]
    assert thoughts == ["Let me see."]


@pytest.mark.parametrize("make", WIRES)
def test_params_are_sent_and_metadata_is_preserved(run, loopback, make):
    server = loopback("Hello.")
    runner = agent(model=make(server), params={"max_tokens": 50, "temperature": 0.25})

    turn = run(runner.run("Hi"))

    assert server.requests[0].json["temperature"] == 0.25
    assert server.requests[0].json["max_tokens"] == 50
    namespace = make(server).provider
    assert turn.response.metadata[namespace]
    assert turn.response.id


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("make", WIRES)
def test_structured_output(run, loopback, make, is_streamed):
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    answer = '{"name": "Tokyo"}'

    def reply(request):
        # Anthropic without native support is given the schema as a tool.
        tools = [made["name"] for made in request.json.get("tools", ()) if "name" in made]
        if make is messages and tools:
            return [ToolCall(tools[-1], {"name": "Tokyo"})]
        return answer

    runner = helper(make, loopback(reply), structure=schema)

    turn = run(streamed(runner, "Hi"))[1] if is_streamed else run(runner.run("Hi"))

    assert turn.data == {"name": "Tokyo"}


@pytest.mark.parametrize("make", [chat, responses, messages])
def test_images_are_sent(run, loopback, make):
    server = loopback("A dot.")

    run(helper(make, server).run(["What is it?", Image.from_bytes(b"\x89PNG1234", "image/png")]))

    assert "iVBORzEyMzQ=" in server.requests[0].body.decode()


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
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("make", WIRES)
def test_vendor_errors_map_to_error_codes(run, loopback, make, is_streamed, status, code):
    server = loopback(ErrorReply(status, "these are the words"))
    runner = helper(make, server)

    with pytest.raises(UPPError) as caught:
        run(streamed(runner, "Hi") if is_streamed else runner.run("Hi"))

    error = caught.value
    assert (error.code, error.status_code) == (code, status)
    assert "these are the words" in error.message
    assert error.provider == make(server).provider
    assert error.modality == "llm"
    assert f"status: {status}" in str(error)


# Ollama


class Ollama(BaseHTTPRequestHandler):
    """A server of Ollama's native API with a list of answers, each a list of lines."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append((self.path, body, dict(self.headers)))
        lines = self.server.answers.pop(0)
        if not body["stream"]:
            lines = [merged(lines)]
        data = "".join(json.dumps(line) + "\n" for line in lines).encode()
        kind = "application/x-ndjson" if body["stream"] else "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def merged(lines):
    """The single response that corresponds to these lines of a stream."""
    whole = dict(lines[-1])
    whole["message"] = {"role": "assistant", "content": "".join(line["message"]["content"] for line in lines)}
    calls = [made for line in lines for made in line["message"].get("tool_calls", ())]
    if calls:
        whole["message"]["tool_calls"] = calls
    return whole


def line(content="", *, done=False, **message):
    facts = {"done_reason": "stop", "prompt_eval_count": 26, "eval_count": 11} if done else {}
    return {
        "model": "llama3.2",
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": content, **message},
        "done": done,
        **facts,
    }


@pytest.fixture
def ollama_server():
    with ExitStack() as stack:

        def start(*answers):
            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Ollama))
            server.answers, server.seen = list(answers), []
            server.daemon_threads = True
            server.url = f"http://127.0.0.1:{server.server_address[1]}"
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            stack.callback(server.shutdown)
            return server

        yield start


@pytest.mark.parametrize("is_streamed", [False, True])
def test_ollama_runs_tools(run, ollama_server, is_streamed):
    calls = [{"function": {"name": "weather", "arguments": {"city": city}}} for city in ("Tokyo", "Oslo")]
    server = ollama_server([line(tool_calls=calls), line(done=True)], [line("Sun"), line("ny."), line(done=True)])
    runner = agent(model=ollama("llama3.2", base_url=server.url), tools=[weather])

    turn = run(streamed(runner, "Hi"))[1] if is_streamed else run(runner.run("Hi"))

    assert turn.response.text == "Sunny."
    assert [result.result for result in turn.messages[2].results] == ["Tokyo: sunny", "Oslo: sunny"]
    assert len({made.tool_call_id for made in turn.messages[1].tool_calls}) == 2
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (52, 22)
    path, body, headers = server.seen[1]
    assert path == "/api/chat"
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool", "tool"]
    assert "authorization" not in {name.lower() for name in headers}


def test_ollama_streams_text(run, ollama_server):
    server = ollama_server([line("Hel"), line("lo."), line(done=True)])

    events, turn = run(streamed(agent(model=ollama("llama3.2", base_url=server.url)), "Hi"))

    assert [event.delta["text"] for event in events if event.type == "text_delta"] == ["Hel", "lo."]
    assert turn.response.text == "Hello."


def test_truncated_ollama_stream_is_an_error(run, ollama_server):
    server = ollama_server([line("Hel")])

    with pytest.raises(UPPError) as caught:
        run(streamed(agent(model=ollama("llama3.2", base_url=server.url)), "Hi"))

    assert caught.value.code in {ErrorCode.INVALID_RESPONSE, ErrorCode.NETWORK_ERROR}
