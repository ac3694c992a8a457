"""The code of the README and the guides runs, in an empty directory.

Every ```python block runs, in order; a ```text block after it contains its expected output.
"""

import logging
import re

import pytest
import tomllib
from docs_pages import DOCUMENTS, ROOT, TESTED_ELSEWHERE, blocks, imported, run_document

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Links of the README are absolute, because the page of the package has no other files.
REPOSITORY = f"{PROJECT['urls']['Repository']}/blob/main/"


def name_of(path):
    """The name of a document in the ids of tests."""
    return str(path.relative_to(ROOT / "docs" if path.is_relative_to(ROOT / "docs") else ROOT))


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def own_logging():
    """The levels and handlers that a document sets end with it."""
    loggers = [logging.getLogger(), *(logging.getLogger(name) for name in list(logging.root.manager.loggerDict))]
    before = [(logger, logger.level, list(logger.handlers)) for logger in [*loggers, logging.getLogger("turntree")]]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path.name not in TESTED_ELSEWHERE], ids=name_of)
@pytest.mark.usefixtures("own_logging")
def test_the_code_of_a_document_runs(path, directory):
    run_document(path, directory)


# Packages whose name differs from that of their module.
PACKAGES = {"a2a": "a2a-sdk", "absurd_sdk": "turntree[absurd]", "agents": "openai-agents", "pyarrow": "turntree[arrow]"}
COMMAND = re.compile(r"pip install ([^\n`]*)|(turntree\[[\w,-]+\])")


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_a_document_names_the_packages_that_its_code_needs(path):
    text = path.read_text("utf-8")
    named = " ".join("".join(found) for found in COMMAND.findall(text)).replace("_", "-")
    modules = {name for language, _, code in blocks(path) if language in ("python", "py") for name in imported(code)}

    assert [name for name in sorted(modules) if PACKAGES.get(name, name).replace("_", "-") not in named] == []


def test_the_readme_begins_with_the_installation_and_an_agent_of_six_lines():
    found = [(language, code) for language, _, code in blocks(ROOT / "README.md")]

    assert found[0] == ("sh", "pip install turntree\n")
    assert found[1][0] == "python"
    assert len([line for line in found[1][1].splitlines() if line]) == 6
    assert found[2][0] == "text"


def test_the_readme_has_the_commands_of_contributors():
    commands = [code for language, _, code in blocks(ROOT / "README.md") if language == "sh"]

    assert [line.split("  ")[0] for line in commands[1].splitlines()] == ["make demo", "make test"]


def links(path):
    return re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))


def test_the_links_of_the_readme_are_absolute_and_its_files_exist():
    found = links(ROOT / "README.md")

    files = [target.removeprefix(REPOSITORY) for target in found if target.startswith(REPOSITORY)]
    assert [target for target in found if "://" not in target] == []
    assert files
    assert [name for name in files if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_the_links_of_a_document_resolve(path):
    local = [target for target in links(path) if "://" not in target]

    assert [target for target in local if not (path.parent / target).exists()] == []
