"""Real clients of the protocols, at pinned versions, in processes of their own, against served agents.

The packages of `requirements/uamp-clients.txt` are installed once, in an environment below `target`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from uamp_clients import CLIENTS, PLAIN, auth, blocks, environment, results_of, served_to_clients
from uamp_support import FACES

pytestmark = pytest.mark.timeout(600)

OPENAI: dict[str, Any] = {
    "chat": ["chat.completion", "you said: hello", "stop"],
    "chat_stream": ["you said: hello", ["stop"], [], True, [None, None]],
    "chat_tools": ["tool_calls", "weather", {"city": "Oulu"}, "it is sunny"],
    "chat_stream_tools": ["tool_calls", "weather", {"city": "Oulu"}],
    "chat_structured": ["City", "Oulu", 200000],
    "chat_length": ["length", "length"],
    "chat_filtered": "content_filter",
    "chat_reasoning": ["therefore", "I think"],
    "errors": {
        "key": ["AuthenticationError", 401, "invalid_api_key", None],
        "model": ["NotFoundError", 404, "model_not_found", "model"],
        "messages": ["BadRequestError", 400, "empty_array", "messages"],
        "broken": ["InternalServerError", 500, "generation_error", None],
        "broken_stream": ["InternalServerError", 500, "generation_error", None],
        "previous": ["NotFoundError", 404, "previous_response_not_found", "previous_response_id"],
        "retrieve": ["NotFoundError", 404, "model_not_found", "model"],
    },
    "models": ["model", "echo", False],
    "responses": ["completed", "you said: one", "3 messages", "3 messages", True],
    "responses_stream": ["response.created", "response.completed", True, "you said: hello", "completed"],
    "responses_tools": ["weather", {"city": "Oulu"}, "it is sunny"],
    "responses_structured": ["Oulu", 200000],
    "responses_length": ["incomplete", "max_output_tokens", "half an answ", "response.incomplete"],
    "realtime_text": ["session.created", "session.updated", "you said: hello", "completed", "you said: hello"],
    "realtime_call": ["weather", {"city": "Oulu"}, "it is sunny"],
    "realtime_cancel": "cancelled",
    "realtime_beta_text": ["session.created", "session.updated", "you said: hello", "completed", "you said: hello"],
    "realtime_beta_call": ["weather", {"city": "Oulu"}, "it is sunny"],
    "realtime_beta_cancel": "cancelled",
    "concurrent": True,
}

STREAM = {
    "first": "task",
    "last": "status_update",
    "text": "you said: hello",
    "state": "TASK_STATE_COMPLETED",
    "message": "you said: hello",
}
SENT = ["TASK_STATE_COMPLETED", ["1 messages", "3 messages", "3 messages"], True]
CANCELED = ["task", "TASK_STATE_CANCELED", ["TASK_STATE_CANCELED", "TASK_STATE_CANCELED"], "TaskNotCancelableError"]
MISSING = {
    f"{which} {call}": "TaskNotFoundError"
    for which in ("json_rpc", "rest", "0.3")
    for call in ("get", "cancel", "continue")
}

A2A: dict[str, Any] = {
    "json_rpc": [*SENT, 2, STREAM],
    "rest": [*SENT, 2, STREAM],
    "compatible": [*SENT, STREAM],
    "cancel": CANCELED,
    "cancel_rest": CANCELED,
    "cancel_compatible": CANCELED,
    "approval": ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED", "it is deleted"],
    "webhooks": ["one", "t", 1, 0, "InvalidParamsError"],
    "errors": {**MISSING, "card": "AgentCardResolutionError", "broken": "TASK_STATE_FAILED"},
    "concurrent": True,
}

AG_UI: dict[str, Any] = {
    "text": [
        [
            "RUN_STARTED",
            "STEP_STARTED",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "CUSTOM",
            "TEXT_MESSAGE_END",
            "STEP_FINISHED",
            "RUN_FINISHED",
        ],
        "you said: hello",
    ],
    "reasoning": [
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
    ],
    "server_tool": [["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"], ["12"]],
    "client_tool": ["weather", '{"city":"Oulu"}', "it is sunny"],
    "failure": ["RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "RUN_ERROR"],
}


@pytest.fixture(scope="module", params=FACES)
def url(request: pytest.FixtureRequest) -> Generator[str]:
    """A server of agents that requires the token ``secret``."""
    with served_to_clients(request.param, auth=auth) as found:
        yield found


@pytest.fixture(scope="module")
def openai_sdk(url: str) -> dict[str, Any]:
    return results_of([environment(), CLIENTS / "openai_sdk.py"], url)


@pytest.fixture(scope="module")
def a2a_sdk(url: str) -> dict[str, Any]:
    return results_of([environment(), CLIENTS / "a2a_sdk.py"], url)


@pytest.fixture(scope="module")
def ag_ui_client(url: str) -> dict[str, Any]:
    return results_of([environment(), CLIENTS / "ag_ui_client.py"], url)


@pytest.mark.parametrize("scenario", OPENAI)
def test_the_openai_package(openai_sdk: dict[str, Any], scenario: str) -> None:
    assert openai_sdk[scenario] == OPENAI[scenario], failure_of(openai_sdk[scenario])


@pytest.mark.parametrize("scenario", A2A)
def test_the_a2a_sdk_package(a2a_sdk: dict[str, Any], scenario: str) -> None:
    assert a2a_sdk[scenario] == A2A[scenario], failure_of(a2a_sdk[scenario])


@pytest.mark.parametrize("scenario", AG_UI)
def test_the_events_of_the_ag_ui_protocol_package(ag_ui_client: dict[str, Any], scenario: str) -> None:
    assert ag_ui_client[scenario] == AG_UI[scenario], failure_of(ag_ui_client[scenario])


def test_the_nli_skill_of_webagents() -> None:
    with served_to_clients("native") as url:
        found = results_of([environment(), CLIENTS / "webagents_nli.py"], url)

    assert (found["message"], found["tool"]) == ("you said: hello", "it is 12"), failure_of(found)
    assert found["error"] == "None", "the skill logs the error and returns nothing"


def test_the_python_snippets_of_the_documentation_run(url: str, tmp_path: Path) -> None:
    printed = []
    for place, block in enumerate(blocks("python")):
        program = tmp_path / f"snippet{place}.py"
        program.write_text(block.replace("http://localhost:8000", url), encoding="utf-8")
        done = subprocess.run([environment(), program], capture_output=True, text=True, timeout=60, env=PLAIN)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)

    openai, a2a = printed
    assert openai == "you said: Where is Oulu?\nyou said: Where is Oulu?you said: And Turku?\nyou said: Hi"
    assert "you said: Where is Oulu?" in a2a


def failure_of(result: Any) -> str:
    """The traceback of the client, if it has failed."""
    return str(result["failed"]) if isinstance(result, dict) and "failed" in result else repr(result)
