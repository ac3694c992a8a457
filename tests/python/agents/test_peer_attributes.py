"""Attributes of objects of other libraries: errors name what to write instead, and other attributes are as before."""

import copy
import pickle
import re
from collections.abc import Iterable

import pytest

import turntree
from turntree import _peer_attributes, agent, session
from turntree.tools import ToolCall, ToolContext, tool
from turntree.upp import AssistantMessage, Thread, UserMessage, llm, openai, scripted


@tool
def look_up(context: ToolContext, place: str) -> str:
    "Look up a place."
    SEEN["context"] = context
    return place


# The contexts of the last run.
SEEN = {}


def system(context):
    SEEN["run"] = context
    return "Be kind."


def helper():
    call = {"toolName": "look_up", "arguments": {"place": "Rome"}}
    return agent(model=scripted([call, "It is Rome."] * 3), tools=[look_up], system=system)


def model_events():
    return list(llm(model=scripted(["Hello."])).stream_sync("x"))


def made():
    """An object of each class with a table, by the table."""
    turn = helper().run_sync("x")
    events = list(helper().stream_sync("x"))
    return {
        "AGENT": [helper()],
        "SESSION": [session(helper())],
        "LLM": [llm(model=scripted(["ok"]))],
        "TURN": [turn],
        "USAGE": [turn.usage],
        "TREE": [session(helper()).tree],
        "THREAD": [Thread()],
        "STREAM": [helper().stream("x"), llm(model=scripted(["ok"])).stream("x")],
        "SYNC_STREAM": [helper().stream_sync("x"), llm(model=scripted(["ok"])).stream_sync("x")],
        "TOOL_CONTEXT": [SEEN["context"]],
        "RUN_CONTEXT": [SEEN["run"]],
        "TOOL_CALL": [ToolCall("a", "b", {})],
        "TOOL_RESULT": [next(message for message in turn.messages if message.type == "tool_result").results[0]],
        "EXECUTION": [turn.tool_executions[0]],
        "MESSAGE": [UserMessage("a"), AssistantMessage("b"), turn.messages[2]],
        "MODEL": [openai("gpt-5")],
        "TOOL": [look_up],
        "EVENT": [events[0]],
        "STREAM_EVENT": model_events(),
    }


MISTAKES = [
    ("AGENT", "run_stream", r"agent\.stream\(input\)"),
    ("AGENT", "invoke", r"agent\.run_sync\(input\)"),
    ("AGENT", "ainvoke", r"await agent\.run\(input\)"),
    ("AGENT", "iter", r"agent\.stream\(input\)"),
    ("AGENT", "print_response", r"print turn\.text"),
    ("AGENT", "tool", "tools="),
    ("AGENT", "override", "with_"),
    ("AGENT", "get_state", r"session\.checkpoints"),
    ("AGENT", "messages", r"turntree\.session\(agent\)"),
    ("AGENT", "deps", "deps=…"),
    ("AGENT", "handoffs", r"agent\.tools"),
    ("AGENT", "structure", r"agent\.options"),
    ("SESSION", "add_items", "added by runs"),
    ("SESSION", "get_state", r"session\.tree\.history\(\)"),
    ("SESSION", "pop_item", r"session\.restore"),
    ("SESSION", "interrupts", r"session\.pending"),
    ("LLM", "messages", r"llm\.generate\(input\)"),
    ("LLM", "bind_tools", r"llm\(tools="),
    ("TURN", "output", r"turn\.text"),
    ("TURN", "final_output", r"turn\.text"),
    ("TURN", "content", r"turn\.text"),
    ("TURN", "all_messages", r"turn\.messages"),
    ("TURN", "new_messages", r"turn\.messages"),
    ("TURN", "choices", r"turn\.text, and the whole response turn\.response"),
    ("TURN", "finish_reason", r"turn\.stop_reason"),
    ("TURN", "interruptions", r"session\.approve\(call\)"),
    ("USAGE", "prompt_tokens", r"usage\.input_tokens"),
    ("STREAM", "stream_text", r"async for text in stream\.text\(\)"),
    ("STREAM", "stream_events", "async for event in stream"),
    ("STREAM", "final_output", r"turn = await stream\.turn"),
    ("STREAM", "get_final_message", r"turn = await stream\.turn"),
    ("SYNC_STREAM", "text_stream", r"`for text in stream\.text\(\)`"),
    ("SYNC_STREAM", "final_output", r"turn = stream\.turn"),
    ("TOOL_CONTEXT", "context", r"context\.deps"),
    ("TOOL_CONTEXT", "state", r"context\.metadata"),
    ("TOOL_CONTEXT", "stream_writer", r"context\.report\(progress\)"),
    ("RUN_CONTEXT", "message_history", r"context\.messages"),
    ("TOOL_CALL", "name", r"call\.tool_name"),
    ("TOOL_CALL", "args", r"call\.arguments"),
    ("TOOL_RESULT", "content", r"result\.result"),
    ("EXECUTION", "output", r"execution\.result"),
    ("MESSAGE", "role", r"message\.type"),
    ("MESSAGE", "parts", r"message\.content"),
    ("MODEL", "chat", r"llm\(model=model\)\.generate\(input\)"),
    ("TOOL", "args_schema", r"tool\.parameters"),
    ("TOOL", "invoke", r"tool\(…\)"),
    ("EVENT", "delta", r'event\.upp\.delta\["text"\]'),
    ("EVENT", "type", r"event\.upp"),
    ("EVENT", "is_final_response", r"await stream\.turn"),
    ("STREAM_EVENT", "choices", r'event\.delta\["text"\]'),
]


@pytest.mark.parametrize(("table", "attribute", "words"), MISTAKES, ids=[f"{one}.{two}" for one, two, _ in MISTAKES])
def test_an_attribute_of_another_library_is_explained(table, attribute, words):
    for one in made()[table]:
        assert not hasattr(one, attribute)
        with pytest.raises(AttributeError, match=f"object has no attribute '{attribute}': .*{words}") as raised:
            getattr(one, attribute)
        assert (raised.value.name, raised.value.obj) == (attribute, one)


def test_no_remedy_is_about_an_attribute_that_an_object_has():
    had = [
        (table, attribute)
        for table, objects in made().items()
        for attribute in getattr(_peer_attributes, table)
        if all(hasattr(one, attribute) for one in objects)
    ]

    assert had == []


def test_remedies_name_attributes_that_exist():
    kinds = made()
    owners = {
        "agent": ["AGENT"],
        "session": ["SESSION"],
        "llm": ["LLM"],
        "turn": ["TURN"],
        "usage": ["USAGE"],
        "tree": ["TREE"],
        "thread": ["THREAD"],
        "stream": ["STREAM", "SYNC_STREAM"],
        "context": ["TOOL_CONTEXT", "RUN_CONTEXT"],
        "call": ["TOOL_CALL"],
        "result": ["TOOL_RESULT"],
        "execution": ["EXECUTION"],
        "message": ["MESSAGE"],
        "model": ["MODEL"],
        "tool": ["TOOL"],
        "event": ["EVENT", "STREAM_EVENT"],
    }
    checked = 0
    for table in kinds:
        for remedy in set(getattr(_peer_attributes, table).values()):
            for variable, attribute in re.findall(r"(?<![\w.])([a-z]+)\.(\w+)", remedy):
                places = owners.get(variable, [])
                has = [hasattr(one, attribute) for place in places for one in kinds[place]]
                assert any(has) or not places, (table, remedy)
                checked += bool(places)
            for path in re.findall(r"turntree(?:\.\w+)+", remedy):
                found = turntree
                for name in path.split(".")[1:]:
                    found = getattr(found, name)
    assert checked > 100


def test_each_word_of_an_event_has_a_remedy():
    for kind, table in ((turntree.AgentStreamEvent, "EVENT"), (turntree.upp.StreamEvent, "STREAM_EVENT")):
        words = {name for name, value in vars(kind).items() if type(value).__name__ == "_PeerWord"}
        assert words == set(getattr(_peer_attributes, table))


def test_events_have_no_getattr_which_would_slow_down_each_access():
    for event in [*helper().stream_sync("x"), *model_events()]:
        assert not any("__getattr__" in vars(kind) for kind in type(event).__mro__)


def test_events_show_and_have_what_they_had():
    for event in [*helper().stream_sync("x"), *model_events()]:
        shown = dir(event)
        assert "choices" not in shown
        assert "to_json" in shown
        assert all(hasattr(event, name) for name in shown if not name.startswith("_"))
        assert copy.copy(event) == event
        assert copy.deepcopy(event) == event
        assert pickle.loads(pickle.dumps(event)) == event
    text = next(event for event in model_events() if event.type == "text_delta")
    assert text.text == text.delta["text"]


def test_copies_pickles_and_special_methods_are_as_before():
    everything = made()
    for table in ("AGENT", "TURN", "USAGE", "THREAD", "TOOL_CALL", "TOOL_RESULT", "EXECUTION", "MESSAGE", "MODEL"):
        for one in everything[table]:
            copy.copy(one)
            copy.deepcopy(one)
            if table != "AGENT":  # Functions of tests cannot be pickled by name everywhere.
                pickle.loads(pickle.dumps(one))
    for objects in everything.values():
        for one in objects:
            assert not hasattr(one, "__missing_method__")
            with pytest.raises(AttributeError, match="has no attribute 'nothing'$"):
                _ = one.nothing


def test_usage_is_not_callable_so_that_templates_do_not_call_it():
    usage = helper().run_sync("x").usage

    assert not callable(usage)


def test_a_turn_that_is_read_as_a_dict_is_explained():
    turn = helper().run_sync("x")

    with pytest.raises(TypeError, match=r"^a turn is no dict: .* turn\.text, .* turn\.messages"):
        turn["messages"]
    with pytest.raises(TypeError, match="^a turn is no dict"):
        list(turn)
    assert not isinstance(turn, Iterable)
