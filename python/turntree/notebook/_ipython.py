"""What IPython is told: the magics `%chat` and `%%chat`, how values without a form of their own are shown.

`hints` is called when turntree is imported in a notebook, and by `load`; that is called by ``%load_ext turntree``.
"""

from __future__ import annotations

import inspect
import re
from types import CoroutineType
from typing import Any

from turntree import _core
from turntree._concurrency import _Results
from turntree._reprs import class_of
from turntree._streams import BaseStream, RepeatableAwaitable
from turntree.notebook import _conversation
from turntree.notebook._page import Page

# How many values of a list are looked at to decide whether it is a list of messages.
_LOOKED_AT = 1_000


def hints(shell: Any) -> None:
    """Let a value that was not awaited say what to write, as the last line of a cell."""
    kinds: tuple[Any, ...] = (CoroutineType, BaseStream, RepeatableAwaitable, _Results)
    formatters = shell.display_formatter.formatters
    for kind in kinds:
        previous = formatters["text/plain"].for_type(kind)
        if getattr(previous, "is_turntree", False):
            continue
        formatters["text/plain"].for_type(kind, _Plain(previous))
        formatters["text/html"].for_type(kind, _hint_html)


class _Plain:
    """Prints the hint of a value, or the value as the previous printer does."""

    is_turntree = True

    def __init__(self, previous: Any) -> None:
        self._previous = previous

    def __call__(self, value: Any, printer: Any, cycle: bool) -> None:  # noqa: FBT001
        text = hint_of(value)
        if text is not None:
            printer.text(text)
        elif self._previous is not None:
            self._previous(value, printer, cycle)
        else:
            printer.text(repr(value))


def _hint_html(value: Any) -> str | None:
    text = hint_of(value)
    if text is None:
        return None
    page = Page()
    page.add(page.pre(text))
    return page.html()


def hint_of(value: Any) -> str | None:
    """Return what to write instead of a value that is not awaited. None for those of other packages."""
    if isinstance(value, BaseStream):
        return "This stream has not been read. Write: async for event in stream: …, or: turn = await stream"
    if isinstance(value, RepeatableAwaitable):
        return "This is not the turn yet. Write: turn = await stream.turn"
    if isinstance(value, _Results):
        return "The runs have not begun. Write: async for turn in agent.map(…): …"
    if not inspect.iscoroutine(value) or inspect.getcoroutinestate(value) != inspect.CORO_CREATED:
        return None
    frame = value.cr_frame
    if frame is None or not str(frame.f_globals.get("__name__", "")).startswith("turntree."):
        return None
    owner: Any = frame.f_locals.get("self")
    name = value.__name__
    if owner is None:
        owner = frame.f_locals.get("cls")
        call = f"{owner.__name__}.{name}" if isinstance(owner, type) else name
        return f"{call}(…) has not begun. Write: result = await {call}(…)"
    kind: Any = class_of(owner)
    variable = kind.__name__.lower()
    text = f"{kind.__name__}.{name}(…) has not begun. Write: result = await {variable}.{name}(…)"
    twin = f"{name}_sync"
    return f"{text}\nWithout await: result = {variable}.{twin}(…)" if hasattr(kind, twin) else text


def load(shell: Any) -> None:
    """Register the magics, the form of lists of messages, and what to write where ``await`` is missing."""
    from turntree.notebook import _completion
    from turntree.notebook._magics import ChatMagics

    hints(shell)
    _completion.register(shell)
    shell.register_magics(ChatMagics)
    if not any(getattr(each, "is_turntree", False) for each in shell.input_transformers_post):
        shell.input_transformers_post.append(_Awaiting())
        shell.input_transformers_cleanup.append(_Questions())
    formatter = shell.display_formatter.formatters["text/html"]
    formatter.for_type(list, _list_html)


def unload(shell: Any) -> None:
    """Undo `load`."""
    for transformers in (shell.input_transformers_post, shell.input_transformers_cleanup):
        transformers[:] = [each for each in transformers if not getattr(each, "is_turntree", False)]
    formatter = shell.display_formatter.formatters["text/html"]
    if list in formatter.type_printers:
        formatter.pop(list)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("chat", None)


def _list_html(values: list[Any]) -> str | None:
    looked_at = values[:_LOOKED_AT]
    if not looked_at or not all(isinstance(value, _core.Message) for value in looked_at):
        return None
    return _conversation.messages_html([value for value in values if isinstance(value, _core.Message)])


_RUN = "await get_ipython().magics_manager.registry['ChatMagics'].run("


class _Awaiting:
    """Writes ``await`` before the calls that IPython makes of `%chat` and `%%chat`: a magic itself cannot await."""

    is_turntree = True
    _call = re.compile(r"^(\s*(?:[A-Za-z_][\w.]*\s*=\s*)?)get_ipython\(\)\.run_(?:line|cell)_magic\('chat', ")

    def __call__(self, lines: list[str]) -> list[str]:
        return [self._call.sub(rf"\1{_RUN}", line) for line in lines]


class _Questions:
    """Converts lines with `%chat` that end with a question mark, which IPython takes for a request for help."""

    is_turntree = True
    _line = re.compile(r"^((?:[A-Za-z_][\w.]*\s*=\s*)?)%chat\s+(\w+\s.*\?)\s*$")

    def __call__(self, lines: list[str]) -> list[str]:
        return [self._line.sub(lambda found: f"{found[1]}{_RUN}{found[2]!r})\n", line) for line in lines]
