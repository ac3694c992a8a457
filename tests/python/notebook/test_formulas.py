"""Dollar signs in what notebooks show are text: MathJax takes "$5 and $6" for a formula where nothing forbids it."""

import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from turntree import ThreadTree, agent, notebook, query, session, testing
from turntree import thread_protocol as tp
from turntree.uaip import Workflow
from turntree.upp import AssistantMessage, Tool, ToolCall, UserMessage, scripted, tool

PRICES = "it costs $5 and $6"


class Formulas(HTMLParser):
    """Collects the texts with dollar signs that MathJax reads: all but those in its ignored tags and classes."""

    VOID = frozenset({"br", "hr"})
    IGNORED = frozenset({"script", "noscript", "style", "textarea", "pre", "code"})

    def __init__(self, html, ignored_class):
        super().__init__()
        self.ignored_class, self.open, self.found, self.texts = ignored_class, [], [], ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        classes = (dict(attrs).get("class") or "").split()
        if tag not in self.VOID:
            inherited = bool(self.open) and self.open[-1]
            self.open.append(inherited or tag in self.IGNORED or self.ignored_class in classes)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            self.open.pop()

    def handle_data(self, data):
        self.texts += data
        if "$" in data and not (self.open and self.open[-1]):
            self.found.append(data)


async def values():
    """Values of all kinds that have HTML, with dollar signs in each of their texts."""

    @tool
    def price(what: str) -> str:
        """It costs $5 and $6."""
        return PRICES

    call = ToolCall("c", "price", {"what": PRICES})
    helper = agent(model=scripted([call, PRICES] * 4), tools=[price], name=PRICES, system=PRICES)
    talk = session(helper)
    turn = await talk.run(PRICES)
    talk.tree.branch(talk.tree.root.id, PRICES)
    document = tp.from_upp(talk.tree.history())
    workflow = Workflow("shop $5 and $6", PRICES)
    workflow.stage("stage", initial=True)
    report = await testing.evaluate(helper, testing.Dataset([testing.Case(PRICES, text="$7", name=PRICES)]))
    live = notebook.live(helper, PRICES)
    await live
    yield turn
    for value in (*turn.messages, *turn.tool_executions, talk, talk.tree, talk.tree.root, *talk.checkpoints, helper):
        yield value
    for value in (document, workflow, report, price, Tool("x", PRICES, {"type": "object"}, print), call):
        yield value
    for value in (notebook.waterfall(turn), notebook.conversation(talk.tree.history()), turn.usage):
        yield value
    yield await query(agent(model=scripted([PRICES])), PRICES)
    yield ThreadTree()


@pytest.mark.parametrize("ignored_class", ["mathjax_ignore", "tex2jax_ignore"])
async def test_html_has_no_formulas(ignored_class):
    wrong, shown = [], 0
    async for value in values():
        read = Formulas(value._repr_html_(), ignored_class)
        shown += "$" in read.texts
        if read.found:
            wrong.append((type(value).__name__, read.found))

    assert wrong == []
    assert shown >= 15


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (PRICES, r"it costs \$5 and \$6"),
        (r"is \$5 and \\$6", r"is \$5 and \\\$6"),
        ("`$a` and $5, ``$b ` $c``", r"`$a` and \$5, ``$b ` $c``"),
        ("a ` b $5\n\n` $6", "a ` b \\$5\n\n` \\$6"),
        ("$1\n```sh\necho $HOME\n```\n$2", "\\$1\n```sh\necho $HOME\n```\n\\$2"),
        ("~~~\n$1\n```\n$2\n~~~\n$3", "~~~\n$1\n```\n$2\n~~~\n\\$3"),
        ("```\n$1", "```\n$1"),
        ("$$x$$", r"\$\$x\$\$"),
        (r"\`$5\`", r"\`\$5\`"),
    ],
)
def test_markdown_has_no_formulas(text, shown):
    message = AssistantMessage(text)

    assert message._repr_markdown_() == f"**assistant**: {shown}\n"
    # What a reader sees and copies has no backslash that the text does not have.
    assert MarkdownIt().render(shown) == MarkdownIt().render(text)


async def test_all_markdown_of_a_run_is_without_formulas():
    turn = await agent(model=scripted([PRICES])).run(PRICES)
    document = tp.from_upp([UserMessage(PRICES), AssistantMessage(PRICES)])

    for value in (turn, await query(agent(model=scripted([PRICES])), PRICES), document, *turn.messages):
        markdown = value._repr_markdown_()
        assert "costs" in markdown
        assert not re.search(r"(?<!\\)\$", markdown)


def test_markdown_without_formulas_costs_linear_time():
    message = AssistantMessage(("`" * 3 + "x" + "`" * 2 + " $ " + "`") * 5_000)

    assert message._repr_markdown_().startswith("**assistant**: ")
