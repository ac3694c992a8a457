"""A page on the loopback interface that shows a session in a browser, and follows it.

The page is read-only. Its address has a secret token; requests with another host name are refused, so that a web site
whose name leads to the loopback interface (DNS rebinding) cannot read it. The server of the standard
library is imported at the first call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from turntree._session_state import SessionState
from turntree._typing import Self

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_BODY = 64 * 1024
"""The number of bytes that are read of the body of a request that is refused."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Inspector:
    """A page that shows a session in a browser. Created by `inspect`, and open until `close`.

    Attributes:
        url: The address of the page, with a secret token.
    """

    __slots__ = ("_end_watch", "_server", "url")

    url: str

    def __init__(self, content: Callable[[], str], title: str) -> None:
        import secrets

        from turntree._interrupts import watch_signals

        token = secrets.token_urlsafe(24)
        self._server: Any = _server(content, title, token)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/{token}/"
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="turntree-inspector", daemon=True
        ).start()
        self._end_watch = watch_signals()

    def close(self) -> None:
        """Stop serving the page. A second call does nothing."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            self._end_watch()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Inspector({self.url!r})" if self._server is not None else "Inspector(closed)"

    def __rich_repr__(self) -> Iterable[Any]:
        yield self.url if self._server is not None else "closed"

    def _repr_html_(self) -> str:
        from html import escape

        if self._server is None:
            return "<p>This inspector is closed.</p>"
        return f'<p><a href="{escape(self.url)}" target="_blank" rel="noopener">Inspect the session</a></p>'


def inspect(session: SessionState) -> Inspector:
    """Serve a page that shows a session in a browser: the tree, messages, checkpoints and the times of requests.

    The page is read-only and follows the session. Only programs on this computer that know the address can open it.

    Args:
        session: The session to show.

    Raises:
        TypeError: `session` is not a session.
        OSError: No port can be opened.
    """
    if not isinstance(session, SessionState):  # pyright: ignore[reportUnnecessaryIsInstance]
        message = f"session must be a Session, not {type(session).__name__}"
        raise TypeError(message)
    from turntree.notebook._session_page import content

    return Inspector(lambda: content(session), f"Session {session.id}")


def _server(content: Callable[[], str], title: str, token: str) -> Any:
    """Return a server whose pages have the content. It answers GET and HEAD."""
    import hmac
    import secrets
    from hashlib import sha256
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    from turntree.notebook._session_page import document

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "turntree", ""
        timeout = 10

        def __getattr__(self, name: str) -> Any:
            # Called for methods other than these two, also for unknown ones.
            if name.startswith("do_"):
                return self._refuse_method
            raise AttributeError(name)

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            at: Any = self.server.server_address
            port = at[1]
            if self.headers.get("Host") not in (f"127.0.0.1:{port}", f"localhost:{port}"):
                self._answer(421, b"wrong host")
                return
            given, _, rest = self.path.lstrip("/").partition("/")
            if not hmac.compare_digest(given.encode(), token.encode()):
                self._answer(404, b"not found")
                return
            name, _, known = rest.partition("?")
            if name not in ("", "content"):
                self._answer(404, b"not found")
                return
            text = content()
            version = sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
            if name == "content":
                self._answer(204 if known == version else 200, text.encode("utf-8", "replace"), version=version)
                return
            nonce = secrets.token_urlsafe(12)
            page = document(title, text, version, nonce)
            self._answer(200, page.encode("utf-8", "replace"), nonce=nonce)

        def _refuse_method(self) -> None:
            # A connection that is closed with unread data is reset, and the client may lose the answer.
            length = self.headers.get("Content-Length", "")
            if length.isascii() and length.isdigit():
                self.rfile.read(min(int(length), _BODY))
            self._answer(405, b"method not allowed")

        def _answer(self, status: int, body: bytes, *, nonce: str = "", version: str = "") -> None:
            self.send_response(status)
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            self.send_header("Content-Security-Policy", _POLICY.format(nonce=nonce or "none"))
            if version:
                self.send_header("X-Version", version)
            if status == 405:
                self.send_header("Allow", "GET, HEAD")
            if status != 204:
                self.send_header("Content-Type", "text/html; charset=utf-8" if status == 200 else "text/plain")
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if status != 204 and self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Write nothing: the address in a log would have the token."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Ignore clients that disconnect."""

    return Server(("127.0.0.1", 0), Handler)
