"""Hooks of MkDocs: the pages of the reference, links to files of the repository, and llms.txt.

`mkdocs.yml` names this file. Nothing of turntree is imported.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
BRANCH = "blob/main"
# The public modules, in the order of the reference.
MODULES = {
    "turntree": "Agents, sessions and trees",
    "turntree.upp": "Models, messages and tools",
    "turntree.models": "Models, under a name of their own",
    "turntree.tools": "Tools, under a name of their own",
    "turntree.execution": "Strategies",
    "turntree.middleware": "Agent middleware",
    "turntree.upp.middleware": "Model middleware",
    "turntree.upp.files": "Files at vendors",
    "turntree.upp.params": "Parameters of vendors",
    "turntree.store": "Stores",
    "turntree.thread_protocol": "ThreadProtocol",
    "turntree.arrow": "Arrow tables",
    "turntree.mcp": "MCP",
    "turntree.harness": "Coding agents",
    "turntree.harness.hooks": "Hooks of coding agents",
    "turntree.uaip": "Workflows",
    "turntree.uamp": "Servers of agents",
    "turntree.durable": "Durable engines",
    "turntree.notebook": "Notebooks",
    "turntree.testing": "Tests",
    "turntree.tracing": "Traces",
    "turntree.exceptions": "Exceptions",
}
LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add one page of the reference for each public module."""
    rows = "\n".join(f"| [`{name}`]({name}.md) | {what} |" for name, what in MODULES.items())
    index = f"# Reference\n\nMade from the docstrings and stubs.\n\n| module | content |\n|---|---|\n{rows}\n"
    files.append(File.generated(config, "reference/index.md", content=index))
    for name in MODULES:
        content = f"# {name}\n\n::: {name}\n"
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    return files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the reference at the end of the navigation. A site of one version among others has a selector."""
    assert config.nav is not None
    if version := os.environ.get("TURNTREE_SITE_VERSION"):
        config.site_url = f"{config.site_url or ''}{version}/"
        config.extra["version"] = {"provider": "mike", "default": "latest"}
    config.nav.append({"Reference": ["reference/index.md", *(f"reference/{name}.md" for name in MODULES)]})
    return config


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files outside of docs/ into links to the repository. MkDocs reports missing files."""
    here = posixpath.dirname(page.file.src_uri)

    def outward(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", here, match[2]))
        is_page = path.startswith("docs/") and files.get_file_from_path(path.removeprefix("docs/")) is not None
        if is_page or not (ROOT / path).exists():
            return match[0]
        return f"{match[1]}{config.repo_url}/{BRANCH}/{path}{match[3] or ''}{match[4]}"

    parts: list[str] = []
    end = 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(outward, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(outward, markdown[end:])])


def on_nav(nav: Navigation, **_: Any) -> None:
    """Keep the navigation for llms.txt."""
    global _navigation
    _navigation = nav


_navigation: Navigation | None = None


def on_post_build(*, config: MkDocsConfig) -> None:
    """Write llms.txt: the pages with their addresses, for programs that read documentation."""
    assert _navigation is not None
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    section = None
    for page in _navigation.pages:
        parents = [item.title for item in page.ancestors]
        name = parents[-1] if parents else "Start"
        if name != section:
            lines += ["", f"## {name}", ""]
            section = name
        summary = first_sentence(page.markdown or "")
        lines.append(f"- [{page.title}]({page.canonical_url}){': ' + summary if summary else ''}")
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def first_sentence(markdown: str) -> str:
    """The first sentence below the title, without markup."""
    paragraph = next((part for part in markdown.split("\n\n")[1:] if re.match(r"[A-Za-z`\[]", part)), "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    return re.split(r"(?<=\.) ", plain, maxsplit=1)[0]
