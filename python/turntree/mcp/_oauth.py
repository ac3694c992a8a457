"""OAuth 2.1 for MCP servers over HTTP: finds the authorization server, registers the program, and keeps the tokens.

Follows the authorization part of the MCP specification of 2025-06-18: RFC 9728 (protected resource metadata), RFC 8414
(authorization server metadata), RFC 7591 (dynamic registration), PKCE with S256, and resource indicators (RFC 8707).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import inspect
import json
import re
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast
from urllib.parse import parse_qs, urlencode, urlsplit

from turntree._argument_errors import explain_arguments
from turntree._recipes import shown_url
from turntree._texts import encoded
from turntree.mcp._errors import McpError
from turntree.mcp._oauth_http import answer_of, check_address, check_address_of_server, wait_for_redirect

__all__ = ["OAuth", "TokenStore", "oauth"]

# A token is renewed this many seconds before it expires.
_EARLY = 30


class TokenStore(Protocol):
    """Where tokens are kept: the methods `save` and `load` of a store of sessions. Both may be sync."""

    async def save(self, key: str, data: str, /) -> None:
        """Keep the tokens of a server."""
        ...

    async def load(self, key: str, /) -> str | None:
        """Return the tokens of a server, or None."""
        ...


class _InMemory:
    def __init__(self) -> None:
        self._data: dict[str, str] = {}

    async def save(self, key: str, data: str) -> None:
        self._data[key] = data

    async def load(self, key: str) -> str | None:
        return self._data.get(key)


class OAuth:
    """Gives the access token for an MCP server: ``auth=`` of `http` and `sse`. Created by `oauth`."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        check_address(url)
        self.url: str = url.partition("#")[0]
        self._options = options
        self._store: Any = options["store"] if options["store"] is not None else _InMemory()
        self._turn = asyncio.Lock()

    async def __call__(self) -> str:
        """Return a token that is valid now: the one that is kept, a refreshed one, or one that the user has granted.

        Raises:
            McpError: The server has no OAuth, or the authorization failed.
        """
        async with self._turn:
            kept = await self._load()
            token = kept.get("access_token")
            if token and kept.get("expires_at", float("inf")) - _EARLY > time.time():
                return str(token)
            if kept.get("refresh_token"):
                try:
                    return await self._refresh(kept)
                except McpError:
                    # The grant has ended: the user is asked again.
                    kept.pop("refresh_token")
            return await self._authorize(kept)

    def __reduce__(self) -> Any:
        """Refuse to be pickled: tokens and the secret of the client stay in this process."""
        message = "OAuth cannot be pickled: it holds tokens. Create the server in the process that uses it"
        raise TypeError(message)

    async def forget(self) -> None:
        """Forget the tokens, so that the next connection asks the user. The registration of the program is kept."""
        async with self._turn:
            kept = await self._load()
            await self._save({"client": kept.get("client"), "issuer": kept.get("issuer")})

    def __repr__(self) -> str:
        return f"OAuth({shown_url(self.url)!r})"

    async def _load(self) -> dict[str, Any]:
        data = await _awaited(self._store.load(self.url))
        return {} if not data else cast("dict[str, Any]", json.loads(data))

    async def _save(self, kept: dict[str, Any]) -> None:
        await _awaited(self._store.save(self.url, json.dumps(kept)))

    async def _refresh(self, kept: dict[str, Any]) -> str:
        fields = {"grant_type": "refresh_token", "refresh_token": kept["refresh_token"], "resource": self.url}
        return await self._take(kept, fields)

    async def _authorize(self, kept: dict[str, Any]) -> str:
        resource = await self._resource()
        issuer = str(resource["authorization_servers"][0])
        server = await _server_metadata(issuer)
        if kept.get("issuer") != issuer:
            kept = {"issuer": issuer}
        kept.update(token_endpoint=server["token_endpoint"])
        if not kept.get("client"):
            kept["client"] = await self._client(server, resource)
        verifier, state = secrets.token_urlsafe(64), secrets.token_urlsafe(32)
        digest = hashlib.sha256(verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": kept["client"]["client_id"],
            "redirect_uri": self._options["redirect_uri"],
            "state": state,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "resource": self.url,
        }
        if scope := self._scope(resource):
            query["scope"] = scope
        page = str(server["authorization_endpoint"])
        check_address_of_server(page)
        address = f"{page}{'&' if '?' in page else '?'}{urlencode(query)}"
        code = _code_of(str(await self._ask(address)), state, issuer)
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._options["redirect_uri"],
            "code_verifier": verifier,
            "resource": self.url,
        }
        return await self._take(kept, fields)

    async def _ask(self, address: str) -> Any:
        authorize: Callable[[str], Any] | None = self._options["authorize"]
        if authorize is None:
            return await wait_for_redirect(address, self._options["redirect_uri"])
        return await _awaited(authorize(address))

    def _scope(self, resource: dict[str, Any]) -> str:
        scopes: Sequence[str] | None = self._options["scopes"]
        return " ".join(resource.get("scopes_supported") or [] if scopes is None else scopes)

    async def _resource(self) -> dict[str, Any]:
        """Find out which authorization server the MCP server trusts."""
        status, headers, _ = await answer_of(self.url, headers={"Accept": "text/event-stream"})
        challenge = headers.get("www-authenticate", "") if status == 401 else ""
        found = re.search(r'resource_metadata="([^"]+)"', challenge)
        for place in [found.group(1)] if found else _well_known(self.url, "oauth-protected-resource"):
            status, _, body = await answer_of(place)
            if status == 200 and body.get("authorization_servers"):
                if not _covers(str(body.get("resource", self.url)), self.url):
                    message = f"{place} describes {body['resource']}, not {self.url}; check the address of the server"
                    raise McpError(message, "unauthorized")
                return body
        parts = urlsplit(self.url)
        return {"authorization_servers": [f"{parts.scheme}://{parts.netloc}"]}

    async def _client(self, server: dict[str, Any], resource: dict[str, Any]) -> dict[str, Any]:
        """The registration of this program: the one that was given, or a new one."""
        if self._options["client_id"] is not None:
            return {"client_id": self._options["client_id"], "client_secret": self._options["client_secret"]}
        place = server.get("registration_endpoint")
        if not place:
            message = f"{server['issuer']} registers no programs by itself; register one there, and give client_id="
            raise McpError(message, "unauthorized")
        wanted = {
            "client_name": self._options["client_name"],
            "redirect_uris": [self._options["redirect_uri"]],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        if scope := self._scope(resource):
            wanted["scope"] = scope
        status, _, body = await answer_of(str(place), body=json.dumps(wanted), kind="application/json")
        if status not in (200, 201) or "client_id" not in body:
            message = f"{place} did not register this program: {_reason(status, body)}"
            raise McpError(message, "unauthorized")
        return {name: body.get(name) for name in ("client_id", "client_secret", "token_endpoint_auth_method")}

    async def _take(self, kept: dict[str, Any], fields: dict[str, str]) -> str:
        """Exchange a code or a refresh token for tokens, and keep them."""
        client: dict[str, Any] = kept["client"]
        headers: dict[str, str] = {}
        fields = {**fields, "client_id": client["client_id"]}
        if client.get("client_secret"):
            if client.get("token_endpoint_auth_method") == "client_secret_basic":
                pair = f"{client['client_id']}:{client['client_secret']}".encode()
                headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
            else:
                fields["client_secret"] = client["client_secret"]
        kind = "application/x-www-form-urlencoded"
        place = str(kept["token_endpoint"])
        status, _, body = await answer_of(place, body=urlencode(fields), kind=kind, headers=headers)
        if status != 200 or not isinstance(body.get("access_token"), str):
            message = f"{place} gave no token: {_reason(status, body)}"
            raise McpError(message, "unauthorized")
        kept = {**kept, "access_token": body["access_token"]}
        kept.pop("expires_at", None)
        if isinstance(body.get("expires_in"), (int, float)):
            kept["expires_at"] = time.time() + body["expires_in"]
        if body.get("refresh_token"):
            kept["refresh_token"] = body["refresh_token"]
        await self._save(kept)
        return str(body["access_token"])


@explain_arguments({})
def oauth(
    url: str,
    *,
    authorize: Callable[[str], Any] | None = None,
    redirect_uri: str = "http://127.0.0.1:33418/callback",
    scopes: Sequence[str] | None = None,
    client_id: str | None = None,
    client_secret: str | None = None,
    client_name: str = "turntree",
    store: TokenStore | None = None,
) -> OAuth:
    """Return the ``auth=`` of an MCP server with OAuth 2.1: ``mcp.http(url, auth=mcp.oauth(url))``.

    The authorization server is found from the MCP server, and the program is registered there. Each connection has a
    valid token: one that is kept, a refreshed one, or else one that the user grants on a page in the browser.

    Args:
        url: The address of the MCP server.
        authorize: A function, sync or async, that takes the address of the page where the user agrees, and returns the
            address to which that page has sent the browser. Default: opens the browser on this machine and waits for it
            at `redirect_uri`, at most five minutes.
        redirect_uri: Where the page sends the browser. The default function needs an address of this machine.
        scopes: The scopes to ask for. Default: those that the server names.
        client_id: The id of a program that is registered already. Default: registers one.
        client_secret: Its secret, if it has one.
        client_name: The name that the page shows for a program that is registered.
        store: Keeps the tokens and the registration, by the address: an object with ``save(key, data)`` and
            ``load(key)``. The data are secret. Default: in memory.

    Raises:
        ValueError: `url` is neither ``https://…`` nor an address of this machine.
    """
    encoded(url, "url")
    options = {
        "authorize": authorize,
        "redirect_uri": redirect_uri,
        "scopes": scopes,
        "client_id": client_id,
        "client_secret": client_secret,
        "client_name": client_name,
        "store": store,
    }
    return OAuth(url, options)


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _server_metadata(issuer: str) -> dict[str, Any]:
    places = _well_known(issuer, "oauth-authorization-server")[:1] + _well_known(issuer, "openid-configuration")[:1]
    places.append(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    for place in places:
        status, _, body = await answer_of(place)
        if status != 200 or "token_endpoint" not in body or "authorization_endpoint" not in body:
            continue
        if str(body.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
            message = f"{place} says that it is {body.get('issuer')}, not {issuer}"
            raise McpError(message, "unauthorized")
        if "S256" not in (body.get("code_challenge_methods_supported") or []):
            message = f"{issuer} does not offer PKCE with S256, which MCP requires"
            raise McpError(message, "unauthorized")
        return body
    message = f"{issuer} has no metadata of an authorization server; give auth= a token instead"
    raise McpError(message, "unauthorized")


def _well_known(url: str, name: str) -> list[str]:
    """The addresses of a well-known document: with the path of the URL behind it, and without."""
    parts = urlsplit(url)
    root = f"{parts.scheme}://{parts.netloc}/.well-known/{name}"
    path = parts.path.rstrip("/")
    return [root + path, root] if path else [root]


def _covers(resource: str, url: str) -> bool:
    """Whether a description of a resource is about the URL: the same origin, and a path above it."""
    ours, theirs = urlsplit(url), urlsplit(resource)
    path = theirs.path.rstrip("/")
    same = (ours.scheme, ours.netloc.lower()) == (theirs.scheme, theirs.netloc.lower())
    return same and (ours.path.rstrip("/") == path or ours.path.startswith(f"{path}/"))


def _code_of(address: str, state: str, issuer: str) -> str:
    answer = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    if "error" in answer:
        message = f"the authorization was refused: {answer.get('error_description') or answer['error']}"
        raise McpError(message, "unauthorized")
    if not hmac.compare_digest(answer.get("state", "").encode(), state.encode()):
        message = "the answer of the authorization page has another state; authorize again"
        raise McpError(message, "unauthorized")
    if "iss" in answer and answer["iss"].rstrip("/") != issuer.rstrip("/"):
        message = f"the authorization was answered by {answer['iss']}, not by {issuer}"
        raise McpError(message, "unauthorized")
    if not answer.get("code"):
        message = "the answer of the authorization page has no code; return the whole address from authorize="
        raise McpError(message, "unauthorized")
    return answer["code"]


def _reason(status: int, body: dict[str, Any]) -> str:
    return str(body.get("error_description") or body.get("error") or f"status {status}")
