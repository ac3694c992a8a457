"""Helpers of the tests of HTTP faults."""

import socket
import threading
from contextlib import contextmanager

import pytest

from turntree import agent
from turntree.upp import (
    UPPError,
    anthropic,
    ollama,
    openai,
)

WORDS = "one two three four five six seven eight nine ten"


KEY = "sk-secret-0123456789"


def chat(url, **options):
    return openai("gpt", "completions", base_url=url, api_key=KEY, **options)


def responses(url, **options):
    return openai("gpt", base_url=url, api_key=KEY, **options)


def messages(url, **options):
    return anthropic("claude", base_url=url, api_key=KEY, **options)


def local(url, **options):
    return ollama("llama3.2", base_url=url, **options)


WIRES = [chat, responses, messages]


# All APIs share the transport, which detects the faults; only the content of streams differs.
MODES = ["plain", "streamed"]


def ask(run, make, url, mode, **options):
    """Send one request and return the error; fails if an answer arrives."""
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


# Custom servers


@contextmanager
def listener(respond):
    """A listening socket that passes each connection to a function and then closes it."""
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
                    connection.settimeout(20)
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
    """A server that sends one reply for every path, for APIs that the loopback server does not support."""

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
