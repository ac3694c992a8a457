"""Static types of the middleware of agents. Checked, never run."""

import logging as stdlib
import re
from typing import Any

from typing_extensions import assert_type

from turntree import (
    Agent,
    AgentStreamEvent,
    BudgetExceeded,
    GuardrailError,
    Session,
    agent,
)
from turntree.middleware import (
    AgentMiddleware,
    GuardrailRule,
    Middleware,
    MiddlewareContext,
    budget,
    guardrails,
    logging,
    memory,
    rule,
)
from turntree.upp import Message, ModelRequest, Turn, UserMessage, llm, scripted


class Everything:
    name = "everything"

    def before(self, context: MiddlewareContext) -> MiddlewareContext | None:
        assert_type(context.agent, Agent)
        assert_type(context.input, Message)
        assert_type(context.history, list[Message])
        assert_type(context.metadata, dict[str, Any])
        assert_type(context.session, Session | None)
        context.input = "other"
        context.history = context.history[-3:]
        context.agent = context.agent  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
        return context.replace(input="other", history=[UserMessage("hi")])

    async def after(self, context: MiddlewareContext, turn: Turn) -> Turn:
        return turn

    def on_error(self, context: MiddlewareContext, error: Exception) -> Turn | None:
        if isinstance(error, BudgetExceeded):
            assert_type(error.resource, str)
            assert_type(error.limit, float)
            assert_type(error.spent, float)
            return error.partial
        if isinstance(error, GuardrailError):
            assert_type(error.rule, str)
            assert_type(error.text, str)
        return None

    async def on_event(self, context: MiddlewareContext, event: AgentStreamEvent) -> None: ...

    def on_model_request(self, context: MiddlewareContext, request: ModelRequest) -> list[Message]:
        return request.messages[-4:]


async def later(text: str) -> bool:
    return bool(text)


def options(helper: Agent) -> None:
    assert_type(logging(), AgentMiddleware)
    logging("debug", stdlib.getLogger("mine"), include_messages=True, include_timing=False)
    logging(logger=print)
    assert_type(rule("x", action="rewrite", replacement="y"), GuardrailRule)
    assert_type(guardrails("x", [re.compile("y"), later, str.isascii, {"type": "object"}, rule("z")]), AgentMiddleware)
    assert_type(memory(max_tokens=8000, counter=len, summarize=helper), AgentMiddleware)
    memory(max_turns=3, summarize=llm(model=scripted([])))
    memory(max_turns=3, summarize=lambda text: text[:10], overflow="send")
    memory(max_turns=3, overflow="drop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(budget(tokens=1, cost=0.5, steps=3, seconds=1.5, per="session"), AgentMiddleware)
    budget(tokens=1, per="week")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    made = agent(model=scripted([]), middleware=[Everything(), logging(), guardrails("x")])
    assert_type(made.middleware, tuple[Middleware, ...])
    made.with_(middleware=[budget(steps=1)])
    agent(middleware=3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
