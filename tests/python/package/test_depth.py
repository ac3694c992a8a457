"""Deeply nested data in every entry: it is read, refused with an error, or stays text; what is written can be read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from turntree import Session, ValidationError, agent, session, store
from turntree.testing import ToolCall, serve
from turntree.upp import Message, UPPError, anthropic, openai, scripted, tool

# A process of its own, because a stack overflow ends the process.
PROGRAM = Path(__file__).with_name("depth_program.py")


@pytest.mark.parametrize(
    ("mode", "depths"),
    [
        ("main", "10,128,160,161,224,255,256,30000"),
        ("to_thread", "161,30000"),
        # The smallest stack that Python itself can use.
        ("65536", "160,255,30000"),
    ],
)
def test_deep_data_is_read_refused_or_stays_text(mode: str, depths: str) -> None:
    arguments = [sys.executable, PROGRAM, mode, depths]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False)

    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")


MODELS = {
    "chat": lambda server: openai("gpt", "completions", base_url=server.base_url, api_key="key"),
    "responses": lambda server: openai("gpt", base_url=server.base_url, api_key="key"),
    "messages": lambda server: anthropic("claude", base_url=server.base_url, api_key="key"),
}


TEXTS = [("chat", False), ("chat", True), ("responses", False), ("responses", True), ("messages", True)]


@pytest.mark.parametrize(("api", "stream"), TEXTS)
async def test_arguments_in_a_text_of_a_model_that_are_too_deep_stay_text_and_the_tool_is_not_called(api, stream):
    text = '{"a":' + "[" * 160 + "]" * 160 + "}"
    called = []

    @tool
    async def keep(a: object = None) -> str:
        """Keep a value."""
        called.append(a)
        return "kept"

    with serve([ToolCall("keep", text), "done"]) as server:
        helper = agent(model=MODELS[api](server), tools=[keep], params={"max_tokens": 100})
        talk = session(helper)
        if stream:
            async for _ in talk.stream("hi"):
                pass
        else:
            await talk.run("hi")

    _, answer, results, _ = talk.tree.history()
    assert called == []
    assert [call.arguments for call in answer.tool_calls] == [{"INVALID_JSON": text}]
    assert results.results[0].is_error
    assert "160 levels" in results.results[0].result
    assert Session.from_json(talk.to_json(), helper).to_json() == talk.to_json()


async def test_a_response_with_arguments_as_an_object_that_is_too_deep_is_refused():
    with serve(ToolCall("keep", '{"a":' + "[" * 160 + "]" * 160 + "}")) as server:
        helper = agent(model=MODELS["messages"](server), params={"max_tokens": 100})

        with pytest.raises(UPPError, match="nested deeper than 160 levels"):
            await helper.run("hi")


def deep(document, path, levels):
    """The JSON of a document of this number of levels, the deepest ones in a member at a path."""
    document = json.loads(document)
    place = document
    for name in path:
        place = place[name]
    place["deep"] = "@"
    inner = levels - len(path) - 1
    return json.dumps(document).replace('"@"', "[" * inner + "]" * inner)


MESSAGE = ("threadTree", "nodes", 0, "thread", "messages", 0)


@pytest.mark.parametrize("levels", [160, 224, 225, 240, 250, 256, 257])
@pytest.mark.parametrize("path", [(), MESSAGE, ("checkpoints", 0, "state", "metadata"), ("metadata",)], ids=repr)
async def test_a_deep_session_is_refused_or_can_be_written_saved_and_read_in_parts(tmp_path, path, levels):
    helper = agent(model=scripted(lambda request: "x"))
    first = session(helper)
    await first.run("hi")
    # A part may have fewer levels than the document: a message 224, metadata 160.
    most = {MESSAGE: len(MESSAGE) + 224, ("metadata",): 1 + 160}.get(path, 256)
    text = deep(first.to_json(), path, levels)
    if levels > most:
        with pytest.raises(ValidationError, match="nested deeper than"):
            Session.from_json(text, helper)
        return

    read = Session.from_json(text, helper)
    assert Session.from_json(read.to_json(), helper).to_json() == read.to_json()
    for message in read.tree.history():
        assert Message.model_validate_json(message.to_json()) == message
    async with store.from_url(f"sqlite:///{tmp_path}/deep.db") as saved:
        await saved.save(read.id, text)
        loaded = await Session.load(saved, read.id, helper)
        await loaded.run("more")
        assert (await Session.load(saved, read.id, helper)).to_json() == loaded.to_json()
