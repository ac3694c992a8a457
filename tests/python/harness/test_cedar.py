"""Rules of the user in Cedar: through the commands, and compared with the engine of cedarpy."""

import json
import random
import re
import shlex
from pathlib import Path

import pytest

from turntree.harness import Gate, HarnessError, Project, hooks

ROOT = Path(__file__).parents[3]


@pytest.fixture
def repository(empty_repository):
    page = (ROOT / "docs/harness.md").read_text()
    example = re.search(r"```cedar\n(.*?)```", page, re.DOTALL)
    assert example is not None
    (empty_repository / "policies/team.cedar").write_text(example[1])
    return empty_repository


def test_the_examples_in_annotations_are_run(repository, run):
    assert run("policy", "test") == (0, "2 rules, 5 examples, 0 wrong\n")

    file = repository / "policies/team.cedar"
    file.write_text(file.read_text().replace('@allows("kubectl --context=test', '@allows("kubectl --context=prod'))
    status, out = run("policy", "test")

    assert status == 1
    assert "user.no-production: kubectl --context=prod get pods: deny, not allow" in out


def test_a_hook_decides_by_them_and_the_audit_verifies(repository):
    event = {"hook_event_name": "PreToolUse", "session_id": "1", "cwd": str(repository), "tool_name": "Bash"}

    reply = hooks.handle(
        json.dumps({**event, "tool_input": {"command": "helm --context=prod-eu list"}}), harness="claude"
    )

    assert reply.exit == 2
    assert reply.stderr.startswith("Blocked by turntree rule user.no-production: production is changed by the pipeline")
    gate = Gate.load(Project.find(repository))
    assert gate.audit()[0]["rules"][0]["id"] == "user.no-production"
    assert gate.verify_audit() == 1
    start = {"hook_event_name": "SessionStart", "session_id": "1", "cwd": str(repository), "source": "startup"}
    assert "- user.no-production: production" in hooks.handle(json.dumps(start), harness="claude").stdout


def test_their_levels_are_listed_and_explained(repository, run):
    (repository / "turntree.toml").write_text('[policy.levels]\n"user.no-production" = "shadow"\n')

    status, out = run("config", "explain", "policy.levels.user")

    assert status == 0
    assert 'policy.levels.user.no-production = "shadow"' in out
    assert "turntree.toml, default " in out
    assert "team.cedar:13" in out
    levels = {rule["id"]: rule["level"] for rule in Gate.load(Project.find(repository)).rules()}
    assert (levels["user.no-production"], levels["user.interface"]) == ("shadow", "recommended")


def test_a_replay_shows_what_another_file_would_change(repository, run, tmp_path):
    Gate.load(Project.find(repository)).check({"kind": "shell", "command": "helm --context=prod list"})
    (tmp_path / "new").mkdir()

    status, out = run("policy", "replay", "--policies", str(tmp_path / "new"))

    assert status == 1
    assert "deny -> allow helm --context=prod list" in out


def test_the_schema_is_printed_as_it_is_published(run):
    assert run("config", "schema", "--cedar") == (0, (ROOT / "docs/schema/turntree.cedarschema").read_text())


def test_an_error_names_file_line_rule_and_remedy(repository):
    file = repository / "policies/team.cedar"
    file.write_text(file.read_text().replace("context.program", "context.progam"))

    with pytest.raises(HarnessError, match=r"team\.cedar:\d+: user\.no-production: .*progam.*; .+"):
        Project.find(repository)


WORDS = ("kubectl", "helm", "get", "delete", "prod", "test", "--force", "a b", "x*")


def _condition(random_source: random.Random, depth: int) -> str:
    kind = random_source.randrange(7 if depth else 4)
    word = json.dumps(random_source.choice(WORDS))
    if kind == 0:
        return f"context.program == {word}"
    if kind == 1:
        return f"context.arguments.contains({word})"
    if kind == 2:
        return f'context.line like "*{random_source.choice(("prod", "g", "--f", "b x"))}*"'
    if kind == 3:
        return f"[{word}, {json.dumps(random_source.choice(WORDS))}].containsAny(context.arguments)"
    left, right = _condition(random_source, depth - 1), _condition(random_source, depth - 1)
    return (f"({left} && {right})", f"({left} || {right})", f"!({left})")[kind - 4]


def test_decisions_are_those_of_another_build_of_the_engine(repository):
    cedarpy = pytest.importorskip("cedarpy", reason="cedarpy is not installed")
    source = random.Random(19)
    head = 'forbid (principal, action == Action::"shell", resource) when {{ {} }};'
    rules = [head.format(_condition(source, 3)) for _ in range(60)]
    annotated = [f'@id("user.r{at}") @reason("r") @remedy("m")\n{rule}' for at, rule in enumerate(rules)]
    (repository / "policies/team.cedar").write_text("\n".join(annotated))
    gate = Gate.load(Project.find(repository))
    entities = [
        {"uid": {"type": "Session", "id": ""}, "attrs": {}, "parents": []},
        {"uid": {"type": "Agent", "id": ""}, "attrs": {"harness": ""}, "parents": []},
    ]
    found = 0
    for _ in range(40):
        argv = [source.choice(WORDS) for _ in range(source.randrange(1, 6))]
        program = argv[0].lower()
        entity = {"uid": {"type": "Resource", "id": program}, "attrs": {"kind": "program"}, "parents": []}
        request = {
            "principal": 'Agent::""',
            "action": 'Action::"shell"',
            "resource": f"Resource::{json.dumps(program)}",
            "context": {
                "program": program, "arguments": argv[1:], "line": " ".join(argv), "via": "direct", "wrappers": [],
                "variables": [], "cwd": str(repository), "branch": "main",
            },
        }  # fmt: skip
        expected = cedarpy.is_authorized(request, "\n".join(rules), [*entities, entity])

        decision = gate._decide({"kind": "shell", "command": shlex.join(argv)})

        ours = {int(rule.id[6:]) for rule in decision.rules if rule.id.startswith("user.r")}
        assert ours == {int(name.removeprefix("policy")) for name in expected.diagnostics.reasons}, argv
        assert not expected.diagnostics.errors
        found += len(ours)
    assert found > 200
