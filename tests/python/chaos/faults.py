"""The faults of a response: each fault turns a good answer into acts on a socket and reports what was delivered.

This module does no I/O: its functions turn an answer and a random generator into a `FaultOutcome`.
"""

from __future__ import annotations

import gzip
import re
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from chaos.fault_outcome import (
    INVALID,
    LAST_CHUNK,
    NETWORK,
    Act,
    Ending,
    FaultOutcome,
    GoodResponse,
    Pause,
    Reset,
    chunk,
    cuts,
    ended,
    failed,
    sent_whole,
    whole,
)
from turntree.testing._dialect import compact
from turntree.testing._replies import ErrorReply, Fault

_CODE_OF_STATUS = {
    400: "INVALID_REQUEST",
    401: "AUTHENTICATION_FAILED",
    402: "QUOTA_EXCEEDED",
    403: "AUTHENTICATION_FAILED",
    404: "MODEL_NOT_FOUND",
    408: "TIMEOUT",
    409: "INVALID_REQUEST",
    413: "CONTEXT_LENGTH_EXCEEDED",
    422: "INVALID_REQUEST",
    429: "RATE_LIMITED",
    451: "CONTENT_FILTERED",
    500: "PROVIDER_ERROR",
    502: "PROVIDER_ERROR",
    503: "PROVIDER_ERROR",
    504: "PROVIDER_ERROR",
    529: "PROVIDER_ERROR",
}


MakeFault: TypeAlias = Callable[[GoodResponse, Random], FaultOutcome]
"""Turns a good response and a random generator into the acts of a fault."""


@dataclass(frozen=True)
class FaultKind:
    """A fault: its function, its weight in the random choice, and whether it stops sending without a close."""

    make: MakeFault
    weight: float
    is_slow: bool


KINDS: dict[str, FaultKind] = {}


def _fault(
    name: str, weight: float = 1.0, *, is_slow: bool = False
) -> Callable[[Callable[[GoodResponse, Random], FaultOutcome]], Callable[[GoodResponse, Random], FaultOutcome]]:
    def register(
        make: Callable[[GoodResponse, Random], FaultOutcome],
    ) -> Callable[[GoodResponse, Random], FaultOutcome]:
        KINDS[name] = FaultKind(make, weight, is_slow)
        return make

    return register


# Harmless faults: the answer is complete, in an unusual form


@_fault("keep-alive", 2)
def _keep_alive(answer: GoodResponse, random: Random) -> FaultOutcome:
    """No fault: a good response; the connection serves the next request."""
    head = answer.head(("content-length", str(len(answer.body))), closes=False)
    return whole("keep-alive", [head, answer.body], keeps_open=True)


@_fault("one-byte-chunks", 0.5)
def _one_byte_chunks(answer: GoodResponse, random: Random) -> FaultOutcome:
    """Every byte is a separate chunk and a separate write."""
    return whole("one-byte-chunks", [answer.chunked(), *(chunk(bytes([byte])) for byte in answer.body), LAST_CHUNK])


@_fault("one-byte-writes", 0.5)
def _one_byte_writes(answer: GoodResponse, random: Random) -> FaultOutcome:
    """Head and body, byte by byte."""
    raw = answer.sized(len(answer.body)) + answer.body
    return whole("one-byte-writes", [bytes([byte]) for byte in raw])


@_fault("one-write", 2)
def _one_write(answer: GoodResponse, random: Random) -> FaultOutcome:
    """Head, all chunks and the end in one write."""
    chunks = b"".join(map(chunk, answer.pieces))
    return whole("one-write", [answer.chunked() + chunks + LAST_CHUNK])


@_fault("cut-anywhere", 3)
def _cut_anywhere(answer: GoodResponse, random: Random) -> FaultOutcome:
    """Chunks end inside events and characters; writes end inside chunks."""
    raw = b"".join(map(chunk, cuts(answer.body, random.randrange(20), random))) + LAST_CHUNK
    return whole("cut-anywhere", [answer.chunked(), *cuts(raw, random.randrange(20), random)])


@_fault("until-close", 2)
def _until_close(answer: GoodResponse, random: Random) -> FaultOutcome:
    """Neither a length nor chunks: the close of the connection ends the body."""
    return whole("until-close", [answer.head(), *cuts(answer.body, random.randrange(5), random)])


@_fault("slow-head")
def _slow_head(answer: GoodResponse, random: Random) -> FaultOutcome:
    """The head arrives in pieces, with pauses."""
    acts: list[Act] = []
    for piece in cuts(answer.sized(len(answer.body)), 3, random):
        acts += [piece, Pause(0.005)]
    return whole("slow-head", [*acts, answer.body])


@_fault("slow-body")
def _slow_body(answer: GoodResponse, random: Random) -> FaultOutcome:
    """The body arrives in pieces, with pauses."""
    acts: list[Act] = [answer.chunked()]
    for piece in cuts(answer.body, 3, random):
        acts += [chunk(piece), Pause(0.005)]
    return whole("slow-body", [*acts, LAST_CHUNK])


@_fault("early-hints")
def _early_hints(answer: GoodResponse, random: Random) -> FaultOutcome:
    """Interim responses before the real one."""
    interim = random.choice([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"])
    return whole("early-hints", [interim * random.randint(1, 3), answer.sized(len(answer.body)), answer.body])


@_fault("chunk-extensions")
def _chunk_extensions(answer: GoodResponse, random: Random) -> FaultOutcome:
    """Chunks with extensions, and trailers after the last."""
    chunks = [chunk(piece, b';note="a b"') for piece in cuts(answer.body, 3, random)]
    return whole("chunk-extensions", [answer.chunked(), *chunks, b"0\r\nx-checksum: 1\r\n\r\n"])


@_fault("compressed", 2)
def _compressed(answer: GoodResponse, random: Random) -> FaultOutcome:
    """A body in gzip or brotli, requested or not."""
    coding, packed = _packed(answer.body, random)
    head = answer.chunked(("content-encoding", coding))
    chunks = [chunk(piece) for piece in cuts(packed, random.randrange(5), random)]
    return whole("compressed", [head, *chunks, LAST_CHUNK], note=coding)


@_fault("comments", 2)
def _comments(answer: GoodResponse, random: Random) -> FaultOutcome:
    """Comments, pings and unknown fields between events; empty lines between lines."""
    pieces: list[bytes] = []
    for piece in answer.pieces:
        pieces += [_noise(answer, random), piece]
    return sent_whole("comments", answer, b"".join(pieces), random)


def _noise(answer: GoodResponse, random: Random) -> bytes:
    if answer.is_lines or not answer.is_stream:
        return random.choice([b"", b"\n", b" \n", b"\r\n", b"\t\n\n"])
    return random.choice(
        [
            b"",
            b": keep-alive\n\n",
            b":\n",
            b"\n\n\n",
            b"event: ping\n\n",
            b"retry: 3000\n\n",
            b"id: 17\n\n",
            b"nonsense\n\n",
            b"color: green\n\n",
            b"\x00\xff\xfe\n\n",
            b"event: \xff\n\n",
        ]
    )


@_fault("line-ends")
def _line_ends(answer: GoodResponse, random: Random) -> FaultOutcome:
    """CRLF instead of LF, or a lone CR if the format allows it."""
    end = random.choice([b"\r\n", b"\r"]) if answer.is_stream and not answer.is_lines else b"\r\n"
    return sent_whole("line-ends", answer, answer.body.replace(b"\n", end), random, note=repr(end))


@_fault("byte-order-mark", 0.5)
def _byte_order_mark(answer: GoodResponse, random: Random) -> FaultOutcome:
    """A byte order mark before a stream; a JSON parser can refuse it (RFC 8259 §8.1)."""
    outcome = sent_whole("byte-order-mark", answer, b"\xef\xbb\xbf" + answer.body, random)
    if answer.is_stream:
        return outcome
    return FaultOutcome(fault=outcome.fault, delivers="either", codes=INVALID, acts=outcome.acts)


@_fault("end-twice", 2)
def _end_twice(answer: GoodResponse, random: Random) -> FaultOutcome:
    """The last event of the stream is repeated; white space follows a document."""
    again = answer.pieces[-1] if answer.is_stream else b"\n \n"
    return sent_whole("end-twice", answer, answer.body + again * random.randint(1, 3), random)


@_fault("words-after-the-end")
def _words_after_the_end(answer: GoodResponse, random: Random) -> FaultOutcome:
    """More events after the last one."""
    late = b'{"late":true}\n' if answer.is_lines else b'data: {"late":true}\n\n'
    return sent_whole("words-after-the-end", answer, answer.body + (late if answer.is_stream else b"\n"), random)


@_fault("redirect-within", 0.7)
def _redirect_within(answer: GoodResponse, random: Random) -> FaultOutcome:
    """A redirect that keeps method and body, to the same server."""
    request = answer.request
    query = "&".join(part for part in (request.query, "chaos-spared=1") if part)
    status = random.choice(["307 Temporary Redirect", "308 Permanent Redirect"])
    head = answer.head(("location", f"{request.path}?{query}"), ("content-length", "0"), status=status)
    return whole("redirect-within", [head])


# The connection breaks


@_fault("reset", 10)
def _reset(answer: GoodResponse, random: Random) -> FaultOutcome:
    """A reset at any byte, from the first byte of the head to after the last byte."""
    return _broken("reset", answer, random, "reset")


@_fault("close", 10)
def _close(answer: GoodResponse, random: Random) -> FaultOutcome:
    """The connection closes at any byte of the message."""
    return _broken("close", answer, random, "close")


@_fault("stall", 2, is_slow=True)
def _stall(answer: GoodResponse, random: Random) -> FaultOutcome:
    """The server stops sending at any byte and leaves the connection open."""
    return _broken("stall", answer, random, "stall")


@_fault("no-head", 0.5, is_slow=True)
def _no_head(answer: GoodResponse, random: Random) -> FaultOutcome:
    """The server sends nothing and leaves the connection open."""
    return failed("no-head", [Pause(None)], frozenset({"TIMEOUT"}))


def _broken(name: str, answer: GoodResponse, random: Random, ending: Ending) -> FaultOutcome:
    """The message up to a random byte, in any framing."""
    body = answer.body
    is_chunked = random.random() < 0.6
    if is_chunked:
        frames = [answer.chunked(), *(chunk(piece) for piece in answer.pieces), LAST_CHUNK]
    else:
        frames = [answer.sized(len(body)), body]
    raw = b"".join(frames)
    # Every byte of a response has the same probability, except the last few: they find the most errors.
    place = random.randrange(len(raw) + 1) if random.random() < 0.7 else len(raw) - random.randrange(16)
    sent = _body_bytes(frames, place, is_chunked=is_chunked)
    acts = cuts(raw[:place], random.randrange(4), random)
    return ended(name, answer, acts, sent, ending, is_framed=place == len(raw))


def _body_bytes(frames: Sequence[bytes], place: int, *, is_chunked: bool) -> int:
    """How many bytes of the body are among the first `place` bytes of the message."""
    sent, start = 0, len(frames[0])
    for frame in frames[1:]:
        opening = frame.index(b"\r\n") + 2 if is_chunked else 0
        length = max(0, len(frame) - opening - 2) if is_chunked else len(frame)
        sent += min(max(0, place - start - opening), length)
        start += len(frame)
    return sent


# The message ends regularly, but too early


@_fault("truncate", 10)
def _truncate(answer: GoodResponse, random: Random) -> FaultOutcome:
    """The body ends early in a valid framing: chunks with their end, a length, or the close of the connection."""
    body = answer.body
    place = (
        random.randrange(len(body) + 1) if random.random() < 0.7 else len(body) - random.randrange(min(16, len(body)))
    )
    pieces = cuts(body[:place], random.randrange(4), random)
    framings: list[Sequence[Act]] = [
        [answer.chunked(), *map(chunk, pieces), LAST_CHUNK],
        [answer.sized(place), *pieces],
        [answer.head(), *pieces],
    ]
    return ended("truncate", answer, random.choice(framings), place, "clean")


@_fault("end-missing", 3)
def _end_missing(answer: GoodResponse, random: Random) -> FaultOutcome:
    """All events except the last, in a valid framing."""
    pieces = answer.pieces[:-1]
    return ended(
        "end-missing", answer, [answer.chunked(), *map(chunk, pieces), LAST_CHUNK], sum(map(len, pieces)), "clean"
    )


@_fault("compressed-and-cut", 4)
def _compressed_and_cut(answer: GoodResponse, random: Random) -> FaultOutcome:
    """A compressed body that ends early, in a valid framing or not."""
    coding, packed = _packed(answer.body, random)
    place = random.randrange(len(packed))
    head, kept = answer.chunked(("content-encoding", coding)), packed[:place]
    ending = random.choice([LAST_CHUNK, b""])
    delivers, _ = answer.outcome(len(_unpacked(kept, coding)), "close")
    return FaultOutcome(
        fault="compressed-and-cut",
        # A decompressor may buffer any part of the output.
        delivers="either" if delivers == "whole" else delivers,
        codes=NETWORK | INVALID,
        acts=[head, *map(chunk, cuts(kept, random.randrange(4), random)), ending],
        note=f"{coding} after {place} of {len(packed)}",
    )


def _packed(body: bytes, random: Random) -> tuple[str, bytes]:
    brotli = _brotli() if random.random() < 0.5 else None
    if brotli is not None:
        return "br", brotli.compress(body, quality=random.choice([1, 5, 9]))
    return "gzip", gzip.compress(body, random.choice([1, 6, 9]), mtime=0)


def _unpacked(packed: bytes, coding: str) -> bytes:
    """The readable part of a truncated compressed body."""
    if coding == "gzip":
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(packed)
    return _brotli().Decompressor().process(packed) if packed else b""


def _brotli() -> Any:
    """The package `brotli`; if it is missing, a warning appears once and gzip replaces it."""
    try:
        import brotli  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        warnings.warn("chaos uses gzip instead of brotli: pip install brotli", RuntimeWarning, stacklevel=2)
        return None
    return brotli


# The framing is false


@_fault("length-too-long", 2)
def _length_too_long(answer: GoodResponse, random: Random) -> FaultOutcome:
    """The content-length exceeds the bytes that are sent before the connection closes."""
    acts = [answer.sized(len(answer.body) + random.choice([1, 2, 100, 10**6])), answer.body]
    return ended("length-too-long", answer, acts, len(answer.body), "close")


@_fault("length-too-short", 2)
def _length_too_short(answer: GoodResponse, random: Random) -> FaultOutcome:
    """The content-length is less than the bytes that are sent."""
    length = len(answer.body) - random.randint(1, min(40, len(answer.body)))
    return ended("length-too-short", answer, [answer.sized(length), answer.body], length, "clean")


@_fault("length-is-nonsense")
def _length_is_nonsense(answer: GoodResponse, random: Random) -> FaultOutcome:
    """A content-length that is not a number, or two different ones."""
    length = random.choice(["banana", "-5", "0x10", "1e3", "12 13", f"{10**40}"])
    heads = [answer.sized(length), answer.sized(len(answer.body), ("content-length", str(len(answer.body) - 1)))]
    return failed("length-is-nonsense", [random.choice(heads), answer.body], NETWORK)


@_fault("length-and-chunks", 0.5)
def _length_and_chunks(answer: GoodResponse, random: Random) -> FaultOutcome:
    """Both framings at once: chunks take precedence (RFC 9112 §6.3), or the client refuses the response."""
    head = answer.chunked(("content-length", str(random.randrange(len(answer.body)))))
    acts = [head, *map(chunk, answer.pieces), LAST_CHUNK]
    return FaultOutcome(fault="length-and-chunks", delivers="either", codes=NETWORK, acts=acts)


@_fault("chunk-is-nonsense", 4)
def _chunk_is_nonsense(answer: GoodResponse, random: Random) -> FaultOutcome:
    """After some chunks an invalid one: its size is not a number or too large, or another response follows."""
    count = random.randrange(len(answer.pieces) + 1)
    before = answer.pieces[:count]
    bad = random.choice(
        [
            b"zz\r\nhello\r\n",
            b"-1\r\n",
            b"\r\n\r\n",
            b"f" * 40 + b"\r\nhello",
            b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
            b"\x00\xff\xfe\r\n",
            b"5 hello\r\n",
        ]
    )
    acts = [answer.chunked(), *map(chunk, before), bad]
    return ended("chunk-is-nonsense", answer, acts, sum(map(len, before)), "close")


@_fault("chunk-too-long", 2)
def _chunk_too_long(answer: GoodResponse, random: Random) -> FaultOutcome:
    """A chunk that is longer than its announced size."""
    count = random.randrange(len(answer.pieces))
    before, piece = answer.pieces[:count], answer.pieces[count]
    size = random.randrange(1, len(piece)) if len(piece) > 1 else 1
    acts = [answer.chunked(), *map(chunk, before), b"%x\r\n%bxx\r\n" % (size, piece)]
    return ended("chunk-too-long", answer, acts, sum(map(len, before)) + size, "close")


@_fault("last-chunk-missing", 3)
def _last_chunk_missing(answer: GoodResponse, random: Random) -> FaultOutcome:
    """All chunks except the empty one at the end."""
    acts = [answer.chunked(), *map(chunk, answer.pieces), LAST_CHUNK[: random.randrange(4)]]
    return ended("last-chunk-missing", answer, acts, len(answer.body), "close")


@_fault("huge-head", 0.3)
def _huge_head(answer: GoodResponse, random: Random) -> FaultOutcome:
    """A header of two megabytes, or thousands of headers."""
    extra = random.choice([[("x-large", "a" * 2_000_000)], [(f"x-{number}", "a") for number in range(5000)]])
    return failed("huge-head", [answer.head(("content-length", "2"), *extra), b"{}"], NETWORK)


# The content is broken


@_fault("broken-event", 3)
def _broken_event(answer: GoodResponse, random: Random) -> FaultOutcome:
    """An event with truncated JSON between valid events."""
    count = random.randrange(len(answer.pieces))
    bad = b'{"half": \n' if answer.is_lines else b'data: {"half": \n\n' if answer.is_stream else b'{"half": '
    pieces = [*answer.pieces[:count], bad, *answer.pieces[count:]]
    return failed("broken-event", [answer.chunked(), *map(chunk, pieces), LAST_CHUNK], INVALID)


@_fault("not-utf8", 4)
def _not_utf8(answer: GoodResponse, random: Random) -> FaultOutcome:
    """A byte that is invalid in UTF-8, inside the JSON."""
    documents = [(number, piece.find(b"{")) for number, piece in enumerate(answer.pieces)]
    number, start = random.choice([(number, start) for number, start in documents if start >= 0])
    letters = [match.start() for match in re.finditer(rb'(?<=[a-z])[a-z"]', answer.pieces[number][start:])]
    at = start + random.choice(letters)
    pieces = list(answer.pieces)
    bad = random.choice([b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xc0\xaf"])
    pieces[number] = pieces[number][:at] + bad + pieces[number][at:]
    return failed("not-utf8", [answer.chunked(), *map(chunk, pieces), LAST_CHUNK], INVALID, note=f"event {number}")


@_fault("huge-event", 0.02)
def _huge_event(answer: GoodResponse, random: Random) -> FaultOutcome:
    """An event, or a document, far above every size limit."""
    filler = b"a" * 1_000_000
    opening = b"" if answer.is_lines or not answer.is_stream else b"data: "
    times = 18 if answer.is_stream else 66
    acts = [answer.head(), opening + b'{"late":"', *[filler] * times, b'"}\n\n', *answer.pieces]
    return failed("huge-event", acts, INVALID)


@_fault("error-event", 3)
def _error_event(answer: GoodResponse, random: Random) -> FaultOutcome:
    """A stream ends with the vendor's error after some events; a document is replaced by the error with status 200."""
    if not answer.is_stream:
        return _nothing_there(answer, random)
    count = random.randrange(len(answer.pieces))
    pieces = [*answer.pieces[:count], answer.dialect.error_event(Fault(error_after=count))]
    acts = [answer.chunked(), *map(chunk, pieces), LAST_CHUNK]
    return failed("error-event", acts, frozenset({"PROVIDER_ERROR", "RATE_LIMITED"}), note=f"after {count} events")


# Another response


@_fault("refusal", 4)
def _refusal(answer: GoodResponse, random: Random) -> FaultOutcome:
    """The vendor's error for a status; its body can be truncated after the status was sent."""
    status = random.choice(list(_CODE_OF_STATUS))
    body = compact(answer.dialect.error(ErrorReply(status), answer.request)).encode()
    head = answer.head(("content-length", str(len(body))), status=f"{status} Refused")
    sent = random.choice([body, body[: random.randrange(len(body))]])
    code = _CODE_OF_STATUS[status]
    # Some vendors tell the end of their own patience apart from other failures of gateways.
    if status == 504 and sent is body and (b"timeout_error" in body or b"DEADLINE_EXCEEDED" in body):
        code = "TIMEOUT"
    return failed("refusal", [head, sent], frozenset({code}), note=str(status))


@_fault("nothing-there", 2)
def _nothing_there(answer: GoodResponse, random: Random) -> FaultOutcome:
    """A success status without an answer: an empty body, other JSON, or an HTML page."""
    body = random.choice([b"", b" ", b"null", b"[]", b"42", b"{}", b'"text"', b"\x00\x01", b"\xff\xfe"])
    page = b"<!DOCTYPE html><html><body>Just a moment...</body></html>"
    is_page = random.random() < 0.3
    body = page if is_page else body
    kind = (b"content-type: " + answer.content_type.encode(), b"content-type: text/html")
    head = answer.sized(len(body))
    return failed("nothing-there", [head.replace(*kind) if is_page else head, body], INVALID, note=repr(body[:20]))


@_fault("no-http", 2)
def _no_http(answer: GoodResponse, random: Random) -> FaultOutcome:
    """Bytes that are not HTTP, or no bytes; then the connection closes."""
    said = random.choice(
        [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 banana\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\r\n" * 5, b"{}"]
    )
    return failed("no-http", [said, *random.choice([[], [Reset()]])], NETWORK, note=repr(said))


@_fault("redirect-elsewhere")
def _redirect_elsewhere(answer: GoodResponse, random: Random) -> FaultOutcome:
    """A redirect to another host, a loop, or one that changes the method: the client must not follow it with a key."""
    request = answer.request
    port = request.headers.get("host", "").rpartition(":")[2]
    here = f"{request.path}?{request.query}"
    status, place = random.choice(
        [
            ("307 Temporary Redirect", f"http://localhost:{port}{request.path}?{request.query}&chaos-spared=1"),
            ("308 Permanent Redirect", here),
            ("301 Moved Permanently", here),
            ("302 Found", f"{here}&chaos-spared=1"),
            ("303 See Other", f"{here}&chaos-spared=1"),
            ("307 Temporary Redirect", "http://[not-an-address/"),
        ]
    )
    head = answer.head(("location", place), ("content-length", "0"), status=status)
    codes = frozenset({"PROVIDER_ERROR", "NETWORK_ERROR"})
    return failed("redirect-elsewhere", [head], codes, note=status)
