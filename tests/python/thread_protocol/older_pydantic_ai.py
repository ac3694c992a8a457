"""Installations of older versions of pydantic-ai, each in a separate venv, made once."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

# The versions of `make test-versions`: the oldest supported version, the largest changes of the format, and versions
# between the changes.
GATE = ["1.0.0", "1.56.0", "1.107.5", "2.0.0", "2.10.0", "2.33.0", "2.56.0"]

# In addition, the first version after each change of the messages (`make test-long`).
CHANGED = [
    *["1.0.2", "1.0.3", "1.0.5", "1.0.15", "1.0.16", "1.0.18", "1.15.0", "1.18.0", "1.20.0", "1.22.0", "1.31.0"],
    *["1.38.0", "1.47.0", "1.50.0", "1.65.0", "1.67.0", "1.74.0", "1.80.0", "1.89.0", "1.92.0", "1.95.0", "1.97.0"],
    *["1.105.0", "1.107.10", "2.4.0", "2.20.0", "2.23.0", "2.26.0", "2.28.0", "2.42.0", "2.50.0", "2.52.0", "2.55.0"],
    *["2.58.0", "2.59.0", "2.60.0", "2.61.0", "2.62.0", "2.63.0", "2.64.0", "2.66.0"],
]

WANTED = {"1": GATE, "all": [*GATE, *CHANGED]}.get(os.environ.get("TURNTREE_OLD_PYDANTIC_AI", ""), [])

REASON = "NOT TESTED with older versions of pydantic-ai: TURNTREE_OLD_PYDANTIC_AI is not set (make test-versions)"

# Prints what the installed version dumps after loading each line.
RELOAD = """
import json, sys, warnings
warnings.simplefilter("ignore")
from pydantic_ai.messages import ModelMessagesTypeAdapter as Adapter
for line in open(sys.argv[1], "rb"):
    step = "load"
    try:
        history = Adapter.validate_json(line)
        step = "dump"
        print(json.dumps({"dump": Adapter.dump_json(history).decode()}))
    except Exception as error:
        print(json.dumps({"error": f"{step}: {' '.join(str(error).split())[:300]}"}))
"""


def python_beside(version: str) -> Path:
    """A Python with this version of pydantic-ai, installed once."""
    home = ROOT / "target/pydantic-ai" / f"{version}-py{sys.version_info.major}{sys.version_info.minor}"
    python = home / "bin/python"
    if not (home / ".ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(home)], check=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
        major, minor = (int(number) for number in version.split(".")[:2])
        # Up to 1.31, pydantic-ai imports a module that later versions of this package do not have.
        extra = ["opentelemetry-api<1.37"] if (major, minor) <= (1, 31) else []
        subprocess.run([*pip, "install", "-q", "--no-compile", f"pydantic-ai-slim=={version}", *extra], check=True)
        (home / ".ready").touch()
    return python


def reloaded(version: str, histories: Sequence[bytes], folder: Path) -> list[str | bytes]:
    """What a version dumps after loading each history, or the error as `str`."""
    source = folder / "histories.jsonl"
    source.write_bytes(b"".join(history.replace(b"\n", b" ") + b"\n" for history in histories))
    done = subprocess.run(
        [python_beside(version), "-c", RELOAD, str(source)], capture_output=True, text=True, check=True
    )
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(histories)
    return [result["dump"].encode() if "dump" in result else result["error"] for result in results]
