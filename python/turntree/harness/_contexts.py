"""What `Coordination` has for ``with`` and ``async with``: claims and slots of models."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast, final

from turntree._core import HarnessCore
from turntree.harness._data import DataModel
from turntree.harness._errors import HarnessError
from turntree.harness._project import Project

_T = TypeVar("_T")

# The seconds between two attempts to take a slot.
_PAUSE = 0.05


@dataclass(frozen=True, eq=False)
class Lease(DataModel):
    """A resource that an agent has for a time.

    A lease that was pickled or read from JSON opens its project again when it is used.

    Attributes:
        id: The id of the lease.
        resource: The resource.
        owner: The agent.
        token: The fencing token: greater than that of every earlier lease of the resource.
        expires_at: When the lease ends, in milliseconds since 1970.
        project: The folder of the project: its main working tree. None if the lease was made without one.
    """

    id: str
    resource: str
    owner: str
    token: int
    expires_at: int
    project: Path | None = None
    _project: Project | None = field(default=None, repr=False, compare=False)

    def renew(self, ttl: float = 300) -> bool:
        """Extend the lease; return False if it has ended.

        Args:
            ttl: The seconds from now.
        """
        return self._core().renew(self.id, ttl)

    def is_valid(self) -> bool:
        """Return whether the lease still protects its resource."""
        return self._core().is_valid(self.id)

    def release(self) -> bool:
        """Release the lease; return False if it has ended."""
        return self._core().release(self.id, self.resource, self.owner)

    def _core(self) -> HarnessCore:
        if self._project is None:
            object.__setattr__(self, "_project", self._found())
        return cast("Project", self._project)._core

    def _found(self) -> Project:
        place = f'the lease of "{self.resource}"'
        if self.project is None:
            raise HarnessError(f"{place} has no project; use that of Coordination.acquire, or give project=FOLDER")
        try:
            return Project.find(self.project)
        except HarnessError as error:
            remedy = "use the lease where its project is, or give project=FOLDER with dataclasses.replace"
            raise HarnessError(f"{place}: its project cannot be opened: {error}; {remedy}") from error

    def __reduce__(self) -> tuple[type[Lease], tuple[Any, ...]]:
        return type(self), (self.id, self.resource, self.owner, self.token, self.expires_at, self.project)


async def _in_thread(call: Callable[[], _T], undo: Callable[[_T], object]) -> _T:
    """Call in a thread. If the caller is cancelled, what the call has taken is given back when it ends."""
    task = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(lambda done: done.cancelled() or done.exception() or undo(done.result()))
        raise


class Claim:
    """A claim for the time of a ``with`` or ``async with`` block. Created by `Coordination.claim`."""

    def __init__(self, acquire: Callable[[], Lease]) -> None:
        self._acquire = acquire
        self._lease: Lease | None = None

    def __enter__(self) -> Lease:
        self._lease = self._acquire()
        return self._lease

    def __exit__(self, *_: object) -> None:
        if self._lease is not None:
            self._lease.release()

    async def __aenter__(self) -> Lease:
        self._lease = await _in_thread(self._acquire, lambda lease: lease.release())
        return self._lease

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)

    def __repr__(self) -> str:
        return f"Claim({self._lease!r})"


@final
class ModelSlot:
    """A slot of a model for the time of a ``with`` or ``async with`` block. Created by `Coordination.model_slot`."""

    def __init__(self, core: HarnessCore, agent: str, target: str, limit: int, ttl: float, timeout: float) -> None:
        self._core = core
        self._target = target
        self._timeout = timeout
        self._slot: str | None = None
        self._take: Callable[[], str | None] = lambda: core.take_slot(target, agent, limit, ttl)

    def __enter__(self) -> ModelSlot:
        deadline = time.monotonic() + self._timeout
        while (slot := self._take()) is None:
            self._check(deadline)
            time.sleep(_PAUSE)
        self._slot = slot
        return self

    async def __aenter__(self) -> ModelSlot:
        deadline = time.monotonic() + self._timeout
        while (slot := await _in_thread(self._take, self._give_back)) is None:
            self._check(deadline)
            await asyncio.sleep(_PAUSE)
        self._slot = slot
        return self

    def _check(self, deadline: float) -> None:
        if time.monotonic() >= deadline:
            place = f'no slot of "{self._target}" was free within {self._timeout} s'
            raise HarnessError(f"{place}; raise limit or timeout")

    def _give_back(self, slot: str | None, *, is_exhausted: bool = False) -> None:
        if slot is not None:
            self._core.give_slot(slot, self._target, is_exhausted)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back(self._slot, is_exhausted=_is_exhausted(error))
        self._slot = None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def __repr__(self) -> str:
        return f"ModelSlot({self._target!r})"


def _is_exhausted(error: BaseException | None) -> bool:
    """Whether an error says that the model has no capacity. Clients name the status differently."""
    if not isinstance(error, Exception):
        return False
    statuses = (getattr(error, name, None) for name in ("status", "status_code"))
    return 429 in statuses or bool(getattr(error, "is_exhausted", False))
