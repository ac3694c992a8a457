"""Static types of tools: a decorated function keeps its signature. Checked, never run."""

from collections.abc import Callable, Coroutine
from typing import Any

from typing_extensions import assert_type

from turntree import ToolContext, Toolset, ToolsetContext, agent
from turntree.upp import Tool, tool


@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@tool
async def weather(city: str, *, days: int = 1) -> dict[str, float]:
    """Forecast."""
    return {city: float(days)}


@tool(name="sum", approval=lambda arguments: True, metadata={"openai": {"strict": True}}, inline=True)
def total(values: list[float], context: ToolContext) -> float:
    """Sum."""
    return sum(values) if context.cancelled else 0.0


async def decorated(context: ToolContext) -> None:
    assert_type(add(1), int)
    assert_type(add(1, b=2), int)
    assert_type(add.run(1, 2), int)
    assert_type(await weather("Tokyo", days=2), dict[str, float])
    later: Coroutine[Any, Any, dict[str, float]] = weather("Tokyo")
    assert_type(await later, dict[str, float])
    assert_type(total([1.0], context), float)
    assert_type(add.name, str)
    assert_type(add.parameters, dict[str, Any])
    add("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    add()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    tool(3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


def made(function: Callable[[str], bytes]) -> None:
    assert_type(tool(function)("a"), bytes)
    assert_type(tool(name="x")(function)("a"), bytes)
    assert_type(Tool("x", "does", {"type": "object"}, function)("a"), bytes)


class Stage:
    """An async toolset."""

    async def tools(self, context: ToolsetContext) -> list[Tool[..., Any] | Callable[..., Any]]:
        assert_type(context.agent_name, str | None)
        assert_type(context.step, int)
        return [add, len] if context.step else [weather]


class Plain:
    """A sync toolset."""

    def tools(self, context: ToolsetContext) -> tuple[Tool[..., Any], ...]:
        return () if context.cancelled else (add,)


def toolsets() -> None:
    worker = agent(tools=[Stage(), Plain(), add, len])
    assert_type(worker.toolsets, tuple[Toolset, ...])
    assert_type(worker.tools, tuple[Tool[..., Any], ...])
