"""The command ``turntree completion``: scripts that complete commands and options in a shell."""

from __future__ import annotations

import argparse
from typing import Any


def add(commands: Any) -> None:
    """Add the command to a parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "completion",
        help="print a script that completes this command in a shell",
        description="Prints a script that completes commands and options in a shell.",
        allow_abbrev=False,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")

    def complete(options: argparse.Namespace) -> int:
        return run(options, commands.choices)

    parser.set_defaults(run=complete)


def run(options: argparse.Namespace, commands: dict[str, argparse.ArgumentParser]) -> int:
    """Print the script and return the exit status."""
    known = {name: _options(parser) for name, parser in commands.items()}
    if options.shell == "fish":
        print("\n".join(_fish(commands, known)))
        return 0
    if options.shell == "zsh":
        print("#compdef turntree\nautoload -U +X bashcompinit && bashcompinit")
    print(_bash(known))
    return 0


def _options(parser: argparse.ArgumentParser) -> list[tuple[str, str]]:
    """Return the long options of a command with their descriptions."""
    return [
        (name, action.help or "")
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        for name in action.option_strings
        if name.startswith("--")
    ]


def _bash(known: dict[str, list[tuple[str, str]]]) -> str:
    cases = "\n".join(
        f'    {name}) words="{" ".join(option for option, _ in options)}" ;;' for name, options in known.items()
    )
    return f"""_turntree() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(known)} --help --version" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}}
complete -o filenames -F _turntree turntree"""


def _fish(commands: dict[str, argparse.ArgumentParser], known: dict[str, list[tuple[str, str]]]) -> list[str]:
    lines = ["complete -c turntree -f -n __fish_use_subcommand -l version"]
    for name, parser in commands.items():
        lines.append(f"complete -c turntree -f -n __fish_use_subcommand -a {name} -d {_quoted(parser.description)}")
        lines += [
            f"complete -c turntree -n '__fish_seen_subcommand_from {name}' -l {option[2:]} -d {_quoted(text)}"
            for option, text in known[name]
        ]
    return lines


def _quoted(text: str | None) -> str:
    first = (text or "").split(". ")[0].replace("\\", "\\\\").replace("'", "\\'")
    return f"'{first}'"
