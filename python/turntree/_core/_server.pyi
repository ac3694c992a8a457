"""Servers of protocols."""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Literal, final, overload

from typing_extensions import Self

from turntree._core._async import Coroutine

@final
class ServerCore:
    """The native half of ``turntree._server.Server``.

    With ``blocking=False``, operations return a coroutine.
    """

    @property
    def url(self) -> str:
        """The address, ``http://host:port``. Raises RuntimeError unless the server runs."""

    @overload
    def start(self, blocking: Literal[True]) -> None: ...
    @overload
    def start(self, blocking: Literal[False]) -> Coroutine[None]:
        """Listens and starts to answer requests."""
    @overload
    def stop(self, blocking: Literal[True]) -> None: ...
    @overload
    def stop(self, blocking: Literal[False]) -> Coroutine[None]:
        """Stops listening, waits for open requests up to the drain limit, and closes what is left."""

@final
class JwtAuthenticator:
    """Accepts JSON Web Tokens of one issuer, as the argument ``auth`` of a server. The principal is the claim ``sub``.

    Tokens are checked without Python, with the keys that the issuer publishes. The signature, ``exp``, ``nbf``, ``iss``
    and ``aud`` are checked; a token without ``exp``, ``iss``, ``aud`` or ``sub`` is refused. The keys are fetched with
    the first token, and again when they are old or a token names an unknown one. Requests are answered with 503 while
    there are no keys.

    Args:
        jwks_url: The URL of the issuer's keys (JWKS).
        issuer: The issuer; tokens of other issuers are refused.
        audience: The name of this server, or several; tokens for none of them are refused.
        algorithms: The accepted algorithms of RSA, ECDSA and EdDSA, by the names of RFC 7518. Default: RS256, ES256 and
            EdDSA.
        leeway: The tolerated difference of clocks in seconds, at most a day.
        max_age: The age in seconds at which the keys are fetched again.

    Raises:
        ValueError: The URL is not one of http or https, an algorithm is unknown, or there is no audience.
    """

    def __new__(
        cls,
        jwks_url: str,
        *,
        issuer: str,
        audience: str | Sequence[str],
        algorithms: Sequence[str] | None = None,
        leeway: float = 60.0,
        max_age: float = 600.0,
    ) -> Self: ...
    def __call__(self, token: str) -> Coroutine[dict[str, Any] | None]:
        """Return the claims of a token, or None if it is not valid.

        Raises RuntimeError if it cannot be checked, because there are no keys.
        """

@final
class AsgiCore:
    """The native half of ``turntree._server.AsgiApplication``."""

    def serve(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> Coroutine[None]:
        """Serves one connection: a lifespan, an HTTP request or a WebSocket."""
