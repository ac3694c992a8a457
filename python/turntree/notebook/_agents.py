"""Agents and tools as HTML."""

from __future__ import annotations

from itertools import islice
from typing import Any

from turntree.notebook._page import ENTRIES, TEXT, Page, plain


def agent_html(agent: Any) -> str:
    """Return an agent: its name, model, instructions and tools."""
    page = Page()
    page.add(f"<p><b>Agent</b> {page.line(agent.name or '', 60)} <code>{page.line(repr(agent.model), 200)}</code></p>")
    if isinstance(agent.system, str):
        page.add(f"<details><summary>instructions</summary>{page.pre(agent.system, TEXT)}</details>")
    for tool in islice(agent.tools, ENTRIES):
        _tool(page, tool)
    page.entries(len(agent.tools), ENTRIES, "tools")
    return page.html()


def tool_html(tool: Any) -> str:
    """Return a tool: its name, description and the schema of its arguments."""
    page = Page()
    _tool(page, tool)
    return page.html()


def _tool(page: Page, tool: Any) -> None:
    page.add(f"<details><summary>tool <code>{page.line(tool.name, 80)}</code> ")
    page.add(f'<span class="dim">{page.line(tool.description)}</span></summary>')
    page.add(page.pre(tool.description), page.pre(plain(tool.parameters)), "</details>")
