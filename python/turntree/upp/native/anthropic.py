"""Tools of Anthropic's own.

Those that Anthropic runs (search, fetch, code, search among tools) come back inside the answer and are kept in its
metadata. Those that are run here (`bash`, `text_editor`, `computer`, `memory`) come back as calls: give ``run=``.

Spec: UPP-1.2 §19.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from turntree.upp.native._tool import NativeTool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
    """Search the web; Anthropic runs it.

    Args:
        max_uses: Most searches of a request.
        allowed_domains: The only ones to search.
        blocked_domains: Those not to search.
        user_location: As ``{"type": "approximate", "city": "Kyiv"}``.
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
    """Read pages at addresses of the conversation; Anthropic runs it. Wants the beta ``web-fetch-2025-09-10``.

    Args:
        max_uses: Most pages of a request.
        allowed_domains: The only ones to read from.
        blocked_domains: Those not to read from.
        citations: Whether the answer cites the pages.
        max_content_tokens: Longest page that is read whole.
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
    """Run code in a container of Anthropic's. Wants the beta ``code-execution-2025-08-25``.

    Args:
        version: The date in the tool's type.
    """
    return NativeTool(_PROVIDER, "code_execution", {"type": f"code_execution_{version}", "name": "code_execution"})


def tool_search(by: Literal["regex", "bm25"] = "regex", *, version: str = "20251119") -> NativeTool:
    """Find tools that are deferred; Anthropic runs it. Wants the beta ``advanced-tool-use-2025-11-20``.

    Args:
        by: A regular expression, or words.
        version: The date in the tool's type.
    """
    name = f"tool_search_tool_{by}"
    return NativeTool(_PROVIDER, name, {"type": f"{name}_{version}", "name": name})


def bash(*, run: Callable[[dict[str, Any]], Any] | None = None, version: str = "20250124") -> NativeTool:
    """A shell, run here.

    Args:
        run: Of the arguments: ``command``, or ``restart``.
        version: The date in the tool's type.
    """
    return NativeTool(_PROVIDER, "bash", {"type": f"bash_{version}", "name": "bash"}, run=run)


def text_editor(
    *,
    run: Callable[[dict[str, Any]], Any] | None = None,
    max_characters: int | None = None,
    version: str = "20250728",
) -> NativeTool:
    """An editor of files, run here.

    Args:
        run: Of the arguments: ``command``, ``path``, and what the command needs.
        max_characters: Longest view of a file; of version 20250728 and later.
        version: The date in the tool's type. Before 20250429 the tool is called ``str_replace_editor``.
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
    """A screen with mouse and keyboard, run here. Wants the beta ``computer-use-2025-01-24`` (or that of the version).

    Args:
        display_width_px: Width of the screen.
        display_height_px: Height of the screen.
        run: Of the arguments: ``action``, and what the action needs.
        display_number: The X11 display.
        enable_zoom: Whether it may zoom; of version 20251124.
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
    """Files that the model remembers by, run here. Wants the beta ``context-management-2025-06-27``.

    Args:
        run: Of the arguments: ``command``, ``path``, and what the command needs.
        version: The date in the tool's type.
    """
    return NativeTool(_PROVIDER, "memory", {"type": f"memory_{version}", "name": "memory"}, run=run)


def _list(items: Sequence[str] | None) -> list[str] | None:
    return None if items is None else list(items)
