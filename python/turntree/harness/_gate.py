"""The gate: decisions about actions."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from turntree.harness._data import DataModel
from turntree.harness._errors import HarnessError, PolicyViolation
from turntree.harness._project import PROJECT, Project, checked_project

Outcome = Literal["allow", "warn", "ask", "deny"]

_OUTCOMES = ("warn", "ask", "deny")
_LEVELS = ("required", "recommended", "optional")

# The largest number of decisions that are read at once.
_MOST = 2**32 - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Action(DataModel):
    """What an agent is about to do. A dict with the same keys does as well.

    Attributes:
        kind: ``"shell"``, ``"edit"``, ``"write"``, ``"read"``, ``"mcp"`` or ``"other"``.
        command: The shell command.
        path: The file.
        paths: More files.
        content: The text that an edit writes.
        server: The MCP server.
        tool: The tool.
        arguments: The arguments of the tool.
        cwd: The folder. Default: the working tree of the project.
        agent: The agent.
        session: The session.
        harness: The harness.
    """

    _is_closed: ClassVar[bool] = True

    kind: str
    command: str | None = None
    path: str | None = None
    paths: list[str] | None = None
    content: str | None = None
    server: str | None = None
    tool: str | None = None
    arguments: Mapping[str, Any] | None = None
    cwd: str | None = None
    agent: str | None = None
    session: str | None = None
    harness: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the keys that have a value."""
        return {key: value for key, value in vars(self).items() if value is not None}


@dataclass(frozen=True, eq=False)
class MatchedRule(DataModel):
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


@dataclass(frozen=True, eq=False)
class Decision(DataModel):
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


Rule = Callable[[Mapping[str, Any]], "str | None"]
"""A rule in Python: returns what is wrong with an action, or None."""


@dataclass(frozen=True)
class _PythonRule:
    id: str
    level: str
    outcome: Outcome
    remedy: str
    check: Rule


@dataclass(frozen=True, eq=False)
class Change(DataModel):
    """A recorded decision that ends in another way now.

    Attributes:
        number: The number of the entry in the audit.
        subject: The command, or the paths.
        before: The outcome that was recorded.
        after: The outcome now.
        rules: The rules that say so now.
    """

    number: int
    subject: str
    before: Outcome
    after: Outcome
    rules: list[str]


@dataclass(frozen=True, eq=False)
class Replay(DataModel):
    """What `Gate.replay` has found.

    Attributes:
        count: The decisions that were made again.
        skipped: Those that cannot be: the action had a secret, or the decision depended on other agents or was that of
            a hook of git.
        changes: Those that end in another way now.
        not_asked: The ids of rules that have found something then and were not asked now: those of decisions that are
            left out, rules that are gone, functions that are not rules of this gate, and functions that failed.
    """

    count: int
    skipped: int
    changes: list[Change]
    not_asked: list[str] = field(default_factory=list[str])


class Gate:
    """Decides about actions in a project, and records each decision.

    Create one with `load`.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self._rules: list[_PythonRule] = []

    def rule(
        self,
        id: str,
        *,
        remedy: str,
        outcome: Literal["warn", "ask", "deny"] = "deny",
        level: Literal["required", "recommended", "optional"] = "required",
    ) -> Callable[[Rule], Rule]:
        """Add a rule in Python to this gate: a decorator.

        The function gets the action as given to `check`, and returns what is wrong with it, or None; an empty text and
        False mean None. If it raises or returns something else, the action is denied at the level "required", and
        warned about below it. A function that is defined again, as in a notebook, replaces its first definition. For
        hooks, which have no Python, write an enforcer.

        Args:
            id: ``"user."`` and a name.
            remedy: The shortest compliant action.
            outcome: What the rule wants.
            level: How binding it is.

        Raises:
            ValueError: The id does not begin with ``"user."`` or is that of another rule, or a word is unknown.
            TypeError: The rule is not a function, or it is an ``async`` one.
        """
        if not id.startswith("user.") or id == "user.":
            raise ValueError(f'id must be "user." and a name, not {id!r}')
        for name, value, words in (("outcome", outcome, _OUTCOMES), ("level", level, _LEVELS)):
            if value not in words:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, words))}, not {value!r}")

        def add(check: Rule) -> Rule:
            self._add(_PythonRule(id, level, outcome, remedy, check))
            return check

        return add

    def _add(self, rule: _PythonRule) -> None:
        if not callable(rule.check):
            raise TypeError(f'the rule "{rule.id}" must be a function of the action, not {type(rule.check).__name__}')
        if inspect.iscoroutinefunction(rule.check):
            raise TypeError(f'the rule "{rule.id}" is async, and check does not wait: write `def`, without `async`')
        at = next((at for at, other in enumerate(self._rules) if other.id == rule.id), None)
        if at is None:
            self._rules.append(rule)
        elif _place(rule.check) is not None and _place(rule.check) == _place(self._rules[at].check):
            self._rules[at] = rule
        else:
            raise ValueError(f'id: another rule of this gate is called "{rule.id}"; choose another id')

    def replay(
        self,
        entries: Iterable[Mapping[str, Any]] | None = None,
        *,
        limit: int = 1000,
        config: str | os.PathLike[str] | None = None,
        policies: str | os.PathLike[str] | None = None,
    ) -> Replay:
        """Decide about recorded actions again; nothing is recorded. Shows what a change of the policies would change.

        The rules in Python of this gate are asked again, too. An action is as recorded: without the content of edited
        files, with ``path`` and all ``paths`` absolute. A function that raises says nothing, and is in ``not_asked``.

        Args:
            entries: Entries as `audit` returns them. Default: the newest of this project.
            limit: The largest number of entries.
            config: Another ``turntree.toml``.
            policies: Another folder of ``*.policy.toml`` and ``*.cedar``.

        Raises:
            HarnessError: A file is not valid, or ``config`` or ``policies`` does not exist.
            ValueError: ``limit`` is negative.
        """
        limit = _checked_limit(limit)
        if config is not None and not Path(config).is_file():
            raise HarnessError(f"config: there is no file {os.fspath(config)}; check the path")
        if policies is not None and not Path(policies).is_dir():
            raise HarnessError(f"policies: there is no folder {os.fspath(policies)}; check the path")
        given = None if entries is None else [dict(entry) for entry in entries]
        file, folder = (None if path is None else os.fspath(path) for path in (config, policies))
        core = self.project._core
        if not self._rules:
            found = core.replay(given, limit, file, folder)
        else:
            given = core.audit(limit) if given is None else given
            failed: set[str] = set()
            more = [self._findings(action, failed) for action in core.recorded_actions(given)]
            found = core.replay(given, limit, file, folder, [rule.id for rule in self._rules], more)
            found["not_asked"] = sorted({*found["not_asked"], *failed})
        changes = [Change(**change) for change in found["changes"]]
        return Replay(found["count"], found["skipped"], changes, found["not_asked"])

    def _findings(self, action: dict[str, Any] | None, failed: set[str]) -> list[dict[str, str]]:
        """What the rules in Python find in a recorded action."""
        found: list[dict[str, str]] = []
        for rule in self._rules if action is not None else ():
            try:
                reason = _reason(rule, dict(action or {}))
            except Exception:
                # It may need what is not recorded.
                failed.add(rule.id)
                continue
            if reason is not None:
                found.append(_finding(rule, rule.outcome, reason))
        return found

    @classmethod
    def load(cls, project: Project) -> Gate:
        """Load the rules of a project.

        Args:
            project: The project.

        Raises:
            TypeError: It is not a `Project`.
        """
        return cls(checked_project(project, f"Gate.load({PROJECT})"))

    def check(self, action: Action | Mapping[str, Any]) -> Decision:
        """Decide about an action.

        Args:
            action: An `Action`, or a dict: ``{"kind": "shell", "command": …}``,
                ``{"kind": "edit", "path": …, "content": …}``,
                ``{"kind": "read", "path": …}``, ``{"kind": "mcp", "server": …, "tool": …, "arguments": …}`` or
                ``{"kind": "other", "tool": …, "arguments": …}``, with an optional ``cwd``, ``agent`` and ``session``.

        Raises:
            HarnessError: A key is missing or wrong, or the decision could not be recorded.
        """
        return _decision(self._check(action))

    def enforce(self, action: Action | Mapping[str, Any]) -> Decision:
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

    def _check(self, action: Action | Mapping[str, Any], *, record: bool = True) -> dict[str, Any]:
        facts = _facts(action)
        more = [found for rule in self._rules if (found := _ask(rule, facts)) is not None]
        return self.project._core.check(facts, str(self.project.worktree), more, record)

    def _decide(self, action: Mapping[str, Any]) -> Decision:
        return _decision(self._check(action, record=False))

    def rules(self) -> list[dict[str, str]]:
        """List the rules: ``id``, ``level``, ``stage`` and ``summary``."""
        return self.project._core.rules()

    def audit(self, limit: int = 100) -> list[dict[str, Any]]:
        """Return the newest recorded decisions, the newest first.

        Args:
            limit: The largest number of decisions.

        Raises:
            ValueError: The number is negative.
        """
        return self.project._core.audit(_checked_limit(limit))

    def verify_audit(self) -> int:
        """Check that the recorded decisions form an unbroken chain; return their number.

        Raises:
            IntegrityViolation: An entry was changed or removed.
        """
        return self.project._core.verify_audit()

    def __repr__(self) -> str:
        return f"Gate({self.project!r})"


def _facts(action: object) -> dict[str, Any]:
    """The keys of an action. Bytes have no form in JSON: a command in bytes would be another text there."""
    if not isinstance(action, (Action, Mapping)):
        example = '{"kind": "shell", "command": "ls"}'
        raise TypeError(f"action must be an Action or a dict such as {example}, not {type(action).__name__}")
    facts = action.as_dict() if isinstance(action, Action) else dict(cast("Mapping[str, Any]", action))
    for key, value in facts.items():
        if isinstance(value, (bytes, bytearray, memoryview)):
            raise HarnessError(f"action.{key}: expected a text, got bytes; decode them")
        if isinstance(value, os.PathLike):
            facts[key] = os.fspath(cast("os.PathLike[str]", value))
    return facts


def _checked_limit(limit: int) -> int:
    if limit < 0:
        raise ValueError(f"limit must be at least 0, not {limit}")
    return min(limit, _MOST)


def _ask(rule: _PythonRule, action: Mapping[str, Any]) -> dict[str, str] | None:
    outcome: Outcome = rule.outcome
    try:
        reason = _reason(rule, action)
    except Exception as error:
        reason = f"the rule failed: {error!r}"
        outcome = "deny" if rule.level == "required" else "warn"
    if reason is None:
        return None
    return _finding(rule, outcome, reason)


def _reason(rule: _PythonRule, action: Mapping[str, Any]) -> str | None:
    """What a rule says about an action."""
    found = cast("object", rule.check(action))
    if found is None or found is False or found == "":
        return None
    if not isinstance(found, str):
        raise TypeError(f"it must return what is wrong as a text, or None, not {type(found).__name__} {found!r:.100}")
    return found


def _place(check: Rule) -> tuple[str, str] | None:
    """Where a function is defined: the same for each of its definitions. None for one without a name."""
    name: str = getattr(check, "__qualname__", "<lambda>")
    return None if name.endswith("<lambda>") else (getattr(check, "__module__", ""), name)


def _finding(rule: _PythonRule, outcome: Outcome, reason: str) -> dict[str, str]:
    return {"id": rule.id, "level": rule.level, "outcome": outcome, "reason": reason, "remedy": rule.remedy}


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
