"""Repositories with an empty commit, and the command line in them."""

import subprocess

import pytest

from turntree._cli import main


@pytest.fixture
def empty_repository(tmp_path):
    folder = tmp_path / "main"
    folder.mkdir()
    for command in ("init -q -b main", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m Start"):
        subprocess.run(["git", "-C", folder, *command.split()], check=True)
    (folder / "policies").mkdir()
    return folder


@pytest.fixture
def run(repository, capsys):
    """Run a command about the repository of the module; give its status and its output."""

    def run(*words):
        status = main([*words, "--project", str(repository)])
        return status, capsys.readouterr().out

    return run
