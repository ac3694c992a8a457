"""`expect`: assertions about a turn whose messages tell what the run did."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from turntree._typing import Self
from turntree.upp import Tool, ToolExecution, Turn

__all__ = ["Expectation", "expect"]

_SHOWN = 500


def expect(turn: Turn) -> Expectation:
    """Start assertions about a turn: ``expect(turn).text_contains("sunny").called("weather", city="Tokyo")``.

    Each method returns the same object, and raises `AssertionError` with a summary of the run.

    Raises:
        TypeError: `turn` is not a turn, for example because a run was not awaited.
    """
    from turntree.upp import Turn

    if not isinstance(turn, Turn):
        hint = "; await the run first" if hasattr(turn, "__await__") else ""
        message = f"expect takes a Turn, not {type(turn).__name__}{hint}"
        raise TypeError(message)
    return Expectation(turn)


class Expectation:
    """Assertions about one turn."""

    __slots__ = ("_turn",)

    def __init__(self, turn: Turn) -> None:
        """Take the turn."""
        self._turn = turn

    @property
    def turn(self) -> Turn:
        """The turn."""
        return self._turn

    def text_equals(self, text: str) -> Self:
        """The answer is this text."""
        return self._check(self._turn.text == text, f"the answer is not {_short(text)}")

    def text_contains(self, *texts: str) -> Self:
        """The answer contains each of these texts."""
        _check_texts("text_contains", texts)
        missing = [text for text in texts if text not in self._turn.text]
        return self._check(not missing, f"the answer does not contain {', '.join(map(_short, missing))}")

    def text_excludes(self, *texts: str) -> Self:
        """The answer contains none of these texts."""
        _check_texts("text_excludes", texts)
        found = [text for text in texts if text in self._turn.text]
        return self._check(not found, f"the answer contains {', '.join(map(_short, found))}")

    def text_matches(self, pattern: str | re.Pattern[str]) -> Self:
        """A part of the answer matches this regular expression."""
        found = re.search(pattern, self._turn.text)
        return self._check(found is not None, f"no part of the answer matches {pattern!r}")

    def data_equals(self, data: Any) -> Self:
        """The structured answer equals this value, or its JSON does."""
        return self._check(has_data(self._turn, data), f"the data are {_short(self._turn.data)}, not {_short(data)}")

    def called(self, tool: str | Tool[..., Any], /, *, times: int | None = None, **arguments: Any) -> Self:
        """A tool was called, with at least these arguments; exactly `times` times if given."""
        tool = _name_of("called", tool)
        if times is not None and times < 0:
            message = f"times must not be negative, but is {times}"
            raise ValueError(message)
        calls = [call for call in self._turn.tool_executions if call.tool_name == tool]
        matching = [call for call in calls if _has(call.arguments, arguments)]
        of = f" with {_short(arguments)}" if arguments else ""
        if times is None:
            return self._check(bool(matching), f'the tool "{tool}" was not called{of}')
        return self._check(
            len(matching) == times, f'the tool "{tool}" was called{of} {len(matching)} times, not {times} times'
        )

    def not_called(self, *tools: str | Tool[..., Any]) -> Self:
        """None of these tools was called; without names, no tool at all."""
        names = [call.tool_name for call in self._turn.tool_executions]
        unwanted = [_name_of("not_called", tool) for tool in tools]
        found = [name for name in names if not unwanted or name in unwanted]
        return self._check(not found, f"these tools were called: {', '.join(found)}")

    def called_in_order(self, *tools: str | Tool[..., Any]) -> Self:
        """These tools were called in this order; others may have been called between them."""
        names = [_name_of("called_in_order", tool) for tool in tools]
        return self._check(
            is_subsequence(names, called_tools(self._turn)),
            f"the tools were not called in the order {', '.join(names)}",
        )

    def succeeded(self) -> Self:
        """No call of a tool failed."""
        failed = [call.tool_name for call in self._turn.tool_executions if call.is_error]
        return self._check(not failed, f"these tools failed: {', '.join(failed)}")

    def cycles_at_most(self, count: int) -> Self:
        """The model was called at most this number of times."""
        return self._check(self._turn.cycles <= count, f"the model was called {self._turn.cycles} times")

    def tokens_at_most(self, count: int) -> Self:
        """All model calls together used at most this number of tokens."""
        used = self._turn.usage.total_tokens
        return self._check(used <= count, f"the run used {used} tokens")

    def cost_at_most(self, dollars: float) -> Self:
        """All model calls together cost at most this amount in US dollars. A cost that is not known fails."""
        cost = self._turn.usage.cost
        if cost is None:
            return self._fail("the cost of the run is not known")
        return self._check(cost <= dollars, f"the run cost {cost:.6f} US dollars")

    def __repr__(self) -> str:
        """The class with the turn."""
        return f"expect({self._turn!r})"

    def _check(self, holds: object, problem: str) -> Self:
        __tracebackhide__ = True
        return self if holds else self._fail(problem)

    def _fail(self, problem: str) -> Self:
        __tracebackhide__ = True
        message = f"{problem}\n{summary(self._turn)}"
        raise AssertionError(message)


def _check_texts(method: str, texts: tuple[object, ...]) -> None:
    for text in texts:
        if not isinstance(text, str):
            found = type(text).__name__
            hint = f"; write {method}(*texts)" if found in ("list", "tuple") else ""
            message = f"{method}() takes texts, not {found}{hint}"
            raise TypeError(message)


def _name_of(method: str, tool: object) -> str:
    from turntree.upp import Tool

    if isinstance(tool, Tool):
        return cast("Tool[..., Any]", tool).name
    if isinstance(tool, str):
        return tool
    message = f"{method}() takes names of tools, or tools, not {type(tool).__name__}"
    raise TypeError(message)


def has_data(turn: Turn, data: Any) -> bool:
    """Whether the structured answer, or its JSON, equals a value: a file of cases has JSON."""
    return bool(turn.data == data) or _json_of(turn.data) == _json_of(data)


def _json_of(value: Any) -> Any:
    from turntree.upp import ToolResult

    try:
        return ToolResult("", value).result  # It has the JSON of any value.
    except (TypeError, ValueError):
        return value


def called_tools(turn: Turn) -> list[str]:
    """The names of the tools that the model called, in the order of its calls."""
    from turntree.upp import AssistantMessage

    messages = [message for message in turn.messages if isinstance(message, AssistantMessage)]
    return [call.tool_name for message in messages for call in message.tool_calls or ()]


def is_subsequence(names: tuple[str, ...] | list[str], called: list[str]) -> bool:
    """Whether all names occur in this order."""
    rest = iter(called)
    return all(name in rest for name in names)


def summary(turn: Turn) -> str:
    """What a run did, in a few lines."""
    lines = [f"answer: {_short(turn.text)}"]
    lines += [f"call:   {_call(call)}" for call in turn.tool_executions] or ["call:   none"]
    lines.append(f"usage:  {turn.cycles} model calls, {turn.usage.total_tokens} tokens")
    return "\n".join(lines)


def _call(call: ToolExecution) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in dict(call.arguments).items())
    state = "failed with" if call.is_error else "returned"
    return _clip(f"{call.tool_name}({arguments}) {state} {call.result!r}")


def _has(arguments: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in arguments and arguments[name] == value for name, value in wanted.items())


def _short(value: object) -> str:
    return _clip(repr(value))


def _clip(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
