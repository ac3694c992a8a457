"""Coordination of several agents in one project."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from turntree.harness._errors import HarnessError
from turntree.harness._project import Project


@dataclass(frozen=True)
class Lease:
    """A resource that an agent has for a time.

    Attributes:
        id: The id of the lease.
        resource: The resource.
        owner: The agent.
        token: The fencing token: greater than that of every earlier lease of the resource.
        expires_at: When the lease ends, in milliseconds since 1970.
    """

    id: str
    resource: str
    owner: str
    token: int
    expires_at: int
    _project: Project

    def renew(self, ttl: float = 300) -> bool:
        """Extend the lease; return False if it has ended.

        Args:
            ttl: The seconds from now.
        """
        return self._project._core.renew(self.id, ttl)

    def is_valid(self) -> bool:
        """Return whether the lease still protects its resource."""
        return self._project._core.is_valid(self.id)

    def release(self) -> bool:
        """Release the lease; return False if it has ended."""
        return self._project._core.release(self.id, self.resource, self.owner)


class Coordination:
    """What one agent tells the others of its project, and hears from them. All processes share it.

    Args:
        project: The project.
        agent: The id of this agent. Default: made of the machine and the process.
    """

    def __init__(self, project: Project, agent: str | None = None) -> None:
        self.project = project
        self.agent: str = agent or f"{socket.gethostname()}:{os.getpid()}"
        self._core = project._core
        self._core.register(self.agent, "python")

    @contextmanager
    def claim(
        self, resource: str, mode: Literal["exclusive", "shared"] = "exclusive", ttl: float = 300
    ) -> Generator[Lease]:
        """Claim a resource for the time of a ``with`` block.

        Args:
            resource: A kind and a name: ``"file:src/a.rs"``, ``"dir:src"``, ``"branch:main"``, ``"port:8080"``.
            mode: Whether others may share it.
            ttl: The seconds after which the claim ends by itself.

        Raises:
            ClaimConflict: Another agent has it.
        """
        lease = self.acquire(resource, mode, ttl)
        try:
            yield lease
        finally:
            lease.release()

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
        return Lease(**found, _project=self.project)

    @property
    def claims(self) -> list[dict[str, Any]]:
        """The leases of all agents that have not ended."""
        return self._core.claims()

    @property
    def agents(self) -> list[dict[str, Any]]:
        """The agents of the project, the newest sign of life first."""
        return self._core.agents()

    def announce(self, resource: str, intent: str = "editing", note: str = "") -> list[dict[str, Any]]:
        """Announce work on a resource; return what other live agents have announced for it.

        Args:
            resource: As for `claim`.
            intent: What is done: editing, reviewing, refactoring, testing, documenting.
            note: More about it.
        """
        return self._core.announce(self.agent, resource, intent, note)

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

    @contextmanager
    def model_slot(self, target: str, limit: int = 1, ttl: float = 600, timeout: float = 600) -> Generator[None]:
        """Wait for one of a model's slots, for the time of a ``with`` block.

        If the block raises an exception with ``is_exhausted`` or a status of 429, the limit is halved; it recovers.

        Args:
            target: The model or the machine.
            limit: The most slots of all processes.
            ttl: The seconds after which the slot ends by itself.
            timeout: The seconds to wait.

        Raises:
            HarnessError: No slot was free in time.
        """
        deadline = time.monotonic() + timeout
        while (slot := self._core.take_slot(target, self.agent, limit, ttl)) is None:
            if time.monotonic() >= deadline:
                raise HarnessError(f'no slot of "{target}" was free within {timeout} s; raise limit or timeout')
            time.sleep(0.05)
        is_exhausted = False
        try:
            yield
        except Exception as error:
            is_exhausted = getattr(error, "status", None) == 429 or bool(getattr(error, "is_exhausted", False))
            raise
        finally:
            self._core.give_slot(slot, target, is_exhausted)

    def close(self) -> None:
        """End this agent: its announcements are done, its claims are released."""
        self._core.leave(self.agent)

    def __repr__(self) -> str:
        return f"Coordination({self.project!r}, agent={self.agent!r})"


@dataclass(frozen=True)
class Worktree:
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
        self._core.remove_worktree(name, force)

    def forecast(self, ours: str, theirs: str) -> list[str]:
        """Return the files in which two branches would conflict. No working tree is touched.

        Args:
            ours: A branch.
            theirs: Another branch.
        """
        return self._core.forecast(ours, theirs)


def _worktree(found: dict[str, Any]) -> Worktree:
    return Worktree(found["name"], found["branch"], Path(found["path"]))
