"""The size of saved sessions, and documents of earlier versions."""

import json
from pathlib import Path

import pytest
from session_support import call

from turntree import ApprovalRequired, Session, agent, session
from turntree.execution import loop, react
from turntree.upp import UPPError, scripted, tool

DATA = Path(__file__).parents[2] / "data" / "sessions"
CHECKPOINT_MEMBERS = ("id", "sessionId", "timestamp", "step", "threadId", "state", "subAgentStates")
KILOBYTE = "x" * 1000


@tool(inline=True)
def look(place: str) -> str:
    """Look up the weather."""
    return f"rain in {place}"


@tool(inline=True)
def read(page: int) -> str:
    """Read a page."""
    return f"{page} {KILOBYTE}"


def compact(value):
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


async def session_of(steps, *, finished=True):
    """A session whose run called a tool in each step. An unfinished run has an error in its last step."""
    replies = [call("read", page=page) for page in range(steps - 1)]
    helper = agent(
        model=scripted([*([reply] for reply in replies), *(["Done."] if finished else [])]),
        tools=[read],
        execution=loop(max_iterations=steps),
    )
    sess = session(helper)
    if finished:
        await sess.run("Read the book.")
    else:
        with pytest.raises(UPPError):
            await sess.run("Read the book.")
    return sess


def beyond_the_specification(text):
    """The bytes of a session that are not in members that the specification requires."""
    document = json.loads(text)
    required = compact(document["threadTree"])
    for checkpoint in document["checkpoints"]:
        required += compact({name: checkpoint[name] for name in CHECKPOINT_MEMBERS})
    return len(text.encode()) - required


# The size of a run


@pytest.mark.parametrize("finished", [True, False])
async def test_records_of_100_steps_take_less_than_600_kilobytes_beyond_the_specification(finished):
    text = (await session_of(100, finished=finished)).to_json()

    assert beyond_the_specification(text) < 600_000


@pytest.mark.parametrize("finished", [True, False])
async def test_records_of_twice_the_steps_take_less_than_twice_and_a_third(finished):
    sizes = [beyond_the_specification((await session_of(steps, finished=finished)).to_json()) for steps in (40, 80)]

    assert sizes[1] < 2.3 * sizes[0]


async def session_of_turns(turns, **options):
    """A session with turns of 2 KB of text."""
    sess = session(agent(model=scripted(lambda _request: KILOBYTE)), **options)
    for _ in range(turns):
        await sess.run(KILOBYTE)
    return sess


async def test_sessions_of_many_turns_take_less_than_1_3_times_their_text():
    sizes = {turns: [] for turns in (50, 100, 200)}
    for turns, measured in sizes.items():
        without = await session_of_turns(turns, checkpoints=False)
        measured += [len(without.tree.to_json()), len(without.to_json())]

    for few, more in ((50, 100), (100, 200)):
        text = (more - few) * 2 * len(KILOBYTE)
        for before, after in zip(sizes[few], sizes[more], strict=True):
            assert after <= 1.3 * more * 2 * len(KILOBYTE)
            # A turn costs the same however many there are, so this is the size of any number of turns.
            assert after - before <= 1.3 * text
    early, late = (
        [after - before for before, after in zip(sizes[few], sizes[2 * few], strict=True)] for few in (50, 100)
    )
    assert all(more <= 2.02 * less for less, more in zip(early, late, strict=True))


async def test_checkpoints_of_turns_add_only_what_the_specification_requires():
    sess = await session_of_turns(100)

    text = sess.to_json()

    # A checkpoint repeats the messages of its run in `state.messages`, and no others.
    assert beyond_the_specification(text) < 0.1 * 100 * 2 * len(KILOBYTE)
    assert all(len(checkpoint["state"]["messages"]) == 2 for checkpoint in json.loads(text)["checkpoints"])


async def test_checkpoint_in_a_session_has_the_members_of_the_specification():
    document = json.loads((await session_of(5)).to_json())

    for number, checkpoint in enumerate(document["checkpoints"], 1):
        assert set(checkpoint) == {*CHECKPOINT_MEMBERS, "metadata"}
        assert checkpoint["state"]["step"] == number
        assert len(checkpoint["state"]["messages"]) == (1 + 2 * number if number < 5 else 10)


async def test_approvals_in_each_step_share_one_record_of_the_run():
    @tool(approval="ask")
    def pay(amount: int) -> str:
        return f"paid {amount}"

    steps = 8
    helper = agent(model=scripted([*([call("pay", amount=n)] for n in range(steps)), "Done."]), tools=[pay])
    sess = session(helper)
    waiting = sess.run("Pay.")
    for _ in range(steps):
        with pytest.raises(ApprovalRequired) as raised:
            await waiting
        sess = Session.from_json(sess.to_json(), helper)
        sess.approve(raised.value.calls[0].tool_call_id)
        waiting = sess.resume()
        before = json.loads(sess.to_json())
    await waiting

    runs = before["metadata"]["turntree"]["runs"]
    assert len(runs) == 1
    assert len(runs[0]["executions"]) == steps - 1
    assert len(sess.tree.history()) == 2 + 2 * steps


async def test_loaded_checkpoint_resumes_with_all_records_of_its_run():
    sess = await session_of(6)
    expected = [checkpoint.model_dump_json() for checkpoint in sess.checkpoints]
    replies = [*([call("read", page=page)] for page in range(3, 5)), "Done."]

    again = Session.from_json(sess.to_json(), agent(model=scripted(replies), tools=[read]))
    assert [checkpoint.model_dump_json() for checkpoint in again.checkpoints] == expected
    assert again.to_dict() == sess.to_dict()
    await again.restore(again.checkpoints[2].id)
    turn = await again.resume()

    assert [execution.result.split()[0] for execution in turn.tool_executions] == ["0", "1", "2", "3", "4"]
    assert turn.cycles == 6


async def test_record_that_differs_from_the_messages_is_written_completely():
    sess = await session_of(3)
    document = json.loads(sess.to_json())
    first = document["metadata"]["turntree"]["runs"][0]["executions"][0]
    assert first == {"message": 1, "call": 0, "duration": first["duration"]}
    changed = {"toolName": "read", "toolCallId": "other", "arguments": {"page": 9}, "result": "9", "isError": False}
    document["metadata"]["turntree"]["runs"][0]["executions"][0] = {**changed, "duration": 7}

    again = Session.from_json(json.dumps(document), sess.agent)

    written = json.loads(again.to_json())["metadata"]["turntree"]["runs"][0]["executions"]
    assert written[0] == {**changed, "duration": 7}
    assert "message" in written[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda runs, snapshot: runs[0]["executions"][0].update(message=99), "runs/0/executions/0: no checkpoint of"),
        (
            lambda runs, snapshot: snapshot.update(run=3),
            "checkpoints/0/metadata/turntree/snapshot/run: the session has 1",
        ),
        (lambda runs, snapshot: snapshot.update(executions=3), "snapshot: it has more records than its entry"),
        (lambda runs, snapshot: snapshot["state"].update(version=9), "snapshot/state/version: the state of a run has"),
    ],
)
async def test_inconsistent_records_are_refused_with_their_place(change, message):
    sess = await session_of(3)
    document = json.loads(sess.to_json())
    change(document["metadata"]["turntree"]["runs"], document["checkpoints"][0]["metadata"]["turntree"]["snapshot"])

    with pytest.raises(ValueError, match=message):
        Session.from_json(json.dumps(document), sess.agent)


# Documents of earlier versions


def helper_of(name):
    """An agent that continues the runs of a document, and the answers of each of its checkpoints."""
    if name == "react":
        return lambda *replies: agent(model=scripted(list(replies)), tools=[look], execution=react(max_steps=9))
    helper = agent(model=scripted(["It rains in Rome."]))
    tools = [look, helper.to_tool(name="ask_helper")]
    return lambda *replies: agent(model=scripted(list(replies)), tools=tools, execution=loop(max_iterations=9))


@pytest.mark.parametrize("name", ["loop_with_sub_agent", "react"])
def test_document_of_an_earlier_version_loses_nothing(name):
    text = (DATA / f"{name}.json").read_text()
    old = json.loads(text)

    sess = Session.from_json(text, helper_of(name)())
    again = Session.from_json(sess.to_json(), helper_of(name)())

    for loaded in (sess, again):
        assert [json.loads(checkpoint.model_dump_json()) for checkpoint in loaded.checkpoints] == old["checkpoints"]
        new = json.loads(loaded.to_json())
        assert new["threadTree"] == old["threadTree"]
        assert new["metadata"]["turntree"]["unfinished"] == old["metadata"]["turntree"]["unfinished"]
    assert len(sess.to_json()) < len(text)


@pytest.mark.parametrize(
    ("name", "replies"), [("loop_with_sub_agent", ["Rain."]), ("react", ["Nothing is missing.", "Rain."])]
)
@pytest.mark.parametrize("loads", [1, 2])
async def test_checkpoints_of_an_earlier_version_can_be_resumed(name, replies, loads):
    text = (DATA / f"{name}.json").read_text()
    for checkpoint in json.loads(text)["checkpoints"]:
        sess = Session.from_json(text, helper_of(name)(*replies))
        if loads == 2:
            sess = Session.from_json(sess.to_json(), helper_of(name)(*replies))
        await sess.restore(checkpoint["id"])
        if "run" not in checkpoint["metadata"]["turntree"]:
            continue

        turn = await sess.resume()

        assert turn.response.text == "Rain."
        assert len(turn.tool_executions) == checkpoint["step"]
        assert turn.cycles == len(replies) * (checkpoint["step"] + 1)
