"""Native tools of Groq. Groq executes them and lists them in ``executed_tools``.

Spec: UPP-1.2 §19.8.
"""

from __future__ import annotations

from turntree._public_names import set_public_module as _set_public_module
from turntree.upp.native._tool import NativeTool

__all__ = ["browser_search", "code_interpreter"]


def browser_search() -> NativeTool:
    """Search the web and read pages."""
    return NativeTool("groq", "browser_search", {"type": "browser_search"})


def code_interpreter() -> NativeTool:
    """Run Python code."""
    return NativeTool("groq", "code_interpreter", {"type": "code_interpreter"})


_set_public_module(__name__, globals())
