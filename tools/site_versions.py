"""Adds a built site to the folder that is published: one subfolder for each version, and a list of them.

    python tools/site_versions.py FOLDER

The subfolders with a page `index.html` are the versions. The file `versions.json` is what the theme Material reads for
its selector of versions, and `index.html` leads to the newest one.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path


def versions_of(folder: Path) -> list[str]:
    """Return the versions of a folder, the newest first; names that are no numbers, such as dev, come last."""

    def order(name: str) -> tuple[bool, list[int]]:
        numbers = [int(part) for part in re.findall(r"\d+", name)]
        return name[:1].isdigit(), numbers

    found = [path.parent.name for path in folder.glob("*/index.html")]
    return sorted(sorted(found), key=order, reverse=True)


def write(folder: Path) -> list[str]:
    """Write the list and the start page. Returns the versions."""
    versions = versions_of(folder)
    rows = [
        {"version": name, "title": name, "aliases": ["latest"] if not at else []} for at, name in enumerate(versions)
    ]
    (folder / "versions.json").write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    start = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={versions[0]}/">\n'
    (folder / "index.html").write_text(start, "utf-8")
    return versions


if __name__ == "__main__":
    print(*write(Path(sys.argv[1])))
