"""The commands ``turntree hook``, ``harness``, ``policy``, ``coord`` and ``worktree``."""

from __future__ import annotations

import functools
import getpass
import json
import sys
from typing import TYPE_CHECKING, Any

from turntree._cli._terminal import CliError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from turntree.harness import Coordination, Gate, Project


def add(commands: Any) -> None:
    """Add the commands to a parser."""
    hook: argparse.ArgumentParser = commands.add_parser(
        "hook",
        help="handle one event of a coding harness",
        description="Reads one event and writes the reply.",
        allow_abbrev=False,
    )
    hook.add_argument("event", nargs="?", help="the event, for harnesses that do not send its name")
    hook.add_argument("--harness", default="claude", help="claude, codex, cursor, opencode, factory or generic")
    hook.set_defaults(run=run_hook)
    _add_harness(_group(commands, "harness", "install, remove and check the hooks of coding harnesses"))
    _add_policy(_group(commands, "policy", "decide about actions, list rules, show decisions"))
    _add_coord(_group(commands, "coord", "see and claim what agents work on"))
    _add_worktree(_group(commands, "worktree", "create, list and remove working trees"))


def _group(commands: Any, name: str, text: str) -> Any:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False
    )
    return parser.add_subparsers(metavar="COMMAND", required=True)


def _command(group: Any, name: str, text: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = group.add_parser(name, help=text, description=f"{text}.", allow_abbrev=False)
    parser.add_argument("--project", default=".", metavar="FOLDER", help="a folder of the project (default: this one)")
    parser.set_defaults(run=functools.partial(_run, run))
    return parser


def _run(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    from turntree.harness import HarnessError

    try:
        return run(options)
    except HarnessError as error:
        raise CliError(str(error), 1) from error


def _add_harness(group: Any) -> None:
    install = _command(group, "install", "Install the hooks of a harness in the project", run_install)
    uninstall = _command(group, "uninstall", "Remove the hooks of a harness", run_uninstall)
    for parser in (install, uninstall):
        parser.add_argument("harness", help="claude, codex, cursor, opencode or factory")
    _command(group, "status", "Show which harnesses have hooks", run_harness_status)
    doctor = _command(group, "doctor", "Send events through the installed hooks and measure them", run_doctor)
    doctor.add_argument("harness", nargs="?", help="the harness (default: all that are installed)")


def _add_policy(group: Any) -> None:
    check = _command(group, "check", "Decide about a shell command", run_check)
    check.add_argument("command", help="the command")
    _command(group, "list", "List the rules", run_list)
    audit = _command(group, "audit", "Show the newest decisions", run_audit)
    audit.add_argument("--limit", type=int, default=20, help="the number of decisions (default: 20)")
    audit.add_argument("--verify", action="store_true", help="check that no decision was changed or removed")
    override = _command(group, "override", "Let a rule warn for a time; needs a terminal", run_override)
    override.add_argument("rule", help="the id of the rule")
    override.add_argument("--reason", required=True, help="why the rule does not apply")
    override.add_argument("--minutes", type=int, default=15, help="the time (default: 15)")


def _add_coord(group: Any) -> None:
    _command(group, "status", "Show agents, claims and the board", run_status)
    claim = _command(group, "claim", "Claim a resource", run_claim)
    claim.add_argument("resource", help='such as "file:src/a.rs"')
    claim.add_argument("--ttl", type=float, default=300, help="seconds (default: 300)")
    send = _command(group, "send", "Send a message", run_send)
    send.add_argument("text", help="the text")
    send.add_argument("--to", help="the agent (default: all)")
    post = _command(group, "post", "Post on the board", run_post)
    post.add_argument("text", help="the text")
    post.add_argument(
        "--kind", default="note", choices=("note", "finding", "dead-end", "norm", "flag"), help="what it is"
    )
    inbox = _command(group, "inbox", "Take the unread messages", run_inbox)
    for parser in (claim, send, post, inbox):
        parser.add_argument("--agent", help="the id of the agent (default: made of machine and process)")


def _add_worktree(group: Any) -> None:
    create = _command(group, "create", "Create a working tree on a branch of its own, and print its folder", run_create)
    create.add_argument("name", help="letters, digits and -")
    create.add_argument("--base", help="where the branch starts (default: the head of the main working tree)")
    _command(group, "list", "List the working trees", run_worktrees)
    remove = _command(group, "remove", "Remove a working tree; its branch stays", run_remove)
    remove.add_argument("name", help="the name")
    remove.add_argument("--force", action="store_true", help="also with uncommitted changes")


def run_hook(options: argparse.Namespace) -> int:
    """Handle one event and return the exit status of its reply."""
    from turntree.harness import hooks

    reply = hooks.handle(sys.stdin.buffer.read(), options.harness)
    sys.stdout.write(reply.stdout)
    sys.stderr.write(reply.stderr)
    return reply.exit


def _gate(options: argparse.Namespace) -> Gate:
    from turntree.harness import Gate

    return Gate.load(_project(options))


def _project(options: argparse.Namespace) -> Project:
    from turntree.harness import Project

    return Project.find(options.project)


def _coordination(options: argparse.Namespace) -> Coordination:
    from turntree.harness import Coordination

    return Coordination(_project(options), options.agent)


def run_install(options: argparse.Namespace) -> int:
    """Install hooks and print the file."""
    from turntree.harness import _install

    target = _install.target_of(options.harness)
    print(f"{_install.install(_project(options), options.harness)}: {target.note}")
    return 0


def run_uninstall(options: argparse.Namespace) -> int:
    """Remove hooks; 1 if there were none."""
    from turntree.harness import _install

    removed = _install.uninstall(_project(options), options.harness)
    print("removed" if removed else "not installed")
    return 0 if removed else 1


def run_harness_status(options: argparse.Namespace) -> int:
    """Print which harnesses have hooks."""
    from turntree.harness import _install

    project = _project(options)
    for name, target in _install.TARGETS.items():
        state = "installed" if _install.is_installed(project, name) else "not installed"
        print(f"{name:10} {state:14} {target.file}: {target.note}")
    return 0


def run_doctor(options: argparse.Namespace) -> int:
    """Check the installed hooks; 1 if one does not block what it must."""
    from turntree.harness import _install

    project = _project(options)
    names = [options.harness] if options.harness else [n for n in _install.TARGETS if _install.is_installed(project, n)]
    checks = [_install.doctor(project, name) for name in names]
    for check in checks:
        speed = "native" if check.is_native else "through Python, which is slower; install a wheel with turntree-hook"
        print(f"{check.harness:10} {check.problem or f'blocks and passes, {check.milliseconds:.0f} ms ({speed})'}")
    if not checks:
        print("no hooks are installed: turntree harness install NAME")
    return 1 if not checks or any(check.problem for check in checks) else 0


def run_check(options: argparse.Namespace) -> int:
    """Print the decision about a command; 1 if it is not allowed."""
    decision = _gate(options).check({"kind": "shell", "command": options.command})
    print(decision.outcome)
    if decision.message:
        print(decision.message)
    return 1 if decision.outcome in ("ask", "deny") else 0


def run_list(options: argparse.Namespace) -> int:
    """Print the rules."""
    for rule in _gate(options).rules():
        print(f"{rule['id']:24} {rule['level']:12} {rule['summary']}")
    return 0


def run_audit(options: argparse.Namespace) -> int:
    """Print decisions, or check their chain."""
    gate = _gate(options)
    if options.verify:
        print(f"{gate.verify_audit()} decisions, none changed")
        return 0
    for entry in gate.audit(options.limit):
        rules = ", ".join(rule["id"] for rule in entry["rules"])
        print(f"{entry['number']} {entry['outcome']:5} {entry['tool']} {rules}".rstrip())
    return 0


def run_override(options: argparse.Namespace) -> int:
    """Add an exception. Only a person at a terminal may."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CliError("policy override needs a terminal: a person makes exceptions, not an agent", 2)
    if input(f"Type the rule to let it warn for {options.minutes} minutes: ") != options.rule:
        raise CliError("the rule was not confirmed", 1)
    core = _project(options)._core
    core.override_rule(options.rule, options.reason, getpass.getuser(), options.minutes * 60)
    return 0


def run_status(options: argparse.Namespace) -> int:
    """Print agents, claims and the board."""
    core = _project(options)._core
    for agent in core.agents():
        print(f"agent {agent['id']} {'live' if agent['is_live'] else agent['status']} {agent['worktree']}")
    for claim in core.claims():
        print(f"claim {claim['resource']} {claim['mode']} {claim['owner']}")
    for post in core.board(20):
        print(f"board {post['kind']} {post['agent']}: {post['text']}")
    return 0


def run_claim(options: argparse.Namespace) -> int:
    """Claim a resource and print the lease."""
    lease = _coordination(options).acquire(options.resource, ttl=options.ttl)
    print(
        json.dumps({"id": lease.id, "resource": lease.resource, "token": lease.token, "expires_at": lease.expires_at})
    )
    return 0


def run_send(options: argparse.Namespace) -> int:
    """Send a message and print its id."""
    print(_coordination(options).send(options.text, options.to))
    return 0


def run_post(options: argparse.Namespace) -> int:
    """Post on the board and print the id."""
    print(_coordination(options).post(options.text, options.kind))
    return 0


def run_inbox(options: argparse.Namespace) -> int:
    """Print the unread messages."""
    for message in _coordination(options).inbox():
        print(f"{message['sender']}: {message['text']}")
    return 0


def run_create(options: argparse.Namespace) -> int:
    """Create a working tree and print its folder."""
    from turntree.harness import Worktrees

    print(Worktrees(_project(options)).create(options.name, options.base).path)
    return 0


def run_worktrees(options: argparse.Namespace) -> int:
    """Print the working trees."""
    from turntree.harness import Worktrees

    for worktree in Worktrees(_project(options)).all():
        print(f"{worktree.name}\t{worktree.branch}\t{worktree.path}")
    return 0


def run_remove(options: argparse.Namespace) -> int:
    """Remove a working tree."""
    from turntree.harness import Worktrees

    Worktrees(_project(options)).remove(options.name, force=options.force)
    return 0
