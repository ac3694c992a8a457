"""The other side of docs/migrate: LangGraph and the OpenAI Agents SDK, with a model on this machine."""

import re

import pytest
from recipe_environment import ROOT, python_with, run

from turntree.testing import ToolCall, serve

pytestmark = pytest.mark.timeout(900)

PAIR = re.compile(r"^```py\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What the model says, by the page and by words of the program.
ANSWERS = {
    ("langgraph.md", "SqliteSaver"): [ToolCall("weather", {"city": "Oslo"}), "It rains."],
    ("langgraph.md", "interrupt"): [ToolCall("pay", {"amount": 20}), "Done."],
    ("langgraph.md", "StateGraph"): ["A draft.", "Too short.", "A better text."],
    ("openai-agents.md", "function_tool"): [ToolCall("stock", {"product": "tea"}), "12 packets."],
    ("openai-agents.md", "as_tool"): [ToolCall("translate", {"input": "Good morning."}), "Bonjour.", "Bonjour."],
    ("openai-agents.md", "handoffs"): [ToolCall("transfer_to_billing", {}), "I have corrected it."],
}


def pairs(page):
    return PAIR.findall((ROOT / "docs" / "migrate" / page).read_text("utf-8"))


@pytest.mark.parametrize(("page", "words"), ANSWERS, ids=lambda value: value.removesuffix(".md"))
def test_a_program_of_the_other_package_prints_what_the_page_says(page, words, tmp_path):
    ((program, expected),) = [pair for pair in pairs(page) if words in pair[0]]
    python = python_with("migration.txt")
    with serve(ANSWERS[page, words]) as server:
        variables = {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "none",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "LANGSMITH_TRACING": "false",
            "NO_PROXY": "127.0.0.1",
        }
        assert run(python, program, tmp_path, **variables) == expected


@pytest.mark.parametrize("page", ["langgraph.md", "openai-agents.md"])
def test_every_program_of_a_page_is_tested(page):
    text = (ROOT / "docs" / "migrate" / page).read_text("utf-8")

    assert len(pairs(page)) == text.count("```py\n") == sum(name == page for name, _ in ANSWERS)
