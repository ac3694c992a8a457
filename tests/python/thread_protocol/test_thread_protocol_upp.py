"""Messages, threads, sessions and trees of turntree as ThreadProtocol documents, and back."""

import asyncio
from typing import Any

import pytest
from hypothesis import given as law_of
from hypothesis import settings
from hypothesis import strategies as st
from pydantic_ai import messages as m
from support.laws import cases

import turntree
from turntree import Session, ThreadTree, agent, session, upp
from turntree import thread_protocol as tp
from turntree.upp import scripted, tool

PNG = b"\x89PNG\r\n\x1a\nxxxx"


def messages() -> list[upp.Message]:
    call = upp.ToolCall("c1", "weather", {"city": "Tokyo", "n": 1.50})
    return [
        upp.UserMessage("Weather?", metadata={"vendor": {"k": 1}}),
        upp.UserMessage([upp.Text("Look"), upp.Image.from_bytes(PNG, "image/png")]),
        upp.AssistantMessage([upp.Reasoning("hm"), upp.Text("Let me see")], tool_calls=[call]),
        upp.ToolResultMessage([upp.ToolResult("c1", {"temp": 18})]),
        upp.AssistantMessage([upp.Text("18 °C"), upp.Text("Sunny")]),
        upp.AssistantMessage([]),
    ]


def test_upp_messages_make_a_valid_thread_and_are_equal_after_a_round_trip() -> None:
    given = messages()

    thread = tp.from_upp(given)

    assert thread.to_upp() == given
    assert tp.Thread.model_validate_json(thread.model_dump_json()).to_upp() == given
    assert [issue for issue in thread.validate() if issue.severity == "error"] == []
    assert [action.action_type for action in thread][:6] == [
        "user_message",
        "user_message",
        "thinking",
        "assistant_message",
        "tool_call",
        "tool_return",
    ]
    assert (thread[4].args, thread[5].tool_name, thread.title) == ({"city": "Tokyo", "n": 1.5}, "weather", "Weather?")


def test_the_portable_profile_has_the_same_content_without_metadata() -> None:
    thread = tp.from_upp(messages()[:5], profile="portable")

    back = thread.to_upp()

    assert all(action.metadata is None for action in thread)
    assert [type(message) for message in back] == [type(message) for message in messages()[:5]]
    assert [message.text for message in back] == [message.text for message in messages()[:5]]
    assert back[2].tool_calls == messages()[2].tool_calls
    assert thread.to_upp() == back


def test_from_upp_uses_the_id_of_the_thread() -> None:
    given = upp.Thread(messages())

    assert tp.from_upp(given).thread_id == given.id
    assert tp.from_upp(given, thread_id="t", title="T").title == "T"
    with pytest.raises(TypeError, match="messages"):
        tp.from_upp(5)  # type: ignore[arg-type]


async def test_sessions_and_trees_are_converted() -> None:
    @tool
    def weather(city: str) -> str:
        """Weather of a city."""
        return f"sunny in {city}"

    call = upp.ToolCall("c1", "weather", {"city": "Tokyo"})
    helper = agent(model=scripted([[call], "Sunny.", "Bye."]), tools=[weather], name="Helper")
    talk = session(helper)
    await talk.run("Weather?")

    thread = tp.from_upp(talk)

    assert thread.thread_id == talk.id
    assert thread.to_upp() == talk.tree.history()
    assert [known.agent_name for known in thread.agents.values()] == ["Helper"]
    assert [issue for issue in thread.validate() if issue.severity == "error"] == []

    branch = talk.fork(talk.tree.current.id)
    await talk.run("Thanks")
    threads = tp.from_tree(talk)

    by_id = {thread.thread_id: thread for thread in threads}
    assert set(by_id) == set(talk.tree.nodes)
    assert threads[0].parent_thread_id is None
    child = by_id[branch]
    assert child.parent_thread_id == talk.tree[branch].parent_id
    assert child.metadata["branch"]["parent_sequence"] == len(thread)
    for node_id, one in by_id.items():
        assert one.to_upp() == talk.tree.history(node_id)
    merged = by_id[branch].merge(threads[0]) if len(threads) > 1 else child
    assert [issue for issue in merged.validate() if issue.severity == "error"] == []


def test_trees_are_converted_and_other_objects_are_refused() -> None:
    tree = ThreadTree()
    tree.push(upp.UserMessage("Hi"), upp.AssistantMessage("Hello"))

    assert tp.from_upp(tree).to_upp() == tree.history()
    assert [thread.thread_id for thread in tp.from_tree(tree)] == [tree.root.id]
    with pytest.raises(TypeError, match="ThreadTree or a Session, not list"):
        tp.from_tree([])  # type: ignore[arg-type]
    for text in ("", "junk", b""):
        with pytest.raises(TypeError, match="messages must be a Thread or a list of messages, not (str|bytes)"):
            tp.from_upp(text)  # type: ignore[arg-type]


def test_messages_of_other_agents_carry_their_names() -> None:
    thread = tp.Thread(
        agents=[tp.AgentConfig("Ann", agent_id="a"), tp.AgentConfig("Bob", agent_id="b")],
        actions=[
            tp.UserMessageAction("hi"),
            tp.ToolCallAction("t", agent_id="a", tool_call_id="c"),
            tp.ToolReturnAction("t", "ok", tool_call_id="c"),
            tp.ThinkingAction("hm", agent_id="a"),
            tp.AssistantMessageAction("I am Ann", agent_id="a"),
            tp.AssistantMessageAction("I am Bob", agent_id="b"),
        ],
    )

    assert [(message.type, message.text) for message in thread.to_upp("b")] == [
        ("user", "hi"),
        ("user", "{agent:Ann}: I am Ann"),
        ("assistant", "I am Bob"),
    ]
    assert [message.type for message in thread.to_upp("a")] == ["user", "assistant", "tool_result", "assistant", "user"]
    with pytest.raises(turntree.ValidationError, match='no agent "c"'):
        thread.to_upp("c")


def test_upp_messages_convert_to_pydantic_ai_and_back() -> None:
    given = messages()[:4]

    live = upp.to_pydantic_ai(given)
    back = upp.from_pydantic_ai(live)

    assert [type(message) for message in live] == [
        m.ModelRequest,
        m.ModelResponse,
        m.ModelRequest,
    ]
    assert [message.text for message in back] == [message.text for message in given]
    assert back[2].tool_calls == given[2].tool_calls
    assert upp.from_pydantic_ai(m.ModelMessagesTypeAdapter.dump_json(live)) == back


turns = st.lists(st.sampled_from(["say", "call", "twins", "think", "nothing"]), max_size=2)
moves = st.lists(
    st.tuples(
        st.sampled_from(["push", "push", "branch", "checkout", "merge"]), st.integers(0, 9), st.integers(0, 9), turns
    ),
    max_size=10,
)


def exchange(kinds: list[str], number: int) -> list[upp.Message]:
    said: list[upp.Message] = []
    for kind in kinds:
        said.append(upp.UserMessage(f"question {number}"))
        if kind in {"call", "twins"}:
            # Ids repeat, in a message and from one to the next.
            calls = [upp.ToolCall("c", f"tool{place}", {"n": place}) for place in range(2 if kind == "twins" else 1)]
            said.append(upp.AssistantMessage([], tool_calls=calls))
            said.append(upp.ToolResultMessage([upp.ToolResult("c", {"n": place}) for place in range(len(calls))]))
        elif kind == "think":
            said.append(upp.AssistantMessage([upp.Reasoning("hm"), upp.Text("so"), upp.Reasoning("ah")]))
        elif kind == "say":
            said.append(upp.AssistantMessage([upp.Text("answer"), upp.Text(f" {number}")]))
        else:
            said.append(upp.AssistantMessage([]))
    return said


@settings(max_examples=cases(120), deadline=None)
@law_of(moves)
def test_every_node_of_a_tree_is_equal_after_a_round_trip(plan: list[Any]) -> None:
    tree = ThreadTree()
    for number, (move, one, other, kinds) in enumerate(plan):
        ids = list(tree.nodes)
        first, second = ids[one % len(ids)], ids[other % len(ids)]
        if move == "push":
            tree.push(*exchange(kinds, number))
        elif move == "branch":
            tree.checkout(tree.branch(first))
        elif move == "checkout":
            tree.checkout(first)
        elif first != second:
            tree.merge(first, second)

    check_threads(tree, tree)


def check_threads(tree: ThreadTree, given: ThreadTree | Session) -> dict[str, tp.Thread]:
    """Each node of a tree or session is a valid thread, equal after a round trip, and starts like its parent."""
    threads = {thread.thread_id: thread for thread in tp.from_tree(given)}

    assert set(threads) == set(tree.nodes)
    assert tp.from_upp(given).to_upp() == tree.history()
    for node_id, thread in threads.items():
        history = tree.history(node_id)
        assert [issue for issue in thread.validate() if issue.severity == "error"] == []
        assert thread.to_upp() == history
        assert thread.with_hoisted_metadata().to_upp() == history
        assert tp.Thread.model_validate_json(thread.model_dump_json()).to_upp() == history
        agent = next(iter(thread.agents))
        assert tp.from_upp(thread.to_upp(agent), agent=thread.agents[agent]).to_upp(agent) == thread.to_upp(agent)
        assert thread.parent_thread_id == tree[node_id].parent_id
        if thread.parent_thread_id is not None:
            parent, shared = threads[thread.parent_thread_id], thread.metadata["branch"]["parent_sequence"]
            assert parent.actions[:shared] == thread.actions[:shared]
            assert parent.actions[shared : shared + 1] != thread.actions[shared : shared + 1] or shared == len(thread)
    return threads


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"nothing in {place}"


acts = st.lists(
    st.tuples(
        st.sampled_from(["say", "look", "look", "restore", "restore", "fork", "checkout", "reload"]), st.integers(0, 9)
    ),
    min_size=1,
    max_size=8,
)


def answers(plan: list[tuple[str, int]]) -> list[Any]:
    """The answers of the model in the runs of a plan."""
    said: list[Any] = []
    for number, (act, _) in enumerate(plan):
        if act == "look":
            # The id repeats from run to run.
            said.append([upp.ToolCall("c", "look", {"place": str(number)})])
        if act in {"say", "look"}:
            said.append(f"answer {number}")
    return said


@pytest.mark.timeout(240)
@settings(max_examples=cases(80), deadline=None)
@law_of(acts, st.sampled_from(["step", "turn"]))
def test_every_branch_of_a_session_with_checkpoints_is_equal_after_a_round_trip(
    plan: list[tuple[str, int]], interval: Any
) -> None:
    async def live() -> None:
        helper = agent(model=scripted(answers(plan) or ["nothing"]), tools=[look], name="Helper")
        talk = session(helper, checkpoint_interval=interval)
        for number, (act, one) in enumerate(plan):
            ids = list(talk.tree.nodes)
            if act in {"say", "look"}:
                await talk.run(f"question {number}")
            elif act == "restore" and talk.checkpoints:
                await talk.restore(talk.checkpoints[one % len(talk.checkpoints)].id)
            elif act == "fork":
                talk.tree.checkout(talk.fork(ids[one % len(ids)]))
            elif act == "checkout":
                talk.tree.checkout(ids[one % len(ids)])
            elif act == "reload":
                talk = Session.from_json(talk.to_json(), helper)

        threads = check_threads(talk.tree, talk)
        names = {known.agent_name for thread in threads.values() for known in thread.agents.values()}
        assert names == {"Helper"}
        for checkpoint in talk.checkpoints:
            held = checkpoint.state.messages
            assert tp.from_upp(held).to_upp() == list(held)
            if checkpoint.state.messages:
                before = tp.from_upp(held, profile="portable")
                assert [issue for issue in before.validate() if issue.severity == "error"] == []
        reloaded = {thread.thread_id: thread for thread in tp.from_tree(Session.from_json(talk.to_json(), helper))}
        assert {key: thread.digest() for key, thread in reloaded.items()} == {
            key: thread.digest() for key, thread in threads.items()
        }

    asyncio.run(live())
