"""The guardrails middleware."""

from __future__ import annotations

import asyncio
import re

import pytest
from agent_middleware_support import (
    double,
    hook_object,
    no_secret,
    recorder,
    texts,
    turn_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from support.laws import cases

from turntree import (
    GuardrailError,
    TurntreeError,
    agent,
)
from turntree.middleware import guardrails, rule
from turntree.upp import (
    CodeExecution,
    CodeExecutionDelta,
    Image,
    Reply,
    Text,
    ToolCall,
    scripted,
)

# guardrails


def ends_with_stop(text):
    return text.endswith(".")


@pytest.mark.parametrize(
    ("what", "bad", "good", "reason"),
    [
        ("secret", "the secret", "fine", "it matches the pattern"),
        (re.compile("SECRET", re.IGNORECASE), "the secret", "fine", "it matches the pattern"),
        (ends_with_stop, "no stop", "a stop.", "it does not pass"),
        (no_secret, "the secret", "fine", "it tells a secret"),
        (lambda text: no_secret(text), "the secret", "fine", "it tells a secret"),
        ({"type": "object", "required": ["a"]}, '{"b": 1}', '{"a": 1}', '"a" is a required property'),
        ({"type": "object"}, "no json", "{}", "it is not JSON"),
    ],
)
@pytest.mark.parametrize("place", ["input", "output"])
def test_rule_rejects_text_that_violates_it(run, what, bad, good, reason, place):
    def helper(said):
        model = scripted([said if place == "output" else "fine."])
        return agent(model=model, middleware=[guardrails(**{place: [rule(what, name="mine")]})])

    def said(text):
        return text if place == "input" else "hello"

    with pytest.raises(GuardrailError) as raised:
        run(helper(bad).run(said(bad)))
    error = raised.value
    assert (error.rule, error.place, error.text) == ("mine", place, bad)
    assert reason in error.reason
    assert bad not in str(error)
    assert isinstance(error, TurntreeError)
    assert run(helper(good).run(said(good))).response.text


def test_rejected_input_is_not_sent_to_the_model(run):
    log, model = [], scripted(["x"])

    with pytest.raises(GuardrailError):
        run(agent(model=model, middleware=[guardrails("bad"), recorder(log, "b")]).run("bad"))

    assert (log, model.requests) == ([], [])


@pytest.mark.parametrize(
    ("made", "left"),
    [
        (rule(r"\d+", action="rewrite"), "call [removed] or [removed]"),
        (rule(r"(\d)\d+", action="rewrite", replacement=r"\1…"), "call 1… or 2…"),
        (rule(str.upper, action="rewrite"), "CALL 123 OR 234"),
        (rule(lambda text: False, action="rewrite", name="all", replacement="-"), "-"),
    ],
)
@pytest.mark.parametrize("place", ["input", "output"])
def test_rule_rewrites_text(run, made, left, place):
    model = scripted(["call 123 or 234"])
    helper = agent(model=model, middleware=[guardrails(**{place: made})])

    turn = run(helper.run("call 123 or 234"))

    assert texts(turn.messages)[0 if place == "input" else 1] == left
    if place == "input":
        assert texts(model.requests[0].messages) == [left]


def test_rules_run_in_order_on_the_previous_output(run):
    rules = [rule("b", action="rewrite", replacement="c"), rule("c", name="no c")]

    with pytest.raises(GuardrailError) as raised:
        run(agent(model=scripted(["x"]), middleware=[guardrails(rules)]).run("abd"))

    assert (raised.value.rule, raised.value.text) == ("no c", "acd")


def test_rules_apply_to_every_text_block_and_leave_other_blocks(run):
    model = scripted(["x"])
    picture = Image.from_bytes(b"\x89PNG", "image/png")
    helper = agent(model=model, middleware=[guardrails(rule("bad", action="rewrite"))])

    run(helper.run([Text("bad one"), picture, Text("bad two")]))

    content = model.requests[0].messages[0].content
    assert [block.text for block in content if block.type == "text"] == ["[removed] one", "[removed] two"]
    assert content[1] == picture


def test_rules_apply_to_model_text_between_tool_calls(run):
    model = scripted([["the secret", ToolCall("c", "double", {"x": 4})], "fine"])

    with pytest.raises(GuardrailError) as raised:
        run(agent(model=model, tools=[double], middleware=[guardrails(output="secret")]).run("hello"))

    assert raised.value.partial is None
    assert len(model.requests) == 1


def test_rewritten_answer_is_sent_in_later_requests(run):
    model = scripted([["the secret", ToolCall("c", "double", {"x": 4})], "fine"])
    helper = agent(model=model, tools=[double], middleware=[guardrails(output=rule("secret", action="rewrite"))])

    turn = run(helper.run("hello"))

    assert texts(model.requests[1].messages)[1] == "the [removed]"
    assert texts(turn.messages)[1] == "the [removed]"
    assert turn.tool_executions[0].result == 8


@settings(max_examples=cases(60), deadline=None)
@given(st.lists(st.sampled_from(["safe ", "sec", "ret ", "secret ", "\N{SNOWMAN} ", "secre"]), min_size=1, max_size=8))
def test_stream_emits_no_text_that_a_rule_removes(words):
    said = "".join(words)

    async def main():
        helper = agent(model=scripted([said or "-"]), middleware=[guardrails(output=rule("secret", action="rewrite"))])
        stream = helper.stream("hello")
        heard = "".join(
            [event.upp.delta["text"] async for event in stream if event.upp and event.upp.type == "text_delta"]
        )
        return heard, (await stream.turn).response.text

    heard, text = asyncio.run(main())
    assert heard == text == said.replace("secret", "[removed]")


def test_a_rejected_answer_is_not_streamed(run):
    helper = agent(model=scripted(["one two secret"]), middleware=[guardrails(output="secret")])
    heard = []

    async def main():
        async for event in helper.stream("hello"):
            heard.append(event.upp.type if event.upp else event.uap.type)

    with pytest.raises(GuardrailError):
        run(main())
    assert heard == ["step_start"]


def test_without_hold_text_streams_immediately_and_only_the_turn_is_rewritten(run):
    rules = rule("two", action="rewrite")
    helper = agent(model=scripted(["one two"]), middleware=[guardrails(output=rules, hold=False)])

    async def main():
        stream = helper.stream("hello")
        heard = [event.upp.delta["text"] async for event in stream if event.upp and event.upp.type == "text_delta"]
        return "".join(heard), (await stream.turn).response.text

    assert run(main()) == ("one two", "one [removed]")


def test_rules_apply_to_the_partial_turn_of_an_aborted_stream(run):
    helper = agent(
        model=scripted([Reply("my secret is long and goes on", pace=0.02)]),
        middleware=[guardrails(output=rule("secret", action="rewrite"), hold=False)],
    )

    async def main():
        stream = helper.stream("hello")
        said = ""
        async for event in stream:
            if event.upp and event.upp.type == "text_delta":
                said += event.upp.delta["text"]
                if "secret" in said:
                    stream.abort()
        return await stream.turn

    turn = run(main())

    assert "secret" not in turn.response.text
    assert "[removed]" in turn.response.text


def test_schema_and_text_rules_apply_to_structured_answers(run):
    structure = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}
    small = {"properties": {"n": {"maximum": 3}}}

    def helper(answer, output):
        return agent(model=scripted([answer]), structure=structure, middleware=[guardrails(output=output)])

    with pytest.raises(GuardrailError, match="rejected the output: /n"):
        run(helper('{"n": 4}', small).run("x"))
    assert run(helper('{"n": 3}', small).run("x")).data == {"n": 3}
    turn = run(helper('{"s": "a secret"}', rule("secret", action="rewrite")).run("x"))
    assert turn.data == {"s": "a [removed]"}


def test_on_error_can_replace_a_rejected_answer(run):
    recovered = turn_of("I cannot say that.")

    def on_error(context, error):
        return recovered if isinstance(error, GuardrailError) else None

    helper = agent(
        model=scripted(["the secret"]), middleware=[hook_object(on_error=on_error), guardrails(output="secret")]
    )

    assert run(helper.run("hello")) == recovered


def test_exception_from_a_rule_is_raised_as_the_same_object(run):
    error = LookupError("mine")

    def broken(text):
        raise error

    with pytest.raises(LookupError) as raised:
        run(agent(model=scripted(["x"]), middleware=[guardrails(broken)]).run("hello"))

    assert raised.value is error


def test_invalid_return_value_of_a_rule_raises(run):
    with pytest.raises(TypeError, match="a rule must return True, False, None or a str, not int"):
        run(agent(model=scripted(["x"]), middleware=[guardrails(lambda text: 3)]).run("hello"))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: rule("("), ValueError, "invalid regular expression"),
        (lambda: rule(3), TypeError, "a rule is a regular expression, a function or a JSON Schema, not int"),
        (lambda: rule(re.compile(b"x")), TypeError, "must be of text"),
        (lambda: rule({}, action="rewrite"), TypeError, "can reject, not rewrite"),
        (lambda: rule("x", action="drop"), ValueError, 'action must be "reject" or "rewrite"'),
        (lambda: guardrails({"type": 3}), ValueError, "correct the JSON Schema"),
    ],
)
def test_rules_are_validated_at_construction(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_code_that_a_vendor_ran_is_checked_too(run):
    model = scripted([["Look:", CodeExecution("print(123)", "123")]])
    helper = agent(model=model, middleware=[guardrails(output=rule(r"\d+", action="rewrite", replacement="#"))])

    async def streamed():
        stream = helper.stream("hi")
        events = [event.upp async for event in stream if isinstance(event.upp, CodeExecutionDelta)]
        return events, await stream.turn

    events, turn = run(streamed())

    assert turn.response.content[1] == CodeExecution("print(#)", "#")
    assert [(event.code, event.output) for event in events] == [("print(#)", "#")]
