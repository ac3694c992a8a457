"""The command ``turntree doctor``: the versions for a bug report, and the check of a store."""

from __future__ import annotations

import json
import platform
import sys
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turntree._cli._stores import add_store, open_store
from turntree._cli._terminal import printable
from turntree.exceptions import CorruptDataError

if TYPE_CHECKING:
    import argparse

    from turntree.store import Store

OPTIONAL = {
    "pydantic": "fields of models",
    "pydantic-ai-slim": "live histories",
    "pyarrow": "columns, Parquet",
    "zstandard": "files ending in .zst",
    "msgpack": "imports from LangGraph",
    "ipython": "notebooks",
    "opentelemetry-api": "traces",
}
"""Optional packages, and their purpose."""


def add(commands: Any) -> None:
    """Add the command to a parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help="show the installed versions, or check a store",
        description="Shows the installed versions of turntree, Python and optional packages. With --store, reads all "
        "sessions of a store and names those that are damaged; the exit status is then 1.",
        allow_abbrev=False,
    )
    add_store(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the versions, or the state of a store, and return the exit status."""
    if options.store is not None:
        return check_store(options.store, as_json=options.json)
    values = environment()
    if options.json:
        print(json.dumps(values))
    else:
        optional = values.pop("optional")
        width = max(map(len, [*values, *optional]))
        for name, value in values.items():
            print(f"{name.ljust(width)}  {value}")
        for name, version in optional.items():
            print(f"{name.ljust(width)}  {version or 'not installed'} ({OPTIONAL[name]})")
    return 0


def check_store(url: str, *, as_json: bool) -> int:
    """Print schema, counts, sizes and defects of a store. Return 1 if there are defects."""
    with open_store(url) as opened:
        issues = opened.check_sync()
        counts = {"sessions": 0, "idle": 0, "unfinished": 0, "waiting": 0, "turns": 0, "nodes": 0, "bytes": 0}
        listed = True
        try:
            _count(opened, counts)
        except CorruptDataError:
            listed = False  # check has found the reason
        values = {"store": repr(opened)[len("<Store: ") : -1], "schema": opened.schema, **counts}
    if as_json:
        found = [{"session": issue.session, "message": issue.message} for issue in issues]
        print(json.dumps({**values, "complete": listed, "issues": found}))
    else:
        width = max(map(len, values))
        for name, value in values.items():
            print(f"{name.ljust(width)}  {printable(str('none' if value is None else value))}")
        for issue in issues:
            print(printable(str(issue)))
        print(f"{len(issues)} issue{'' if len(issues) == 1 else 's'}" if issues else "no issues")
    return 1 if issues else 0


def _count(opened: Store, counts: dict[str, int]) -> None:
    after = None
    while True:
        page = opened.sessions_sync(limit=1000, after=after)
        for info in page:
            counts["sessions"] += 1
            counts[info.status] += 1
            counts["turns"] += info.turns
            counts["nodes"] += info.nodes
            counts["bytes"] += info.bytes
        after = page.next
        if after is None:
            return


def environment() -> dict[str, Any]:
    """Return the versions of turntree, Python and optional packages, and their paths."""
    import turntree
    from turntree import _core

    distribution = _distribution("turntree")
    wheel = (distribution.read_text("WHEEL") if distribution else None) or ""
    tags = [line.removeprefix("Tag: ") for line in wheel.splitlines() if line.startswith("Tag: ")]
    return {
        "turntree": turntree.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "wheel": ", ".join(tags) or "none: an editable or bundled installation",
        "native module": str(Path(str(_core.__file__))),
        "executable": sys.executable,
        "event loop": _event_loop(),
        "files ending in .zst": "yes" if util.find_spec("compression") or util.find_spec("zstandard") else "no",
        "optional": {name: package.version if (package := _distribution(name)) else None for name in OPTIONAL},
    }


def _event_loop() -> str:
    """Return the class of the event loops that `asyncio.run` makes here."""
    import asyncio

    loop = asyncio.new_event_loop()
    loop.close()
    return f"{type(loop).__module__}.{type(loop).__qualname__}"


def _distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
