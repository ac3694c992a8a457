"""The rule for ids of sessions."""

from __future__ import annotations

from turntree._texts import encoded
from turntree.exceptions import ValidationError

# As in the native core.
_MAX_ID_LENGTH = 200


def check_id(id: object) -> None:
    """Raise an error for an id that a session cannot have."""
    if not isinstance(id, str):
        message = f"id must be a str, not {type(id).__name__}"
        raise TypeError(message)
    encoded(id, "id")
    if not 1 <= len(id) <= _MAX_ID_LENGTH or not id.isprintable():
        shown = f"{id[:40]!r}…" if len(id) > _MAX_ID_LENGTH else repr(id)
        message = f"invalid session id {shown}: expected 1 to {_MAX_ID_LENGTH} printable characters"
        raise ValidationError(message)
