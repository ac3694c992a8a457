"""Native tools of OpenRouter.

Plugins are parameters, not tools: ``params={"plugins": […]}``.

Spec: UPP-1.2 §19.6.
"""

from __future__ import annotations

from typing import Any

from turntree._public_names import set_public_module as _set_public_module
from turntree.upp.native._tool import NativeTool

__all__ = ["web_search"]


def web_search(**parameters: Any) -> NativeTool:
    """Search the web if the model requests it. Executed by OpenRouter.

    Args:
        **parameters: Options, such as ``engine`` and ``max_results``.
    """
    definition = {"type": "openrouter:web_search", "parameters": parameters or None}
    return NativeTool("openrouter", "web_search", definition)


_set_public_module(__name__, globals())
