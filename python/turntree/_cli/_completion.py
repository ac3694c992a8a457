"""The command ``turntree completion``: scripts that complete commands and options in a shell."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Iterator


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


class _Command(NamedTuple):
    """What follows the words of a command: names of commands or values, and options with their values."""

    description: str
    words: dict[str, str]
    options: dict[str, tuple[str, list[str]]]
    is_group: bool


def run(options: argparse.Namespace, commands: dict[str, argparse.ArgumentParser]) -> int:
    """Print the script and return the exit status."""
    known = {words: each for name, parser in commands.items() for words, each in _known(name, parser)}
    if options.shell == "fish":
        print("\n".join(_fish(known)))
        return 0
    if options.shell == "zsh":
        print("#compdef turntree\n(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }")
        print("autoload -U +X bashcompinit && bashcompinit")
    print(_bash(known))
    return 0


def _known(words: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, _Command]]:
    """Yield a command and the commands below it, by their words."""
    command = _Command(parser.description or "", {}, {}, any(map(_is_group, parser._actions)))
    yield words, command
    for action in parser._actions:
        if _is_group(action):
            below = cast("dict[str, argparse.ArgumentParser]", action.choices)
            command.words.update((name, each.description or "") for name, each in below.items())
            for name, each in below.items():
                yield from _known(f"{words} {name}", each)
        elif action.help != argparse.SUPPRESS:
            values = [str(value) for value in action.choices or ()]
            for name in action.option_strings:
                if name.startswith("--"):
                    command.options[name] = (action.help or "", values)
            if not action.option_strings:
                command.words.update(dict.fromkeys(values, action.help or ""))


def _is_group(action: argparse.Action) -> bool:
    return isinstance(action, argparse._SubParsersAction)


def _bash(known: dict[str, _Command]) -> str:
    top = " ".join(words for words in known if " " not in words)
    names = "|".join(f'"{words}"' for words in known)
    cases = "\n".join(
        f'    "{words}") options="{" ".join(each.options)}" words="{" ".join(each.words)}" ;;'
        for words, each in known.items()
    )
    values = "\n".join(
        f'    "{words} {option}") options="" words="{" ".join(choices)}" ;;'
        for words, each in known.items()
        for option, (_, choices) in each.options.items()
        if choices
    )
    return f"""_turntree() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" command="" options="--help --version" words="{top}" longer at
  for ((at = 1; at < COMP_CWORD; at++)); do
    longer="${{command:+$command }}${{COMP_WORDS[at]}}"
    case "$longer" in
      {names}) command="$longer" ;;
    esac
  done
  case "$command" in
{cases}
  esac
  case "$command ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
    *)
      if [ -n "$words" ]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
      else
        COMPREPLY=($(compgen -f -- "$current"))
      fi
      ;;
  esac
}}
complete -o filenames -F _turntree turntree"""


# Whether the words so far, without options, begin with those of a command; '' means that there is no further word.
_FISH_FUNCTION = """\
function __turntree_at
    set -l words (string match -v -- '-*' (commandline -opc)) '' ''
    test "$words[2]" = "$argv[1]"; or return 1
    test (count $argv) -lt 2; or test "$words[3]" = "$argv[2]"
end
complete -c turntree -f -n "__turntree_at ''" -l version"""


def _fish(known: dict[str, _Command]) -> list[str]:
    lines = [_FISH_FUNCTION]
    for words, each in known.items():
        if " " not in words:
            lines.append(f"complete -c turntree -f -n \"__turntree_at ''\" -a {words} -d {_quoted(each.description)}")
        end = " ''" if each.is_group else ""
        lines += [
            f'complete -c turntree -f -n "__turntree_at {words}{end}" -a {word} -d {_quoted(text)}'
            for word, text in each.words.items()
        ]
        lines += [
            f'complete -c turntree -n "__turntree_at {words}{end}" -l {option[2:]} -d {_quoted(text)}'
            + (f" -x -a {_quoted(' '.join(values))}" if values else "")
            for option, (text, values) in each.options.items()
        ]
    return lines


def _quoted(text: str) -> str:
    first = text.split(". ")[0].replace("\\", "\\\\").replace("'", "\\'")
    return f"'{first}'"
