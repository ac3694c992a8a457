"""Coordination of several agents in one project."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from turntree.harness._contexts import Claim, Lease, ModelSlot
from turntree.harness._data import DataModel
from turntree.harness._project import PROJECT, Project, checked_project

if TYPE_CHECKING:
    from typing_extensions import Self


class Overlaps(list[dict[str, Any]]):
    """What other live agents have announced that overlaps with an announcement: a list, the closest first.

    Each item has ``agent``, ``resource``, ``intent``, ``note``, ``at`` (milliseconds since 1970), and ``overlap``:
    ``"same"`` for the same resource, ``"inside"`` if one is a folder or a pattern that may have files of the other,
    ``"folder"`` for files of the same folder, unless that is the project itself.

    Attributes:
        risk: ``"none"`` if nothing overlaps; ``"low"`` if the others review, test or document; ``"medium"`` if one
            edits, or others work on files of the same folder; ``"high"`` if one edits and more work there too, or one
            refactors; ``"critical"`` if two or more edit or refactor.
        suggestion: ``"parallel_ok"``: work at the same time; ``"merge_order"``: work at the same time, and merge in
            the order of ``order``; ``"sequence"``: work one after the other.
        order: The agents with this one, those that change least first; empty if nothing overlaps.
    """

    def __init__(
        self,
        overlaps: Iterable[dict[str, Any]] = (),
        risk: Literal["none", "low", "medium", "high", "critical"] = "none",
        suggestion: Literal["parallel_ok", "merge_order", "sequence"] = "parallel_ok",
        order: Iterable[str] = (),
    ) -> None:
        super().__init__(overlaps)
        self.risk: Literal["none", "low", "medium", "high", "critical"] = risk
        self.suggestion: Literal["parallel_ok", "merge_order", "sequence"] = suggestion
        self.order: list[str] = list(order)

    def __repr__(self) -> str:
        return f"Overlaps({super().__repr__()}, risk={self.risk!r}, suggestion={self.suggestion!r})"


class Coordination:
    """What one agent tells the others of its project, and hears from them. All processes share it.

    As a context manager, it ends the agent at the end of the block, as `close` does.

    Args:
        project: The project.
        agent: The id of this agent. Default: made of the machine and the process.
        own: Whether the agent is this process: when the process ends, however it does, others see at once that the
            agent is gone, and its claims are free. False for a command that speaks for an agent and ends before it.
    """

    def __init__(self, project: Project, agent: str | None = None, *, own: bool = True) -> None:
        self.project: Project = checked_project(project, f"Coordination({PROJECT})")
        self.agent: str = agent or f"{socket.gethostname()}:{os.getpid()}"
        self._core = project._core
        self._core.register(self.agent, "python", own)

    def claim(self, resource: str, mode: Literal["exclusive", "shared"] = "exclusive", ttl: float = 300) -> Claim:
        """Claim a resource for the time of a ``with`` or ``async with`` block.

        Args:
            resource: A kind and a name: ``"file:src/a.rs"``, ``"dir:src"``, ``"branch:main"``, ``"port:8080"``.
            mode: Whether others may share it.
            ttl: The seconds after which the claim ends by itself.

        Raises:
            ClaimConflict: Another agent has it.
        """
        return Claim(lambda: self.acquire(resource, mode, ttl))

    def acquire(self, resource: str, mode: Literal["exclusive", "shared"] = "exclusive", ttl: float = 300) -> Lease:
        """Claim a resource until it is released.

        Args:
            resource: As for `claim`.
            mode: As for `claim`.
            ttl: As for `claim`.

        Raises:
            ClaimConflict: Another agent has it.
        """
        if mode not in ("exclusive", "shared"):
            raise ValueError(f'mode must be "exclusive" or "shared", not {mode!r}')
        found = self._core.claim(self.agent, resource, mode == "exclusive", ttl)
        found.pop("mode")
        return Lease(**found, project=self.project.root, _project=self.project)

    @property
    def claims(self) -> list[dict[str, Any]]:
        """The leases of all agents that have not ended."""
        return self._core.claims()

    @property
    def agents(self) -> list[dict[str, Any]]:
        """The agents of the project, the newest sign of life first."""
        return self._core.agents()

    def announce(self, resource: str, intent: str = "editing", note: str = "") -> Overlaps:
        """Announce work on a resource; return what other live agents have announced that overlaps, with the risk.

        Args:
            resource: As for `claim`, or a pattern of files: ``"file:src/**/*.rs"``. At most 1024 bytes.
            intent: What is done: editing, reviewing, refactoring, testing, documenting. Another word counts as editing.
            note: More about it.

        Raises:
            HarnessError: The resource is too long.
        """
        found = self._core.announce(self.agent, resource, intent, note)
        return Overlaps(found["overlaps"], found["risk"], found["suggestion"], found["order"])

    def complete(self, resource: str) -> bool:
        """End an announcement; return False if there was none.

        Args:
            resource: The resource.
        """
        return self._core.complete(self.agent, resource)

    def send(self, text: str, to: str | None = None, channel: str = "general") -> str:
        """Send a message to an agent, or to all; return its id.

        Args:
            text: The text.
            to: The agent. Default: all.
            channel: The channel.
        """
        return self._core.send(self.agent, to, channel, text)

    def inbox(self) -> list[dict[str, Any]]:
        """Take the unread messages of this agent. Each is returned once."""
        return self._core.inbox(self.agent)

    def post(self, text: str, kind: Literal["note", "finding", "dead-end", "norm", "flag"] = "note") -> str:
        """Post on the board; return the id.

        Args:
            text: The text.
            kind: What it is.
        """
        return self._core.post(self.agent, kind, text)

    @property
    def board(self) -> list[dict[str, Any]]:
        """The newest posts of the board. Reading does not remove them."""
        return self._core.board(100)

    def model_slot(self, target: str, limit: int = 1, ttl: float = 600, timeout: float = 600) -> ModelSlot:
        """Wait for one of a model's slots, for the time of a ``with`` or ``async with`` block.

        If the block raises an exception with ``is_exhausted`` or a status of 429, the limit is halved; it recovers.

        Args:
            target: The model or the machine.
            limit: The most slots of all processes.
            ttl: The seconds after which the slot ends by itself.
            timeout: The seconds to wait.

        Raises:
            HarnessError: No slot was free in time.
        """
        return ModelSlot(self._core, self.agent, target, limit, ttl, timeout)

    def close(self) -> None:
        """End this agent: its announcements are done, its claims are released."""
        self._core.leave(self.agent)

    def __reduce__(self) -> tuple[Any, ...]:
        remedy = f"write Coordination(project, {self.agent!r}) in the other process"
        raise TypeError(f"a Coordination cannot be pickled: it holds the lock of this process; {remedy}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Coordination({self.project!r}, agent={self.agent!r})"


@dataclass(frozen=True, eq=False)
class Worktree(DataModel):
    """A working tree of the project.

    Attributes:
        name: Its name: ``001-parser``.
        branch: The branch.
        path: The folder.
    """

    name: str
    branch: str
    path: Path


class Worktrees:
    """The working trees of a project.

    Args:
        project: The project.
    """

    def __init__(self, project: Project) -> None:
        self.project: Project = checked_project(project, f"Worktrees({PROJECT})")
        self._core = project._core

    def create(self, name: str, base: str | None = None) -> Worktree:
        """Create ``.worktrees/NNN-name`` on the branch ``feature/NNN-name``.

        Args:
            name: Letters, digits and ``-``.
            base: Where the branch starts. Default: the head of the main working tree.

        Raises:
            HarnessError: The name is not valid, or git failed.
        """
        return _worktree(self._core.create_worktree(name, base))

    def ensure(self, name: str, base: str | None = None) -> Worktree:
        """Return the working tree ``NNN-name``; create it if there is none.

        Args:
            name: As for `create`.
            base: As for `create`.

        Raises:
            HarnessError: As for `create`.
        """
        return self._find(name) or self.create(name, base)

    def _find(self, name: str) -> Worktree | None:
        """The working tree of a name, with its number or without it."""
        linked = self.all()[1:]
        exact = [tree for tree in linked if tree.name == name]
        short = [tree for tree in linked if re.fullmatch(rf"[0-9]+-{re.escape(name)}", tree.name)]
        found = exact or short
        return found[0] if len(found) == 1 else None

    def all(self) -> list[Worktree]:
        """Return all working trees, the main one first."""
        return [_worktree(found) for found in self._core.worktrees()]

    def remove(self, name: str, *, force: bool = False) -> None:
        """Remove a working tree. Its branch stays.

        Args:
            name: The name.
            force: Whether uncommitted changes may be lost.

        Raises:
            HarnessError: There is none of that name, or it has uncommitted changes.
        """
        found = self._find(name)
        if found is not None:
            name = found.name
        self._core.remove_worktree(name, force)

    def forecast(self, ours: str, theirs: str) -> list[str]:
        """Return the files in which two branches would conflict. No working tree is touched.

        Args:
            ours: A branch.
            theirs: Another branch.
        """
        return self._core.forecast(ours, theirs)

    def forecast_all(self) -> Forecast:
        """Return which branches of the working trees would conflict, and an order in which to merge them."""
        found = self._core.forecast_all()
        return Forecast([Conflict(**pair) for pair in found["conflicts"]], found["order"])

    def __reduce__(self) -> tuple[Any, ...]:
        return Worktrees, (self.project,)

    def __repr__(self) -> str:
        return f"Worktrees({self.project!r})"


@dataclass(frozen=True, eq=False)
class Conflict(DataModel):
    """Two branches that would conflict.

    Attributes:
        ours: One branch.
        theirs: The other one.
        files: The files in which they would.
    """

    ours: str
    theirs: str
    files: list[str]


@dataclass(frozen=True, eq=False)
class Forecast(DataModel):
    """What would happen if all working trees were merged.

    Attributes:
        conflicts: The pairs of branches that would conflict.
        order: The branches of linked working trees, in the order in which to merge them: the fewest conflicts first.
    """

    conflicts: list[Conflict]
    order: list[str]


def _worktree(found: dict[str, Any]) -> Worktree:
    return Worktree(found["name"], found["branch"], Path(found["path"]))
