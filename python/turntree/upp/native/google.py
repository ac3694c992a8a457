"""Native tools of Google. Google executes them.

Spec: UPP-1.2 §19.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turntree._public_names import set_public_module as _set_public_module
from turntree.upp.native._tool import NativeTool

__all__ = ["code_execution", "file_search", "google_maps", "google_search", "url_context"]

_PROVIDER = "google"


def google_search(*, time_range_filter: Mapping[str, Any] | None = None) -> NativeTool:
    """Ground the response in a web search.

    Args:
        time_range_filter: A dict with ``startTime`` and ``endTime``.
    """
    options = {} if time_range_filter is None else {"timeRangeFilter": time_range_filter}
    return NativeTool(_PROVIDER, "google_search", {"googleSearch": options})


def code_execution() -> NativeTool:
    """Run Python code."""
    return NativeTool(_PROVIDER, "code_execution", {"codeExecution": {}})


def url_context() -> NativeTool:
    """Read pages at URLs in the conversation."""
    return NativeTool(_PROVIDER, "url_context", {"urlContext": {}})


def google_maps(*, enable_widget: bool | None = None) -> NativeTool:
    """Ground the response in Google Maps.

    Args:
        enable_widget: Return a token for a map widget.
    """
    options = {} if enable_widget is None else {"enableWidget": enable_widget}
    return NativeTool(_PROVIDER, "google_maps", {"googleMaps": options})


def file_search(file_search_store_names: Sequence[str], *, metadata_filter: str | None = None) -> NativeTool:
    """Search in file search stores.

    Args:
        file_search_store_names: Names of the stores, such as ``fileSearchStores/my-store``.
        metadata_filter: Filter on the metadata of the files.
    """
    options: dict[str, Any] = {"fileSearchStoreNames": list(file_search_store_names)}
    if metadata_filter is not None:
        options["metadataFilter"] = metadata_filter
    return NativeTool(_PROVIDER, "file_search", {"fileSearch": options})


_set_public_module(__name__, globals())
