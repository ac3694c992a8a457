"""The command ``turntree doctor``: the installation, providers that can be reached, and the check of a store."""

from __future__ import annotations

import json
import platform
import re
import shutil
import sys
import sysconfig
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turntree._cli._reach import Reached, keys, reach
from turntree._cli._stores import add_store, open_store
from turntree._cli._terminal import CliError, print_error, print_json, printable
from turntree.exceptions import CorruptDataError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

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
        help="check the installation, providers or a store",
        description="Shows the versions of turntree, Python and optional packages, the features and extras of the "
        "installation, the event loop, and which providers have a key. The network is used only with --reach. With "
        "--store, reads all sessions of a store and names those that are damaged. The exit status is 1 if something "
        "is wrong.",
        allow_abbrev=False,
    )
    add_store(parser)
    parser.add_argument(
        "--reach",
        nargs="*",
        metavar="PROVIDER",
        help="ask providers, or addresses such as http://localhost:8000/v1, whether they can be reached; without a "
        "valid key, so that it costs nothing (default: those with a key)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the versions, or the state of a store, and return the exit status."""
    if options.store is not None:
        if options.reach is not None:
            raise CliError("--store and --reach exclude each other", 2)
        return check_store(options.store, as_json=options.json)
    values = environment()
    try:
        reached = [] if options.reach is None else reach(options.reach or list(keys()))
    except ValueError as error:
        raise CliError(str(error), 2) from error
    if options.reach is not None:
        values["reached"] = [one._asdict() for one in reached]
    if options.json:
        print_json(values)
    else:
        _print({**values}, reached)
    return 1 if values["problems"] or not all(one.reachable for one in reached) else 0


def _print(values: dict[str, Any], reached: Sequence[Reached]) -> None:
    optional, extras, problems = values.pop("optional"), values.pop("extras"), values.pop("problems")
    found = values.pop("keys")
    values.pop("reached", None)
    lines = {name: str(value) for name, value in values.items()}
    lines |= {name: f"{version or 'not installed'} ({OPTIONAL[name]})" for name, version in optional.items()}
    lines["extras"] = ", ".join(name for name, missing in extras.items() if not missing) or "none"
    lines["keys"] = ", ".join(f"{name} ({variable})" for name, variable in found.items()) or "none"
    lines |= {one.provider: f"{'reached' if one.reachable else 'NOT REACHED'}: {one.answer}" for one in reached}
    width = max(map(len, lines))
    for name, value in lines.items():
        print(f"{name.ljust(width)}  {printable(value)}")
    for problem in problems:
        print_error(problem, 1)


def check_store(url: str, *, as_json: bool) -> int:
    """Print schema, counts, sizes and defects of a store. Return 1 if there are defects."""
    with open_store(url, must_exist=True) as opened:
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
        "free-threaded": "yes" if sysconfig.get_config_var("Py_GIL_DISABLED") else "no",
        "event loop": _event_loop(),
        "event loop policy": _event_loop_policy(),
        "native hook program": shutil.which("turntree-hook") or "not installed",
        "files ending in .zst": "yes" if util.find_spec("compression") or util.find_spec("zstandard") else "no",
        "optional": {name: package.version if (package := _distribution(name)) else None for name in OPTIONAL},
        "extras": _extras(distribution),
        "keys": keys(),
        "problems": _problems(turntree.__version__, distribution),
    }


def _extras(distribution: metadata.Distribution | None) -> dict[str, list[str]]:
    """Return the packages of each extra that are not installed."""
    if distribution is None:
        return {}
    extras: dict[str, list[str]] = {name: [] for name in distribution.metadata.get_all("Provides-Extra") or []}
    for requirement in distribution.requires or []:
        package, extra = re.match(r"[\w.-]+", requirement), re.search(r"extra == ['\"]([\w.-]+)", requirement)
        is_older = re.search(r"python_version < ['\"]3\.(\d+)", requirement)
        if package is None or extra is None or (is_older and sys.version_info >= (3, int(is_older[1]))):
            continue
        if _distribution(package[0]) is None:
            extras.setdefault(extra[1], []).append(package[0])
    return extras


def _problems(version: str, distribution: metadata.Distribution | None) -> list[str]:
    """Return what is wrong with the installation."""
    if distribution is not None and _release(distribution.version) != _release(version):
        return [
            f"the native module is of turntree {version}, the package of {distribution.version}; remove both with "
            "pip uninstall turntree, and install again"
        ]
    return []


def _release(version: str) -> str:
    found = re.match(r"\d+(\.\d+)*", version)
    return found[0] if found else version


def _event_loop() -> str:
    """Return the class of the event loops that `asyncio.run` makes here."""
    import asyncio

    loop = asyncio.new_event_loop()
    loop.close()
    return f"{type(loop).__module__}.{type(loop).__qualname__}"


def _event_loop_policy() -> str:
    """Return the class of the policy that makes event loops. Python deprecates policies from 3.14."""
    import asyncio
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        policy = getattr(asyncio, "get_event_loop_policy", lambda: None)()
    return "none" if policy is None else f"{type(policy).__module__}.{type(policy).__qualname__}"


def _distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
