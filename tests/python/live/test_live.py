"""A few cheap requests to each real vendor: one text, one stream, one tool call, one structured answer.

A vendor is called only if its key is in the environment; otherwise its tests are skipped with a reason. `TURNTREE_LIVE`
names vendors to restrict the run to (`TURNTREE_LIVE=groq,mistral`); `TURNTREE_LIVE=none` skips all. Models can be
changed one by one, as `TURNTREE_LIVE_GROQ_MODEL=…`.
"""

import os
import urllib.request
from dataclasses import dataclass

import pytest

from turntree import agent
from turntree.upp import (
    anthropic,
    cerebras,
    deepseek,
    google,
    groq,
    mistral,
    moonshot,
    ollama,
    openai,
    openrouter,
    tool,
    xai,
)

pytestmark = pytest.mark.timeout(180)

ONLY = [name for name in os.environ.get("TURNTREE_LIVE", "").split(",") if name]
OLLAMA_HOST = os.environ.get("OLLAMA_HOST") or "http://localhost:11434"

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
    "required": ["city", "country"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Vendor:
    """A vendor, the model to call, and the environment variables of its key."""

    name: str
    make: object
    model: str
    keys: tuple[str, ...]
    params: dict

    def reason_to_skip(self):
        if ONLY and self.name not in ONLY:
            return f"{self.name}: not among TURNTREE_LIVE={','.join(ONLY)}"
        if self.name == "ollama":
            return None if answers(OLLAMA_HOST) else f"ollama: no server answers at {OLLAMA_HOST}"
        if not any(os.environ.get(key) for key in self.keys):
            return f"{self.name}: {' or '.join(self.keys)} is not set"
        return None

    def agent(self, **settings):
        model = os.environ.get(f"TURNTREE_LIVE_{self.name.upper().replace('-', '_')}_MODEL", self.model)
        return agent(model=self.make(model), params=self.params, **settings)


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=1):
            return True
    except OSError:
        return False


def limit(name="max_tokens", **more):
    return {name: 1000, **more}


VENDORS = [
    Vendor("anthropic", anthropic, "claude-haiku-4-5", ("ANTHROPIC_API_KEY",), limit()),
    Vendor(
        "openai", openai, "gpt-5-nano", ("OPENAI_API_KEY",), limit("max_output_tokens", reasoning={"effort": "minimal"})
    ),
    Vendor(
        "openai-completions",
        lambda model: openai(model, "completions"),
        "gpt-4.1-nano",
        ("OPENAI_API_KEY",),
        limit("max_completion_tokens"),
    ),
    Vendor("google", google, "gemini-2.5-flash-lite", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), limit("maxOutputTokens")),
    Vendor("groq", groq, "openai/gpt-oss-20b", ("GROQ_API_KEY",), limit()),
    Vendor("cerebras", cerebras, "gpt-oss-120b", ("CEREBRAS_API_KEY",), limit()),
    Vendor("mistral", mistral, "mistral-small-latest", ("MISTRAL_API_KEY",), limit()),
    Vendor("deepseek", deepseek, "deepseek-chat", ("DEEPSEEK_API_KEY",), limit()),
    Vendor("moonshot", moonshot, "kimi-k2-turbo-preview", ("MOONSHOT_API_KEY", "KIMI_API_KEY"), limit()),
    Vendor("openrouter", openrouter, "openai/gpt-4.1-nano", ("OPENROUTER_API_KEY",), limit()),
    Vendor("xai", xai, "grok-4-fast-non-reasoning", ("XAI_API_KEY",), limit()),
    Vendor("ollama", lambda model: ollama(model, base_url=OLLAMA_HOST), "llama3.2", (), {}),
]


ASKED = [vendor for vendor in VENDORS if not vendor.reason_to_skip()]
SPARED = [vendor for vendor in VENDORS if vendor not in ASKED]

each_vendor = pytest.mark.parametrize("vendor", ASKED, ids=lambda vendor: vendor.name)


@pytest.mark.parametrize("vendor", SPARED, ids=lambda vendor: vendor.name)
def test_a_vendor_is_skipped_with_a_reason(vendor):
    """One line for each vendor in pytest's summary, with the reason."""
    pytest.skip(f"NOT TESTED live, text, stream, tools and structure: {vendor.reason_to_skip()}")


@each_vendor
async def test_a_vendor_answers_with_text(vendor):
    turn = await vendor.agent().run("What is the capital of France? Answer with its name alone.")

    assert "Paris" in turn.response.text
    assert turn.usage.input_tokens > 0
    assert turn.usage.output_tokens > 0
    assert turn.response.id


@each_vendor
async def test_a_vendor_streams_text(vendor):
    stream = vendor.agent().stream("Count from 1 to 10, separated by spaces. Nothing else.")
    events = [event.upp async for event in stream if event.upp]
    turn = await stream.turn

    text = "".join(event.delta["text"] for event in events if event.type == "text_delta")
    assert "7 8 9" in text
    assert text.strip() == turn.response.text.strip()
    assert [event.type for event in events].count("message_start") == 1
    assert events[-1].type == "message_stop"
    assert turn.usage.output_tokens > 0


@each_vendor
async def test_a_vendor_calls_a_tool(vendor):
    asked = []

    @tool
    def secret_number(name: str) -> int:
        """The secret number of a person."""
        asked.append(name)
        return 4711

    question = "Find out the secret number of Ada with the tool, then tell it to me."
    turn = await vendor.agent(tools=[secret_number]).run(question)

    assert [name.lower() for name in asked] == ["ada"]
    assert "4711" in turn.response.text.replace(",", "")
    assert turn.cycles == 2


@each_vendor
async def test_a_vendor_returns_structured_data(vendor):
    question = 'Which city is called the City of Light, and in which country? Answer as JSON: {"city": …, "country": …}'
    turn = await vendor.agent(structure=SCHEMA).run(question)

    assert turn.data == {"city": "Paris", "country": "France"}
