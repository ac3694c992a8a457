"""Tables of turns, of the usage of model calls, and of tool executions, for data frames. Requires pyarrow.

``pip install turntree[arrow]``. The tables have the Arrow C data interface: polars, pandas, DuckDB and others read them
without a copy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from turntree import _core
from turntree._arrow import pyarrow
from turntree._public_names import set_public_module as _set_public_module

__all__ = ["table"]

_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def table(
    turns: _core.Turn[Any] | Iterable[_core.Turn[Any]], of: Literal["turns", "usage", "executions"] = "turns"
) -> Any:
    """Return a table of turns: ``polars.from_arrow(table(turns))``, ``table(turns).to_pandas()``.

    Args:
        turns: A turn, or several ones.
        of: The rows. "turns": one for each turn, with its text, counts, tokens, cost and times. "usage": one for each
            model call. "executions": one for each tool execution; arguments and results are JSON. The column ``turn``
            of the last two is the position of the turn.

    Returns:
        A ``pyarrow.Table``. Its columns and types do not depend on the data.

    Raises:
        TypeError: Something is not a turn.
        ValueError: `of` is unknown.
        ImportError: pyarrow is not installed.
    """
    listed: list[Any] = [turns] if isinstance(turns, _core.Turn) else list(turns)
    for index, turn in enumerate(listed):
        if not isinstance(turn, _core.Turn):
            message = f"turns[{index}] must be a Turn, not {type(turn).__name__}"
            raise TypeError(message)
    pa = pyarrow()
    time = pa.timestamp("us", "UTC")
    tokens = [(name, pa.int64()) for name in _TOKENS]
    if of == "turns":
        rows = [_turn(turn) for turn in listed]
        fields = [("text", pa.string()), ("model_calls", pa.int64())]
        fields += [("tool_calls", pa.int64()), *tokens, ("total_tokens", pa.int64()), ("cost", pa.float64())]
        fields += [("began", time), ("seconds", pa.float64())]
    elif of == "usage":
        rows = [row for index, turn in enumerate(listed) for row in _usage(index, turn)]
        fields = [("turn", pa.int64()), ("call", pa.int64()), *tokens, ("cost", pa.float64())]
    elif of == "executions":
        rows = [_execution(index, each) for index, turn in enumerate(listed) for each in turn.tool_executions]
        fields = [("turn", pa.int64()), ("tool_call_id", pa.string()), ("tool_name", pa.string())]
        fields += [("arguments", pa.string()), ("result", pa.string()), ("is_error", pa.bool_())]
        fields += [("approved", pa.bool_()), ("milliseconds", pa.float64())]
    else:
        message = f'of must be "turns", "usage" or "executions", not {of!r}'
        raise ValueError(message)
    columns: Sequence[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(fields)
    arrays = [pa.array(column, kind) for column, (_, kind) in zip(columns, fields, strict=True)]
    return pa.table(arrays, schema=pa.schema(fields))


def _turn(turn: _core.Turn[Any]) -> tuple[Any, ...]:
    usage, messages = turn.usage, turn.messages
    began = messages[0].timestamp if messages else None
    seconds = None if began is None else max(0.0, (messages[-1].timestamp - began).total_seconds())
    counts = (turn.text, turn.cycles, len(turn.tool_executions))
    return (*counts, *(getattr(usage, name) for name in _TOKENS), usage.total_tokens, usage.cost, began, seconds)


def _usage(index: int, turn: _core.Turn[Any]) -> Iterable[tuple[Any, ...]]:
    for number, call in enumerate(turn.usage.cycles or [], 1):
        yield (index, number, *(getattr(call, name) for name in _TOKENS), call.cost)


def _execution(index: int, execution: _core.ToolExecution) -> tuple[Any, ...]:
    given = json.dumps(execution.arguments, ensure_ascii=False, default=repr)
    result = json.dumps(execution.result, ensure_ascii=False, default=repr)
    at = (index, execution.tool_call_id, execution.tool_name, given, result)
    return (*at, execution.is_error, execution.approved, float(execution.duration))


_set_public_module(__name__, globals())
