"""LangGraph: the model and the tools as two nodes of a graph, without a checkpointer."""

from __future__ import annotations

from typing import Any

from cases import PROMPT, TOOL_PROMPT, add

PACKAGES = ["langgraph", "langchain-openai"]
VERSIONS = ["langgraph", "langchain-core", "langchain-openai", "openai"]
IMPORT = """
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
"""
UNSUPPORTED: dict[str, str] = {}


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
