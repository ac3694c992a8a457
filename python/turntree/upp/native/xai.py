"""Native tools of xAI, for its Responses API. xAI executes them.

Spec: UPP-1.2 §19.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turntree._public_names import set_public_module as _set_public_module
from turntree.upp.native._tool import NativeTool

__all__ = ["code_execution", "file_search", "mcp", "web_search", "x_search"]

_PROVIDER = "xai"


def web_search(
    *,
    allowed_domains: Sequence[str] | None = None,
    excluded_domains: Sequence[str] | None = None,
    enable_image_understanding: bool | None = None,
    enable_image_search: bool | None = None,
) -> NativeTool:
    """Search the web.

    Args:
        allowed_domains: Search only these domains.
        excluded_domains: Do not search these domains.
        enable_image_understanding: Analyze the images in the results.
        enable_image_search: Search for images and show them in the answer.
    """
    domains = {"allowed_domains": _list(allowed_domains), "excluded_domains": _list(excluded_domains)}
    filters = {name: value for name, value in domains.items() if value is not None}
    return NativeTool(
        _PROVIDER,
        "web_search",
        {
            "type": "web_search",
            "filters": filters or None,
            "enable_image_understanding": enable_image_understanding,
            "enable_image_search": enable_image_search,
        },
    )


def x_search(
    *,
    allowed_x_handles: Sequence[str] | None = None,
    excluded_x_handles: Sequence[str] | None = None,
    from_date: str | None = None,
    to_date: str | None = None,
    enable_image_understanding: bool | None = None,
    enable_video_understanding: bool | None = None,
) -> NativeTool:
    """Search posts on X.

    Args:
        allowed_x_handles: Search only posts of these accounts.
        excluded_x_handles: Do not search posts of these accounts.
        from_date: First day, such as ``2025-10-01``.
        to_date: Last day, such as ``2025-10-31``.
        enable_image_understanding: Analyze the images in the results.
        enable_video_understanding: Analyze the videos in the results.
    """
    return NativeTool(
        _PROVIDER,
        "x_search",
        {
            "type": "x_search",
            "allowed_x_handles": _list(allowed_x_handles),
            "excluded_x_handles": _list(excluded_x_handles),
            "from_date": from_date,
            "to_date": to_date,
            "enable_image_understanding": enable_image_understanding,
            "enable_video_understanding": enable_video_understanding,
        },
    )


def code_execution() -> NativeTool:
    """Run Python code."""
    return NativeTool(_PROVIDER, "code_execution", {"type": "code_interpreter"})


def file_search(
    vector_store_ids: Sequence[str], *, max_num_results: int | None = None, retrieval_mode: str | None = None
) -> NativeTool:
    """Search in collections.

    Args:
        vector_store_ids: Ids of the collections.
        max_num_results: The maximum number of results per search.
        retrieval_mode: ``keyword``, ``semantic`` or ``hybrid``.
    """
    return NativeTool(
        _PROVIDER,
        "file_search",
        {
            "type": "file_search",
            "vector_store_ids": list(vector_store_ids),
            "max_num_results": max_num_results,
            "retrieval_mode": None if retrieval_mode is None else {"type": retrieval_mode},
        },
    )


def mcp(
    server_url: str,
    *,
    server_label: str | None = None,
    server_description: str | None = None,
    allowed_tools: Sequence[str] | None = None,
    authorization: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> NativeTool:
    """Tools of a remote MCP server. Called by xAI.

    Args:
        server_url: URL of the server.
        server_label: Name of the server.
        server_description: Description of the server for the model.
        allowed_tools: Names of the tools that may be called. Default: all.
        authorization: Token for the server.
        headers: Headers of the requests to the server.
    """
    return NativeTool(
        _PROVIDER,
        server_label or "mcp",
        {
            "type": "mcp",
            "server_url": server_url,
            "server_label": server_label,
            "server_description": server_description,
            "allowed_tools": _list(allowed_tools),
            "authorization": authorization,
            "headers": headers,
        },
    )


def _list(items: Sequence[str] | None) -> list[str] | None:
    return None if items is None else list(items)


_set_public_module(__name__, globals())
