"""The examples in the help of each command, and the exit statuses in the help of all."""

from __future__ import annotations

import argparse
from typing import cast

EXAMPLES: dict[str, tuple[str, ...]] = {
    "": (
        "turntree convert history.json",
        "turntree show history.json",
        "turntree chat app.agents:assistant",
        "turntree doctor",
    ),
    "convert": (
        "turntree convert history.json",
        "turntree convert histories.jsonl.zst -o threads.jsonl.gz",
        "turntree convert threads.jsonl --to pydantic-ai -o back.jsonl",
        'turntree convert session.json --branch "try 2"',
        "turntree convert exported/ -o threads/ --on-error skip --json",
    ),
    "validate": ("turntree validate threads/", "turntree validate --json threads.jsonl"),
    "show": (
        "turntree show history.json",
        "turntree show --html session.json",
        "turntree show --store sqlite:///sessions.db --session trip",
    ),
    "tree": ("turntree tree session.json", "turntree tree --json --store sqlite:///sessions.db --session trip"),
    "sessions": (
        "turntree sessions --store sqlite:///sessions.db",
        "turntree sessions --store sqlite:///sessions.db --status waiting --json",
    ),
    "import": ("turntree import langgraph.db --store sqlite:///sessions.db --dry-run",),
    "worker": (
        "turntree worker app.agents:assistant --store postgresql:///app --concurrency 4",
        "turntree worker app.agents:assistant --store sqlite:///sessions.db --json",
    ),
    "enqueue": ('turntree enqueue "Plan the trip." --store sqlite:///sessions.db --session trip',),
    "runs": ("turntree runs --store sqlite:///sessions.db --status failed",),
    "serve": (
        "turntree serve app.agents:assistant --port 8080",
        "turntree serve app.agents:assistant --port 0 --json",
        "turntree serve app.shop:shop --reload",
    ),
    "acp": ("turntree acp app.agents:assistant --store sqlite:///sessions.db",),
    "mcp": ("turntree mcp app.agents:assistant", "turntree mcp app.tools:search --transport http --port 8080"),
    "uaip": ("turntree uaip graph app.shop:shop",),
    "uaip graph": ("turntree uaip graph app.shop:shop", "turntree uaip graph app.shop:shop --format mermaid"),
    "hook": ("turntree hook --harness claude", "turntree hook pre-tool --harness generic"),
    "harness": ("turntree harness install claude", "turntree harness status"),
    "harness install": ("turntree harness install claude",),
    "harness uninstall": ("turntree harness uninstall claude",),
    "harness status": ("turntree harness status --json",),
    "harness doctor": ("turntree harness doctor", "turntree harness doctor claude --json"),
    "policy": ('turntree policy check "git push --force"', "turntree policy list"),
    "policy check": ('turntree policy check "git push --force"',),
    "policy list": ("turntree policy list --json",),
    "policy audit": ("turntree policy audit --limit 50", "turntree policy audit --verify"),
    "policy test": ("turntree policy test", "turntree policy test policies"),
    "policy replay": (
        "turntree policy replay --policies new-policies",
        "turntree policy replay --from decisions.jsonl --config new.toml",
    ),
    "policy git-hook": ("turntree policy git-hook pre-commit",),
    "policy override": ('turntree policy override git.force-push --reason "the branch is mine" --minutes 5',),
    "config": ("turntree config explain policy.levels", "turntree config schema"),
    "config explain": ("turntree config explain", "turntree config explain policy.levels"),
    "config schema": ("turntree config schema", "turntree config schema --cedar"),
    "coord": ("turntree coord status", "turntree coord claim file:src/a.rs"),
    "coord forecast": ("turntree coord forecast",),
    "coord status": ("turntree coord status --json",),
    "coord claim": ("turntree coord claim file:src/a.rs --ttl 60",),
    "coord release": ("turntree coord release file:src/a.rs",),
    "coord announce": (
        'turntree coord announce file:src/a.rs --note "new parser"',
        "turntree coord announce 'file:src/**/*.rs' --intent refactoring --json",
    ),
    "coord board": ("turntree coord board --json",),
    "coord messages": ("turntree coord messages --agent builder",),
    "coord send": ('turntree coord send "The tests pass." --to builder',),
    "coord post": ('turntree coord post "The parser drops comments." --kind finding',),
    "coord inbox": ("turntree coord inbox --agent builder",),
    "worktree": ("turntree worktree create fix-parser", "turntree worktree list"),
    "worktree create": ("turntree worktree create fix-parser --base main",),
    "worktree ensure": ("turntree worktree ensure fix-parser",),
    "worktree list": ("turntree worktree list --json",),
    "worktree remove": ("turntree worktree remove fix-parser",),
    "chat": (
        "turntree chat app.agents:assistant",
        "turntree chat app.agents:assistant --store sqlite:///sessions.db --session trip",
        "turntree chat app.agents:assistant --json",
    ),
    "doctor": (
        "turntree doctor",
        "turntree doctor --reach anthropic http://localhost:8000/v1",
        "turntree doctor --store sqlite:///sessions.db",
    ),
    "completion": ("turntree completion bash >> ~/.bash_completion", "turntree completion fish | source"),
}
"""Examples by the words of the command. A test parses each of them."""

STATUSES = """\
exit status:
  0    success
  1    problems were found
  2    wrong usage
  130  interrupted by Ctrl-C
  143  ended by SIGTERM"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the examples to the help of a parser and of its commands."""
    pending: list[tuple[str, argparse.ArgumentParser]] = [("", parser)]
    while pending:
        name, current = pending.pop()
        lines = "".join(f"\n  {line}" for line in EXAMPLES.get(name, ()))
        texts = [current.epilog or "", f"examples:{lines}" if lines else "", "" if name else STATUSES]
        current.epilog = "\n\n".join(text.rstrip("\n") for text in texts if text)
        current.formatter_class = _Help
        for action in current._actions:
            if isinstance(action, argparse._SubParsersAction):
                choices = cast("dict[str, argparse.ArgumentParser]", action.choices)
                pending.extend((f"{name} {word}".strip(), each) for word, each in choices.items())


class _Help(argparse.HelpFormatter):
    """Wraps descriptions, and leaves the lines of examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "examples:" in text:
            return "".join(indent + line for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)
