"""Requests through proxies: forwarded ones of plain HTTP, and tunnels for TLS."""

import asyncio
import base64
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from http2_server import ANSWER, FIRST_CHUNK, LAST_CHUNKS, http2_server

from turntree.upp import UPPError, llm, openai_compatible

pytestmark = pytest.mark.filterwarnings("ignore:http.*is not encrypted")


class Proxy:
    """Answers forwarded requests by itself, and connects tunnels to their hosts."""

    def __init__(self):
        self.connections = 0
        self.requests = []
        self.authorizations = []
        self.tasks = set()

    async def serve(self, reader, writer):
        self.connections += 1
        self.tasks.add(asyncio.current_task())
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                line, *fields = head.split("\r\n")
                headers = dict(field.lower().split(": ", 1) for field in fields if field)
                self.requests.append(line)
                self.authorizations.append(headers.get("proxy-authorization"))
                if line.startswith("CONNECT "):
                    await self.tunnel(line.split()[1], reader, writer)
                    return
                body = await reader.readexactly(int(headers["content-length"]))
                is_stream = b'"stream":true' in body.replace(b" ", b"")
                kind, answer = (
                    ("text/event-stream", FIRST_CHUNK + LAST_CHUNKS) if is_stream else ("application/json", ANSWER)
                )
                start = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(answer)}\r\n\r\n"
                writer.write(start.encode() + answer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def tunnel(self, target, reader, writer):
        host, _, port = target.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def copy(source, sink):
            try:
                while data := await source.read(65536):
                    sink.write(data)
            finally:
                sink.close()

        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer), return_exceptions=True)


@asynccontextmanager
async def running():
    proxy = Proxy()
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        for task in proxy.tasks:
            task.cancel()
        await asyncio.gather(*proxy.tasks, return_exceptions=True)
        # The transports close in the next turns of the loop.
        for _ in range(5):
            await asyncio.sleep(0)


async def test_plain_requests_are_forwarded_on_one_connection():
    async with running() as proxy:
        model = llm(model=openai_compatible("m", "http://far.example/v1", proxy=f"http://me:secret@{proxy.address}"))

        texts = [(await model.generate("Hi")).response.text for _ in range(3)]
        async with model.stream("Hi") as stream:
            texts.append((await stream.turn).response.text)

    assert texts == ["Hi."] * 4
    assert proxy.requests == ["POST http://far.example/v1/chat/completions HTTP/1.1"] * 4
    assert proxy.authorizations == ["basic " + base64.b64encode(b"me:secret").decode().lower()] * 4
    assert proxy.connections == 1


async def test_many_forwarded_requests_run_at_once():
    async with running() as proxy:
        model = llm(model=openai_compatible("m", "http://far.example/v1", proxy=f"http://{proxy.address}"))

        turns = await asyncio.gather(*(model.generate("Hi") for _ in range(40)))

    assert [turn.response.text for turn in turns] == ["Hi."] * 40
    assert len(proxy.requests) == 40


@pytest.mark.parametrize("http2", [True, False])
async def test_requests_with_tls_share_a_tunnel(http2):
    with http2_server() as server:
        async with running() as proxy:
            options = {"ca_certificates": server.ca_certificates, "proxy": f"http://{proxy.address}", "http2": http2}
            model = llm(model=openai_compatible("m", server.url, **options))

            texts = [(await model.generate("Hi")).response.text for _ in range(3)]

            assert texts == ["Hi."] * 3
            assert proxy.requests == [f"CONNECT localhost:{urlsplit(server.url).port} HTTP/1.1"]
            assert server.protocols == ["h2" if http2 else "http/1.1"]


async def test_error_of_a_proxy_that_is_not_there_does_not_show_its_password():
    model = llm(
        model=openai_compatible("m", "http://far.example/v1", proxy="http://me:secret@127.0.0.1:9", max_retries=0)
    )

    with pytest.raises(UPPError) as caught:
        await model.generate("Hi")

    assert caught.value.code == "NETWORK_ERROR"
    assert "secret" not in str(caught.value)
