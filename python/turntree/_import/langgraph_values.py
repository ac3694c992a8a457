"""Values that LangGraph has serialized, read as data: no class of another package is imported, nothing is executed.

LangGraph stores objects as MessagePack extensions, which contain the module, the name and the arguments of a class; see
``langgraph.checkpoint.serde.jsonplus``.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

_CLASSES = frozenset({0, 1, 2, 3, 4, 5})
_DELTA_SNAPSHOT = 7
_MAX_DEPTH = 32
# Classes whose argument says it all: a list or a text.
_PLAIN = frozenset(
    {
        ("builtins", "set"),
        ("builtins", "frozenset"),
        ("collections", "deque"),
        ("datetime", "datetime"),
        ("decimal", "Decimal"),
        ("uuid", "UUID"),
    }
)


@dataclass(frozen=True, eq=False, slots=True)
class StoredObject:
    """An object of a class that is not loaded.

    Attributes:
        module: The module of the class.
        name: The name of the class.
        value: The members, or the arguments.
    """

    module: str
    name: str
    value: Any


class _UnreadableError(ValueError):
    """The reason why a value cannot be read."""


class ValueReader:
    """Reads the values of one database.

    Raises:
        ImportError: msgpack is not installed.
    """

    def __init__(self) -> None:
        self._unpack = _msgpack_unpack()
        self._depth = 0
        self._objects: dict[bytes, Any] = {}

    def forget(self) -> None:
        """Forget the objects that were read. Equal objects are the same object until then."""
        self._objects.clear()

    def read(self, kind: object, data: object) -> Any:
        """Return a value.

        Args:
            kind: The content of the column `type`.
            data: The content of the column with the value.

        Raises:
            ValueError: The data is damaged, encrypted, or pickled.
        """
        if kind == "null":
            return None
        if isinstance(data, str):
            data = data.encode()
        if not isinstance(data, bytes):
            message = f"expected a blob, found {type(data).__name__}"
            raise ValueError(message)
        if kind in ("bytes", "bytearray"):
            return data
        if kind == "json":
            return json.loads(data, object_hook=self._object_of_json)
        if kind == "msgpack":
            return self._unpacked(data)
        if kind == "pickle":
            message = "the value is pickled, and unpickling may execute code; save it without pickle_fallback"
            raise ValueError(message)
        message = f"the value has the type {str(kind)[:60]!r}; only msgpack and json can be read, not encrypted values"
        raise ValueError(message)

    def _unpacked(self, data: bytes) -> Any:
        self._depth += 1
        try:
            if self._depth > _MAX_DEPTH:
                message = f"objects are nested in more than {_MAX_DEPTH} levels"
                raise _UnreadableError(message)
            return self._unpack(data, ext_hook=self._extension, strict_map_key=False)
        except _UnreadableError:
            raise
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            message = f"the MessagePack data are damaged: {error or type(error).__name__}"
            raise ValueError(message) from error
        finally:
            self._depth -= 1

    def _extension(self, code: int, data: bytes) -> Any:
        known = self._objects.get(data)
        if known is not None:
            return known
        value: Any = StoredObject("", f"extension {code}", None)
        if code == _DELTA_SNAPSHOT:
            return self._unpacked(data)
        if code in _CLASSES:
            parts = self._unpacked(data)
            if not isinstance(parts, list) or len(cast("list[Any]", parts)) < 3:
                message = "an object of the MessagePack data has no module, name and arguments"
                raise _UnreadableError(message)
            module, name, arguments = cast("list[Any]", parts)[:3]
            if (module, name) in _PLAIN:
                return arguments
            value = StoredObject(str(module), str(name), arguments)
        self._objects[data] = value
        return value

    def _object_of_json(self, value: dict[str, Any]) -> Any:
        """Return what LangChain has serialized with ``"lc"`` as an object."""
        path = value.get("id")
        if "lc" not in value or value.get("type") != "constructor" or not isinstance(path, list) or not path:
            return value
        *modules, name = map(str, cast("list[Any]", path))
        key = json.dumps(value, sort_keys=True).encode()
        return self._objects.setdefault(key, StoredObject(".".join(modules), name, value.get("kwargs")))


def _msgpack_unpack() -> Callable[..., Any]:
    try:
        msgpack = importlib.import_module("msgpack")
    except ImportError:
        message = "LangGraph checkpoints need msgpack; install it with: pip install 'turntree[import]'"
        raise ImportError(message) from None
    return cast("Callable[..., Any]", msgpack.unpackb)
