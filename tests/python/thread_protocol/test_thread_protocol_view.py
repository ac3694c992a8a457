"""The view of one agent: a history that providers accept in both formats, without text that the thread lacks."""

import json
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessagesTypeAdapter as Adapter
from pydantic_ai.messages import repair_messages
from support.laws import cases

import turntree
from turntree import thread_protocol as tp
from turntree import upp

START = "2025-01-15T10:00:00Z"
NAMES = {"ann": "Ann", "bob": "Bob", "eve": "Bob", "x:y": "a}: \n{agent:Ann}: NAME", "nobody": ""}
AGENTS = [tp.AgentConfig(name, agent_id=key, agent_identifier=key, created_at=START) for key, name in NAMES.items()]
LINE = re.compile(r"\[tool \w+\(.*\) → (no result|(success|error): .*)\]", re.DOTALL)
FILE = tp.ImageContent(image_base64=b"x", media_type="image/png")

who = st.sampled_from([*NAMES, "unregistered"])
ids = st.sampled_from(["c1", "c2", "ann:c1", "bob:c1", "c1:2"])
bodies = st.sampled_from(["plain", "empty", "parts", "file", "url", "nothing", "prefixed"])
kinds = ["user", "say", "say", "think", "call", "call", "call", "return", "return", "return", "note", "other"]
steps = st.lists(st.tuples(st.sampled_from(kinds), who, ids, bodies), max_size=14)
views = st.fixed_dictionaries(
    {
        "others": st.sampled_from(["prefix", "hide"]),
        "tool_visibility": st.sampled_from(["hide", "summarize", "show"]),
        "others_role": st.sampled_from(["user", "assistant"]),
        "attribution": st.sampled_from(["{agent:NAME}: ", "<NAME> ", ""]),
    }
)
law = settings(max_examples=cases(250), deadline=None)


def content_of(body: str, word: str, agent: str) -> Any:
    said = {
        "plain": word,
        "empty": "",
        "parts": [tp.TextContent(word), FILE, tp.TextContent(f"{word}b")],
        "file": [FILE],
        "url": [tp.ImageContent(image_url="https://x/y.png", media_type="image/png"), tp.TextContent(word)],
        "nothing": [],
        "prefixed": f"{{agent:{NAMES.get(agent) or agent}}}: {word}",
    }
    return said[body]


def thread_of(plan: list[tuple[str, str, str, str]], *, valid: bool = True) -> tp.Thread:
    """A thread of the plan; if it must be valid, returns without an open call are omitted."""
    thread = tp.Thread(agents=AGENTS, created_at=START, title="t")
    open_calls: Counter[str] = Counter()
    for number, (kind, agent, call_id, body) in enumerate(plan):
        word, at = f"w{number}w", {"timestamp": f"2025-01-15T10:{number:02}:00Z"}
        if valid and agent == "unregistered":
            continue
        if kind == "user":
            thread.append(tp.UserMessageAction(content_of(body, word, agent), **at))
        elif kind == "say":
            thread.append(tp.AssistantMessageAction(content_of(body, word, agent), agent_id=agent, **at))
        elif kind == "think":
            thread.append(tp.ThinkingAction(f"thought{number}", agent_id=agent, signature="s", **at))
        elif kind == "call":
            open_calls[call_id] += 1
            thread.append(tp.ToolCallAction("tool", {"n": word}, agent_id=agent, tool_call_id=call_id, **at))
        elif kind == "return" and (open_calls[call_id] or not valid):
            open_calls[call_id] -= 1
            status = "success" if number % 3 else "error"
            answer = tp.ToolReturnAction("tool", {"r": word}, tool_call_id=call_id, status=status, **at)
            thread.append(answer)
        elif kind == "note":
            thread.append(tp.SystemAction("system.note", {"agent_id": agent, "text": f"note{number}"}, **at))
        elif kind == "other":
            thread.append({"action_type": "later", "timestamp": START, "sequence": 0, "text": f"note{number}"})
    return thread


def shown(thread: tp.Thread, agent: str, view: dict[str, Any]) -> list[Any]:
    return json.loads(thread.to_pydantic_ai_json(agent, **view))


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def pydantic_turns(history: list[Any]) -> list[tuple[str, list[str], list[str], list[str]]]:
    """Each message as its kind, the calls and the returns in it, and its texts."""
    turns = []
    for message in history:
        parts = message["parts"]
        calls = [part["tool_call_id"] for part in parts if part["part_kind"] == "tool-call"]
        returns = [part["tool_call_id"] for part in parts if part["part_kind"] == "tool-return"]
        said = [t for part in parts if part["part_kind"] in {"user-prompt", "text"} for t in texts(part["content"])]
        turns.append((message["kind"], calls, returns, said))
    return turns


def upp_turns(messages: list[upp.Message]) -> list[tuple[str, list[str], list[str], list[str]]]:
    """The same for messages of the provider layer: adjacent messages between two answers are one request."""
    turns: list[tuple[str, list[str], list[str], list[str]]] = []
    for message in messages:
        said = [block.text for block in getattr(message, "content", []) if isinstance(block, upp.Text)]
        if isinstance(message, upp.AssistantMessage):
            calls = [call.tool_call_id for call in message.tool_calls or []]
            turns.append(("response", calls, [], said))
            continue
        if not turns or turns[-1][0] == "response":
            turns.append(("request", [], [], []))
        returns = turns[-1][2]
        if isinstance(message, upp.ToolResultMessage):
            assert not turns[-1][3], "results stand before what users say"
            returns += [result.tool_call_id for result in message.results]
        turns[-1][3].extend(said)
    return turns


def check_turns(turns: list[tuple[str, list[str], list[str], list[str]]]) -> None:
    """The rules of providers: each call has its return directly after it, each return its call, and ids are unique."""
    for place, (kind, calls, returns, _) in enumerate(turns):
        before = turns[place - 1] if place else ("", [], [], [])
        after = turns[place + 1] if place + 1 < len(turns) else None
        assert len(set(calls)) == len(calls), "ids are unique within an answer"
        if kind == "request":
            assert before[0] != "request", "two requests are one"
            assert not calls
            assert sorted(returns) == sorted(before[1])
        else:
            assert not returns
            assert not calls or after is None or after[0] == "request"


def check_words(turns: list[tuple[str, list[str], list[str], list[str]]], thread: tp.Thread, attribution: str) -> None:
    """Every text is in the thread, except names in front of it and lines about tools."""
    known = {text for action in thread for text in texts(raw_content(action))}
    names = {NAMES.get(agent) or agent for agent in [*NAMES, "unregistered"]}
    prefixes = sorted({attribution.replace("NAME", name) for name in names}, key=len, reverse=True)
    for said in (said for turn in turns for said in turn[3]):
        rests = [said] + [said.removeprefix(prefix) for prefix in prefixes if said.startswith(prefix)]
        alone = {prefix.rstrip() for prefix in prefixes}
        linked = any(is_link(rest, thread) for rest in rests)
        assert said in alone or linked or any(rest in known or LINE.fullmatch(rest) for rest in rests), said


def is_link(said: str, thread: tp.Thread) -> bool:
    """Whether a text is the link to a file of the thread: answers cannot contain files by URL."""
    link = re.fullmatch(r"\[.*\]\((.+)\)", said, re.DOTALL)
    return link is not None and json.dumps(link[1], ensure_ascii=False) in thread.to_json()


def raw_content(action: Any) -> Any:
    content = getattr(action, "content", None)
    if isinstance(content, list):
        return [part.text for part in content if isinstance(part, tp.TextContent)]
    return content


@law
@given(steps, st.sampled_from(list(NAMES)), views, st.booleans())
def test_providers_accept_the_history_of_a_view(plan: list[Any], agent: str, view: dict[str, Any], valid: bool) -> None:
    thread = thread_of(plan, valid=valid)

    history = shown(thread, agent, view)
    turns = pydantic_turns(history)

    check_turns(turns)
    check_words(turns, thread, view["attribution"])
    for message in history:
        kinds = [part["part_kind"] for part in message["parts"]]
        assert kinds, "no message is empty"
        returns = [kind == "tool-return" for kind in kinds]
        assert returns == sorted(returns, reverse=True), "results stand before what users say"
    dumped = json.dumps(history)
    mine = {action.content for action in thread if isinstance(action, tp.ThinkingAction) and action.agent_id == agent}
    assert set(re.findall(r"thought\d+", dumped)) == mine
    assert "note" not in dumped

    loaded = Adapter.validate_json(thread.to_pydantic_ai_json(agent, **view))
    assert thread.to_pydantic_ai(agent, **view) == loaded
    repaired = repair_messages(loaded, repair_last_response=False)
    of_tools = [
        Counter(
            (part.part_kind, part.tool_call_id) for one in all_ for part in one.parts if hasattr(part, "tool_call_id")
        )
        for all_ in (loaded, repaired)
    ]
    assert of_tools[0] == of_tools[1], "Pydantic AI finds nothing to repair"


@law
@given(steps, st.sampled_from(list(NAMES)), views, st.booleans())
def test_the_upp_messages_of_a_view_are_a_valid_history(
    plan: list[Any], agent: str, view: dict[str, Any], valid: bool
) -> None:
    thread = thread_of(plan, valid=valid)

    messages = thread.to_upp(agent, **view)
    turns = upp_turns(messages)

    check_turns(turns)
    check_words(turns, thread, view["attribution"])
    assert len({message.id for message in messages}) == len(messages)
    assert thread.to_upp(agent, **view) == messages


@law
@given(steps, st.sampled_from(list(NAMES)), views)
def test_the_texts_of_the_viewing_agent_are_unchanged_and_in_order(
    plan: list[Any], agent: str, view: dict[str, Any]
) -> None:
    thread = thread_of(plan)
    alone = {**view, "others": "hide", "tool_visibility": "hide"}
    said = [
        text
        for action in thread
        if isinstance(action, tp.UserMessageAction) or getattr(action, "agent_id", None) == agent
        for text in texts(raw_content(action))
        if not isinstance(action, tp.ThinkingAction)
    ]

    own = [text for turn in pydantic_turns(shown(thread, agent, alone)) for text in turn[3]]
    links = [text for text in own if is_link(text, thread)]
    files = [
        part
        for action in thread
        if isinstance(action, tp.AssistantMessageAction) and action.agent_id == agent
        for part in (action.content if not isinstance(action.content, str) else [])
        if getattr(part, "image_url", None)
    ]
    assert [text for text in own if text not in links] == said
    assert len(links) == len(files), "each file by URL is linked once"
    assert [text for turn in upp_turns(thread.to_upp(agent, **alone)) for text in turn[3]] == said


@law
@given(steps, st.sampled_from(list(NAMES)), views)
def test_round_trips_do_not_repeat_the_attribution(plan: list[Any], agent: str, view: dict[str, Any]) -> None:
    thread = thread_of(plan)
    me = thread.agents[agent]
    first = thread.to_pydantic_ai_json(agent, **view)
    heard = thread.to_upp(agent, **view)

    again = tp.from_pydantic_ai(first, agent=me).to_pydantic_ai_json(agent, **view)
    heard_again = tp.from_upp(heard, agent=me).to_upp(agent, **view)

    words = [[text for turn in pydantic_turns(json.loads(one)) for text in turn[3] if text] for one in (first, again)]
    assert words[0] == words[1] or "".join(words[0]) == "".join(words[1])
    assert [message.text for message in heard_again if message.text] == [
        message.text for message in heard if message.text
    ]


@law
@given(steps)
def test_every_shown_call_has_a_unique_id(plan: list[Any]) -> None:
    thread = thread_of([(kind, "ann" if agent == "nobody" else agent, *rest) for kind, agent, *rest in plan])

    seen = shown(thread, "nobody", {"tool_visibility": "show"})

    returns = [call_id for turn in pydantic_turns(seen) for call_id in turn[2]]
    assert len(returns) == sum(isinstance(action, tp.ToolReturnAction) for action in thread)
    assert len(set(returns)) == len(returns)


AT = {"timestamp": START}


def thread_with(*actions: Any) -> tp.Thread:
    return tp.Thread(agents=AGENTS, actions=actions, created_at=START)


def call(agent: str, call_id: str) -> tp.ToolCallAction:
    return tp.ToolCallAction("t", agent_id=agent, tool_call_id=call_id, **AT)


def answer(call_id: str, content: Any = "ok") -> tp.ToolReturnAction:
    return tp.ToolReturnAction("t", content, tool_call_id=call_id, **AT)


def say(agent: str, text: Any) -> tp.AssistantMessageAction:
    return tp.AssistantMessageAction(text, agent_id=agent, **AT)


def test_a_late_return_moves_directly_after_its_call() -> None:
    thread = thread_with(call("ann", "c"), tp.UserMessageAction("more", **AT), say("bob", "hm"), answer("c"))

    for role in ("user", "assistant"):
        turns = pydantic_turns(shown(thread, "ann", {"others_role": role}))
        assert [turn[:3] for turn in turns[:2]] == [("response", ["c"], []), ("request", [], ["c"])]
    assert [message.type for message in thread.to_upp("ann")] == ["assistant", "tool_result", "user", "user"]


def test_a_pending_call_stays_when_the_tools_of_others_are_hidden() -> None:
    thread = thread_with(call("ann", "mine"), call("bob", "theirs"), answer("theirs"))

    assert "mine" in json.dumps(shown(thread, "ann", {}))
    assert thread.to_upp("ann")[0].tool_calls[0].tool_call_id == "mine"
    assert "mine" not in json.dumps(shown(thread, "ann", {"tool_visibility": "show"}))


def test_shown_ids_are_unique_for_calls_with_equal_ids() -> None:
    thread = thread_with(
        call("ann", "bob:c"), answer("bob:c"), call("bob", "c"), answer("c"), call("bob", "c"), answer("c")
    )

    turns = pydantic_turns(shown(thread, "ann", {"tool_visibility": "show"}))
    assert [turn[1][0] for turn in turns if turn[1]] == ["bob:c", "bob:c:2", "bob:c:3"]

    twins = thread_with(call("ann", "c"), call("ann", "c"), answer("c", 1), answer("c", 2))
    history = shown(twins, "ann", {})
    assert [part["tool_call_id"] for part in history[0]["parts"]] == ["c", "c:2"]
    assert [(part["tool_call_id"], part["content"]) for part in history[1]["parts"]] == [("c", 1), ("c:2", 2)]
    results = twins.to_upp("ann")[1].results
    assert [(result.tool_call_id, result.result) for result in results] == [("c", 1), ("c:2", 2)]


def test_tools_of_other_agents_appear_in_pydantic_ai_and_upp_views() -> None:
    thread = thread_with(call("bob", "c"), answer("c", {"deg": 18}))
    line = '{agent:Bob}: [tool t({}) → success: {"deg":18}]'

    assert [message.text for message in thread.to_upp("ann", tool_visibility="summarize")] == [line]
    assert thread.to_upp("ann") == []
    pair = thread.to_upp("ann", tool_visibility="show")
    assert (pair[0].tool_calls[0].tool_call_id, pair[1].results[0].tool_call_id) == ("bob:c", "bob:c")
    with pytest.raises(ValueError, match="tool_visibility must be"):
        thread.to_upp("ann", tool_visibility="all")  # type: ignore[arg-type]


def test_files_of_other_agents_are_never_assistant_messages() -> None:
    thread = thread_with(say("bob", [FILE, tp.TextContent("see")]), say("bob", "words"), say("bob", ""))

    kinds = [message["kind"] for message in shown(thread, "ann", {"others_role": "assistant"})]

    assert kinds == ["request", "response"]
    assert [message.type for message in thread.to_upp("ann", others_role="assistant")] == ["user", "assistant"]


def test_agents_without_a_name_appear_with_their_id() -> None:
    thread = thread_with(say("nobody", "x"))

    assert thread.to_upp("ann")[0].text == "{agent:nobody}: x"
    with pytest.raises(turntree.ValidationError, match="it has none"):
        tp.Thread().to_upp("ann")


def test_attachments_are_sent_to_the_model() -> None:
    attachments = [
        tp.Attachment("a.png", media_type="image/png", data=b"x"),
        tp.Attachment("b.pdf", media_type="application/pdf", url="https://x/b.pdf"),
        tp.Attachment("c", media_type="text/plain"),
    ]
    thread = thread_with(tp.UserMessageAction("Look", attachments=attachments, **AT))

    for agent in (None, "ann"):
        content = thread.to_pydantic_ai(agent)[0].parts[0].content
        assert [content[0], content[1].data, content[2].url] == ["Look", b"x", "https://x/b.pdf"]
        message = thread.to_upp(agent)[0]
        assert [block.type for block in message.content] == ["text", "image", "document"]
