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
    "bedrock-converse",
    "openai-embeddings",
    "google-embeddings",
    "ollama-embeddings",
    "openai-images",
    "openai-image-edits",
    "google-images",
]
"""The API of a request, identified by the end of its path."""

Outcome: TypeAlias = Literal["open", "sent", "faulted", "dropped"]
"""The state of a response: in progress, sent completely, ended by its `Fault`, or dropped by the client."""


class RequestReader(Protocol):
    """Reads the requests of one API. Implemented by `Dialect`."""

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
    """One HTTP request, recorded before the server responds.

    Attributes:
        number: 1 for the first request of the server.
        method: "POST", "GET", …
        path: Path without query.
        query: Query string without its question mark.
        headers: Header values by lower-case name.
        body: The bytes of the body.
        json: The parsed body; None if it is not JSON.
        api: The API; None if the path belongs to no known API.
        outcome: The state of its response.
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
        """The API; None if the path belongs to no known API."""
        return None if self._dialect is None else self._dialect.api

    @property
    def stream(self) -> bool:
        """True if the request asks for a stream."""
        return self._dialect is not None and self._dialect.streams(self)

    @property
    def model(self) -> str:
        """Name of the model; empty if the request has none."""
        return "" if self._dialect is None else self._dialect.model(self)

    @property
    def user_text(self) -> str:
        """The text of the last user message; empty if there is none."""
        return "" if self._dialect is None else self._dialect.user_text(self.json)

    @property
    def tool_results(self) -> dict[str, str]:
        """The tool results at the end of the conversation, in order: text by call id."""
        return {} if self._dialect is None else self._dialect.tool_results(self.json)

    def wait(self, timeout: float = 5.0) -> Outcome:
        """Wait until the response ends.

        Args:
            timeout: The maximum time in seconds.

        Returns:
            The outcome; "open" after a timeout.
        """
        self._done.wait(timeout)
        return self.outcome

    def _finish(self, outcome: Outcome) -> None:
        """Set the outcome of the response. The server calls it once."""
        self.outcome = outcome
        self._done.set()

    def __repr__(self) -> str:
        """Return number, method, path and outcome, without headers, because these contain keys."""
        return f"<Request {self.number} {self.method} {self.path} {self.outcome}>"
