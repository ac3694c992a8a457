"""System prompts and instructions in exports: included, as configuration, or left out."""

import json
from typing import Any

import pytest

from turntree import thread_protocol as tp

TIME = "2026-03-01T10:00:00Z"


def part(kind: str, content: str) -> dict[str, Any]:
    return {"content": content, "timestamp": TIME, "part_kind": kind}


def request(*parts: dict[str, Any], instructions: str | None = None) -> dict[str, Any]:
    return {"parts": list(parts), "instructions": instructions, "timestamp": TIME, "kind": "request"}


def response(text: str, run_id: str = "r1") -> dict[str, Any]:
    answer = {"content": text, "part_kind": "text"}
    return {"parts": [answer], "usage": {}, "timestamp": TIME, "kind": "response", "run_id": run_id}


HISTORY = json.dumps(
    [
        request(part("system-prompt", "Be brief."), part("user-prompt", "Hi"), instructions="Use SI units."),
        response("Hello"),
        request(part("system-prompt", "Be kind."), part("user-prompt", "Bye"), instructions="Use feet."),
        response("Good bye"),
        request(part("user-prompt", "Hm")),
    ]
)


def shown(messages: list[dict[str, Any]]) -> list[Any]:
    """Kinds and contents of the parts, and the instructions, of each request."""
    return [
        ([(one["part_kind"], one["content"]) for one in message["parts"]], message["instructions"])
        for message in messages
        if message["kind"] == "request"
    ]


def exported(thread: tp.Thread, **options: Any) -> list[Any]:
    return shown(json.loads(thread.to_pydantic_ai_json(**options)))


INCLUDED = [
    ([("system-prompt", "Be brief."), ("user-prompt", "Hi")], "Use SI units."),
    ([("system-prompt", "Be kind."), ("user-prompt", "Bye")], "Use feet."),
    ([("user-prompt", "Hm")], None),
]
CONFIGURED = [
    ([("user-prompt", "Hi")], "Be brief.\n\nUse SI units."),
    ([("user-prompt", "Bye")], "Be brief.\n\nUse feet."),
    ([("user-prompt", "Hm")], "Be brief."),
]
OMITTED = [([("user-prompt", text)], None) for text in ("Hi", "Bye", "Hm")]


@pytest.mark.parametrize("profile", ["full", "portable"])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("stored", [False, True])
def test_prompts_are_included_configured_or_omitted(profile: Any, strict: bool, stored: bool) -> None:
    thread = tp.from_pydantic_ai(HISTORY, profile=profile, strict=strict)
    if stored:
        thread = tp.Thread.model_validate_json(thread.to_json())
    (agent_id,) = thread.agents

    for view in (None, agent_id):
        assert exported(thread, agent_id=view) == INCLUDED
        assert exported(thread, agent_id=view, system_prompts="config") == CONFIGURED
        assert exported(thread, agent_id=view, system_prompts="omit") == OMITTED
        assert len(thread.to_pydantic_ai(view)) == 5


def test_the_prompts_of_a_view_belong_to_its_agent() -> None:
    ann, bob = (tp.AgentConfig(name, created_at=TIME) for name in ("Ann", "Bob"))
    history = json.dumps(
        [
            request(part("system-prompt", "Be brief."), part("user-prompt", "Hi"), instructions="For Ann."),
            response("Hello", "a"),
            request(part("system-prompt", "Only Bob."), part("user-prompt", "Bye"), instructions="For Bob."),
            response("Good bye", "b"),
        ]
    )
    thread = tp.from_pydantic_ai(history, agent={"a": ann, "b": bob})

    of_ann, of_bob = (exported(thread, agent_id=agent.agent_id) for agent in (ann, bob))

    assert "Only Bob." not in str(of_ann)
    assert "For Bob." not in str(of_ann)
    assert of_ann[0] == ([("system-prompt", "Be brief."), ("user-prompt", "Hi")], "For Ann.")
    assert "Only Bob." in str(of_bob)
    assert "For Ann." not in str(of_bob)
    assert of_bob[-1][1] == "For Bob."


@pytest.mark.parametrize("profile", ["full", "portable"])
def test_the_system_prompt_is_in_messages_of_turntree(profile: Any) -> None:
    thread = tp.from_pydantic_ai(HISTORY, profile=profile)
    (agent_id,) = thread.agents

    for view in (None, agent_id):
        texts = [(message.type, message.text) for message in thread.to_upp(view)]
        assert texts[:2] == [("user", "Be brief."), ("user", "Hi")]
        assert ("user", "Be kind.") in texts
        for option in ("config", "omit"):
            messages = thread.to_upp(view, system_prompts=option)  # type: ignore[arg-type]
            assert [message.text for message in messages] == ["Hi", "Hello", "Bye", "Good bye", "Hm"]
    assert thread.system_prompt() == thread.system_prompt(agent_id) == "Be brief."


@pytest.mark.parametrize("profile", ["full", "portable"])
def test_a_history_of_prompts_only_is_restored(profile: Any) -> None:
    history = json.dumps([request(part("system-prompt", "Be brief."), instructions="Use SI units.")])
    thread = tp.from_pydantic_ai(history, profile=profile)

    assert exported(thread) == [([("system-prompt", "Be brief.")], "Use SI units.")]
    assert exported(thread, agent_id=next(iter(thread.agents))) == exported(thread)
    assert exported(thread, system_prompts="omit") == []
    assert thread.system_prompt() == "Be brief.\n\nUse SI units."


def test_threads_without_prompts_have_no_system_prompt() -> None:
    thread = tp.from_pydantic_ai(json.dumps([request(part("user-prompt", "Hi")), response("Hello")]))

    assert thread.system_prompt() is None
    with pytest.raises(ValueError, match="system_prompts must be"):
        thread.to_upp(system_prompts="maybe")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="nobody"):
        thread.system_prompt("nobody")
