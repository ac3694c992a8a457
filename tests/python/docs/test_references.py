"""Citations in the sources and links in the documents resolve.

A citation names a document and a section (`UAP-1.0 §7.1`), a title of ThreadProtocol, or a decision
(`decision A30`). Each of them must exist in docs/specifications.md or docs/decisions/.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SPECIFICATIONS = ROOT / "docs" / "specifications.md"
DECISIONS = ROOT / "docs" / "decisions"

CITING = (
    "crates",
    "src",
    "python",
    "docs",
    "tests",
    "examples",
    "benches",
    "fuzz",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
)
SUFFIXES = (".rs", ".py", ".pyi", ".md", ".toml", ".mjs")

COMMENT = re.compile(r"^\s*(?://[/!]?|#)?\s*", re.MULTILINE)
DOCUMENT = r"UPP-1\.2|UAP-1\.0|UAMP-1\.0|UI message stream|Pydantic AI messages|RFC \d+|WHATWG HTML|ECMA-48"
NUMBER = r"\d+(?:\.\d+)*"
RANGE = rf"§{NUMBER}(?:\s?[–-]\s?§?{NUMBER})?"
SECTIONS = re.compile(rf"(?:({DOCUMENT}),? )?({RANGE}(?:(?:, and |, | and | or | to ){RANGE})*)")
TITLE = re.compile(r'ThreadProtocol 1\.0\.0, "([^"]+)"')
LABEL = r"(?:UA[IM]P-)?[A-Z]?\d+"
DECISION = re.compile(
    rf"\b[Dd]ecisions? ({LABEL}(?:\s?–\s?{LABEL})?(?:(?:, and |, | and | or | to ){LABEL}(?:\s?–\s?{LABEL})?)*)\b"
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def tracked(*paths: str) -> list[Path]:
    """The files of the repository below these paths: tracked files, or all files outside a git repository."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", *paths], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:
        files = [
            file for path in paths for file in ((ROOT / path).rglob("*") if (ROOT / path).is_dir() else [ROOT / path])
        ]
    return sorted(file for file in files if file.suffix in SUFFIXES and file.is_file() and file != Path(__file__))


def flat(text: str) -> str:
    """The text with comment markers and line breaks removed, so that a citation may be wrapped."""
    return " ".join(COMMENT.sub("", text).split())


def known_sections(text: str) -> dict[str, set[str]]:
    """The sections that docs/specifications.md lists, by document."""
    known: dict[str, set[str]] = {}
    document = ""
    for line in text.splitlines():
        if heading := re.match(r"## (.+)", line):
            document = heading[1]
        elif row := re.match(rf'\| (?:§({NUMBER})|"([^"]+)") \|', line):
            known.setdefault(document, set()).add(row[1] or row[2])
        elif row := re.match(rf"\| ([A-Z][\w -]+?)(?: §({NUMBER}))? \| .* \|$", line):
            known.setdefault(row[1], set()).update([row[2]] if row[2] else [])
    return known


def known_decisions(pages: str) -> set[str]:
    """The labels of all decisions: A30, U16, S6, P18, 11, UAIP-A7."""
    return set(re.findall(rf"^### ({LABEL})\. ", pages, re.MULTILINE))


def label_range(first: str, last: str) -> list[str]:
    """All labels from the first to the last; the letter of the last may be missing."""
    letter, start = re.match(r"((?:UA[IM]P-)?[A-Z]?)(\d+)", first).groups()
    end = re.search(r"(\d+)$", last)[1]
    return [f"{letter}{number}" for number in range(int(start), int(end) + 1)]


def cited_decisions(text: str) -> Iterator[str]:
    """Every label that the text cites, ranges expanded."""
    for match in DECISION.finditer(text):
        for part in re.split(r", and |, | and | or ", match[1]):
            ends = re.split(r"\s?–\s?| to ", part)
            yield from label_range(ends[0], ends[-1])


def cited_sections(text: str) -> Iterator[tuple[str | None, str]]:
    """Every document and section that the text cites: both ends of a range."""
    for match in SECTIONS.finditer(text):
        for part in re.split(r", and |, | and | or | to ", match[2]):
            ends = re.findall(NUMBER, part)
            for end in ends:
                is_short = "." not in end and "." in ends[0]  # "§10.2" to "4" means §10.4
                yield match[1], f"{ends[0].rpartition('.')[0]}.{end}" if is_short else end


def problems(text: str, sections: dict[str, set[str]], decisions: set[str]) -> list[str]:
    """The citations of the text that do not resolve."""
    found = []
    text = flat(text)
    cited = 0
    for document, section in cited_sections(text):
        cited += 1
        if document is None:
            found.append(f"§{section}: name the document, as in UAP-1.0 §{section}")
        elif section not in sections.get(document, set()):
            found.append(f"{document} §{section}: not in docs/specifications.md")
    if text.count("§") > cited:
        found.append("a § without a number")
    for title in TITLE.findall(text):
        if title.replace("`", "") not in sections["ThreadProtocol 1.0.0"]:
            found.append(f'ThreadProtocol 1.0.0, "{title}": not in docs/specifications.md')
    for number in re.findall(r"\bRFC (\d+)", text):
        if f"RFC {number}" not in sections:
            found.append(f"RFC {number}: not in docs/specifications.md")
    found += [f"decision {label}: not in docs/decisions" for label in cited_decisions(text) if label not in decisions]
    return found


@pytest.fixture(scope="module")
def sections() -> dict[str, set[str]]:
    return known_sections(SPECIFICATIONS.read_text("utf-8"))


@pytest.fixture(scope="module")
def decisions() -> set[str]:
    return known_decisions("\n".join(page.read_text("utf-8") for page in sorted(DECISIONS.glob("*.md"))))


def test_every_citation_resolves(sections: dict[str, set[str]], decisions: set[str]) -> None:
    broken = []
    for file in tracked(*CITING):
        if file == SPECIFICATIONS:
            continue
        broken += [
            f"{file.relative_to(ROOT)}: {problem}" for problem in problems(file.read_text("utf-8"), sections, decisions)
        ]

    assert broken == [], "\n".join(broken)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("//! Trees.\n//! UAP-1.0 §7.1, §13.2; decisions A80 and\n//! A81.", []),
        ("Spec: UPP-1.2 §10.2–10.4 and §11", []),
        ('ThreadProtocol 1.0.0, "ThreadProtocol → `ModelMessages`"; decisions 4, 11', []),
        ("UAP-1.0 §7.9", ["UAP-1.0 §7.9: not in docs/specifications.md"]),
        ("as in §7.1", ["§7.1: name the document, as in UAP-1.0 §7.1"]),
        ("UPP-1.2 §10.2–10.9", ["UPP-1.2 §10.9: not in docs/specifications.md"]),
        ("decisions A997–A999", [f"decision A{n}: not in docs/decisions" for n in (997, 998, 999)]),
        ("decisions UAIP-A30 to A31, UAIP-D1", []),
        ("decision UAIP-A32", ["decision UAIP-A32: not in docs/decisions"]),
        ("decisions 15 to 17", ["decision 17: not in docs/decisions"]),
        ('ThreadProtocol 1.0.0, "Rules"', ['ThreadProtocol 1.0.0, "Rules": not in docs/specifications.md']),
        ("RFC 1", ["RFC 1: not in docs/specifications.md"]),
    ],
)
def test_a_wrong_citation_is_detected(
    text: str, expected: list[str], sections: dict[str, set[str]], decisions: set[str]
) -> None:
    assert problems(text, sections, decisions) == expected


def test_decisions_are_numbered_without_gaps(decisions: set[str]) -> None:
    for letter, count in {"A": 104, "U": 28, "S": 24, "P": 28, "": 16}.items():
        assert {f"{letter}{number}" for number in range(1, count + 1)} <= decisions


def test_the_named_modules_exist() -> None:
    missing = []
    for path in sorted(set(re.findall(r"`(turntree_\w+(?:::\w+)*)`", SPECIFICATIONS.read_text("utf-8")))):
        crate, *modules = path.split("::")
        place = ROOT.joinpath("crates", crate.replace("_", "-"), "src", *(modules or ["lib.rs"]))
        if not (place.exists() or place.with_suffix(".rs").exists()):
            missing.append(path)

    assert missing == [], "update docs/specifications.md"


def test_conformance_tests_carry_numbers_of_the_checklist(decisions: set[str]) -> None:
    checklist = (ROOT / "tests" / "conformance" / "README.md").read_text("utf-8")
    points = {int(number) for number in re.findall(r"^\| (\d+) \|", checklist, re.MULTILINE)}
    labels: set[str] = set()
    for file in tracked("tests/conformance"):
        for name in re.findall(r"def test_uap_(\w+)", file.read_text("utf-8")):
            prefix = re.match(r"(?:(?:a?\d+|and)_)*", name)[0]
            labels.update(re.findall(r"a?\d+", prefix))

    assert labels
    assert {int(label) for label in labels if label.isdigit()} <= points
    assert {label.upper() for label in labels if not label.isdigit()} <= decisions


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a document, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.+)$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        candidate, number = anchor, 0
        while candidate in found:
            number += 1
            candidate = f"{anchor}-{number}"
        found.add(candidate)
    return found


@pytest.mark.parametrize(
    "document",
    [file for file in tracked(".") if file.suffix == ".md" and "data" not in file.parts],
    ids=lambda file: str(file.relative_to(ROOT)),
)
def test_links_resolve(document: Path) -> None:
    broken = []
    for target in LINK.findall(FENCE.sub("", document.read_text("utf-8"))):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file.read_text("utf-8"))):
            broken.append(target)

    assert broken == []


def test_every_guide_is_in_the_table_of_guides() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    guides = {file.name for file in (ROOT / "docs").glob("*.md")} - {"README.md"}

    assert guides == set(LINK.findall(index)) & guides
