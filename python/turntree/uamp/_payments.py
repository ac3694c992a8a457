"""Payments of responses."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from turntree.exceptions import TurntreeError


@dataclass(frozen=True, kw_only=True, slots=True)
class PaymentRequest:
    """The response that may have to be paid, as a `PaymentGate` sees it.

    Attributes:
        agent: The name of the agent.
        principal: The id of the principal who asks, or None without ``auth``.
        claims: The members of the dict that ``auth`` returned; empty if it returned an id.
        session_id: The id of the session; None on wires without sessions.
        response_id: The id of the response.
        payment_token: The token that the client sent with its request, for example in the header ``X-Payment-Token``;
            None if it sent none.

    Spec: UAMP-1.0 §7.2
    """

    agent: str
    principal: str | None
    claims: dict[str, Any]
    session_id: str | None
    response_id: str
    payment_token: str | None = field(repr=False)


class PaymentError(TurntreeError):
    """Raised by a `PaymentGate` to refuse a payment.

    Attributes:
        code: Why: ``"insufficient_balance"``, ``"token_expired"``, ``"token_invalid"``, ``"payment_failed"``,
            ``"rate_limited"``, ``"mandate_revoked"``, or a code of your own.
        message: The reason in words; the client sees it.
        can_retry: True if the response waits for another payment; otherwise it fails. `PaymentGate.required` ignores
            it.
        balance_required: The balance that is necessary, as a decimal number.
        balance_current: The balance of the client, as a decimal number.

    Spec: UAMP-1.0 §7.2
    """

    def __init__(
        self,
        code: str,
        message: str | None = None,
        *,
        can_retry: bool = True,
        balance_required: str | None = None,
        balance_current: str | None = None,
    ) -> None:
        self.code = code
        self.message: str = code.replace("_", " ") if message is None else message
        self.can_retry = can_retry
        self.balance_required = balance_required
        self.balance_current = balance_current
        super().__init__(f"{code}: {self.message}")

    def __reduce__(self) -> tuple[Any, ...]:
        balances = {"balance_required": self.balance_required, "balance_current": self.balance_current}
        return _restore, (self.code, self.message, {"can_retry": self.can_retry, **balances})


def _restore(code: str, message: str, options: dict[str, Any]) -> PaymentError:
    return PaymentError(code, message, **options)


class PaymentGate(Protocol):
    """Decides whether responses must be paid, and checks payments: the argument ``payment_gate`` of `serve`.

    Both methods may be async; others run in threads. An exception other than `PaymentError` is logged, and the payment
    is refused with ``payment_failed``.

    Spec: UAMP-1.0 §7.2
    """

    def required(self, request: PaymentRequest) -> Awaitable[Mapping[str, Any] | None] | Mapping[str, Any] | None:
        """Return what must be paid before the agent starts.

        Args:
            request: The response. If its ``payment_token`` pays it, return None.

        Returns:
            None for a response that is free or paid; otherwise a dict with ``amount`` (a decimal number as text),
            ``currency``, and optionally ``schemes`` (a list of dicts with ``scheme``, ``network`` and ``address``),
            ``expires_at`` (seconds since 1970), ``reason`` and ``ap2``.

        Raises:
            PaymentError: The response cannot be paid: it fails.
        """
        ...

    def submit(
        self, payment: dict[str, Any], request: PaymentRequest
    ) -> Awaitable[Mapping[str, Any] | None] | Mapping[str, Any] | None:
        """Check a payment.

        Args:
            payment: A dict with ``scheme``, and what the client has sent of ``token``, ``network``, ``amount``,
                ``proof`` and ``ap2_credential``.
            request: The response that it pays.

        Returns:
            The receipt: a dict with what is known of ``payment_id``, ``balance_remaining`` (a decimal number as text),
            ``currency`` and ``expires_at`` (seconds since 1970); or None.

        Raises:
            PaymentError: The payment is refused.
        """
        ...
