"""How an agent is shown: its repr, its HTML form in notebooks, and its form for rich."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from turntree._reprs import literal, shortened, without_ends
from turntree._toolsets import name_of

if TYPE_CHECKING:
    from turntree._agent import Agent


class AgentRepr:
    """The forms of an agent for people. Only `Agent` inherits from it."""

    __slots__ = ()

    def __repr__(self) -> str:
        agent = cast("Agent[Any, Any]", self)
        name = f"name={literal(agent.name, 100)}, " if agent.name else ""
        tools = ", ".join([*(tool.name for tool in agent.tools), *(f"*{name_of(one)}" for one in agent.toolsets)])
        return f"Agent({name}model={agent.model!r}, tools=[{shortened(tools, 1_000)}])"

    def _repr_html_(self) -> str:
        from turntree.notebook._agents import agent_html

        return agent_html(cast("Agent[Any, Any]", self))

    def __rich_repr__(self) -> Iterable[Any]:
        agent = cast("Agent[Any, Any]", self)
        yield "name", without_ends(agent.name), None
        yield "model", agent.model
        yield "tools", without_ends([tool.name for tool in agent.tools]), []
