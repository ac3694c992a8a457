"""Markdown as safe HTML: the parts that models write. No raw HTML, no images, no addresses but of the web and mail.

`without_formulas` returns Markdown as Markdown, with dollar signs that begin no formula.

The cost is linear in the length of the text, and nested lists and quotes do not nest calls.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from turntree.notebook._page import escape

if TYPE_CHECKING:
    from collections.abc import Callable

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
_ITEM = re.compile(r"([ \t]*)([-*+]|\d{1,9}[.)])[ \t]+(.*)")
_RULE = re.compile(r"[ \t]{0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})")
_DIVIDER = re.compile(r"[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)*[ \t]*:?-+:?[ \t]*\|?[ \t]*")
_TOKEN = re.compile(r"\\[!-/:-@\[-`{-~]|`+|\*\*|__|~~|\*|_|!?\[|\]\(")
_ADDRESS = re.compile(r"(?:https?://|mailto:)[^\s\"'<>\\]+", re.IGNORECASE)
_CODE_OR_DOLLAR = re.compile(r"\\[!-/:-@\[-`{-~]|`+|\$")
_BLANK_LINES = re.compile(r"(\n[ \t]*\n)")
# How long an address may be, so that looking for its end is cheap.
_LONGEST_ADDRESS = 2_000
_DEEPEST_LIST = 6
_WIDEST_TABLE = 30

_TAGS = {"**": "strong", "__": "strong", "*": "em", "_": "em", "~~": "del"}


def to_html(text: str) -> str:
    """Return Markdown as HTML."""
    return _Blocks(text).html()


def without_formulas(text: str) -> str:
    """Return Markdown whose dollar signs are text: escaped, except in code."""
    if "$" not in text:
        return text
    out: list[str] = []
    prose: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = line.lstrip()[:3]
        if fence or mark in ("```", "~~~"):
            out += _escaped_paragraphs(prose)
            prose = []
            out.append(line)
            fence = "" if mark == fence else fence or mark
        else:
            prose.append(line)
    return "\n".join(out + _escaped_paragraphs(prose))


def _escaped_paragraphs(lines: list[str]) -> list[str]:
    """Escape the dollar signs of lines without fences. Code between backticks ends with its paragraph."""
    parts = _BLANK_LINES.split("\n".join(lines))
    return ["".join(_escaped_dollars(part) for part in parts)] if lines else []


def _escaped_dollars(text: str) -> str:
    # Where the runs of backticks begin, by length, the first one last.
    ticks: dict[int, list[int]] = {}
    for run in reversed(list(re.finditer("`+", text))):
        ticks.setdefault(len(run[0]), []).append(run.start())
    out: list[str] = []
    at = 0
    while found := _CODE_OR_DOLLAR.search(text, at):
        out.append(text[at : found.start()])
        token, at = found[0], found.end()
        out.append("\\$" if token == "$" else token)
        if token.startswith("`"):
            ends = ticks.get(len(token), [])
            while ends and ends[-1] < at:
                ends.pop()
            if ends:
                end = ends.pop() + len(token)
                out.append(text[at:end])
                at = end
    return "".join(out) + text[at:]


class _Blocks:
    """Reads blocks line by line. Each `_try` function takes the lines of one block, or none."""

    def __init__(self, text: str) -> None:
        self.lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self.at = 0
        self.out: list[str] = []
        self.paragraph: list[str] = []

    def html(self) -> str:
        kinds: list[Callable[[str], bool]] = [
            self._fence,
            self._heading,
            self._rule,
            self._quote,
            self._list,
            self._table,
        ]
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip():
                self.flush()
                self.at += 1
            elif not any(kind(line) for kind in kinds):
                self.paragraph.append(line.strip())
                self.at += 1
        self.flush()
        return "".join(self.out)

    def flush(self) -> None:
        """End the paragraph."""
        if self.paragraph:
            self.out.append(f"<p>{inline(chr(10).join(self.paragraph))}</p>")
            self.paragraph = []

    def _fence(self, line: str) -> bool:
        stripped = line.lstrip()
        mark = stripped[:3]
        if mark not in ("```", "~~~"):
            return False
        self.flush()
        start = self.at + 1
        end = next(
            (n for n in range(start, len(self.lines)) if self.lines[n].lstrip().startswith(mark)), len(self.lines)
        )
        self.out.append(f"<pre><code>{escape(chr(10).join(self.lines[start:end]))}</code></pre>")
        self.at = end + 1
        return True

    def _heading(self, line: str) -> bool:
        found = _HEADING.fullmatch(line)
        if found is None:
            return False
        self.flush()
        # Below the headings of a notebook: h1 becomes h3.
        level = min(6, len(found[1]) + 2)
        self.out.append(f"<h{level}>{inline(found[2].strip())}</h{level}>")
        self.at += 1
        return True

    def _rule(self, line: str) -> bool:
        if len(line) > 200 or _RULE.fullmatch(line) is None:
            return False
        self.flush()
        self.out.append("<hr>")
        self.at += 1
        return True

    def _quote(self, line: str) -> bool:
        if not line.startswith(">"):
            return False
        self.flush()
        quoted: list[str] = []
        while self.at < len(self.lines) and self.lines[self.at].startswith(">"):
            quoted.append(self.lines[self.at].lstrip("> \t"))
            self.at += 1
        self.out.append(f"<blockquote>{inline(chr(10).join(quoted))}</blockquote>")
        return True

    def _list(self, line: str) -> bool:
        if _ITEM.fullmatch(line) is None:
            return False
        self.flush()
        # The indents and tags of the open lists, outermost first.
        opened: list[tuple[int, str]] = []
        while self.at < len(self.lines):
            found = _ITEM.fullmatch(self.lines[self.at])
            if found is None:
                break
            content = [found[3]]
            self.at += 1
            while self._continues(found):
                content.append(self.lines[self.at].strip())
                self.at += 1
            self._item(opened, len(found[1].expandtabs(4)), found[2], inline("\n".join(content)))
        for _, tag in reversed(opened):
            self.out.append(f"</li></{tag}>")
        return True

    def _continues(self, item: re.Match[str]) -> bool:
        """Whether the current line belongs to the item above it: it is indented and no item."""
        if self.at >= len(self.lines):
            return False
        line = self.lines[self.at]
        indented = line.startswith((" ", "\t")) and bool(line.strip()) and len(line) - len(line.lstrip()) > len(item[1])
        return indented and _ITEM.fullmatch(line) is None

    def _item(self, opened: list[tuple[int, str]], indent: int, mark: str, content: str) -> None:
        tag = "ul" if mark in "-*+" else "ol"
        while opened and indent < opened[-1][0] and len(opened) > 1:
            self.out.append(f"</li></{opened.pop()[1]}>")
        if not opened or (indent > opened[-1][0] + 1 and len(opened) < _DEEPEST_LIST):
            opened.append((indent, tag))
            start = mark[:-1] if tag == "ol" else ""
            self.out.append(f'<ol start="{int(start)}"><li>' if start else "<ul><li>")
        else:
            self.out.append("</li><li>")
        self.out.append(content)

    def _table(self, line: str) -> bool:
        follows = self.lines[self.at + 1] if self.at + 1 < len(self.lines) else ""
        if "|" not in line or "-" not in follows or len(follows) > 1_000 or _DIVIDER.fullmatch(follows) is None:
            return False
        self.flush()
        self.out.append(f"<table><tr>{_cells(line, 'th')}</tr>")
        self.at += 2
        while self.at < len(self.lines) and "|" in self.lines[self.at]:
            self.out.append(f"<tr>{_cells(self.lines[self.at], 'td')}</tr>")
            self.at += 1
        self.out.append("</table>")
        return True


def _cells(line: str, tag: str) -> str:
    cells = line.strip().strip("|").split("|", _WIDEST_TABLE)
    return "".join(f"<{tag}>{inline(cell.strip())}</{tag}>" for cell in cells)


def inline(text: str) -> str:
    """Return the text of one block as HTML: emphasis, code and links. One pass over the tokens."""
    out: list[str] = []
    opened: dict[str, int] = {}
    at = 0
    # Marks of code that have no end in the rest of the text.
    endless: set[str] = set()
    while found := _TOKEN.search(text, at):
        out.append(escape(text[at : found.start()]))
        token = found[0]
        at = found.end()
        if token.startswith("\\"):
            out.append(escape(token[1]))
        elif token.startswith("`"):
            end = -1 if token in endless else text.find(token, at)
            if end < 0:
                endless.add(token)
                out.append(token)
            else:
                out.append(f"<code>{escape(text[at:end].strip())}</code>")
                at = end + len(token)
        elif token in ("[", "!["):
            opened["["] = len(out)
            out.append(token)
        elif token == "](":
            at = _link(text, at, out, opened)
        else:
            _emphasis(token, text, found, out, opened)
    out.append(escape(text[at:]))
    return "".join(out).replace("\n", "<br>")


def _emphasis(token: str, text: str, found: re.Match[str], out: list[str], opened: dict[str, int]) -> None:
    before, after = text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
    inside_word = "_" in token and (before.isalnum() and after.isalnum())
    start = opened.get(token)
    if start is not None and before and not before.isspace() and not inside_word:
        for other in [mark for mark, index in opened.items() if index >= start]:
            del opened[other]
        out[start] = f"<{_TAGS[token]}>"
        out.append(f"</{_TAGS[token]}>")
        return
    if after and not after.isspace() and not inside_word:
        opened[token] = len(out)
    out.append(token)


def _link(text: str, at: int, out: list[str], opened: dict[str, int]) -> int:
    """Close a link. Returns where the text goes on."""
    start = opened.get("[")
    end = text.find(")", at, at + _LONGEST_ADDRESS)
    address = text[at:end].strip() if end >= 0 else ""
    if start is None or _ADDRESS.fullmatch(address) is None:
        out.append("](")
        return at
    for other in [mark for mark, index in opened.items() if index >= start]:
        del opened[other]
    # An image is a link too: nothing is fetched from the network.
    kind = "image: " if out[start] == "![" else ""
    out[start] = f'<a href="{escape(address)}" rel="noopener noreferrer nofollow" target="_blank">{kind}'
    out.append("</a>")
    return end + 1
