"""What a session writes: its JSON, and its state in the store."""

from __future__ import annotations

from typing import Any

from turntree._session_state import SessionState


class SavedSession(SessionState):
    """The part of a session that is written, and read from the store again."""

    __slots__ = ()

    async def save(self) -> None:
        """Save the session under the key ``session:<id>``. Concurrent saves execute one at a time.

        Raises:
            ConflictError: Another writer has changed the stored session, or the store has raised this class; the
                ``__cause__`` is the store's exception.
            CorruptDataError: The store has raised this class; likewise.
            Exception: Another exception of the store, unchanged.
            TypeError: A value in `metadata` is not JSON; the message names its path.
        """
        await self._native.save()

    async def reload(self) -> None:
        """Replace the state of the session by that of the store, after earlier runs have ended.

        Changes that were not saved are lost. `tree` and `metadata` remain the same objects.

        Raises:
            ConflictError: The session was deleted from the store.
            StoreError: The store cannot be read.
        """
        await self._native.reload(rebase=False)

    async def rebase(self) -> None:
        """Take the state of the store, and add the changes of this session that it does not have.

        Call it after a `ConflictError`. Turns of this session that follow messages which another writer has continued
        too are on a branch with the name "rebased", which becomes the current node; so are all turns if two writers
        have created the session. Of `metadata`, the keys that were changed here are taken over. A run that was ended
        here is not unfinished any more. A run that the conflict has interrupted is: call `resume` if `is_unfinished`.
        The session is not saved; call `save`.

        Raises:
            ConflictError: The session was deleted from the store.
            StoreError: The store cannot be read.
        """
        await self._native.reload(rebase=True)

    def to_json(self) -> str:
        """Serialize the session to JSON. `from_json` continues it, also in another process.

        Raises:
            TypeError: A value in `metadata` is not JSON; the message names its path.

        Spec: UAP-1.0 §13.1.
        """
        return self._native.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Convert the session to plain data with the structure of its JSON."""
        import json

        plain: dict[str, Any] = json.loads(self.to_json())
        return plain
