"""Native tools of OpenAI, for its Responses API.

OpenAI executes all of them except `computer_use` and `local_shell`, whose calls are in the metadata of the response.

Spec: UPP-1.2 §19.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from turntree._public_names import set_public_module as _set_public_module
from turntree.upp.native._tool import NativeTool

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
        allowed_domains: Search only these domains.
        user_location: Location of the user, such as ``{"type": "approximate", "city": "Kyiv"}``.
        search_context_size: How much of the results the model reads.
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
        vector_store_ids: Ids of the stores.
        max_num_results: The maximum number of results per search.
        filters: Filters on attributes of the files.
        ranking_options: A dict with ``ranker`` and ``score_threshold``.
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
    """Run Python code in a container.

    Args:
        container: Id of a container, or its options. Default: a new one, ``{"type": "auto"}``.
        file_ids: Files for a new container.
    """
    if container is None:
        container = {"type": "auto", **({} if file_ids is None else {"file_ids": list(file_ids)})}
    return NativeTool(_PROVIDER, "code_interpreter", {"type": "code_interpreter", "container": container})


def image_generation(**options: Any) -> NativeTool:
    """Generate images. They are image blocks of the response.

    Args:
        **options: Options, such as ``size``, ``quality``, ``background``, ``output_format``, ``partial_images``,
            ``input_fidelity``.
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
    """Tools of a remote MCP server. Called by OpenAI.

    Args:
        server_label: Name of the server.
        server_url: URL of the server.
        connector_id: Id of a connector of OpenAI, instead of `server_url`.
        authorization: OAuth token for the server.
        headers: Headers of the requests to the server.
        allowed_tools: Names of the tools that may be called. Default: all.
        require_approval: The calls that require approval. Default of OpenAI: all.
        server_description: Description of the server for the model.
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
    """A screen with mouse and keyboard. Its calls are in the metadata of the response.

    Args:
        display_width: Width of the screen in pixels.
        display_height: Height of the screen in pixels.
        environment: The operating system, or "browser".
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
    """A shell. Its calls are in the metadata of the response."""
    return NativeTool(_PROVIDER, "local_shell", {"type": "local_shell"})


_set_public_module(__name__, globals())
