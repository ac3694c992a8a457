"""UAP-1.0 §6, §7, §9 and §13, point by point. The number in a name is that of the point in our checklist."""

import asyncio
import base64
import json
import uuid
from datetime import datetime

import pytest

from turntree import ApprovalRequired, Session, ThreadTree, ValidationError, agent, ask, query, session
from turntree.upp import Image, Thread, Turn, UPPError, UserMessage, scripted, tool


def call(name, /, **arguments):
    return {"toolName": name, "arguments": arguments}


def echo(request):
    return f"you said {request.messages[-1].text}"


def ids(messages):
    return [message.id for message in messages]


def texts(messages):
    return [message.text for message in messages]


def is_v4(text):
    parsed = uuid.UUID(text)
    return parsed.version == 4 and str(parsed) == text


class Steps:
    """An agent that runs a given number of steps and counts the calls of its tool."""

    def __init__(self, steps=3):
        self.called = []
        self.down = False

        @tool
        def work(n: int) -> str:
            self.called.append(n)
            return f"worked {n}"

        def model(request):
            messages = list(request.messages)
            last = max(place for place, message in enumerate(messages) if message.type == "user")
            done = sum(message.type == "tool_result" for message in messages[last:])
            if self.down and done == steps - 1:
                raise UPPError("down", "PROVIDER_ERROR")
            return call("work", n=done) if done < steps - 1 else "done"

        self.agent = agent(model=scripted(model), tools=[work])


# State and concurrency


async def test_uap_7_session_state_is_fully_recoverable():
    steps = Steps()
    sess = session(steps.agent, metadata={"task": "x"})
    await sess.run("one")
    steps.down = True
    with pytest.raises(UPPError):
        await sess.run("two")
    steps.down = False

    recovered = Session.from_json(sess.to_json(), steps.agent)
    turn = await recovered.resume()

    assert recovered.metadata == {"task": "x"}
    assert [checkpoint.id for checkpoint in recovered.checkpoints][: len(sess.checkpoints)] == [
        checkpoint.id for checkpoint in sess.checkpoints
    ]
    assert ids(recovered.tree.history())[-len(turn.messages) :] == ids(turn.messages)
    assert steps.called == [0, 1, 0, 1]


# Sessions


async def test_uap_26_all_state_is_serialized():
    helper = agent(model=scripted(echo), name="helper")

    def model(request):
        return "done" if request.messages[-1].type == "tool_result" else call("help", task="look")

    lead = agent(model=scripted(model), tools=[helper.to_tool("help")])
    sess = session(lead, metadata={"task": "x"})
    await sess.run("go")
    fork = sess.fork(sess.tree.current.id)
    sess.tree.checkout(fork)
    await sess.run("again")

    document = json.loads(sess.to_json())

    names = "version id agentId createdAt updatedAt threadTree checkpoints metadata"
    assert set(document) == set(names.split())
    # Decision A108: the reserved member has the records that checkpoints share.
    assert set(document["metadata"].pop("turntree")) == {"runs"}
    assert (document["agentId"], document["metadata"]) == (lead.id, {"task": "x"})
    assert [checkpoint["step"] for checkpoint in document["checkpoints"]] == [1, 2, 1, 2]
    # The checkpoint of the step that called the sub-agent contains its answer.
    for checkpoint in document["checkpoints"][::2]:
        (child,) = checkpoint["subAgentStates"].values()
        (node,) = child["threadTree"]["nodes"]
        assert [message["content"][0]["text"] for message in node["thread"]["messages"]] == ["look", "you said look"]

    document = json.loads(sess.to_json())
    loaded = Session.from_json(document, lead)
    assert json.loads(loaded.to_json()) == document
    assert loaded.tree.history() == sess.tree.history()
    assert loaded.tree.current.id == fork
    assert [one.state for one in loaded.checkpoints] == [one.state for one in sess.checkpoints]
    assert [one.sub_agent_states for one in loaded.checkpoints] == [one.sub_agent_states for one in sess.checkpoints]


async def test_uap_27_the_tree_is_preserved_across_serialization():
    sess = session(agent(model=scripted(echo)))
    await sess.run("one")
    branch = sess.fork(sess.tree.root.id)
    await sess.run("two")
    sess.tree.checkout(branch)
    await sess.run("three")

    again = Session.from_json(sess.to_json(), sess.agent)

    assert again.tree == sess.tree
    assert again.tree.current.id == branch
    assert texts(again.tree.history()) == ["one", "you said one", "three", "you said three"]


async def test_uap_28_a_checkpoint_contains_complete_recoverable_state():
    steps = Steps()
    sess = session(steps.agent)
    whole = await sess.run("go")
    steps.called.clear()

    again = Session.from_json(sess.to_json(), steps.agent)
    await again.restore(sess.checkpoints[0].id)
    turn = await again.resume()

    assert steps.called == [1]
    assert texts(turn.messages) == texts(whole.messages)
    assert ids(turn.messages)[:3] == ids(whole.messages)[:3]
    assert turn.cycles == whole.cycles
    assert [done.result for done in turn.tool_executions] == [done.result for done in whole.tool_executions]


async def test_uap_29_restore_reaches_the_exact_checkpoint_state():
    sess = session(agent(model=scripted(echo)))
    moments = []
    for text in ("one", "two", "three", "four"):
        await sess.run(text)
        moments.append((sess.current_checkpoint.id, ids(sess.tree.history()), sess.current_checkpoint.to_dict()))

    for checkpoint_id, history, checkpoint in [moments[1], moments[3], moments[0], moments[2]]:
        await sess.restore(checkpoint_id)

        assert ids(sess.tree.history()) == history
        assert sess.current_checkpoint.id == checkpoint_id
        assert sess.current_checkpoint.state.to_dict() == checkpoint["state"]
        assert len(sess.checkpoints) == 4


async def test_uap_29_restore_in_the_middle_of_a_run_is_exact():
    sess = session(Steps().agent)
    await sess.run("go")
    middle = sess.checkpoints[1]

    await sess.restore(middle.id)

    assert sess.tree.history() == []
    assert sess.state == middle.state
    assert sess.state.step == 2


async def test_uap_30_step_interval_checkpoints_every_step():
    by_step, by_turn = session(Steps().agent), session(Steps().agent, checkpoint_interval="turn")

    await by_step.run("go")
    await by_turn.run("go")

    assert [checkpoint.step for checkpoint in by_step.checkpoints] == [1, 2, 3]
    assert len(by_turn.checkpoints) == 1


async def test_uap_31_ids_of_sessions_nodes_and_checkpoints_are_v4():
    sess = session(agent(model=scripted(echo)))
    await sess.run("one")
    branch = sess.fork(sess.tree.root.id)

    assert all(is_v4(id) for id in [sess.id, branch, sess.tree.root.id, sess.checkpoints[0].id])
    chosen = str(uuid.uuid4())
    assert session(sess.agent, id=chosen).id == chosen
    document = {**session(sess.agent).to_dict(), "id": "sess_1"}
    with pytest.raises(ValueError, match="UUIDv4"):
        Session.from_json(document, sess.agent, strict=True)


async def test_uap_32_and_78_timestamps_are_iso_8601_with_a_zone():
    sess = session(agent(model=scripted(echo)))
    await sess.run("one")
    document = sess.to_dict()

    times = [document["createdAt"], document["updatedAt"], document["checkpoints"][0]["timestamp"]]
    times += [message["timestamp"] for message in document["threadTree"]["nodes"][0]["thread"]["messages"]]

    assert all(time.endswith("Z") and datetime.fromisoformat(time).tzinfo for time in times)


async def test_uap_session_options_have_the_documented_defaults():
    sess = session(agent(model=scripted(echo)))
    await sess.run("one")

    assert len(sess.checkpoints) == 1
    assert sess.metadata == {}
    await sess.save()


async def test_uap_a65_abandoned_messages_stay_reachable():
    sess = session(agent(model=scripted(echo)))
    for text in ("one", "two", "three"):
        await sess.run(text)
    everything = {message.id for node in sess.tree.nodes.values() for message in node.thread.messages}

    await sess.restore(sess.checkpoints[0].id)
    await sess.run("other")

    kept = {message.id for node in sess.tree.nodes.values() for message in node.thread.messages}
    assert everything < kept
    assert [texts(sess.tree.history(leaf.id))[::2] for leaf in sess.tree.leaves()] == [["one", "two", "three"]]
    assert texts(sess.tree.history())[::2] == ["one", "other"]


# Thread trees


async def test_uap_33_nodes_contain_upp_threads():
    sess = session(agent(model=scripted(echo)))
    await sess.run("one")

    thread = sess.tree.current.thread

    assert isinstance(thread, Thread)
    thread.user("by hand").assistant("noted")
    assert texts(sess.tree.history()) == ["one", "you said one", "by hand", "noted"]


def tree_of_the_specification():
    tree = ThreadTree([UserMessage("root")])
    nodes = {"root": tree.root.id}
    for name, parent in (("A", "root"), ("B", "A"), ("C", "root"), ("D", "C")):
        nodes[name] = tree.branch(nodes[parent], name)
        tree[nodes[name]].thread.user(name)
    return tree, nodes


def test_uap_34_history_is_chronological_from_the_root():
    tree, nodes = tree_of_the_specification()

    tree.checkout(nodes["B"])
    assert texts(tree.history()) == ["root", "A", "B"]
    tree.checkout(nodes["D"])
    assert texts(tree.history()) == ["root", "C", "D"]


def test_uap_35_node_ids_are_v4():
    tree, _ = tree_of_the_specification()

    assert all(is_v4(id) for id in tree.nodes)


def test_uap_36_branch_creates_a_node_under_the_given_parent():
    tree, nodes = tree_of_the_specification()

    branch = tree.branch(nodes["C"], "new")

    assert tree[branch].parent_id == nodes["C"]
    assert branch in tree[nodes["C"]].children
    assert tree.current.id == nodes["root"]


def test_uap_37_checkout_switches_the_current_node():
    tree, nodes = tree_of_the_specification()

    tree.checkout(nodes["A"])

    assert tree.current.id == nodes["A"]
    with pytest.raises(KeyError):
        tree.checkout("nowhere")


def test_uap_38_and_75_serialization_preserves_the_full_structure():
    tree, nodes = tree_of_the_specification()
    tree.checkout(nodes["D"])

    again = ThreadTree.from_json(tree.to_json())

    assert again == tree
    assert set(tree.to_dict()) == {"rootId", "currentId", "nodes"}
    for node in tree.to_dict()["nodes"]:
        assert set(node) - {"name"} == {"id", "parentId", "thread", "children", "metadata"}


# ask and query


async def test_uap_46_ask_appends_the_turn_to_the_thread():
    thread = Thread()

    turn = await ask(agent(model=scripted(echo)), "one", thread)

    assert thread.messages == turn.messages


async def test_uap_47_ask_uses_the_history_of_the_thread():
    model = scripted(["a", "b"])
    helper, thread = agent(model=model), Thread()

    await ask(helper, "one", thread)
    await ask(helper, "two", thread)

    assert texts(model.requests[1].messages) == ["one", "a", "two"]


async def test_uap_48_and_49_ask_returns_a_turn_with_or_without_a_thread():
    turn = await ask(agent(model=scripted(echo)), UserMessage("one"))

    assert isinstance(turn, Turn)
    assert texts(turn.messages) == ["one", "you said one"]


async def test_uap_a97_a_failed_ask_leaves_the_thread_untouched():
    thread = Thread([UserMessage("before")])

    with pytest.raises(UPPError):
        await ask(agent(model=scripted([UPPError("down", "PROVIDER_ERROR")])), "one", thread)

    assert texts(thread) == ["before"]


async def test_uap_50_and_51_a_query_is_isolated():
    sess = session(agent(model=scripted(echo)))
    await sess.run("main")
    before = sess.to_dict()["threadTree"]

    model = scripted(["aside"])
    result = await query(agent(model=model), "question")

    assert texts(model.requests[0].messages) == ["question"]
    assert texts(result.thread) == ["question", "aside"]
    assert sess.to_dict()["threadTree"] == before


async def test_uap_52_continue_uses_the_thread_of_the_query():
    model = scripted(["a", "b", "c"])

    result = await query(agent(model=model), "one")
    followup = await result.continue_("two")
    more = await getattr(followup, "continue")("three")

    assert texts(model.requests[2].messages) == ["one", "a", "two", "b", "three"]
    assert result.thread_id == followup.thread_id == more.thread_id
    assert len(result.thread) == 6


async def test_uap_53_a_query_result_has_turn_thread_and_thread_id():
    result = await query(agent(model=scripted(echo)), "one")

    assert isinstance(result.turn, Turn)
    assert isinstance(result.thread, Thread)
    assert result.thread_id == result.thread.id
    assert set(result.to_dict()) == {"turn", "threadId", "thread"}


async def test_uap_54_query_threads_are_serialized_with_sessions():
    sess = session(agent(model=scripted(echo)))
    await sess.run("main")

    result = await query(sess.agent, "aside", session=sess)
    await result.continue_("more")

    again = Session.from_json(sess.to_json(), sess.agent)
    kept = [node for node in again.tree.nodes.values() if node.metadata.get("kind") == "query"]
    assert [texts(again.tree.history(node.id)) for node in kept] == [texts(result.thread)]
    assert kept[0].metadata["agentId"] == sess.agent.id
    assert again.tree.current.id == sess.tree.root.id
    assert texts(again.tree.history()) == ["main", "you said main"]


# Serialization


async def test_uap_73_ids_are_preserved_exactly():
    sess = session(Steps().agent)
    await sess.run("go")

    again = Session.from_json(sess.to_json(), agent(model=scripted(echo)))

    assert again.to_dict() == sess.to_dict()
    assert again.to_dict()["agentId"] == sess.agent.id


async def test_uap_74_metadata_of_messages_is_preserved():
    sess = session(agent(model=scripted(echo)))
    await sess.run(UserMessage("one", metadata={"openai": {"store": True, "n": 1.50}, "new": {"x": None}}))

    again = Session.from_json(sess.to_json(), sess.agent)

    assert again.tree.history()[0].metadata == {"openai": {"store": True, "n": 1.5}, "new": {"x": None}}


async def test_uap_76_a_sub_agent_state_of_a_checkpoint_is_a_valid_session():
    helper = agent(model=scripted(echo))

    def model(request):
        return "done" if request.messages[-1].type == "tool_result" else call("help", task="look")

    sess = session(agent(model=scripted(model), tools=[helper.to_tool("help")]))
    await sess.run("go")
    (state,) = sess.checkpoints[0].sub_agent_states.values()

    child = Session.from_json(state, helper)
    await child.run("and then?")

    assert child.id == state["id"]
    assert texts(child.tree.history()) == ["look", "you said look", "and then?", "you said and then?"]


def test_uap_76_sub_agent_states_of_other_writers_are_preserved():
    helper = agent(model=scripted(echo))
    child = session(helper).to_dict()
    document = session(helper).to_dict()
    document["checkpoints"] = [
        {
            "id": "cp",
            "sessionId": document["id"],
            "timestamp": document["createdAt"],
            "step": 1,
            "threadId": document["threadTree"]["rootId"],
            "state": {"step": 1, "messages": [], "metadata": {}},
            "subAgentStates": {"call_1": child},
        }
    ]

    sess = Session.from_json(document, helper)

    assert sess.checkpoints[0].sub_agent_states == {"call_1": child}
    assert sess.to_dict()["checkpoints"][0]["subAgentStates"] == {"call_1": child}


async def test_uap_77_a_loaded_session_behaves_identically():
    steps = Steps()
    sess = session(steps.agent, checkpoint_interval="turn")
    await sess.run("one")
    twin = Session.from_json(sess.to_json(), steps.agent)

    assert (twin.id, twin.created_at, twin.updated_at) == (sess.id, sess.created_at, sess.updated_at)
    sent = []
    for each in (sess, twin):
        seen = len(steps.agent.model.requests)
        await each.run("two")
        await each.restore(each.checkpoints[0].id)
        await each.run("three")
        sent.append([texts(request.messages) for request in steps.agent.model.requests[seen:]])

    # The model receives the same messages; all values are equal except new ids and times.
    assert sent[0] == sent[1]
    assert len(sent[0]) == 6
    assert texts(twin.tree.history()) == texts(sess.tree.history())
    assert ids(twin.tree.history())[:6] == ids(sess.tree.history())[:6]
    assert [(one.step, texts(one.state.messages)) for one in twin.checkpoints] == [
        (one.step, texts(one.state.messages)) for one in sess.checkpoints
    ]
    assert [texts(leaf.thread) for leaf in twin.tree.leaves()] == [texts(leaf.thread) for leaf in sess.tree.leaves()]
    assert len(twin.tree.nodes) == len(sess.tree.nodes)


async def test_uap_79_binary_data_is_base64():
    sess = session(agent(model=scripted(["a picture"])))
    pixels = bytes(range(256))
    await sess.run(["what is this?", Image.from_bytes(pixels, "image/png")])

    block = sess.to_dict()["threadTree"]["nodes"][0]["thread"]["messages"][0]["content"][1]
    again = Session.from_json(sess.to_json(), sess.agent)

    assert base64.b64encode(pixels).decode() in str(block)
    assert again.tree.history() == sess.tree.history()


@pytest.mark.parametrize("version", ["2.0.0", "1.1.0", "0.9.0", "", None, 1])
def test_uap_80_the_version_is_checked(version):
    helper = agent(model=scripted(echo))
    document = session(helper).to_dict()
    assert document["version"] == "1.0.0"

    with pytest.raises(ValidationError, match="/version"):
        Session.from_json({**document, "version": version}, helper)
    assert Session.from_json({**document, "version": "1.0.9"}, helper)


def test_uap_82_structure_is_validated_first():
    helper = agent(model=scripted(echo))
    document = session(helper).to_dict()
    tree = document["threadTree"]
    flaws = {
        "/threadTree/currentId": {**document, "threadTree": {**tree, "currentId": "nowhere"}},
        "/threadTree/nodes/0/parentId": {
            **document,
            "threadTree": {**tree, "nodes": [{**tree["nodes"][0], "parentId": tree["rootId"]}]},
        },
        "/checkpoints/0": {**document, "checkpoints": [{"id": "cp"}]},
        "/checkpoints": {**document, "checkpoints": {}},
    }

    for place, flawed in flaws.items():
        with pytest.raises(ValidationError) as caught:
            Session.from_json(flawed, helper)
        assert caught.value.errors()[0]["pointer"].startswith(place)


def paying(approval):
    paid = []

    @tool(approval=approval)
    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    def model(request):
        return "done" if request.messages[-1].type == "tool_result" else call("pay", amount=1)

    return agent(model=scripted(model), tools=[pay]), paid


async def test_uap_28_calls_that_await_approval_are_recoverable():
    helper, paid = paying("ask")
    sess = session(helper)
    with pytest.raises(ApprovalRequired):
        await sess.run("go")

    loaded = Session.from_json(sess.to_json(), helper)

    assert loaded.to_dict() == sess.to_dict()
    assert loaded.pending == sess.pending
    loaded.approve_all()
    assert (await loaded.resume()).response.text == "done"
    assert paid == [1]


async def test_uap_a75_runs_and_resumes_execute_in_the_order_of_their_calls():
    helper, _ = paying("ask")
    sess = session(helper)
    with pytest.raises(ApprovalRequired):
        await sess.run("one")
    sess.approve_all()

    first, second = await asyncio.gather(sess.resume(), sess.run("two"), return_exceptions=True)

    assert first.response.text == "done"
    assert isinstance(second, ApprovalRequired)
    assert texts(sess.tree.history())[0] == "one"


@pytest.mark.parametrize("approval", [lambda _: False, "ask"])
async def test_uap_81_approval_handlers_of_a_sub_agents_tools_are_respected(approval):
    inner, paid = paying(approval)

    @tool
    async def delegate() -> str:
        return (await inner.run("go")).response.text

    def model(request):
        return "done" if request.messages[-1].type == "tool_result" else call("delegate")

    turn = await session(agent(model=scripted(model), tools=[delegate])).run("go")

    assert paid == []
    (record,) = turn.tool_executions
    assert record.is_error is (approval == "ask")
    # The model of the sub-agent, or of its parent, receives the reason of the refusal.
    results = [
        result.result
        for request in inner.model.requests
        for message in request.messages
        if message.type == "tool_result"
        for result in message.results
    ]
    assert any("denied" in str(result) for result in results) is (approval != "ask")
    assert ("approval" in str(record.result)) is (approval == "ask")
