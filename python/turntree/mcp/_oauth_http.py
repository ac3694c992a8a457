"""The requests of OAuth, and the wait for the browser."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from turntree.mcp._errors import McpError

_LOCAL = frozenset({"127.0.0.1", "::1", "localhost"})
_TIMEOUT = 30
_LONGEST = 1_000_000
# Seconds that a person has to agree.
_PATIENCE = 300
_PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nYou can close this window.\n"


class _NoRedirects(HTTPRedirectHandler):
    """A redirect could send a code or a token to another machine."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        """Refuse it: the answer is the redirect."""


def check_address(url: str) -> None:
    """Raise ValueError for an address that would show tokens to the network."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
        message = f"{url!r} must begin with https://; only addresses of this machine may use http://"
        raise ValueError(message)


def check_address_of_server(url: str) -> None:
    """Raise McpError for such an address if a server has named it."""
    try:
        check_address(url)
    except ValueError as error:
        message = f"the server names an address that cannot be used: {error}"
        raise McpError(message, "unauthorized") from None


async def answer_of(
    url: str, *, body: str | None = None, kind: str | None = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Send a request. Returns the status, the headers in lower case, and the JSON object; empty if it is none.

    Raises:
        McpError: The server cannot be reached.
    """
    check_address_of_server(url)
    given = {"Accept": "application/json", **(headers or {})}
    if kind is not None:
        given["Content-Type"] = kind
    request = Request(url, None if body is None else body.encode(), given)
    return await asyncio.to_thread(_send, request)


def _send(request: Request) -> tuple[int, dict[str, str], dict[str, Any]]:
    try:
        with build_opener(_NoRedirects).open(request, timeout=_TIMEOUT) as answer:
            # A stream of events does not end: it is not read.
            is_json = "json" in answer.headers.get_content_type()
            return answer.status, _lowered(answer.headers), _object(answer.read(_LONGEST) if is_json else b"")
    except HTTPError as error:
        with error:
            return error.code, _lowered(error.headers), _object(error.read(_LONGEST))
    except (URLError, OSError) as error:
        message = f"{request.full_url} cannot be reached: {getattr(error, 'reason', error)}"
        raise McpError(message, "connect") from error


def _lowered(headers: Any) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


async def wait_for_redirect(page: str, redirect_uri: str) -> str:
    """Open a page in the browser of this machine, and return the address that it was sent to.

    Raises:
        McpError: The address is not one of this machine or is in use, or nobody agreed in time.
    """
    import webbrowser

    place = urlsplit(redirect_uri)
    if place.hostname not in _LOCAL or place.port is None:
        message = f"redirect_uri {redirect_uri!r} is not an address of this machine; give authorize= a function"
        raise McpError(message)
    arrived: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline()).decode("latin-1").split(" ")
        writer.write(_PAGE)
        await writer.drain()
        writer.close()
        if len(line) > 1 and urlsplit(line[1]).path == (place.path or "/") and not arrived.done():
            arrived.set_result(line[1])

    try:
        server = await asyncio.start_server(serve, place.hostname, place.port)
    except OSError as error:
        message = f"the port of redirect_uri {redirect_uri!r} cannot be used: {error}; choose another one"
        raise McpError(message, "connect") from error
    async with server:
        await asyncio.to_thread(webbrowser.open, page)
        try:
            return await asyncio.wait_for(arrived, _PATIENCE)
        except asyncio.TimeoutError:
            message = f"nobody agreed within {_PATIENCE} seconds; open {page}"
            raise McpError(message, "timeout") from None
