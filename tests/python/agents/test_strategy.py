"""The strategies react and plan in runs, streams and sessions. UAP-1.0 §5."""

import json

import pytest
from strategy_support import call, search, step, texts

from turntree import Session, agent, session
from turntree.execution import fallback, loop, plan, react, select
from turntree.upp import ErrorCode, UPPError, create_provider, scripted, tool


def planned(*steps):
    return json.dumps({"steps": steps})


def react_script():
    return ["I should search.", [call("search", query="x")], "I know enough.", "It is x."]


def plan_script():
    return [planned(step("a", tool="search"), step("b", "a")), [call("search", query="x")], "a done", "b done"]


EXECUTIONS = {"react": (react(), react_script), "plan": (plan(), plan_script)}


# Options


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: react(max_steps=0), ValueError, "max_steps must be from 1"),
        (lambda: react(max_steps="3"), TypeError, "max_steps must be an int, not str"),
        (lambda: react(reasoning_prompt=3), TypeError, "reasoning_prompt must be a str"),
        (lambda: react(observation_format="xml"), ValueError, "observation_format must be"),
        (lambda: plan(max_plan_steps=0), ValueError, "max_plan_steps must be from 1"),
        (lambda: plan(max_replans=-1), ValueError, "max_replans must be from 0"),
        (lambda: plan(allow_replan=1), TypeError, "allow_replan must be a bool"),
        (lambda: plan(plan_schema=3), TypeError, "plan_schema must be a JSON Schema or a type, not int"),
        (lambda: agent(execution="loop"), TypeError, "execution must be a strategy"),
        (lambda: agent(execution=object()), TypeError, "execution must be a strategy"),
        (lambda: agent(execution=react(), tool_strategy={"max_iterations": 0}), ValueError, "use loop"),
        (lambda: fallback(loop(), 3), TypeError, "execution must be a strategy"),
        (lambda: select(3), TypeError, "choose must be a function"),
    ],
)
def test_invalid_option_error_names_the_option(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_strategies_are_equal_and_hashable_by_value():
    assert react(max_steps=3) == react(3) != react(4)
    assert plan() == plan() != loop()
    assert {loop(3), loop(3), react()} == {react(), loop(3)}
    assert repr(loop(3)) == "loop(max_iterations=3)"
    assert repr(plan(max_plan_steps=2)).startswith("plan(allow_replan=True, max_plan_steps=2")
    assert agent(execution=react(3)).with_(system="x").options["execution"] == react(3)


def test_strategy_class_and_sync_execute_are_rejected():
    class Sync:
        name = "sync"

        def execute(self, context):
            raise NotImplementedError

    with pytest.raises(TypeError, match="not Sync"):
        agent(execution=Sync)
    with pytest.raises(TypeError, match="must have `async def execute"):
        agent(execution=Sync())


# React and plan with all run methods


@pytest.mark.parametrize("name", EXECUTIONS)
def test_all_four_run_methods_return_the_same_messages(run, name):
    execution, script = EXECUTIONS[name]

    def fresh():
        return agent(model=scripted(script()), tools=[search], execution=execution)

    async def streamed():
        stream = fresh().stream("go")
        return [event async for event in stream], await stream.turn

    def all_of(stream):
        return list(stream), stream.turn

    events, streamed_turn = run(streamed())
    sync_events, sync_turn = all_of(fresh().stream_sync("go"))
    turns = [run(fresh().run("go")), fresh().run_sync("go"), streamed_turn, sync_turn]

    assert len({tuple(texts(turn.messages)) for turn in turns}) == 1
    assert len({(turn.cycles, turn.usage.total_tokens) for turn in turns}) == 1
    assert [event.uap.type for event in events if event.uap] == [e.uap.type for e in sync_events if e.uap]


async def test_plan_events_name_the_plan_steps():
    stream = agent(model=scripted(plan_script()), tools=[search], execution=plan()).stream("go")

    told = [(event.uap.type, event.uap.data.get("planStepId")) async for event in stream if event.uap]

    assert told == [
        ("step_start", "a"),
        ("action", None),
        ("observation", None),
        ("step_end", "a"),
        ("step_start", "b"),
        ("step_end", "b"),
    ]


async def test_step_events_contain_the_plan_with_its_progress():
    stream = agent(model=scripted(plan_script()), tools=[search], execution=plan()).stream("go")

    plans = [event.uap.data["plan"] async for event in stream if event.uap and "step_" in event.uap.type]

    assert [[step["status"] for step in steps] for steps in plans] == [
        ["in_progress", "pending"],
        ["completed", "pending"],
        ["completed", "in_progress"],
        ["completed", "completed"],
    ]


async def test_plan_schema_can_be_a_type():
    pydantic = pytest.importorskip("pydantic")

    class Step(pydantic.BaseModel):
        id: str
        description: str
        cost: int

    class Plan(pydantic.BaseModel):
        steps: list[Step]

    model = scripted([planned({"id": "a", "description": "do a", "cost": 3}), "done"])
    seen = []
    hooks = {"stop_condition": lambda state: seen.append(state.plan[0])}

    await agent(model=model, execution=plan(plan_schema=Plan), strategy=hooks).run("go")

    assert model.requests[0].structure["$defs"]["Step"]["required"] == ["id", "description", "cost"]
    assert seen[0].model_dump()["cost"] == 3


async def test_a_provider_without_structured_output_cannot_plan():
    class Answers:
        async def generate(self, request):
            return "hi"

    model = create_provider("test_strategy", Answers(), capabilities={"structured_output": False})("m")

    with pytest.raises(UPPError, match="structured output") as raised:
        await agent(model=model, execution=plan()).run("go")

    assert raised.value.code == ErrorCode.INVALID_REQUEST
    assert (await agent(model=model, execution=fallback(plan(), loop())).run("go")).response.text == "hi"


# Sessions


@pytest.mark.parametrize("name", EXECUTIONS)
async def test_session_history_contains_messages_without_thoughts(name):
    execution, script = EXECUTIONS[name]
    model = scripted(script() * 2)
    talk = session(agent(model=model, tools=[search], execution=execution))

    turn = await talk.run("go")
    await talk.run("again")

    assert texts(talk.tree.history())[: len(turn.messages)] == texts(turn.messages)
    second = texts(model.requests[len(script())].messages)
    assert second[: len(turn.messages) + 1] == [*texts(turn.messages), "again"]


async def test_checkpoints_contain_the_thoughts():
    talk = session(agent(model=scripted(react_script()), tools=[search], execution=react()))

    await talk.run("go")

    assert [(point.step, point.state.reasoning) for point in talk.checkpoints] == [
        (1, ["I should search."]),
        (2, ["I should search.", "I know enough."]),
    ]
    written = json.loads(talk.to_json())["checkpoints"]
    assert written[0]["state"]["reasoning"] == ["I should search."]


async def test_checkpoints_contain_the_plan_before_its_first_step():
    talk = session(agent(model=scripted(plan_script()), tools=[search], execution=plan()))

    await talk.run("go")

    plans = [(point.step, [one.status for one in point.state.plan]) for point in talk.checkpoints]
    assert plans == [(0, ["pending"] * 2), (1, ["completed", "pending"]), (2, ["completed"] * 2)]
    written = json.loads(talk.to_json())["checkpoints"]
    assert written[0]["state"]["plan"][1]["dependsOn"] == ["a"]


@pytest.mark.parametrize("name", EXECUTIONS)
async def test_run_failed_at_any_point_resumes_in_another_process(name):
    execution, script = EXECUTIONS[name]
    whole = script()
    for broken in range(len(whole)):
        ran = []

        @tool
        def search(query: str, ran=ran) -> str:
            ran.append(query)
            return f"found {query}"

        down = UPPError("down", "CANCELLED")  # an error for which plan does not replan
        model = scripted([*whole[:broken], down])
        talk = session(agent(model=model, tools=[search], execution=execution))
        with pytest.raises(UPPError, match="down"):
            await talk.run("go")
        asked = len(model.requests)

        rest = scripted(whole[broken:])
        later = Session.from_json(talk.to_json(), agent(model=rest, tools=[search], execution=execution))
        turn = await later.resume()

        assert len(rest.requests) == len(whole) - broken, f"after {asked} calls"
        assert ran == ["x"]
        assert turn.response.text == whole[-1]
        assert turn.cycles == len(whole)
        assert texts(rest.requests[0].messages) == texts(model.requests[-1].messages)


async def test_run_from_a_restored_checkpoint_uses_its_thoughts():
    model = scripted(react_script())
    talk = session(agent(model=model, tools=[search], execution=react()))
    await talk.run("go")
    expected = texts(model.requests[2].messages)
    again = scripted(["I know enough.", "It is x again."])
    other = Session.from_json(talk.to_json(), agent(model=again, tools=[search], execution=react()))

    await other.restore(other.checkpoints[0].id)
    turn = await other.resume()

    assert turn.response.text == "It is x again."
    assert texts(again.requests[0].messages) == expected
