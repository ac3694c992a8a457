"""`turntree.testing.evaluate`: datasets, judges and reports."""

import asyncio
import json
import re
from dataclasses import dataclass

import pytest

from turntree import Limits, ToolContext, agent
from turntree.testing import Case, Dataset, Verdict, evaluate, evaluate_sync, expect, judge
from turntree.upp import ModelRequest, ToolCall, scripted, tool


def echo(request: ModelRequest) -> str:
    return f"you said {request.messages[-1].text}"


def echoing():
    return agent(model=scripted(echo))


async def test_cases_are_checked_in_the_order_of_the_dataset() -> None:
    report = await evaluate(
        echoing(),
        [
            Case("one", text="one"),
            {"input": "two", "text": "three"},
            Case("four", text=[re.compile("FOUR", re.IGNORECASE), "you"], name="fourth"),
        ],
    )
    assert [result.passed for result in report.results] == [True, False, True]
    assert [result.case.name for result in report.results] == ["one", "two", "fourth"]
    assert (report.passed, len(report.failures), round(report.pass_rate, 2)) == (2, 1, 0.67)
    assert report.failures[0].reason == "text: the answer does not contain three: 'you said two'"
    assert report.total_tokens > 0
    table = str(report)
    assert table.count("passed") == 3
    assert "FAILED  two" in table
    assert "2 of 3 passed" in table
    assert report.check(0.6) is report
    with pytest.raises(AssertionError, match="2 of 3 runs passed, fewer than 100%"):
        report.check()


async def test_tools_and_data_are_compared() -> None:
    @tool
    def add(a: int, b: int) -> int:
        "Add two numbers."
        return a + b

    def reply(request: ModelRequest) -> object:
        is_first = len(request.messages) == 1
        return ToolCall("c", "add", {"a": 1, "b": 2}) if is_first else "3"

    report = await evaluate(
        agent(model=scripted(reply), tools=[add]),
        [Case("1+2", tools=["add"]), Case("1+2", tools=["add", "add"]), Case("1+2", data=3)],
    )
    assert [result.reason for result in report.results] == ["", "tools: called add", "data: the data are None"]


async def test_a_run_or_a_judge_that_fails_is_a_result() -> None:
    def fail(request: ModelRequest) -> object:
        if request.messages[-1].text == "bad":
            raise RuntimeError("no model")
        return "good"

    def strict(case: Case, turn: object) -> bool:
        if case.metadata.get("raises"):
            raise ValueError("cannot decide")
        return not case.metadata.get("refused")

    async def lenient(case: Case, turn: object) -> Verdict:
        return Verdict(True, name="lenient")

    report = await evaluate(
        agent(model=scripted(fail)),
        [
            Case("bad"),
            Case("a", metadata={"raises": True}),
            Case("b", metadata={"refused": True}),
            Case("c"),
        ],
        judges=[strict, lenient],
    )
    reasons = [result.reason for result in report.results]
    assert "no model" in reasons[0]
    assert reasons[1:] == ["ValueError: cannot decide", "strict: not accepted", ""]


async def test_a_judge_must_return_a_decision() -> None:
    report = await evaluate(echoing(), [Case("x")], judges=[lambda case, turn: "yes"])  # type: ignore[list-item, return-value]
    assert "must return a Verdict or a bool, not str" in report.results[0].reason


async def test_a_model_judges_by_a_criterion() -> None:
    def decide(request: ModelRequest) -> str:
        text = request.messages[-1].text
        assert "Input:\n" in text
        return json.dumps({"passed": "polite" in text, "reason": "tone"})

    grader = judge("The answer is polite.", scripted(decide), name="tone")
    report = await evaluate(echoing(), [Case("polite"), Case("rude")], judges=[grader])
    assert [result.reason for result in report.results] == ["", "tone: tone"]


async def test_runs_are_repeated_and_limited_in_number() -> None:
    running, most, seen = 0, 0, []

    async def slow(request: ModelRequest) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return "ok"

    report = await evaluate(
        agent(model=scripted(slow)), [Case("a"), Case("b")], repeats=5, concurrency=3, on_result=seen.append
    )
    assert (len(report.results), len(seen), most) == (10, 10, 3)
    assert [result.repeat for result in report.results] == [1, 2, 3, 4, 5] * 2


def test_evaluation_without_an_event_loop() -> None:
    assert evaluate_sync(echoing(), [Case("x", text="x")]).pass_rate == 1


def test_datasets_are_read_from_files_and_errors_name_the_line(tmp_path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"input": "a", "text": "b"}\n\n{"input": "c", "tools": ["t"]}\n', encoding="utf-8")
    cases = list(Dataset.from_jsonl(path))
    assert [case.input for case in cases] == ["a", "c"]
    for line, problem in [("[]", "must be a Case or a dict"), ('{"inptu": 1}', "a case has input"), ("{", "expecting")]:
        path.write_text('{"input": "a"}\n' + line, encoding="utf-8")
        with pytest.raises(ValueError, match=f"line 2: .*{problem}"):
            Dataset.from_jsonl(path)


async def test_wrong_arguments_are_explained() -> None:
    with pytest.raises(ValueError, match="concurrency must be at least 1, not 0"):
        await evaluate(echoing(), [], concurrency=0)
    with pytest.raises(TypeError, match="case 0 must be a Case or a dict, not str"):
        await evaluate(echoing(), ["text"])  # type: ignore[list-item]
    report = await evaluate(echoing(), [])
    assert (report.pass_rate, report.cost) == (1, None)


@dataclass
class City:
    name: str


async def test_structured_answers_equal_their_json(tmp_path) -> None:
    (tmp_path / "cases.jsonl").write_text('{"input": "a", "data": {"name": "Tokyo"}}\n')
    cases = [
        *Dataset.from_jsonl(tmp_path / "cases.jsonl"),
        Case("b", data=City("Tokyo")),
        Case("c", data=City("Kyoto")),
    ]
    city = agent(model=scripted(lambda _request: '{"name": "Tokyo"}'), structure=City)

    report = await evaluate(city, cases)

    assert [result.passed for result in report.results] == [True, True, False]
    expect(report.results[0].turn).data_equals({"name": "Tokyo"}).data_equals(City("Tokyo"))
    with pytest.raises(AssertionError):
        expect(report.results[0].turn).data_equals({"name": "Kyoto"})


async def test_one_tool_may_be_named_without_a_list() -> None:
    @tool
    def add() -> int:
        return 3

    reply = [ToolCall("c", "add", {}), "3", "4"]
    report = await evaluate(
        agent(model=scripted(reply), tools=[add]), [Case("1", tools="add"), Case("2", tools="add")], concurrency=1
    )

    assert [result.passed for result in report.results] == [True, False]


async def test_runs_have_the_options_of_runs() -> None:
    seen = []

    @tool
    def look(context: ToolContext) -> str:
        seen.append(context.deps)
        return "found"

    def reply(request: ModelRequest) -> object:
        return ToolCall("c", "look", {}) if len(request.messages) == 1 else "done"

    helper = agent(model=scripted(reply), tools=[look])

    assert (await evaluate(helper, [Case("a"), Case("b")], deps="db")).pass_rate == 1.0
    assert seen == ["db", "db"]
    report = await evaluate(helper, [Case("a")], limits=Limits(requests=1))
    assert report.failures[0].reason.startswith("LimitExceeded: ")
    with pytest.raises(TypeError, match=r"evaluate.*dependencies"):
        await evaluate(helper, [Case("a")], dependencies="db")
    with pytest.raises(TypeError, match=r"limits must be turntree\.Limits, not dict"):
        await evaluate(helper, [Case("a")], limits={"requests": 1})


@pytest.mark.parametrize("wrong", ["openai:gpt-5", scripted([]), type(echoing())])
async def test_something_else_than_an_agent_is_refused_at_once(wrong) -> None:
    with pytest.raises(TypeError, match=r"^evaluate takes an agent, or an object with an async run\(input\), not "):
        await evaluate(wrong, [Case("a")])


@pytest.mark.parametrize(
    ("dataset", "judges", "words"),
    [
        ("cases.jsonl", [], r"must be a list of cases, not str; write Dataset\.from_jsonl\(path\)"),
        ({"input": "x"}, [], "not dict; put one case into brackets"),
        (Case("x"), [], "not Case; put one case into brackets"),
        ([Case("x")], lambda case, turn: True, "judges must be a list; put a single one into brackets"),
        ([Case("x")], ["polite"], r"judges\[0\] must be a function of a case and a turn, not str"),
    ],
)
async def test_wrong_datasets_and_judges_are_refused_before_anything_runs(dataset, judges, words) -> None:
    with pytest.raises(TypeError, match=words):
        await evaluate(echoing(), dataset, judges=judges)


async def test_an_agent_judges_with_its_own_instructions() -> None:
    grader = agent(model=scripted(['{"passed": false, "reason": "No price."}']), system="You are strict.")

    report = await evaluate(echoing(), [Case("a")], judges=[judge("It names a price.", grader)])

    assert report.failures[0].verdicts[0] == Verdict(False, "No price.", "judge")
    request = grader.model.requests[0]
    assert "You are strict." in str(request.system)
    assert "It names a price." in request.messages[-1].text


async def test_wrong_judges_and_numbers_are_explained(tmp_path) -> None:
    with pytest.raises(TypeError, match=r"criterion must be a str, not int; write judge\(criterion, model\)"):
        judge(5, scripted([]))
    with pytest.raises(ValueError, match="criterion must not be empty"):
        judge(" ", scripted([]))
    with pytest.raises(TypeError, match=r"not Agent; write judge\(\"the criterion\", agent\)"):
        await evaluate(echoing(), [Case("a")], judges=[echoing()])
    with pytest.raises(TypeError, match="repeats must be an int, not str"):
        await evaluate(echoing(), [Case("a")], repeats="2")
    with pytest.raises(ValueError, match="pass_rate must be from 0 to 1, not 90"):
        (await evaluate(echoing(), [Case("a")])).check(pass_rate=90)
    path = tmp_path / "cases.jsonl"
    path.write_text('{"input": "a"}\n{"input":\n')
    with pytest.raises(
        ValueError, match=r"cases\.jsonl, line 2: the line is not JSON: expecting value, at character 10$"
    ):
        Dataset.from_jsonl(path)
