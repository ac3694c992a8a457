"""The source distribution is complete: its lock file fits its manifests."""

import shutil
import subprocess
import sys
import tarfile

import pytest


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is missing")
def test_the_lock_file_of_the_source_distribution_is_current(root, tmp_path):
    build = [sys.executable, "-m", "maturin", "sdist", "--out", str(tmp_path)]
    subprocess.run(build, cwd=root, check=True, capture_output=True, timeout=60)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())

    locked = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    done = subprocess.run(locked, cwd=folder, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
