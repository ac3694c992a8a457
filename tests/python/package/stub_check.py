"""Compares a stub with the module it describes: names, bases, kinds of members, parameters, defaults, docstrings.

`mypy.stubtest` does part of this. For native classes, this module also compares the text signatures of constructors
and methods, compares docstrings, and supports classes that no module exports.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal

Kind = Literal["method", "classmethod", "staticmethod", "property", "attribute"]

EMPTY = inspect.Parameter.empty
# The value of `inspect` for a default without a literal, `...` in a text signature.
SOME_DEFAULT = Ellipsis

# Every object has these members; a stub repeats them only if a type checker needs them.
OPTIONAL = frozenset(
    {"__doc__", "__module__", "__repr__", "__str__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__dict__"}
    | {"__weakref__", "__firstlineno__", "__static_attributes__", "__qualname__", "__name__", "__annotations__"}
    # From Python 3.14 on.
    | {"__annotate_func__", "__annotations_cache__"}
)
# turntree creates these at import, for FastAPI and for errors; they are not part of the typed interface.
HIDDEN = frozenset({"__dataclass_fields__", "__dataclass_params__", "__getattr__"})
DISPLAYS = frozenset({"_repr_html_", "__rich_repr__"})
MODULE_NAMES = frozenset(
    {"__all__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__spec__", "_bridge_selftest"}
    | {"__builtins__", "__cached__"}
)


@dataclass(frozen=True)
class Parameter:
    """One parameter, with the facts that both stub and module provide."""

    name: str
    kind: str
    default: Any = EMPTY

    def fits(self, other: Parameter) -> bool:
        """Whether both are equal; a default without a literal equals any other."""
        if (self.name, self.kind) != (other.name, other.kind):
            return False
        if SOME_DEFAULT in (self.default, other.default):
            return EMPTY not in (self.default, other.default)
        return type(self.default) is type(other.default) and self.default == other.default

    def __str__(self) -> str:
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(self.kind, "")
        note = {"POSITIONAL_ONLY": " (positional only)", "KEYWORD_ONLY": " (keyword only)"}.get(self.kind, "")
        default = "" if self.default is EMPTY else f"={self.default!r}"
        return f"{stars}{self.name}{default}{note}"


@dataclass
class Member:
    """One member of a class, or one function of a module."""

    kind: Kind
    parameters: list[Parameter] | None = None  # None: unknown
    value: Any = EMPTY
    documentation: list[str] | None = None  # paragraphs; None: not compared


@dataclass
class Class:
    """A class."""

    bases: list[str]
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    constructor: list[Parameter] | None = None
    documentation: list[str] = field(default_factory=list[str])


# The stub


def read_stub(source: str) -> dict[str, Class | Member]:
    """Everything that a stub declares, by name; without aliases and type variables."""
    found: dict[str, Class | Member] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = _stub_class(node)
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = Member(
                "method", _stub_parameters(node), documentation=_paragraphs(ast.get_docstring(node))
            )
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) != "TypeAlias":
            found[ast.unparse(node.target)] = Member("attribute", documentation=None)
    return found


def _stub_class(node: ast.ClassDef) -> Class:
    bases = [ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases]
    result = Class(bases, documentation=_paragraphs(ast.get_docstring(node)))
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            result.members[item.target.id] = Member("attribute", value=_literal_of(item.annotation), documentation=None)
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            value = ast.literal_eval(item.value)
            result.members[item.targets[0].id] = Member("attribute", value=value, documentation=None)
        elif isinstance(item, ast.FunctionDef):
            parameters = _stub_parameters(item)
            if item.name == "__new__":
                result.constructor = parameters[1:]
                continue
            if any(ast.unparse(decorator) == f"{item.name}.setter" for decorator in item.decorator_list):
                continue  # its property was read already
            kind: Kind = "method"
            for decorator in item.decorator_list:
                name = ast.unparse(decorator)
                if name in {"property", "classmethod", "staticmethod"}:
                    kind = name  # pyright: ignore[reportAssignmentType]
            taken = parameters if kind == "staticmethod" else parameters[1:]
            paragraphs = _paragraphs(ast.get_docstring(item))
            result.members[item.name] = Member(kind, None if kind == "property" else taken, documentation=paragraphs)
    return result


def _stub_parameters(node: ast.FunctionDef) -> list[Parameter]:
    given = node.args
    positional = [(argument, "POSITIONAL_ONLY") for argument in given.posonlyargs]
    positional += [(argument, "POSITIONAL_OR_KEYWORD") for argument in given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    found = [Parameter(a.arg, kind, _value(d)) for (a, kind), d in zip(positional, defaults, strict=True)]
    if given.vararg is not None:
        found.append(Parameter(given.vararg.arg, "VAR_POSITIONAL"))
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        found.append(Parameter(argument.arg, "KEYWORD_ONLY", _value(default)))
    if given.kwarg is not None:
        found.append(Parameter(given.kwarg.arg, "VAR_KEYWORD"))
    return found


def _value(node: ast.expr | None) -> Any:
    return EMPTY if node is None else ast.literal_eval(node)


def _literal_of(annotation: ast.expr) -> Any:
    """The value in ``ClassVar[Literal[value]]`` or ``ClassVar[None]``."""
    text = ast.unparse(annotation)
    if text == "ClassVar[None]":
        return None
    if text.startswith("ClassVar[Literal[") and text.endswith("]]"):
        return ast.literal_eval(text.removeprefix("ClassVar[Literal[").removesuffix("]]"))
    return EMPTY


# The module


def read_module(module: ModuleType, unexported: Mapping[str, type[Any]]) -> dict[str, Class | Member]:
    """All members of a module by name, and the classes that it returns but does not export."""
    named = {name: value for name, value in vars(module).items() if name not in MODULE_NAMES}
    found: dict[str, Class | Member] = {}
    for name, value in {**named, **unexported}.items():
        if inspect.isclass(value):
            found[name] = _native_class(value)
        elif callable(value):
            found[name] = _native_function(name, value)
        else:
            found[name] = Member("attribute", documentation=None)
    return found


def _native_function(name: str, value: Any) -> Member:
    try:
        parameters = _native_parameters(value)
    except ValueError:
        # A parameter named as a keyword of Python; only our own code may be asked to cope with that.
        if is_public(name):
            raise
        parameters = None
    return Member("method", parameters, documentation=_paragraphs(value.__doc__))


def _native_class(owner: type[Any]) -> Class:
    bases = [base.__name__ for base in owner.__bases__ if base is not object]
    result = Class(bases, documentation=_paragraphs(owner.__doc__))
    namespace = vars(owner)
    # A constructor can only explain where objects of the class come from: one that Python adds, or a native one.
    is_refused = getattr(namespace.get("__new__"), "__module__", None) == "turntree._constructors" or (
        owner.__text_signature__ == "(*_arguments, **_keywords)"
    )
    if ("__new__" in namespace and not is_refused) or "__init__" in namespace:
        result.constructor = _native_parameters(owner)
    for name, value in namespace.items():
        # Python adds displays of the repr to classes without their own; notebooks and rich call them.
        is_display = getattr(value, "__module__", None) == "turntree._public_names" and name in DISPLAYS
        is_added = is_display or _is_for_peers(name, value)
        if not is_added and name not in {"__new__", "__init__"} | HIDDEN:
            # A native `__getattr__` is in the slot of both methods.
            result.members["__getattr__" if name == "__getattribute__" else name] = _native_member(value)
    return result


def _is_for_peers(name: str, value: Any) -> bool:
    """Whether Python adds the member to say what to write instead of a word of another library."""
    added = getattr(value, "__module__", None) == "turntree._public_names"
    return added and (name in {"__dir__", "__getitem__"} or type(value).__name__ == "_PeerWord")


def _native_member(value: Any) -> Member:
    # The __doc__ of a native static method is that of the class `staticmethod`.
    paragraphs = _paragraphs(getattr(value.__func__ if isinstance(value, staticmethod) else value, "__doc__", None))
    if inspect.isgetsetdescriptor(value) or inspect.ismemberdescriptor(value) or isinstance(value, property):
        return Member("property", documentation=paragraphs)
    if isinstance(value, classmethod) or type(value).__name__ == "classmethod_descriptor":
        return Member("classmethod", _native_parameters(value)[1:], documentation=paragraphs)
    if isinstance(value, staticmethod):
        return Member("staticmethod", _native_parameters(value), documentation=paragraphs)
    if type(value).__name__ == "wrapper_descriptor":
        # A slot such as __len__: the interpreter defines its parameters.
        return Member("method", None, documentation=None)
    if callable(value):
        return Member("method", _native_parameters(value)[1:], documentation=paragraphs)
    return Member("attribute", value=value, documentation=None)


def _native_parameters(value: Any) -> list[Parameter]:
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    parameters = inspect.signature(value).parameters.values()
    return [Parameter(given.name, given.kind.name, given.default) for given in parameters]


# The comparison


def differences(stub: str, module: ModuleType, unexported: Mapping[str, type[Any]] | None = None) -> list[str]:
    """The differences between a stub and its module, one sentence each.

    Args:
        stub: Text of the stub.
        module: The module.
        unexported: Classes that the functions of the module return, by their name in the stub.
    """
    declared, native = read_stub(stub), read_module(module, unexported or {})
    return [
        *(f"{name} is in the module and not in the stub" for name in sorted(native.keys() - declared.keys())),
        *(f"{name} is in the stub and not in the module" for name in sorted(declared.keys() - native.keys())),
        *(
            sentence
            for name in sorted(native.keys() & declared.keys())
            for sentence in _compared(name, declared[name], native[name])
        ),
    ]


def _compared(name: str, declared: Class | Member, native: Class | Member) -> Iterator[str]:
    yield from _compared_documentation(name, declared, native)
    if isinstance(declared, Member) and isinstance(native, Member):
        yield from _compared_members(name, declared, native)
    elif isinstance(declared, Class) and isinstance(native, Class):
        yield from _compared_classes(name, declared, native)
    else:
        yield f"{name} is a class on one side only"


def _compared_classes(name: str, declared: Class, native: Class) -> Iterator[str]:
    # A stub may add what checkers need to know (Iterator, Generic); the module's own bases are there too.
    if missing := [base for base in native.bases if base not in declared.bases]:
        yield f"{name} has no base {', '.join(missing)} in the stub"
    if (declared.constructor is None) != (native.constructor is None):
        side = "module" if declared.constructor is None else "stub"
        yield f"{name} can be made by hand in the {side} only"
    elif declared.constructor is not None and native.constructor is not None:
        yield from _compared_parameters(name, declared.constructor, native.constructor)
    ours, theirs = declared.members, native.members
    yield from (f"{name}.{member} is not in the stub" for member in theirs if member not in ours.keys() | OPTIONAL)
    yield from (f"{name}.{member} is not in the module" for member in ours if member not in theirs)
    for member in ours.keys() & theirs.keys():
        yield from _compared_members(f"{name}.{member}", ours[member], theirs[member])
        yield from _compared_documentation(f"{name}.{member}", ours[member], theirs[member])


def _compared_documentation(name: str, declared: Class | Member, native: Class | Member) -> Iterator[str]:
    ours, theirs = declared.documentation, native.documentation
    if ours is None or theirs is None:
        return
    if is_public(name.rpartition(".")[2]) or isinstance(native, Class):
        sides = (("stub", ours), ("module", theirs))
        yield from (f"{name} has no docstring in the {side}" for side, paragraphs in sides if not paragraphs)
    if ours and theirs and theirs not in (ours, _without_sections(ours)):
        yield f"{name} is documented as {ours!r} in the stub and as {theirs!r} in the module"


def _without_sections(paragraphs: list[str]) -> list[str]:
    """The description: a native docstring may omit tables and the sections of arguments, results and errors."""
    return [text for text in paragraphs if not text.startswith(("Args:", "Returns:", "Raises:", "==="))]


def _paragraphs(documentation: str | None) -> list[str]:
    """The paragraphs of a docstring, with one space between words."""
    paragraphs = re.split(r"\n\s*\n", (documentation or "").strip())
    return [" ".join(paragraph.split()) for paragraph in paragraphs if paragraph]


def _compared_members(name: str, declared: Member, native: Member) -> Iterator[str]:
    # A getter may be declared as an attribute where a base class in typeshed does.
    if declared.kind != native.kind and {declared.kind, native.kind} != {"attribute", "property"}:
        yield f"{name} is a {declared.kind} in the stub and a {native.kind} in the module"
    elif declared.parameters is not None and native.parameters is not None:
        yield from _compared_parameters(name, declared.parameters, native.parameters)
    elif declared.value is not EMPTY and declared.value != native.value:
        yield f"{name} is {declared.value!r} in the stub and {native.value!r} in the module"


def _compared_parameters(name: str, declared: list[Parameter], native: list[Parameter]) -> Iterator[str]:
    fits = len(declared) == len(native) and all(a.fits(b) for a, b in zip(declared, native, strict=True))
    if not fits:
        ours, theirs = (", ".join(map(str, side)) for side in (declared, native))
        yield f"{name} takes ({ours}) in the stub and ({theirs}) in the module"


def is_public(name: str) -> bool:
    """Whether users may rely on a name."""
    return not name.startswith("_")
