"""LangGraph: the model and the tools as two nodes of a graph, without a checkpointer."""

from __future__ import annotations

from typing import Any

from cases import DONE, PROMPT, STEPS, TOOL_PROMPT, add, read
from saved import Saved, postgres_schema, postgres_size, sqlite_file, sqlite_size

PACKAGES = [
    *("langgraph", "langchain-openai", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres"),
    "psycopg[binary]",
]
VERSIONS = [
    *("langgraph", "langchain-core", "langchain-openai", "openai"),
    *("langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres"),
]
IMPORT = """
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
"""
_NODES = "each node is saved, the model and the tools, not each step"
UNSUPPORTED = {"saved_sqlite": _NODES, "saved_postgres": _NODES}


def _agent(url: str, name: str, tools: list[Any]) -> Any:
    from langchain_openai import ChatOpenAI
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    model: Any = ChatOpenAI(model=name, base_url=url, api_key="x", max_retries=0)
    if tools:
        model = model.bind_tools(tools)

    async def call_model(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", call_model)
    graph.add_edge(START, "model")
    if tools:
        graph.add_node("tools", ToolNode(tools))
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
    return graph.compile()


def build(url: str) -> Any:
    def once() -> Any:
        return _agent(url, "tool", [add])

    return once


def plain(url: str) -> Any:
    return history(url, [])


def tool(url: str) -> Any:
    agent = _agent(url, "tool", [add])

    async def once() -> str:
        state = await agent.ainvoke({"messages": [("user", TOOL_PROMPT)]})
        return state["messages"][-1].content

    return once


def stream(url: str, model: str) -> Any:
    agent = _agent(url, model, [])

    async def once() -> int:
        deltas = 0
        async for message, _ in agent.astream({"messages": [("user", PROMPT)]}, stream_mode="messages"):
            if message.content:
                deltas += 1
        return deltas

    return once


def history(url: str, past: list[tuple[str, str]]) -> Any:
    from langchain_core.messages import AIMessage, HumanMessage

    agent = _agent(url, "plain", [])
    messages = [HumanMessage(text) if role == "user" else AIMessage(text) for role, text in past]

    async def once() -> str:
        state = await agent.ainvoke({"messages": [*messages, HumanMessage(PROMPT)]})
        return state["messages"][-1].content

    return once


def saved_sqlite_tool() -> Saved:
    """Each node is saved: the model's response before its tools run, and their results."""
    return _saved_sqlite("sync")


def saved_sqlite_once() -> Saved:
    return _saved_sqlite("exit")


def _saved_sqlite(durability: Any) -> Saved:
    import sqlite3

    from langgraph.checkpoint.sqlite import SqliteSaver

    path = sqlite_file()
    connection = sqlite3.connect(path, check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    connection.execute("PRAGMA synchronous = FULL")
    return _saved(saver, sqlite_size(path), durability)


def saved_postgres_tool() -> Saved:
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg import Connection
    from psycopg.rows import dict_row

    url, schema = postgres_schema("langgraph")
    connection = Connection.connect(
        url, autocommit=True, prepare_threshold=0, row_factory=dict_row, options=f"-c search_path={schema}"
    )
    saver = PostgresSaver(connection)
    saver.setup()
    return _saved(saver, postgres_size(schema), "sync")


def _saved(saver: Any, size: Any, durability: Any) -> Saved:
    """A graph that is saved: "sync" before the next step starts, "exit" at the end of a run."""
    from uuid import uuid4

    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    def call_model(state: MessagesState) -> Any:
        page = len(state["messages"]) // 2
        if page == STEPS - 1:
            return {"messages": [AIMessage(DONE)]}
        call = {"name": "read", "args": {"page": page}, "id": f"call_{page}", "type": "tool_call"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", call_model)
    graph.add_node("tools", ToolNode([read]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    app = graph.compile(checkpointer=saver)
    config: Any = {}

    def once() -> str:
        config.update({"configurable": {"thread_id": str(uuid4())}, "recursion_limit": 4 * STEPS})
        state = app.invoke({"messages": [("user", PROMPT)]}, config, durability=durability)
        return state["messages"][-1].content

    return Saved(once, size, lambda: len(app.get_state(config).values["messages"]))
