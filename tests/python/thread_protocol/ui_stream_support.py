"""Threads and chunks for the tests of UI streams."""

from typing import Any

from turntree import thread_protocol as tp

START = {"type": "start", "messageId": "m"}


STEP = [START, {"type": "start-step"}]


END = [{"type": "finish-step"}, {"type": "finish", "finishReason": "stop"}]


def text(words: str, block: str = "t") -> list[dict[str, Any]]:
    return [
        {"type": "text-start", "id": block},
        {"type": "text-delta", "id": block, "delta": words},
        {"type": "text-end", "id": block},
    ]


def call(name: str = "t", arguments: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "tool-input-available", "toolCallId": "c", "toolName": name, "input": arguments, **more}


def actions(thread: tp.Thread) -> list[dict[str, Any]]:
    """The actions without the members that every action has."""
    shown = []
    for action in thread:
        data = action.model_dump(mode="json", exclude_none=True)
        shown.append({k: v for k, v in data.items() if k not in ("timestamp", "sequence", "agent_id", "metadata")})
    return shown


def said(words: str, **more: Any) -> dict[str, Any]:
    return {"action_type": "assistant_message", "content": words, **more}


AT: dict[str, Any] = {"timestamp": "2026-01-01T00:00:00Z"}


def asked(content: Any, *attachments: tp.Attachment) -> tp.Thread:
    """A thread with two user messages."""
    thread = tp.from_ui_stream([*STEP, *text("a")], profile="portable", **AT)
    answer = thread.actions[0]
    for action in (tp.UserMessageAction(content, attachments=attachments or None, **AT), answer):
        thread.append(action)
    return thread
