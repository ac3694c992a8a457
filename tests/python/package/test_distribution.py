"""What the installed wheel says about the code in it: licence texts and the bill of materials."""

import json
import re
import shutil
import subprocess
import sys
from importlib import metadata

import pytest


def distributed(name):
    files = [file for file in metadata.files("turntree") or () if file.name == name]
    assert len(files) == 1, f"the wheel has {len(files)} files of the name {name}"
    return files[0].read_text(encoding="utf-8")


def crates_of_the_bill():
    components = json.loads(distributed("turntree.cyclonedx.json"))["components"]
    return {(one["name"], one["version"]): one for one in components}


@pytest.mark.parametrize("name", ["LICENSE-MIT", "LICENSE-APACHE"])
def test_the_wheel_contains_its_own_licences(name, root):
    assert distributed(name) == (root / name).read_text(encoding="utf-8")


def test_the_wheel_contains_a_licence_text_of_each_crate_that_it_links():
    texts = distributed("LICENSE-THIRD-PARTY")

    others = [crate for crate in crates_of_the_bill() if not crate[0].startswith("turntree")]

    assert len(others) > 100
    assert [crate for crate in others if f"\n{crate[0]} {crate[1]} (" not in texts] == []
    # A licence that asks for the source names the crate, and its text is there.
    assert "Mozilla Public License Version 2.0" in texts


def test_the_bill_of_materials_has_package_urls_and_no_paths_of_the_machine_that_built():
    text = distributed("turntree.cyclonedx.json")

    assert json.loads(text)["specVersion"] == "1.5"
    assert all(one["purl"] == f"pkg:cargo/{name}@{version}" for (name, version), one in crates_of_the_bill().items())
    # Neither URLs of files nor absolute paths.
    assert re.findall(r'file:|path\+|"/|"[A-Z]:', text) == []


def test_the_bill_of_materials_resolves_all_dependencies():
    bill = json.loads(distributed("turntree.cyclonedx.json"))

    known = {bill["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in bill["components"])}

    assert {one["ref"] for one in bill["dependencies"]} == known
    assert {target for one in bill["dependencies"] for target in one["dependsOn"]} <= known


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is missing")
def test_licences_and_bill_of_materials_match_the_lock_file(root):
    check = [sys.executable, "tools/third_party.py", "--check"]

    done = subprocess.run(check, cwd=root, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr


def test_the_native_hook_program_is_built_where_maturin_looks_for_programs(root):
    module = re.search(r'^module-name = "(.+)"$', (root / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert module is not None

    # Without this folder, maturin builds a wheel without programs, and says nothing.
    folder = f"{module[1]}.data/scripts"

    assert f"\noutput={folder}\n" in (root / "tools/build-hook").read_text(encoding="utf-8")
    assert f"\n/{module[1]}.data/\n" in (root / ".gitignore").read_text(encoding="utf-8")
