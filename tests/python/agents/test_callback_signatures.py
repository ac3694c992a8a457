"""Functions with wrong parameters, and contexts of other libraries in tools: errors say how the function is called."""

import functools
import types
from typing import Annotated

import pytest

from turntree import (
    AgentHooks,
    ApprovalRequired,
    ModelRetry,
    RunContext,
    ToolContext,
    agent,
    execution,
    handoff,
    middleware,
    session,
)
from turntree.upp import ToolUseStrategy, llm, scripted, tool

CALL = {"toolName": "look_up", "arguments": {"place": "Rome"}}


def helper(*, says=("ok",), **options):
    return agent(model=scripted(list(says)), name="helper", **options)


def foreign(name, module):
    """A class of another library, which need not be installed."""
    return types.new_class(name, exec_body=lambda namespace: namespace.update(__module__=module))


class Toolset:
    def tools(self):
        return []


class Log:
    name = "log"

    def before(self, request, handler):
        pass


def decide(context, call):
    return True


CALLBACKS = {
    "on_approval of an agent": (
        lambda: helper(on_approval=decide),
        r"^on_approval of agent is called with \(call\), which decide\(context, call\) does not take; "
        r"write `def decide\(call\)`$",
    ),
    "on_approval of a run": (
        lambda: helper().run_sync("x", on_approval=lambda: True),
        r"^on_approval of Agent\.run_sync",
    ),
    "on_approval of a session": (lambda: session(helper(), on_approval=decide), "^on_approval of the session"),
    "approval of a tool": (lambda: tool(approval=decide)(len), "^approval of the tool 'len' is called with"),
    "system": (lambda: helper(system=lambda: "x"), r"^the function of system= is called .* `lambda context: …`$"),
    "system with an agent": (lambda: helper(system=lambda context, agent: "x"), r"which <lambda>\(context, agent\)"),
    "a hook": (lambda: AgentHooks(on_step_start=lambda state: None), r"^the hook on_step_start is .*\(step, state\)"),
    "a hook of errors": (
        lambda: helper(hooks={"on_error": lambda error: None}),
        r"^the hook on_error .*\(error, state\)",
    ),
    "a hook of tools": (
        lambda: helper(tool_strategy={"on_before_call": lambda call: True}),
        r"^on_before_call of tool_strategy is called with \(tool, params\)",
    ),
    "a name as hook of tools": (
        lambda: ToolUseStrategy(on_tool_call="x"),
        "on_tool_call of tool_strategy must be a func",
    ),
    "a rule": (
        lambda: middleware.guardrails(input=lambda context, agent, text: None),
        r"^a rule is called with \(text\)",
    ),
    "a toolset": (lambda: helper(tools=[Toolset()]), r"^tools of the toolset Toolset .* `def tools\(self, context\)`$"),
    "a middleware": (
        lambda: helper(middleware=[Log()]),
        r"^before of middleware\[0\] is called with \(context\), .* `def before\(self, context\)`$",
    ),
    "a filter": (lambda: handoff(helper(), input_filter=decide), r"^input_filter of handoff\(\) is called"),
    "a choice of agents": (
        lambda: execution.route(lambda: helper()),
        r"^choose of route\(\) is called with \(context\)",
    ),
    "a choice of strategies": (
        lambda: execution.select(lambda: None),
        r"^choose of select\(\) is called with \(context\)",
    ),
    "parameters by name": (lambda: helper(on_approval=_by_name), r"_by_name\(call, \*, user\) does not take"),
    "a partial function": (
        lambda: helper(on_approval=functools.partial(decide, 1, 2)),
        r"^on_approval of agent is called with \(call\)",
    ),
}


def _by_name(call, *, user):
    return True


@pytest.mark.parametrize(("call", "words"), CALLBACKS.values(), ids=CALLBACKS)
def test_a_function_with_the_wrong_parameters_is_refused_where_it_is_given(call, words):
    with pytest.raises(TypeError, match=words):
        call()


class Callable:
    def __call__(self, call):
        return True


@pytest.mark.parametrize(
    "function",
    [
        lambda call: True,
        lambda *arguments: True,
        lambda call, retries=3: True,
        functools.partial(decide, None),
        Callable(),
    ],
)
def test_a_function_that_takes_the_call_is_accepted(function):
    @tool(approval="ask")
    def look_up(place: str) -> str:
        "Look up."
        return place

    turn = helper(says=[CALL, "ok"], tools=[look_up], on_approval=function).run_sync("x")

    assert turn.tool_executions[0].result == "Rome"


def test_an_approval_without_an_answer_is_refused():
    @tool(approval="ask")
    def look_up(place: str) -> str:
        "Look up."
        return place

    with pytest.raises(TypeError, match=r'on_approval must return True, False, "ask" or a dict .*, not NoneType'):
        helper(says=[CALL, "ok"], tools=[look_up]).run_sync("x", on_approval=lambda call: None)
    with pytest.raises(ApprovalRequired):
        helper(says=[CALL, "ok"], tools=[look_up]).run_sync("x", on_approval=lambda call: "ask")


def test_a_validator_with_the_wrong_parameters_or_a_bool_is_refused():
    def context_alone(context: RunContext):
        pass

    def reversed_order(value: str, context: RunContext[int]):
        pass

    with pytest.raises(TypeError, match=r"takes the context alone; write `def context_alone\(context, value\)`$"):
        helper(output_validators=[context_alone])
    with pytest.raises(TypeError, match=r"context first; write `def reversed_order\(context, value\)`$"):
        helper(output_validators=[reversed_order])
    with pytest.raises(TypeError, match=r"returned False; return None or the value .* raise ModelRetry\(text\)"):
        helper(output_validators=[lambda value: len(value) > 9]).run_sync("x")


def test_validators_that_return_nothing_or_the_value_are_accepted():
    def check(context: RunContext, value: str):
        if value == "no":
            raise ModelRetry("Say yes.")

    turn = helper(says=["no", "yes"], output_validators=[check, lambda value: value]).run_sync("x")

    assert turn.text == "yes"


CONTEXTS = {
    "RunContext of turntree": (
        RunContext,
        "has the type RunContext, which toolsets, system= and output_validators receive",
    ),
    "RunContext[Deps] of turntree": (RunContext[int], "has the type RunContext, which toolsets"),
    "Pydantic AI": (foreign("RunContext", "pydantic_ai._run_context"), "has the type RunContext of pydantic_ai"),
    "the OpenAI Agents SDK": (
        foreign("RunContextWrapper", "agents.run_context"),
        "has the type RunContextWrapper of agents",
    ),
    "Google ADK": (foreign("ToolContext", "google.adk.tools.tool_context"), "has the type ToolContext of google"),
    "agno": (foreign("RunContext", "agno.run"), "has the type RunContext of agno"),
    "LangChain": (
        foreign("RunnableConfig", "langchain_core.runnables.config"),
        "has the type RunnableConfig of langchain_core",
    ),
    "LangGraph": (
        Annotated[dict, foreign("InjectedState", "langgraph.prebuilt.tool_node")()],
        "has the type InjectedState of langgraph",
    ),
    "a text": ("shop.RunContext[int]", "has the type RunContext; write"),
}


@pytest.mark.parametrize(("annotation", "words"), CONTEXTS.values(), ids=CONTEXTS)
def test_a_context_of_another_library_is_no_argument_of_the_model(annotation, words):
    def look_up(ctx, place: str) -> str:
        "Look up."
        return place

    look_up.__annotations__["ctx"] = annotation

    with pytest.raises(TypeError, match=rf"^parameter 'ctx' of tool 'look_up' {words}.*ctx: turntree\.ToolContext"):
        helper(says=[CALL, "ok"], tools=[look_up]).run_sync("x")
    with pytest.raises(TypeError, match=rf"^parameter 'ctx' of tool 'look_up' {words}"):
        llm(model=scripted([CALL, "ok"]), tools=[look_up])


def test_a_context_without_an_annotation_is_no_argument_of_the_model():
    def look_up(ctx, place: str) -> str:
        "Look up."
        return place

    with pytest.raises(
        TypeError, match=r"^parameter 'ctx' of tool 'look_up' has no annotation: write ctx: turntree\.Too"
    ):
        helper(says=[CALL, "ok"], tools=[look_up]).run_sync("x")


def test_the_context_of_turntree_and_own_classes_are_accepted():
    import dataclasses

    @dataclasses.dataclass
    class Context:
        user: str

    def look_up(context: Context, call: ToolContext, place: str) -> str:
        "Look up."
        return f"{context.user} {place} {call.deps}"

    given = {"toolName": "look_up", "arguments": {"place": "Rome", "context": {"user": "Ada"}}}
    turn = helper(says=[given, "ok"], tools=[look_up]).run_sync("x", deps=3)

    assert turn.tool_executions[0].result == "Ada Rome 3"
