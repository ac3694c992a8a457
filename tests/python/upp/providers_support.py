"""Helpers of the tests of providers."""

import pytest

from turntree import agent
from turntree.upp import (
    anthropic,
    cerebras,
    deepseek,
    groq,
    mistral,
    moonshot,
    openai,
    openai_compatible,
    openrouter,
    tool,
    xai,
)

KEY = "sk-secret-0123456789"


VENDORS = {
    "GROQ_API_KEY": groq,
    "CEREBRAS_API_KEY": cerebras,
    "MOONSHOT_API_KEY": moonshot,
    "KIMI_API_KEY": moonshot,
    "DEEPSEEK_API_KEY": deepseek,
    "MISTRAL_API_KEY": mistral,
    "OPENROUTER_API_KEY": openrouter,
    "XAI_API_KEY": xai,
}


VARIABLES = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "OLLAMA_API_KEY",
    "OLLAMA_HOST",
    "OPENRESPONSES_API_KEY",
    "MY_HOST_KEY",
    *VENDORS,
)


@pytest.fixture(autouse=True)
def no_keys_of_this_machine(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny"


def chat(server, **options):
    return openai("gpt", "completions", **{"base_url": server.base_url, "api_key": KEY, **options})


def responses(server, **options):
    return openai("gpt", **{"base_url": server.base_url, "api_key": KEY, **options})


def messages(server, **options):
    return anthropic("claude", **{"base_url": server.base_url, "api_key": KEY, **options})


def compatible(server, **options):
    return openai_compatible("llama", **{"base_url": server.base_url, "api_key": KEY, **options})


WIRES = [chat, responses, messages, compatible]


def helper(make, server, *, options=(), **settings):
    """An agent that uses one vendor API at a server."""
    params = {"max_tokens": 100} if make is messages else {}
    return agent(model=make(server, **dict(options)), params=params, **settings)


async def streamed(runner, *arguments):
    """The events and the turn of a streamed run."""
    stream = runner.stream(*arguments)
    events = [event.upp async for event in stream if event.upp]
    return events, await stream.turn


def text_of(events):
    return "".join(event.delta["text"] for event in events if event.type == "text_delta")


# Keys


def sent_key(request):
    """The key of a request, from the place its API uses."""
    return request.headers.get("x-api-key") or request.headers["authorization"].removeprefix("Bearer ")
