"""Agents of Python programs behind a wire: their tools, hooks, sub-agents and structures, over both faces."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from typing import Any

import pytest
from uamp_support import FACES, frames, http, served

from turntree import agent
from turntree.upp import Reasoning, Text, ToolCall, ToolResultMessage, scripted, tool

pytestmark = pytest.mark.parametrize("face", FACES)


def chat(text: str = "hello", **members: Any) -> dict[str, Any]:
    return {"model": "helper", "messages": [{"role": "user", "content": text}], **members}


def answer_of(body: dict[str, Any]) -> str:
    return body["choices"][0]["message"]["content"]


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(tool_call_id=f"call_{name}", tool_name=name, arguments=arguments)


async def test_tools_run_on_the_loop_of_the_server_and_in_threads(face: str) -> None:
    seen: dict[str, Any] = {}

    async def on_loop(city: str) -> str:
        """Look up a city."""
        seen["loop"] = asyncio.get_running_loop()
        return f"{city}: sunny"

    def in_thread(city: str) -> str:
        """Look up a city in a slow way."""
        seen["thread"] = threading.current_thread()
        return f"{city}: rain"

    model = scripted([[call("on_loop", city="Rome"), call("in_thread", city="Oslo")], "done"])
    async with served(face, agent(name="helper", model=model, tools=[on_loop, in_thread])) as url, http(url) as client:
        answer = await client.post("/chat/completions", json=chat())
        assert (answer.status_code, answer_of(answer.json())) == (200, "done"), answer.text

    assert seen["loop"] is asyncio.get_running_loop()
    assert seen["thread"] is not threading.current_thread()
    answered = model.requests[1].messages[-1]
    assert isinstance(answered, ToolResultMessage)
    assert [result.result for result in answered.results] == ["Rome: sunny", "Oslo: rain"]


async def test_a_stream_has_the_pieces_of_the_answer(face: str) -> None:
    async with served(face, agent(name="helper", model=scripted(["one two three"]))) as url, http(url) as client:
        answer = await client.post("/v1/chat/completions", json=chat(stream=True))

    found = frames(answer.text)
    assert found[-1] == "[DONE]"
    deltas = [frame["choices"][0]["delta"].get("content") or "" for frame in found[:-1] if frame["choices"]]
    assert "".join(deltas) == "one two three"


async def test_the_exception_of_a_tool_is_told_to_the_model(face: str) -> None:
    def fail() -> str:
        """Fail."""
        raise RuntimeError("the shelf is empty")

    model = scripted([call("fail"), "sorry"])
    async with served(face, agent(name="helper", model=model, tools=[fail])) as url, http(url) as client:
        assert answer_of((await client.post("/chat/completions", json=chat())).json()) == "sorry"

    assert "the shelf is empty" in model.requests[1].messages[-1].model_dump_json()


async def test_hooks_and_middleware_are_called(face: str) -> None:
    called: list[str] = []

    class Watch:
        name = "watch"

        async def before(self, context: Any) -> None:
            called.append(f"before {context.agent.name}")

        def after(self, context: Any, turn: Any) -> Any:
            called.append(f"after {turn.response.text}")
            return turn

    async def on_complete(turn: Any) -> None:
        called.append(f"complete {turn.response.text}")

    watched = agent(name="helper", model=scripted(["hi"]), middleware=[Watch()], hooks={"on_complete": on_complete})
    async with served(face, watched) as url, http(url) as client:
        assert (await client.post("/chat/completions", json=chat())).status_code == 200

    assert called[0] == "before helper"
    assert set(called[1:]) == {"after hi", "complete hi"}


async def test_a_sub_agent_answers_its_caller(face: str) -> None:
    expert = agent(name="expert", model=scripted(["42"]))
    model = scripted([call("expert", task="what is it?"), "it is 42"])
    served_agent = agent(name="helper", model=model, tools=[expert.to_tool(name="expert")])
    async with served(face, served_agent) as url, http(url) as client:
        assert answer_of((await client.post("/chat/completions", json=chat())).json()) == "it is 42"

    assert "42" in model.requests[1].messages[-1].model_dump_json()


async def test_what_a_sub_agent_says_and_thinks_is_progress_of_its_call(face: str) -> None:
    expert = agent(name="expert", model=scripted([[Reasoning(text="let me see"), Text(text="forty-two")]]))
    model = scripted([call("expert", task="what is it?"), "it is 42"])
    served_agent = agent(name="helper", model=model, tools=[expert.to_tool(name="expert")])
    batch = [{"type": "session.create"}, {"type": "input.text", "text": "hi"}, {"type": "response.create"}]
    async with served(face, served_agent) as url, http(url) as client:
        events = (await client.post("/uamp", json=batch)).json()

    deltas = [event["delta"] for event in events if event["type"] == "response.delta"]
    progress = [delta["tool_progress"] for delta in deltas if delta["type"] == "tool_progress"]
    (call_id,) = {delta["tool_call"]["id"] for delta in deltas if delta["type"] == "tool_call"}
    assert "".join(piece["text"] for piece in progress) == "let me seeforty-two"
    assert {piece["call_id"] for piece in progress} == {call_id}
    assert not [event for event in events if event["type"] == "thinking"]
    assert events[-1]["response"]["output"][-1] == {"type": "text", "text": "it is 42"}


async def test_an_approval_handler_decides(face: str) -> None:
    asked: list[Any] = []

    async def approves(arguments: dict[str, Any]) -> bool:
        asked.append(arguments)
        return arguments["amount"] < 10

    @tool(approval=approves)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    model = scripted([call("pay", amount=50), "refused"])
    async with served(face, agent(name="helper", model=model, tools=[pay])) as url, http(url) as client:
        assert answer_of((await client.post("/chat/completions", json=chat())).json()) == "refused"

    assert asked == [{"amount": 50}]
    assert "paid" not in model.requests[1].messages[-1].model_dump_json()


async def test_decisions_of_an_a2a_client_about_calls_with_one_id_reach_their_calls(face: str) -> None:
    paid: list[str] = []

    @tool(approval="ask")
    def pay(to: str) -> str:
        """Pay."""
        paid.append(to)
        return f"paid {to}"

    def payer(to: str) -> Any:
        return agent(name=to, model=scripted([call("pay", to=to), f"{to} is done"]), tools=[pay]).to_tool(to)

    both = [call(to, task="pay") for to in ("ann", "bob")]
    lead = agent(name="helper", model=scripted([both, "done"]), tools=[payer("ann"), payer("bob")])

    async def send(client: Any, **message: Any) -> Any:
        params = {"message": {"messageId": "m", "role": "ROLE_USER", **message}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        return (await client.post("/a2a", json=body)).json()["result"]["task"]

    async with served(face, lead) as url, http(url) as client:
        task = await send(client, parts=[{"text": "pay"}])
        asked = task["status"]["message"]["parts"][1]["data"]["approvals"]
        assert [question["arguments"] for question in asked] == [{"to": "ann"}, {"to": "bob"}]
        decided = [
            {"callId": question["callId"], "approved": question["arguments"]["to"] == "bob"} for question in asked
        ]
        task = await send(client, taskId=task["id"], parts=[{"data": {"approvals": decided}}])

    assert (task["status"]["state"], paid) == ("TASK_STATE_COMPLETED", ["bob"])


async def test_a_client_that_goes_away_cancels_the_tool(face: str) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait for ever."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    waiting = agent(name="helper", model=scripted([call("wait"), "never"]), tools=[wait])
    async with served(face, waiting) as url, http(url) as client:
        request = asyncio.create_task(client.post("/chat/completions", json=chat(stream=True)))
        await asyncio.wait_for(began.wait(), 20)
        request.cancel()
        await asyncio.wait_for(ended.wait(), 20)


async def test_a_request_does_not_see_the_context_variables_of_another(face: str) -> None:
    number: contextvars.ContextVar[int] = contextvars.ContextVar("number", default=0)
    seen: list[int] = []

    async def count() -> int:
        """Count."""
        seen.append(number.get())
        number.set(number.get() + 1)
        return number.get()

    counting = agent(name="helper", model=scripted([call("count"), "a", call("count"), "b"]), tools=[count])
    async with served(face, counting) as url, http(url) as client:
        for _ in range(2):
            assert (await client.post("/chat/completions", json=chat())).status_code == 200

    assert seen == [0, 0]


async def test_two_hundred_streams_at_once_leave_no_task(face: str) -> None:
    async def pause() -> str:
        """Pause."""
        await asyncio.sleep(0.01)
        return "paused"

    def reply(request: Any) -> Any:
        return "done" if len(request.messages) > 1 else call("pause")

    many = agent(name="helper", model=scripted(reply), tools=[pause])
    async with served(face, many) as url, http(url) as client:
        await client.get("/info")
        before = len(asyncio.all_tasks())

        async def one() -> str:
            answer = await client.post("/chat/completions", json=chat(stream=True))
            found = frames(answer.text)[:-1]
            return "".join(frame["choices"][0]["delta"].get("content") or "" for frame in found if frame["choices"])

        limit = asyncio.Semaphore(100)

        async def limited() -> str:
            async with limit:
                return await one()

        texts = await asyncio.gather(*(limited() for _ in range(200)))
        assert texts == ["done"] * 200
        await client.aclose()
        async with asyncio.timeout(10):
            while len(asyncio.all_tasks()) > before:
                gc.collect()
                await asyncio.sleep(0.02)


async def test_streams_that_are_aborted_leave_no_task(face: str) -> None:
    running = 0

    async def wait() -> str:
        """Wait for ever."""
        nonlocal running
        running += 1
        try:
            await asyncio.Event().wait()
        finally:
            running -= 1
        return ""

    waiting = agent(name="helper", model=scripted(lambda _: call("wait")), tools=[wait])
    async with served(face, waiting) as url, http(url) as client:
        await client.get("/info")
        before = len(asyncio.all_tasks())
        requests = [asyncio.create_task(client.post("/chat/completions", json=chat(stream=True))) for _ in range(40)]
        while running < 40:
            await asyncio.sleep(0.02)
        for request in requests:
            request.cancel()
        for _ in range(400):
            if running == 0 and len(asyncio.all_tasks()) <= before:
                break
            await asyncio.sleep(0.05)

        assert running == 0
        assert len(asyncio.all_tasks()) <= before
