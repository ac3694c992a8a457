"""`evaluate`: runs an agent on a dataset of cases, several at a time, and reports what passed."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, Union, cast

from turntree import Agent
from turntree._run_options import RunOptions, native_options
from turntree._texts import check_path, json_problem
from turntree._typing import Unpack
from turntree.testing._expect import called_tools, has_data, is_subsequence
from turntree.upp import ModelReference, Turn

__all__ = ["Case", "CaseResult", "Dataset", "Judge", "Report", "Verdict", "evaluate", "evaluate_sync", "judge"]

_JUDGE = """You check the answer of an assistant. The criterion is:
{criterion}

Decide only whether the answer meets the criterion, and give the reason in one sentence."""


@dataclass(frozen=True)
class Verdict:
    """The decision of a check or a judge.

    Args:
        passed: Whether the answer is accepted.
        reason: Why, in a sentence.
        name: The name of the check.
    """

    passed: bool
    reason: str = ""
    name: str = ""


@dataclass(frozen=True)
class Case:
    """An input, and what is expected of the answer. Everything but the input is optional.

    Args:
        input: The input of the run.
        text: What the answer contains: a text, a regular expression (`re.Pattern`), or several of them.
        tools: Names of tools that are called in this order, or one name; others may be called between them.
        data: The structured answer, or its JSON.
        name: The name in reports. Default: the beginning of the input.
        metadata: Data for judges.
    """

    input: Any
    text: str | re.Pattern[str] | Sequence[str | re.Pattern[str]] | None = None
    tools: str | Sequence[str] | None = None
    data: Any = None
    name: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        """Set the default name."""
        if not self.name:
            words = " ".join(str(self.input).split())
            object.__setattr__(self, "name", words if len(words) <= 40 else f"{words[:39]}…")

    def check(self, turn: Turn) -> list[Verdict]:
        """Compare a turn with what is expected. Returns one verdict for each expectation that the case has."""
        verdicts: list[Verdict] = []
        if self.text is not None:
            wanted = [self.text] if isinstance(self.text, (str, re.Pattern)) else list(self.text)
            missing = [item for item in wanted if not _contains(turn.text, item)]
            reason = "" if not missing else f"the answer does not contain {_list(missing)}: {turn.text!r}"
            verdicts.append(Verdict(not missing, reason, "text"))
        if self.tools is not None:
            called = called_tools(turn)
            passed = is_subsequence([self.tools] if isinstance(self.tools, str) else list(self.tools), called)
            verdicts.append(Verdict(passed, "" if passed else f"called {_list(called) or 'no tool'}", "tools"))
        if self.data is not None:
            passed = has_data(turn, self.data)
            verdicts.append(Verdict(passed, "" if passed else f"the data are {turn.data!r}", "data"))
        return verdicts


def _contains(text: str, item: str | re.Pattern[str]) -> bool:
    return item in text if isinstance(item, str) else item.search(text) is not None


def _list(items: Iterable[object]) -> str:
    return ", ".join(str(getattr(item, "pattern", item)) for item in items)


class Dataset:
    """Cases in their order.

    Args:
        cases: Cases, or dicts with the arguments of `Case`.

    Raises:
        TypeError: An item is neither, or a dict has an unknown key or no ``input``.
    """

    def __init__(self, cases: Iterable[Case | Mapping[str, Any]]) -> None:
        """Take the cases."""
        remedy = (
            "write Dataset.from_jsonl(path)" if isinstance(cases, (str, os.PathLike)) else "put one case into brackets"
        )
        if isinstance(cast("object", cases), (str, os.PathLike, Mapping, Case)):
            message = f"cases must be a list of cases, not {type(cases).__name__}; {remedy}"
            raise TypeError(message)
        self.cases: list[Case] = [_case(item, index) for index, item in enumerate(cases)]

    @classmethod
    def from_jsonl(cls, path: str | os.PathLike[str]) -> Dataset:
        """Read a file with one JSON object a line: the arguments of `Case`.

        Raises:
            OSError: The file cannot be read.
            ValueError: A line is not a JSON object of this form; the message names the line.
        """
        cases: list[Case] = []
        check_path(path, "path")
        for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            try:
                cases.append(_case(json.loads(line), number))
            except json.JSONDecodeError as error:
                message = f"{path}, line {number}: the line is not JSON: {json_problem(error)}"
                raise ValueError(message) from None
            except (TypeError, ValueError) as error:
                message = f"{path}, line {number}: {error}"
                raise ValueError(message) from None
        return cls(cases)

    def __len__(self) -> int:
        """The number of cases."""
        return len(self.cases)

    def __iter__(self) -> Iterator[Case]:
        """Iterate over the cases."""
        return iter(self.cases)

    def __repr__(self) -> str:
        """The class with the number of cases."""
        return f"Dataset({len(self.cases)} cases)"


def _case(item: object, place: int) -> Case:
    if isinstance(item, Case):
        return item
    if not isinstance(item, Mapping):
        message = f"case {place} must be a Case or a dict, not {type(item).__name__}"
        raise TypeError(message)
    members = cast("Mapping[str, Any]", item)
    try:
        return Case(**members)
    except TypeError:
        known = [name for name in Case.__dataclass_fields__ if name != "input"]
        message = f"case {place} has the keys {_list(members)}; a case has input, and any of {_list(known)}"
        raise TypeError(message) from None


Judge: TypeAlias = Callable[[Case, "Turn"], Union["Verdict", bool, Awaitable[Union["Verdict", bool]]]]
"""Decides about a turn: takes the case and the turn, sync or async, and returns a `Verdict` or whether it passed."""


def judge(criterion: str, model: ModelReference | str | Agent[Any, Any], *, name: str = "judge") -> Judge:
    """Make a judge of a model or an agent: it reads the input and the answer, and decides by a criterion.

    Args:
        criterion: What the answer must meet, in plain words, for example "The answer is polite and names a price".
        model: The model, as for `turntree.agent`; or an agent, which judges with its own instructions and tools.
        name: The name of the verdicts in reports.

    Raises:
        TypeError: `criterion` is not a text, or `model` is neither a model nor an agent.
        ValueError: `criterion` is empty.
    """
    from turntree import agent

    if not isinstance(cast("object", criterion), str):
        message = f"criterion must be a str, not {type(criterion).__name__}; write judge(criterion, model)"
        raise TypeError(message)
    if not criterion.strip():
        message = 'criterion must not be empty; write what the answer must meet, such as "The answer is polite."'
        raise ValueError(message)
    instructions = _JUDGE.format(criterion=criterion)
    task = ""
    if isinstance(model, Agent):
        task = f"{instructions}\n\n"
        grader: Agent[Any, Any] = model.with_(structure=_Grade)
    else:
        grader = agent(model=model, system=instructions, structure=_Grade)

    async def decide(case: Case, turn: Turn) -> Verdict:
        grade: _Grade = (await grader.run(f"{task}Input:\n{case.input}\n\nAnswer:\n{turn.text}")).data
        return Verdict(grade.passed, grade.reason, name)

    return decide


@dataclass
class _Grade:
    """The decision of a judge."""

    passed: bool
    reason: str


@dataclass(frozen=True)
class CaseResult:
    """What happened in one run of a case.

    Args:
        case: The case.
        repeat: Which run of the case it is, from 1.
        turn: The turn; None if the run failed.
        error: The exception of the run or of a judge.
        verdicts: The decisions.
        seconds: The duration of the run, without its judges.
    """

    case: Case
    repeat: int
    turn: Turn | None
    error: Exception | None
    verdicts: tuple[Verdict, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """True if nothing failed and all verdicts passed."""
        return self.error is None and all(verdict.passed for verdict in self.verdicts)

    @property
    def reason(self) -> str:
        """Why it did not pass; empty if it did."""
        if self.error is not None:
            return f"{type(self.error).__name__}: {self.error}"
        failed = [verdict for verdict in self.verdicts if not verdict.passed]
        return "; ".join(f"{verdict.name}: {verdict.reason}".strip(": ") for verdict in failed)


class Report:
    """The results of an evaluation, in the order of the dataset."""

    def __init__(self, results: Sequence[CaseResult]) -> None:
        """Take the results."""
        self.results: list[CaseResult] = list(results)

    @property
    def passed(self) -> int:
        """The number of runs that passed."""
        return sum(result.passed for result in self.results)

    @property
    def pass_rate(self) -> float:
        """The share of runs that passed, from 0 to 1; 1 without runs."""
        return self.passed / len(self.results) if self.results else 1.0

    @property
    def failures(self) -> list[CaseResult]:
        """The runs that did not pass."""
        return [result for result in self.results if not result.passed]

    @property
    def total_tokens(self) -> int:
        """Tokens of all runs, without judges."""
        return sum(result.turn.usage.total_tokens for result in self.results if result.turn is not None)

    @property
    def cost(self) -> float | None:
        """Cost of all runs in US dollars, without judges; None if that of a run is not known."""
        costs = [result.turn.usage.cost for result in self.results if result.turn is not None]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if costs and len(known) == len(costs) else None

    def check(self, pass_rate: float = 1.0) -> Report:
        """Raise `AssertionError` with the table if fewer runs passed than this share. Returns the report otherwise.

        Raises:
            ValueError: `pass_rate` is not from 0 to 1.
        """
        __tracebackhide__ = True
        if not 0 <= pass_rate <= 1:
            message = f"pass_rate must be from 0 to 1, not {pass_rate}"
            raise ValueError(message)
        if self.pass_rate < pass_rate:
            message = f"{self.passed} of {len(self.results)} runs passed, fewer than {pass_rate:.0%}\n{self.table()}"
            raise AssertionError(message)
        return self

    def table(self) -> str:
        """The results as text: one line for each run, and a line with the sums."""
        rows = [_row(result) for result in self.results]
        widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) + f"  {row[4]}"
            for row in rows
        ]
        cost = "" if self.cost is None else f", ${self.cost:.4f}"
        sums = f"{self.passed} of {len(self.results)} passed, {self.total_tokens} tokens{cost}"
        return "\n".join([*(line.rstrip() for line in lines), sums])

    def __repr__(self) -> str:
        """The class with the number of runs that passed."""
        return f"Report({self.passed} of {len(self.results)} passed)"

    def __str__(self) -> str:
        """The table."""
        return self.table()

    def _repr_html_(self) -> str:
        from turntree.notebook._page import ENTRIES, Page

        page = Page()
        page.add("<table><tr><th>result</th><th>case</th><th>time</th><th>tokens</th><th>reason</th></tr>")
        for result in self.results[:ENTRIES]:
            page.add("<tr>", *(f"<td>{page.line(cell, 400)}</td>" for cell in _row(result)), "</tr>")
        page.add("</table>")
        page.entries(len(self.results), ENTRIES, "runs")
        return page.html()


def _row(result: CaseResult) -> tuple[str, str, str, str, str]:
    name = result.case.name if result.repeat == 1 else f"{result.case.name} ({result.repeat})"
    tokens = "" if result.turn is None else str(result.turn.usage.total_tokens)
    state = "passed" if result.passed else "FAILED"
    return state, name, f"{result.seconds:.2f} s", tokens, " ".join(result.reason.split())


async def evaluate(
    agent: Agent,
    dataset: Dataset | Iterable[Case | Mapping[str, Any]],
    *,
    judges: Iterable[Judge] = (),
    concurrency: int = 8,
    repeats: int = 1,
    on_result: Callable[[CaseResult], None] | None = None,
    **options: Unpack[RunOptions[Any]],
) -> Report:
    """Run an agent on every case, and check the answers.

    A run that fails is a result that did not pass; it does not stop the others.

    Args:
        agent: The agent, or any object whose async ``run(input)`` returns a turn.
        dataset: The cases.
        judges: Further checks of each turn.
        concurrency: How many runs are in progress at the same time.
        repeats: How often each case runs.
        on_result: Called after each run, for example to show progress.
        **options: The options of each run, as for `Agent.run`: ``deps=``, ``model=``, ``timeout=`` and so on.

    Raises:
        ValueError: `concurrency` or `repeats` is less than 1, or an option is invalid.
        TypeError: `agent` has no method ``run``, an item of the dataset is not a case, or an option is unknown.
    """
    if not callable(getattr(agent, "run", None)) or isinstance(agent, type):
        message = f"evaluate takes an agent, or an object with an async run(input), not {type(agent).__name__}"
        raise TypeError(message)
    native_options("evaluate", options)
    for name, value in (("concurrency", concurrency), ("repeats", repeats)):
        if not isinstance(cast("object", value), int) or isinstance(value, bool):
            message = f"{name} must be an int, not {type(value).__name__}"
            raise TypeError(message)
        if value < 1:
            message = f"{name} must be at least 1, not {value}"
            raise ValueError(message)
    cases = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
    if callable(judges):
        message = "judges must be a list; put a single one into brackets"
        raise TypeError(message)
    deciders = list(judges)
    for place, decider in enumerate(deciders):
        if not callable(decider):
            message = f"judges[{place}] must be a function of a case and a turn, not {type(decider).__name__}"
            if isinstance(decider, Agent):
                message += '; write judge("the criterion", agent)'
            raise TypeError(message)
    free = asyncio.Semaphore(concurrency)

    async def run(case: Case, repeat: int) -> CaseResult:
        async with free:
            result = await _run_case(agent, case, repeat, deciders, options)
        if on_result is not None:
            on_result(result)
        return result

    tasks = [asyncio.ensure_future(run(case, repeat)) for case in cases for repeat in range(1, repeats + 1)]
    try:
        return Report(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


def evaluate_sync(
    agent: Agent,
    dataset: Dataset | Iterable[Case | Mapping[str, Any]],
    *,
    judges: Iterable[Judge] = (),
    concurrency: int = 8,
    repeats: int = 1,
    on_result: Callable[[CaseResult], None] | None = None,
    **options: Unpack[RunOptions[Any]],
) -> Report:
    """Like `evaluate`, for code without an event loop.

    Raises:
        RuntimeError: An event loop runs on this thread; await `evaluate` there.
    """
    native_options("evaluate_sync", options)
    return asyncio.run(
        evaluate(
            agent, dataset, judges=judges, concurrency=concurrency, repeats=repeats, on_result=on_result, **options
        )
    )


async def _run_case(
    agent: Agent, case: Case, repeat: int, judges: Sequence[Judge], options: RunOptions[Any]
) -> CaseResult:
    start = time.perf_counter()
    try:
        turn = await agent.run(case.input, **options)
    except Exception as error:
        return CaseResult(case, repeat, None, error, (), time.perf_counter() - start)
    seconds = time.perf_counter() - start
    verdicts = case.check(turn)
    try:
        for decide in judges:
            decision = decide(case, turn)
            if inspect.isawaitable(decision):
                decision = await decision
            verdicts.append(_verdict(decision, decide))
    except Exception as error:
        return CaseResult(case, repeat, turn, error, tuple(verdicts), seconds)
    return CaseResult(case, repeat, turn, None, tuple(verdicts), seconds)


def _verdict(decision: object, decide: Judge) -> Verdict:
    name = getattr(decide, "__name__", type(decide).__name__)
    if isinstance(decision, Verdict):
        return decision
    if isinstance(decision, bool):
        return Verdict(decision, "" if decision else "not accepted", name)
    message = f"the judge {name} must return a Verdict or a bool, not {type(decision).__name__}"
    raise TypeError(message)
