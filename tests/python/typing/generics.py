"""Static types of agents with dependencies and structured output. Checked, never run."""

from dataclasses import dataclass
from typing import Any

from typing_extensions import assert_type

from turntree import (
    Agent,
    AgentStream,
    Limits,
    QueryResult,
    RunContext,
    Session,
    ToolContext,
    agent,
    ask,
    query,
    session,
)
from turntree.upp import LLM, Turn, llm, openai, tool


@dataclass
class City:
    """An answer."""

    name: str


@dataclass
class Database:
    """What tools need."""

    url: str


@tool
def find(context: ToolContext[Database], name: str) -> str:
    """Find a city."""
    assert_type(context.deps, Database)
    return context.deps.url + name


def prompt(context: RunContext[Database]) -> str:
    assert_type(context.deps, Database)
    return context.deps.url


async def prompt_later(context: RunContext[Database]) -> list[dict[str, str]]:
    return [{"type": "text", "text": context.deps.url}]


def check(context: RunContext[Database], city: City) -> None:
    assert_type(context.deps, Database)


async def typed(database: Database) -> None:
    cities = agent(model=openai("gpt-5"), structure=City, deps_type=Database, tools=[find], system=prompt)
    assert_type(cities, Agent[Database, City])
    assert_type((await cities.run("x", deps=database)).data, City)
    assert_type(cities.run_sync("x", deps=database).data, City)
    aside = await query(cities, "x", deps=database)
    assert_type(aside, QueryResult[City])
    assert_type(aside.turn.data, City)
    assert_type((await aside.continue_("y")).turn, Turn[City])
    assert_type(cities.stream("x", deps=database), AgentStream[City])
    assert_type(await cities.stream("x"), Turn[City])
    assert_type(await cities.stream("x").turn, Turn[City])
    assert_type(cities.stream_sync("x").turn.data, City)
    async for turn in cities.map(["x"], deps=database, limits=Limits(requests=3)):
        assert_type(turn, Turn[City])
    await cities.run("x", deps=City("x"))  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    await cities.run("x", dependencies=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    assert_type(await ask(cities, "x"), Turn[City])


async def sessions(database: Database) -> None:
    conversation = session(agent(model="openai:gpt-5", structure=City, deps_type=Database))
    assert_type(conversation, Session[Database, City])
    assert_type((await conversation.run("x", deps=database, timeout=3)).data, City)
    assert_type((await conversation.resume(deps=database)).data, City)
    assert_type(await conversation.stream("x"), Turn[City])


async def loaded(helper: Agent[Database, City], database: Database) -> None:
    opened = await Session.open("sqlite:///x.db", "chat", helper)
    assert_type(opened, Session[Database, City])
    assert_type((await opened.run("x", deps=database)).data, City)
    assert_type(await Session.load("sqlite:///x.db", "chat", helper), Session[Database, City])
    assert_type(Session.from_json(opened.to_json(), helper), Session[Database, City])


async def models() -> None:
    model = llm(model=openai("gpt-5"), structure=City, system="Be brief.")
    assert_type(model, LLM[City])
    assert_type((await model.generate("x")).data, City)
    assert_type(model.generate_sync("x").data, City)
    assert_type(await model.stream("x"), Turn[City])
    assert_type(model.stream_sync("x").turn.data, City)
    assert_type(llm(model=openai("gpt-5")), LLM[None])
    assert_type(llm(model="openai:gpt-5", structure={"type": "object"}), LLM)


async def without_structure(database: Database) -> None:
    assert_type(await llm(model="openai:gpt-5").generate("x"), Turn[None])
    assert_type(agent(model="openai:gpt-5"), Agent[None, None])
    shop = agent(model="openai:gpt-5", deps_type=Database, tools=[find])
    assert_type(shop, Agent[Database, None])
    assert_type((await shop.run("x", deps=database)).data, None)
    assert_type(agent(structure={"type": "object"}, deps_type=Database), Agent[Database, Any])


def partly(helper: Agent[Database, City]) -> None:
    assert_type(agent(structure=City), Agent[None, City])
    assert_type(agent(structure=City, output_validators=[check], output_retries=2), Agent[None, City])
    assert_type(helper.with_(system=prompt_later), Agent[Database, City])
    lead: Agent = agent(tools=[helper, find])
    assert_type(lead.run_sync("x").usage.by_agent["a"].input_tokens, int)
