"""The requests that the server received."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

Api: TypeAlias = Literal[
    "openai-chat",
    "openai-responses",
    "anthropic-messages",
    "google-generate-content",
    "ollama-chat",
    "openai-embeddings",
    "google-embeddings",
    "ollama-embeddings",
    "openai-images",
    "openai-image-edits",
    "google-images",
]
"""The wire that a request speaks, known by the end of its path."""

Outcome: TypeAlias = Literal["open", "sent", "faulted", "dropped"]
"""Where a response stands: under way, sent whole, broken by its `Fault`, or left by the client."""


class RequestReader(Protocol):
    """Reads a request of one API; a dialect is one."""

    @property
    def api(self) -> Api:
        """The API."""
        ...

    def streams(self, request: Request) -> bool:
        """True if the request asks for a stream."""
        ...

    def model(self, request: Request) -> str:
        """Return the model's name."""
        ...

    def user_text(self, body: object) -> str:
        """Return the text of the last user message."""
        ...

    def tool_results(self, body: object) -> dict[str, str]:
        """Return the results of tools by the ids of their calls."""
        ...


class Request:
    """One HTTP request, recorded before it is answered.

    Attributes:
        number: 1 for the first request of the server.
        method: "POST", "GET", …
        path: Path without query.
        query: Query string without its question mark.
        headers: Header values by lower-case name.
        body: The body as sent.
        json: The parsed body; None if it is not JSON.
        api: The wire it speaks; None if no path of a known API is meant.
        outcome: Where its response stands.
    """

    def __init__(
        self,
        *,
        number: int,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        json: Any,
        dialect: RequestReader | None,
    ) -> None:
        self.number = number
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
        self.json = json
        self.outcome: Outcome = "open"
        self._dialect = dialect
        self._done = threading.Event()

    @property
    def api(self) -> Api | None:
        """The wire that the request speaks."""
        return None if self._dialect is None else self._dialect.api

    @property
    def stream(self) -> bool:
        """Whether a stream of events is asked for."""
        return self._dialect is not None and self._dialect.streams(self)

    @property
    def model(self) -> str:
        """The model asked for; empty if none is."""
        return "" if self._dialect is None else self._dialect.model(self)

    @property
    def user_text(self) -> str:
        """The text of the last message of the user; empty if there is none."""
        return "" if self._dialect is None else self._dialect.user_text(self.json)

    @property
    def tool_results(self) -> dict[str, str]:
        """Tool results at the end of the conversation, text by call id, in order."""
        return {} if self._dialect is None else self._dialect.tool_results(self.json)

    def wait(self, timeout: float = 5.0) -> Outcome:
        """Wait until the response is over.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            The outcome; still "open" if the time ran out.
        """
        self._done.wait(timeout)
        return self.outcome

    def _finish(self, outcome: Outcome) -> None:
        """Say how the response ended; the server calls this once."""
        self.outcome = outcome
        self._done.set()

    def __repr__(self) -> str:
        """Number, method, path and outcome; no headers, they hold keys."""
        return f"<Request {self.number} {self.method} {self.path} {self.outcome}>"
