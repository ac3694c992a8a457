"""A process exits with its own status while daemon threads run agents."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import turntree

VERSIONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]

# Processes for each of the 12 scenarios. Without the protection, most scenarios fail in half of the processes.
PROCESSES = int(os.environ.get("TURNTREE_EXITS", "4"))


def interpreter(version):
    """The path of an interpreter, or None. The extension module serves all versions."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    installed = sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
    return str(installed[-1]) if installed else shutil.which(f"python{version}")


# 48 processes a version: 3 s.
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forked")
@pytest.mark.parametrize("version", VERSIONS)
def test_exit_during_a_daemon_thread_ends_the_process_with_its_status(root, tmp_path, version):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed")
    (tmp_path / "turntree").symlink_to(Path(turntree.__file__).parent)
    script = root / "tests" / "python" / "support" / "leaves.py"

    done = subprocess.run(
        [python, script, str(PROCESSES)],
        capture_output=True,
        text=True,
        timeout=1200,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {}, done.stderr[-2_000:]
    assert "FATAL" not in done.stderr
    assert "panicked" not in done.stderr
