"""Faulty servers over real sockets: the right error code, in time, and never a partial answer. UPP-1.2 §12, §13."""

import asyncio
import contextlib
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


def compatible(url, **options):
    return openai_compatible("llama", base_url=url, api_key=KEY, **options)


# Faults common to all APIs


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
@pytest.mark.parametrize("position", [0, 40])
def test_connection_reset_is_a_network_error(run, loopback, make, mode, position):
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
def test_truncated_body_with_a_regular_close_is_an_invalid_response(run, loopback, make, mode, position):
    server = loopback(Reply(WORDS, fault=Fault(truncate_after=position)))

    error = ask(run, make, server.base_url, mode)

    assert error.code in {ErrorCode.INVALID_RESPONSE, ErrorCode.NETWORK_ERROR}


@pytest.mark.parametrize("make", WIRES)
def test_truncated_stream_is_never_accepted_as_an_answer(run, loopback, make):
    """A stream truncated at any position gives an error or the complete answer."""
    whole = loopback(Reply(WORDS))
    params = {"max_tokens": 100} if make is messages else {}

    async def streamed(url):
        return await agent(model=make(url), params=params).stream("Hi").turn

    run(streamed(whole.base_url))
    cuts = iter(range(0, 8000, 97))
    replies = loopback(lambda _request: Reply(WORDS, fault=Fault(truncate_after=next(cuts))))

    async def outcome():
        try:
            return (await streamed(replies.base_url)).response.text
        except UPPError as error:
            return error.code

    async def main():
        return await asyncio.gather(*(outcome() for _ in range(60)))

    outcomes = run(main())

    assert set(outcomes) <= {ErrorCode.INVALID_RESPONSE, ErrorCode.NETWORK_ERROR, WORDS}
    assert ErrorCode.INVALID_RESPONSE in outcomes


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
def test_missing_response_headers_are_a_timeout(run, loopback, make, mode):
    server = loopback(Reply(WORDS, delay=30))

    # On a stalled machine the time may be over before the request is sent, so it is asked again.
    for _ in range(20):
        began = time.monotonic()
        error = ask(run, make, server.base_url, mode, timeout=0.1)

        assert error.code == ErrorCode.TIMEOUT
        assert "100" in error.message
        # The bound only detects a hang: without the timeout the headers come after 30 seconds.
        assert time.monotonic() - began < 20
        # The client has given up; the threads of the server may still read what it sent.
        with contextlib.suppress(TimeoutError):
            assert server.wait_for_request(timeout=2).wait(10) == "dropped"
            break
    else:
        pytest.fail("no request was sent")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
@pytest.mark.parametrize("position", [0, 50])
def test_stalled_body_is_a_timeout(run, loopback, make, mode, position):
    server = loopback(Reply(WORDS, fault=Fault(stall_after=position)))

    began = time.monotonic()
    error = ask(run, make, server.base_url, mode, timeout=60, idle_timeout=0.1)

    assert error.code == ErrorCode.TIMEOUT
    # Both timeouts have the same code; the bound distinguishes the one of 0.1 seconds from the one of 60.
    assert time.monotonic() - began < 30


def test_slow_continuing_stream_does_not_time_out(run, loopback):
    server = loopback(Reply(WORDS, gap=0.15))  # together longer than the timeout

    async def main():
        return await agent(model=chat(server.base_url, idle_timeout=1.5)).stream("Hi").turn

    assert run(main()).response.text == WORDS


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", [*WIRES, local])
@pytest.mark.parametrize("status", [200, 502])
def test_html_page_is_reported_with_a_short_message(run, make, mode, status):
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
def test_json_body_instead_of_a_stream_is_an_invalid_response(run, loopback, make):
    server = loopback(RawReply('{"hello": 1}'))

    assert ask(run, make, server.base_url, "streamed").code == ErrorCode.INVALID_RESPONSE


BODIES = [b"", b" ", b"{", b"null", b"[]", b"42", b'"text"', b"{}", b'{"choices": []}', b"\xff\xfe", b"[" * 10_000]


@pytest.mark.parametrize("make", [*WIRES, compatible, local])
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_malformed_bodies_are_invalid_responses(run, make, body):
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
def test_malformed_streams_are_errors(run, loopback, make, body):
    server = loopback(RawReply(body, content_type="text/event-stream", chunked=True))

    error = ask(run, make, server.base_url, "streamed")

    assert error.code in {ErrorCode.INVALID_RESPONSE, ErrorCode.NETWORK_ERROR}


@pytest.mark.parametrize("body", [b"", b"\n", b"{", b"{}\n", b"null\n", b"\xff\n", b'{"message":{"content":"half"}}\n'])
def test_malformed_lines_are_errors(run, body):
    with any_path(RawReply(body, content_type="application/x-ndjson")) as url:
        error = ask(run, local, url, "streamed")

    assert error.code in {ErrorCode.INVALID_RESPONSE, ErrorCode.NETWORK_ERROR}


@pytest.mark.parametrize("make", WIRES)
def test_invalid_utf8_inside_an_answer_is_an_invalid_response(run, loopback, make):
    """The body is a valid answer with one invalid byte in its text."""
    server = loopback(lambda request: RawReply(good_body(make, request).replace(b"MARK", b"\xff")))

    assert ask(run, make, server.base_url, "plain").code == ErrorCode.INVALID_RESPONSE


def good_body(make, request):
    """A valid response body with the text MARK."""
    from turntree.testing._dialect import Exchange, compact
    from turntree.testing._server import _DIALECTS

    dialect = next(dialect for dialect in _DIALECTS if dialect.api == request.api)
    return compact(dialect.response(Exchange(request=request, reply=Reply("MARK"), calls=()))).encode()


@pytest.mark.parametrize("make", WIRES)
@pytest.mark.parametrize("after", [0, 1, 3])
def test_error_event_is_raised_with_its_message(run, loopback, make, after):
    server = loopback(Reply(WORDS, fault=Fault(error_after=after, error_message="we are busy")))

    error = ask(run, make, server.base_url, "streamed")

    assert "we are busy" in error.message
    assert error.code in {ErrorCode.PROVIDER_ERROR, ErrorCode.RATE_LIMITED}


@pytest.mark.parametrize("mode", MODES)
def test_refused_connection_is_a_network_error(run, mode):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

        error = ask(run, chat, f"http://127.0.0.1:{port}/v1", mode)  # bound: no other process takes the port

    assert error.code == ErrorCode.NETWORK_ERROR
    assert "127.0.0.1" in error.message


@pytest.mark.parametrize("mode", MODES)
def test_unknown_host_is_a_network_error(run, mode):
    error = ask(run, chat, "https://no-such-host.invalid/v1", mode)

    assert error.code == ErrorCode.NETWORK_ERROR
    assert "no-such-host.invalid" in error.message


@pytest.mark.parametrize("mode", MODES)
def test_server_that_closes_accepted_connections_is_a_network_error(run, mode):
    with listener(lambda connection: None) as url:
        assert ask(run, chat, url, mode).code == ErrorCode.NETWORK_ERROR


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH\r\n", b"\x00" * 100, b"HTTP/1.1 banana\r\n\r\n"])
def test_server_that_does_not_speak_http_raises_an_error(run, mode, answer):
    def respond(connection):
        connection.recv(65536)
        connection.sendall(answer)

    with listener(respond) as url:
        assert ask(run, chat, url, mode).code in {ErrorCode.NETWORK_ERROR, ErrorCode.INVALID_RESPONSE}


@pytest.mark.parametrize("mode", MODES)
def test_https_to_a_plain_http_server_is_a_network_error(run, loopback, mode):
    server = loopback("ok")

    error = ask(run, chat, server.base_url.replace("http://", "https://"), mode, timeout=20)

    assert error.code == ErrorCode.NETWORK_ERROR


@pytest.mark.parametrize("mode", MODES)
def test_redirect_is_not_followed_so_the_key_is_not_leaked(run, loopback, mode):
    other = loopback("stolen")
    server = loopback(RawReply(b"", status=307, headers={"location": f"{other.base_url}/chat/completions"}))

    error = ask(run, chat, server.base_url, mode)

    assert other.requests == []
    assert error.status_code == 307
