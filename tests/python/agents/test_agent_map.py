"""Agent.map: one run for each of many inputs."""

import asyncio
import contextlib

import pytest
from support.sub_agent_family import echo

from turntree import agent
from turntree.upp import UPPError, UserMessage, scripted

# Many inputs


def test_map_yields_turns_in_input_order_and_runs_concurrently(run):
    running, most, ended = 0, 0, []

    async def main():
        met = asyncio.Barrier(3)

        async def reply(request):
            nonlocal running, most
            text = request.messages[-1].text
            running += 1
            most = max(most, running)
            if text in "012":
                await asyncio.wait_for(met.wait(), 30)
            while text == "0" and "1" not in ended:  # The order of the ends is not that of the inputs.
                await asyncio.sleep(0)
            running -= 1
            ended.append(text)
            return echo(request)

        helper = agent(model=scripted(reply))
        return [turn.response.text async for turn in helper.map(map(str, range(9)), concurrency=3)]

    assert run(main()) == [f"did {n}" for n in range(9)]
    assert most == 3


def test_map_consumes_inputs_as_turns_are_consumed(run):
    taken = []

    async def endless():
        n = 0
        while True:
            taken.append(n)
            yield UserMessage(str(n))
            n += 1

    async def main():
        seen = []
        async with contextlib.aclosing(agent(model=scripted(echo)).map(endless(), concurrency=2)) as turns:
            async for turn in turns:
                seen.append(turn.response.text)
                # The test proves an absence, which has no event: it gives the map time to take too many inputs.
                await asyncio.sleep(0.005)
                assert len(taken) <= len(seen) + 2
                if len(seen) == 5:
                    break
        return seen

    assert run(main()) == [f"did {n}" for n in range(5)]


def test_map_cancels_remaining_runs_when_the_consumer_stops(run):
    begun, cancelled = [], []

    async def reply(request):
        if request.messages[-1].text == "0":
            return "first"
        begun.append(request.messages[-1].text)
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.append(request.messages[-1].text)
            raise

    async def main():
        async with contextlib.aclosing(agent(model=scripted(reply)).map("0123", concurrency=4)) as turns:
            async for _ in turns:
                while len(begun) < 3:
                    await asyncio.sleep(0)
                break
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left
        assert sorted(cancelled) == ["1", "2", "3"]

    run(main())


def failing_at_two(request):
    if request.messages[-1].text == "2":
        raise UPPError("no twos", "INVALID_REQUEST")
    return echo(request)


def test_map_raises_at_the_position_of_the_failed_turn(run):
    async def main():
        seen = []
        with pytest.raises(UPPError, match="no twos"):
            async for turn in agent(model=scripted(failing_at_two)).map("0123", concurrency=4):
                seen.append(turn.response.text)
        return seen

    assert run(main()) == ["did 0", "did 1"]


def test_map_yields_exceptions_when_requested(run):
    async def main():
        turns = agent(model=scripted(failing_at_two)).map("0123", concurrency=2, return_exceptions=True)
        return [str(turn) if isinstance(turn, UPPError) else turn.response.text async for turn in turns]

    seen = run(main())
    assert "no twos" in seen.pop(2)
    assert seen == ["did 0", "did 1", "did 3"]


def test_map_raises_input_iterator_error_after_earlier_turns(run):
    def inputs():
        yield "0"
        raise OSError("the file ends here")

    async def main():
        seen = []
        with pytest.raises(OSError, match="ends here"):
            async for turn in agent(model=scripted(echo)).map(inputs()):
                seen.append(turn.response.text)
        return seen

    assert run(main()) == ["did 0"]


def test_map_of_no_inputs_yields_no_turns(run):
    async def main():
        return [turn async for turn in agent(model=scripted(echo)).map([])]

    assert run(main()) == []


def test_map_rejects_invalid_arguments():
    helper = agent(model=scripted(echo))
    with pytest.raises(ValueError, match="concurrency must be at least 1"):
        helper.map(["x"], concurrency=0)
    for wrong in ("2", 1.5, None, True):
        with pytest.raises(TypeError, match=f"concurrency must be an int, not {type(wrong).__name__}"):
            helper.map(["x"], concurrency=wrong)
    with pytest.raises(TypeError, match="inputs must be iterable"):
        helper.map(3)


def test_leaving_a_map_cancels_the_active_runs(run):
    begun, cancelled = [], []

    async def reply(request):
        text = request.messages[-1].text
        if text == "first":
            return "done"
        begun.append(text)
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(text)
            raise

    async def main():
        turns = agent(model=scripted(reply)).map(["first", "second", "third"], concurrency=3)
        async for _turn in turns:
            while len(begun) < 2:
                await asyncio.sleep(0)
            break
        while len(cancelled) < 2:
            await asyncio.sleep(0)
        return [turn async for turn in turns]

    assert run(asyncio.wait_for(main(), 30)) == []
    assert sorted(cancelled) == ["second", "third"]


async def test_exceptions_of_map_tell_their_input():
    def reply(request):
        text = request.messages[-1].text
        return UPPError("no") if text.startswith("bad") else text

    turns = agent(model=scripted(reply)).map(["a", "bad" + "x" * 200], return_exceptions=True)
    good, failed = [turn async for turn in turns]

    assert good.text == "a"
    if hasattr(failed, "add_note"):
        (note,) = failed.__notes__
        assert note.startswith("raised for input 1 of map: 'badxxx")
        assert len(note) < 150


async def test_map_reports_progress_after_every_run():
    seen = []
    model = scripted(lambda request: UPPError("no") if request.messages[-1].text == "b" else "ok")
    turns = agent(model=model).map("abc", return_exceptions=True, progress=seen.append)

    assert len([turn async for turn in turns]) == 3
    assert seen == [1, 2, 3]


def test_progress_of_map_must_be_a_function():
    with pytest.raises(TypeError, match="progress must be a function, not int"):
        agent(model=scripted([])).map(["a"], progress=3)


@pytest.mark.parametrize("inputs", [b"abc", {"type": "text", "text": "hi"}])
def test_one_input_in_the_place_of_a_list_is_refused(inputs):
    with pytest.raises(TypeError, match=r"inputs must be a list of inputs, not .*; write \[input\]"):
        agent(model=scripted(["ok"])).map(inputs)


def test_the_argument_for_errors_is_explained():
    with pytest.raises(TypeError, match=r"no argument 'on_error': .*return_exceptions=True"):
        agent(model=scripted(["ok"])).map(["a"], on_error="return")
