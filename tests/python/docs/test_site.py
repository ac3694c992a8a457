"""The documentation site: a place for every page, every public module in the reference, and no warning."""

import importlib.util
import json
import os
import pkgutil
import re
import subprocess
from pathlib import Path

import pytest

import turntree

ROOT = Path(__file__).resolve().parents[3]
MKDOCS = ROOT / "target" / "site-venv" / "bin" / "mkdocs"
CONFIGURATION = (ROOT / "mkdocs.yml").read_text("utf-8")
HOOKS = (ROOT / "tools" / "site_hooks.py").read_text("utf-8")
# They extend other modules: vendors' tools and prices are described in the guide of providers.
NOT_IN_THE_REFERENCE = {
    "turntree.upp.native",
    "turntree.upp.prices",
    "turntree.durable.absurd",
    "turntree.durable.dbos",
}


def test_every_page_has_a_place_in_the_navigation():
    named = re.findall(r"^ +- (\S+\.md)$", CONFIGURATION, re.MULTILINE)

    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md") if "api" not in path.parts}
    assert sorted(named) == sorted(pages)


def test_the_reference_has_every_public_module():
    found = pkgutil.walk_packages(turntree.__path__, "turntree.", onerror=lambda name: None)
    public = {"turntree", *(module.name for module in found if "._" not in module.name and ".ext" not in module.name)}
    public = {name for name in public if not name.startswith(("turntree.__main__", "turntree.upp.native."))}

    assert public - NOT_IN_THE_REFERENCE == set(re.findall(r'^    "(turntree[\w.]*)":', HOOKS, re.MULTILINE))


def test_versions_are_listed_the_newest_first_and_the_start_page_leads_there(tmp_path):
    spec = importlib.util.spec_from_file_location("site_versions", ROOT / "tools" / "site_versions.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    for name in ("0.9", "dev", "0.10", "0.2.1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    (tmp_path / "assets").mkdir()

    assert tool.write(tmp_path) == ["0.10", "0.9", "0.2.1", "dev"]
    listed = json.loads((tmp_path / "versions.json").read_text("utf-8"))
    assert [row["version"] for row in listed if "latest" in row["aliases"]] == ["0.10"]
    assert "url=0.10/" in (tmp_path / "index.html").read_text("utf-8")


# Continuous integration builds the site by `make site`, after the tests.
@pytest.mark.skipif(not MKDOCS.exists(), reason="the packages of the site are not installed: make site")
@pytest.mark.timeout(300)
def test_the_site_builds_without_a_warning_and_asks_no_other_host(tmp_path):
    command = [MKDOCS, "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"]

    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    start = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert (
        re.findall(
            r'<(?:script|img|iframe)[^>]*src="https?:|<link rel="(?:stylesheet|preconnect)" href="https?:', start
        )
        == []
    )
    assert "def" in (tmp_path / "site" / "reference" / "turntree.store" / "index.html").read_text("utf-8")
    listed = (tmp_path / "site" / "llms.txt").read_text("utf-8")
    assert "- [Glossary](" in listed
    assert "- [turntree.thread_protocol](" in listed
