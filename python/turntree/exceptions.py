"""Every exception of the package.

::

    TurntreeError
    ├── ValidationError (ValueError)   outside data of the wrong shape; .errors() says where
    ├── SerializationError             a value that cannot be written
    ├── SessionError                   a session used against its rules
    ├── ApprovalRequired               a run that waits for somebody to decide about tool calls
    ├── BudgetExceeded                 a run that has spent what it may; .partial is what it brought
    ├── GuardrailError                 a text that a guardrail has rejected
    ├── StoreError                     a store that failed
    │   ├── ConflictError              somebody else wrote first
    │   └── CorruptDataError           what was stored cannot be read
    └── UPPError                       a model call that failed; .code is one of twelve

Cancellation is ``asyncio.CancelledError`` and is never wrapped. An exception of a tool goes to the model as an error
result; an exception of a hook or an approval reaches the caller as it was raised.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypedDict

    from turntree._core import ToolCall, Turn
    from turntree._session import Session

    class ErrorDetails(TypedDict):
        """Where and why a document was refused."""

        loc: tuple[str | int, ...]
        pointer: str
        type: str
        msg: str
        input: Any


class TurntreeError(Exception):
    """Base of everything this package raises on purpose."""


class ValidationError(TurntreeError, ValueError):
    """Outside data of the wrong shape.

    The message holds the JSON pointer, the rule and the remedy of the first problem.
    """

    def __init__(self, message: str, errors: Sequence[ErrorDetails] = ()) -> None:
        super().__init__(message)
        self._errors = list(errors)

    def errors(self) -> list[ErrorDetails]:
        """All problems: ``loc`` (a tuple path), ``pointer`` (RFC 6901), ``type``, ``msg`` and ``input``."""
        return list(self._errors)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self._errors)


class SerializationError(TurntreeError):
    """A value that cannot be written."""


class SessionError(TurntreeError):
    """A session used against its rules."""


class ApprovalRequired(TurntreeError):
    """A run has stopped: somebody has to decide about tool calls first.

    Nothing is lost. In a session, `Session.approve` or `Session.deny` each call and `Session.resume` the run, now or in
    another process. Without a session the run cannot go on.

    Attributes:
        calls: The calls that wait, in their order, with the arguments that the tools would get.
        session: The session whose run waits; None where there is none.
        partial: The turn as far as it came, to look at: the calls in it have no results.

    Spec: UPP-1.2 §10.4.
    """

    def __init__(self, message: str, calls: Sequence[ToolCall] = (), partial: Turn | None = None) -> None:
        super().__init__(message)
        self.calls: list[ToolCall] = list(calls)
        self.partial = partial
        self.session: Session | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.calls, self.partial)


class BudgetExceeded(TurntreeError):
    """A run that has spent what its budget allows: the model was not called again.

    Attributes:
        resource: What is used up: ``tokens``, ``cost``, ``steps`` or ``seconds``.
        limit: How much there was.
        spent: How much is spent.
        partial: The turn as far as it came; None where the model was not called at all.
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
        return type(self), (str(self),), dict(self.__dict__)


class GuardrailError(TurntreeError):
    """A text that a guardrail has rejected. The message does not hold the text.

    Attributes:
        rule: The rule's name.
        place: ``input`` or ``output``.
        reason: Why.
        text: The text.
        partial: The turn as far as it came; None where no model had answered.
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
        return type(self), (str(self),), dict(self.__dict__)


class StoreError(TurntreeError):
    """A store that failed.

    Attributes:
        turn: What the run of a session gave whose saving failed: it is in the session's tree all the same.
    """

    turn: Turn | None = None


class ConflictError(StoreError):
    """Somebody else wrote first."""


class CorruptDataError(StoreError):
    """What was stored cannot be read."""


class ErrorCode(str, Enum):
    """Why a model call failed.

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


class UPPError(TurntreeError):
    """A model call that failed.

    Attributes:
        code: Which of the twelve.
        message: What, where, and what to do. Never holds a key.
        provider: Whose model.
        modality: ``llm``, ``embedding``, ``image``, ``audio`` or ``video``.
        status_code: The HTTP status, where there was one.
        retry_after: Seconds the vendor asked to wait, where it did.
        request_id: The vendor's id of the request, where it gave one.
        cause: What caused it: the exception of your own code, or a text.
        partial: The turn as far as it came, where a run stopped at its limit of iterations.

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
        self.cause = cause
        self.partial = partial

    def __str__(self) -> str:
        status = f", status: {self.status_code}" if self.status_code is not None else ""
        return f"UPPError [{self.code}]: {self.message} (provider: {self.provider}, modality: {self.modality}{status})"

    def to_dict(self) -> dict[str, object]:
        """The error as plain data, keys as UPP-1.2 §12 names them."""
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
    GuardrailError,
    StoreError,
    ConflictError,
    CorruptDataError,
):
    _class.__module__ = "turntree"
UPPError.__module__ = ErrorCode.__module__ = "turntree.upp"
del _class
