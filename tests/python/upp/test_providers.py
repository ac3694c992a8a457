"""Models over HTTP: every wire, keys, headers, addresses. UPP-1.2 §9, §13, §19."""

import asyncio
import json
import logging
import threading
import traceback
from collections import Counter
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from turntree import agent
from turntree.testing import ErrorReply, RawReply, Reply, ToolCall
from turntree.upp import (
    DynamicKey,
    ErrorCode,
    Image,
    ProviderConfig,
    Reasoning,
    RoundRobinKeys,
    UPPError,
    WeightedKeys,
    anthropic,
    cerebras,
    deepseek,
    embedding,
    google,
    groq,
    llm,
    mistral,
    moonshot,
    ollama,
    openai,
    openai_compatible,
    openrouter,
    replay,
    tool,
    xai,
)
from turntree.upp import responses as responses_host

KEY = "sk-secret-0123456789"
VENDORS = {
    "GROQ_API_KEY": groq,
    "CEREBRAS_API_KEY": cerebras,
    "MOONSHOT_API_KEY": moonshot,
    "KIMI_API_KEY": moonshot,
    "DEEPSEEK_API_KEY": deepseek,
    "MISTRAL_API_KEY": mistral,
    "OPENROUTER_API_KEY": openrouter,
    "XAI_API_KEY": xai,
}
VARIABLES = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "OLLAMA_API_KEY",
    "OLLAMA_HOST",
    "OPENRESPONSES_API_KEY",
    "MY_HOST_KEY",
    *VENDORS,
)


@pytest.fixture(autouse=True)
def no_keys_of_this_machine(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny"


def chat(server, **options):
    return openai("gpt", "completions", **{"base_url": server.base_url, "api_key": KEY, **options})


def responses(server, **options):
    return openai("gpt", **{"base_url": server.base_url, "api_key": KEY, **options})


def messages(server, **options):
    return anthropic("claude", **{"base_url": server.base_url, "api_key": KEY, **options})


def compatible(server, **options):
    return openai_compatible("llama", **{"base_url": server.base_url, "api_key": KEY, **options})


WIRES = [chat, responses, messages, compatible]


def helper(make, server, *, options=(), **settings):
    """An agent on a wire at a server."""
    params = {"max_tokens": 100} if make is messages else {}
    return agent(model=make(server, **dict(options)), params=params, **settings)


async def streamed(runner, *arguments):
    """The events and the turn of a streamed run."""
    stream = runner.stream(*arguments)
    events = [event.upp async for event in stream if event.upp]
    return events, await stream.turn


def text_of(events):
    return "".join(event.delta["text"] for event in events if event.type == "text_delta")


# Every wire


@pytest.mark.parametrize("make", WIRES)
def test_a_plain_answer(run, loopback, make):
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
def test_a_streamed_answer_is_the_same(run, loopback, make):
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
def test_cuts_in_the_stream_change_nothing(run, loopback, make, size):
    from turntree.testing import Fault

    text = "ümläuts and 😀 and more."
    server = loopback(Reply(text, fault=Fault(write_size=size)))

    events, turn = run(streamed(helper(make, server), "Hi"))

    assert text_of(events) == text == turn.response.text


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("make", WIRES)
def test_parallel_tools_and_their_results(run, loopback, make, is_streamed):
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
def test_a_conversation_over_many_turns_is_accepted(run, loopback, make):
    server = loopback([[ToolCall("weather", {"city": "Tokyo"})], "Sunny.", "Bye."])
    runner = helper(make, server, tools=[weather])

    async def talk():
        first = await runner.run("Weather?")
        return await runner.run(first.messages, "Thanks")

    # The strict server refuses a conversation that the vendor would refuse.
    assert run(talk()).response.text == "Bye."


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("make", WIRES)
def test_a_tool_error_is_told_to_the_vendor(run, loopback, make, is_streamed):
    server = loopback([[ToolCall("weather", {"town": "Tokyo"})], "I see."])
    runner = helper(make, server, tools=[weather])

    turn = run(streamed(runner, "Hi"))[1] if is_streamed else run(runner.run("Hi"))

    assert turn.response.text == "I see."
    (told,) = server.requests[1].tool_results.values()
    assert "town" in told


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("make", WIRES)
def test_thinking_is_a_block_of_its_own(run, loopback, make, is_streamed):
    server = loopback(Reply("Yes.", thinking="Let me see.", signature="sig"))
    runner = helper(make, server)

    turn = run(streamed(runner, "Hi"))[1] if is_streamed else run(runner.run("Hi"))

    assert turn.response.text == "Yes."
    thoughts = [block.text for block in turn.response.content if isinstance(block, Reasoning)]
    assert thoughts == ["Let me see."]


@pytest.mark.parametrize("make", WIRES)
def test_params_are_passed_on_and_metadata_kept(run, loopback, make):
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
def test_pictures_are_sent(run, loopback, make):
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
def test_refusals_have_the_right_code(run, loopback, make, is_streamed, status, code):
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
    """Speaks Ollama's own API from a list of answers, each a list of lines."""

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
    """What the server says at once instead of line by line."""
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
def test_ollama_with_tools(run, ollama_server, is_streamed):
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


def test_ollama_streams_words(run, ollama_server):
    server = ollama_server([line("Hel"), line("lo."), line(done=True)])

    events, turn = run(streamed(agent(model=ollama("llama3.2", base_url=server.url)), "Hi"))

    assert [event.delta["text"] for event in events if event.type == "text_delta"] == ["Hel", "lo."]
    assert turn.response.text == "Hello."


def test_ollama_that_breaks_off_is_an_error(run, ollama_server):
    server = ollama_server([line("Hel")])

    with pytest.raises(UPPError) as caught:
        run(streamed(agent(model=ollama("llama3.2", base_url=server.url)), "Hi"))

    assert caught.value.code in {ErrorCode.INVALID_RESPONSE, ErrorCode.NETWORK_ERROR}


# Keys


def sent_key(request):
    """The key of a request, wherever its wire puts it."""
    return request.headers.get("x-api-key") or request.headers["authorization"].removeprefix("Bearer ")


@pytest.mark.parametrize("make", WIRES)
def test_a_key_as_text(run, loopback, make):
    server = loopback("ok")

    run(helper(make, server).run("Hi"))

    assert sent_key(server.requests[0]) == KEY


@pytest.mark.parametrize(
    ("make", "variable"),
    [(chat, "OPENAI_API_KEY"), (responses, "OPENAI_API_KEY"), (messages, "ANTHROPIC_API_KEY")],
)
def test_a_key_of_the_environment(run, loopback, monkeypatch, make, variable):
    monkeypatch.setenv(variable, "of-the-environment\n")
    server = loopback("ok")

    run(helper(make, server, options={"api_key": None}).run("Hi"))

    assert sent_key(server.requests[0]) == "of-the-environment"


@pytest.mark.parametrize("make", [chat, responses, messages])
def test_a_missing_key_says_where_to_put_it(run, loopback, make):
    server = loopback("ok")

    with pytest.raises(UPPError, match=r"_API_KEY") as caught:
        run(helper(make, server, options={"api_key": None}).run("Hi"))

    assert caught.value.code == ErrorCode.AUTHENTICATION_FAILED
    assert server.requests == []


@pytest.mark.parametrize("key", ["", "  \n"])
def test_an_empty_key_is_a_missing_key(run, loopback, key):
    server = loopback("ok")

    with pytest.raises(UPPError) as caught:
        run(helper(chat, server, options={"api_key": key}).run("Hi"))

    assert caught.value.code == ErrorCode.AUTHENTICATION_FAILED
    assert server.requests == []


def test_openai_compatible_needs_no_key(run, loopback):
    server = loopback("ok", strict=False)

    run(agent(model=openai_compatible("llama", base_url=server.base_url)).run("Hi"))

    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_key_from_a_function_is_asked_for_each_request(run, loopback, is_async, wrapped):
    given = iter(["first", "second"])
    loops = []

    def sync_key():
        return next(given)

    async def async_key():
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        return next(given)

    function = async_key if is_async else sync_key
    server = loopback([[ToolCall("weather", {"city": "Tokyo"})], "ok"])
    runner = helper(chat, server, options={"api_key": DynamicKey(function) if wrapped else function}, tools=[weather])

    async def main():
        await runner.run("Hi")
        return asyncio.get_running_loop()

    loop = run(main())

    assert [sent_key(request) for request in server.requests] == ["first", "second"]
    assert loops == ([loop, loop] if is_async else [])


@pytest.mark.parametrize("is_async", [False, True])
def test_a_key_from_a_function_works_in_run_sync(loopback, is_async):
    async def key():
        return "later"

    server = loopback("ok")

    helper(chat, server, options={"api_key": key if is_async else lambda: "later"}).run_sync("Hi")

    assert sent_key(server.requests[0]) == "later"


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_function_that_fails_to_give_a_key(run, loopback, is_streamed):
    def key():
        raise LookupError("the vault is closed")

    server = loopback("ok")
    runner = helper(chat, server, options={"api_key": key})

    with pytest.raises(UPPError, match="the vault is closed") as caught:
        run(streamed(runner, "Hi") if is_streamed else runner.run("Hi"))

    assert caught.value.code == ErrorCode.AUTHENTICATION_FAILED
    assert server.requests == []


@pytest.mark.parametrize("wrong", [None, 42, b"key", "two\nlines"])
def test_a_function_that_gives_no_key(run, loopback, wrong):
    server = loopback("ok")

    with pytest.raises(UPPError) as caught:
        run(helper(chat, server, options={"api_key": lambda: wrong}).run("Hi"))

    assert caught.value.code in {ErrorCode.AUTHENTICATION_FAILED, ErrorCode.INVALID_REQUEST}
    assert server.requests == []


def test_keys_in_turn(run, loopback):
    server = loopback("ok")
    runner = helper(chat, server, options={"api_key": RoundRobinKeys(["a", "b", "c"])})

    async def main():
        for _ in range(4):
            await runner.run("Hi")

    run(main())

    assert [sent_key(request) for request in server.requests] == ["a", "b", "c", "a"]


@pytest.mark.parametrize("rare", [("rare", 1), {"key": "rare", "weight": 1.0}])
def test_keys_by_weight(run, loopback, rare):
    server = loopback("ok")
    runner = helper(chat, server, options={"api_key": WeightedKeys([("often", 30), rare])})

    async def main():
        for _ in range(60):
            await runner.run("Hi")

    run(main())

    counts = Counter(sent_key(request) for request in server.requests)
    assert counts["often"] > 40
    assert set(counts) <= {"often", "rare"}


@pytest.mark.parametrize(
    "wrong",
    [KEY, (KEY,), (KEY, "much"), {"key": KEY}, {"key": KEY, "weight": "much"}, {"key": KEY, "weight": 1, "more": 2}],
)
def test_a_wrong_weighted_key_is_refused_and_not_shown(wrong):
    with pytest.raises(TypeError) as caught:
        WeightedKeys([wrong])

    shown = "".join(traceback.format_exception_only(caught.value))
    assert "dict of key and weight" in shown
    assert KEY not in shown


def test_a_version_is_put_where_the_vendor_has_one(run, loopback, tmp_path):
    server = loopback("ok")
    made = [
        anthropic("claude", base_url=server.base_url, api_key=KEY, api_version="2030-01-01"),
        xai("grok", "messages", base_url=server.base_url, api_key=KEY, api_version="2030-01-02"),
        openai("gpt", base_url=server.base_url, api_key=KEY, api_version="2030-01-03"),
    ]
    for model in made:
        llm(model=model, params={"max_tokens": 9} if model.provider != "openai" else None).generate_sync("Hi")
    given = [request.headers.get("anthropic-version") for request in server.requests]
    assert given == ["2030-01-01", "2030-01-02", None]
    assert not any("2030-01-03" in f"{request.path}{request.headers}" for request in server.requests)

    path = tmp_path / "empty.json"
    path.write_text('{"format": "turntree.replay", "version": 1, "exchanges": []}')
    with replay(path):
        for version in ("v1", "v1alpha"):
            model = google("gemini", api_version=version)
            for call in (llm(model=model).generate_sync, embedding(model=model).embed_sync):
                with pytest.raises(UPPError, match=f"googleapis.com/{version}/models/gemini:"):
                    call("Hi")


@pytest.mark.parametrize("wrong", [42, b"key", ["a"], object()])
def test_a_wrong_key_is_refused_at_once(wrong):
    with pytest.raises(TypeError, match="api_key"):
        openai("gpt", api_key=wrong)


@pytest.mark.parametrize("make", [RoundRobinKeys, WeightedKeys])
def test_strategies_without_keys_are_refused(make):
    with pytest.raises(ValueError, match="at least one key"):
        make([])


@pytest.mark.parametrize("wrapped", [str, lambda key: lambda: key, lambda key: RoundRobinKeys([key]), DynamicKey])
def test_a_repr_shows_no_key(wrapped):
    key = wrapped(KEY) if wrapped is not DynamicKey else DynamicKey(lambda: KEY)
    model = openai("gpt", api_key=key, headers={"x-own": KEY})
    config = ProviderConfig(api_key=key, headers={"Authorization": KEY})

    shown = repr(model) + repr(config) + repr(agent(model=model, config=config))
    shown += repr(agent(model=model, config=config).options)
    if not isinstance(key, str):
        shown += repr(key)

    assert KEY not in shown


@pytest.mark.parametrize("in_a_header", [False, True])
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("make", WIRES)
def test_errors_and_logs_show_no_key(run, loopback, caplog, capfd, make, is_streamed, in_a_header):
    caplog.set_level(logging.DEBUG)
    server = loopback(ErrorReply(401, f"Incorrect API key provided: {KEY}."), strict=False)
    options = {"api_key": None, "headers": {"Authorization": f"Bearer {KEY}"}} if in_a_header else {}
    runner = helper(make, server, options=options)

    with pytest.raises(UPPError) as caught:
        run(streamed(runner, "Hi") if is_streamed else runner.run("Hi"))

    error = caught.value
    shown = str(error) + repr(error) + json.dumps(error.to_dict()) + repr(error.__dict__)
    assert KEY not in shown + caplog.text + "".join(capfd.readouterr())
    assert error.code == ErrorCode.AUTHENTICATION_FAILED


def test_an_error_in_a_stream_shows_no_key(run, loopback):
    from turntree.testing import Fault

    server = loopback(Reply("one two three", fault=Fault(error_after=2, error_message=f"bad {KEY}")))

    with pytest.raises(UPPError) as caught:
        run(streamed(helper(chat, server), "Hi"))

    assert KEY not in str(caught.value)


# Headers and addresses


def test_headers_override_whatever_their_case(run, loopback):
    server = loopback("ok")
    runner = helper(
        messages,
        server,
        options={"headers": {"X-API-KEY": "other", "ANTHROPIC-VERSION": "2030-01-01", "x-team": "blue"}},
    )

    run(runner.run("Hi"))

    headers = server.requests[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("other", "2030-01-01")
    assert headers["x-team"] == "blue"


def test_the_agents_config_goes_over_the_models(run, loopback):
    server = loopback("ok")
    model = chat(server, headers={"x-a": "model", "x-b": "model", "x-c": "model"})

    run(agent(model=model, config={"headers": {"X-A": "agent", "X-C": None}}).run("Hi"))

    headers = server.requests[0].headers
    assert (headers["x-a"], headers["x-b"]) == ("agent", "model")
    assert "x-c" not in headers


@pytest.mark.parametrize("bad", [{"a b": "c"}, {"a": "b\r\nc: d"}, {"": "x"}])
def test_headers_that_cannot_be_sent_are_refused(run, loopback, bad):
    server = loopback("ok")

    with pytest.raises((UPPError, ValueError, TypeError)) as caught:
        run(helper(chat, server, options={"headers": bad}).run("Hi"))

    assert server.requests == []
    if isinstance(caught.value, UPPError):
        assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("make", "ending"),
    [
        (chat, "/chat/completions"),
        (responses, "/responses"),
        (messages, "/messages"),
        (compatible, "/chat/completions"),
    ],
)
@pytest.mark.parametrize("form", ["{url}/v1", "{url}/v1/", "{url}/v1{ending}", "{url}/v1?tenant=7"])
def test_base_urls_are_prefixes_or_endpoints(run, loopback, make, ending, form):
    server = loopback("ok")
    url = form.format(url=server.url, ending=ending)

    run(helper(make, server, options={"base_url": url}).run("Hi"))

    (request,) = server.requests
    assert request.path == f"/v1{ending}"
    assert request.query == ("tenant=7" if "tenant" in form else "")


@pytest.mark.parametrize("wrong", ["", "localhost:8000", "ftp://host", 42, "http://"])
def test_wrong_addresses_are_refused(run, wrong):
    with pytest.raises((TypeError, ValueError, UPPError)) as caught:
        run(agent(model=openai("gpt", "completions", base_url=wrong, api_key=KEY)).run("Hi"))

    if isinstance(caught.value, UPPError):
        assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("timeout", "5"),
        ("timeout", -1),
        ("timeout", float("nan")),
        ("headers", [("a", "b")]),
        ("headers", {"a": 1}),
        ("retry_strategy", "often"),
        ("timeouts", 5),
    ],
)
def test_wrong_settings_are_named(option, wrong):
    with pytest.raises((TypeError, ValueError), match=option):
        openai("gpt", **{option: wrong})


def test_settings_may_come_as_one_config(run, loopback):
    server = loopback("ok")
    config = ProviderConfig(api_key=KEY, base_url=server.base_url)

    run(agent(model=openai("gpt", config=config)).run("Hi"))
    run(agent(model=openai("gpt", config={"apiKey": KEY, "baseUrl": server.base_url})).run("Hi"))
    run(agent(model=openai("gpt"), config=config).run("Hi"))

    assert [sent_key(request) for request in server.requests] == [KEY] * 3


def test_single_settings_go_over_a_config_object(run, loopback):
    server = loopback("ok")
    config = ProviderConfig(api_key="another", base_url=server.base_url)

    run(agent(model=openai("gpt", api_key=KEY, config=config)).run("Hi"))

    assert sent_key(server.requests[0]) == KEY


@pytest.mark.parametrize("wrong", ["chat", "", None])
def test_openai_knows_two_apis(wrong):
    with pytest.raises((TypeError, ValueError), match="api"):
        openai("gpt", wrong)


@pytest.mark.parametrize("make", [openai, anthropic, ollama])
@pytest.mark.parametrize("wrong", [None, 42, ""])
def test_a_model_needs_a_name(make, wrong):
    with pytest.raises((TypeError, ValueError), match="model"):
        make(wrong)


def test_the_request_of_a_proxy_page_is_told(run, loopback):
    server = loopback(RawReply("<html>Welcome</html>", content_type="text/html"))

    with pytest.raises(UPPError, match="text/html") as caught:
        run(helper(chat, server).run("Hi"))

    assert caught.value.code == ErrorCode.INVALID_RESPONSE


# Vendors of a shared wire


def run_with_tool(server, model):
    """A streamed run that calls a tool, on Chat Completions."""
    return streamed(agent(model=model, tools=[weather]), "Weather in Oslo?")


@pytest.mark.parametrize(("variable", "factory"), VENDORS.items())
def test_a_vendor_takes_its_key_from_its_variable(run, loopback, monkeypatch, variable, factory):
    server = loopback([Reply(tool_calls=[ToolCall("weather", {"city": "Oslo"})]), Reply("Sunny.")])
    monkeypatch.setenv(variable, KEY)

    events, turn = run(run_with_tool(server, factory("m", base_url=server.base_url)))

    assert text_of(events) == turn.response.text == "Sunny."
    assert [execution.result for execution in turn.tool_executions] == ["Oslo: sunny"]
    assert factory.__name__ in turn.response.metadata
    for request in server.requests:
        assert request.path.endswith("/chat/completions")
        assert request.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("factory", [openrouter, xai, deepseek])
def test_vendors_that_also_speak_responses(run, loopback, factory):
    server = loopback([Reply(tool_calls=[ToolCall("weather", {"city": "Oslo"})]), Reply("Sunny.")])
    model = factory("m", "responses", base_url=server.base_url, api_key=KEY)

    events, turn = run(run_with_tool(server, model))

    assert text_of(events) == turn.response.text == "Sunny."
    assert {request.path.rsplit("/", 1)[-1] for request in server.requests} == {"responses"}


def test_xai_speaks_messages(run, loopback):
    server = loopback(Reply("Hello."))
    model = xai("grok", "messages", base_url=server.base_url, api_key=KEY)

    turn = run(agent(model=model, params={"max_tokens": 5}).run("Hi"))

    assert turn.response.text == "Hello."
    assert server.requests[0].headers["x-api-key"] == KEY
    assert "xai" in turn.response.metadata


def test_a_responses_host_has_its_own_variable(run, loopback, monkeypatch):
    server = loopback(Reply("Hello."))
    monkeypatch.setenv("OPENRESPONSES_API_KEY", "of-the-default")
    monkeypatch.setenv("MY_HOST_KEY", KEY)

    turns = [
        run(agent(model=responses_host("m", server.base_url)).run("Hi")),
        run(agent(model=responses_host("m", server.base_url, api_key_env="MY_HOST_KEY")).run("Hi")),
        run(agent(model=responses_host("m", server.base_url, api_key="given")).run("Hi")),
    ]

    assert [turn.response.text for turn in turns] == ["Hello."] * 3
    keys = [request.headers["authorization"] for request in server.requests]
    assert keys == ["Bearer of-the-default", f"Bearer {KEY}", "Bearer given"]


def test_a_responses_host_must_be_named():
    with pytest.raises(ValueError, match="host"):
        responses_host("m", " ")
    with pytest.raises(TypeError):
        responses_host("m")


def test_an_api_that_a_vendor_has_not_is_named_with_those_it_has():
    with pytest.raises(ValueError, match='"messages" for xai, not "chat"'):
        xai("m", "chat")
    with pytest.raises(ValueError, match='"completions" for openrouter, not "messages"'):
        openrouter("m", "messages")
