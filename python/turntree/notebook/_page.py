"""What all HTML of this package shares: escaping, the limit of its size, the style, and the frame around it."""

from __future__ import annotations

import json
import unicodedata
from html import escape as _escape
from typing import Any

# Characters of data that one piece of HTML shows at most. Markup and entities come on top.
TOTAL = 100_000
# Characters of one text, such as a message.
TEXT = 20_000
# Characters of one value, such as the result of a tool.
VALUE = 4_000
# Entries of one list, such as the messages of a thread.
ENTRIES = 100

# Categories of Unicode whose characters can change how the text around them is displayed, or are not visible.
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
# Invisible characters that scripts and emoji need.
_USEFUL = frozenset("\t\n\u200c\u200d")

# Classes of elements whose dollar signs are text: without them, notebooks show "$5 and $6" as a formula. Of MathJax 3,
# which JupyterLab 4 has, and of MathJax 2, which nbconvert and older notebooks have.
NO_FORMULAS = "mathjax_ignore tex2jax_ignore"

STYLE = """<style>
.turntree{--fg:var(--jp-content-font-color1,var(--vscode-editor-foreground,#1f2328));--dim:var(--jp-content-font-color2,
var(--vscode-descriptionForeground,#59636e));--line:var(--jp-border-color1,#8886);--soft:#8881;color:var(--fg);
color-scheme:light dark;font:14px/1.5 system-ui,sans-serif;max-width:60rem;overflow-wrap:anywhere}
@media(prefers-color-scheme:dark){.turntree{--fg:var(--jp-content-font-color1,var(--vscode-editor-foreground,#e6edf3));
--dim:var(--jp-content-font-color2,var(--vscode-descriptionForeground,#9198a1))}}
.turntree pre,.turntree code{font:12.5px/1.45 ui-monospace,monospace;background:var(--soft);color:inherit;
border-radius:4px}
.turntree code{padding:0 .25em}.turntree pre{padding:.5em .7em;margin:.3em 0;white-space:pre-wrap;
max-height:24rem;overflow:auto}.turntree pre code{padding:0;background:none}
.turntree .m{border-left:3px solid var(--c,#8888);padding:.1em .8em;margin:.6em 0}
.turntree .m>b:first-child,.turntree .m>.h{color:var(--fg);font-weight:600}
.turntree .dim,.turntree figcaption{color:var(--dim);font-size:.87em}
.turntree .bad{border-left:3px solid #d1242f;padding-left:.5em}
.turntree details{margin:.3em 0}.turntree summary{cursor:pointer}
.turntree table{border-collapse:collapse;margin:.4em 0;color:inherit}.turntree th,.turntree td{border:1px solid
var(--line);padding:.15em .6em;text-align:left;vertical-align:top;background:none}.turntree td.n{text-align:right;
font-variant-numeric:tabular-nums}
.turntree blockquote{border-left:3px solid var(--line);margin:.4em 0;padding:0 .8em;color:var(--dim)}
.turntree .two{display:grid;grid-template-columns:1fr 1fr;gap:1em}.turntree p,.turntree ul,.turntree ol{margin:.4em 0}
.turntree svg{max-width:100%;height:auto;display:block}.turntree svg text{fill:var(--fg);font:12px system-ui,sans-serif}
.turntree svg .d{fill:var(--dim)}
</style>"""

# Colours of agents: readable on white and on black.
COLOURS = ("#2da44e", "#8250df", "#bf8700", "#0a7ea4", "#cf222e", "#bf3989", "#57606a", "#bc4c00")
USER = "#0969da"


def colour_of(index: int) -> str:
    """Return the colour of the agent with this number."""
    return COLOURS[index % len(COLOURS)]


class Page:
    """Collects the parts of a piece of HTML, and counts the characters of data so that the size has a limit."""

    __slots__ = ("left", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.left = TOTAL

    def add(self, *markup: str) -> None:
        """Add markup. Data in it must come from `text`."""
        self.parts.extend(markup)

    def cut(self, text: str, limit: int = TEXT) -> tuple[str, str]:
        """Return the beginning of a text that still fits, and a note of how much is left out, as HTML."""
        limit = max(0, min(limit, self.left))
        shown = text[:limit]
        self.left -= len(shown)
        missing = len(text) - len(shown)
        return shown, f'<p class="dim">… {missing:,} more characters are not shown</p>' if missing else ""

    def pre(self, text: str, limit: int = VALUE) -> str:
        """Return a text in a block that preserves its white space."""
        shown, note = self.cut(text, limit)
        return f"<pre>{escape(shown)}</pre>{note}"

    def line(self, text: str, limit: int = 120) -> str:
        """Return the beginning of a text on one line."""
        return escape(one_line(text, limit))

    def entries(self, found: int, shown: int, noun: str) -> None:
        """Say how many entries are not shown."""
        if found > shown:
            self.add(f'<p class="dim">… {found - shown:,} more {noun} are not shown</p>')

    def html(self) -> str:
        """Return everything with the style."""
        return f'{STYLE}<div class="turntree {NO_FORMULAS}">{"".join(self.parts)}</div>'


def escape(text: str) -> str:
    """Return text for HTML, elements and attributes. Invisible characters are shown by their number."""
    if text.isascii() and text.isprintable():
        return _escape(text)
    return _escape("".join(visible(letter) for letter in text))


def visible(letter: str) -> str:
    """Return a character, or its number if it is not visible or reorders the text around it."""
    if letter.isprintable() or letter in _USEFUL or unicodedata.category(letter) not in _HIDDEN:
        return letter
    return "" if letter == "\r" else f"⟨U+{ord(letter):04X}⟩"


def one_line(text: str, limit: int = 120) -> str:
    """Return the beginning of a text with its white space reduced, for labels."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit and len(text) <= 4 * limit else line[: limit - 1] + "…"


def plain(value: Any) -> str:
    """Return JSON data as text: a text as it is, all else as indented JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, default=repr)
    except (RecursionError, ValueError):
        return "(nested too deeply to be shown)"


def seconds(value: float) -> str:
    """Return a duration for people."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 60 else f"{int(value // 60)} min {int(value % 60)} s"


def money(cost: float | None) -> str:
    """Return a cost in US dollars; empty if it is not known."""
    return "" if cost is None else f"${cost:.4f}"
