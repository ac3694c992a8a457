"""Faults of HTTP/2 framing, and the server that applies them. Needs the packages `h2` and `trustme`."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from chaos.fault_outcome import INVALID, NETWORK, Ending, FaultOutcome, GoodResponse, Pause, cuts
from chaos.faults import FaultKind
from chaos.server import ChaosServer, good_response
from turntree.testing._dialect import compact
from turntree.testing._replies import ErrorReply, RawReply, Reply, Script
from turntree.testing._server import Handler

if TYPE_CHECKING:
    from turntree.testing._request import Request


@dataclass(frozen=True)
class Frame:
    """An act of the server on the stream of a request, or on its connection."""

    kind: Literal["head", "data", "end", "reset-stream", "goaway", "goaway-before", "raw", "close"]
    value: Any = None


Act2: TypeAlias = Frame | Pause

HTTP2_KINDS: dict[str, FaultKind] = {}

# RFC 9113 §7.
_NO_ERROR, _REFUSED = 0x0, 0x7
_FAILURES = (0x1, 0x2, 0x8, 0xB)  # protocol error, internal error, cancel, enhance your calm


def _fault(
    name: str, weight: float = 1.0, *, is_slow: bool = False
) -> Callable[[Callable[[GoodResponse, Random], FaultOutcome]], Callable[[GoodResponse, Random], FaultOutcome]]:
    def register(
        make: Callable[[GoodResponse, Random], FaultOutcome],
    ) -> Callable[[GoodResponse, Random], FaultOutcome]:
        HTTP2_KINDS[name] = FaultKind(make, weight, is_slow)
        return make

    return register


def _head(**more: str) -> Frame:
    return Frame("head", more)


def _data(pieces: Sequence[bytes]) -> list[Act2]:
    return [Frame("data", piece) for piece in pieces]


def _struck(
    name: str, answer: GoodResponse, random: Random, ending: Ending, *last: Act2, codes: frozenset[str] | None = None
) -> FaultOutcome:
    """A part of the body, truncated at any byte, and the act that ends it."""
    body = answer.body
    place = random.randrange(len(body) + 1)
    delivers, known = answer.outcome(place, ending)
    if delivers == "whole" and ending != "clean":
        delivers = "either"  # the client may receive the failure before the bytes that were sent earlier
    acts = [_head(), *_data(cuts(body[:place], random.randrange(4), random)), *last]
    note = f"after {place} of {len(body)} bytes"
    return FaultOutcome(fault=name, delivers=delivers, codes=codes or known, acts=acts, note=note)


@_fault("h2-plain", 2)
def _plain(answer: GoodResponse, random: Random) -> FaultOutcome:
    """A good response in frames of random length."""
    acts = [_head(), *_data(cuts(answer.body, random.randrange(9), random)), Frame("end")]
    return FaultOutcome(fault="h2-plain", delivers="whole", acts=acts, keeps_open=True)


@_fault("h2-goaway-graceful", 3)
def _goaway_graceful(answer: GoodResponse, random: Random) -> FaultOutcome:
    """GOAWAY in the middle of a response that is then completed: the client must not report an error."""
    pieces = _data(cuts(answer.body, 4, random))
    pieces.insert(random.randrange(len(pieces) + 1), Frame("goaway", _NO_ERROR))
    return FaultOutcome(fault="h2-goaway-graceful", delivers="whole", acts=[_head(), *pieces, Frame("end")])


@_fault("h2-goaway-before", 2)
def _goaway_before(answer: GoodResponse, random: Random) -> FaultOutcome:
    """GOAWAY that declares the request unprocessed, for every attempt."""
    acts = [Frame("goaway-before", _NO_ERROR), Frame("close")]
    return FaultOutcome(fault="h2-goaway-before", delivers="nothing", codes=NETWORK, acts=acts)


@_fault("h2-goaway-during", 4)
def _goaway_during(answer: GoodResponse, random: Random) -> FaultOutcome:
    """GOAWAY with an error in the middle, and the connection closes."""
    last = (Frame("goaway", random.choice(_FAILURES)), Frame("close"))
    return _struck("h2-goaway-during", answer, random, "close", *last)


@_fault("h2-goaway-and-close", 3)
def _goaway_and_close(answer: GoodResponse, random: Random) -> FaultOutcome:
    """GOAWAY without an error in the middle, and the connection closes."""
    return _struck("h2-goaway-and-close", answer, random, "close", Frame("goaway", _NO_ERROR), Frame("close"))


@_fault("h2-reset-stream", 4)
def _reset_stream(answer: GoodResponse, random: Random) -> FaultOutcome:
    """RST_STREAM in the middle, also without an error."""
    code = random.choice([*_FAILURES, _NO_ERROR, _REFUSED])
    # Some clients treat a stream reset without an error as complete.
    codes = NETWORK | INVALID if code == _NO_ERROR else None
    return _struck("h2-reset-stream", answer, random, "reset", Frame("reset-stream", code), codes=codes)


@_fault("h2-close", 3)
def _close(answer: GoodResponse, random: Random) -> FaultOutcome:
    """The connection closes in the middle."""
    return _struck("h2-close", answer, random, "close", Frame("close"))


@_fault("h2-garbage", 2)
def _garbage(answer: GoodResponse, random: Random) -> FaultOutcome:
    """Bytes that are not frames."""
    said = random.choice([b"HTTP/1.1 200 OK\r\n\r\n" * 4, b"\xff" * 64, b"\x00" * 8])
    return _struck("h2-garbage", answer, random, "close", Frame("raw", said), Frame("close"))


@_fault("h2-truncate", 4)
def _truncate(answer: GoodResponse, random: Random) -> FaultOutcome:
    """The stream ends regularly, but too early."""
    return _struck("h2-truncate", answer, random, "clean", Frame("end"))


@_fault("h2-length-lies", 2)
def _length_lies(answer: GoodResponse, random: Random) -> FaultOutcome:
    """A content-length that differs from the length of the body."""
    length = len(answer.body) + random.choice([-7, -1, 1, 1000])
    acts = [_head(**{"content-length": str(length)}), Frame("data", answer.body), Frame("end")]
    delivers, _ = answer.outcome(min(length, len(answer.body)), "close")
    delivers = "either" if delivers == "whole" else delivers
    return FaultOutcome(fault="h2-length-lies", delivers=delivers, codes=NETWORK | INVALID, acts=acts)


@_fault("h2-stall", 1, is_slow=True)
def _stall(answer: GoodResponse, random: Random) -> FaultOutcome:
    """The server stops sending in the middle and leaves the connection open."""
    return _struck("h2-stall", answer, random, "stall", Pause(None))


HTTP2_FAULTS: tuple[str, ...] = tuple(HTTP2_KINDS)
"""The additional faults of HTTP/2, by name."""


class Http2ChaosServer(ChaosServer):
    """A `ChaosServer` that speaks HTTP/2 over TLS with its own certificate; see `chaos`.

    Clients have to trust `ca_certificates`.
    """

    kinds = HTTP2_KINDS

    def __init__(self, script: Script, *, seed: int | None, only: Sequence[str], strict: bool) -> None:
        try:
            import trustme
            from h2.connection import H2Connection
        except ImportError as error:
            raise ImportError("chaos over HTTP/2 needs two packages: pip install h2 trustme") from error
        super().__init__(script, seed=seed, only=only, strict=strict)
        authority = trustme.CA()
        self.ca_certificates = authority.cert_pem.bytes()
        self.connect = H2Connection
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.set_alpn_protocols(["h2"])
        authority.issue_cert("127.0.0.1", "localhost").configure_cert(self.tls)  # pyright: ignore[reportUnknownMemberType]
        self._handler = _Http2Handler

    @property
    def url(self) -> str:
        """The root of the server: `https://127.0.0.1:PORT`."""
        return super().url.replace("http://", "https://")


class _Http2Handler(Handler):
    """Answers the requests of one connection, one after the other."""

    def handle(self) -> None:
        """Speak TLS, then exchange frames, until the client or the server closes."""
        import h2.config
        import h2.events

        owner = self.server.owner
        assert isinstance(owner, Http2ChaosServer)
        try:
            self.connection = owner.tls.wrap_socket(self.request, server_side=True)
        except (OSError, ValueError):
            return
        self.connection.settimeout(0.1)
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8", validate_outbound_headers=False)
        self.h2 = owner.connect(config)
        self.h2.initiate_connection()
        try:
            self._flush()
            self._serve(owner, h2.events)
        except OSError:
            pass  # the client left
        except Exception as error:  # h2 refuses a frame of the client, or this server has a defect
            owner.errors.append(error)
        finally:
            self.connection.close()

    def _serve(self, owner: Http2ChaosServer, events: Any) -> None:
        asked: dict[int, tuple[dict[str, str], bytearray]] = {}
        while data := self._receive():
            for event in self.h2.receive_data(data):
                match event:
                    case events.RequestReceived():
                        asked[event.stream_id] = (dict(event.headers), bytearray())
                    case events.DataReceived():
                        self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                        asked[event.stream_id][1].extend(event.data)
                    case events.StreamEnded():
                        headers, body = asked.pop(event.stream_id)
                        if not self._respond2(owner, event.stream_id, headers, bytes(body)):
                            return
                    case _:
                        pass
            self._flush()

    def _respond2(self, owner: Http2ChaosServer, stream: int, headers: dict[str, str], body: bytes) -> bool:
        """Answer a request. Returns whether the connection stays open."""
        request = owner._record(headers[":method"], headers[":path"], headers, body)
        dialect = request._dialect
        reply = owner._reply(request, dialect)
        request._finish("sent")
        plan = owner.plan_of(request)
        if not isinstance(reply, Reply) or dialect is None or plan is None:
            self._send_good(request, stream, reply)
            return True
        outcome = owner.apply_fault(plan, good_response(owner, request, dialect, reply))
        answer_type = dialect.stream_type if request.stream else "application/json"
        return all(self._act(stream, act, answer_type) for act in outcome.acts)

    def _send_good(self, request: Request, stream: int, reply: Reply | ErrorReply | RawReply) -> None:
        """Send an exempt reply, or one that is not a good answer, without a fault."""
        dialect = request._dialect
        if dialect is not None and isinstance(reply, Reply):
            answer = good_response(self.server.owner, request, dialect, reply)
            status, kind, body = 200, answer.content_type, answer.body
        elif dialect is not None and isinstance(reply, ErrorReply):
            status, kind, body = reply.status, "application/json", compact(dialect.error(reply, request)).encode()
        else:
            status, kind, body = 404, "application/json", json.dumps({"error": {"message": "unknown"}}).encode()
        self.h2.send_headers(stream, [(":status", str(status)), ("content-type", kind)])
        self.h2.send_data(stream, body, end_stream=True)
        self._flush()

    def _act(self, stream: int, act: Any, content_type: str) -> bool:
        """Do one act. Returns whether the connection stays open."""
        match act:
            case Pause():
                return self._wait_for_the_client()
            case Frame(kind="head"):
                self.h2.send_headers(stream, [(":status", "200"), ("content-type", content_type), *act.value.items()])
            case Frame(kind="data"):
                if act.value:
                    self.h2.send_data(stream, act.value)
            case Frame(kind="end"):
                self.h2.end_stream(stream)
            case Frame(kind="reset-stream"):
                self.h2.reset_stream(stream, act.value)
            case Frame(kind="goaway" | "goaway-before"):
                # Written directly: the library would close the connection, but a graceful server continues.
                last = stream if act.kind == "goaway" else 0
                self._flush()
                payload = last.to_bytes(4, "big") + act.value.to_bytes(4, "big")
                self.connection.sendall(b"\x00\x00\x08\x07\x00\x00\x00\x00\x00" + payload)
            case Frame(kind="raw"):
                self._flush()
                self.connection.sendall(act.value)
            case _:
                self._flush()
                return False
        self._flush()
        return True

    def _wait_for_the_client(self) -> bool:
        """Send nothing until the client disconnects or resets the stream."""
        while data := self._receive():
            names = [type(event).__name__ for event in self.h2.receive_data(data)]
            if "StreamReset" in names or "ConnectionTerminated" in names:
                return True
        return False

    def _receive(self) -> bytes:
        """The next bytes; empty after the client disconnects or the server closes."""
        while not self.server.closing.is_set():
            try:
                received: bytes = self.connection.recv(65536)
                return received
            except TimeoutError:
                continue
        return b""

    def _flush(self) -> None:
        if data := self.h2.data_to_send():
            self.connection.sendall(data)
