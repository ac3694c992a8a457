"""Ten thousand scenarios of server faults: the client never hangs, panics or accepts a partial answer as complete.

A seed and a number determine each scenario. The seed is fixed, so that a run repeats. Another seed:
`TURNTREE_CHAOS_SEED=7 pytest tests/python/chaos/test_chaos.py`; one scenario alone: `TURNTREE_CHAOS_SCENARIO=123`.

Spec: UPP-1.2 §11, §12 and §13.
"""

import asyncio
import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import pytest

from chaos import FAULTS, HTTP2_FAULTS, chaos
from turntree import agent
from turntree.testing import Reply, ToolCall
from turntree.upp import (
    ErrorCode,
    ExponentialBackoff,
    Reasoning,
    UPPError,
    anthropic,
    google,
    ollama,
    openai,
    tool,
)

SEED = int(os.environ.get("TURNTREE_CHAOS_SEED", "20260101"))
ONLY = os.environ.get("TURNTREE_CHAOS_SCENARIO")
SCENARIOS = int(os.environ.get("TURNTREE_CHAOS_SCENARIOS", "10000"))
AT_ONCE = 32

# Timeout for a server that stops sending; all others have the longer time that a busy machine can need.
SILENCE = 5.0
PATIENCE = 60.0

KEY = "sk-secret-0123456789"

WIRES = {
    "chat": lambda url, **options: openai("gpt", "completions", base_url=url, api_key=KEY, **options),
    "responses": lambda url, **options: openai("gpt", base_url=url, api_key=KEY, **options),
    "messages": lambda url, **options: anthropic("claude", base_url=url, api_key=KEY, **options),
    "gemini": lambda url, **options: google("gemini-2.5-flash", base_url=url, api_key=KEY, **options),
    "ollama": lambda url, **options: ollama("llama3.2", base_url=url, **options),
}

# Errors that a retry can resolve: UPP-1.2 §13.3.
RETRYABLE = {ErrorCode.NETWORK_ERROR, ErrorCode.TIMEOUT}
FINAL = {
    ErrorCode.INVALID_RESPONSE,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.AUTHENTICATION_FAILED,
    ErrorCode.MODEL_NOT_FOUND,
    ErrorCode.QUOTA_EXCEEDED,
    ErrorCode.CONTENT_FILTERED,
    ErrorCode.CONTEXT_LENGTH_EXCEEDED,
}


@tool
def weather(city: str, note: str = "") -> str:
    """The weather of a city."""
    return f"{city}: sunny"


@dataclass(frozen=True)
class Scenario:
    """The request of a scenario, and its answer without a fault."""

    number: int
    wire: str
    is_streamed: bool
    retries: bool
    has_tools: bool
    after_tools: bool
    replies: tuple[Reply, ...]

    @classmethod
    def of(cls, number):
        dice = Random(f"{SEED}/question/{number}")
        has_tools = dice.random() < 0.3
        replies = [cls.words(dice)]
        if has_tools:
            calls = [
                ToolCall("weather", {"city": city, "note": cls.text(dice, 3)})
                for city in dice.sample(["Tokyo", "Kyōto", "Oslo 🌸"], dice.randint(1, 2))
            ]
            said = cls.text(dice, dice.choice([0, 4]))
            replies.insert(0, Reply(said, tool_calls=calls, input_tokens=dice.randint(1, 99), output_tokens=7))
        return cls(
            number=number,
            wire=dice.choice(list(WIRES)),
            is_streamed=dice.random() < 0.65,
            retries=dice.random() < 0.1,
            has_tools=has_tools,
            after_tools=has_tools and dice.random() < 0.5,
            replies=tuple(replies),
        )

    @classmethod
    def words(cls, dice):
        thinking = cls.text(dice, 4) if dice.random() < 0.3 else ""
        return Reply(
            cls.text(dice, dice.randint(1, 12)),
            thinking=thinking,
            input_tokens=dice.randint(1, 999),
            output_tokens=dice.randint(40, 99),
            fragment=dice.choice([None, None, 3]),
        )

    @staticmethod
    def text(dice, count):
        words = [
            "one",
            "zwei",
            "трёх",
            "日本",
            "🌸🌳",
            '"quoted"',
            "a\\b",
            "\ttab",
            "line\nbreak",
            "data:",
            "[DONE]",
            "\r",
            "é",
        ]
        return " ".join(dice.choice(words) for _ in range(count))


def reply_of(request):
    """The script of the server: the path contains the number of the scenario."""
    parts = request.path.strip("/").split("/")
    replies = Scenario.of(int(parts[1])).replies
    return replies[-1] if request.tool_results else replies[0]


class StreamContent:
    """The content of the events of a stream, by kind."""

    def __init__(self):
        self.text = self.thinking = ""
        self.arguments = {}
        self.ended = 0

    def hear(self, event):
        if event.type == "text_delta":
            self.text += event.delta["text"]
        elif event.type == "reasoning_delta":
            self.thinking += event.delta["text"]
        elif event.type == "tool_call_delta":
            known = self.arguments.setdefault(event.delta["toolCallId"], [event.delta["toolName"], ""])
            known[1] += event.delta["argumentsJson"]
        elif event.type == "message_stop":
            self.ended += 1


async def play(server, scenario):
    """Send the request. Returns the turn or the error, and the content of the events."""
    plan, options = server.plan(scenario.number), {}
    patience = SILENCE if plan.is_slow else PATIENCE
    if server.ca_certificates:
        # A distinct timeout gives each request its own connection, so that it does not share the fault of another one.
        options = {"ca_certificates": server.ca_certificates, "connect_timeout": 20 + scenario.number / 1000}
    retry = ExponentialBackoff(max_attempts=1, base_delay=0.001, max_delay=0.001) if scenario.retries else None
    url = server.scenario(scenario.number, after_tools=scenario.after_tools)
    model = WIRES[scenario.wire](url, timeout=patience, idle_timeout=patience, retry_strategy=retry, **options)
    runner = agent(model=model, params={"max_tokens": 100} if scenario.wire == "messages" else {}, tools=[weather])
    told = StreamContent()

    async def ask():
        if not scenario.is_streamed:
            return await runner.run("Hi")
        stream = runner.stream("Hi")
        async for event in stream:
            if event.upp:
                told.hear(event.upp)
        return await stream.turn

    try:
        return await asyncio.wait_for(ask(), 2 * PATIENCE), told
    except UPPError as error:
        return error, told


def judge(server, scenario, outcome, told):
    """A description of the error in an outcome; None if the outcome is correct."""
    applied_faults = server.outcomes(scenario.number)
    if (
        not applied_faults
        and server.plan(scenario.number).is_slow
        and getattr(outcome, "code", None) == ErrorCode.TIMEOUT
    ):
        return None  # this machine is too busy to accept a connection in time
    if not applied_faults:
        return f"the server was never asked: {outcome!r}"
    applied = applied_faults[-1]
    if isinstance(outcome, UPPError):
        return judge_error(scenario, applied, len(applied_faults), outcome) or judge_events(scenario, told)
    if isinstance(outcome, BaseException):
        return f"{type(outcome).__name__}: {outcome}"
    if applied.delivers == "nothing":
        return f"taken for an answer: {outcome.response.text!r}"
    return judge_turn(scenario, outcome, told)


def judge_error(scenario, applied, asked, error):
    if applied.delivers == "whole":
        return f"the answer was whole, but: {error}"
    if error.code not in applied.codes:
        return f"the wrong code: {error}"
    shown = f"{error} {error!r}"
    for inside in ("panicked", "Traceback", "src/", "hyper::", "reqwest::", KEY):
        if inside in shown:
            return f"the error shows {inside!r}: {shown}"
    if not error.message or not error.provider:
        return f"the error says nothing: {error!r}"
    if scenario.retries and error.code in FINAL and asked > 1:
        return f"asked {asked} times for a final {error.code}"
    if scenario.retries and not scenario.is_streamed and error.code in RETRYABLE and asked < 2:
        return f"not asked again after {error.code}"
    if scenario.after_tools:
        partial = error.partial
        if partial is None or partial.cycles != 1:
            return "what came before the failure is lost"
        return judge_message(partial.messages[1], scenario.replies[0])
    return None


def judge_events(scenario, told):
    """The content before a failure is a prefix of the complete answer."""
    for name in ("text", "thinking"):
        truth, said = "".join(getattr(reply, name) for reply in scenario.replies), getattr(told, name)
        if not truth.startswith(said):
            return f"told {name} {said!r}, but the truth begins {truth[: len(said) + 9]!r}"
    calls = [call for reply in scenario.replies for call in reply.tool_calls]
    for (name, arguments), call in zip(told.arguments.values(), calls, strict=False):
        if name != call.name or not written(call).startswith(arguments):
            return f"told the arguments {arguments!r} of {name}"
    return None if len(told.arguments) <= len(calls) else "told more calls than there are"


def written(call):
    from turntree.testing._dialect import compact

    return compact(dict(call.arguments))


def judge_turn(scenario, turn, told):
    said = [message for message in turn.messages if message.type == "assistant"]
    if len(said) != len(scenario.replies) or turn.cycles != len(said):
        return f"{len(said)} messages instead of {len(scenario.replies)}"
    for message, reply in zip(said, scenario.replies, strict=True):
        if problem := judge_message(message, reply):
            return problem
    tokens = [(cycle.input_tokens, cycle.output_tokens) for cycle in turn.usage.cycles]
    if tokens != [(reply.input_tokens, reply.output_tokens) for reply in scenario.replies]:
        return f"the usage {tokens}"
    if scenario.is_streamed:
        if problem := judge_events(scenario, told):
            return problem
        if told.text != "".join(reply.text for reply in scenario.replies) or told.ended != len(said):
            return f"the events tell {told.text!r} and end {told.ended} times"
    return None


def judge_message(message, reply):
    if message.text != reply.text:
        return f"the text {message.text!r} instead of {reply.text!r}"
    thoughts = "".join(block.text for block in message.content if isinstance(block, Reasoning))
    if thoughts != reply.thinking:
        return f"the thinking {thoughts!r} instead of {reply.thinking!r}"
    calls = [(call.tool_name, call.arguments) for call in message.tool_calls or ()]
    if calls != [(call.name, call.arguments) for call in reply.tool_calls]:
        return f"the calls {calls}"
    return None


def how_to_rerun(number):
    return f"TURNTREE_CHAOS_SEED={SEED} TURNTREE_CHAOS_SCENARIO={number} pytest tests/python/chaos/test_chaos.py"


def play_all(server, numbers, capsys):
    """Play scenarios concurrently. Returns the count of each fault; a failure lists the errors and their commands."""
    failures, seen = [], Counter()

    async def main():
        busy, silent = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(AT_ONCE)

        async def one(number):
            scenario = Scenario.of(number)
            async with silent if server.plan(number).is_slow else busy:
                try:
                    outcome, told = await play(server, scenario)
                except Exception as error:  # a hang raises TimeoutError, a panic raises its own error
                    outcome, told = error, StreamContent()
            problem = judge(server, scenario, outcome, told)
            seen[server.plan(number).fault] += 1
            seen["whole" if not isinstance(outcome, BaseException) else "failed"] += 1
            if problem:
                failures.append(f"{problem}\n    {scenario}\n    {server.outcomes(number)}\n    {how_to_rerun(number)}")

        await asyncio.gather(*map(one, numbers))

    began, worked = time.monotonic(), time.process_time()
    asyncio.run(main())
    took, worked = time.monotonic() - began, time.process_time() - worked
    with capsys.disabled():
        print(
            f"\nchaos: seed {SEED}, {len(numbers)} scenarios of {len(seen) - 2} kinds in {took:.1f} s "
            f"({worked:.1f} s of a processor): {seen['whole']} answers, {seen['failed']} errors, {len(failures)} wrong"
        )
    assert not failures, f"{len(failures)} wrong:\n" + "\n".join(failures[:20])
    return seen


@pytest.mark.timeout(900)
def test_every_run_handles_the_injected_faults(capsys):
    numbers = [int(ONLY)] if ONLY else range(SCENARIOS)

    with chaos(reply_of, seed=SEED) as server:
        seen = play_all(server, numbers, capsys)

    assert ONLY or SCENARIOS < 5000 or set(FAULTS) <= set(seen)


@pytest.mark.timeout(300)
def test_every_run_handles_the_injected_faults_over_http2(capsys):
    numbers = [int(ONLY)] if ONLY else range(min(SCENARIOS, 250))

    with chaos(reply_of, seed=SEED, http2=True) as server:
        seen = play_all(server, numbers, capsys)

    assert ONLY or SCENARIOS < 250 or set(HTTP2_FAULTS) <= set(seen)


def test_the_seed_and_the_number_determine_the_plan():
    def plans(seed):
        with chaos("Hello", seed=seed) as server:
            return [server.plan(number).fault for number in range(200)]

    assert plans(7) == plans(7) != plans(8)
    assert len(set(plans(7))) > 20


def test_the_same_seed_repeats_the_same_scenario(run):
    def outcome(seed):
        with chaos("Hello there", seed=seed, only=["reset", "truncate"]) as server:
            model = openai("gpt", base_url=server.scenario(3), api_key=KEY)
            with suppress(UPPError):
                run(agent(model=model).run("Hi"))
            return [(applied.fault, applied.note) for applied in server.outcomes(3)], server.rerun(3)

    first, again, other = outcome(1), outcome(1), outcome(2)

    assert first == again != other
    assert "seed=1" in first[1]
    assert "scenario(3)" in first[1]


def test_requests_without_a_scenario_are_numbered(run):
    with chaos("Hello there", seed=1, only=["keep-alive"]) as server:
        runner = agent(model=openai("gpt", base_url=server.base_url, api_key=KEY))
        for _ in range(3):
            assert run(runner.run("Hi")).response.text == "Hello there"

        assert [len(server.outcomes(number)) for number in range(4)] == [1, 1, 1, 0]
        assert "seed=1" in repr(server)


def test_an_unknown_fault_is_refused():
    with pytest.raises(ValueError, match="unknown fault: earthquake"):
        chaos("Hello", only=["reset", "earthquake"])


def test_a_server_without_a_seed_chooses_a_random_seed():
    with chaos("Hello") as one, chaos("Hello") as two:
        assert one.seed != two.seed
