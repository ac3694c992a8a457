"""What any value says of itself is short and has no control characters, whatever is in it."""

import re

import pytest

from turntree import Limits, agent, session
from turntree import thread_protocol as tp
from turntree.exceptions import SessionError, ValidationError
from turntree.execution import plan, react
from turntree.uaip import Workflow
from turntree.upp import (
    AssistantMessage,
    Image,
    ModelSettings,
    Reasoning,
    Reply,
    Text,
    Thread,
    Tool,
    ToolCall,
    ToolResult,
    ToolResultMessage,
    UserMessage,
    openai,
    scripted,
)

LONG = "<script>alert(1)</script>\u202egnp\x1b[31m\x07\n" + "x" * 100_000
# Characters that command a terminal or reorder the text around them.
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
ARGUMENTS = {"__proto__": {"constructor": LONG}, "many": [LONG[:100]] * 1_000, "deep": [[[[[LONG]]]]]}


def long_runs():
    def say(x: str) -> str:
        """Say it."""
        return LONG

    called = agent(model=scripted([ToolCall("c", "say", {"x": LONG}), LONG]), tools=[say]).run_sync(LONG)
    yield called
    yield from called.messages
    yield from called.tool_executions
    talk = session(agent(model=scripted(lambda request: LONG)), metadata={LONG[:100]: LONG})
    talk.run_sync(LONG)
    tree = talk.tree
    branch = tree.branch(tree.root.id, LONG)
    yield from (talk, tree, tree.nodes[branch], tree.root, tree.diff(tree.root.id, branch), *talk.checkpoints)
    yield talk.checkpoints[0].state
    document = tp.from_upp(talk)
    yield tp.Thread.model_validate({**document.model_dump(mode="json"), "title": LONG, "metadata": ARGUMENTS})
    yield from document.actions


def long_values():
    call = ToolCall(LONG, LONG, ARGUMENTS)
    yield from (Text(LONG), Reasoning(LONG), UserMessage(LONG, metadata={"a": {"b": LONG}}), call)
    yield from (AssistantMessage(LONG, tool_calls=[call]), ToolResultMessage([ToolResult("c", ARGUMENTS)]))
    yield from (
        ToolResult("c", ARGUMENTS),
        Thread([UserMessage(LONG)] * 3),
        Image.from_bytes(b"x" * 300_000, "image/png"),
    )
    yield from (ModelSettings(stop=[LONG]), Reply(LONG), Reply([Text(LONG)] * 10), openai(LONG), Limits(requests=3))
    yield from (react(reasoning_prompt=LONG), plan(plan_schema={"description": LONG}))
    yield Tool("say", LONG, {"type": "object", "properties": {"__proto__": {"description": LONG}}}, print)
    tools = [Tool(f"tool{number}", "", {"type": "object"}, print) for number in range(1_000)]
    yield agent(model=scripted([]), name=LONG, system=LONG, tools=tools)
    workflow = Workflow("shop", LONG)
    for number in range(200):
        workflow.stage(f"stage-{number}", initial=number == 0)
    yield workflow
    yield from (ValidationError(LONG), SessionError(LONG), SessionError(LONG, LONG))


@pytest.fixture(scope="module")
def values():
    return [*long_values(), *long_runs()]


def test_what_a_value_says_is_short_and_has_no_control_characters(values):
    wrong = []
    for value in values:
        texts = [repr(value)]
        if isinstance(value, Exception):
            texts.append(str(value))
        if hasattr(value, "__rich_repr__"):
            texts.extend(repr(part) for part in value.__rich_repr__())
        if len(texts[0]) > 5_000 or max(map(len, texts)) > 100_000 or COMMANDS.search("".join(texts)):
            wrong.append(type(value).__name__)

    assert wrong == []


def test_what_a_value_shows_is_limited_and_has_no_scripts(values):
    wrong = []
    for value in values:
        shown = getattr(value, "_repr_html_", lambda: None)() or ""
        markdown = getattr(value, "_repr_markdown_", lambda: None)() or ""
        if max(len(shown), len(markdown)) > 1_500_000 or "<script>alert" in shown or COMMANDS.search(shown + markdown):
            wrong.append(type(value).__name__)

    assert wrong == []


def test_messages_of_errors_name_the_beginning_of_a_large_text():
    with pytest.raises(ValidationError, match="Unknown message type: <script>") as caught:
        UserMessage.model_validate({"type": LONG})

    assert len(str(caught.value)) < 5_000
    assert str(caught.value).endswith("more characters)")
    assert not COMMANDS.search(str(caught.value))
    assert caught.value.args[0].startswith("/type: Unknown message type: " + LONG)


def test_a_large_name_of_a_node_is_cut_in_its_repr_and_kept_in_its_data():
    tree = session(agent(model=scripted([]))).tree
    branch = tree.branch(tree.root.id, "x" * 10_000_000)
    node = tree.nodes[branch]

    assert len(repr(node)) < 1_000
    assert len(node.name) == 10_000_000
