"""Runs the command ``turntree`` as a shell does, for its tests."""

import os
import subprocess
import sys
from pathlib import Path

from turntree import thread_protocol as tp

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "examples" / "data"
COMMAND = Path(sys.executable).with_name("turntree")
HISTORIES = [path.read_text(encoding="utf-8").strip() for path in sorted(DATA.glob("*.json"))]
THREADS = [tp.from_pydantic_ai(history).model_dump_json() for history in HISTORIES]
BROKEN = '[{"kind": "request", "parts": [{"content": "x"}]}]'


def turntree(*arguments, stdin=b"", **environment):
    """Run the command with bytes as standard input. Returns the completed process with its output as bytes."""
    command = [str(COMMAND), *map(str, arguments)]
    env = {**os.environ, "PYTHONIOENCODING": "utf-8", **environment}
    return subprocess.run(command, input=stdin, capture_output=True, env=env, timeout=50)


def fails(status, words, *arguments, **options):
    """Run a command that must fail with a message of one line. Returns the completed process."""
    done = turntree(*arguments, **options)
    said = done.stderr.decode()
    assert done.returncode == status, said
    assert "Traceback" not in said
    assert words in said
    return done
