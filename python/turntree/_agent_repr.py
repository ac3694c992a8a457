"""How an agent is shown: its repr and its form for rich."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from turntree._reprs import literal, shortened, without_ends
from turntree._toolsets import Toolset, name_of

if TYPE_CHECKING:
    from turntree import _core
    from turntree.upp._tools import Tool


class AgentRepr:
    """The forms of an agent for people. Only `Agent` inherits from it."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def name(self) -> str | None: ...
        @property
        def model(self) -> _core.ModelReference | None: ...
        @property
        def tools(self) -> tuple[Tool[..., Any], ...]: ...
        @property
        def toolsets(self) -> tuple[Toolset, ...]: ...

    def __repr__(self) -> str:
        name = f"name={literal(self.name, 100)}, " if self.name else ""
        tools = ", ".join([*(tool.name for tool in self.tools), *(f"*{name_of(one)}" for one in self.toolsets)])
        return f"Agent({name}model={self.model!r}, tools=[{shortened(tools, 1_000)}])"

    def __rich_repr__(self) -> Iterable[Any]:
        yield "name", without_ends(self.name), None
        yield "model", self.model
        yield "tools", without_ends([tool.name for tool in self.tools]), []

    def _repr_html_(self) -> str:
        from turntree.notebook._agents import agent_html

        return agent_html(self)
