"""Writes conversations with LangGraph and the OpenAI Agents SDK, as their users do.

    python make_sources.py FOLDER

Needs the packages of requirements/import-tests.txt. The models are functions in this file; nothing is sent anywhere.
"""

import asyncio
import sqlite3
import sys
from pathlib import Path
from typing import Annotated, Any

from agents import SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from langgraph.prebuilt import ToolNode, tools_condition
from typing_extensions import TypedDict

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def price(item: str) -> str:
    """Return the price of an item."""
    if item == "moon":
        raise ValueError("not for sale")
    return f"{item}: 5 EUR"


class State(MessagesState):
    """The state of the graph: messages and what else an application stores."""

    visits: int
    labels: set[str]


def graph(answers: list[AIMessage], saver: SqliteSaver, state: type = State, **options: Any) -> Any:
    """A model that gives the answers one after the other, and a node with tools."""
    replies = iter(answers)

    def model(state: Any) -> Any:
        return {"messages": [next(replies)]}

    builder = StateGraph(state)
    builder.add_node("model", model)
    builder.add_node("tools", ToolNode([price], handle_tool_errors=True))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver, **options)


def asks(*items: str) -> AIMessage:
    """An answer that calls the tool for each item."""
    calls = [{"name": "price", "args": {"item": item}, "id": f"call_{item}", "type": "tool_call"} for item in items]
    usage = {"input_tokens": 20, "output_tokens": 7, "total_tokens": 27}
    return AIMessage(
        "", tool_calls=calls, usage_metadata=usage, response_metadata={"model_name": "m-1"}, id=f"ai_{items[0]}"
    )


def thread(name: str) -> Any:
    """The configuration of a thread."""
    return {"configurable": {"thread_id": name}}


def langgraph_threads(path: Path) -> None:
    """Threads with tools, media, a fork, an edited message, a removed message, a subgraph, and an interruption."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        shop = thread("shop")
        app = graph([asks("tea", "moon"), AIMessage("Tea costs 5 EUR."), AIMessage("A pixel.")], saver)
        system = SystemMessage("Answer in one sentence.", id="sys_1")
        app.invoke({"messages": [system, HumanMessage("Prices?", id="h_1")], "visits": 1, "labels": {"new"}}, shop)
        picture = [
            {"type": "text", "text": "And this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        ]
        before = app.get_state(shop).config
        app.invoke({"messages": [HumanMessage(picture, id="h_2")]}, shop)
        reasoned = AIMessage(
            [{"type": "reasoning", "reasoning": "It is late."}, {"type": "text", "text": "Good night."}]
        )
        graph([reasoned], saver).invoke({"messages": [HumanMessage("I go to bed.", id="h_3")]}, before)

        stopped = graph([asks("cup")], saver, interrupt_before=["tools"])
        stopped.invoke({"messages": [HumanMessage("A cup?", id="h_4")]}, thread("stopped"))

        edited = graph([AIMessage("One.", id="a_1"), AIMessage("Two.", id="a_2")], saver)
        edited.invoke({"messages": [HumanMessage("First", id="h_5")]}, thread("edited"))
        edited.update_state(thread("edited"), {"messages": [HumanMessage("First, please", id="h_5")]})
        edited.update_state(thread("edited"), {"messages": [RemoveMessage(id="a_1")]})

        child = StateGraph(MessagesState)
        child.add_node("answer", lambda state: {"messages": [AIMessage("From inside.", id="a_3")]})
        child.add_edge(START, "answer")
        parent = StateGraph(MessagesState)
        parent.add_node("child", child.compile(checkpointer=True))
        parent.add_edge(START, "child")
        outer = parent.compile(checkpointer=saver)
        outer.invoke({"messages": [HumanMessage("Delegate", id="h_6")]}, thread("nested"))


class Changes(TypedDict):
    """Messages that are stored as changes."""

    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


def langgraph_changes(path: Path) -> None:
    """A thread whose checkpoints store changes of the messages, not all of them."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        app = graph([asks("tea"), AIMessage("5 EUR.", id="a_1"), AIMessage("Bye.", id="a_2")], saver, Changes)
        app.invoke({"messages": [HumanMessage("Tea?", id="h_1")]}, thread("changes"))
        app.invoke({"messages": [HumanMessage("Thanks", id="h_2")]}, thread("changes"))


ITEMS: list[Any] = [
    {"role": "developer", "content": "Answer in one sentence."},
    {"role": "user", "content": "Prices?"},
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "I need prices."}],
        "encrypted_content": "c2VhbGVk",
    },
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "price", "arguments": '{"item": "tea"}'},
    {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "price", "arguments": '{"item": "moon"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "tea: 5 EUR"},
    {"type": "function_call_output", "call_id": "call_2", "output": "not for sale"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Tea costs 5 EUR.", "annotations": []}],
    },
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "And this?"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
        ],
    },
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "pixel"}},
    {
        "type": "message",
        "id": "msg_2",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "A pixel.", "annotations": [{"type": "url_citation"}]}],
    },
]


async def openai_sessions(path: Path) -> None:
    """Two sessions; the second one ends with a call without an output."""
    first, second = SQLiteSession("shop", path), SQLiteSession("stopped", path)
    await first.add_items(ITEMS)
    await second.add_items([*ITEMS[:2], ITEMS[3]])
    first.close()
    second.close()


async def openai_branches(path: Path) -> None:
    """A session with a branch that starts at the second message of the user."""
    session = AdvancedSQLiteSession(session_id="shop", db_path=path, create_tables=True)
    await session.add_items(ITEMS)
    await session.create_branch_from_turn(2, "bedtime")
    answer = {"type": "output_text", "text": "Good night.", "annotations": []}
    message = {"type": "message", "id": "msg_3", "role": "assistant", "status": "completed", "content": [answer]}
    await session.add_items([{"role": "user", "content": "I go to bed."}, message])
    session.close()


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.db" for name in ("langgraph", "langgraph-changes", "openai", "openai-branches")}
    for path in paths.values():
        path.unlink(missing_ok=True)
    langgraph_threads(paths["langgraph"])
    langgraph_changes(paths["langgraph-changes"])
    asyncio.run(openai_sessions(paths["openai"]))
    asyncio.run(openai_branches(paths["openai-branches"]))
    for path in paths.values():
        # Without -wal, the file is complete.
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()


if __name__ == "__main__":
    main()
