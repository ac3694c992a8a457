"""Tools of OpenAI's own, for its Responses API.

OpenAI runs all of them but `computer_use` and `local_shell`, whose calls stand in the metadata of the answer.

Spec: UPP-1.2 §19.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from turntree.upp.native._tool import NativeTool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "code_interpreter",
    "computer_use",
    "file_search",
    "image_generation",
    "local_shell",
    "mcp",
    "web_search",
]

_PROVIDER = "openai"


def web_search(
    *,
    allowed_domains: Sequence[str] | None = None,
    user_location: Mapping[str, Any] | None = None,
    search_context_size: Literal["low", "medium", "high"] | None = None,
) -> NativeTool:
    """Search the web.

    Args:
        allowed_domains: The only ones to search.
        user_location: As ``{"type": "approximate", "city": "Kyiv"}``.
        search_context_size: How much of what is found the model reads.
    """
    filters = None if allowed_domains is None else {"allowed_domains": list(allowed_domains)}
    return NativeTool(
        _PROVIDER,
        "web_search",
        {
            "type": "web_search",
            "filters": filters,
            "user_location": user_location,
            "search_context_size": search_context_size,
        },
    )


def file_search(
    vector_store_ids: Sequence[str],
    *,
    max_num_results: int | None = None,
    filters: Mapping[str, Any] | None = None,
    ranking_options: Mapping[str, Any] | None = None,
) -> NativeTool:
    """Search in vector stores.

    Args:
        vector_store_ids: Which.
        max_num_results: Most results of a search.
        filters: On attributes of the files.
        ranking_options: ``ranker`` and ``score_threshold``.
    """
    return NativeTool(
        _PROVIDER,
        "file_search",
        {
            "type": "file_search",
            "vector_store_ids": list(vector_store_ids),
            "max_num_results": max_num_results,
            "filters": filters,
            "ranking_options": ranking_options,
        },
    )


def code_interpreter(
    container: str | Mapping[str, Any] | None = None, *, file_ids: Sequence[str] | None = None
) -> NativeTool:
    """Run Python in a container.

    Args:
        container: An id, or its options; default a new one: ``{"type": "auto"}``.
        file_ids: Files for a new container.
    """
    if container is None:
        container = {"type": "auto", **({} if file_ids is None else {"file_ids": list(file_ids)})}
    return NativeTool(_PROVIDER, "code_interpreter", {"type": "code_interpreter", "container": container})


def image_generation(**options: Any) -> NativeTool:
    """Draw; the pictures are image blocks of the answer.

    Args:
        **options: As ``size``, ``quality``, ``background``, ``output_format``, ``partial_images``, ``input_fidelity``.
    """
    return NativeTool(_PROVIDER, "image_generation", {"type": "image_generation", **options})


def mcp(
    server_label: str,
    *,
    server_url: str | None = None,
    connector_id: str | None = None,
    authorization: str | None = None,
    headers: Mapping[str, str] | None = None,
    allowed_tools: Sequence[str] | Mapping[str, Any] | None = None,
    require_approval: Literal["always", "never"] | Mapping[str, Any] | None = None,
    server_description: str | None = None,
) -> NativeTool:
    """Tools of a remote MCP server, called by OpenAI.

    Args:
        server_label: What the server is called.
        server_url: Where it is; or
        connector_id: Which of OpenAI's connectors it is.
        authorization: A token for it.
        headers: Sent to it.
        allowed_tools: The only ones to call.
        require_approval: Which calls wait for approval; OpenAI's default is all.
        server_description: For the model.
    """
    return NativeTool(
        _PROVIDER,
        server_label,
        {
            "type": "mcp",
            "server_label": server_label,
            "server_url": server_url,
            "connector_id": connector_id,
            "authorization": authorization,
            "headers": headers,
            "allowed_tools": allowed_tools,
            "require_approval": require_approval,
            "server_description": server_description,
        },
    )


def computer_use(
    display_width: int,
    display_height: int,
    environment: Literal["browser", "mac", "windows", "ubuntu", "linux"] = "browser",
) -> NativeTool:
    """A screen with mouse and keyboard; its calls stand in the metadata.

    Args:
        display_width: Width of the screen.
        display_height: Height of the screen.
        environment: What is on the screen.
    """
    return NativeTool(
        _PROVIDER,
        "computer_use_preview",
        {
            "type": "computer_use_preview",
            "display_width": display_width,
            "display_height": display_height,
            "environment": environment,
        },
    )


def local_shell() -> NativeTool:
    """A shell; its calls stand in the metadata."""
    return NativeTool(_PROVIDER, "local_shell", {"type": "local_shell"})
