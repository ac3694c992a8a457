"""Native tools of Anthropic.

Anthropic executes `web_search`, `web_fetch`, `code_execution` and `tool_search`; their results are in the metadata of
the response. The application executes `bash`, `text_editor`, `computer` and `memory`: pass a function as ``run=``.

Spec: UPP-1.2 §19.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from turntree._public_names import set_public_module as _set_public_module
from turntree.upp.native._tool import NativeTool

__all__ = [
    "bash",
    "code_execution",
    "computer",
    "memory",
    "text_editor",
    "tool_search",
    "web_fetch",
    "web_search",
]

_PROVIDER = "anthropic"


def web_search(
    *,
    max_uses: int | None = None,
    allowed_domains: Sequence[str] | None = None,
    blocked_domains: Sequence[str] | None = None,
    user_location: Mapping[str, Any] | None = None,
    version: str = "20250305",
) -> NativeTool:
    """Search the web. Executed by Anthropic.

    Args:
        max_uses: The maximum number of searches per request.
        allowed_domains: Search only these domains.
        blocked_domains: Do not search these domains.
        user_location: Location of the user, such as ``{"type": "approximate", "city": "Kyiv"}``.
        version: The date in the tool's type.
    """
    return NativeTool(
        _PROVIDER,
        "web_search",
        {
            "type": f"web_search_{version}",
            "name": "web_search",
            "max_uses": max_uses,
            "allowed_domains": _list(allowed_domains),
            "blocked_domains": _list(blocked_domains),
            "user_location": user_location,
        },
    )


def web_fetch(
    *,
    max_uses: int | None = None,
    allowed_domains: Sequence[str] | None = None,
    blocked_domains: Sequence[str] | None = None,
    citations: bool | None = None,
    max_content_tokens: int | None = None,
    version: str = "20250910",
) -> NativeTool:
    """Read pages at URLs in the conversation. Executed by Anthropic. Requires the beta ``web-fetch-2025-09-10``.

    Args:
        max_uses: The maximum number of pages per request.
        allowed_domains: Read only pages of these domains.
        blocked_domains: Read no pages of these domains.
        citations: Cite the pages in the response.
        max_content_tokens: The maximum number of tokens of a page. Longer pages are truncated.
        version: The date in the tool's type.
    """
    return NativeTool(
        _PROVIDER,
        "web_fetch",
        {
            "type": f"web_fetch_{version}",
            "name": "web_fetch",
            "max_uses": max_uses,
            "allowed_domains": _list(allowed_domains),
            "blocked_domains": _list(blocked_domains),
            "citations": None if citations is None else {"enabled": citations},
            "max_content_tokens": max_content_tokens,
        },
    )


def code_execution(*, version: str = "20250825") -> NativeTool:
    """Run code in a container of Anthropic. Requires the beta ``code-execution-2025-08-25``.

    Args:
        version: The date in the tool's type.
    """
    return NativeTool(_PROVIDER, "code_execution", {"type": f"code_execution_{version}", "name": "code_execution"})


def tool_search(by: Literal["regex", "bm25"] = "regex", *, version: str = "20251119") -> NativeTool:
    """Search the deferred tools. Executed by Anthropic. Requires the beta ``advanced-tool-use-2025-11-20``.

    Args:
        by: Kind of search: a regular expression, or words (BM25).
        version: The date in the tool's type.
    """
    name = f"tool_search_tool_{by}"
    return NativeTool(_PROVIDER, name, {"type": f"{name}_{version}", "name": name})


def bash(*, run: Callable[[dict[str, Any]], Any] | None = None, version: str = "20250124") -> NativeTool:
    """A shell. Executed by `run`.

    Args:
        run: Function of the arguments: ``command``, or ``restart``.
        version: The date in the tool's type.
    """
    return NativeTool(_PROVIDER, "bash", {"type": f"bash_{version}", "name": "bash"}, run=run)


def text_editor(
    *,
    run: Callable[[dict[str, Any]], Any] | None = None,
    max_characters: int | None = None,
    version: str = "20250728",
) -> NativeTool:
    """A file editor. Executed by `run`.

    Args:
        run: Function of the arguments: ``command``, ``path``, and the arguments of the command.
        max_characters: The maximum number of characters of a file view. Since version 20250728.
        version: The date in the tool's type. Before 20250429, the name of the tool is ``str_replace_editor``.
    """
    name = "str_replace_editor" if version < "20250429" else "str_replace_based_edit_tool"
    return NativeTool(
        _PROVIDER,
        name,
        {"type": f"text_editor_{version}", "name": name, "max_characters": max_characters},
        run=run,
    )


def computer(
    display_width_px: int,
    display_height_px: int,
    *,
    run: Callable[[dict[str, Any]], Any] | None = None,
    display_number: int | None = None,
    enable_zoom: bool | None = None,
    version: str = "20250124",
) -> NativeTool:
    """A screen with mouse and keyboard. Executed by `run`. Requires the beta ``computer-use-2025-01-24`` or later.

    Args:
        display_width_px: Width of the screen in pixels.
        display_height_px: Height of the screen in pixels.
        run: Function of the arguments: ``action``, and the arguments of the action.
        display_number: The X11 display.
        enable_zoom: Allow the action ``zoom``. Since version 20251124.
        version: The date in the tool's type.
    """
    definition = {
        "type": f"computer_{version}",
        "name": "computer",
        "display_width_px": display_width_px,
        "display_height_px": display_height_px,
        "display_number": display_number,
        "enable_zoom": enable_zoom,
    }
    return NativeTool(_PROVIDER, "computer", definition, run=run)


def memory(*, run: Callable[[dict[str, Any]], Any] | None = None, version: str = "20250818") -> NativeTool:
    """Files for the memory of the model. Executed by `run`. Requires the beta ``context-management-2025-06-27``.

    Args:
        run: Function of the arguments: ``command``, ``path``, and the arguments of the command.
        version: The date in the tool's type.
    """
    return NativeTool(_PROVIDER, "memory", {"type": f"memory_{version}", "name": "memory"}, run=run)


def _list(items: Sequence[str] | None) -> list[str] | None:
    return None if items is None else list(items)


_set_public_module(__name__, globals())
