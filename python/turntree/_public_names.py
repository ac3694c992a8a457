"""Public names: their `__module__`, the list that `dir` shows, and the names in their annotations."""

from __future__ import annotations

import re
import sys
from types import GenericAlias, ModuleType
from typing import Any

from turntree._constructors import explain_missing_arguments

# Names in annotations that a module imports for type checkers only: an import would be a circle.
_LATE_NAMES = {
    "turntree._agent_hooks": {"ToolUseStrategy": "turntree.upp._tool_use"},
    "turntree._agent_stream": {"Session": "turntree._session"},
    "turntree._session": {"PersistenceAdapter": "turntree.store"},
    "turntree._session_store": {"PersistenceAdapter": "turntree.store"},
    "turntree._store_maintenance": {
        "ImportFormat": "turntree._import.report",
        "ImportReport": "turntree._import.report",
        "Store": "turntree.store",
    },
    "turntree._strategies": {"Agent": "turntree._agent", "LLM": "turntree.upp._llm"},
    "turntree.exceptions": {"Session": "turntree._session"},
    "turntree.upp._llm": {"Batch": "turntree.upp._batch"},
    "turntree.upp.files": {"LLM": "turntree.upp._llm"},
}


def set_public_module(module: str, namespace: dict[str, Any]) -> None:
    """Complete a public module: `__module__` of the names in ``__all__``, and a `dir` that shows public names only.

    A name that a private module defines gets the public module, for reprs, tracebacks and pickles.
    """
    for name in namespace["__all__"]:
        if "._" in getattr(namespace[name], "__module__", ""):
            _add_names_of_annotations(namespace[name], namespace)
            namespace[name].__module__ = module

    def shown() -> list[str]:
        modules = (name for name, value in namespace.items() if isinstance(value, ModuleType) and name[0] != "_")
        own = (name for name in modules if f"{module}.{name}" in sys.modules)
        return sorted({*namespace["__all__"], *own, *(name for name in namespace if name.startswith("__"))})

    namespace["__dir__"] = shown
    explain_missing_arguments(module, namespace)


def _add_names_of_annotations(value: Any, namespace: dict[str, Any]) -> None:
    """Add the names in annotations of a class to its public module, where `typing.get_type_hints` looks for them."""
    if not isinstance(value, type):
        return
    private = vars(sys.modules[value.__module__])
    for annotation in vars(value).get("__annotations__", {}).values():
        # A NamedTuple has objects of `typing.ForwardRef`.
        text = getattr(annotation, "__forward_arg__", annotation)
        for name in re.findall(r"[A-Za-z_]\w*", text if isinstance(text, str) else ""):
            if name in private:
                namespace.setdefault(name, private[name])


def add_late_names() -> None:
    """Add the names that annotations use to modules that cannot import them, for `typing.get_type_hints`."""
    for module, names in _LATE_NAMES.items():
        for name, source in names.items():
            setattr(sys.modules[module], name, getattr(sys.modules[source], name))


def make_generic(*classes: Any) -> None:
    """Let native classes be subscripted in annotations, as their stubs can."""

    def class_getitem(cls: type[Any], item: Any, /) -> Any:
        """Return an annotation with the types of the events and the result, for type checkers."""
        return GenericAlias(cls, item)

    for native in classes:
        native.__class_getitem__ = classmethod(class_getitem)
