"""A server with HTTP/2 and HTTP/1.1 over TLS, which counts connections and streams."""

import asyncio
import json
import ssl
import threading
from contextlib import contextmanager

import trustme
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes, Settings

ANSWER = json.dumps(
    {"id": "1", "model": "m", "choices": [{"index": 0, "message": {"content": "Hi."}, "finish_reason": "stop"}]}
).encode()
FIRST_CHUNK = b'data: {"id":"1","model":"m","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
LAST_CHUNKS = b'data: {"choices":[{"index":0,"delta":{"content":"."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
REFUSED_STREAM = 7


class Http2Server:
    """Answers chat completions.

    `streams` is the limit that is announced, `refuse` the number of streams that are refused first, and `lifetime` the
    number of answers after which a connection is closed with GOAWAY. Answers begin when `answering` is set, and streams
    end when `ending` is set.
    """

    def __init__(self, *, streams=100, refuse=0, lifetime=None):
        self.streams = streams
        self.lifetime = lifetime
        self.refuse = refuse
        self.protocols = []
        self.most_streams = 0
        self.most_connections = 0
        self.requests = 0
        self.refused = 0
        self.resets = 0
        self.open_connections = 0
        self.writers = set()
        self.answering = threading.Event()
        self.answering.set()
        self.ending = threading.Event()
        self.ending.set()
        self.asked = threading.Semaphore(0)
        self.idle = {}

    @property
    def url(self):
        return f"https://localhost:{self.port}/v1"

    def close_connections(self, *, goaway=False):
        """Close the connections, all idle, and return when the client has closed its side of them.

        `goaway`: of HTTP/2, announce the end only, as load balancers do; the client closes the connection.
        """
        asyncio.run_coroutine_threadsafe(self._close_connections(goaway), self.loop).result(20)

    async def _close_connections(self, goaway):
        for writer, (connection, closed) in list(self.idle.items()):
            if goaway:
                connection.close_connection()
                writer.write(connection.data_to_send())
                await closed.wait()
            else:
                writer.close()
                await writer.wait_closed()

    async def wait(self, event):
        while not event.is_set():
            await asyncio.sleep(0.002)

    async def serve(self, reader, writer):
        protocol = writer.get_extra_info("ssl_object").selected_alpn_protocol()
        self.protocols.append(protocol)
        self.open_connections += 1
        self.writers.add(writer)
        closed = asyncio.Event()
        self.idle[writer] = None, closed
        self.most_connections = max(self.most_connections, self.open_connections)
        try:
            await (self.serve_http2 if protocol == "h2" else self.serve_http1)(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.open_connections -= 1
            self.writers.discard(writer)
            closed.set()
            del self.idle[writer]
            writer.close()

    async def serve_http1(self, reader, writer):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = next((line for line in head.splitlines() if line.startswith("content-length:")), "0:0")
            is_stream = json.loads(await reader.readexactly(int(length.partition(":")[2]))).get("stream")
            self.requests += 1
            self.asked.release()
            await self.wait(self.answering)
            kind, body = ("text/event-stream", FIRST_CHUNK + LAST_CHUNKS) if is_stream else ("application/json", ANSWER)
            start = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(start.encode() + body)
            await writer.drain()

    async def serve_http2(self, reader, writer):
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.local_settings = Settings(False, {SettingCodes.MAX_CONCURRENT_STREAMS: self.streams})
        self.idle[writer] = connection, self.idle[writer][1]
        connection.initiate_connection()
        # h2 would close the connection of a client that has not read the limit yet; here its streams are refused.
        connection.local_settings = Settings(False, {SettingCodes.MAX_CONCURRENT_STREAMS: 1000})
        writer.write(connection.data_to_send())
        tasks, bodies, open_streams = set(), {}, set()
        answered = 0

        async def answer(stream):
            nonlocal answered
            self.requests += 1
            self.asked.release()
            await self.wait(self.answering)
            if stream not in bodies:
                return
            is_stream = json.loads(bodies.pop(stream)).get("stream")
            kind = "text/event-stream" if is_stream else "application/json"
            connection.send_headers(stream, [(":status", "200"), ("content-type", kind)])
            if is_stream:
                connection.send_data(stream, FIRST_CHUNK)
                writer.write(connection.data_to_send())
                await self.wait(self.ending)
            connection.send_data(stream, LAST_CHUNKS if is_stream else ANSWER, end_stream=True)
            open_streams.discard(stream)
            answered += 1
            if answered == self.lifetime:
                connection.close_connection()
            writer.write(connection.data_to_send())

        try:
            while data := await reader.read(65536):
                for event in connection.receive_data(data):
                    match event:
                        case RequestReceived():
                            if self.refused < self.refuse or len(open_streams) >= self.streams:
                                self.refused += 1
                                connection.reset_stream(event.stream_id, REFUSED_STREAM)
                                continue
                            bodies[event.stream_id] = b""
                            open_streams.add(event.stream_id)
                            self.most_streams = max(self.most_streams, len(open_streams))
                        case DataReceived() if event.stream_id in bodies:
                            connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                            bodies[event.stream_id] += event.data
                        case StreamReset():
                            self.resets += 1
                            bodies.pop(event.stream_id, None)
                            open_streams.discard(event.stream_id)
                        case StreamEnded() if event.stream_id in bodies:
                            task = asyncio.ensure_future(answer(event.stream_id))
                            tasks.add(task)
                            task.add_done_callback(tasks.discard)
                writer.write(connection.data_to_send())
        finally:
            for task in list(tasks):
                task.cancel()


@contextmanager
def http2_server(**options):
    """A running server, with `ca_certificates` for its clients."""
    authority = trustme.CA()
    server = Http2Server(**options)
    server.ca_certificates = authority.cert_pem.bytes()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2", "http/1.1"])
    authority.issue_cert("localhost").configure_cert(context)
    server.loop = loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    starting = asyncio.start_server(server.serve, "localhost", 0, ssl=context)
    listening = asyncio.run_coroutine_threadsafe(starting, loop).result(10)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        server.answering.set()
        server.ending.set()

        async def stop():
            listening.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            writers = list(server.writers)
            await asyncio.gather(*others, return_exceptions=True)
            for writer in writers:
                writer.transport.abort()
            # The transports close in the next turns of the loop.
            for _ in range(5):
                await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
