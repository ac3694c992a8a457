"""Write what the wheel says about the crates it is built from: their licence texts and a CycloneDX SBOM.

    python tools/third_party.py            # writes LICENSE-THIRD-PARTY and requirements/turntree.cyclonedx.json
    python tools/third_party.py --check    # fails if one of them is not up to date

Reads Cargo.lock and the sources of the crates through `cargo metadata`. The result depends on Cargo.lock alone: it has
no time and no path. It covers the normal dependencies of the extension module on all platforms. Uses the standard
library only.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "turntree-python"
LICENSES = ROOT / "LICENSE-THIRD-PARTY"
SBOM = ROOT / "requirements" / "turntree.cyclonedx.json"
LICENSE_FILE = re.compile(r"(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)
# Where a crate offers a choice, the text of the first of these.
PREFERRED = ("MIT", "APACHE")
HEAD = """\
The extension module of turntree contains code of the crates listed here, under these licences. Their sources are
unchanged and public: https://crates.io/crates/NAME/VERSION has them.
"""


@dataclass(frozen=True)
class Crate:
    """A crate that is linked into the extension module.

    Attributes:
        package: Its entry in `cargo metadata`.
        dependencies: The package ids of the crates that it uses.
    """

    package: dict[str, Any]
    dependencies: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.package["name"]

    @property
    def version(self) -> str:
        return self.package["version"]

    @property
    def license(self) -> str:
        # Before 2015, "/" meant "OR".
        return re.sub(r"\s*/\s*", " OR ", self.package["license"] or "")

    @property
    def is_ours(self) -> bool:
        return self.package["source"] is None

    @property
    def reference(self) -> str:
        return f"pkg:cargo/{self.name}@{self.version}"


def linked_crates() -> dict[str, Crate]:
    """Return the extension module and all crates it links, by package id."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    crates: dict[str, Crate] = {}
    pending = [identity for identity, package in packages.items() if package["name"] == PACKAGE]
    while pending:
        identity = pending.pop()
        if identity in crates:
            continue
        edges = nodes[identity]["deps"]
        normal = sorted(edge["pkg"] for edge in edges if any(kind["kind"] is None for kind in edge["dep_kinds"]))
        crates[identity] = Crate(packages[identity], tuple(normal))
        pending += normal
    return crates


def license_texts(crate: Crate) -> list[str]:
    """Return the texts of a crate's licence files: one where the crate offers a choice, all of them otherwise."""
    folder = Path(crate.package["manifest_path"]).parent
    named = [path for path in folder.iterdir() if LICENSE_FILE.match(path.name)]
    files = sorted(file for path in named for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
    if "OR" in crate.license and "AND" not in crate.license:
        for preferred in PREFERRED:
            chosen = [file for file in files if preferred in file.name.upper()]
            if preferred in crate.license.upper() and chosen:
                files = chosen
                break
    return [_normalized(file.read_text(encoding="utf-8", errors="replace")) for file in files]


def standard_text(crate: Crate) -> str:
    """Return the licence text of a crate without a licence file: that of MIT with the crate's authors, or of Apache."""
    if "MIT" not in crate.license:
        # This text names nobody: it is the same for every work.
        if crate.license == "Apache-2.0":
            return _normalized((ROOT / "LICENSE-APACHE").read_text(encoding="utf-8"))
        raise SystemExit(f"{crate.name} {crate.version} has no licence file: add its text to {Path(__file__).name}")
    authors = ", ".join(re.sub(r"\s*<[^>]*>", "", author) for author in crate.package["authors"]) or "its authors"
    ours = (ROOT / "LICENSE-MIT").read_text(encoding="utf-8")
    return _normalized(re.sub(r"^Copyright .*$", f"Copyright (c) {authors}", ours, flags=re.MULTILINE))


def render_licenses(crates: dict[str, Crate]) -> str:
    """Return each text once, under the crates it belongs to."""
    others = sorted((crate for crate in crates.values() if not crate.is_ours), key=lambda one: (one.name, one.version))
    by_repository: dict[str, list[str]] = {}
    for crate in others:
        if texts := license_texts(crate):
            by_repository.setdefault(crate.package["repository"], texts)
    crates_of: dict[str, list[str]] = {}
    for crate in others:
        # A crate without a licence file: the file of another crate of its repository, or the standard text.
        texts = license_texts(crate) or by_repository.get(crate.package["repository"]) or [standard_text(crate)]
        for text in texts:
            crates_of.setdefault(text, []).append(f"{crate.name} {crate.version} ({crate.license})")
    rule = "=" * 80
    sections = [rule + "\n" + "\n".join(names) + "\n" + rule + "\n\n" + text for text, names in crates_of.items()]
    return HEAD + "\n" + "\n".join(sections)


def render_sbom(crates: dict[str, Crate]) -> str:
    """Return the SBOM: CycloneDX 1.5, with package URLs as references."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    checksums = {(entry["name"], entry["version"]): entry.get("checksum") for entry in lock["package"]}
    ordered = sorted(crates.values(), key=lambda crate: crate.reference)
    root = next(crate for crate in ordered if crate.name == PACKAGE)
    bom: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": _component(root, checksums)},
        "components": [_component(crate, checksums) for crate in ordered if crate is not root],
        "dependencies": [
            {"ref": crate.reference, "dependsOn": sorted(crates[one].reference for one in crate.dependencies)}
            for crate in ordered
        ],
    }
    identity = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bom))
    return json.dumps({**bom, "serialNumber": identity.urn}, indent=1, ensure_ascii=False) + "\n"


def _component(crate: Crate, checksums: dict[tuple[str, str], str | None]) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": crate.reference,
        "name": crate.name,
        "version": crate.version,
        "licenses": [{"expression": crate.license}],
        "purl": crate.reference,
    }
    if checksum := checksums.get((crate.name, crate.version)):
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if repository := crate.package["repository"]:
        component["externalReferences"] = [{"type": "vcs", "url": repository}]
    return component


def _normalized(text: str) -> str:
    """Return a text with single line ends and without trailing white space, so that equal licences are equal texts."""
    lines = [line.rstrip() for line in text.replace("\f", "\n").splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if a file is not up to date; write nothing")
    check: bool = parser.parse_args().check
    crates = linked_crates()
    for path, text in ((LICENSES, render_licenses(crates)), (SBOM, render_sbom(crates))):
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path.relative_to(ROOT)} does not match Cargo.lock: run make third-party")


if __name__ == "__main__":
    main()
