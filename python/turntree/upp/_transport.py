"""Transports and signers of the application, and the requests and responses that they see."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from turntree._core import NetworkResponse, TransportCall
from turntree._public_names import publish
from turntree._texts import encoded

Body: TypeAlias = bytes | str | Mapping[str, object] | list[object] | Iterable[bytes | str] | AsyncIterable[bytes | str]
"""The body of a response: bytes, text, a JSON value, or an iterable of bytes or text, sync or async."""


class HttpRequest:
    """A request of a model, as a transport or a signer receives it. Its headers include the key.

    Attributes:
        method: The method, such as ``POST``.
        url: The whole URL.
        headers: The headers; the names are in lower case.
        body: The body.
    """

    __slots__ = ("_call", "body", "headers", "method", "url")

    method: str
    url: str
    headers: dict[str, str]
    body: bytes

    def __init__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        _call: TransportCall | None = None,
    ) -> None:
        self.method = method
        self.url = url
        self.headers = {name.lower(): value for name, value in (headers or {}).items()}
        self.body = body
        self._call = _call

    def json(self) -> Any:
        """Return the body, read as JSON."""
        import json  # `import turntree` does not load it

        return json.loads(self.body)

    def with_(
        self,
        *,
        method: str | None = None,
        url: str | None = None,
        headers: Mapping[str, str | None] | None = None,
        body: bytes | None = None,
    ) -> HttpRequest:
        """Return a changed copy.

        Args:
            method: Another method.
            url: Another URL.
            headers: Headers to set; None removes one.
            body: Another body.
        """
        merged: dict[str, str | None] = {**self.headers}
        merged.update({name.lower(): value for name, value in (headers or {}).items()})
        return HttpRequest(
            self.method if method is None else method,
            self.url if url is None else url,
            {name: value for name, value in merged.items() if value is not None},
            self.body if body is None else body,
            _call=self._call,
        )

    async def send(self) -> HttpResponse:
        """Send the request over the network and return the response. Its body is read as it arrives.

        Raises:
            ConnectionError: The network failed.
            TimeoutError: There was no connection in time.
            RuntimeError: The request was created by the application, so it has no connection.
        """
        if self._call is None:
            message = "only requests that a transport received can be sent; change them with request.with_(…)"
            raise RuntimeError(message)
        headers = list(self.headers.items())
        sent = await self._call.send(self.method, self.url, headers, bytes(self.body))
        return HttpResponse(sent.status, dict(sent.headers), _network=sent)

    def __repr__(self) -> str:
        return f"HttpRequest({self.method!r}, {self.url.split('?', 1)[0]!r}, {len(self.body)} bytes)"


class HttpResponse:
    """A response: what a transport returns.

    Args:
        status: The status.
        headers: The headers. Default: the content type of the body, if it is a JSON value.
        body: Bytes, text, a JSON value, or an iterable of bytes or text, sync or async, for a stream.

    Attributes:
        status: The status.
        headers: The headers; the names are in lower case.
    """

    __slots__ = ("_body", "_network", "headers", "status")

    status: int
    headers: dict[str, str]

    def __init__(
        self,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        body: Body = b"",
        *,
        _network: NetworkResponse | None = None,
    ) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in (headers or {}).items()}
        self._network = _network
        if isinstance(body, Mapping | list):
            import json

            self.headers.setdefault("content-type", "application/json")
            body = json.dumps(body).encode()
        self._body: Any = encoded(body, "body") if isinstance(body, str) else body

    async def chunks(self) -> AsyncIterator[bytes]:
        """Iterate over the chunks of the body. The body of a response of the network can be read once."""
        network, body = self._network, cast("object", self._body)
        if network is not None:
            while (chunk := await network.next_chunk()) is not None:
                yield chunk
        elif isinstance(body, bytes | bytearray):
            if body:
                yield bytes(body)
        elif isinstance(body, AsyncIterable):
            async for piece in cast("AsyncIterable[object]", body):
                yield _encoded(piece)
        else:
            for piece in cast("Iterable[object]", body):
                yield _encoded(piece)

    async def read(self) -> bytes:
        """Return the whole body. Afterwards the response still has it."""
        whole = b"".join([chunk async for chunk in self.chunks()])
        self._network, self._body = None, whole
        # A body that was decompressed has another length than the header says.
        self.headers.pop("content-length", None)
        return whole

    def __repr__(self) -> str:
        return f"HttpResponse({self.status})"


def _encoded(piece: object) -> bytes:
    if isinstance(piece, str):
        return piece.encode()
    if isinstance(piece, bytes | bytearray):
        return bytes(piece)
    message = f"the body of a response must consist of bytes or str, not {type(piece).__name__}"
    raise TypeError(message)


@runtime_checkable
class Transport(Protocol):
    """Sends the requests of a model: any object with ``async send(request)``.

    It may change a request, answer it itself, or pass it on with ``await request.send()``. Limits of time, retries and
    the reading of the response work as usual. ConnectionError and TimeoutError count as failures of the network; other
    exceptions reach the caller unchanged. If the call is cancelled, so is ``send``.
    """

    async def send(self, request: HttpRequest, /) -> HttpResponse:
        """Return the response of a request.

        Args:
            request: The request, with all its headers.
        """
        ...


class Signer(Protocol):
    """Signs the requests of a model: any object with ``sign(request)``, sync or async, as ``auth=``."""

    def sign(self, request: HttpRequest, /) -> Mapping[str, str | None] | Awaitable[Mapping[str, str | None]]:
        """Return the headers to set; None removes one. Called for each attempt.

        Args:
            request: The request, without a key.
        """
        ...


def exchange_with(transport: Transport) -> Callable[[TransportCall], Awaitable[None]]:
    """Return the function that the native core calls for each request of a transport."""

    async def exchange(call: TransportCall) -> None:
        try:
            response: object = transport.send(_request_of(call))
            if isinstance(response, Awaitable):
                response = await cast("Awaitable[object]", response)
            await _deliver(call, response)
        except Exception as error:
            call.fail(error)

    return exchange


def signing_with(signer: Signer) -> Callable[[TransportCall], Awaitable[None]]:
    """Return the function that signs each request and sends it."""

    async def exchange(call: TransportCall) -> None:
        try:
            request = _request_of(call)
            headers: object = signer.sign(request)
            if isinstance(headers, Awaitable):
                headers = await cast("Awaitable[object]", headers)
            if not isinstance(headers, Mapping):
                message = f"sign must return a mapping of headers, not {type(headers).__name__}"
                raise TypeError(message)
            signed = request.with_(headers=cast("Mapping[str, str | None]", headers))
            await _deliver(call, await signed.send())
        except Exception as error:
            call.fail(error)

    return exchange


def _request_of(call: TransportCall) -> HttpRequest:
    return HttpRequest(call.method, call.url, dict(call.headers), call.body, _call=call)


async def _deliver(call: TransportCall, response: object) -> None:
    import asyncio

    if not isinstance(response, HttpResponse):
        message = f"send must return an HttpResponse, not {type(response).__name__}"
        raise TypeError(message)
    call.respond(response.status, list(response.headers.items()))
    network = response._network  # pyright: ignore[reportPrivateUsage]
    if network is not None:
        call.forward(network)
        return
    async for chunk in response.chunks():
        if not await call.push(chunk):
            return
        # A body of the application may never wait by itself.
        await asyncio.sleep(0)
    call.end()


publish(__name__, globals())
