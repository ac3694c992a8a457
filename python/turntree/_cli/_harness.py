"""The commands ``turntree hook``, ``harness``, ``policy``, ``config``, ``coord`` and ``worktree``."""

from __future__ import annotations

import dataclasses
import functools
import getpass
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turntree._cli._stores import limit_of
from turntree._cli._terminal import CliError, print_error, print_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from turntree.harness import Coordination, Gate, Project, Worktree


def add(commands: Any) -> None:
    """Add the commands to a parser."""
    hook: argparse.ArgumentParser = commands.add_parser(
        "hook",
        help="handle one event of a coding harness",
        description="Reads one event and writes the reply.",
        allow_abbrev=False,
    )
    hook.add_argument("event", nargs="?", help="the event, such as pre-tool, for harnesses that do not send its name")
    hook.add_argument("--harness", default="claude", help="claude, codex, cursor, opencode, factory or generic")
    hook.set_defaults(run=run_hook)
    _add_harness(_group(commands, "harness", "install, remove and check the hooks of coding harnesses"))
    _add_policy(_group(commands, "policy", "decide about actions, list rules, show decisions"))
    _add_config(_group(commands, "config", "explain turntree.toml"))
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


_OBJECT = "one JSON object"
_RULES = "one JSON object for each rule"
_SCHEMA = "one JSON object: the schema, that of Cedar as text"


def _listing(group: Any, name: str, text: str, run: Any, what: str = "one JSON object for each line") -> Any:
    """Add a command that prints data."""
    parser = _command(group, name, text, run)
    parser.add_argument("--json", action="store_true", help=f"print {what}")
    return parser


def _run(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    from turntree.harness import HarnessError

    try:
        return run(options)
    except HarnessError as error:
        raise CliError(str(error), 1) from error


def _add_harness(group: Any) -> None:
    install = _listing(group, "install", "Install the hooks of a harness in the project", run_install, _OBJECT)
    uninstall = _listing(group, "uninstall", "Remove the hooks of a harness", run_uninstall, _OBJECT)
    for parser in (install, uninstall):
        parser.add_argument("harness", help="claude, codex, cursor, opencode, factory, or git for its hooks")
    _listing(group, "status", "Show which harnesses have hooks", run_harness_status)
    doctor = _listing(group, "doctor", "Send events through the installed hooks and measure them", run_doctor)
    doctor.add_argument("harness", nargs="?", help="the harness (default: all that are installed)")


def _add_policy(group: Any) -> None:
    check = _listing(group, "check", "Decide about a shell command", run_check, "one JSON object")
    check.add_argument("command", help="the command")
    _listing(group, "list", "List the rules", run_list)
    audit = _listing(group, "audit", "Show the newest decisions", run_audit)
    audit.add_argument("--limit", type=limit_of, default=20, help="the number of decisions (default: 20)")
    audit.add_argument("--verify", action="store_true", help="check that no decision was changed or removed")
    override = _command(group, "override", "Let a rule warn for a time; needs a terminal", run_override)
    override.add_argument("rule", help="the id of the rule")
    override.add_argument("--reason", required=True, help="why the rule does not apply")
    override.add_argument("--minutes", type=limit_of, default=15, help="the time (default: 15)")

    test = _listing(group, "test", "Run the examples of the user's rules", run_policy_test, _RULES)
    test.add_argument("folder", nargs="?", help="the folder of policies (default: that of the project)")
    replay = _listing(group, "replay", "Decide about recorded actions again", run_replay, _OBJECT)
    replay.add_argument("--from", dest="entries", metavar="FILE", help="JSON lines of audit --json (default: all)")
    replay.add_argument("--config", metavar="FILE", help="another turntree.toml")
    replay.add_argument("--policies", "--with", metavar="FOLDER", help="another folder of *.policy.toml and *.cedar")
    replay.add_argument("--limit", type=limit_of, default=1000, help="the number of decisions (default: 1000)")
    git_hook = _command(group, "git-hook", "Decide about a commit or a push, as a hook of git", run_git_hook)
    git_hook.add_argument("hook", choices=("pre-commit", "pre-push"), help="the hook")
    git_hook.add_argument("arguments", nargs="*", help="what git passes")


def _add_config(group: Any) -> None:
    explain = _listing(group, "explain", "Show values, where they come from and what they mean", run_explain)
    explain.add_argument("key", nargs="?", default="", help="the beginning of a key (default: all)")
    schema = _listing(group, "schema", "Print the JSON Schema of turntree.toml", run_schema, _SCHEMA)
    schema.add_argument("--policy", action="store_true", help="that of *.policy.toml instead")
    schema.add_argument("--cedar", action="store_true", help="the Cedar schema of *.cedar instead")


def _add_coord(group: Any) -> None:
    forecast = "Show which worktrees would conflict, and an order to merge them"
    _listing(group, "forecast", forecast, run_forecast, _OBJECT)
    _listing(group, "status", "Show agents, claims and the board", run_status, "one JSON object")
    claim = _listing(group, "claim", "Claim a resource", run_claim, "one JSON object, as without")
    claim.add_argument("resource", help='such as "file:src/a.rs"')
    claim.add_argument("--ttl", type=float, default=300, help="seconds (default: 300)")
    release = _listing(group, "release", "Release the claims of an agent on a resource", run_release, _OBJECT)
    release.add_argument("resource", help="as for claim")
    announce = _listing(
        group, "announce", "Announce work; print what overlaps with it, and the risk", run_announce, "one JSON object"
    )
    announce.add_argument("resource", help='as for claim, or a pattern such as "file:src/**/*.rs"')
    intents = ("editing", "reviewing", "refactoring", "testing", "documenting")
    announce.add_argument("--intent", default="editing", choices=intents, help="what is done (default: editing)")
    announce.add_argument("--note", default="", help="more about it")
    send = _listing(group, "send", "Send a message", run_send, _OBJECT)
    send.add_argument("text", help="the text")
    send.add_argument("--to", help="the agent (default: all)")
    post = _listing(group, "post", "Post on the board", run_post, _OBJECT)
    post.add_argument("text", help="the text")
    post.add_argument(
        "--kind", default="note", choices=("note", "finding", "dead-end", "norm", "flag"), help="what it is"
    )
    _listing(group, "board", "Show the board", run_board)
    inbox = _listing(group, "inbox", "Take the unread messages", run_inbox)
    messages = _listing(group, "messages", "Take the unread messages, as inbox", run_inbox)
    for parser in (claim, release, announce, send, post, inbox, messages):
        parser.add_argument("--agent", help="the id of the agent (default: made of machine and process)")


def _add_worktree(group: Any) -> None:
    text = "Create a working tree on a branch of its own, and print its folder"
    create = _listing(group, "create", text, run_create, _OBJECT)
    text = "Print the folder of a working tree; create it if there is none"
    ensure = _listing(group, "ensure", text, run_ensure, _OBJECT)
    for parser in (create, ensure):
        parser.add_argument("name", help="letters, digits and -")
        parser.add_argument("--base", help="where the branch starts (default: the head of the main working tree)")
    _listing(group, "list", "List the working trees", run_worktrees)
    remove = _listing(group, "remove", "Remove a working tree; its branch stays", run_remove, _OBJECT)
    remove.add_argument("name", help="the name")
    remove.add_argument("--force", action="store_true", help="also with uncommitted changes")


# One byte more than the native core handles.
_MAX_EVENT = 10 * 1024 * 1024 + 1


def run_hook(options: argparse.Namespace) -> int:
    """Handle one event and return the exit status of its reply."""
    from turntree.harness import hooks

    # Larger events are not handled: what is read names them.
    data = sys.stdin.buffer.read(_MAX_EVENT)
    while sys.stdin.buffer.read(_MAX_EVENT):
        pass
    reply = hooks.handle(data, options.harness, event=options.event)
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

    # The command ends before the agent that it speaks for.
    return Coordination(_project(options), options.agent, own=False)


def run_install(options: argparse.Namespace) -> int:
    """Install hooks and print the file."""
    from turntree.harness import _git_hooks, _install

    if options.harness == "git":
        file, note = _git_hooks.install(_project(options)), None
    else:
        note = _install.target_of(options.harness).note
        file = _install.install(_project(options), options.harness)
    values = {"harness": options.harness, "file": str(file), "note": note}
    return _print(options, values, f"{file}: {note}" if note else file)


def _print(options: argparse.Namespace, values: dict[str, Any], text: object) -> int:
    """Print one result, and return the exit status of success."""
    print_json(values) if options.json else print(text)
    return 0


def run_uninstall(options: argparse.Namespace) -> int:
    """Remove hooks; 1 if there were none."""
    from turntree.harness import _git_hooks, _install

    project = _project(options)
    is_git = options.harness == "git"
    removed = _git_hooks.uninstall(project) if is_git else _install.uninstall(project, options.harness)
    _print(options, {"harness": options.harness, "removed": removed}, "removed" if removed else "not installed")
    return 0 if removed else 1


def run_harness_status(options: argparse.Namespace) -> int:
    """Print which harnesses have hooks, and whether git has them."""
    from turntree.harness import _git_hooks, _install

    project = _project(options)
    rows = [
        (name, _install.is_installed(project, name), str(target.file), target.note)
        for name, target in _install.TARGETS.items()
    ]
    files = f"the hooks {' and '.join(_git_hooks.NAMES)}"
    rows.append(("git", _git_hooks.is_installed(project), files, "for people as well; --no-verify skips them"))
    for name, installed, file, note in rows:
        if options.json:
            print_json({"harness": name, "tier": "gateable", "installed": installed, "file": file, "note": note})
            continue
        state = "installed" if installed else "not installed"
        print(f"{name:10} {state:14} {file}: {note}")
    return 0


def run_doctor(options: argparse.Namespace) -> int:
    """Check the installed hooks; 1 if one does not block what it must."""
    from turntree.harness import _install

    project = _project(options)
    names = [options.harness] if options.harness else [n for n in _install.TARGETS if _install.is_installed(project, n)]
    checks = [_install.doctor(project, name) for name in names]
    for check in checks:
        if options.json:
            values = {"harness": check.harness, "problem": check.problem, "milliseconds": check.milliseconds}
            print_json({**values, "is_native": check.is_native})
            continue
        speed = "native" if check.is_native else "through Python, which is slower; install a wheel with turntree-hook"
        print(f"{check.harness:10} {check.problem or f'blocks and passes, {check.milliseconds:.0f} ms ({speed})'}")
    if not checks:
        print_error("no hooks are installed: turntree harness install NAME", 1)
    return 1 if not checks or any(check.problem for check in checks) else 0


def run_check(options: argparse.Namespace) -> int:
    """Print the decision about a command; 1 if it is not allowed."""
    decision = _gate(options).check({"kind": "shell", "command": options.command})
    if options.json:
        found = dataclasses.asdict(decision)
        print_json({**found, "reason": decision.reason, "remedy": decision.remedy})
        return 1 if decision.outcome in ("ask", "deny") else 0
    print(decision.outcome)
    if decision.message:
        print(decision.message)
    return 1 if decision.outcome in ("ask", "deny") else 0


def run_list(options: argparse.Namespace) -> int:
    """Print the rules."""
    for rule in _gate(options).rules():
        if options.json:
            print_json(rule)
            continue
        print(f"{rule['id']:24} {rule['level']:12} {rule['summary']}")
    return 0


def run_audit(options: argparse.Namespace) -> int:
    """Print decisions, or check their chain."""
    gate = _gate(options)
    if options.verify:
        found = gate.verify_audit()
        print_json({"decisions": found, "changed": 0}) if options.json else print(f"{found} decisions, none changed")
        return 0
    for entry in gate.audit(options.limit):
        if options.json:
            print_json(entry)
            continue
        rules = ", ".join(rule["id"] for rule in entry["rules"])
        print(f"{entry['number']} {entry['outcome']:5} {entry['tool']} {rules}".rstrip())
    return 0


def run_policy_test(options: argparse.Namespace) -> int:
    """Run the examples of rules; 1 if one has another outcome."""
    if options.folder is not None and not Path(options.folder).is_dir():
        raise CliError(f"{options.folder}: there is no such folder; check the path", 2)
    tested = _project(options)._core.test_policies(options.folder)
    failed = sum(len(rule["wrong"]) for rule in tested)
    for rule in tested:
        if options.json:
            print_json(rule)
            continue
        for wrong in rule["wrong"]:
            print(f"{rule['id']}: {wrong['example']}: {wrong['got']}, not {wrong['wanted']}")
        if not rule["count"]:
            print(f"{rule['id']}: no examples")
    if not options.json:
        print(f"{len(tested)} rules, {sum(rule['count'] for rule in tested)} examples, {failed} wrong")
    return 1 if failed else 0


def run_replay(options: argparse.Namespace) -> int:
    """Print the decisions that would end in another way; 1 if there are some."""
    for given, exists in ((options.config, os.path.isfile), (options.policies, os.path.isdir)):
        if given is not None and not exists(given):
            kind = "file" if exists is os.path.isfile else "folder"
            raise CliError(f"{given}: there is no such {kind}; check the path", 2)
    entries = None if options.entries is None else _read_entries(options.entries)
    found = _gate(options).replay(entries, limit=options.limit, config=options.config, policies=options.policies)
    if options.json:
        print_json(found.model_dump(mode="json"))
        return 1 if found.changes else 0
    for change in found.changes:
        print(f"{change.number} {change.before} -> {change.after} {change.subject} {', '.join(change.rules)}".rstrip())
    if found.not_asked:
        print(f"not asked again: {', '.join(found.not_asked)}")
    print(f"{found.count} decided again, {len(found.changes)} changed, {found.skipped} left out")
    return 1 if found.changes else 0


def _read_entries(file: str) -> list[Any]:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise CliError(f"{file}: {error.strerror}; check the path", 2) from error
    try:
        return [json.loads(line) for line in lines if line.strip()]
    except ValueError as error:
        raise CliError(f"{file}: not JSON lines as of audit --json ({error})", 2) from error


def run_git_hook(options: argparse.Namespace) -> int:
    """Decide about a commit or a push; 1 stops it. A person decides at the terminal, so a question is a warning."""
    from turntree.harness._gate import _decision

    decision = _decision(_project(options)._core.check_commit(options.hook, options.project))
    if decision.message:
        print(decision.message, file=sys.stderr)
    return 1 if decision.outcome == "deny" else 0


def run_explain(options: argparse.Namespace) -> int:
    """Print the keys of the configuration."""
    for key in _project(options)._core.explain(options.key):
        if options.json:
            print_json(key)
            continue
        default = "" if key["origin"] == "default" else f", default {json.dumps(key['default'])}"
        print(f"{key['key']} = {json.dumps(key['value'])} ({key['origin']}{default})\n    {key['description']}")
    if os.environ.get("TURNTREE_STRICT", "0") != "0" and not options.json:
        print("TURNTREE_STRICT is set: every rule has its own level, whatever policy.levels says")
    return 0


def run_schema(options: argparse.Namespace) -> int:
    """Print a schema."""
    from turntree._core import harness_schemas

    if options.cedar:
        cedar = harness_schemas()["cedar"]
        print_json({"cedar": cedar}) if options.json else print(cedar, end="")
        return 0
    if options.json:
        print_json(harness_schemas()["policy" if options.policy else "turntree.toml"])
        return 0
    print(json.dumps(harness_schemas()["policy" if options.policy else "turntree.toml"], indent=2))
    return 0


def run_forecast(options: argparse.Namespace) -> int:
    """Print the conflicts; 1 if there are some."""
    from turntree.harness import Worktrees

    forecast = Worktrees(_project(options)).forecast_all()
    if options.json:
        print_json(forecast.model_dump(mode="json"))
        return 1 if forecast.conflicts else 0
    for conflict in forecast.conflicts:
        print(f"{conflict.ours} and {conflict.theirs}: {', '.join(conflict.files)}")
    print(f"merge in this order: {', '.join(forecast.order) or 'nothing to merge'}")
    return 1 if forecast.conflicts else 0


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
    if options.json:
        print_json({"agents": core.agents(), "claims": core.claims(), "board": core.board(20)})
        return 0
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
    print_json(lease.model_dump(mode="json"))
    return 0


def run_release(options: argparse.Namespace) -> int:
    """Release claims; 1 if there were none."""
    core = _project(options)._core
    agent = _coordination(options).agent
    resource = core.resource_name(options.resource)
    own = [found for found in core.claims() if found["owner"] == agent and found["resource"] == resource]
    released = [core.release(found["id"], found["resource"], agent) for found in own]
    values = {"agent": agent, "resource": resource, "released": sum(map(bool, released))}
    _print(options, values, "released" if any(released) else f"{agent} has no claim on {options.resource}")
    return 0 if any(released) else 1


def run_announce(options: argparse.Namespace) -> int:
    """Announce work and print what others have announced that overlaps."""
    found = _coordination(options).announce(options.resource, options.intent, options.note)
    if options.json:
        print_json({"risk": found.risk, "suggestion": found.suggestion, "order": found.order, "overlaps": list(found)})
        return 0
    for other in found:
        print(f"{other['agent']} {other['intent']} {other['resource']} {other['note']}".rstrip())
    if found:
        advice = {"parallel_ok": "work at the same time", "merge_order": "merge in this order"}
        text = advice.get(found.suggestion, "work one after the other, in this order")
        order = "" if found.suggestion == "parallel_ok" else f": {', '.join(found.order)}"
        print_error(f"risk {found.risk}: {text}{order}", None)
    return 0


def run_board(options: argparse.Namespace) -> int:
    """Print the board."""
    for post in _project(options)._core.board(100):
        if options.json:
            print_json(post)
            continue
        print(f"{post['kind']} {post['agent']}: {post['text']}")
    return 0


def run_send(options: argparse.Namespace) -> int:
    """Send a message and print its id."""
    sent = _coordination(options).send(options.text, options.to)
    return _print(options, {"id": sent}, sent)


def run_post(options: argparse.Namespace) -> int:
    """Post on the board and print the id."""
    posted = _coordination(options).post(options.text, options.kind)
    return _print(options, {"id": posted}, posted)


def run_inbox(options: argparse.Namespace) -> int:
    """Print the unread messages."""
    for message in _coordination(options).inbox():
        if options.json:
            print_json(message)
            continue
        print(f"{message['sender']}: {message['text']}")
    return 0


def run_create(options: argparse.Namespace) -> int:
    """Create a working tree and print its folder."""
    from turntree.harness import Worktrees

    return _print_worktree(options, Worktrees(_project(options)).create(options.name, options.base))


def run_ensure(options: argparse.Namespace) -> int:
    """Print the folder of a working tree."""
    from turntree.harness import Worktrees

    return _print_worktree(options, Worktrees(_project(options)).ensure(options.name, options.base))


def _print_worktree(options: argparse.Namespace, worktree: Worktree) -> int:
    values = {"name": worktree.name, "branch": worktree.branch, "path": str(worktree.path)}
    return _print(options, values, worktree.path)


def run_worktrees(options: argparse.Namespace) -> int:
    """Print the working trees."""
    from turntree.harness import Worktrees

    for worktree in Worktrees(_project(options)).all():
        if options.json:
            values = {"name": worktree.name, "branch": worktree.branch, "path": str(worktree.path)}
            print_json(values)
            continue
        print(f"{worktree.name}\t{worktree.branch}\t{worktree.path}")
    return 0


def run_remove(options: argparse.Namespace) -> int:
    """Remove a working tree."""
    from turntree.harness import Worktrees

    Worktrees(_project(options)).remove(options.name, force=options.force)
    if options.json:
        print_json({"name": options.name, "removed": True})
    return 0
