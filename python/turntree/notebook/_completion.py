"""What Tab and Shift-Tab show in notebooks where IPython and jedi do not find it by themselves.

jedi does not know what properties of native classes return, nor names that modules import late; without jedi, IPython
reads no properties. Both read the signatures of functions, in which ``**options`` has no names.
"""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from turntree import _ask, _core
from turntree._agent import Agent
from turntree._reprs import class_of
from turntree._run_options import OPTION_NAMES, RunOptions
from turntree._session import Session
from turntree.notebook._live import live

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# A name with attributes and numbers of items, a dot, and the beginning of an attribute.
_CHAIN = re.compile(r"(?<![\w.)\]\"'])([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*|\[-?\d+\])+)\.(\w*)$")
_STEP = re.compile(r"\.(\w+)|\[(-?\d+)\]")
_IMPORT = re.compile(r"^\s*from\s+(turntree(?:\.[a-z_]+)*)\s+import\s+(?:[\w\s]+,\s*)*(\w*)$")
# Classes whose properties do nothing but return a value.
_READABLE: tuple[Any, ...] = (_core.Data, Session, Agent)

_WITH_RUN_OPTIONS: tuple[Callable[..., Any], ...] = (
    *(Agent.run, Agent.run_sync, Agent.stream, Agent.stream_sync, Agent.map),
    *(Session.run, Session.run_sync, Session.stream, Session.stream_sync),
    *(Session.resume, Session.resume_sync, Session.resume_stream, Session.resume_stream_sync),
    *(_ask.ask, _ask.query, live),
)


def register(shell: Any) -> None:
    """Add the names of options to the signatures of functions, and a source of completions to IPython."""
    for function in _WITH_RUN_OPTIONS:
        name_options(function)
    try:
        completer: Any = import_module("IPython.core.completer")
        policies: Any = import_module("IPython.core.guarded_eval").EVALUATION_POLICIES
    except ImportError:  # IPython 8.5 and before
        return
    # Otherwise, IPython does not look up `run` in `agent.run(`, because the class has a `__getattr__`, for errors.
    policies["limited"].allowed_getattr.update({Agent, Session})
    matchers = shell.Completer.custom_matchers
    if any(getattr(each, "is_turntree", False) for each in matchers):
        return

    def complete(context: Any) -> Any:
        fragment, names = names_for(context.line_with_cursor[: context.cursor_position], shell.user_ns)
        return {"completions": [completer.SimpleCompletion(text=name) for name in names], "matched_fragment": fragment}

    matcher = completer.context_matcher(identifier="turntree")(complete)
    matcher.is_turntree = True
    matchers.append(matcher)


def name_options(function: Callable[..., Any]) -> None:
    """Let the signature of a function have the names of its options instead of ``**options``."""
    signature = inspect.signature(function)
    named = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    known = {each.name for each in named}
    types: dict[str, Any] = getattr(RunOptions, "__annotations__", {})
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=getattr(types.get(name), "__forward_arg__", inspect.Parameter.empty),
        )
        for name in OPTION_NAMES
        if name not in known
    ]
    cast("Any", function).__signature__ = signature.replace(parameters=[*named, *options])


def names_for(line: str, variables: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the beginning of the name at the end of a line, and the names that complete it."""
    imported = _IMPORT.search(line)
    if imported is not None:
        module = sys.modules.get(imported[1])
        return imported[2], _public(dir(module) if module is not None else (), imported[2])
    chain = _CHAIN.search(line)
    if chain is None:
        return "", []
    value = variables.get(chain[1])
    for step in _STEP.finditer(chain[2]):
        value = _attribute(value, step[1]) if step[1] else _item(value, int(step[2]))
    return chain[3], _public(dir(value) if isinstance(value, _READABLE) else (), chain[3])


def _public(names: Iterable[str], beginning: str) -> list[str]:
    return [name for name in names if name.startswith(beginning) and not name.startswith("_")]


def _attribute(value: Any, name: str) -> Any:
    """Return a public attribute of an object of turntree that is not a method; None for others."""
    if not isinstance(value, _READABLE) or name.startswith("_"):
        return None
    kind: Any = class_of(value)
    if not inspect.isdatadescriptor(inspect.getattr_static(kind, name, None)):
        return None
    try:
        return getattr(value, name)
    except Exception:
        return None


def _item(value: Any, index: int) -> Any:
    if class_of(value) not in (list, tuple):
        return None
    return value[index] if -len(value) <= index < len(value) else None
