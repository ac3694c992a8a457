"""turntree: conversations between people, agents and tools as trees of turns."""

from turntree._core import __version__
from turntree.exceptions import (
    ConflictError,
    CorruptDataError,
    SerializationError,
    SessionError,
    StoreError,
    TurntreeError,
    ValidationError,
)

__all__ = [
    "ConflictError",
    "CorruptDataError",
    "SerializationError",
    "SessionError",
    "StoreError",
    "TurntreeError",
    "ValidationError",
    "__version__",
]
