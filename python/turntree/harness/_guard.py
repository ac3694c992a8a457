"""The gate around the tools of our own agents."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from turntree.harness._gate import Gate
from turntree.harness._project import Project
from turntree.upp import Tool, tool

ActionOf = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def guard(
    function: Callable[..., Any], *, project: Project | None = None, action: ActionOf | None = None
) -> Tool[..., Any]:
    """Make a tool whose calls pass the gate of a project.

    A denied call does not run: the model gets the reason and the remedy as the tool's error. A call that needs a
    person's decision stops the run with `ApprovalRequired`, as with ``approval="ask"``. Every decision is recorded.

    Args:
        function: The function of the tool.
        project: The project. Default: that of the working directory.
        action: Makes the action from the arguments. Default: ``command`` is a shell command, ``path`` an edited file (a
            read one if the name of the function starts with ``read``, ``list`` or ``search``).
    """
    gate = Gate.load(project or Project.find())
    describe = action or _action_of(function.__name__)

    def approval(arguments: Mapping[str, Any]) -> bool | str:
        # A denied call goes on to the function below, which tells the model why.
        return "ask" if gate.check(describe(arguments)).outcome == "ask" else True

    def enforce(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        gate.enforce(describe(bound.arguments))

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run(*args: Any, **kwargs: Any) -> Any:
            enforce(args, kwargs)
            return await function(*args, **kwargs)

        return tool(approval=approval)(run)

    @functools.wraps(function)
    def run_sync(*args: Any, **kwargs: Any) -> Any:
        enforce(args, kwargs)
        return function(*args, **kwargs)

    return tool(approval=approval)(run_sync)


def _action_of(name: str) -> ActionOf:
    kind = "read" if name.startswith(("read", "list", "search", "view")) else "edit"

    def describe(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        command = arguments.get("command")
        if isinstance(command, str):
            found: dict[str, Any] = {"kind": "shell", "command": command}
            cwd = arguments.get("cwd")
            return {**found, "cwd": cwd} if isinstance(cwd, str) else found
        path = next((arguments[key] for key in ("path", "file_path", "file") if arguments.get(key)), None)
        if path is not None:
            content = next((arguments[key] for key in ("content", "text", "new_text") if arguments.get(key)), "")
            return {"kind": kind, "path": str(path), "content": str(content)}
        plain = {
            key: value if isinstance(value, (str, int, float, bool)) else repr(value)
            for key, value in arguments.items()
        }
        return {"kind": "other", "tool": name, "arguments": plain}

    return describe
