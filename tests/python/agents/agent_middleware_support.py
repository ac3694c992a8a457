"""Helpers of the tests of agent middleware."""

from __future__ import annotations

import asyncio

from turntree.upp import (
    AssistantMessage,
    ToolCall,
    Turn,
    UserMessage,
    scripted,
    tool,
)

HOOKS = ["before", "after", "on_error"]


def recorder(log, name, *, fails_in=None, error=None, recovers=None, is_async=False):
    """A middleware with the three hooks of the specification that logs its calls."""

    def told(hook, arguments):
        log.append(f"{name}:{hook}")
        if hook == fails_in:
            raise error
        if hook == "after":
            return arguments[1]
        return recovers if hook == "on_error" else None

    def sync_hook(hook):
        return lambda *arguments: told(hook, arguments)

    def async_hook(hook):
        async def call(*arguments):
            await asyncio.sleep(0)
            return told(hook, arguments)

        return call

    make = async_hook if is_async else sync_hook
    return type("Recorder", (), {"name": name, **{hook: staticmethod(make(hook)) for hook in HOOKS}})()


@tool
def double(x: int) -> int:
    """Double it."""
    return 2 * x


def with_tool(answer="Eight."):
    return scripted([[ToolCall("c", "double", {"x": 4})], answer])


def turn_of(text, asked="asked"):
    messages = [UserMessage(asked).to_dict(), AssistantMessage(text).to_dict()]
    return Turn.model_validate({"messages": messages})


def texts(messages):
    return [message.text for message in messages]


def hook_object(**hooks):
    return type("Hooked", (), {"name": "hooked", **{name: staticmethod(hook) for name, hook in hooks.items()}})()


async def no_secret(text):
    await asyncio.sleep(0)
    return "it tells a secret" if "secret" in text else None


# budget


def rounds(count):
    return scripted([*([ToolCall(f"c{number}", "double", {"x": 1})] for number in range(count)), "done"])


def call(name):
    return [ToolCall(name, "double", {"x": 1})]
