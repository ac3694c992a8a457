"""Tools: plain functions that a model may call.

Spec: UPP-1.2 §5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

from turntree.upp.native._tool import NativeTool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Approval = Callable[[dict[str, Any]], Any] | Literal["ask"]

P = ParamSpec("P")
R = TypeVar("R")


class Tool(Generic[P, R]):
    """A function that a model may call.

    Args:
        name: Unique among the tools of one agent.
        description: What it does, for the model.
        parameters: JSON Schema of its arguments; the root is an object. None: made from the signature.
        run: The function, sync or async.
        approval: A function, sync or async, that is asked with the arguments before each call: true calls the tool,
            false refuses it, ``"ask"`` leaves it to a person (the run stops with `ApprovalRequired`, and a session goes
            on after ``approve`` or ``deny``), an exception stops the run. ``"ask"`` itself leaves every call to a
            person.
        metadata: Vendor facts by provider name, as ``{"openai": {"strict": True}}``.
        inline: Call a sync function on the event loop's own thread instead of a worker thread. For quick functions.

    A parameter annotated ``ToolContext`` receives the context of the call and is no part of the schema.
    """

    __slots__ = (
        "_function",
        "_parameters",
        "_signature",
        "_sub_agent",
        "approval",
        "description",
        "inline",
        "metadata",
        "name",
    )

    def __init__(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any] | None,
        run: Callable[P, R],
        approval: Approval | None = None,
        metadata: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        inline: bool = False,
    ) -> None:
        if not callable(run):
            message = f"run must be callable, not {type(run).__name__}"
            raise TypeError(message)
        if not isinstance(name, str) or not name:
            message = "name must be a non-empty str"
            raise TypeError(message)
        if approval is not None and approval != "ask" and not callable(approval):
            message = f'approval must be a function or "ask", not {approval!r}'
            raise TypeError(message)
        self.name: str = name
        self.description: str = description
        self.approval: Approval | None = approval
        self.metadata: dict[str, Mapping[str, Any]] | None = dict(metadata) if metadata is not None else None
        self.inline: bool = inline
        self._function = run
        self._parameters = dict(parameters) if parameters is not None else None
        self._signature: Any = None
        # The native half of the agent that the tool is: then the native core runs that, and not the function.
        self._sub_agent: Any = None

    @property
    def run(self) -> Callable[P, R]:
        """The function itself."""
        return self._function

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        if self._parameters is None:
            self._parameters = self._bound().schema
        return self._parameters

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as if it were not a tool."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool(name={self.name!r}, description={self.description[:60]!r})"

    def _bound(self) -> Any:
        if self._signature is None:
            from turntree.upp._signature import Signature

            self._signature = Signature(self._function, self._parameters)
        return self._signature

    # What follows is read by the native core.

    @property
    def _mode(self) -> str:
        """How to call it: "async" on the event loop, "thread" in a worker, "inline" where the run is."""
        if self._bound().is_async:
            return "async"
        return "inline" if self.inline else "thread"

    @property
    def _takes_context(self) -> bool:
        return self._bound().context_parameter is not None

    def _call(self, arguments: dict[str, Any], context: Any = None) -> Any:
        """Check the arguments, then call the function; an async one gives its coroutine."""
        return self._bound().call(arguments, context)


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval | None = None,
    metadata: Mapping[str, Mapping[str, Any]] | None = None,
    inline: bool = False,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval | None = None,
    metadata: Mapping[str, Mapping[str, Any]] | None = None,
    inline: bool = False,
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a function a tool: the schema comes from its signature, the description from its docstring.

    Arguments are checked before each call (through pydantic when it is installed, else by the annotations); a bad
    argument becomes an error result that the model can read.

    Args:
        function: The function, sync or async, where there are no options to give.
        name: The tool's name. Default: the function's.
        description: What it does. Default: the docstring up to its ``Args:``.
        approval: Asked with the arguments before each call, or ``"ask"``; see `Tool`.
        metadata: Vendor facts by provider name.
        inline: Call a sync function on the event loop's own thread.

    Returns:
        The tool, which can still be called as the function.

    Raises:
        TypeError: The function has positional-only or variadic parameters, or an annotation without a schema;
            raised when the schema is first needed.
    """

    def make(function: Callable[P, R]) -> Tool[P, R]:
        documentation = description if description is not None else _summary(function)
        own_name: str = getattr(function, "__name__", type(function).__name__)
        return Tool(name or own_name, documentation, None, function, approval, metadata, inline=inline)

    return make if function is None else make(function)


def as_tool(value: Any) -> Tool[..., Any]:
    """A tool from a tool, from a plain function, or from an agent, which knows how to become one (UAP-1.0 §8.1)."""
    if isinstance(value, Tool | NativeTool):
        return cast("Tool[..., Any]", value)
    if callable(value) and not isinstance(value, type):
        return tool(value)
    to_tool = None if isinstance(value, type) else getattr(value, "to_tool", None)
    if callable(to_tool):
        return cast("Tool[..., Any]", to_tool())
    message = f"tools must be functions, Tool objects or agents, not {type(value).__name__}"
    raise TypeError(message)


def _summary(function: Callable[..., Any]) -> str:
    """The docstring up to its first section, unindented."""
    lines: list[str] = []
    for line in (getattr(function, "__doc__", None) or "").strip().splitlines():
        text = line.strip()
        if text in {"Args:", "Arguments:", "Parameters:", "Returns:", "Raises:", "Yields:", "Example:", "Examples:"}:
            break
        lines.append(text)
    return "\n".join(lines).strip()
