"""The command ``turntree``: argument parsing and output. The work on documents is done in Rust.

Exit status: 0 success, 1 problems were found, 2 wrong usage, 130 interrupted, 143 ended by SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

from turntree._cli import (
    _acp,
    _chat,
    _completion,
    _convert,
    _doctor,
    _examples,
    _harness,
    _import,
    _mcp,
    _queue,
    _runs,
    _serve,
    _show,
    _stores,
    _uaip,
    _validate,
)
from turntree._cli._terminal import CliError, is_json, print_error, set_json, use_utf8
from turntree.exceptions import TurntreeError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    Args:
        arguments: The arguments of the command. Default: those of this process.
    """
    use_utf8()
    set_json(as_json=_wants_json(sys.argv[1:] if arguments is None else arguments))
    parser = _parser()
    options = parser.parse_args(arguments)
    # SystemExit removes unfinished files, as KeyboardInterrupt does.
    previous_handler = signal.signal(signal.SIGTERM, _exit_on_signal)
    try:
        status = int(options.run(options))
        sys.stdout.flush()
    except CliError as error:
        print_error(str(error), error.status)
        return error.status
    except BrokenPipeError:
        # The reader closed the pipe. Without this, Python prints an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print_error("interrupted; unfinished files were removed", 130)
        return 130
    except (OSError, ValueError, TypeError, ImportError, OverflowError, TurntreeError) as error:
        print_error(_message_of(error), 1)
        return 1
    except Exception:
        # Of the code of an application. Python shows it as text.
        if not is_json():
            raise
        print_error(traceback.format_exc(), 1)
        return 1
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
    return status


def _exit_on_signal(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _message_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _wants_json(arguments: Sequence[str]) -> bool:
    """Return True if the arguments have ``--json``, also if they are wrong otherwise."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


class _Parser(argparse.ArgumentParser):
    """A parser whose errors have the form of other errors if the output is JSON."""

    def error(self, message: str) -> NoReturn:
        if is_json():
            print_error(f"{message}; {self.prog} --help has the options", 2)
            self.exit(2)
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    from turntree import __version__

    parser = _Parser(
        prog="turntree",
        description="Converts, validates and shows conversations; executes queued runs of agents; serves workflows.",
        epilog="Without a file, or with the file -, a command reads standard input.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"turntree {__version__}")
    commands: Any = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in (_convert, _validate, _show, _stores, _import, _queue, _runs, _serve, _acp, _mcp, _uaip):
        module.add(commands)
    for module in (_harness, _chat, _doctor, _completion):
        module.add(commands)
    _examples.add(parser)
    return parser
