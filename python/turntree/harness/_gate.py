"""The gate: decisions about actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from turntree.harness._errors import PolicyViolation
from turntree.harness._project import Project

Outcome = Literal["allow", "warn", "ask", "deny"]


@dataclass(frozen=True)
class MatchedRule:
    """A rule that has found something.

    Attributes:
        id: The id of the rule.
        level: ``"required"``, ``"recommended"`` or ``"optional"``.
        outcome: What it wants at this level.
        reason: What is wrong.
        remedy: The shortest compliant action.
    """

    id: str
    level: str
    outcome: Outcome
    reason: str
    remedy: str


@dataclass(frozen=True)
class Decision:
    """What the gate says about an action.

    Attributes:
        outcome: ``"allow"``, ``"warn"``, ``"ask"`` or ``"deny"``: the greatest of all rules.
        rules: The rules that matched, the gravest first.
        message: The text for an agent: what is blocked, why, by which rule, and what to do instead.
        latency_us: The time that the rules needed, in microseconds.
        policy_set: Names the set of policies; it changes with the configuration.
        shadow: Findings of rules in shadow mode.
    """

    outcome: Outcome
    rules: list[MatchedRule]
    message: str
    latency_us: int
    policy_set: str
    shadow: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def reason(self) -> str | None:
        """The reason of the gravest rule."""
        return self.rules[0].reason if self.rules else None

    @property
    def remedy(self) -> str | None:
        """The shortest compliant action of the gravest rule."""
        return self.rules[0].remedy if self.rules else None


class Gate:
    """Decides about actions in a project, and records each decision.

    Create one with `load`.
    """

    def __init__(self, project: Project) -> None:
        self.project = project

    @classmethod
    def load(cls, project: Project) -> Gate:
        """Load the rules of a project.

        Args:
            project: The project.
        """
        return cls(project)

    def check(self, action: Mapping[str, Any]) -> Decision:
        """Decide about an action.

        Args:
            action: ``{"kind": "shell", "command": …}``, ``{"kind": "edit", "path": …, "content": …}``,
                ``{"kind": "read", "path": …}``, ``{"kind": "mcp", "server": …, "tool": …, "arguments": …}`` or
                ``{"kind": "other", "tool": …, "arguments": …}``, with an optional ``cwd``, ``agent`` and ``session``.

        Raises:
            HarnessError: A key is missing or wrong, or the decision could not be recorded.
        """
        return _decision(self._check(action))

    def enforce(self, action: Mapping[str, Any]) -> Decision:
        """Decide about an action; a denied one raises.

        Args:
            action: As for `check`.

        Raises:
            PolicyViolation: The action is denied.
            HarnessError: As for `check`.
        """
        found = self._check(action)
        if found["outcome"] == "deny":
            raise PolicyViolation(found["message"], found)
        return _decision(found)

    def _check(self, action: Mapping[str, Any]) -> dict[str, Any]:
        return self.project._core.check(dict(action), str(self.project.worktree))

    def rules(self) -> list[dict[str, str]]:
        """List the rules: ``id``, ``level``, ``stage`` and ``summary``."""
        return self.project._core.rules()

    def audit(self, limit: int = 100) -> list[dict[str, Any]]:
        """Return the newest recorded decisions, the newest first.

        Args:
            limit: The largest number of decisions.
        """
        return self.project._core.audit(limit)

    def verify_audit(self) -> int:
        """Check that the recorded decisions form an unbroken chain; return their number.

        Raises:
            IntegrityViolation: An entry was changed or removed.
        """
        return self.project._core.verify_audit()

    def __repr__(self) -> str:
        return f"Gate({self.project!r})"


def _decision(found: dict[str, Any]) -> Decision:
    keys = ("id", "level", "outcome", "reason", "remedy")
    rules = [MatchedRule(**{key: rule[key] for key in keys}) for rule in found["rules"]]
    return Decision(
        outcome=found["outcome"],
        rules=rules,
        message=found["message"],
        latency_us=found["latency_us"],
        policy_set=found["policy_set"],
        shadow=found["shadow"],
    )
