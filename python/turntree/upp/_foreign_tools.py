"""Tools of other libraries, recognized by their attributes: none of these libraries is imported.

Supported: ``pydantic_ai.Tool``, tools of LangChain (``BaseTool``), and ``FunctionTool`` of the OpenAI Agents SDK.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from turntree.upp._foreign_results import result_of_other_library

if TYPE_CHECKING:
    from turntree.upp._tools import Tool


def tool_of_other_library(value: Any) -> Tool[..., Any] | None:
    """Return a tool that calls the tool of another library; None if `value` is not one.

    Raises:
        TypeError: It is a tool, but has no JSON Schema of its arguments.
    """
    if isinstance(value, type) or not isinstance(getattr(value, "name", None), str):
        return None
    if hasattr(value, "function_schema") and hasattr(value, "takes_ctx"):
        return _of_pydantic_ai(value)
    if hasattr(value, "on_invoke_tool") and hasattr(value, "params_json_schema"):
        return _of_openai_agents(value)
    if callable(getattr(value, "ainvoke", None)) and hasattr(value, "args_schema"):
        return _of_langchain(value)
    return None


def _made(value: Any, schema: Any, run: Any, **options: Any) -> Tool[..., Any]:
    from turntree._core import ToolContext
    from turntree.upp._tools import Tool

    if not isinstance(schema, dict):
        message = f"tool {value.name!r} has no JSON Schema of its arguments"
        raise TypeError(message)
    run.__annotations__ = {"context": ToolContext}
    run.__name__ = value.name
    description = getattr(value, "description", None) or ""
    return Tool[..., Any](value.name, description, cast("dict[str, Any]", schema), run, **options)


def _of_pydantic_ai(value: Any) -> Tool[..., Any]:
    schema = value.function_schema

    async def run(context: Any, **given: Any) -> Any:
        checked = schema.validator.validate_python(given)
        return result_of_other_library(await schema.call(checked, _context_of_pydantic_ai(value, context)), dicts=False)

    retries = getattr(value, "max_retries", None)
    approval = "ask" if getattr(value, "requires_approval", False) is True else None
    return _made(value, schema.json_schema, run, approval=approval, retries=1 if retries is None else retries)


def _context_of_pydantic_ai(value: Any, context: Any) -> Any:
    """Return a context of that library, which is loaded since it has made the tool, without a model."""
    library = sys.modules.get("pydantic_ai")
    try:
        make, usage = cast("Any", library).RunContext, cast("Any", library).RunUsage()
        return make(
            deps=context.deps,
            model=None,
            usage=usage,
            tool_name=value.name,
            tool_call_id=context.tool_call_id,
            metadata=dict(context.metadata),
        )
    except (AttributeError, TypeError):
        # Another version: `deps` and `tool_call_id` have the same names in our context.
        return context


def _of_openai_agents(value: Any) -> Tool[..., Any]:
    async def run(context: Any, **given: Any) -> Any:
        import json  # not part of the import of turntree

        text = json.dumps(given)
        # The library checks the class of the context. It is loaded, since it has made the tool.
        library = sys.modules.get("agents.tool_context")
        make = getattr(library, "ToolContext", SimpleNamespace)
        options = {} if library is not None else {"usage": None}
        call = make(
            context=context.deps,
            tool_name=value.name,
            tool_call_id=context.tool_call_id,
            tool_arguments=text,
            **options,
        )
        return result_of_other_library(await value.on_invoke_tool(call, text), dicts=True)

    approval = _approval_of_openai_agents(getattr(value, "needs_approval", False))
    return _made(value, value.params_json_schema, run, approval=approval)


def _approval_of_openai_agents(needed: Any) -> Any:
    """Return the approval for ``needs_approval``: a bool, or a function of the context, the arguments and the id."""
    if needed is True or callable(needed):
        # A function of that library needs its context of the run, so that the person decides in all cases.
        return "ask"
    return None


def _of_langchain(value: Any) -> Tool[..., Any]:
    schema = _schema_of(getattr(value, "tool_call_schema", None) or value.args_schema)
    # LangChain gives the id of the call only to tools that are called with the whole call. Their results are texts.
    needs_call = bool(_injected(value, schema))

    async def run(context: Any, **given: Any) -> Any:
        call = {"type": "tool_call", "name": value.name, "args": given, "id": context.tool_call_id}
        result = result_of_other_library(await value.ainvoke(call if needs_call else given), dicts=True)
        is_json = isinstance(result, (str, int, float, bool, list, dict, type(None)))
        has_json = hasattr(result, "model_dump") or hasattr(result, "__dataclass_fields__")
        return cast("Any", result) if is_json or has_json else str(result)

    return _made(value, schema, run)


def _schema_of(source: Any) -> Any:
    return source.model_json_schema() if hasattr(source, "model_json_schema") else source


def _injected(value: Any, schema: Any) -> set[str]:
    """Return the required arguments that are not the model's."""
    try:
        required = _schema_of(value.args_schema)["required"]
        return set(required) - set(schema["properties"])
    except (KeyError, TypeError, ValueError):
        # No JSON Schema: an injected argument may have any type.
        return set()
