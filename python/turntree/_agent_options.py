"""The keyword options of `agent`, and how they are read."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, TypedDict

from turntree._callbacks import check_callback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from turntree import _core
    from turntree._agent import Agent
    from turntree._agent_hooks import AgentStrategy
    from turntree._run_options import OnApproval
    from turntree._strategies import CustomStrategy, ExecutionStrategy
    from turntree._toolsets import Toolset
    from turntree._types import Middleware
    from turntree.upp._settings import ModelSettings, OnRefusal
    from turntree.upp._tool_use import ToolUseStrategy
    from turntree.upp._tools import Tool
    from turntree.upp.native._tool import NativeTool


_HOOKS: dict[str, tuple[str, ...]] = {
    "before": ("context",),
    "after": ("context", "turn"),
    "on_error": ("context", "error"),
    "on_event": ("context", "event"),
    "on_model_request": ("context", "request"),
}


class CommonOptions(TypedDict, total=False):
    """The keyword options of `agent`, without those that its type depends on."""

    model: _core.ModelReference | str | None
    params: Mapping[str, Any] | None
    settings: ModelSettings | Mapping[str, Any] | None
    on_refusal: OnRefusal | None
    config: _core.ProviderConfig | Mapping[str, Any] | None
    execution: CustomStrategy | ExecutionStrategy | None
    tools: Iterable[Tool[..., Any] | NativeTool | Callable[..., Any] | Agent[Any, Any] | Toolset]
    system: str | Sequence[Mapping[str, Any]] | Callable[[_core.RunContext[Any]], Any] | None
    structure_repair: bool | int
    on_approval: OnApproval | None
    output_validators: Iterable[Callable[..., Any]]
    output_retries: int | None
    middleware: Iterable[Middleware]
    hooks: AgentStrategy | Mapping[str, Callable[..., Any]] | None
    strategy: AgentStrategy | Mapping[str, Callable[..., Any]] | None
    tool_strategy: ToolUseStrategy | Mapping[str, Any] | None
    id: str | None
    name: str | None
    max_sub_agent_depth: int | None
    cleanup_timeout: float | None


class AgentOptions(CommonOptions, total=False):
    """The keyword options of `agent`, and how they are read."""

    structure: Any
    deps_type: Any


def with_strategy(options: AgentOptions) -> AgentOptions:
    """Return the options with `hooks` under the name `strategy`.

    Raises:
        TypeError: Both are given.
    """
    if "hooks" not in options:
        return options
    if options["hooks"] is not None and options.get("strategy") is not None:
        message = "hooks and strategy are two names of one option; give one of them"
        raise TypeError(message)
    renamed: AgentOptions = {**options}
    hooks = renamed.pop("hooks")
    if hooks is not None or "strategy" not in renamed:
        renamed["strategy"] = hooks
    return renamed


def middleware_of(middleware: Any) -> tuple[Any, ...]:
    """Return the middlewares of an option.

    Raises:
        TypeError: It is no list, or has a class or a function.
    """
    try:
        given = tuple(middleware)
    except TypeError:
        message = "middleware must be a list of middlewares; put a single one into brackets"
        raise TypeError(message) from None
    for place, one in enumerate(given):
        if isinstance(one, (type, FunctionType)):
            kind = "class" if isinstance(one, type) else "function"
            message = f"middleware[{place}] is the {kind} {one.__name__}; write {one.__name__}() to make one of it"
            raise TypeError(message)
        for hook, parameters in _HOOKS.items():
            function = getattr(one, hook, None)
            if callable(function):
                check_callback(f"{hook} of middleware[{place}]", function, parameters)
    return given
