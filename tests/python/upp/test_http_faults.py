"""Servers that misbehave, over real sockets: the right code, in time, and never half an answer. UPP-1.2 §12, §13."""

import socket
import threading
import time
from contextlib import contextmanager

import pytest

from turntree import agent
from turntree.testing import ErrorReply, Fault, RawReply, Reply, ToolCall, serve
from turntree.upp import (
    ErrorCode,
    ExponentialBackoff,
    LinearBackoff,
    NoRetry,
    RetryAfterStrategy,
    TokenBucket,
    UPPError,
    anthropic,
    ollama,
    openai,
    openai_compatible,
    tool,
)

pytestmark = pytest.mark.timeout(20)

WORDS = "one two three four five six seven eight nine ten"
KEY = "sk-secret-0123456789"


def chat(url, **options):
    return openai("gpt", "completions", base_url=url, api_key=KEY, **options)


def responses(url, **options):
    return openai("gpt", base_url=url, api_key=KEY, **options)


def messages(url, **options):
    return anthropic("claude", base_url=url, api_key=KEY, **options)


def compatible(url, **options):
    return openai_compatible("llama", base_url=url, api_key=KEY, **options)


def local(url, **options):
    return ollama("llama3.2", base_url=url, **options)


WIRES = [chat, responses, messages]

# A fault is read by the transport, which all wires share; what is inside of a stream differs.
MODES = ["plain", "streamed"]


def ask(run, make, url, mode, **options):
    """Ask once and give back what was raised; fails if an answer comes."""
    params = {"max_tokens": 100} if make is messages else {}
    runner = agent(model=make(url, **options), params=params)

    async def streamed():
        stream = runner.stream("Hi")
        with pytest.raises(UPPError) as heard:
            async for _ in stream:
                pass
        with pytest.raises(UPPError) as awaited:
            await stream.turn
        assert awaited.value.code == heard.value.code
        raise heard.value

    with pytest.raises(UPPError) as caught:
        run(streamed() if mode == "streamed" else runner.run("Hi"))
    error = caught.value
    assert error.message
    assert error.provider == make(url).provider
    told = str(error) + repr(error)
    for inside in ("Traceback", "panicked", "src/", "hyper::", "reqwest::", "Err(", KEY):
        assert inside not in told
    return error


# Faults that every wire has


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
@pytest.mark.parametrize("position", [0, 40])
def test_a_reset_is_a_network_error(run, loopback, make, mode, position):
    server = loopback(Reply(WORDS, fault=Fault(reset_after=position)))

    error = ask(run, make, server.base_url, mode)

    assert error.code == ErrorCode.NETWORK_ERROR


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
@pytest.mark.parametrize("position", [0, 40, 300])
def test_a_connection_that_closes_early_is_a_network_error(run, loopback, make, mode, position):
    server = loopback(Reply(WORDS, fault=Fault(close_after=position)))

    error = ask(run, make, server.base_url, mode)

    assert error.code == ErrorCode.NETWORK_ERROR


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
@pytest.mark.parametrize("position", [0, 3, 40, 300])
def test_a_body_that_ends_early_in_good_order_is_an_invalid_response(run, loopback, make, mode, position):
    server = loopback(Reply(WORDS, fault=Fault(truncate_after=position)))

    error = ask(run, make, server.base_url, mode)

    assert error.code in {ErrorCode.INVALID_RESPONSE, ErrorCode.NETWORK_ERROR}


@pytest.mark.parametrize("make", WIRES)
def test_no_cut_of_a_stream_is_taken_for_an_answer(run, loopback, make):
    """Whatever the place of the cut: an error, or the whole answer."""
    whole = loopback(Reply(WORDS))
    params = {"max_tokens": 100} if make is messages else {}

    async def streamed(url):
        return await agent(model=make(url), params=params).stream("Hi").turn

    run(streamed(whole.base_url))
    cuts = iter(range(0, 8000, 97))
    replies = loopback(lambda _request: Reply(WORDS, fault=Fault(truncate_after=next(cuts))))

    async def main():
        outcomes = []
        for _ in range(60):
            try:
                turn = await streamed(replies.base_url)
            except UPPError as error:
                outcomes.append(error.code)
            else:
                outcomes.append(turn.response.text)
        return outcomes

    outcomes = run(main())

    assert set(outcomes) <= {ErrorCode.INVALID_RESPONSE, ErrorCode.NETWORK_ERROR, WORDS}
    assert ErrorCode.INVALID_RESPONSE in outcomes


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
def test_headers_that_do_not_come_are_a_timeout(run, loopback, make, mode):
    server = loopback(Reply(WORDS, delay=30))

    began = time.monotonic()
    error = ask(run, make, server.base_url, mode, timeout=0.1)

    assert error.code == ErrorCode.TIMEOUT
    assert "100" in error.message
    assert time.monotonic() - began < 5
    assert server.requests[0].wait() == "dropped"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
@pytest.mark.parametrize("position", [0, 50])
def test_a_body_that_stalls_is_a_timeout(run, loopback, make, mode, position):
    server = loopback(Reply(WORDS, fault=Fault(stall_after=position)))

    began = time.monotonic()
    error = ask(run, make, server.base_url, mode, timeout=10, idle_timeout=0.1)

    assert error.code == ErrorCode.TIMEOUT
    assert time.monotonic() - began < 5


def test_a_slow_stream_that_goes_on_is_no_timeout(run, loopback):
    server = loopback(Reply(WORDS, gap=0.05))

    async def main():
        return await agent(model=chat(server.base_url, idle_timeout=0.5)).stream("Hi").turn

    assert run(main()).response.text == WORDS


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", [*WIRES, local])
@pytest.mark.parametrize("status", [200, 502])
def test_a_page_of_html_is_told_as_such(run, make, mode, status):
    page = RawReply(
        "<!DOCTYPE html><html><body>" + "nginx " * 1000 + "</body></html>",
        status=status,
        content_type="text/html",
    )

    with any_path(page) as url:
        error = ask(run, make, url, mode)

    assert error.code == (ErrorCode.INVALID_RESPONSE if status == 200 else ErrorCode.PROVIDER_ERROR)
    assert len(error.message) < 600


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "image/png"])
def test_a_wrong_content_type_is_an_invalid_response(run, loopback, make, mode, kind):
    server = loopback(RawReply("hello", content_type=kind))

    error = ask(run, make, server.base_url, mode)

    assert error.code == ErrorCode.INVALID_RESPONSE


@pytest.mark.parametrize("make", WIRES)
def test_json_instead_of_a_stream_is_an_invalid_response(run, loopback, make):
    server = loopback(RawReply('{"hello": 1}'))

    assert ask(run, make, server.base_url, "streamed").code == ErrorCode.INVALID_RESPONSE


BODIES = [b"", b" ", b"{", b"null", b"[]", b"42", b'"text"', b"{}", b'{"choices": []}', b"\xff\xfe", b"[" * 10_000]


@pytest.mark.parametrize("make", [*WIRES, compatible, local])
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_bodies_that_are_no_answer_are_invalid_responses(run, make, body):
    with any_path(RawReply(body)) as url:
        error = ask(run, make, url, "plain")

    assert error.code == ErrorCode.INVALID_RESPONSE
    assert len(error.message) < 600


STREAMS = [
    b"",
    b"\n\n",
    b": comment\n\n",
    b"data: [DONE]\n\n",
    b"data:\n\n",
    b"data: {\n\n",
    b"data: null\n\n",
    b"data: 42\n\n",
    b"data: {}\n\n",
    b"data: \xff\xfe\n\n",
    b'data: {"choices": [{"delta": {"content": "half',
    b'event: nonsense\ndata: {"type": "nonsense"}\n\n',
    b"data: " + b"[" * 10_000 + b"\n\n",
    b"data",
]


@pytest.mark.parametrize("make", WIRES)
@pytest.mark.parametrize("body", STREAMS, ids=range(len(STREAMS)))
def test_streams_that_are_no_answer_are_errors(run, loopback, make, body):
    server = loopback(RawReply(body, content_type="text/event-stream", chunked=True))

    error = ask(run, make, server.base_url, "streamed")

    assert error.code in {ErrorCode.INVALID_RESPONSE, ErrorCode.NETWORK_ERROR}


@pytest.mark.parametrize("body", [b"", b"\n", b"{", b"{}\n", b"null\n", b"\xff\n", b'{"message":{"content":"half"}}\n'])
def test_lines_that_are_no_answer_are_errors(run, body):
    with any_path(RawReply(body, content_type="application/x-ndjson")) as url:
        error = ask(run, local, url, "streamed")

    assert error.code in {ErrorCode.INVALID_RESPONSE, ErrorCode.NETWORK_ERROR}


@pytest.mark.parametrize("make", WIRES)
def test_invalid_utf8_inside_an_answer_is_an_invalid_response(run, loopback, make):
    """A good answer in which one byte of the text is broken."""
    server = loopback(lambda request: RawReply(good_body(make, request).replace(b"MARK", b"\xff")))

    assert ask(run, make, server.base_url, "plain").code == ErrorCode.INVALID_RESPONSE


def good_body(make, request):
    """What a good server would say, with the text MARK."""
    from turntree.testing._server import _DIALECTS
    from turntree.testing._wire import Exchange, compact

    dialect = next(dialect for dialect in _DIALECTS if dialect.api == request.api)
    return compact(dialect.response(Exchange(request=request, reply=Reply("MARK"), calls=()))).encode()


@pytest.mark.parametrize("make", WIRES)
@pytest.mark.parametrize("after", [0, 1, 3])
def test_an_error_event_is_told(run, loopback, make, after):
    server = loopback(Reply(WORDS, fault=Fault(error_after=after, error_message="we are busy")))

    error = ask(run, make, server.base_url, "streamed")

    assert "we are busy" in error.message
    assert error.code in {ErrorCode.PROVIDER_ERROR, ErrorCode.RATE_LIMITED}


@pytest.mark.parametrize("mode", MODES)
def test_nobody_listens(run, mode):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    error = ask(run, chat, f"http://127.0.0.1:{port}/v1", mode)

    assert error.code == ErrorCode.NETWORK_ERROR
    assert "127.0.0.1" in error.message


@pytest.mark.parametrize("mode", MODES)
def test_no_such_host(run, mode):
    error = ask(run, chat, "https://no-such-host.invalid/v1", mode)

    assert error.code == ErrorCode.NETWORK_ERROR
    assert "no-such-host.invalid" in error.message


@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_accepts_and_closes(run, mode):
    with listener(lambda connection: None) as url:
        assert ask(run, chat, url, mode).code == ErrorCode.NETWORK_ERROR


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH\r\n", b"\x00" * 100, b"HTTP/1.1 banana\r\n\r\n"])
def test_a_server_that_speaks_no_http(run, mode, answer):
    def respond(connection):
        connection.recv(65536)
        connection.sendall(answer)

    with listener(respond) as url:
        assert ask(run, chat, url, mode).code in {ErrorCode.NETWORK_ERROR, ErrorCode.INVALID_RESPONSE}


@pytest.mark.parametrize("mode", MODES)
def test_tls_where_there_is_none(run, loopback, mode):
    server = loopback("ok")

    error = ask(run, chat, server.base_url.replace("http://", "https://"), mode, timeout=5)

    assert error.code == ErrorCode.NETWORK_ERROR


@pytest.mark.parametrize("mode", MODES)
def test_a_redirect_is_not_followed_with_the_key(run, loopback, mode):
    other = loopback("stolen")
    server = loopback(RawReply(b"", status=307, headers={"location": f"{other.base_url}/chat/completions"}))

    error = ask(run, chat, server.base_url, mode)

    assert other.requests == []
    assert error.status_code == 307


# Refusals and retries

QUICK = {"base_delay": 0.001, "max_delay": 0.002, "jitter": False}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("retry_after", [None, 7, "Wed, 21 Oct 2015 07:28:00 GMT", "nonsense"])
def test_too_many_requests(run, loopback, mode, retry_after):
    server = loopback(ErrorReply(429, "slow down", retry_after=retry_after))

    error = ask(run, chat, server.base_url, mode)

    assert (error.code, error.status_code) == (ErrorCode.RATE_LIMITED, 429)
    assert error.retry_after == {7: 7.0, "Wed, 21 Oct 2015 07:28:00 GMT": 0.0}.get(retry_after)
    assert error.request_id
    assert len(server.requests) == 1


def test_a_retry_after_without_bound_is_bounded(run, loopback):
    server = loopback(ErrorReply(429, retry_after=10**12))

    error = ask(run, chat, server.base_url, "plain", retry_after_max=60)

    assert error.retry_after == 60


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("strategy", "requests"),
    [
        (None, 1),
        (NoRetry(), 1),
        (ExponentialBackoff(max_attempts=2, **QUICK), 3),
        (LinearBackoff(max_attempts=3, delay=0.001), 4),
        (RetryAfterStrategy(max_attempts=1, fallback_delay=0.001), 2),
        (TokenBucket(max_tokens=10, refill_rate=1000.0, max_attempts=2), 3),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else str(value),
)
def test_how_often_is_tried_again(run, loopback, mode, strategy, requests):
    server = loopback(ErrorReply(429))

    error = ask(run, chat, server.base_url, mode, retry_strategy=strategy)

    assert error.code == ErrorCode.RATE_LIMITED
    assert len(server.requests) == requests


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
@pytest.mark.parametrize(
    "failure",
    [
        ErrorReply(429),
        ErrorReply(500),
        ErrorReply(503),
        Reply(WORDS, fault=Fault(reset_after=0)),
        Reply(WORDS, fault=Fault(close_after=0)),
    ],
    ids=["429", "500", "503", "reset", "close"],
)
def test_a_failure_that_passes_is_survived(run, loopback, make, mode, failure):
    server = loopback([failure, failure, Reply(WORDS)])
    params = {"max_tokens": 100} if make is messages else {}
    model = make(server.base_url, retry_strategy=ExponentialBackoff(**QUICK))
    runner = agent(model=model, params=params)

    async def streamed():
        return await runner.stream("Hi").turn

    turn = run(streamed() if mode == "streamed" else runner.run("Hi"))

    assert turn.response.text == WORDS
    assert turn.cycles == 1
    assert len(server.requests) == 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_final_refusal_is_not_tried_again(run, loopback, mode, status):
    server = loopback(ErrorReply(status))

    ask(run, chat, server.base_url, mode, retry_strategy=ExponentialBackoff(**QUICK))

    assert len(server.requests) == 1


def test_the_servers_wait_is_followed(run, loopback):
    server = loopback([ErrorReply(429, retry_after=1), Reply("ok")])
    model = chat(server.base_url, retry_strategy=RetryAfterStrategy())

    began = time.monotonic()
    turn = run(agent(model=model).run("Hi"))

    assert turn.response.text == "ok"
    assert time.monotonic() - began >= 0.95


def test_nothing_is_sent_again_once_a_stream_has_begun(run, loopback):
    server = loopback([Reply(WORDS, fault=Fault(reset_after=400)), Reply(WORDS)])

    error = ask(run, chat, server.base_url, "streamed", retry_strategy=ExponentialBackoff(**QUICK))

    assert error.code == ErrorCode.NETWORK_ERROR
    assert len(server.requests) == 1


def test_a_wait_between_attempts_can_be_cancelled(run, loopback):
    import asyncio

    server = loopback(ErrorReply(429, retry_after=600))
    runner = agent(model=chat(server.base_url, retry_strategy=RetryAfterStrategy()))

    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(runner.run("Hi"), 0.2)

    began = time.monotonic()
    run(main())

    assert time.monotonic() - began < 5
    assert len(server.requests) == 1


# Faults in the middle of a run


@pytest.mark.parametrize("mode", MODES)
def test_a_failure_after_tools_keeps_what_there_is(run, loopback, mode):
    @tool
    def add(a: int, b: int) -> int:
        return a + b

    server = loopback([[ToolCall("add", {"a": 1, "b": 2})], ErrorReply(500)])
    runner = agent(model=chat(server.base_url), tools=[add])

    async def streamed():
        return await runner.stream("Hi").turn

    with pytest.raises(UPPError) as caught:
        run(streamed() if mode == "streamed" else runner.run("Hi"))

    partial = caught.value.partial
    assert partial is not None
    assert [message.type for message in partial.messages] == ["user", "assistant", "tool_result"]
    assert partial.cycles == 1
    assert partial.usage.total_tokens > 0


def test_run_sync_and_stream_sync_fail_alike(loopback):
    server = loopback(Reply(WORDS, fault=Fault(reset_after=10)))
    runner = agent(model=chat(server.base_url))

    with pytest.raises(UPPError) as plain:
        runner.run_sync("Hi")
    with pytest.raises(UPPError) as streamed:
        list(runner.stream_sync("Hi"))

    assert plain.value.code == streamed.value.code == ErrorCode.NETWORK_ERROR


def test_a_failure_leaves_the_pool_usable(run, loopback):
    replies = iter([Fault(reset_after=30), Fault(close_after=30), None, None])
    server = loopback(lambda _: Reply(WORDS, fault=next(replies)))
    runner = agent(model=chat(server.base_url))

    async def main():
        outcomes = []
        for _ in range(4):
            try:
                outcomes.append((await runner.run("Hi")).response.text)
            except UPPError as error:
                outcomes.append(error.code)
        return outcomes

    assert run(main()) == [ErrorCode.NETWORK_ERROR, ErrorCode.NETWORK_ERROR, WORDS, WORDS]


def test_an_error_can_be_pickled_and_copied(run, loopback):
    import copy
    import pickle

    server = loopback(ErrorReply(429, "slow", retry_after=3))

    error = ask(run, chat, server.base_url, "plain")

    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert (again.code, again.status_code, again.retry_after, str(again)) == (
            error.code,
            429,
            3.0,
            str(error),
        )


# Servers of our own


@contextmanager
def listener(respond):
    """A socket that hands each connection to a function and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stop = threading.Event()

        def accept():
            server.settimeout(0.05)
            while not stop.is_set():
                try:
                    connection, _ = server.accept()
                except (TimeoutError, OSError):
                    continue
                with connection:
                    connection.settimeout(5)
                    respond(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        finally:
            stop.set()
            thread.join()


@contextmanager
def any_path(reply):
    """A server that gives one answer whatever the path, for wires that the loopback server does not speak."""

    def respond(connection):
        request = b""
        while b"\r\n\r\n" not in request:
            request += connection.recv(65536)
        head, _, body = request.partition(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
        )
        while len(body) < length:
            body += connection.recv(65536)
        payload = reply.body if isinstance(reply.body, bytes) else reply.body.encode()
        connection.sendall(
            b"HTTP/1.1 %d X\r\ncontent-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (reply.status, reply.content_type.encode(), len(payload), payload)
        )

    with listener(respond) as url:
        yield url


def test_the_servers_of_this_file_work(run):
    good = b'{"model":"m","message":{"role":"assistant","content":"hi"},"done":true,"done_reason":"stop"}'

    with any_path(RawReply(good)) as url:
        turn = run(agent(model=local(url)).run("Hi"))

    assert turn.response.text == "hi"
    with serve("ok") as server:
        assert run(agent(model=chat(server.base_url)).run("Hi")).response.text == "ok"
