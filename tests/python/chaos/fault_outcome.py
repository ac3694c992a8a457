"""The outcome of a fault: the good answer, the framing of its body, and what was delivered.

This module does no I/O: a `FaultOutcome` lists the acts on a socket and the result that a client must give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from turntree.testing._dialect import Dialect
    from turntree.testing._request import Request

Delivers: TypeAlias = Literal["whole", "nothing", "either"]
"""The required result: the client returns the answer, raises an error, or does one of the two."""

Ending: TypeAlias = Literal["clean", "close", "reset", "stall"]


@dataclass(frozen=True)
class Pause:
    """Send nothing for some seconds; None means until the client leaves."""

    seconds: float | None


@dataclass(frozen=True)
class Reset:
    """Reset the connection (TCP RST)."""


Act: TypeAlias = bytes | Pause | Reset
"""Bytes to send in one write, or another act on the socket."""


@dataclass(frozen=True, kw_only=True)
class FaultOutcome:
    """The fault that was applied to a response.

    Args:
        fault: Its name.
        delivers: Which part of the answer was delivered: "whole", "nothing" (an error must follow), or "either".
        codes: The allowed error codes if the answer was not delivered.
        acts: The acts on the socket, in order: bytes to send, or another act.
        keeps_open: Whether the connection serves the next request.
        note: A readable description of the position of the fault.
    """

    fault: str
    delivers: Delivers
    codes: frozenset[str] = frozenset()
    acts: Sequence[Any] = ()
    keeps_open: bool = False
    note: str = ""

    def __repr__(self) -> str:
        """The fault, its position and the required result, without the bytes."""
        codes = "|".join(sorted(self.codes))
        return f"<FaultOutcome {self.fault} {self.note} delivers={self.delivers} {codes}>"


@dataclass(frozen=True, kw_only=True)
class GoodResponse:
    """The good answer to which a fault is applied: its events, or its single JSON document."""

    request: Request
    dialect: Dialect
    headers: dict[str, str]
    content_type: str
    pieces: Sequence[bytes]
    is_stream: bool

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.pieces)

    @property
    def is_lines(self) -> bool:
        """Whether it is a stream of lines instead of server-sent events."""
        return self.is_stream and "ndjson" in self.content_type

    def head(self, *extra: tuple[str, str], status: str = "200 OK", closes: bool = True) -> bytes:
        """The status line and the headers; a response with a fault announces that the connection closes."""
        headers = [("server", "turntree-chaos"), ("content-type", self.content_type), *self.headers.items(), *extra]
        headers = [*headers, ("connection", "close")] if closes else headers
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode()

    def chunked(self, *extra: tuple[str, str]) -> bytes:
        """The head of a chunked response."""
        return self.head(("transfer-encoding", "chunked"), *extra)

    def sized(self, length: object, *extra: tuple[str, str]) -> bytes:
        """The head of a response with a content-length."""
        return self.head(("content-length", str(length)), *extra)

    def outcome(self, sent: int, ending: Ending, *, is_framed: bool = False) -> tuple[Delivers, frozenset[str]]:
        """The result that a client must give for the first `sent` bytes of the body, by the way the response ended.

        Args:
            sent: Bytes of the body that were sent.
            ending: Whether the HTTP message ended regularly, or how the connection ended.
            is_framed: Whether the message was complete by its framing before the connection ended.
        """
        codes = _CODES[ending]
        if self.is_stream:
            whole, needed = sent >= len(self.body), sent >= len(self.body.rstrip(b"\r\n"))
            if ending == "clean" or (is_framed and whole):
                delivers: Delivers = "whole" if needed else "nothing"
            elif whole and self.dialect.marks_end:
                delivers = "whole"
            else:
                delivers = "either" if needed else "nothing"
        else:
            delivers = "whole" if sent >= len(self.body) and (is_framed or ending == "clean") else "nothing"
        if ending == "reset" and delivers == "whole":
            # The client may receive the reset before the bytes that were sent earlier.
            delivers = "either"
        return delivers, codes


_CODES: dict[Ending, frozenset[str]] = {
    "clean": frozenset({"INVALID_RESPONSE"}),
    "close": frozenset({"NETWORK_ERROR"}),
    "reset": frozenset({"NETWORK_ERROR"}),
    "stall": frozenset({"TIMEOUT"}),
}

NETWORK = frozenset({"NETWORK_ERROR"})
INVALID = frozenset({"INVALID_RESPONSE"})


# How bodies are framed


def chunk(piece: bytes, extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) if piece else b""


LAST_CHUNK = b"0\r\n\r\n"


def cuts(body: bytes, count: int, random: Random) -> list[bytes]:
    """The body in a given number of pieces, split at any byte: inside a character, inside a line end."""
    if not body:
        return []
    places = sorted({random.randrange(1, len(body)) for _ in range(count)} if len(body) > 1 else ())
    return [body[start:end] for start, end in zip([0, *places], [*places, len(body)], strict=True)]


def whole(name: str, acts: Sequence[Act], *, keeps_open: bool = False, note: str = "") -> FaultOutcome:
    return FaultOutcome(fault=name, delivers="whole", acts=acts, keeps_open=keeps_open, note=note)


def failed(name: str, acts: Sequence[Act], codes: frozenset[str], *, note: str = "") -> FaultOutcome:
    return FaultOutcome(fault=name, delivers="nothing", codes=codes, acts=acts, note=note)


def ended(
    name: str, answer: GoodResponse, acts: Sequence[Act], sent: int, ending: Ending, *, is_framed: bool = False
) -> FaultOutcome:
    delivers, codes = answer.outcome(sent, ending, is_framed=is_framed)
    last: list[Act] = [Reset()] if ending == "reset" else [Pause(None)] if ending == "stall" else []
    return FaultOutcome(
        fault=name,
        delivers=delivers,
        codes=codes,
        acts=[*acts, *last],
        note=f"after {sent} of {len(answer.body)} bytes",
    )


def sent_whole(name: str, answer: GoodResponse, body: bytes, random: Random, *, note: str = "") -> FaultOutcome:
    """The body with an insignificant change, in a few chunks."""
    acts = [answer.chunked(), *(chunk(piece) for piece in cuts(body, random.randrange(6), random)), LAST_CHUNK]
    return whole(name, acts, note=note)
