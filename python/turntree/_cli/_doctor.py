"""The command ``turntree doctor``: the versions for a bug report."""

from __future__ import annotations

import json
import platform
import sys
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

OPTIONAL = {
    "pydantic": "fields of models",
    "pydantic-ai-slim": "live histories",
    "pyarrow": "columns, Parquet",
    "zstandard": "files ending in .zst",
    "ipython": "notebooks",
    "opentelemetry-api": "traces",
}
"""Optional packages, and their purpose."""


def add(commands: Any) -> None:
    """Add the command to a parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help="show the installed versions",
        description="Shows the installed versions of turntree, Python and optional packages.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the versions and return the exit status."""
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
        "files ending in .zst": "yes" if util.find_spec("compression") or util.find_spec("zstandard") else "no",
        "optional": {name: package.version if (package := _distribution(name)) else None for name in OPTIONAL},
    }


def _distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
