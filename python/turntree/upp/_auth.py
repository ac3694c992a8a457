"""Tokens as ``auth=``: functions that return one, with what they returned until it expires."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

from turntree._core import KeyStrategy
from turntree._public_names import publish
from turntree.upp._transport import Signer

if TYPE_CHECKING:
    import asyncio

# A token is renewed this long before it expires, at most a tenth of its lifetime.
_MARGIN_SECONDS = 120.0


class AccessToken(NamedTuple):
    """A token that expires: what a function of ``auth=`` may return, as the credentials of Azure do.

    Attributes:
        token: The token.
        expires_on: When it expires, in seconds since 1970.
    """

    token: str
    expires_on: float

    def __repr__(self) -> str:
        return f"AccessToken(***, expires_on={self.expires_on!r})"


class ExpiringToken(Protocol):
    """An object with a token and its expiry, such as `AccessToken`."""

    @property
    def token(self) -> str:
        """The token."""
        ...

    @property
    def expires_on(self) -> float:
        """When the token expires, in seconds since 1970."""
        ...


Token: TypeAlias = str | ExpiringToken
TokenFunction: TypeAlias = Callable[[], Token] | Callable[[], Awaitable[Token]]

Auth: TypeAlias = str | TokenFunction | KeyStrategy | Signer
"""A token, a function that returns one, or an object with ``sign(request)``."""


def token_source(auth: object) -> str | KeyStrategy | Callable[[], Awaitable[str]]:
    """Return the source of a token that a configuration takes.

    Raises:
        TypeError: It is neither a token nor a function that returns one.
        ValueError: It is a text that is no token.
    """
    if isinstance(auth, KeyStrategy):
        return auth
    if isinstance(auth, str):
        return _checked(auth, "auth")
    if callable(auth) and not isinstance(auth, type):
        return _CachedTokens(cast("TokenFunction", auth)).token
    message = f"auth must be a token, a function that returns one, or an object with sign(request), not {_name(auth)}"
    raise TypeError(message)


def sign_in_settings(auth: object) -> dict[str, Any]:
    """Return the connection settings of a sign-in with a cloud; tokens take the place of the key.

    Raises:
        TypeError: It is no sign-in.
    """
    return {"auth": auth} if callable(getattr(auth, "sign", None)) else {"api_key": token_source(auth)}


class _CachedTokens:
    """Calls a function for a token when there is none, or the last one expires.

    Requests of one event loop that need a token at the same time share one call, which goes on if one of them is
    cancelled. Text has no expiry, so a function that returns text is called for each request.
    """

    __slots__ = ("_calls", "_function", "_is_text", "_renew_at", "_token")

    def __init__(self, function: TokenFunction) -> None:
        self._function = function
        self._token = ""
        self._renew_at = 0.0
        self._is_text = False
        self._calls: dict[asyncio.AbstractEventLoop, asyncio.Task[str]] = {}

    async def token(self) -> str:
        """Return a token that has not expired."""
        import asyncio

        if time.time() < self._renew_at:
            return self._token
        if self._is_text:
            return self._keep(await self._fetch())
        loop = asyncio.get_running_loop()
        call = shared = self._calls.get(loop)
        if call is None or call.done():
            self._calls = {known: old for known, old in self._calls.items() if not known.is_closed()}
            call = self._calls[loop] = loop.create_task(self._call(loop))
            call.add_done_callback(_retrieve)
        token = await asyncio.shield(call)
        return self._keep(await self._fetch()) if self._is_text and call is shared else token

    async def _call(self, loop: asyncio.AbstractEventLoop) -> str:
        try:
            return self._keep(await self._fetch())
        finally:
            self._calls.pop(loop, None)

    async def _fetch(self) -> object:
        import asyncio
        import inspect

        function: Callable[[], Any] = self._function
        if inspect.iscoroutinefunction(function):
            return await function()
        # A function of a library may use the network.
        given: object = await asyncio.to_thread(function)
        return await given if inspect.isawaitable(given) else given

    def _keep(self, given: object) -> str:
        self._is_text = isinstance(given, str)
        if isinstance(given, str):
            return _checked(given, "the token of the function of auth")
        token, expires = getattr(given, "token", None), getattr(given, "expires_on", None)
        if not isinstance(token, str) or not isinstance(expires, int | float):
            message = f"the function of auth must return a str or an AccessToken, not {_name(given)}"
            raise TypeError(message)
        _checked(token, "the token of the function of auth")
        lifetime = expires - time.time()
        self._token = token
        self._renew_at = time.time() + lifetime - min(_MARGIN_SECONDS, lifetime / 10)
        return token


def _checked(token: str, what: str) -> str:
    if not token.strip() or not token.isprintable():
        message = f"{what} is empty or has line breaks or control characters"
        raise ValueError(message)
    return token


def _retrieve(call: asyncio.Task[str]) -> None:
    """Mark the exception of a call as seen, also if nobody waits for it any more."""
    if not call.cancelled():
        call.exception()


def _name(value: object) -> str:
    return type(value).__name__


publish(__name__, globals())
