"""Toolsets: objects whose tools can change between the steps of a run; tools as middleware wraps them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

from turntree import _core
from turntree._callbacks import check_callback
from turntree._public_names import publish
from turntree.upp._tools import Tool, as_tool
from turntree.upp.native._tool import NativeTool

ToolsetContext = _core.RunContext
"""The same class by the name that it had when only toolsets received it."""


@runtime_checkable
class Toolset(Protocol):
    """A source of tools that can change between the steps of a run: any object with a method `tools`.

    An optional attribute ``name`` names the toolset in errors; the default is the name of its class. One toolset may
    serve several runs at the same time. The agent does not enter or leave a toolset that is a context manager: enter it
    before the run and leave it afterwards.
    """

    def tools(self, context: _core.RunContext[Any], /) -> Iterable[Any] | Awaitable[Iterable[Any]]:
        """Return the tools that the run has now; sync or async.

        The run calls it before each model call, and calls all toolsets of the agent at the same time. The model can
        call the tools that were returned for that call. A sync method runs on the event loop and must return quickly.

        Args:
            context: The run.

        Returns:
            Tools, plain functions and agents, as for ``tools=`` of an agent. Names must be unique among all tools of
            the agent.
        """
        ...


def is_toolset(value: object) -> TypeGuard[Toolset]:
    """Return True for an object with a method `tools`. The `tools` of an agent is not a method."""
    if isinstance(value, (Tool, NativeTool, type)):
        return False
    return callable(getattr(value, "tools", None))


def separated(tools: Iterable[Any]) -> tuple[list[Tool[..., Any]], list[Toolset]]:
    """Separate the option ``tools=`` into tools and toolsets.

    Raises:
        TypeError: An item is neither, or `tools` is one tool instead of a list.
        ValueError: Two tools have one name.
    """
    if isinstance(tools, (str, bytes)) or not hasattr(tools, "__iter__"):
        name = getattr(tools, "name", None) or getattr(tools, "__name__", None)
        if isinstance(tools, (str, bytes)):
            remedy = "; give functions, not their names"
        else:
            remedy = f"; write tools=[{name}]" if name else f", not {type(tools).__name__}"
        message = f"tools must be a list{remedy}"
        raise TypeError(message)
    own: list[Tool[..., Any]] = []
    toolsets: list[Toolset] = []
    for item in tools:
        if is_toolset(item):
            check_callback(f"tools of the toolset {name_of(item)}", item.tools, ("context",))
            toolsets.append(item)
        else:
            own.append(as_tool(item))
    names: set[str] = set()
    for tool in own:
        if tool.name in names:
            message = f"two tools are named '{tool.name}'; names of tools must differ: rename one with @tool(name=…)"
            raise ValueError(message)
        names.add(tool.name)
    return own, toolsets


def name_of(toolset: Toolset) -> str:
    """Return the name of a toolset for errors."""
    name = getattr(toolset, "name", None)
    return name if isinstance(name, str) and name else type(toolset).__name__


def tools_of(name: str, returned: Any) -> list[Tool[..., Any]]:
    """Convert what a toolset has returned. Called by the Rust core.

    Raises:
        TypeError: It is not an iterable of tools.
    """
    if isinstance(returned, (str, bytes)) or not hasattr(returned, "__iter__"):
        message = f"tools of toolset {name!r} must return a list of tools, not {type(returned).__name__}"
        raise TypeError(message)
    tools: list[Tool[..., Any]] = []
    for index, item in enumerate(returned):
        if is_toolset(item):
            message = f"tools of toolset {name!r} returned a toolset at index {index}; return its tools"
            raise TypeError(message)
        try:
            tools.append(as_tool(item))
        except TypeError as error:
            message = f"tools of toolset {name!r} returned {type(item).__name__} at index {index}: {error}"
            raise TypeError(message) from error
    return tools


# The hooks of middleware in runs.
_HOOKS = ("before", "after", "on_error", "on_event", "on_model_request")


def in_runs(middleware: Sequence[Any]) -> tuple[Any, ...]:
    """Return the middleware that has a part in runs: all but those that only wrap tools."""
    return tuple(
        one
        for one in middleware
        if getattr(one, "wrap_tool", None) is None or any(getattr(one, hook, None) is not None for hook in _HOOKS)
    )


def wrapped(tools: Iterable[Tool[..., Any]], middleware: Sequence[Any]) -> list[Any]:
    """Return the tools that a run calls. The first middleware is the outermost one.

    Raises:
        TypeError: A `wrap_tool` returns something else than a tool.
    """
    wraps = [(one, one.wrap_tool) for one in reversed(middleware) if callable(getattr(one, "wrap_tool", None))]
    return [_wrapped(tool, wraps) for tool in tools]


def wrapped_sources(toolsets: Iterable[Toolset], middleware: Sequence[Any]) -> list[tuple[str, Callable[..., Any]]]:
    """Return the names of the toolsets, and functions that return their wrapped tools."""
    if not any(callable(getattr(one, "wrap_tool", None)) for one in middleware):
        return [(name_of(toolset), toolset.tools) for toolset in toolsets]
    return [(name_of(toolset), _source(toolset, middleware)) for toolset in toolsets]


def _source(toolset: Toolset, middleware: Sequence[Any]) -> Callable[..., Any]:
    name = name_of(toolset)
    # A toolset that returns the same tools again gets the same wrapped ones.
    known: dict[int, tuple[Any, Any]] = {}

    def convert(returned: Any) -> list[Any]:
        found: list[Any] = []
        for tool in tools_of(name, returned):
            inner, outer = known.get(id(tool), (None, None))
            if inner is not tool:
                outer = wrapped([tool], middleware)[0]
            found.append((tool, outer))
        known.clear()
        known.update({id(tool): (tool, outer) for tool, outer in found})
        return [outer for _, outer in found]

    def source(context: Any) -> Any:
        returned: Any = toolset.tools(context)
        return later(returned) if hasattr(returned, "__await__") else convert(returned)

    async def later(returned: Any) -> list[Any]:
        return convert(await returned)

    return source


def _wrapped(tool: Tool[..., Any], wraps: list[tuple[Any, Callable[[Any], Any]]]) -> Any:
    # The vendor runs its own tools.
    if isinstance(tool, NativeTool):
        return tool
    found: Any = tool
    for middleware, wrap in wraps:
        found = wrap(found)
        _check(found, middleware)
    return found


def _check(made: object, middleware: Any) -> None:
    if not isinstance(made, Tool):
        name = getattr(middleware, "name", type(middleware).__name__)
        message = f"wrap_tool of middleware {name!r} must return a Tool, not {type(made).__name__}"
        raise TypeError(message)


publish(__name__, globals())
