"""The exceptions of the package.

::

    TurntreeError
    ├── ValidationError (ValueError)   input data is invalid; .errors() lists the problems
    ├── SerializationError             a value cannot be serialized
    ├── SessionError                   a session was used incorrectly
    ├── ApprovalRequired               tool calls wait for approval
    ├── BudgetExceeded                 a run exceeded its budget; .partial is the incomplete turn
    │   └── LimitExceeded              a run reached a limit of limits=
    ├── GuardrailError                 a guardrail rejected a text
    ├── StoreError                     a store failed
    │   ├── ConflictError              another process changed the stored data
    │   └── CorruptDataError           the stored data cannot be read
    └── UPPError                       a model call failed; .code is one of twelve codes

    ModelRetry                         raised by tools and output validators: the model tries again

Cancellation is ``asyncio.CancelledError`` and is never wrapped. The model receives the exception of a tool as an error
result. The caller receives the exception of a hook or an approval unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, TypedDict

from turntree import _core
from turntree._constructors import explain_missing_arguments
from turntree._core import ToolCall, Turn
from turntree._public_names import explain_names, publish

if TYPE_CHECKING:
    from turntree._session import Session


class ErrorDetails(TypedDict):
    """One problem of a document."""

    loc: tuple[str | int, ...]
    pointer: str
    type: str
    msg: str
    input: Any


class TurntreeError(Exception):
    """Base class of the exceptions of this package."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)

    def __str__(self) -> str:
        # Messages quote data: what they show on a terminal is limited. `args` has the whole message.
        return _shown(super().__str__())

    def __repr__(self) -> str:
        text = super().__repr__()
        return text if len(text) <= _LONGEST else f"{type(self).__name__}({_shown(str(self.args[0]))!r})"


class ValidationError(TurntreeError, ValueError):
    """Input data is invalid.

    The message has the JSON pointer, the rule and the remedy of the first problem.
    """

    def __init__(self, message: str, errors: Sequence[ErrorDetails] = ()) -> None:
        super().__init__(message)
        self._errors = list(errors)

    def errors(self) -> list[ErrorDetails]:
        """Return all problems as dicts: ``loc`` (a tuple), ``pointer`` (RFC 6901), ``type``, ``msg`` and ``input``."""
        return list(self._errors)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self._errors)


class SerializationError(TurntreeError):
    """A value cannot be serialized."""


class SessionError(TurntreeError):
    """A session was used incorrectly."""


class ApprovalRequired(TurntreeError):
    """A run has stopped, because tool calls wait for a decision of the application.

    In a session, call `Session.approve` or `Session.deny` for each call, and then `Session.resume`, in this process or
    in another one. A run without a session cannot be continued.

    `Session.resume` also raises it for calls that may have been executed before their process ended: they are in
    `Session.in_doubt`, and `Session.resolve` takes the decision.

    Attributes:
        calls: The calls that wait for a decision, in order, with the arguments that the tools would receive.
        session: The session of the run, or None.
        partial: The incomplete turn. Its last calls have no results.

    Spec: UPP-1.2 §10.4.
    """

    def __init__(self, message: str, calls: Sequence[ToolCall] = (), partial: Turn | None = None) -> None:
        super().__init__(message)
        self.calls: list[ToolCall] = list(calls)
        self.partial = partial
        self.session: Session | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.calls, self.partial)


class BudgetExceeded(TurntreeError):
    """A run has stopped before its next model call, because it exceeded its budget.

    Attributes:
        resource: The exceeded limit: ``tokens``, ``cost``, ``steps`` or ``seconds``.
        limit: The value of the limit.
        spent: The amount that was used.
        partial: The incomplete turn; None if there was no model call.
    """

    def __init__(
        self,
        message: str,
        *,
        resource: str = "",
        limit: float = 0,
        spent: float = 0,
        partial: Turn | None = None,
    ) -> None:
        super().__init__(message)
        self.resource = resource
        self.limit = limit
        self.spent = spent
        self.partial = partial

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0],), dict(self.__dict__)


class LimitExceeded(BudgetExceeded):
    """A run has stopped before its next model request or tool call, because it reached a limit of ``limits=``.

    Attributes:
        resource: The name of the limit, as in `Limits`.
        limit: The value of the limit.
        spent: The amount that was used, also by sub-agents; for ``tool_calls``, with the calls that were not made.
        partial: The incomplete turn; None if there was no model call.
    """


class ModelRetry(Exception):
    """Raise it in a tool or an output validator: the model receives the text, and tries again.

    What was refused stays in the messages. In metadata, ``{"turntree": {"refused": …}}`` marks it: the reason on a
    response, the ids of the calls on a message with tool results. The run fails with `UPPError` INVALID_RESPONSE when
    the budget is used up: ``retries`` of the tool, ``output_retries`` of the agent.

    Args:
        message: What is wrong and what to change, for the model. Default: that it was refused.
    """

    def __init__(self, message: str = "") -> None:
        # A model must not get an empty message.
        self.message: str = message or "It was refused. Try again."
        super().__init__(self.message)


class GuardrailError(TurntreeError):
    """A guardrail rejected a text. The message does not contain the text.

    Attributes:
        rule: The name of the rule.
        place: ``input`` or ``output``.
        reason: The reason.
        text: The text.
        partial: The incomplete turn; None if there was no model response.
    """

    def __init__(
        self,
        message: str,
        *,
        rule: str = "",
        place: str = "",
        reason: str = "",
        text: str = "",
        partial: Turn | None = None,
    ) -> None:
        super().__init__(message)
        self.rule = rule
        self.place = place
        self.reason = reason
        self.text = text
        self.partial = partial

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0],), dict(self.__dict__)


class StoreError(TurntreeError):
    """A store failed.

    Attributes:
        turn: The turn of the run that could not be saved, or None. It is in the session's tree.
    """

    turn: _core.Turn | None = None


class ConflictError(StoreError):
    """Another process changed the stored data.

    A store of the application can raise it from ``save``. The session then raises a `ConflictError` that names the
    session; its ``__cause__`` is the exception of the store.
    """


class CorruptDataError(StoreError):
    """The stored data cannot be read."""


class ErrorCode(str, Enum):
    """The reason why a model call failed.

    Spec: UPP-1.2 §12.
    """

    AUTHENTICATION_FAILED = "AUTHENTICATION_FAILED"
    RATE_LIMITED = "RATE_LIMITED"
    CONTEXT_LENGTH_EXCEEDED = "CONTEXT_LENGTH_EXCEEDED"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_RESPONSE = "INVALID_RESPONSE"
    CONTENT_FILTERED = "CONTENT_FILTERED"
    QUOTA_EXCEEDED = "QUOTA_EXCEEDED"
    PROVIDER_ERROR = "PROVIDER_ERROR"
    NETWORK_ERROR = "NETWORK_ERROR"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"

    def __str__(self) -> str:
        return self.value


# Characters of the message of a vendor that the text of an exception shows; `message` has all.
_LONGEST = 4_000


def _shown(text: str) -> str:
    """Return the beginning of a text without characters that control terminals or reorder what is read."""
    shown = text[:_LONGEST]
    if not shown.isprintable():
        shown = "".join(
            letter if letter.isprintable() or letter in "\n\t" else letter.encode("unicode_escape").decode()
            for letter in shown
        )
    missing = len(text) - _LONGEST
    return shown if missing <= 0 else f"{shown}… ({missing:,} more characters)"


class UPPError(TurntreeError):
    """A model call failed.

    Attributes:
        code: The error code.
        message: The problem, its path and the remedy. Never contains a key.
        provider: Name of the provider.
        modality: ``llm``, ``embedding``, ``image``, ``audio`` or ``video``.
        status_code: The HTTP status, or None.
        retry_after: The seconds in the ``Retry-After`` header, or None.
        request_id: The vendor's id of the request, or None.
        body: The body of the response, or None.
        headers: The headers of the response, with lower-case names; secret values are ``***``. None without a response.
        vendor_code: The vendor's own code or type of the error, such as ``context_length_exceeded``, or None.
        param: The parameter that the vendor refuses, or None.
        cause: The cause: an exception of the application's code, or a text.
        partial: The incomplete turn if the run exceeded its maximum of iterations, or None.

    Spec: UPP-1.2 §12.
    """

    def __init__(
        self,
        message: str,
        code: ErrorCode | str,
        *,
        provider: str = "",
        modality: str = "llm",
        status_code: int | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
        body: str | None = None,
        headers: dict[str, str] | None = None,
        vendor_code: str | None = None,
        param: str | None = None,
        cause: BaseException | str | None = None,
        partial: Turn | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code: ErrorCode = ErrorCode(code)
        self.provider = provider
        self.modality = modality
        self.status_code = status_code
        self.retry_after = retry_after
        self.request_id = request_id
        self.body = body
        self.headers = headers
        self.vendor_code = vendor_code
        self.param = param
        self.cause = cause
        self.partial = partial

    def __str__(self) -> str:
        # Tracebacks show the name of the class before this text.
        details = [f"provider: {_shown(self.provider)}, modality: {self.modality}"] if self.provider else []
        if self.status_code is not None:
            details.append(f"status: {self.status_code}")
        text = f"[{self.code}] {_shown(self.message)}"
        return f"{text} ({', '.join(details)})" if details else text

    def __repr__(self) -> str:
        return f"UPPError({_shown(self.message)!r}, code={self.code.value!r})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: FBT001
        """Show the repr in IPython, which otherwise shows the whole message."""
        printer.text("UPPError(...)" if cycle else repr(self))

    def to_dict(self) -> dict[str, object]:
        """Return the error as plain data.

        Spec: UPP-1.2 §12.
        """
        return {
            "name": "UPPError",
            "message": self.message,
            "code": self.code.value,
            "provider": self.provider,
            "modality": self.modality,
            "statusCode": self.status_code,
            "cause": None if self.cause is None else str(self.cause),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        state = dict(self.__dict__)
        return _restore_upp_error, (self.message, self.code.value, state)


def _restore_upp_error(message: str, code: str, state: dict[str, object]) -> UPPError:
    error = UPPError(message, code)
    error.__dict__.update(state)
    error.code = ErrorCode(code)
    return error


for _class in (
    TurntreeError,
    ValidationError,
    SerializationError,
    SessionError,
    ApprovalRequired,
    BudgetExceeded,
    LimitExceeded,
    ModelRetry,
    GuardrailError,
    StoreError,
    ConflictError,
    CorruptDataError,
):
    _class.__module__ = "turntree"
UPPError.__module__ = ErrorCode.__module__ = "turntree.upp"
del _class

publish(__name__, globals())
# `turntree.upp` may be loaded later, or not at all.
explain_missing_arguments("turntree.upp", [("UPPError", UPPError)])
explain_names(__name__, globals(), "ELSEWHERE")
