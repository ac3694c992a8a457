"""Error replies, faults, delays and connections of the loopback server."""

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from testing_server_support import APIS, PATHS, ask, parse, post, question

from turntree.testing import ErrorReply, Fault, LoopbackServer, RawReply, Reply, serve

# Errors


@pytest.mark.parametrize(
    ("api", "status", "kind", "code"),
    [
        ("openai-chat", 401, "invalid_request_error", "invalid_api_key"),
        ("openai-responses", 429, "requests", "rate_limit_exceeded"),
        ("openai-chat", 500, "server_error", None),
        ("anthropic-messages", 429, "rate_limit_error", None),
        ("anthropic-messages", 529, "overloaded_error", None),
        ("anthropic-messages", 404, "not_found_error", None),
    ],
)
def test_error_replies_have_the_vendor_error_body(api, status, kind, code):
    with serve(ErrorReply(status)) as server:
        got, headers, raw = ask(server, api, question(api, stream=True))

    assert got == status
    assert headers["content-type"] == "application/json"
    body = json.loads(raw)
    assert body["error"]["type"] == kind
    assert body["error"].get("code") == code
    assert body.get("type") == ("error" if api == "anthropic-messages" else None)


def test_error_reply_sends_retry_after_message_and_headers():
    reply = ErrorReply(429, "Slow down", type="tokens", retry_after=3, headers={"x-more": "1"})
    with serve([reply]) as server:
        _, headers, raw = ask(server, "openai-chat", question("openai-chat"))

    assert headers["retry-after"] == "3"
    assert headers["x-more"] == "1"
    assert json.loads(raw)["error"]["message"] == "Slow down"
    assert json.loads(raw)["error"]["type"] == "tokens"


@pytest.mark.parametrize("chunked", [False, True])
def test_raw_replies_are_sent_unchanged(chunked):
    page = RawReply("<html>Bad gateway</html>", 502, "text/html", chunked=chunked)
    with serve([page, RawReply(chunked=chunked, content_type=None)]) as server:
        status, headers, raw = ask(server, "openai-chat", question("openai-chat"))
        assert (status, headers["content-type"], raw) == (
            502,
            "text/html",
            b"<html>Bad gateway</html>",
        )
        status, headers, raw = ask(server, "openai-chat", question("openai-chat"))
        assert (status, headers["content-type"], raw) == (200, None, b"")


# Faults


def broken(fault, *, api="anthropic-messages", stream=True, text="Hello there, whoever you are"):
    """Send a request to a server with this fault; return bytes, exception, response and request."""
    with serve(Reply(text, fault=fault)) as server:
        connection, response = post(server, api, question(api, stream=stream))
        raw, caught = b"", None
        with closing(connection):
            try:
                while piece := response.read1():
                    raw += piece
            except (OSError, http.client.HTTPException) as error:
                caught = error
        return raw, caught, response, server.requests[0]


def test_reset_after_resets_the_connection():
    raw, caught, _, request = broken(Fault(reset_after=50))

    assert isinstance(caught, ConnectionResetError)
    assert len(raw) <= 50
    assert request.wait(30) == "faulted"


@pytest.mark.parametrize("stream", [True, False])
def test_close_after_closes_the_connection(stream):
    raw, caught, _, request = broken(Fault(close_after=50), stream=stream)

    if stream:  # http.client notices that the last chunk is missing, but not a missing length
        assert isinstance(caught, http.client.IncompleteRead)
    assert len(raw) == 50
    assert request.wait(30) == "faulted"


@pytest.mark.parametrize("stream", [True, False])
def test_truncate_after_ends_the_body_with_a_regular_close(stream):
    raw, caught, response, request = broken(Fault(truncate_after=50), stream=stream)

    assert caught is None
    assert len(raw) == 50
    assert response.headers["content-length"] == (None if stream else "50")
    assert request.wait(30) == "faulted"


def test_stall_after_lasts_until_the_client_leaves():
    with serve(Reply("Hello there", fault=Fault(stall_after=50))) as server:
        body = question("openai-chat", stream=True)
        connection, response = post(server, "openai-chat", body)
        assert len(response.read(50)) == 50
        connection.sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            response.read1()
        response.close()
        connection.close()
        assert server.requests[0].wait(30) == "faulted"


def test_small_writes_send_the_same_body():
    whole, _, _, _ = broken(None)
    raw, caught, _, request = broken(Fault(write_size=1))

    assert caught is None
    assert raw == whole
    assert request.wait(30) == "sent"


@pytest.mark.parametrize("api", APIS)
def test_error_after_ends_the_stream_with_the_vendors_event(api):
    fault = Fault(error_after=2, error_message="Too busy")
    raw, caught, _, request = broken(fault, api=api)

    assert caught is None
    assert request.wait(30) == "faulted"
    events = parse(raw)
    assert len(events) == 3
    name, data = events[-1]
    assert name == (None if api == "openai-chat" else "error")
    assert "Too busy" in json.dumps(data)


def test_content_type_can_be_overridden():
    _, _, response, _ = broken(Fault(content_type="text/plain"))

    assert response.headers["content-type"] == "text/plain"


@pytest.mark.parametrize(
    "options",
    [{"reset_after": 1, "stall_after": 1}, {"close_after": -1}, {"write_size": 0}],
)
def test_invalid_fault_is_rejected(options):
    with pytest.raises(ValueError, match="Fault|write_size"):
        Fault(**options)


# Time and connections


def test_delay_and_gap_slow_the_reply():
    with serve(Reply("one two three", delay=0.1, gap=0.02)) as server:
        start = time.monotonic()
        connection, response = post(server, "openai-chat", question("openai-chat", stream=True))
        with closing(connection):
            head = time.monotonic() - start
            response.read()
        whole = time.monotonic() - start

    # Lower bounds only: the server waits at least this long, however slow the machine is.
    assert head >= 0.1
    assert whole >= 0.1 + 5 * 0.02


def test_server_records_a_client_that_disconnects():
    with serve(Reply("one two three", gap=10)) as server:
        connection, response = post(server, "openai-chat", question("openai-chat", stream=True))
        assert response.read1()
        response.close()
        connection.close()
        assert server.requests[0].wait(30) == "dropped"


def test_server_records_a_client_that_disconnects_before_the_response_head():
    with serve(Reply("late", delay=30)) as server:
        port = int(server.url.rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request(
            "POST",
            PATHS["openai-chat"],
            json.dumps(question("openai-chat")),
            {"authorization": "Bearer test"},
        )
        request = server.wait_for_request(timeout=30)
        connection.close()
        assert request.wait(30) == "dropped"


def test_close_ends_active_requests():
    server = serve(Reply("late", delay=30))
    caught = []

    def client():
        try:
            ask(server, "openai-chat", question("openai-chat"))
        except (OSError, http.client.HTTPException) as error:
            caught.append(error)

    thread = threading.Thread(target=client)
    thread.start()
    server.wait_for_request(timeout=30)
    server.close()
    thread.join(30)

    # The error proves that close ended the request while the client waited for the reply.
    assert not thread.is_alive()
    assert len(caught) == 1


def test_wait_for_request_times_out():
    with serve("x") as server, pytest.raises(TimeoutError, match="request 1 did not arrive"):
        server.wait_for_request(timeout=0.01)


def test_connection_is_kept_alive():
    with serve("again") as server:
        port = int(server.url.rpartition(":")[2])
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            for stream in (True, False, True):
                connection.request(
                    "POST",
                    PATHS["openai-chat"],
                    json.dumps(question("openai-chat", stream=stream)),
                    {"authorization": "Bearer test"},
                )
                assert b"again" in connection.getresponse().read()
            local = connection.sock.getsockname()
            assert local[1] != 0

    assert len(server.requests) == 3


def test_many_concurrent_connections():
    with serve(Reply("busy", delay=0.2)) as server:
        results = []

        def client():
            results.append(ask(server, "openai-chat", question("openai-chat"))[0])

        threads = [threading.Thread(target=client) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    assert results == [200] * 50
    assert sorted(request.number for request in server.requests) == list(range(1, 51))


def test_request_body_without_length_is_rejected():
    with serve("never") as server:
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as raw, raw.makefile("rb") as lines:
            raw.sendall(b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
            assert lines.readline().startswith(b"HTTP/1.1 411")


def test_server_can_restart_and_raises_when_not_running():
    server = LoopbackServer("Hello")
    assert repr(server) == "<LoopbackServer closed requests=0>"
    with pytest.raises(RuntimeError, match="with"):
        _ = server.base_url
    for _ in range(2):
        with server:
            assert server.base_url.endswith("/v1")
            assert ask(server, "openai-chat", question("openai-chat"))[0] == 200
    server.close()
    assert len(server.requests) == 2


def test_importing_turntree_does_not_load_the_server():
    code = "import sys, turntree; print('turntree.testing' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_server_imports_only_the_standard_library():
    code = (
        "import sys; before = set(sys.modules); import turntree.testing;"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(new - set(sys.stdlib_module_names) - {'turntree'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
