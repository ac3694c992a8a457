"""What notebooks, rich and reprs show of values: the structure, hostile content, and the limits of the size."""

import asyncio
import re
from html.parser import HTMLParser

import pytest
from IPython.core.interactiveshell import InteractiveShell

from turntree import ExecutionState, PlanStep, ThreadTree, agent, notebook, query, session
from turntree import thread_protocol as tp
from turntree._core import ThreadDiff
from turntree.upp import (
    AssistantMessage,
    Image,
    Reasoning,
    Text,
    Thread,
    TokenUsage,
    ToolCall,
    ToolResult,
    ToolResultMessage,
    Turn,
    UserMessage,
    scripted,
    tool,
)

HOSTILE = (
    "</pre></div><script>alert(1)</script><img src=x onerror=alert(1)>"
    "\u202egnp.exe\u2066 `</code>` [x](javascript:alert(1)) \x1b[31m"
)
# What the style and the drawings use; anything else came from data.
TAGS = (
    "div style p b details summary code pre span table tr th td section figure figcaption svg g title path circle "
    "rect text tspan em strong del a ul ol li h3 h4 h5 h6 hr br blockquote caption"
)
VOID = {"br", "hr"}


class Checked(HTMLParser):
    """Reads HTML: which tags and texts it has, and whether each tag is closed in order."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text, self.open, self.titles, self.code = [], "", [], [], []
        self.links = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("src", "xlink:href", "srcdoc")]
        self.links += [value for name, value in attrs if name == "href"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data
        if self.open[-1:] == ["title"]:
            self.titles.append(data)
        if self.open[-1:] == ["code"]:
            self.code.append(data)


def checked(value):
    """The HTML of a value, which has no scripts, no addresses that are fetched, and no invisible characters."""
    html = value._repr_html_()
    page = Checked(html)
    assert set(page.tags) <= set(TAGS.split())
    assert "url(" not in html
    assert "@import" not in html
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f]", html)
    return page


@tool
def weather(city: str) -> str:
    """Return the weather."""
    return f"{city}: sunny"


def answers():
    return scripted(
        [
            [Reasoning("The weather decides."), ToolCall("c1", "weather", {"city": "Tokyo"})],
            "Take **sunglasses**.",
            "Yes.",
        ]
    )


@pytest.fixture
def packed():
    """A session with one run that called a tool, and a branch with another one."""

    async def run():
        talk = session(agent(model=answers(), tools=[weather], name="Ada"))
        turn = await talk.run("What do I pack?")
        other = talk.tree.branch(talk.tree.root.id, "in-june")
        talk.tree.checkout(other)
        await talk.run("In June?")
        return talk, turn

    return asyncio.run(run())


def hostile_turn(text=HOSTILE, arguments=None):
    call = {
        "toolCallId": "c",
        "toolName": text[:1000],
        "arguments": arguments or {"__proto__": {"x": text}, text: text},
    }
    execution = {**call, "result": text, "isError": True, "duration": 1}
    answer = AssistantMessage(
        [Reasoning(text), Text(text)], tool_calls=[ToolCall("c", call["toolName"], call["arguments"])]
    )
    messages = [UserMessage(text), answer, ToolResultMessage([ToolResult("c", text)]), AssistantMessage(text)]
    return Turn.model_validate(
        {
            "messages": [message.model_dump(mode="json") for message in messages],
            "toolExecutions": [execution],
            "usage": TokenUsage(1, 2).model_dump(mode="json"),
            "cycles": 2,
        }
    )


def hostile_values(text=HOSTILE):
    turn = hostile_turn(text)
    tree = ThreadTree(turn.messages)
    branch = tree.branch(tree.root.id, text)
    tree[branch].thread.user(text)
    tree.merge(branch, tree.root.id)
    steps = [PlanStep(text, text, text), PlanStep("b", text, None, [text, "b", "absent"], "failed")]
    state = {"step": 1, "messages": [], "metadata": {}, "reasoning": [text], "plan": [s.model_dump() for s in steps]}
    talk = session(agent(model=scripted([]), name=text), id="s")
    talk.tree.push(*turn.messages)
    document = tp.from_upp(turn.messages)
    return [
        turn,
        *turn.messages,
        turn.tool_executions[0],
        turn.usage,
        Thread(turn.messages),
        tree,
        tree.root,
        tree.diff(tree.root.id, branch),
        ExecutionState.model_validate(state),
        talk,
        document,
        notebook.conversation(turn.messages),
        notebook.waterfall(turn),
    ]


def test_the_repr_of_a_turn_shows_the_answer(packed):
    _, turn = packed

    assert repr(turn) == "Turn('Take **sunglasses**.', 1 tool call, 22 tokens)"


def test_the_repr_of_a_message_shows_its_text_and_what_else_it_has():
    image = Image.from_bytes(b"x", "image/png")

    assert repr(UserMessage("Hi\nthere")) == "UserMessage('Hi there')"
    assert repr(UserMessage(["Look", image])) == "UserMessage('Look', 1 image)"
    assert repr(AssistantMessage("", tool_calls=[ToolCall("c", "f", {})])) == "AssistantMessage(1 tool call)"
    assert repr(ToolResultMessage([ToolResult("c", 1), ToolResult("d", 2, is_error=True)])) == (
        "ToolResultMessage(2 results, 1 failed)"
    )
    assert repr(UserMessage("x" * 1000)) == f"UserMessage('{'x' * 59}…')"


def test_a_turn_shows_its_answer_as_markdown_and_its_calls_and_reasoning_collapsed(packed):
    _, turn = packed
    page = checked(turn)

    assert "<strong>sunglasses</strong>" in turn._repr_html_()
    assert "weather" in page.code
    assert "The weather decides." in page.text
    assert "Tokyo: sunny" in page.text
    assert "1 tool call · 2 model calls" in page.text
    assert page.tags.count("details") >= 3
    assert "open" not in re.findall(r"<details([^>]*)>", turn._repr_html_())


def test_a_turn_is_markdown_for_documents(packed):
    _, turn = packed

    assert turn._repr_markdown_().startswith("Take **sunglasses**.\n\n*1 tool call · 2 model calls · ")
    assert turn.usage._repr_markdown_() is None
    assert "<script" not in hostile_turn()._repr_markdown_()


def test_rich_gets_the_parts_of_a_repr(packed):
    talk, turn = packed

    assert list(turn.__rich_repr__())[:2] == ["Take **sunglasses**.", ("tools", ["weather"], [])]
    assert list(talk.__rich_repr__())[1:] == [("messages", 6), ("checkpoints", 3)]
    assert ("input_tokens", turn.usage.input_tokens) in list(turn.usage.__rich_repr__())


def test_agents_and_tools_show_what_they_are_made_of():
    helper = agent(model=scripted(["x"]), tools=[weather], name=HOSTILE, system=HOSTILE)

    page = checked(helper)
    assert "Return the weather." in page.text
    assert '"city"' in page.text
    assert "⟨U+202E⟩gnp.exe" in page.text
    assert "Return the weather." in checked(weather).text
    assert ("tools", ["weather"], []) in list(helper.__rich_repr__())
    assert next(iter(weather.__rich_repr__())) == ("name", "weather")


async def test_the_result_of_a_query_shows_its_turn():
    result = await query(agent(model=scripted(["**Fine.**"])), "How?")

    assert result._repr_html_() == result.turn._repr_html_()
    assert result._repr_markdown_() == result.turn._repr_markdown_()
    assert list(result.__rich_repr__()) == [result.turn, ("thread_id", result.thread_id), ("messages", 2)]


def test_a_tree_is_drawn_with_its_branches_head_and_hover_texts(packed):
    talk, _ = packed
    talk.tree.merge(talk.tree.current.id, talk.tree.root.id)
    page = checked(talk.tree)

    assert page.tags.count("svg") == 1
    assert page.tags.count("circle") == 9  # eight messages, and the mark of the current node
    assert "user: What do I pack?" in page.titles
    assert "current node" in page.titles
    assert "in-june was merged into main" in page.titles
    assert "<b>in-june</b>" in talk.tree._repr_html_()


def test_a_session_marks_its_checkpoints(packed):
    talk, _ = packed
    page = checked(talk)

    assert sum(title.startswith("checkpoint of step") for title in page.titles) == 3
    assert "2 nodes, 3 checkpoints" in page.text
    assert "Session s" not in page.text


def test_a_difference_shows_two_branches_side_by_side(packed):
    talk, _ = packed
    page = checked(talk.tree.diff(talk.tree.root.id, talk.tree.current.id))

    assert page.tags.count("section") == 2
    assert "4 messages in common" in page.text
    assert "In June?" in page.text
    assert [line for line in ("only main", "only in-june", "only a", "only b") if line in page.text] == [
        "only main",
        "only in-june",
    ]


def test_a_difference_names_branches_without_names_by_their_ids():
    tree = ThreadTree()
    first, second = tree.branch(tree.root.id), tree.branch(tree.root.id)
    alike = [tree.branch(tree.root.id, "<b>try") for _ in range(2)]

    shown = checked(tree.diff(first, second)).text
    assert f"only {first[:8]}" in shown
    assert f"only {second[:8]}" in shown
    shown = checked(tree.diff(*alike)).text
    assert f"only <b>try ({alike[0][:8]})" in shown
    assert f"only <b>try ({alike[1][:8]})" in shown


def test_a_difference_of_an_earlier_version_has_no_names():
    diff = ThreadDiff.model_validate({"ancestorId": "x", "common": 0, "onlyA": [], "onlyB": []})

    assert (diff.name_a, diff.id_a) == (None, None)
    assert "only a" in checked(diff).text


def test_a_document_of_thread_protocol_has_markdown():
    history = [
        UserMessage("Hi <b>"),
        AssistantMessage("**Yes.**", [ToolCall("c", "weather", {})]),
        ToolResultMessage([ToolResult("c", "sun")]),
        AssistantMessage("Sun."),
    ]

    text = tp.from_upp(history)._repr_markdown_()

    assert text.split("\n\n") == [
        "**user**: Hi &lt;b&gt;",
        "**Assistant**: **Yes.**",
        "**Assistant** calls weather",
        "**Assistant**: Sun.\n",
    ]
    hostile = tp.from_upp([UserMessage(HOSTILE), AssistantMessage(HOSTILE, [ToolCall("c", HOSTILE, {})])])
    assert "<script" not in hostile._repr_markdown_()
    assert "\u202e" not in hostile._repr_markdown_()
    many = tp.from_upp([UserMessage("x") for _ in range(150)])
    assert many._repr_markdown_().endswith("… 50 more actions are not shown\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("![x](https://a.example/?q=secret)", "&#33;[x](https://a.example/?q=secret)"),
        ("![x][1]\n\n[1]: https://a.example", "&#33;[x][1]\n\n[1]: https://a.example"),
        ("[x](javascript:alert(1))", "[x]&#40;javascript:alert(1))"),
        ("[x](\n JavaScript\\:alert(1))", "[x]&#40;\n JavaScript\\:alert(1))"),
        ("[x][1]\n\n[1]: data:text/html,x", "[x][1]\n\n[1]&#58; data:text/html,x"),
        ("[a](https://a.example) [b](mailto:a@b.example)", "[a](https://a.example) [b](mailto:a@b.example)"),
        ("if x[0]: f[x](1)", "if x[0]: f[x](1)"),
    ],
)
def test_markdown_fetches_nothing_and_leads_to_the_web(text, shown):
    document = tp.from_upp([UserMessage("x"), AssistantMessage(text)])

    assert AssistantMessage(text)._repr_markdown_() == f"**assistant**: {shown}\n"
    assert shown in document._repr_markdown_()


def test_markdown_of_many_large_messages_is_cut_with_a_note():
    history = [UserMessage("x" * 20_000) for _ in range(150)]

    assert len(Thread(history)._repr_markdown_()) < 150_000
    assert Thread(history)._repr_markdown_().endswith("\n… 145 more messages are not shown\n")
    assert len(tp.from_upp(history)._repr_markdown_()) < 150_000
    assert tp.from_upp(history)._repr_markdown_().endswith("\n… 145 more actions are not shown\n")


def test_streams_say_how_they_are_read():
    helper = agent(model=scripted(["x"]))

    stream, sync = helper.stream("x"), helper.stream_sync("x")

    assert repr(stream) == "<AgentStream: read its events with async for, or await its result>"
    assert repr(stream.turn) == "<the turn of a stream: await it>"
    assert repr(sync) == "<SyncAgentStream: read its events with for>"
    assert repr(stream.text()) == repr(stream.batches()) == "<items of a stream: read them with async for>"
    assert repr(sync.text()) == "<items of a stream: read them with for>"
    assert sync.turn.text == "x"


def test_the_extension_explains_a_missing_await_in_a_terminal():
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "turntree")
    coroutine = agent(model=scripted(["x"])).run("x")

    plain = [shell.display_formatter.format(value)[0]["text/plain"] for value in (coroutine, len)]

    coroutine.close()
    assert plain[0].startswith("Agent.run(…) has not begun. Write: result = await agent.run(…)")
    assert plain[1] == "<function len(obj, /)>"


def test_a_plan_is_a_graph():
    steps = [
        PlanStep("a", "Find flights", "search", status="completed"),
        PlanStep("b", "Book", None, ["a"]),
        PlanStep("c", "Circle", None, ["d"]),
        PlanStep("d", "Circle", None, ["c", "d"]),
    ]
    state = ExecutionState.model_validate(
        {"step": 2, "messages": [], "metadata": {}, "plan": [step.model_dump() for step in steps]}
    )
    page = checked(state)

    assert page.tags.count("rect") == 4
    assert state._repr_html_().count('class="needs"') == 4
    assert "a (completed): Find flights" in page.titles
    assert "Plan: 1 of 4 steps completed" in state._repr_html_()


def test_usage_is_a_table(packed):
    _, turn = packed
    page = checked(turn.usage)

    assert "call 1" in page.text
    assert "sum" in page.text
    assert page.tags.count("tr") == 4


def test_a_waterfall_has_a_bar_for_each_model_and_tool_call(packed):
    _, turn = packed
    shown = notebook.waterfall(turn)

    assert checked(shown).tags.count("rect") == 3
    assert [line.split("  ")[0] for line in repr(shown).splitlines()] == ["model call 1", "weather", "model call 2"]
    with pytest.raises(TypeError, match="turn must be a Turn, not str"):
        notebook.waterfall("x")


def test_a_document_shows_its_agents_in_colours():
    document = tp.Thread.model_validate(tp.from_upp([UserMessage("Hi"), AssistantMessage("**Hello**")]).model_dump())
    page = checked(document)

    assert "Hello" in page.text
    assert "<strong>Hello</strong>" in document._repr_html_()
    assert "--c:#2da44e" in document._repr_html_()


def test_lists_of_messages_are_shown_as_a_conversation(packed):
    _, turn = packed
    page = checked(notebook.conversation(turn.messages))

    assert page.text.index("What do I pack?") < page.text.index("sunglasses")
    # A result is shown with its call, once.
    assert page.text.count("Tokyo: sunny") == 1
    with pytest.raises(TypeError, match=r"messages\[0\] must be a message, not str"):
        notebook.conversation("x")


@pytest.mark.parametrize("value", hostile_values(), ids=lambda value: type(value).__name__)
def test_hostile_content_is_text(value):
    page = checked(value)

    assert all(link.startswith(("https://", "http://", "mailto:")) for link in page.links)
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", repr(value))


def test_reordering_characters_are_shown_by_their_number():
    assert "⟨U+202E⟩gnp.exe⟨U+2066⟩" in checked(hostile_turn()).text


@pytest.mark.parametrize("letter", ["x", "<", "\u202e", "`", "*[", "\n> ", "\n- "])
def test_large_texts_are_cut_with_a_note(letter):
    turn = hostile_turn(letter * (30_000 // len(letter)), {"x": "y"})

    for value in (turn, *turn.messages, Thread(turn.messages), ThreadTree(turn.messages)):
        assert len(value._repr_html_()) < 1_500_000
        assert len(repr(value)) < 600
    assert "more characters are not shown" in checked(turn).text
    assert len(turn._repr_markdown_()) < 300_000


def test_ten_megabytes_are_cut_with_a_note():
    message = AssistantMessage("x" * 10_000_000)

    assert len(message._repr_html_()) < 100_000
    assert "9,980,000 more characters are not shown" in checked(message).text
    assert len(repr(message)) < 100


def test_long_threads_are_cut_with_a_note():
    thread = Thread([UserMessage(str(number)) for number in range(1_000)])
    tree = ThreadTree(thread)
    at = tree.root.id
    for _ in range(500):
        at = tree.branch(at)

    assert "900 more messages are not shown" in checked(thread).text
    assert "more nodes are not shown" in checked(tree).text
    assert len(tree._repr_html_()) < 100_000
    tree.checkout(at)
    assert "current node" in checked(tree).titles


def test_nothing_is_fetched_and_dark_mode_is_known(packed):
    _, turn = packed
    html = turn._repr_html_()

    assert "prefers-color-scheme:dark" in html
    assert "--jp-content-font-color1" in html
    assert "http" not in html


MARKDOWN = {
    "# One": "<h3>One</h3>",
    "a *b* **c** ~~d~~ `e`": "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e</code></p>",
    "snake_case_name": "<p>snake_case_name</p>",
    "2 * 3 * 4": "<p>2 * 3 * 4</p>",
    "- a\n  - b\n- c": "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>",
    "3. a\n4. b": '<ol start="3"><li>a</li><li>b</li></ol>',
    "|a|b|\n|-|-|\n|1|2|": "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>",
    "> said": "<blockquote>said</blockquote>",
    "```py\na < b\n```\nafter": "<pre><code>a &lt; b</code></pre><p>after</p>",
    "```\nopen": "<pre><code>open</code></pre>",
    "**open `code": "<p>**open `code</p>",
    r"\*plain\*": "<p>*plain*</p>",
    "[x](javascript:alert)": "<p>[x](javascript:alert)</p>",
    "<b onclick=x>": "<p>&lt;b onclick=x&gt;</p>",
    "---": "<hr>",
}


@pytest.mark.parametrize("text", MARKDOWN)
def test_markdown_of_answers_is_rendered(text):
    assert MARKDOWN[text] in AssistantMessage(text)._repr_html_()


def test_links_and_images_lead_to_the_web_and_are_not_fetched():
    page = checked(AssistantMessage("[a](https://a.example/?x=1&y=2) ![b](http://b.example/c.png) <https://c.example>"))

    assert page.links == ["https://a.example/?x=1&y=2", "http://b.example/c.png"]
    assert "img" not in page.tags
