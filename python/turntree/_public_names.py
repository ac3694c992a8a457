"""Public names: when they are imported, their `__module__`, the list that `dir` shows, and errors for unknown names.

`import turntree` loads none of `typing`, `re` and `functools`: annotations of functions that others see name built-in
classes only, so that `typing.get_type_hints` can evaluate them.
"""

from __future__ import annotations

import sys

from turntree._constructors import explain_missing_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Values = dict[str, Any]

_GenericAlias: Any = type(list[int])
_MISSING = object()
# By private module: the public modules that import names of it late, and these names.
_PUBLIC: dict[str, list[tuple[str, Iterable[str]]]] = {}

# The public modules of the package. `turntree` imports them when they are asked for.
MODULES = (
    "arrow",
    "durable",
    "exceptions",
    "execution",
    "harness",
    "mcp",
    "middleware",
    "models",
    "notebook",
    "store",
    "testing",
    "thread_protocol",
    "tools",
    "tracing",
    "uaip",
    "uamp",
    "upp",
)


def set_public_module(module: str, namespace: Values) -> None:
    """Complete a public module: `__module__` of the names in ``__all__``, and a `dir` that shows public names only.

    A name that a private module defines gets the public module, for reprs, tracebacks and pickles. Missing names are
    answered with where they are.
    """
    values = [(name, namespace[name]) for name in namespace["__all__"]]
    _complete(module, namespace, values)
    namespace["__dir__"] = _dir_of(module, namespace)
    if "__getattr__" not in namespace:
        explain_names(module, namespace, "ELSEWHERE")


def import_late(module: str, namespace: Values, late: Mapping[str, Iterable[str]], table: str | None = None) -> None:
    """Complete a public module that imports names when they are asked for.

    Args:
        module: The public module.
        namespace: Its namespace.
        late: Names by the module that defines them: a private one that calls `publish`, or for public modules in this
            one the module itself.
        table: The table in `turntree._peer_names` that says what to write instead of names of other libraries.
    """
    sources = {name: source for source, names in late.items() for name in names}
    _complete(module, namespace, [(name, namespace[name]) for name in namespace["__all__"] if name not in sources])
    for source, names in late.items():
        _PUBLIC.setdefault(source, []).append((module, names))
        if source in sys.modules:
            _publish_in(module, vars(sys.modules[source]), names)

    def find(name: str) -> Any:
        source = sources.get(name)
        if source is None and module == "turntree" and name in MODULES:
            source = f"turntree.{name}"
        if source is None:
            return _MISSING
        __import__(source)
        is_module = source == f"{module}.{name}"
        return namespace.setdefault(name, sys.modules[source] if is_module else getattr(sys.modules[source], name))

    explain_names(module, namespace, table, find)
    namespace["__dir__"] = _dir_of(module, namespace)


def publish(private: str, namespace: Values) -> None:
    """Complete the public names of a private module, and add them to the public modules that import them late.

    The last statement of the private module, which may be loaded before its names are asked for.
    """
    for module, names in _PUBLIC.get(private, ()):
        _publish_in(module, namespace, names)


def _publish_in(module: str, private: Values, names: Iterable[str]) -> None:
    values = [(name, private[name]) for name in names if name in private]  # A public module publishes itself.
    public = vars(sys.modules[module])
    _complete(module, public, values)
    for name, value in values:
        public.setdefault(name, value)


def _complete(module: str, namespace: Values, values: Iterable[tuple[str, Any]]) -> None:
    for _, value in values:
        if "._" in getattr(value, "__module__", ""):
            _add_names_of_annotations(value, namespace)
            value.__module__ = module
        if _is_shown(value):
            _add_displays(value)
    explain_missing_arguments(module, values)


def _is_shown(value: Any) -> bool:
    """Return whether a public value is a class whose objects notebooks and rich show by these functions.

    Tracebacks show exceptions and the repr of a member of an enumeration is short. Protocols and types of dicts have no
    objects.
    """
    if not isinstance(value, type) or not value.__module__.startswith("turntree"):
        return False
    kind: type[object] = value
    has_other_displays = issubclass(kind, BaseException) or hasattr(kind, "__members__")
    has_objects = "__total__" not in vars(kind) and not vars(kind).get("_is_protocol", False)
    return has_objects and not has_other_displays


def _add_displays(kind: Any) -> None:
    """Add the methods that notebooks and rich call to a class without its own."""
    if not hasattr(kind, "_repr_html_"):
        kind._repr_html_ = _repr_html
    if not hasattr(kind, "__rich_repr__"):
        kind.__rich_repr__ = _rich_repr


def _repr_html(self: object) -> str:
    """Return a table of the attributes in the repr, for notebooks."""
    from turntree import _display

    return _display.parts_html(self)


def _rich_repr(self: object) -> list[object]:
    """Return the parts of the repr, for rich."""
    from turntree import _display

    return _display.parts(self)


def _dir_of(module: str, namespace: Values) -> Callable[[], list[str]]:
    def shown() -> list[str]:
        modules = (name for name, value in namespace.items() if isinstance(value, type(sys)) and name[0] != "_")
        own = [name for name in modules if f"{module}.{name}" in sys.modules]
        if module == "turntree":
            own += ["exceptions", "store", "upp"]
        return sorted({*namespace["__all__"], *own, *(name for name in namespace if name.startswith("__"))})

    return shown


def _add_names_of_annotations(value: Any, namespace: Values) -> None:
    """Add the names in annotations of a class to its public module, where `typing.get_type_hints` looks for them."""
    own: Values = dict(vars(value)) if isinstance(value, type) else {}
    # From Python 3.14 on, those of a NamedTuple are made when they are asked for.
    annotations: Values = value.__annotations__ if "__annotate_func__" in own else own.get("__annotations__", {})
    if not annotations:
        return
    import re

    private = vars(sys.modules[value.__module__])
    for annotation in annotations.values():
        # A NamedTuple has objects of `typing.ForwardRef`.
        text = getattr(annotation, "__forward_arg__", annotation)
        for name in re.findall(r"[A-Za-z_]\w*", text if isinstance(text, str) else ""):
            if name in private:
                namespace.setdefault(name, private[name])


class LateClass:
    """A generic class that a module cannot import and its annotations subscript. Their evaluation imports it."""

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def __getitem__(self, item: object) -> Any:
        __import__(self._module)
        return getattr(sys.modules[self._module], self._name)[item]


def make_generic(*classes: Any) -> None:
    """Let native classes be subscripted in annotations, as their stubs can."""

    def class_getitem(cls: type, item: object, /) -> object:
        """Return an annotation with the types of the events and the result, for type checkers."""
        return _GenericAlias(cls, item)

    for native in classes:
        native.__class_getitem__ = classmethod(class_getitem)


def explain_attributes(kind: Any, table: str) -> None:
    """Let a class answer with what to write instead of an attribute of another library.

    Python calls ``__getattr__`` for missing attributes only, but each access takes some nanoseconds more. Events of
    streams have `explain_words` instead.

    Args:
        kind: The class. It has no ``__getattr__``.
        table: The table of remedies in `turntree._peer_attributes`.
    """
    name: str = kind.__name__

    def __getattr__(self: object, attribute: str, /) -> object:
        raise _no_attribute(name, table, attribute, self)

    kind.__getattr__ = __getattr__


class _PeerWord:
    """A descriptor: objects of the class have no such attribute, and the error says what to write."""

    def __init__(self, name: str, table: str, attribute: str) -> None:
        self._of = name, table, attribute

    def __get__(self, instance: object, owner: object = None) -> object:
        if instance is None:
            return self  # The class has it, as it has properties.
        raise _no_attribute(*self._of, instance)

    def __repr__(self) -> str:
        return "<no attribute, but a word of other libraries>"


def explain_words(kind: Any, table: str, words: str) -> None:
    """As `explain_attributes`, for a class whose attributes are read often: access of others costs nothing more.

    Args:
        kind: The class.
        table: The table of remedies in `turntree._peer_attributes`.
        words: The attributes in the table. `dir` of an object does not show them.
    """
    names = words.split()
    for name in names:
        setattr(kind, name, _PeerWord(kind.__name__, table, name))

    def __dir__(self: object, /) -> list[str]:
        return [name for name in object.__dir__(self) if not isinstance(_found(type(self), name), _PeerWord)]

    kind.__dir__ = __dir__


def _found(kind: type[Any], name: str) -> object:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _no_attribute(name: str, table: str, attribute: str, owner: object) -> AttributeError:
    hint = _hint("turntree._peer_attributes", table, attribute)
    message = f"{name!r} object has no attribute {attribute!r}" + (f": {hint}" if hint else "")
    return AttributeError(message, name=attribute, obj=owner)


def refuse_items(kind: Any, message: str) -> None:
    """Let objects of a class answer ``value[key]`` with what to write, where other libraries have a dict."""

    def __getitem__(self: object, key: object, /) -> object:
        raise TypeError(message)

    kind.__getitem__ = __getitem__


def explain_names(module: str, namespace: Values, table: str | None, find: Callable[[str], Any] | None = None) -> None:
    """Let a module answer with what to write instead of a name of another library, also in ``from … import``.

    Args:
        module: The public module.
        namespace: Its namespace.
        table: The table of remedies in `turntree._peer_names`.
        find: Returns the value of a name that the module has and its namespace does not; `_MISSING` if it has none.
    """

    def __getattr__(name: str) -> object:
        value = _MISSING if find is None else find(name)
        if value is not _MISSING:
            return value
        hint = _hint("turntree._peer_names", table, name)
        if hint and "__path__" in namespace and _is_module(f"{module}.{name}"):
            hint = f"write `import {module}.{name}`"
        elif hint and hint.startswith(f"write `from {module} import ") and "`, and " in hint:
            hint = f"write {hint.partition('`, and ')[2]}"
        message = f"module {module!r} has no attribute {name!r}" + (f": {hint}" if hint else "")
        # The error that Python makes of an AttributeError for `from … import` has not the remedy.
        if hint and f"{module}.{name}" not in sys.modules and _is_import():
            message = f"cannot import name {name!r} from {module!r}: {hint}"
            raise ImportError(message, name=module)
        raise AttributeError(message, name=name, obj=sys.modules[module])

    namespace["__getattr__"] = __getattr__


def _hint(module: str, table: str | None, name: str) -> str | None:
    if table is None or name.startswith("_"):
        return None  # Python itself asks for them.
    __import__(module)
    hints: dict[str, str] = getattr(sys.modules[module], table)
    return hints.get(name)


def _is_module(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None


def _is_import() -> bool:
    """Whether ``from … import`` asks for the name."""
    from opcode import opmap

    frame = sys._getframe(2)
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]
