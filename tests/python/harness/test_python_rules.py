"""Rules in Python: what they return, and how they are added to a gate."""

import pytest

from turntree.harness import Gate, Project

ACTION = {"kind": "shell", "command": "ls"}


@pytest.fixture
def gate(empty_repository):
    return Gate.load(Project.find(empty_repository))


@pytest.mark.parametrize("found", [None, False, ""])
def test_a_rule_that_finds_nothing_says_so_in_three_ways(gate, found):
    gate.rule("user.a", remedy="wait")(lambda action: found)

    assert gate.check(ACTION).outcome == "allow"


@pytest.mark.parametrize("found", [True, 3, ["a"], {"allowed": False}])
@pytest.mark.parametrize(("level", "outcome"), [("required", "deny"), ("recommended", "warn")])
def test_a_rule_that_returns_something_else_has_failed(gate, found, level, outcome):
    gate.rule("user.a", remedy="wait", level=level)(lambda action: found)

    decision = gate.check(ACTION)

    assert decision.outcome == outcome
    assert f"must return what is wrong as a text, or None, not {type(found).__name__}" in decision.reason


def test_a_replay_names_a_rule_that_returns_something_else(gate):
    gate.check(ACTION)
    gate.rule("user.a", remedy="wait")(lambda action: True)

    replay = gate.replay()

    assert (replay.changes, replay.not_asked) == ([], ["user.a"])


def test_an_async_function_is_no_rule(gate):
    async def check(action):
        return None

    with pytest.raises(TypeError, match='"user.a" is async.*without `async`'):
        gate.rule("user.a", remedy="wait")(check)
    with pytest.raises(TypeError, match='"user.a" must be a function of the action, not str'):
        gate.rule("user.a", remedy="wait")("text")


@pytest.mark.parametrize(("option", "value"), [("outcome", "block"), ("outcome", "allow"), ("level", "high")])
def test_a_word_that_is_unknown_is_refused_when_the_rule_is_added(gate, option, value):
    with pytest.raises(ValueError, match=f"{option} must be one of '.*', not '{value}'"):
        gate.rule("user.a", remedy="wait", **{option: value})


def test_two_rules_cannot_have_one_id(gate):
    gate.rule("user.a", remedy="wait")(lambda action: None)

    with pytest.raises(ValueError, match='another rule of this gate is called "user.a"'):
        gate.rule("user.a", remedy="wait")(lambda action: "no")


def test_a_function_that_is_defined_again_replaces_the_first_one(gate):
    for answer in ("first", "second"):

        @gate.rule("user.a", remedy="wait")
        def check(action, answer=answer):
            return answer

    assert [rule.reason for rule in gate.check(ACTION).rules] == ["second"]


def test_a_negative_number_of_decisions_is_refused(gate):
    for call in (gate.audit, lambda limit: gate.replay(limit=limit)):
        with pytest.raises(ValueError, match="limit must be at least 0, not -1"):
            call(-1)
    assert gate.audit(2**40) == []
