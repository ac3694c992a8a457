"""The batch APIs of vendors: how a batch is created, looked up, cancelled and read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from turntree._core import VendorApi
from turntree._public_names import publish
from turntree.exceptions import ErrorCode, UPPError
from turntree.upp._vendor_calls import form, read_object, write_json

BatchStatus: TypeAlias = Literal["unknown", "in_progress", "cancelling", "completed", "failed", "expired", "cancelled"]

_JSON = "application/json"

_OF_HTTP = {
    400: ErrorCode.INVALID_REQUEST,
    401: ErrorCode.AUTHENTICATION_FAILED,
    403: ErrorCode.AUTHENTICATION_FAILED,
    404: ErrorCode.MODEL_NOT_FOUND,
    413: ErrorCode.CONTEXT_LENGTH_EXCEEDED,
    422: ErrorCode.INVALID_REQUEST,
    429: ErrorCode.RATE_LIMITED,
}
_OF_ANTHROPIC = {
    "authentication_error": ErrorCode.AUTHENTICATION_FAILED,
    "billing_error": ErrorCode.QUOTA_EXCEEDED,
    "invalid_request_error": ErrorCode.INVALID_REQUEST,
    "not_found_error": ErrorCode.MODEL_NOT_FOUND,
    "permission_error": ErrorCode.AUTHENTICATION_FAILED,
    "rate_limit_error": ErrorCode.RATE_LIMITED,
    "request_too_large": ErrorCode.CONTEXT_LENGTH_EXCEEDED,
}
# The codes of gRPC.
_OF_GOOGLE = {
    3: ErrorCode.INVALID_REQUEST,
    5: ErrorCode.MODEL_NOT_FOUND,
    7: ErrorCode.AUTHENTICATION_FAILED,
    8: ErrorCode.RATE_LIMITED,
    9: ErrorCode.INVALID_REQUEST,
    16: ErrorCode.AUTHENTICATION_FAILED,
}


class State(NamedTuple):
    """A batch as the vendor describes it: its id, its status, the description, and why the whole batch failed."""

    id: str
    status: BatchStatus
    description: Mapping[str, Any]
    problem: str | None = None


# The place of an input, and the vendor's response or an error.
Outcome: TypeAlias = "tuple[int, Mapping[str, Any] | UPPError]"


class Vendor(ABC):
    """The batch API of a vendor."""

    def __init__(self, provider: str, api: VendorApi) -> None:
        self.provider = provider
        self.api = api

    @abstractmethod
    async def create(self, model_id: str, bodies: Sequence[Mapping[str, Any]]) -> State:
        """Create a batch of the bodies of model calls."""

    @abstractmethod
    async def look(self, identifier: str) -> State:
        """Look up a batch."""

    @abstractmethod
    async def cancel(self, identifier: str) -> None:
        """Cancel a batch."""

    @abstractmethod
    async def outcomes(self, state: State) -> list[Outcome]:
        """Return the outcomes of a batch that is over, in any order."""

    async def call(self, method: str, path: str, body: object = None) -> bytes:
        """Send a request with a JSON body, or with none."""
        content = b"" if body is None else write_json(body).encode()
        return await self.api.call(method, path, content, _JSON, [], "")

    async def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """As `call`, and return the JSON object of the response."""
        return read_object(await self.call(method, path, body), self.provider)

    def lines(self, content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
        """Return the lines of a file of results, with the place of their input."""
        for line in content.splitlines():
            if line.strip():
                entry = read_object(line, self.provider)
                yield self.place(entry.get("custom_id")), entry

    def place(self, key: object) -> int:
        """Return the place of an input by the id of its call."""
        try:
            return int(str(key).removeprefix("call-"))
        except ValueError:
            raise self.invalid(f"a result has the unknown id {key!r}") from None

    def error(self, message: object, code: ErrorCode, **details: Any) -> UPPError:
        """Return the error of a call."""
        return UPPError(str(message), code, provider=self.provider, **details)

    def invalid(self, problem: str) -> UPPError:
        """Return the error of a response that the vendor does not document."""
        return self.error(f"the batch of {self.provider} cannot be read: {problem}", ErrorCode.INVALID_RESPONSE)

    def text(self, answer: Mapping[str, Any], name: str) -> str:
        """Return a text of a response.

        Raises:
            UPPError: INVALID_RESPONSE: it is missing.
        """
        value = answer.get(name)
        if not isinstance(value, str) or not value:
            raise self.invalid(f"{name} is missing")
        return value


def members(value: object) -> dict[str, Any]:
    """Return a JSON object, or an empty one for other values."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return a JSON array, or an empty one for other values."""
    return cast("list[Any]", value) if isinstance(value, list) else []


class OpenAI(Vendor):
    """Batches of OpenAI: a file of requests, and files of results and errors."""

    _STATUSES: Mapping[str, BatchStatus] = {
        "cancelled": "cancelled",
        "cancelling": "cancelling",
        "completed": "completed",
        "expired": "expired",
        "failed": "failed",
    }

    async def create(self, model_id: str, bodies: Sequence[Mapping[str, Any]]) -> State:
        endpoint = "/v1/responses" if "input" in bodies[0] else "/v1/chat/completions"
        entries = (
            {"custom_id": f"call-{place}", "method": "POST", "url": endpoint, "body": body}
            for place, body in enumerate(bodies)
        )
        content = "".join(write_json(entry) + "\n" for entry in entries).encode()
        body, content_type = form({"purpose": "batch"}, "batch.jsonl", "application/jsonl", content)
        file = read_object(await self.api.call("POST", "/files", body, content_type, [], ""), self.provider)
        request = {
            "input_file_id": self.text(file, "id"),
            "endpoint": endpoint,
            "completion_window": "24h",
        }
        return self._state(await self.ask("POST", "/batches", request))

    async def look(self, identifier: str) -> State:
        return self._state(await self.ask("GET", f"/batches/{identifier}"))

    async def cancel(self, identifier: str) -> None:
        await self.call("POST", f"/batches/{identifier}/cancel")

    async def outcomes(self, state: State) -> list[Outcome]:
        found: list[Outcome] = []
        for name in ("output_file_id", "error_file_id"):
            file = state.description.get(name)
            if file:
                content = await self.call("GET", f"/files/{file}/content")
                found += [(place, self._outcome(entry)) for place, entry in self.lines(content)]
        return found

    def _state(self, answer: dict[str, Any]) -> State:
        status = self._STATUSES.get(self.text(answer, "status"), "in_progress")
        errors = [members(error) for error in items(members(answer.get("errors")).get("data"))]
        problem = "; ".join(str(error.get("message")) for error in errors) or None
        return State(self.text(answer, "id"), status, answer, problem)

    def _outcome(self, entry: dict[str, Any]) -> Mapping[str, Any] | UPPError:
        response = members(entry.get("response"))
        status, body = response.get("status_code"), members(response.get("body"))
        if status == 200:
            return body
        error = members(body.get("error")) or members(entry.get("error"))
        vendor_code = error.get("code") or error.get("type")
        code = _OF_HTTP.get(cast("int", status), ErrorCode.PROVIDER_ERROR)
        if vendor_code == "batch_expired":
            code = ErrorCode.TIMEOUT
        elif vendor_code == "batch_cancelled":
            code = ErrorCode.CANCELLED
        message = error.get("message") or "the call failed without a message"
        details = {"status_code": status, "request_id": response.get("request_id"), "vendor_code": vendor_code}
        return self.error(message, code, **details)


class Anthropic(Vendor):
    """Message batches of Anthropic."""

    _STATUSES: Mapping[str, BatchStatus] = {"canceling": "cancelling", "ended": "completed"}

    async def create(self, model_id: str, bodies: Sequence[Mapping[str, Any]]) -> State:
        requests = [{"custom_id": f"call-{place}", "params": body} for place, body in enumerate(bodies)]
        return self._state(await self.ask("POST", "/messages/batches", {"requests": requests}))

    async def look(self, identifier: str) -> State:
        return self._state(await self.ask("GET", f"/messages/batches/{identifier}"))

    async def cancel(self, identifier: str) -> None:
        await self.call("POST", f"/messages/batches/{identifier}/cancel")

    async def outcomes(self, state: State) -> list[Outcome]:
        content = await self.call("GET", f"/messages/batches/{state.id}/results")
        return [(place, self._outcome(members(entry.get("result")))) for place, entry in self.lines(content)]

    def _state(self, answer: dict[str, Any]) -> State:
        status = self._STATUSES.get(self.text(answer, "processing_status"), "in_progress")
        return State(self.text(answer, "id"), status, answer)

    def _outcome(self, result: dict[str, Any]) -> Mapping[str, Any] | UPPError:
        kind = result.get("type")
        if kind == "succeeded":
            return members(result.get("message"))
        if kind == "expired":
            return self.error("the batch expired before the call was made", ErrorCode.TIMEOUT)
        if kind == "canceled":
            return self.error("the batch was cancelled before the call was made", ErrorCode.CANCELLED)
        error = members(result.get("error"))
        error = members(error.get("error")) or error
        code = _OF_ANTHROPIC.get(str(error.get("type")), ErrorCode.PROVIDER_ERROR)
        message = error.get("message") or "the call failed without a message"
        return self.error(message, code, vendor_code=error.get("type"))


class Google(Vendor):
    """Batches of Google, with the requests and the responses inline."""

    _STATUSES: Mapping[str, BatchStatus] = {
        "CANCELLED": "cancelled",
        "EXPIRED": "expired",
        "FAILED": "failed",
        "SUCCEEDED": "completed",
    }

    async def create(self, model_id: str, bodies: Sequence[Mapping[str, Any]]) -> State:
        collection = model_id if "/" in model_id else f"models/{model_id}"
        requests = [{"request": body, "metadata": {"key": f"call-{place}"}} for place, body in enumerate(bodies)]
        batch = {"displayName": "turntree", "inputConfig": {"requests": {"requests": requests}}}
        return self._state(await self.ask("POST", f"/{collection}:batchGenerateContent", {"batch": batch}))

    async def look(self, identifier: str) -> State:
        return self._state(await self.ask("GET", f"/batches/{identifier}"))

    async def cancel(self, identifier: str) -> None:
        await self.call("POST", f"/batches/{identifier}:cancel", {})

    async def outcomes(self, state: State) -> list[Outcome]:
        output = members(state.description.get("response")) or members(
            members(state.description.get("metadata")).get("output")
        )
        responses = output.get("inlinedResponses")
        entries = items(responses) or items(members(responses).get("inlinedResponses"))
        found: list[Outcome] = []
        for place, value in enumerate(entries):
            entry = members(value)
            key = members(entry.get("metadata")).get("key")
            found.append((place if key is None else self.place(key), self._outcome(entry)))
        return found

    def _state(self, answer: dict[str, Any]) -> State:
        # The state begins with BATCH_STATE_ or JOB_STATE_.
        state = str(members(answer.get("metadata")).get("state")).rpartition("_STATE_")[2]
        error = members(answer.get("error"))
        status = self._STATUSES.get(state, "in_progress")
        if error and status == "in_progress":
            status = "failed"
        elif answer.get("done") and status == "in_progress":
            status = "completed"
        identifier = self.text(answer, "name").removeprefix("batches/")
        return State(identifier, status, answer, str(error.get("message")) if error else None)

    def _outcome(self, entry: dict[str, Any]) -> Mapping[str, Any] | UPPError:
        error = members(entry.get("error"))
        if not error:
            return members(entry.get("response"))
        code = _OF_GOOGLE.get(cast("int", error.get("code")), ErrorCode.PROVIDER_ERROR)
        message = error.get("message") or "the call failed without a message"
        return self.error(message, code, vendor_code=error.get("status"))


VENDORS: Mapping[str, type[Vendor]] = {"anthropic": Anthropic, "google": Google, "openai": OpenAI}

publish(__name__, globals())
