"""The errors of the harness layer."""

from __future__ import annotations

from typing import Any

from turntree.exceptions import TurntreeError


class HarnessError(TurntreeError):
    """An operation of the harness layer failed."""


class PolicyViolation(HarnessError):
    """A policy denies an action.

    Attributes:
        decision: The decision as a dict: ``outcome``, ``rules`` with reason and remedy, ``shadow``.
    """

    def __init__(self, message: str, decision: dict[str, Any]) -> None:
        super().__init__(message)
        self.decision = decision

    @property
    def rules(self) -> list[str]:
        """The ids of the rules that matched, the gravest first."""
        return [rule["id"] for rule in self.decision["rules"]]

    @property
    def remedy(self) -> str | None:
        """The shortest compliant action."""
        return next((rule["remedy"] for rule in self.decision["rules"]), None)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.decision)


class ClaimConflict(HarnessError):
    """Another owner has the resource.

    Attributes:
        resource: The resource.
        holder: Who has it.
        expires_at: When the claim ends, in milliseconds since 1970.
    """

    def __init__(self, message: str, resource: str, holder: str, expires_at: int) -> None:
        super().__init__(message)
        self.resource = resource
        self.holder = holder
        self.expires_at = expires_at

    @property
    def expires(self) -> int:
        """As `expires_at`."""
        return self.expires_at

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.resource, self.holder, self.expires_at)


class StoreBusy(HarnessError):
    """Another process holds the lock of the state file. Try again."""


class IntegrityViolation(HarnessError):
    """Stored data was changed behind the back of turntree."""
