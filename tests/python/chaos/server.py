"""Servers with faults: a seed selects the fault of each response."""

from __future__ import annotations

import secrets
import socket
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, ClassVar

from chaos.fault_outcome import FaultOutcome, GoodResponse, Pause, Reset
from chaos.faults import KINDS, FaultKind
from turntree.testing._dialect import Exchange, compact
from turntree.testing._replies import Reply, Script
from turntree.testing._server import Handler, LoopbackServer

if TYPE_CHECKING:
    from turntree.testing._dialect import Dialect
    from turntree.testing._request import Outcome, Request

FAULTS: tuple[str, ...] = tuple(KINDS)
"""The faults of a response over HTTP/1.1, by name."""

_PREFIX = "chaos"
_AFTER_TOOLS = "after-tools"
_SPARED = "chaos-spared"  # in the query of a redirect: its target gets a good answer


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """The fault of one scenario. Only the seed and the number determine it.

    Args:
        seed: The seed of the server.
        number: The number of the scenario.
        fault: The name of the fault: one of `FAULTS` or `HTTP2_FAULTS`.
        is_slow: Whether the server can stop sending without a close: the client then needs a short timeout.
    """

    seed: int
    number: int
    fault: str
    is_slow: bool = False

    @property
    def random(self) -> Random:
        """A new random generator of the scenario; it gives the same values every time."""
        return Random(f"{self.seed}/{self.number}/{self.fault}")


def chaos(
    script: Script,
    *,
    seed: int | None = None,
    only: Sequence[str] = (),
    strict: bool = True,
    http2: bool = False,
) -> ChaosServer:
    """Start a server that applies a fault to each response: it truncates, delays, corrupts or misframes it, by a seed.

    `ChaosServer.outcomes` returns for every response whether it was delivered completely, and otherwise the allowed
    error codes.

    Args:
        script: The answers without faults, as for `serve`.
        seed: The seed of the faults; by default a random one, which `repr` of the server shows.
        only: Names of `FAULTS` to choose from; by default all.
        strict: Refuse the requests that the vendor would refuse, as for `serve`.
        http2: Speak HTTP/2 over TLS, with the certificate of the server (`server.ca_certificates`), and choose
            among `HTTP2_FAULTS`. Needs the packages `h2` and `trustme`.

    Returns:
        The running server, for a `with` block.

    Raises:
        ImportError: HTTP/2 is requested and its packages are not installed.
        ValueError: `only` holds a name that is no fault.
        TypeError: The script contains a value that is not a reply.
        OSError: No port can be opened.
    """
    if http2:
        from chaos.http2 import Http2ChaosServer

        return Http2ChaosServer(script, seed=seed, only=only, strict=strict).start()
    return ChaosServer(script, seed=seed, only=only, strict=strict).start()


class ChaosServer(LoopbackServer):
    """A `LoopbackServer` that applies faults to its replies; see `chaos`.

    Scenario n of a seed is always the same: `scenario(n)` is its base URL. At `base_url` the requests are scenarios 0,
    1, 2, … as they arrive. Errors that the script itself replies with, and raw replies, are sent as they are.

    Args:
        script: The answers without faults, see `serve`.
        seed: The seed of the faults; by default a random one.
        only: Names of `FAULTS` to choose from; by default all.
        strict: Refuse the requests that the vendor would refuse, see `serve`.

    Raises:
        ValueError: `only` holds a name that is no fault.
        TypeError: The script contains a value that is not a reply.
    """

    ca_certificates: bytes | None = None
    """The certificate that clients have to trust, as PEM; None without TLS."""
    kinds: ClassVar[dict[str, FaultKind]] = KINDS
    """The faults of this server by name."""

    def __init__(
        self, script: Script, *, seed: int | None = None, only: Sequence[str] = (), strict: bool = True
    ) -> None:
        unknown = [name for name in only if name not in self.kinds]
        if unknown:
            raise ValueError(f"unknown fault: {', '.join(unknown)}; choose from {', '.join(self.kinds)}")
        super().__init__(script, strict=strict)
        self._handler = _ChaosHandler
        self.seed: int = secrets.randbelow(2**32) if seed is None else seed
        self.only: tuple[str, ...] = tuple(only)
        self._outcomes: dict[int, list[FaultOutcome]] = {}
        self._writing = threading.Lock()

    def plan(self, number: int) -> Scenario:
        """The plan of a scenario: the same for the same seed and number, in every process.

        Args:
            number: From 0.
        """
        names = self.only or tuple(self.kinds)
        weights = [self.kinds[name].weight for name in names]
        (fault,) = Random(f"{self.seed}/{number}").choices(names, weights)
        return Scenario(seed=self.seed, number=number, fault=fault, is_slow=self.kinds[fault].is_slow)

    def apply_fault(self, plan: Scenario, answer: GoodResponse) -> FaultOutcome:
        """Apply the fault of the plan to a good answer."""
        outcome = self.kinds[plan.fault].make(answer, plan.random)
        with self._writing:
            self._outcomes.setdefault(plan.number, []).append(outcome)
        return outcome

    def scenario(self, number: int, *, after_tools: bool = False) -> str:
        """The base URL of a scenario: `http://127.0.0.1:PORT/chaos/NUMBER/v1`.

        Args:
            number: From 0.
            after_tools: Apply the fault to the reply after tool results instead of the first reply of a run.
        """
        place = f"{number}/{_AFTER_TOOLS}" if after_tools else f"{number}"
        return f"{self.url}/{_PREFIX}/{place}/v1"

    def outcomes(self, number: int) -> list[FaultOutcome]:
        """The outcomes of a scenario so far, one for each request; exempt requests are omitted.

        Args:
            number: From 0.
        """
        with self._writing:
            return list(self._outcomes.get(number, ()))

    def rerun(self, number: int) -> str:
        """The code that repeats a scenario: the server and the number.

        Args:
            number: From 0.
        """
        only = f", only={list(self.only)!r}" if self.only else ""
        return f"chaos(…, seed={self.seed}{only}).scenario({number}), fault {self.plan(number).fault!r}"

    def __repr__(self) -> str:
        """Address, seed and number of requests."""
        place = self.url if self._listener is not None else "closed"
        return f"<ChaosServer {place} seed={self.seed} requests={len(self._requests)}>"

    def plan_of(self, request: Request) -> Scenario | None:
        """The plan for a request; None if the request is exempt."""
        number = request.number - 1
        match request.path.strip("/").split("/"):
            case [prefix, given, second, *_] if prefix == _PREFIX and given.isdigit():
                number = int(given)
                if bool(request.tool_results) != (second == _AFTER_TOOLS):
                    return None
            case _:
                pass
        return None if _SPARED in request.query else self.plan(number)


class _ChaosHandler(Handler):
    """Writes the reply of the script after a fault was applied to it."""

    def write_reply(self, request: Request, dialect: Dialect, reply: Reply) -> Outcome:
        owner = self.server.owner
        plan = owner.plan_of(request) if isinstance(owner, ChaosServer) else None
        if plan is None or not isinstance(owner, ChaosServer):
            return super().write_reply(request, dialect, reply)
        try:
            outcome = owner.apply_fault(plan, good_response(owner, request, dialect, reply))
        except Exception as error:  # a fault that raises is a defect of this server: the `with` block raises it
            owner.errors.append(error)
            raise
        self.close_connection = not outcome.keeps_open
        for act in outcome.acts:
            match act:
                case Pause():
                    self._pause(act.seconds)
                case Reset():
                    # No linger: closing sends RST instead of FIN. The reader holds the socket open too.
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.rfile.close()
                    self.connection.close()
                case _:
                    self.connection.sendall(act)
        return "sent" if outcome.delivers == "whole" else "faulted"


def good_response(owner: LoopbackServer, request: Request, dialect: Dialect, reply: Reply) -> GoodResponse:
    """The good answer to which a fault is applied."""
    exchange = Exchange(request=request, reply=reply, calls=tuple(owner._numbered(call) for call in reply.tool_calls))
    is_stream = request.stream
    return GoodResponse(
        request=request,
        dialect=dialect,
        headers={**dialect.headers(request), **reply.headers},
        content_type=dialect.stream_type if is_stream else "application/json",
        pieces=list(dialect.events(exchange)) if is_stream else [compact(dialect.response(exchange)).encode()],
        is_stream=is_stream,
    )
