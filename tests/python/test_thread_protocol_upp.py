"""Messages, threads, sessions and trees of turntree as ThreadProtocol documents, and back."""

import pytest
from pydantic_ai import messages as m

import turntree
from turntree import ThreadTree, agent, session, upp
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


def test_messages_come_back_equal_and_make_a_valid_thread() -> None:
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


def test_the_portable_profile_says_the_same_without_metadata() -> None:
    thread = tp.from_upp(messages()[:5], profile="portable")

    back = thread.to_upp()

    assert all(action.metadata is None for action in thread)
    assert [type(message) for message in back] == [type(message) for message in messages()[:5]]
    assert [message.text for message in back] == [message.text for message in messages()[:5]]
    assert back[2].tool_calls == messages()[2].tool_calls
    assert thread.to_upp() == back


def test_a_thread_lends_its_id() -> None:
    given = upp.Thread(messages())

    assert tp.from_upp(given).thread_id == given.id
    assert tp.from_upp(given, thread_id="t", title="T").title == "T"
    with pytest.raises(TypeError, match="messages"):
        tp.from_upp(5)  # type: ignore[arg-type]


async def test_sessions_and_trees() -> None:
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


def test_trees_alone_and_what_is_none() -> None:
    tree = ThreadTree()
    tree.push(upp.UserMessage("Hi"), upp.AssistantMessage("Hello"))

    assert tp.from_upp(tree).to_upp() == tree.history()
    assert [thread.thread_id for thread in tp.from_tree(tree)] == [tree.root.id]
    with pytest.raises(TypeError, match="ThreadTree or a Session, not list"):
        tp.from_tree([])  # type: ignore[arg-type]


def test_one_agent_hears_another_by_name() -> None:
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


def test_pydantic_ai_messages_and_back() -> None:
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
