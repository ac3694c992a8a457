"""Tools: functions that a model may call.

Spec: UPP-1.2 §5.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

from turntree._argument_errors import explain_arguments
from turntree._callbacks import check_callback
from turntree._peer_arguments import TOOL
from turntree._public_names import explain_attributes, publish
from turntree._texts import encoded
from turntree.upp._foreign_tools import tool_of_other_library
from turntree.upp.native._tool import NativeTool

Approval = Callable[[dict[str, Any]], Any] | Literal["ask"]

P = ParamSpec("P")
R = TypeVar("R")


# More retries than this are a typing error.
_MAX_RETRIES = 1000
# A flag of code objects, as `inspect.CO_COROUTINE`. Importing `inspect` would slow down `import turntree`.
_IS_COROUTINE = 0x80


class Tool(Generic[P, R]):
    """A function that a model may call.

    Args:
        name: Name of the tool, unique among the tools of one agent.
        description: Description of the tool for the model.
        parameters: JSON Schema of the arguments; the root is an object. A call with arguments that do not match it gets
            an error result, and the function is not called. None: derived from the signature.
        run: The function, sync or async.
        approval: A function, sync or async, that is called with the arguments before each call. True calls the tool;
            False rejects the call; ``"ask"`` stops the run with `ApprovalRequired`, and a session continues it after
            ``approve`` or ``deny``; an exception stops the run. The value ``"ask"`` instead of a function requires
            approval for each call.
        metadata: Metadata by provider name, such as ``{"openai": {"strict": True}}``.
        inline: Call a sync function on the thread of the event loop instead of a worker thread. For fast functions.
        idempotent: Whether a call can be repeated without a further effect. A session that is resumed after its process
            died then repeats calls that had started, with the same `ToolContext.idempotency_key`. Calls of other tools
            are in doubt: see `Session.in_doubt`.
        retries: How often in succession the function may raise `ModelRetry` before the run fails with `UPPError`
            INVALID_RESPONSE. Several refused calls of one response count once; a call that succeeds starts anew.

    The tool has the name, docstring, signature and ``__wrapped__`` of its function, so that libraries which take
    functions take it too. A parameter with the annotation ``ToolContext`` or ``ToolContext[Deps]`` receives the context
    of the call and is not part of the schema.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_agent",
        "_function",
        "_handoff",
        "_parameters",
        "_signature",
        "_sub_agent",
        "approval",
        "description",
        "idempotent",
        "inline",
        "metadata",
        "name",
        "retries",
    )

    @explain_arguments(TOOL)
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
        idempotent: bool = False,
        retries: int = 1,
    ) -> None:
        if not callable(run):
            message = f"run must be callable, not {type(run).__name__}"
            raise TypeError(message)
        if not isinstance(name, str) or not name:
            message = "name must be a non-empty str"
            raise TypeError(message)
        encoded(name, "name")
        if isinstance(description, str):
            encoded(description, "description")
        if approval is not None and approval != "ask" and not callable(approval):
            remedy = '; write approval="ask"' if approval is True else ""
            message = f'approval must be a function or "ask", not {approval!r}{remedy}'
            raise TypeError(message)
        if callable(approval):
            check_callback(f"approval of the tool {name!r}", approval, ("arguments",))
        if not isinstance(idempotent, bool):
            message = f"idempotent must be a bool, not {type(idempotent).__name__}"
            raise TypeError(message)
        if isinstance(retries, bool) or not isinstance(retries, int):
            message = f"retries must be an int, not {type(retries).__name__}"
            raise TypeError(message)
        if not 0 <= retries <= _MAX_RETRIES:
            message = f"retries must be from 0 to {_MAX_RETRIES}, not {retries}"
            raise ValueError(message)
        if parameters is not None and not isinstance(parameters, Mapping):
            message = f"parameters must be a JSON Schema, a dict, not {type(parameters).__name__}"
            raise TypeError(message)
        self.name: str = name
        self.description: str = description
        self.approval: Approval | None = approval
        self.metadata: dict[str, Mapping[str, Any]] | None = dict(metadata) if metadata is not None else None
        self.inline: bool = inline
        self.idempotent: bool = idempotent
        self.retries: int = retries
        self._function = run
        self._parameters = dict(parameters) if parameters is not None else None
        self._signature: Any = None
        # The `Agent` that was converted to this tool.
        self._agent: Any = None
        # The native half of an agent that was converted to this tool: the native core runs it instead of the function.
        self._sub_agent: Any = None
        # The name of the agent that takes over, if the tool is a handoff.
        self._handoff: str | None = None
        _present_as(self, run)

    @property
    def run(self) -> Callable[P, R]:
        """The function."""
        return self._function

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        if self._parameters is None:
            self._parameters = self._bound().schema
        return self._parameters

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle a decorated function by its module and qualified name, other tools by their arguments."""
        if self._handoff is not None:
            input_filter = getattr(self, "_input_filter", None)
            return _handoff_tool, (self._agent, self.name, self.description, self._handoff, input_filter)
        if self._sub_agent is not None:
            return _agent_tool, (self._agent, self.name, self.description, self.parameters)
        module, name = getattr(self._function, "__module__", None), getattr(self._function, "__qualname__", "")
        found: Any = sys.modules.get(module or "")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:
            return name
        positional = (self.name, self.description, self._parameters, self._function, self.approval, self.metadata)
        options: dict[str, Any] = {"inline": self.inline, "idempotent": self.idempotent, "retries": self.retries}
        return functools.partial(Tool, **options), positional

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function directly."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        from turntree._reprs import literal

        return f"Tool(name={literal(self.name, 100)}, description={self.description[:60]!r})"

    def _repr_html_(self) -> str:
        from turntree.notebook._agents import tool_html

        return tool_html(self)

    def __rich_repr__(self) -> Iterable[Any]:
        from turntree._reprs import without_ends

        yield "name", without_ends(self.name)
        yield "description", without_ends(self.description)
        yield "parameters", without_ends(self.parameters)

    def _bound(self) -> Any:
        if self._signature is None:
            from turntree.upp._signature import Signature

            self._signature = Signature(self._function, self._parameters)
        return self._signature

    # The native core uses the members below.

    @property
    def _mode(self) -> str:
        """The execution mode: "async" (on the event loop), "thread" (in a worker thread) or "inline"."""
        if self._bound().is_async:
            return "async"
        return "inline" if self.inline else "thread"

    @property
    def _has_custom_schema(self) -> bool:
        """True if `parameters` was given: the native core then validates the arguments with it."""
        return self._parameters is not None and self._bound().has_custom_schema

    @property
    def _takes_context(self) -> bool:
        return self._bound().context_parameter is not None

    def _call(self, arguments: dict[str, Any], context: Any = None) -> Any:
        """Check the arguments and call the function; returns the coroutine of an async function."""
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
    idempotent: bool = False,
    retries: int = 1,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


@explain_arguments(TOOL)
def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval | None = None,
    metadata: Mapping[str, Mapping[str, Any]] | None = None,
    inline: bool = False,
    idempotent: bool = False,
    retries: int = 1,
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Convert a function to a tool: the schema is derived from its signature, the description from its docstring.

    Arguments are checked before each call, by pydantic if it is installed, else by the annotations. The model receives
    an error result for an invalid argument.

    Args:
        function: The function, sync or async, if the decorator is used without options.
        name: Name of the tool. Default: the name of the function.
        description: Description of the tool. Default: the docstring up to ``Args:``.
        approval: A function that is called with the arguments before each call, or ``"ask"``; see `Tool`.
        metadata: Metadata by provider name.
        inline: Call a sync function on the thread of the event loop.
        idempotent: Whether a call can be repeated without a further effect; see `Tool`.
        retries: How often in succession the function may raise `ModelRetry`; see `Tool`.

    Returns:
        The tool. Calling it calls the function.

    Raises:
        TypeError: The function has positional-only or variadic parameters, or an annotation without a JSON Schema.
            Raised at the first use of the schema.
    """
    if isinstance(function, str):
        message = f"tool() takes a function, not a str; write @tool(name={function!r})"
        raise TypeError(message)
    if isinstance(function, type):
        message = f"tool() takes a function, not the class {function.__name__}; decorate its methods' functions"
        raise TypeError(message)

    if function is not None and not callable(function):
        message = f"tool() takes a function, not {type(function).__name__}"
        raise TypeError(message)

    def decorate(function: Callable[P, R]) -> Tool[P, R]:
        documentation = description if description is not None else _summary(function)
        function_name: str = getattr(function, "__name__", type(function).__name__)
        return Tool(
            name or function_name,
            documentation,
            None,
            function,
            approval,
            metadata,
            inline=inline,
            idempotent=idempotent,
            retries=retries,
        )

    return decorate if function is None else decorate(function)


def as_tool(value: Any) -> Tool[..., Any]:
    """Return a tool for a tool, a plain function, an agent, or a tool of another library.

    Raises:
        TypeError: `value` is none of these.

    Spec: UAP-1.0 §8.1.
    """
    if isinstance(value, Tool | NativeTool):
        return cast("Tool[..., Any]", value)
    if isinstance(value, type):
        message = (
            f"tools must be functions, Tool objects or agents, not the class {value.__name__}; pass an instance, or "
            "methods of one"
        )
        raise TypeError(message)
    foreign = tool_of_other_library(value)
    if foreign is not None:
        return foreign
    if callable(value):
        return tool(value)
    to_tool = getattr(value, "to_tool", None)
    if callable(to_tool):
        return cast("Tool[..., Any]", to_tool())
    message = f"tools must be functions, Tool objects or agents, not {type(value).__name__}"
    if hasattr(value, "keys"):
        message += "; write a function, or Tool(name, description, schema, function)"
    elif isinstance(value, str):
        message += "; give the function itself"
    elif callable(getattr(value, "tools", None)):
        message += "; only agents have toolsets"
    raise TypeError(message)


def _present_as(tool: Tool[..., Any], function: Callable[..., Any]) -> None:
    """Give the tool what describes its function: libraries that take functions read it."""
    functools.update_wrapper(tool, function)
    if hasattr(function, "__annotations__"):
        # Newer versions of Python do not copy them.
        vars(tool)["__annotations__"] = function.__annotations__
    code = getattr(function, "__code__", None)
    if sys.version_info >= (3, 12) and code is not None and code.co_flags & _IS_COROUTINE:
        import inspect

        inspect.markcoroutinefunction(tool)


def _summary(function: Callable[..., Any]) -> str:
    """Return the docstring up to its first section, without indentation."""
    lines: list[str] = []
    for line in (getattr(function, "__doc__", None) or "").strip().splitlines():
        text = line.strip()
        if text in {"Args:", "Arguments:", "Parameters:", "Returns:", "Raises:", "Yields:", "Example:", "Examples:"}:
            break
        lines.append(text)
    return "\n".join(lines).strip()


def _agent_tool(agent: Any, name: str, description: str, parameters: dict[str, Any]) -> Tool[..., Any]:
    return cast("Tool[..., Any]", agent.to_tool(name, description, parameters))


def _handoff_tool(agent: Any, tool_name: str, description: str, name: str, input_filter: Any = None) -> Tool[..., Any]:
    from turntree._handoff import handoff

    return handoff(agent, description, name=name, tool_name=tool_name, input_filter=input_filter)


publish(__name__, globals())
explain_attributes(Tool, "TOOL")
