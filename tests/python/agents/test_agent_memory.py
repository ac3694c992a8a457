"""Agents and runs are garbage-collected."""

import asyncio
import gc
import time
import weakref

import pytest
from agent_concurrency_support import WORDS, call

from turntree import ToolContext, agent
from turntree.upp import Reply, openai, scripted, tool

# Memory


def collected(reference, seconds=10.0):
    """Whether an object is garbage-collected within a short time."""
    deadline = time.monotonic() + seconds
    while reference() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)  # the poll interval
    return reference() is None


class Holder:
    """An object whose method is a tool of the agent that it holds."""

    def __init__(self, model):
        self.agent = agent(
            model=model,
            tools=[self.work],
            strategy={"on_step_start": self.hook},
            tool_strategy={"on_tool_call": self.hook},
        )
        self.stream = None
        self.turn = None

    def work(self, context: ToolContext) -> str:
        """Work."""
        self.context = context
        return "ok"

    def hook(self, *arguments):
        self.seen = arguments


@pytest.mark.parametrize("stage", ["fresh", "ran", "streaming", "aborted", "closed", "ended", "pending"])
def test_agent_in_a_reference_cycle_is_collected(run, stage):
    async def main():
        holder = Holder(scripted([[call("work")], Reply(WORDS, pace=0.01)]))
        if stage == "ran":
            holder.turn = await holder.agent.run("Go")
        elif stage != "fresh":
            holder.stream = holder.agent.stream("Go")
            async for event in holder.stream:
                if stage == "pending":
                    break
                if event.upp and event.upp.type == "text_delta" and stage == "aborted":
                    holder.stream.abort()
                elif event.upp and event.upp.type == "text_delta" and stage != "ended":
                    break
            if stage == "aborted":
                holder.turn = await holder.stream.turn
            if stage == "closed":
                await holder.stream.aclose()
        reference = weakref.ref(holder)
        event = holder = None
        return await asyncio.to_thread(collected, reference)

    assert run(main())


def test_cancelled_run_leaves_no_objects(run):
    async def main():
        model = scripted([Reply("late", delay=30)])
        holder = Holder(model)
        task = asyncio.ensure_future(holder.agent.run("Go"))
        while not model.requests:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        reference = weakref.ref(holder)
        del holder, task
        return await asyncio.to_thread(collected, reference)

    assert run(main())


def test_failed_run_leaves_no_objects(run):
    async def main():
        holder = Holder(scripted([ValueError("broken")]))
        with pytest.raises(ValueError, match="broken"):
            await holder.agent.run("Go")
        reference = weakref.ref(holder)
        del holder
        return await asyncio.to_thread(collected, reference)

    assert run(main())


def test_stream_that_failed_in_a_hook_of_its_owner_is_collected(run):
    class Owner:
        def hook(self, *_):
            raise ValueError("broken")

    async def main():
        owner = Owner()
        helper = agent(model=scripted(["x"]), strategy={"on_step_start": owner.hook})
        owner.stream = helper.stream("Go")
        with pytest.raises(ValueError, match="broken"):
            await owner.stream.turn
        reference = weakref.ref(owner)
        del owner, helper
        return await asyncio.to_thread(collected, reference)

    assert run(main())


@pytest.mark.parametrize("part", ["script", "key"])
def test_model_that_references_its_agent_is_collected(run, part):
    class Owner:
        def reply(self, _request):
            return "ok"

        def key(self):
            return "key"

    async def main():
        owner = Owner()
        model = (
            scripted(owner.reply)
            if part == "script"
            else openai("gpt", "completions", base_url="http://127.0.0.1:1", api_key=owner.key)
        )
        owner.agent = agent(model=model)
        reference = weakref.ref(owner)
        del owner, model
        return await asyncio.to_thread(collected, reference)

    assert run(main())


def test_two_thousand_runs_leave_no_objects(run):
    def reply(request):
        return [call("work")] if request.messages[-1].type == "user" else WORDS

    @tool(inline=True)
    def work() -> str:
        return "ok"

    async def rounds(number):
        for _ in range(number):
            # A scripted model stores its requests, so each run gets a new one.
            helper = agent(model=scripted(reply), tools=[work])
            await helper.run("Go")
            stream = helper.stream("Go")
            async for _ in stream:
                pass
            await stream.turn

    async def main():
        await rounds(50)
        gc.collect()
        before = len(gc.get_objects())
        await rounds(1000)
        deadline = time.monotonic() + 10
        while True:  # another thread may still hold objects of the last run
            gc.collect()
            more = len(gc.get_objects()) - before
            if more < 100 or time.monotonic() > deadline:
                return more
            await asyncio.sleep(0.01)

    assert run(main()) < 100
