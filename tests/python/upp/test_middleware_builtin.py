"""The built-in middleware for model calls."""

from __future__ import annotations

import asyncio
import json
import sys
import threading

import pytest
from middleware_support import double, slow, with_tool

from turntree.upp import (
    ErrorCode,
    Thread,
    UPPError,
    llm,
    scripted,
)
from turntree.upp.middleware import (
    logging,
    memory_pubsub,
    parsed_object,
    persistence,
    pubsub,
    subscribe,
    subscribe_sync,
)

# Built-ins


def test_logging_writes_steps_without_message_content(run, caplog):
    model = llm(model=with_tool(), tools=[double], system="secret", middleware=[logging("debug")])

    with caplog.at_level("DEBUG", "turntree"):
        run(model.generate("Double 4 secretly"))

    lines = [record.getMessage() for record in caplog.records if record.name == "turntree"]
    assert "[turntree] llm scripted/scripted starts" in lines
    assert "[turntree] tool 'double' is called" in lines
    assert "[turntree] llm scripted/scripted ends" in lines
    data = [record.turntree for record in caplog.records if record.name == "turntree"]
    assert "durationMs" in data[-1]
    assert "secret" not in json.dumps([lines, data])


def test_logging_accepts_a_function_a_level_and_include_content():
    lines = []
    middleware = logging("debug", lambda *line: lines.append(line), prefix="", log_contents=True)

    llm(model=scripted(["Hi."]), middleware=[middleware]).generate_sync("a word")

    assert lines[0][:2] == ("info", "llm scripted/scripted starts")
    assert "a word" in json.dumps(lines)
    quiet = []
    llm(model=scripted(["Hi."]), middleware=[logging("error", lambda *line: quiet.append(line))]).generate_sync("x")
    assert quiet == []
    with pytest.raises(ValueError, match="level must be one of"):
        logging("loud")
    with pytest.raises(TypeError, match="logger must be"):
        logging(logger=3)


def test_failing_logger_does_not_end_the_run(monkeypatch):
    failures = []
    monkeypatch.setattr(sys, "unraisablehook", lambda failure: failures.append(failure.exc_value))

    def broken(level, message, data):
        raise RuntimeError("disk full")

    turn = llm(model=scripted(["Hi."]), middleware=[logging(logger=broken)]).generate_sync("x")

    assert turn.response.text == "Hi."
    assert "disk full" in str(failures[0])


def test_parsed_object_parses_the_partial_answer():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    model = llm(model=scripted(['{"city": "Tokyo"}']), structure=schema, middleware=[parsed_object()])

    parsed = [event.delta.get("parsed") for event in model.stream_sync("Where?") if event.type == "object_delta"]

    assert parsed[-1] == {"city": "Tokyo"}
    assert len(parsed) > 1
    assert {} in parsed or any(value and value != parsed[-1] for value in parsed)


def test_parsed_object_parses_tool_arguments():
    model = llm(model=with_tool(), tools=[double], middleware=[parsed_object()])

    deltas = [event.delta for event in model.stream_sync("Double 4") if event.type == "tool_call_delta"]

    assert deltas[-1]["parsed"] == {"x": 4}
    assert deltas[-1]["toolName"] == "double"


class Shelf:
    """An adapter in memory."""

    id = "chat"

    def __init__(self):
        self.kept = {}
        self.error = None

    def load(self, id):
        return self.kept.get(id)

    def save(self, id, thread):
        if self.error:
            raise self.error
        self.kept[id] = thread


class AsyncShelf(Shelf):
    async def load(self, id):
        await asyncio.sleep(0)
        return super().load(id)

    async def save(self, id, thread):
        await asyncio.sleep(0)
        # The adapter stores JSON, as a database would.
        super().save(id, json.loads(thread.to_json()))


@pytest.mark.parametrize("make", [Shelf, AsyncShelf])
def test_conversation_continues_from_its_store(run, make):
    shelf, script = make(), scripted(["1", "2"])
    model = llm(model=script, middleware=[persistence(shelf)])

    run(model.generate("one"))
    turn = run(model.generate("two"))

    assert [message.text for message in script.requests[1].messages] == ["one", "1", "two"]
    assert [message.text for message in turn.messages] == ["two", "2"]
    stored = shelf.kept["chat"]
    stored = stored if isinstance(stored, Thread) else Thread.model_validate(stored)
    assert [message.text for message in stored.messages] == ["one", "1", "two", "2"]
    assert stored.id == "chat"


def test_persistence_works_without_and_inside_an_event_loop(run):
    shelf = AsyncShelf()
    model = llm(model=scripted(["1", "2"]), middleware=[persistence(shelf)])

    async def in_a_cell():
        return model.generate_sync("two")

    model.generate_sync("one")

    assert [message.text for message in run(in_a_cell()).messages] == ["two", "2"]


def test_error_of_a_failed_save_contains_the_turn(run):
    shelf = Shelf()
    model = llm(model=scripted(["1", "2"]), middleware=[persistence(shelf)])
    run(model.generate("one"))
    shelf.error = OSError("disk full")

    with pytest.raises(UPPError, match='could not save "chat"') as raised:
        run(model.generate("two"))

    assert raised.value.cause is raised.value.__cause__ is shelf.error
    assert [message.text for message in raised.value.partial.messages] == ["two", "2"]
    assert len(shelf.kept["chat"]) == 2


def test_concurrent_turns_are_all_stored(run):
    shelf = AsyncShelf()
    model = llm(model=scripted([str(n) for n in range(10)]), middleware=[persistence(shelf)])

    async def main():
        await asyncio.gather(*[model.generate(f"q{n}") for n in range(10)])

    run(main())

    texts = [message.text for message in Thread.model_validate(shelf.kept["chat"]).messages]
    assert sorted(text for text in texts if text.startswith("q")) == sorted(f"q{n}" for n in range(10))
    assert len(texts) == 20


def test_adapter_without_a_required_method_is_rejected():
    class Half:
        id = "x"

        def load(self, id):
            return None

    with pytest.raises(TypeError, match="Half has no save"):
        persistence(Half())


def test_late_subscriber_receives_all_events(run):
    adapter = memory_pubsub()
    model = llm(model=slow(), middleware=[pubsub(adapter, stream_id="s")])

    async def listen():
        subscription = subscribe("s", adapter)
        return [event async for event in subscription], await subscription.turn

    async def main():
        before = asyncio.create_task(listen())
        await asyncio.sleep(0)
        stream = model.stream("Hello")
        begun = asyncio.Event()
        reading = asyncio.create_task(_collect(stream, begun))
        await begun.wait()
        during = asyncio.create_task(listen())
        events = await reading
        turn = await stream.turn
        for others, ended in [await before, await during, await listen()]:
            assert others == events
            assert ended == turn

    run(main())
    assert len(adapter) == 1
    assert adapter.exists("s")


async def _collect(stream, begun):
    """Read all events of a stream; set `begun` at the first."""
    events = []
    async for event in stream:
        events.append(event)
        begun.set()
    return events


def test_subscriber_in_another_thread_receives_events_live(run):
    adapter = memory_pubsub()
    model = llm(model=slow(), middleware=[pubsub(adapter, stream_id="s")])
    heard = {}

    def sync_reader():
        subscription = subscribe_sync("s", adapter)
        heard["sync"] = [event.type for event in subscription], subscription.turn

    def loop_reader():
        async def main():
            subscription = subscribe("s", adapter)
            return [event.type async for event in subscription], await subscription

        heard["loop"] = asyncio.run(main())

    threads = [threading.Thread(target=reader) for reader in (sync_reader, loop_reader)]
    for thread in threads:
        thread.start()

    async def main():
        stream = model.stream("Hello")
        return [event.type async for event in stream], await stream.turn

    expected = run(main())
    for thread in threads:
        thread.join(10)

    assert heard == {"sync": expected, "loop": expected}


def test_subscribers_of_an_abandoned_stream_get_its_events_and_an_error(run):
    adapter = memory_pubsub()
    model = llm(model=slow(), middleware=[pubsub(adapter, stream_id="s")])

    async def main():
        stream = model.stream("Hello")
        async for event in stream:
            if event.type == "text_delta":
                break
        heard = []
        with pytest.raises(UPPError) as raised:
            async for event in subscribe("s", adapter):
                heard.append(event.type)
        assert raised.value.code is ErrorCode.CANCELLED
        assert heard[:2] == ["message_start", "text_delta"]

    run(main())


def test_leaving_subscriber_does_not_stop_the_stream(run):
    adapter = memory_pubsub()
    model = llm(model=slow(), middleware=[pubsub(adapter, stream_id="s")])

    async def main():
        stream = model.stream("Hello")
        begun = asyncio.Event()
        reading = asyncio.create_task(_collect(stream, begun))
        await begun.wait()
        async with subscribe("s", adapter) as subscription:
            async for _ in subscription:
                break
        await reading
        return await stream.turn

    assert run(main()).response.text == "one two three four five"


def test_oldest_ended_stream_is_evicted(run):
    adapter = memory_pubsub(max_streams=2)
    for name in "abc":
        llm(model=scripted([name]), middleware=[pubsub(adapter, stream_id=name)]).generate_sync("x")

    assert [adapter.exists(name) for name in "abc"] == [False, True, True]
    assert adapter.remove("b")
    assert len(adapter) == 1


def test_another_middleware_can_set_the_stream_id():
    adapter = memory_pubsub()

    class Naming:
        def on_start(self, context):
            context.state["pubsub:streamId"] = "given"

    llm(model=scripted(["x"]), middleware=[Naming(), pubsub(adapter)]).generate_sync("x")

    assert adapter.exists("given")
    assert subscribe_sync("given", adapter).turn.response.text == "x"
