"""Helpers that Moonshot runs, called as functions.

The model calls a helper as it would call a tool, and Moonshot runs it when it reads the call's own arguments as its
result. So each of them answers with what it was called with; in ``tools=[…]`` an agent does that by itself.

Spec: UPP-1.2 §19.8.
"""

from __future__ import annotations

from typing import Any

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


def _helper(name: str) -> NativeTool:
    definition = {"type": "builtin_function", "function": {"name": f"${name}"}}
    return NativeTool("moonshot", f"${name}", definition, run=_echo)


def web_search() -> NativeTool:
    """Search the web."""
    return _helper("web_search")


def code_runner() -> NativeTool:
    """Run Python."""
    return _helper("code_runner")


def quickjs() -> NativeTool:
    """Run JavaScript."""
    return _helper("quickjs")


def fetch() -> NativeTool:
    """Read a page."""
    return _helper("fetch")


def convert() -> NativeTool:
    """Convert units."""
    return _helper("convert")


def date() -> NativeTool:
    """Tell dates and times."""
    return _helper("date")


def base64_encode() -> NativeTool:
    """Encode base64."""
    return _helper("base64_encode")


def base64_decode() -> NativeTool:
    """Decode base64."""
    return _helper("base64_decode")


def memory() -> NativeTool:
    """Remember between conversations."""
    return _helper("memory")


def rethink() -> NativeTool:
    """Think again."""
    return _helper("rethink")


def random_choice() -> NativeTool:
    """Choose at random."""
    return _helper("random_choice")


def mew_generator() -> NativeTool:
    """Make cats' words."""
    return _helper("mew_generator")
