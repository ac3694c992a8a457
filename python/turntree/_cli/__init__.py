"""The command ``turntree``: what users type, and what becomes of it. Everything that loops over data is in Rust.

Exit status: 0 all is well, 1 problems were found, 2 the command was used wrongly, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from turntree._cli import _convert, _doctor, _read
from turntree._cli._terminal import CliError, complain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit status.

    Args:
        arguments: What follows the name of the command. Default: those of this process.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    # A process that is asked to end takes its half files with it, as on Ctrl-C.
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        status = int(options.run(options))
        sys.stdout.flush()
    except CliError as error:
        complain(str(error))
        return error.status
    except BrokenPipeError:
        # Whoever read has read enough. Python would complain of it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        complain("interrupted; nothing half done was kept")
        return 130
    except (OSError, ValueError, TypeError, ImportError) as error:
        complain(_words(error))
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)
    return status


def _terminated(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _parser() -> argparse.ArgumentParser:
    from turntree import __version__

    parser = argparse.ArgumentParser(
        prog="turntree",
        description="Converts, checks and shows conversations.",
        epilog="Without files, or with the file -, a command reads standard input.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"turntree {__version__}")
    commands: Any = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in (_convert, _read, _doctor):
        module.add(commands)
    return parser
