"""UAP-1.0 §5 and §11, point by point. The number in a name is that of the point in our checklist."""

import asyncio
import json

import pytest

from turntree import AgentStrategy, agent
from turntree.execution import loop, plan, react
from turntree.upp import ErrorCode, Turn, UPPError, llm, scripted, tool


def call(name, /, **arguments):
    return {"toolName": name, "arguments": arguments}


@tool
def search(query: str) -> str:
    """Search."""
    return f"found {query}"


@tool
def broken() -> str:
    """Never works."""
    raise ValueError("it broke")


def step(id, *depends_on, tool=None):
    return {"id": id, "description": f"do {id}", "tool": tool, "dependsOn": list(depends_on)}


def planned(*steps):
    return json.dumps({"steps": steps})


THOUGHTS = ["I should search.", [call("search", query="x")], "I know enough.", "It is x."]


class Log:
    """All hooks; each call is recorded with its step and a short description of its arguments."""

    def __init__(self, **more):
        self.lines = []
        self.plans = []
        self.hooks = {
            "on_step_start": self.note("step_start", lambda state: state.step),
            "on_reason": self.note("reason", lambda text: text),
            "on_act": self.note("act", lambda calls: [one.tool_name for one in calls]),
            "on_observe": self.note("observe", lambda results: [one.result for one in results]),
            "on_step_end": self.note("step_end", lambda result: sorted(result)),
            **more,
        }

    def note(self, name, about):
        async def hook(step, given):
            await asyncio.sleep(0)
            self.lines.append((name, step, about(given)))
            state = given if name == "step_start" else given.get("state") if isinstance(given, dict) else None
            if state is not None and state.plan is not None:
                self.plans.append([one.status for one in state.plan])

        return hook


# loop


async def test_uap_8_calls_of_one_answer_run_concurrently():
    running, both = 0, asyncio.Event()

    @tool
    async def wait(n: int) -> int:
        nonlocal running
        running += 1
        if running == 2:
            both.set()
        await asyncio.wait_for(both.wait(), 10)
        running -= 1
        return n

    for execution in (loop(), react()):
        both.clear()
        thinking = ["thinking"] if execution == react() else []
        script = [*thinking, [call("wait", n=1), call("wait", n=2)], *thinking, "done"]

        turn = await agent(model=scripted(script), tools=[wait], execution=execution).run("go")

        assert both.is_set()
        assert [one.result for one in turn.messages[2].results] == [1, 2]


async def test_uap_9_run_and_stream_accept_a_history_and_return_a_turn():
    for execution, script in ((loop(), ["hi"]), (react(), ["hm", "hi"]), (plan(), [planned(), "hi"])):
        before = (await agent(model=scripted(["earlier"])).run("before")).messages
        model = scripted(script * 2)
        helper = agent(model=model, execution=execution)

        turns = [await helper.run(before, "go"), await helper.stream(before, "go").turn]

        for turn in turns:
            assert [message.text for message in turn.messages] == ["go", "hi"]
        assert [message.text for message in model.requests[0].messages][:3] == ["before", "earlier", "go"]


async def test_uap_10_loop_is_the_default_and_a_structure_sets_data():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert (await agent(model=scripted(["hi"])).run("go")).data is None
    for execution, script in (
        (None, ['{"n": 1}']),
        (react(), ["hm", '{"n": 1}']),
        (plan(), [planned(step("a"), step("b")), "a", '{"n": 1}']),
    ):
        turn = await agent(model=scripted(script), execution=execution, structure=schema).run("go")
        assert turn.data == {"n": 1}


async def test_uap_11_loop_equals_llm_generate_with_max_iterations():
    def script():
        return scripted([[call("search", query="x")], [call("search", query="y")], "done"])

    for limit in (2, 3, 10):
        ours = await agent(model=script(), tools=[search], execution=loop(limit)).run("go")
        theirs = await llm(model=script(), tools=[search], tool_strategy={"max_iterations": limit}).generate("go")
        assert [m.text for m in ours.messages] == [m.text for m in theirs.messages]
        assert (ours.cycles, ours.usage) == (theirs.cycles, theirs.usage)
    for limit in (0, 1):
        outcomes = []
        for run in (
            agent(model=script(), tools=[search], execution=loop(limit)).run,
            llm(model=script(), tools=[search], tool_strategy={"max_iterations": limit}).generate,
        ):
            try:
                outcomes.append(len((await run("go")).messages))
            except UPPError as error:
                outcomes.append((error.code, error.message))
        assert outcomes[0] == outcomes[1]


# react


async def test_uap_12_react_calls_on_reason_on_act_and_on_observe():
    log = Log()

    await agent(model=scripted(THOUGHTS), tools=[search], execution=react(), strategy=log.hooks).run("go")

    assert log.lines == [
        ("step_start", 1, 1),
        ("reason", 1, "I should search."),
        ("act", 1, ["search"]),
        ("observe", 1, ["found x"]),
        ("step_end", 1, ["state", "turn"]),
        ("step_start", 2, 2),
        ("reason", 2, "I know enough."),
        ("step_end", 2, ["state", "turn"]),
    ]


async def test_uap_13_react_stores_its_reasoning_in_the_state():
    seen = []
    hooks = {
        "on_step_start": lambda _, state: seen.append(state.reasoning),
        "on_step_end": lambda _, result: seen.append(result["state"].reasoning),
    }

    await agent(model=scripted(THOUGHTS), tools=[search], execution=react(), strategy=hooks).run("go")

    first, second = "I should search.", "I know enough."
    assert seen == [[], [first], [first], [first, second]]


async def test_uap_14_react_respects_max_steps():
    def for_ever(request):
        return (
            "hm"
            if request.messages[-1].text.startswith("Think") or "Think" in request.messages[-1].text
            else [call("search", query="x")]
        )

    model = scripted(for_ever)

    turn = await agent(model=model, tools=[search], execution=react(max_steps=3)).run("go")

    assert (turn.cycles, len(turn.tool_executions)) == (6, 3)
    assert turn.response.has_tool_calls
    assert react() == react(max_steps=10)


async def test_uap_15_react_evaluates_the_stop_condition_after_each_step():
    asked = []

    def stop(state):
        asked.append((state.step, len(state.messages)))
        return state.step == 1

    helper = agent(model=scripted(THOUGHTS), tools=[search], execution=react(), strategy={"stop_condition": stop})

    turn = await helper.run("go")

    assert asked == [(1, 3)]
    assert turn.cycles == 2


async def test_uap_16_react_returns_a_valid_turn():
    turn = await agent(model=scripted(THOUGHTS), tools=[search], execution=react()).run("go")

    assert isinstance(turn, Turn)
    assert [message.type for message in turn.messages] == ["user", "assistant", "tool_result", "assistant"]
    assert turn.response.text == "It is x."
    assert Turn.model_validate_json(turn.model_dump_json()) == turn


async def test_uap_17_react_accepts_a_reasoning_prompt():
    model = scripted(THOUGHTS)

    await agent(model=model, tools=[search], execution=react(reasoning_prompt="What now?")).run("go")

    prompts = [request.messages[-1].text for request in model.requests]
    assert prompts[0] == "What now?"
    assert prompts[2].endswith("\n\nWhat now?")


@pytest.mark.parametrize(
    ("format", "words"),
    [
        ("markdown", "## Observations\n\n### search\n\nfound x"),
        ("json", '[{"tool":"search","toolCallId":'),
        ("text", "search: found x\n"),
    ],
)
async def test_uap_18_react_formats_observations(format, words):
    model = scripted(THOUGHTS)

    await agent(model=model, tools=[search], execution=react(observation_format=format)).run("go")

    assert model.requests[2].messages[-1].text.startswith(words)


async def test_uap_19_react_adds_up_the_usage_of_all_calls():
    steps = []
    hooks = {"on_step_end": lambda _, result: steps.append(result["turn"].usage)}

    turn = await agent(model=scripted(THOUGHTS), tools=[search], execution=react(), strategy=hooks).run("go")

    # Reasoning, tool call, reasoning, answer: the total contains the usage of all four calls of the model.
    assert turn.cycles == len(turn.usage.cycles) == 4
    assert all(cycle.input_tokens > 0 and cycle.output_tokens > 0 for cycle in turn.usage.cycles)
    assert turn.usage.input_tokens == sum(cycle.input_tokens for cycle in turn.usage.cycles)
    assert turn.usage.output_tokens == sum(cycle.output_tokens for cycle in turn.usage.cycles)
    assert turn.usage.total_tokens == turn.usage.input_tokens + turn.usage.output_tokens
    assert len(steps) == 2
    assert sum(usage.total_tokens for usage in steps) == turn.usage.total_tokens


# plan


async def test_uap_20_plan_requests_the_plan_as_structured_output():
    model = scripted([planned(step("a")), "done"])

    await agent(model=model, tools=[search], execution=plan(max_plan_steps=4)).run("go")

    first, second = model.requests
    steps = first.structure["properties"]["steps"]
    assert steps["maxItems"] == 4
    assert steps["items"]["required"] == ["id", "description", "dependsOn", "tool"]
    assert not first.tools
    assert second.structure is None
    assert second.tools
    assert plan() == plan(max_plan_steps=10, allow_replan=True)


async def test_uap_21_plan_respects_dependencies():
    model = scripted([planned(step("c", "b"), step("b", "a"), step("a"), step("d")), "1", "2", "3", "4"])

    await agent(model=model, execution=plan()).run("go")

    order = [request.messages[-1].text.split('"')[1] for request in model.requests[1:]]
    assert order == ["a", "b", "c", "d"]


async def test_uap_22_plan_stores_the_plan_in_the_state():
    states = []
    hooks = {"stop_condition": lambda state: states.append(state)}

    await agent(model=scripted([planned(step("a")), "1"]), execution=plan(), strategy=hooks).run("go")

    (state,) = states
    assert [(one.id, one.description, one.depends_on) for one in state.plan] == [("a", "do a", [])]
    assert json.loads(state.model_dump_json())["plan"][0] == {
        "id": "a",
        "description": "do a",
        "dependsOn": [],
        "status": "completed",
    }


async def test_uap_23_plan_updates_statuses():
    log = Log()
    first = planned(step("a"), step("b", tool="broken"), step("c", "b"))
    script = [first, "1", [call("broken")], "no", planned(), "so"]

    await agent(model=scripted(script), tools=[broken], execution=plan(), strategy=log.hooks).run("go")

    assert log.plans == [
        ["in_progress", "pending", "pending"],
        ["completed", "pending", "pending"],
        ["completed", "in_progress", "pending"],
        ["completed", "failed", "pending"],
        ["completed", "failed"],
        ["completed", "failed"],
    ]


async def test_uap_24_plan_returns_a_valid_turn():
    script = [planned(step("a", tool="search"), step("b", "a")), [call("search", query="x")], "1", "2"]

    turn = await agent(model=scripted(script), tools=[search], execution=plan()).run("go")

    kinds = [message.type for message in turn.messages]
    assert kinds == ["user", "assistant", "tool_result", "assistant", "assistant"]
    assert (turn.cycles, turn.response.text) == (4, "2")


# Custom strategies


async def test_uap_25_custom_strategies_are_accepted():
    class Custom:
        name = "custom"

        async def execute(self, context):
            context.state.step = 1
            if context.strategy.on_step_start:
                await context.strategy.on_step_start(1, context.state)
            turn = await context.llm.generate(context.history, context.input)
            context.state.messages.extend(turn.messages[1:])
            if context.strategy.on_step_end:
                await context.strategy.on_step_end(1, {"turn": turn, "state": context.state})
            return turn

        async def stream(self, context):
            stream = context.llm.stream(context.history, context.input)
            async for event in stream:
                yield event
            yield await stream.turn

    log = Log()
    helper = agent(model=scripted(["hi"] * 2), tools=[search], execution=Custom(), strategy=log.hooks)

    turn = await helper.run("go")
    assert [message.text for message in turn.messages] == ["go", "hi"]
    assert log.lines == [("step_start", 1, 1), ("step_end", 1, ["state", "turn"])]

    stream = helper.stream("go")
    told = [event.upp.type async for event in stream]
    assert "text_delta" in told
    assert (await stream.turn).response.text == "hi"


# Hooks


SCRIPTS = {
    "loop": (loop(), [[call("search", query="x")], "done"]),
    "react": (react(), THOUGHTS),
    "plan": (plan(), [planned(step("a", tool="search"), step("b")), [call("search", query="x")], "1", "2"]),
}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_uap_62_hooks_run_in_the_documented_order(name):
    execution, script = SCRIPTS[name]
    log = Log()
    log.hooks["stop_condition"] = lambda state: log.lines.append(("stop", state.step, None))
    log.hooks["on_complete"] = lambda turn: log.lines.append(("complete", None, turn.cycles))

    turn = await agent(model=scripted(script), tools=[search], execution=execution, strategy=log.hooks).run("go")

    names = [(name, step) for name, step, _ in log.lines]
    thinking = {1: [("reason", 1), ("act", 1), ("observe", 1)], 2: [("reason", 2)]} if name == "react" else {}
    expected = []
    for number in (1, 2):
        middle = thinking.get(number, [])
        expected += [("step_start", number), *middle, ("step_end", number), ("stop", number)]
    assert names == [*expected, ("complete", None)]
    assert log.lines[-1] == ("complete", None, turn.cycles)


@pytest.mark.parametrize("name", SCRIPTS)
async def test_uap_63_the_stop_condition_is_evaluated_after_every_step(name):
    execution, script = SCRIPTS[name]
    for last in (1, 2):
        asked = []

        async def stop(state, asked=asked, last=last):
            asked.append(state.step)
            return state.step == last

        hooks = AgentStrategy(stop_condition=stop)
        await agent(model=scripted(script), tools=[search], execution=execution, strategy=hooks).run("go")
        assert asked == list(range(1, last + 1))


class Failing:
    """Fails by itself."""

    name = "failing"

    async def execute(self, context):
        raise UPPError("down", ErrorCode.PROVIDER_ERROR)


FAILING = {
    "loop": (loop(), [UPPError("down", "PROVIDER_ERROR")]),
    "react": (react(), ["hm", UPPError("down", "PROVIDER_ERROR")]),
    "plan": (plan(allow_replan=False), [planned(step("a")), UPPError("down", "PROVIDER_ERROR")]),
    "planning": (plan(), [UPPError("down", "PROVIDER_ERROR")]),
    "custom": (Failing(), []),
}


@pytest.mark.parametrize("name", FAILING)
async def test_uap_64_a_turn_that_on_error_returns_completes_the_run(name):
    execution, script = FAILING[name]
    saved = await agent(model=scripted(["saved"])).run("go")
    called = []

    async def rescue(error, state):
        called.append((error.code, state.messages[0].text))
        return saved

    hooks = {"on_error": rescue, "on_complete": lambda turn: called.append(turn)}

    turn = await agent(model=scripted(script), execution=execution, strategy=hooks).run("go")

    assert turn == saved
    assert called == [("PROVIDER_ERROR", "go"), saved]


@pytest.mark.parametrize("name", FAILING)
async def test_uap_65_an_error_is_raised_if_on_error_returns_none(name):
    execution, script = FAILING[name]
    called = []
    hooks = {"on_error": lambda error, _: called.append(error), "on_complete": called.append}

    with pytest.raises(UPPError, match="down") as raised:
        await agent(model=scripted(script), execution=execution, strategy=hooks).run("go")

    assert [error.message for error in called] == ["down"]
    assert raised.value.code == "PROVIDER_ERROR"


@pytest.mark.parametrize("name", SCRIPTS)
async def test_uap_66_async_hooks_are_awaited(name):
    execution, script = SCRIPTS[name]
    under_way = 0

    def slow(result=None):
        async def hook(*_):
            nonlocal under_way
            under_way += 1
            assert under_way == 1, "two hooks at once"
            await asyncio.sleep(0.002)  # the pace of the hook: another one that overlaps it would be counted
            under_way -= 1
            return result

        return hook

    names = ("on_step_start", "on_reason", "on_act", "on_observe", "on_step_end", "stop_condition", "on_complete")
    hooks = {hook: slow(result=False) for hook in names}

    await agent(model=scripted(script), tools=[search], execution=execution, strategy=hooks).run("go")

    assert under_way == 0


@pytest.mark.parametrize("name", SCRIPTS)
async def test_uap_a79_stop_conditions_read_metadata_that_hooks_and_tools_write(name):
    execution, script = SCRIPTS[name]
    hooks = {
        "on_step_end": lambda _, result: result["state"].metadata.update(done=True),
        "stop_condition": lambda state: state.metadata.get("done", False),
    }
    steps = []
    hooks["on_step_start"] = lambda step, _: steps.append(step)

    await agent(model=scripted(script), tools=[search], execution=execution, strategy=hooks).run("go")

    assert steps == [1]
