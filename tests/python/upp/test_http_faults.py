"""Servers that misbehave, over real sockets: the right code, in time, and never half an answer. UPP-1.2 §12, §13."""

import socket
import time

import pytest
from http_faults_support import KEY, MODES, WIRES, WORDS, any_path, ask, chat, listener, local, messages

from turntree import agent
from turntree.testing import Fault, RawReply, Reply
from turntree.upp import (
    ErrorCode,
    UPPError,
    openai_compatible,
)

pytestmark = pytest.mark.timeout(20)


def compatible(url, **options):
    return openai_compatible("llama", base_url=url, api_key=KEY, **options)


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
    # The bound only detects a hang: without the timeout the headers come after 30 seconds.
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
    # Both timeouts give the same code; the bound tells the one of 0.1 seconds from the one of 10.
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
    from turntree.testing._dialect import Exchange, compact
    from turntree.testing._server import _DIALECTS

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
