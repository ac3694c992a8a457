"""Native tools of Moonshot (builtin functions).

The model calls a builtin function like a tool. The client returns the arguments of the call as its result, and Moonshot
executes the function when it reads this result. `run` of these tools does so.

Spec: UPP-1.2 §19.8.
"""

from __future__ import annotations

from typing import Any

from turntree._public_names import set_public_module as _set_public_module
from turntree.upp.native._tool import NativeTool

__all__ = [
    "base64_decode",
    "base64_encode",
    "code_runner",
    "convert",
    "date",
    "fetch",
    "memory",
    "mew_generator",
    "quickjs",
    "random_choice",
    "rethink",
    "web_search",
]


def _echo(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


def _builtin_function(name: str) -> NativeTool:
    definition = {"type": "builtin_function", "function": {"name": f"${name}"}}
    return NativeTool("moonshot", f"${name}", definition, run=_echo)


def web_search() -> NativeTool:
    """Search the web."""
    return _builtin_function("web_search")


def code_runner() -> NativeTool:
    """Run Python code."""
    return _builtin_function("code_runner")


def quickjs() -> NativeTool:
    """Run JavaScript code."""
    return _builtin_function("quickjs")


def fetch() -> NativeTool:
    """Read a web page."""
    return _builtin_function("fetch")


def convert() -> NativeTool:
    """Convert units."""
    return _builtin_function("convert")


def date() -> NativeTool:
    """Calculate dates and times."""
    return _builtin_function("date")


def base64_encode() -> NativeTool:
    """Encode base64."""
    return _builtin_function("base64_encode")


def base64_decode() -> NativeTool:
    """Decode base64."""
    return _builtin_function("base64_decode")


def memory() -> NativeTool:
    """Store and read a memory across conversations."""
    return _builtin_function("memory")


def rethink() -> NativeTool:
    """Organize the thoughts of the model."""
    return _builtin_function("rethink")


def random_choice() -> NativeTool:
    """Choose at random."""
    return _builtin_function("random_choice")


def mew_generator() -> NativeTool:
    """Generate cat sounds."""
    return _builtin_function("mew_generator")


_set_public_module(__name__, globals())
