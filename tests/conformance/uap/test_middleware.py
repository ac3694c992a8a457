"""UAP-1.0 §10 and §16.3, point by point. The number in a name is that of the point in our checklist."""

import asyncio
import json
import logging as stdlib
import re

import pytest

from turntree import GuardrailError, Session, ValidationError, agent, session
from turntree.middleware import guardrails, logging, rule
from turntree.upp import AssistantMessage, ToolCall, Turn, UPPError, UserMessage, scripted, tool


class Layer:
    """A middleware with every hook of the specification."""

    def __init__(self, name, log, *, recovers=None):
        self.name = name
        self.log = log
        self.recovers = recovers

    async def before(self, context):
        await asyncio.sleep(0)
        self.log.append(f"{self.name}.before")
        return context

    async def after(self, context, turn):
        await asyncio.sleep(0)
        self.log.append(f"{self.name}.after")
        return turn

    async def on_error(self, context, error):
        await asyncio.sleep(0)
        self.log.append(f"{self.name}.on_error")
        return self.recovers


def layers(log, **options):
    return [Layer(name, log, **options) for name in ("first", "second", "third")]


def down():
    return scripted([UPPError("down", "PROVIDER_ERROR")])


def a_turn(text):
    return Turn.model_validate({"messages": [UserMessage("hi").to_dict(), AssistantMessage(text).to_dict()]})


async def every_way(make):
    """Run an agent with `run`, `stream`, `run_sync` and a session."""
    await make().run("Hello")
    stream = make().stream("Hello")
    async for _event in stream:
        pass
    await stream.turn
    make().run_sync("Hello")
    await session(make()).run("Hello")


async def test_uap_55_before_runs_in_array_order():
    log = []

    await every_way(lambda: agent(model=scripted(["Hi."]), middleware=layers(log)))

    assert [line for line in log if line.endswith("before")] == ["first.before", "second.before", "third.before"] * 4


async def test_uap_56_after_runs_in_reverse_array_order():
    log = []

    await every_way(lambda: agent(model=scripted(["Hi."]), middleware=layers(log)))

    assert [line for line in log if line.endswith("after")] == ["third.after", "second.after", "first.after"] * 4


async def test_uap_57_on_error_runs_in_reverse_array_order():
    log = []

    with pytest.raises(UPPError):
        await agent(model=down(), middleware=layers(log)).run("Hello")

    assert log[3:] == ["third.on_error", "second.on_error", "first.on_error"]


async def test_uap_58_middleware_does_not_modify_the_type_of_turns():
    seen = []

    class Look:
        name = "look"

        def after(self, context, turn):
            seen.append(turn)
            with pytest.raises(AttributeError):
                turn.response = turn.messages[0]
            return turn

    turn = await agent(model=scripted(["Hi."]), middleware=[Look()]).run("Hello")

    assert type(turn) is Turn
    assert turn == seen[0]


async def test_uap_59_changes_by_before_reach_later_middleware_and_the_run():
    class Change:
        name = "change"

        def before(self, context):
            context.metadata["by"] = self.name
            return context.replace(input="changed", history=[UserMessage("earlier")])

    seen = []

    class Look:
        name = "look"

        def before(self, context):
            history = [message.text for message in context.history]
            seen.append((context.input.text, history, dict(context.metadata)))

    model = scripted(["Hi."])
    turn = await agent(model=model, middleware=[Change(), Look()]).run("Hello")

    ids = {name: value for name, value in seen[0][2].items() if name in ("agentId", "turnId")}
    assert len(ids) == 2
    assert seen == [("changed", ["earlier"], {**ids, "by": "change"})]
    assert [message.text for message in model.requests[0].messages] == ["earlier", "changed"]
    assert turn.messages[0].text == "changed"


@pytest.mark.parametrize("given", [None, "Hi.", 1, [], {"messages": []}])
async def test_uap_60_after_must_return_a_valid_turn(given):
    class Wrong:
        name = "wrong"

        def after(self, context, turn):
            return given

    called = []

    class First:
        name = "first"

        def after(self, context, turn):
            called.append(turn)
            return turn

    with pytest.raises((TypeError, ValueError), match=r"\bafter\b.*Turn"):
        await agent(model=scripted(["Hi."]), middleware=[First(), Wrong()]).run("Hello")

    # `after` runs in reverse order: no other middleware receives the invalid value.
    assert called == []


async def test_uap_60_the_turn_that_after_returns_is_the_result_of_the_run():
    other = await agent(model=scripted(["Bye."])).run("Hello")

    class Replace:
        name = "replace"

        def after(self, context, turn):
            return other

    helper = agent(model=scripted(["Hi.", "Hi."]), middleware=[Replace()])

    assert await helper.run("Hello") == other
    assert await helper.stream("Hello").turn == other


async def test_uap_61_logging_has_its_four_options():
    lines = []

    @tool
    def look() -> str:
        return "seen"

    helper = agent(
        model=scripted([[ToolCall("c", "look", {})], "Hi."]),
        tools=[look],
        middleware=[logging(level="debug", logger=lines.append, include_messages=True, include_timing=True)],
    )
    await helper.run("Hello")

    assert lines[0] == f"[INFO] Agent {helper.id} starting execution"
    assert '[INFO] Input: "Hello"' in lines
    assert f"[DEBUG] Agent {helper.id} step 1 started" in lines
    assert f"[DEBUG] Agent {helper.id} calls tool look with {{}}" in lines
    assert re.fullmatch(rf"\[INFO\] Agent {helper.id} completed in \S+s \(\d+ tokens\)", lines[-1])
    steps = [re.sub(r" \(.*", "", line) for line in lines if re.search(r"step \d", line)]
    assert steps == [f"[DEBUG] Agent {helper.id} step {n} {phase}" for n in (1, 2) for phase in ("started", "ended")]


@pytest.mark.parametrize("messages", [True, False])
@pytest.mark.parametrize("timing", [True, False])
async def test_uap_61_messages_and_timing_are_omitted_on_request(messages, timing):
    lines = []
    shown = logging(level="info", logger=lines.append, include_messages=messages, include_timing=timing)

    await agent(model=scripted(["The answer."]), middleware=[shown]).run("The question")

    text = "\n".join(lines)
    assert ("The question" in text) is messages
    assert ("The answer." in text) is messages
    assert bool(re.search(r"\d+(\.\d+)?m?s\b", text)) is timing


@pytest.mark.parametrize(
    ("level", "written"),
    [("debug", {"DEBUG", "INFO", "ERROR"}), ("info", {"INFO", "ERROR"}), ("warn", {"ERROR"}), ("error", {"ERROR"})],
)
async def test_uap_61_logging_supports_levels(level, written):
    lines = []

    with pytest.raises(UPPError):
        await agent(model=down(), middleware=[logging(level=level, logger=lines.append)]).run("Hello")

    assert {line[1 : line.index("]")] for line in lines} == written


async def test_uap_61_logging_uses_the_standard_library_by_default(caplog):
    caplog.set_level(stdlib.INFO, logger="turntree")

    await agent(model=scripted(["Hi."]), middleware=[logging()]).run("Hello")

    records = [record for record in caplog.records if record.name == "turntree"]
    assert [record.levelname for record in records] == ["INFO"] * 2
    assert "starting execution" in records[0].getMessage()
    assert "completed" in records[1].getMessage()


async def test_uap_83_saved_state_does_not_contain_the_system_prompt():
    helper = agent(model=scripted(["Hi."]), system="The password is swordfish.")
    sess = session(helper)
    await sess.run("Hello")

    assert "swordfish" not in sess.to_json()
    assert "swordfish" not in repr(sess.checkpoints) + repr(sess.tree) + repr(sess)


async def test_uap_83_a_store_can_encrypt_the_document():
    class Encrypted:
        """A stand-in for encryption: the store receives a JSON document and returns it unchanged."""

        def __init__(self):
            self.rows = {}

        def save(self, id, document):
            self.rows[id] = bytes(byte ^ 0x5A for byte in json.dumps(document).encode())

        def load(self, id):
            return json.loads(bytes(byte ^ 0x5A for byte in self.rows[id]))

        def delete(self, id):
            del self.rows[id]

    store = Encrypted()
    helper = agent(model=scripted(["Hi.", "Bye."]))
    sess = session(helper, persistence=store)
    await sess.run("My pin is 1234")
    await sess.save()

    (row,) = store.rows.values()
    loaded = await Session.load(store, sess.id, helper)
    assert b"1234" not in row
    assert loaded.to_dict() == sess.to_dict()


@pytest.mark.parametrize("member", ["threadTree", "checkpoints", "metadata", "createdAt", "id"])
def test_uap_83_untrusted_state_is_refused_before_it_has_effects(member):
    ran = []
    helper = agent(model=scripted(lambda _: ran.append(1) or "Hi."))
    document = session(helper).to_dict()
    document[member] = {"__reduce__": ["os.system", "exit 1"]} if member != "metadata" else ["not", "an", "object"]

    with pytest.raises(ValidationError) as caught:
        Session.from_json(document, helper)

    assert any(issue["pointer"].startswith(f"/{member}") for issue in caught.value.errors())
    assert ran == []


async def test_uap_83_guardrails_in_first_place_hide_the_input_from_later_middleware():
    lines, model = [], scripted(["Hi."])
    helper = agent(
        model=model,
        middleware=[
            guardrails([rule(r"\d{4}", action="rewrite"), "attack"]),
            logging("debug", lines.append, include_messages=True),
        ],
    )

    with pytest.raises(GuardrailError):
        await helper.run("attack")
    assert (lines, model.requests) == ([], [])

    await helper.run("my pin is 1234")
    assert "1234" not in "".join(lines)
    assert "1234" not in model.requests[0].messages[0].text


async def test_uap_a46_the_first_turn_that_on_error_returns_is_used():
    log, turn = [], a_turn("recovered")
    middleware = [Layer("first", log), Layer("second", log, recovers=turn), Layer("third", log)]

    assert await agent(model=down(), middleware=middleware).run("Hello") == turn
    assert log[3:] == ["third.on_error", "second.on_error"]


async def test_uap_a47_on_error_is_called_on_middleware_whose_before_started():
    log = []

    class Fails(Layer):
        async def before(self, context):
            await super().before(context)
            context.input = "changed"
            message = "mine"
            raise LookupError(message)

    with pytest.raises(LookupError):
        await agent(
            model=scripted([]), middleware=[Layer("first", log), Fails("second", log), Layer("third", log)]
        ).run("Hello")

    assert log == ["first.before", "second.before", "second.on_error", "first.on_error"]


async def test_uap_a48_none_leaves_the_context_unchanged_and_metadata_are_shared():
    seen = []

    class Notes:
        name = "notes"

        def before(self, context):
            context.metadata["n"] = context.metadata.get("n", 0) + 1

        def after(self, context, turn):
            seen.append(context.metadata["n"])
            return turn

    await agent(model=scripted(["Hi."]), middleware=[Notes(), Notes()]).run("Hello")

    assert seen == [2, 2]


async def test_uap_a50_before_runs_at_the_start_of_iteration_and_after_runs_before_the_turn():
    log = []
    stream = agent(model=scripted(["Hi."]), middleware=[Layer("a", log)]).stream("Hello")
    # The test proves an absence, which has no event: it gives the stream time to start.
    await asyncio.sleep(0.01)
    assert log == []

    async for _event in stream:
        assert log == ["a.before"]
    assert log == ["a.before", "a.after"]
    assert (await stream.turn).response.text == "Hi."


async def test_uap_a51_the_context_contains_the_session_of_the_run():
    seen = []

    class Look:
        name = "look"

        def before(self, context):
            seen.append(context.session)

    helper = agent(model=scripted(["1", "2"]), middleware=[Look()])
    sess = session(helper)
    await sess.run("Hello")
    await helper.run("Hello")

    assert seen == [sess, None]


async def test_uap_a52_middleware_receives_events_of_steps_and_tools():
    kinds = []

    class Hear:
        name = "hear"

        async def on_event(self, context, event):
            kinds.append(event.uap.type if event.uap else event.upp.type)

    await agent(model=scripted(["Hi."]), middleware=[Hear()]).run("Hello")

    assert kinds == ["step_start", "step_end"]
