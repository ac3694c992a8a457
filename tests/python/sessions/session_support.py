"""Helpers of the tests of sessions."""

import threading

import pytest

from turntree import (
    agent,
)
from turntree.upp import UPPError, scripted, tool


def call(name, /, **arguments):
    return {"toolName": name, "arguments": arguments}


def echo(request):
    """A model that repeats the user's text."""
    return f"you said {request.messages[-1].text}"


def texts(messages):
    return [message.text for message in messages]


def rounds(request):
    """A model that calls a tool as often as the last user message states, then answers."""
    messages = list(request.messages)
    last = max(place for place, message in enumerate(messages) if message.type == "user")
    done = sum(message.type == "tool_result" for message in messages[last:])
    wanted = int("".join(filter(str.isdigit, messages[last].text)) or 0)
    if done < wanted:
        return call("note", n=done)
    if "fail" in messages[last].text and FAILING.is_set():
        raise UPPError("down", "PROVIDER_ERROR")
    return f"after {done}"


FAILING = threading.Event()


@pytest.fixture(autouse=True)
def succeed():
    FAILING.clear()


def noting(**options):
    """An agent with a tool that records its calls."""
    noted = []

    @tool
    def note(n: int) -> int:
        noted.append(n)
        return n

    return agent(model=scripted(rounds), tools=[note], **options), noted
