"""Strategies that run other agents: one after another, at the same time, or the one that a function chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from turntree import _core
from turntree._agent import Agent
from turntree._callbacks import check_callback
from turntree._reprs import literal
from turntree._strategies import ExecutionContext, ExecutionStrategy
from turntree.exceptions import ApprovalRequired, BudgetExceeded

if TYPE_CHECKING:
    import asyncio

# Maximum numbers of agents in a repr, and of characters of each of them.
_AGENTS = 10
_REPR = 200


class AgentsStrategy(ExecutionStrategy):
    """A strategy that runs other agents: what `sequence`, `parallel` and `route` create.

    Strategies with the same agents and equal options are equal.
    """

    __slots__ = ("agents",)

    # Why an agent with this strategy has no validators, and what to do.
    _where_to_validate = "give the validators to the agent that answers: agent.with_(output_validators=[…])"

    def __init__(self, agents: tuple[Agent[Any, Any], ...]) -> None:
        self.agents: tuple[Agent[Any, Any], ...] = agents

    @property
    def model(self) -> _core.ModelReference | None:
        """The model of the first agent that has one: that of the agent with this strategy, unless it has its own."""
        return next((agent.model for agent in self.agents if agent.model is not None), None)

    def _options(self) -> dict[str, Any]:
        return {"agents": self.agents, **super()._options()}

    def __repr__(self) -> str:
        return f"{self.name}({_shown(self.agents)})"

    def __hash__(self) -> int:
        # Functions for merge= and choose may not be hashable.
        return hash((self.name, self.agents))


class SequenceStrategy(AgentsStrategy):
    """The strategy that `sequence` creates."""

    __slots__ = ()

    name = "sequence"

    async def execute(self, context: ExecutionContext) -> _core.Turn:
        """Run the agents in order; each receives the text of the one before it."""
        turns: list[_core.Turn[Any]] = []
        messages, given = [context.input], context.input
        for agent in self.agents:
            context.state.step += 1
            # The text of the agent before is the input, so it is not in the history.
            history = [*context.history, *messages[:-1]]
            try:
                turn = await _run(context, agent, history, given)
            except BudgetExceeded as error:
                _add_partial(error, turns, messages)
                raise
            turns.append(turn)
            messages = [*messages, *turn.messages[1:]]
            context.state.messages = messages
            given = _core.UserMessage(turn.text)
        return _joined(turns, messages, data=turns[-1].data)


class ParallelStrategy(AgentsStrategy):
    """The strategy that `parallel` creates."""

    __slots__ = ("merge",)

    name = "parallel"
    _where_to_validate = "give the validators to these agents, or check their turns in merge="

    def __init__(
        self, agents: tuple[Agent[Any, Any], ...], merge: Callable[[list[_core.Turn[Any]]], Any] | None
    ) -> None:
        super().__init__(agents)
        self.merge: Callable[[list[_core.Turn[Any]]], Any] | None = merge

    def __repr__(self) -> str:
        merge = "" if self.merge is None else f", merge={literal(self.merge)}"
        return f"{self.name}({_shown(self.agents)}{merge})"

    async def execute(self, context: ExecutionContext) -> _core.Turn:
        """Run all agents on the input, and merge their turns."""
        import asyncio
        import inspect

        context.state.step = 1
        tasks = [
            asyncio.ensure_future(_run(context, agent, context.history, context.input, shows_text=False))
            for agent in self.agents
        ]
        try:
            turns = await _all(tasks)
        except BudgetExceeded as error:
            ended = [
                (agent, task.result())
                for agent, task in zip(self.agents, tasks, strict=True)
                if task.done() and not task.cancelled() and task.exception() is None
            ]
            _add_partial(error, [turn for _, turn in ended], [context.input, _core.AssistantMessage(_texts(ended))])
            raise
        finally:
            # After an error the other runs end before the strategy does.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        merged = _texts(zip(self.agents, turns, strict=True)) if self.merge is None else self.merge(turns)
        if inspect.isawaitable(merged):
            merged = await merged
        if not isinstance(merged, str):
            message = f"merge must return the text of the answer, not {type(merged).__name__}"
            raise TypeError(message)
        await context.emit(cast("Any", _core.StreamEvent)("text_delta", 0, {"text": merged}))
        context.state.messages = [context.input, _core.AssistantMessage(merged)]
        return _joined(turns, context.state.messages)


class RouteStrategy(AgentsStrategy):
    """The strategy that `route` creates."""

    __slots__ = ("choose",)

    name = "route"

    def __init__(self, choose: Callable[[ExecutionContext], Any], agents: tuple[Agent[Any, Any], ...]) -> None:
        super().__init__(agents)
        self.choose: Callable[[ExecutionContext], Any] = choose

    def __repr__(self) -> str:
        return f"{self.name}({literal(self.choose)}, [{_shown(self.agents)}])"

    async def execute(self, context: ExecutionContext) -> _core.Turn:
        """Run the chosen agent and return its turn."""
        import inspect

        chosen = self.choose(context)
        if inspect.isawaitable(chosen):
            chosen = await chosen
        context.state.step = 1
        turn = await _run(context, self._found(chosen), context.history, context.input)
        context.state.messages = [*turn.messages]
        return turn

    def _found(self, chosen: Any) -> Agent[Any, Any]:
        names = [agent.name for agent in self.agents]
        if isinstance(chosen, str) and chosen in names:
            return self.agents[names.index(chosen)]
        if isinstance(chosen, str):
            message = f"choose returned {chosen!r}, which is no name of agents=[{', '.join(map(repr, names))}]"
            raise ValueError(message)
        return _checked((chosen,), "the result of choose")[0]


def sequence(first: Agent[Any, Any], *more: Agent[Any, Any]) -> SequenceStrategy:
    """Run agents one after another: ``agent(execution=sequence(researcher, writer))``.

    The first agent answers the input. Each of the others receives the conversation so far, with the text of the agent
    before it as its input. The turn has the input and the responses of all of them; ``turn.data`` is that of the last
    one, as plain data, or as ``structure=`` of the agent with this strategy says.

    Args:
        first: An agent.
        *more: As `first`.

    Raises:
        TypeError: An argument is not an agent.
    """
    return SequenceStrategy(_checked((first, *more), "each argument of sequence"))


def parallel(
    first: Agent[Any, Any], *more: Agent[Any, Any], merge: Callable[[list[_core.Turn[Any]]], Any] | None = None
) -> ParallelStrategy:
    """Run agents at the same time on one input: ``agent(execution=parallel(one, other, merge=best))``.

    The turn has the input and the merged text. A stream has the events of the agents without their text, then the
    merged text. If an agent fails, the others are cancelled.

    Args:
        first: An agent.
        *more: As `first`.
        merge: A function, sync or async, that takes the turns in the order of the agents and returns the text of the
            answer. Default: the texts, each after the name of its agent.

    Raises:
        TypeError: An argument is not an agent, or `merge` is not a function.
    """
    agents = _checked((first, *more), "each argument of parallel")
    if merge is not None and not callable(merge):
        message = f"merge must be a function, not {type(merge).__name__}"
        raise TypeError(message)
    return ParallelStrategy(agents, merge)


def route(choose: Callable[[ExecutionContext], Any], agents: Sequence[Agent[Any, Any]] = ()) -> RouteStrategy:
    """Choose the agent that answers, for each run: ``agent(execution=route(pick, [sales, support]))``.

    Args:
        choose: A function, sync or async, that takes the context and returns an agent, or the name of one of `agents`.
        agents: Agents that `choose` can name. The agent that has this strategy gets the model of the first of them.

    Raises:
        TypeError: `choose` is not a function, or an item of `agents` is not an agent.
        ValueError: Two of `agents` have one name.
    """
    if not callable(choose):
        message = f"choose must be a function, not {type(choose).__name__}"
        raise TypeError(message)
    check_callback("choose of route()", choose, ("context",))
    named = [agent.name for agent in _checked(tuple(agents), "each item of agents") if agent.name is not None]
    double = next((name for name in named if named.count(name) > 1), None)
    if double is not None:
        message = f"two agents are named {double!r}, and choose could not name one of them; rename one"
        raise ValueError(message)
    return RouteStrategy(choose, tuple(agents))


def _shown(agents: tuple[Agent[Any, Any], ...]) -> str:
    more = [f"… {len(agents) - _AGENTS} more"] if len(agents) > _AGENTS else []
    return ", ".join([*(literal(agent, _REPR) for agent in agents[:_AGENTS]), *more])


def _checked(agents: tuple[Any, ...], what: str) -> tuple[Agent[Any, Any], ...]:
    for agent in agents:
        if not isinstance(agent, Agent):
            message = f"{what} must be an Agent, not {type(agent).__name__}"
            if isinstance(agent, (list, tuple)) and "argument" in what:
                message += f"; write {what.split()[-1]}(*agents)"
            raise TypeError(message)
    return agents


async def _all(tasks: Sequence[asyncio.Future[_core.Turn[Any]]]) -> list[_core.Turn[Any]]:
    """Return the turns of runs. An error ends the wait; a run that waits for an approval ends it after the others."""
    import asyncio

    pending = set(tasks)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            error = task.exception()
            if error is not None and not isinstance(error, ApprovalRequired):
                raise error
    return [task.result() for task in tasks]


async def _run(
    context: ExecutionContext, agent: Agent[Any, Any], history: Any, given: Any, *, shows_text: bool = True
) -> _core.Turn[Any]:
    """Run an agent with the dependencies of the run, and pass on its events if the run is streamed."""
    deps = context._native.deps
    options: dict[str, Any] = {} if deps is None else {"deps": deps}
    if not context._native.is_streamed:
        return await agent.run(history, given, **options)
    async with agent.stream(history, given, **options) as stream:
        async for event in stream:
            if shows_text or event.uap is not None:
                await context.emit(event)
        return await stream.turn


def _joined(turns: Sequence[_core.Turn[Any]], messages: Sequence[Any], *, data: Any = None) -> _core.Turn[Any]:
    """Return one turn with these messages, and the records and the usage of all turns.

    The run adds the usage of each agent by name.
    """
    parts = [turn.model_dump(mode="json") for turn in turns]
    usages = [part["usage"] for part in parts]
    for usage in usages:
        usage.pop("byAgent", None)
    joined: dict[str, Any] = {
        "messages": [message.model_dump(mode="json") for message in messages],
        "toolExecutions": [record for part in parts for record in part["toolExecutions"]],
        "usage": _sum(usages),
        "cycles": sum(part["cycles"] for part in parts),
    }
    if data is not None:
        joined["data"] = parts[-1].get("data")
    return _core.Turn.model_validate(joined)


def _texts(turns: Iterable[tuple[Agent[Any, Any], _core.Turn[Any]]]) -> str:
    return "\n\n".join(f"{agent.name or agent.id}: {turn.text}" for agent, turn in turns)


def _add_partial(error: BudgetExceeded, turns: Sequence[_core.Turn[Any]], messages: Sequence[Any]) -> None:
    """Put the turns of the agents that have ended, and their messages, before the incomplete turn of an error."""
    last = error.partial
    if turns:
        more = [] if last is None else last.messages[1:]
        error.partial = _joined([*turns, *([] if last is None else [last])], [*messages, *more])


def _sum(usages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add records of usage, member by member."""
    total: dict[str, Any] = {}
    for usage in usages:
        for name, value in usage.items():
            if isinstance(value, list):
                total[name] = [*total.get(name, []), *cast("list[Any]", value)]
            elif isinstance(value, (int, float)):
                total[name] = total.get(name, 0) + value
            else:
                total.setdefault(name, value)
    return total
