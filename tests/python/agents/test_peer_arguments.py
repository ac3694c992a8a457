"""Arguments of other libraries in functions beside `agent`: each error names what to write instead."""

import inspect

import pytest

from turntree import _argument_errors, _peer_arguments, agent, execution, handoff, mcp, middleware, session, store
from turntree.upp import llm, openai, scripted, tool


def helper(**options):
    return agent(model=scripted(["ok"] * 3), name="helper", **options)


def model(**options):
    return llm(model=scripted(["ok"]), **options)


def run(**options):
    return helper().run_sync("x", **options)


def run_session(**options):
    return session(helper()).run_sync("x", **options)


CALLS = [
    (helper, "recursion_limit", 3, r"execution=loop\(max_iterations=…\)"),
    (helper, "context", {}, "deps=…"),
    (helper, "seed", 1, r'params=\{"seed": …\}'),
    (helper, "instruction", "x", "system="),
    (helper, "markdown", True, r"print\(turn\.text\)"),
    (helper, "handoff_description", "x", r"handoff\(agent, description\)"),
    (helper, "prepare_tools", None, "toolset"),
    (helper, "max_retries", 3, r"openai\(…, max_retries=…\)"),
    (helper, "fallbacks", [], r"turntree\.models\.fallback"),
    (helper, "interrupt_after", [], 'approval="ask"'),
    (run, "config", {"configurable": {"thread_id": "a"}}, r"turntree\.session\(agent, id=…\)"),
    (run, "thread_id", "a", r"turntree\.session\(agent, id=…\)"),
    (run, "context", {}, "deps="),
    (run, "session_id", "a", r"turntree\.session\(agent, id=…\)"),
    (run, "user_id", "a", "metadata=…"),
    (run, "stream", True, r"agent\.stream\(input\)"),
    (run, "temperature", 1, r'params=\{"temperature": …\}'),
    (run, "seed", 1, r'params=\{"seed": …\}'),
    (run, "recursion_limit", 3, r"Limits\(requests=…\)"),
    (run, "input_guardrails", [], r"turntree\.middleware\.guardrails"),
    (run, "tags", [], "metadata="),
    (run, "max_retries", 3, r"openai\(…, max_retries=…\)"),
    (run_session, "config", {"configurable": {"thread_id": "a"}}, "the thread is the session itself"),
    (run_session, "memory", None, "persistence=…"),
    (run_session, "stream", True, r"session\.stream\(input\)"),
    (session, "thread_id", "a", "id="),
    (session, "config", {"configurable": {"thread_id": "a"}}, "id="),
    (session, "user_id", "a", r'metadata=, a dict such as \{"user_id": …\}'),
    (session, "history", [], r"agent\.run\(history, input\)"),
    (session, "db_path", "x.db", 'persistence=, such as "sqlite:///sessions.db"'),
    (session, "max_turns", 3, r"Limits\(requests=…\)"),
    (session, "deps", {}, r"run\(input, deps=…\)"),
    (session, "output_type", int, "option of the agent"),
    (session, "num_history_runs", 3, r"turntree\.middleware\.memory\(max_turns=…\)"),
    (model, "retries", 3, "structure_repair="),
    (model, "max_turns", 3, r"ToolUseStrategy\(max_iterations=…\)"),
    (model, "timeout", 3, r"openai\(…, timeout=…\)"),
    (model, "messages", [], r"generate\(history, input\)"),
    (model, "stream", True, r"llm\.stream\(input\)"),
    (model, "checkpointer", None, "keeps no conversation"),
    (model, "hooks", None, r"turntree\.agent\(hooks=…\)"),
    (model, "temperature", 1, r'params=\{"temperature": …\}'),
    (tool, "strict_mode", True, "metadata="),
    (tool, "is_enabled", True, "toolset"),
    (tool, "failure_error_function", None, "ModelRetry"),
    (tool, "parse_docstring", True, "leave it out"),
    (tool, "requires_user_input", True, 'approval="ask"'),
    (tool, "stop_after_tool_call", True, "stop_condition"),
    (tool, "hooks", [], "ToolUseStrategy"),
    (handoff, "tool_name_override", "x", "write tool_name="),
    (handoff, "tool_description_override", "x", r"handoff\(agent, description\)"),
    (handoff, "on_handoff", print, "on_before_call=…"),
    (handoff, "input_type", int, "no arguments"),
    (mcp.stdio, "args", ["-y"], r"mcp\.stdio\(command, \*args\)"),
    (mcp.stdio, "params", {}, r"mcp\.stdio\(command, \*args\)"),
    (mcp.stdio, "client_session_timeout_seconds", 3, "write timeout="),
    (mcp.http, "cache_tools_list", True, "leave it out"),
    (mcp.http, "tool_filter", None, "write allow="),
    (mcp.http, "require_approval", "always", "on_before_call=…"),
    (mcp.http, "env", {}, r"mcp\.stdio"),
    (helper().to_tool, "tool_name", "x", "write name="),
    (helper().to_tool, "tool_description", "x", "write description="),
    (middleware.memory, "k", 3, "write max_turns="),
    (middleware.guardrails, "input_guardrails", [], "write input="),
    (middleware.rule, "pattern", "x", "comes first"),
    (middleware.logging, "log_level", "info", "write level="),
    (openai, "seed", 1, r'agent\(model=…, params=\{"seed": …\}\)'),
    (openai, "response_format", int, "structure="),
    (store.sqlite, "db_path", "x.db", r"sqlite\(path\)"),
    (store.postgres, "pool_size", 3, "write max_connections="),
    (store.redis, "ttl", 3, r"await store\.prune\(…\)"),
    (execution.loop, "recursion_limit", 3, "max_iterations="),
]
FIRST = {session: helper, handoff: helper, mcp.stdio: "npx", mcp.http: "http://127.0.0.1:1/mcp", openai: "gpt-5"}


def name_of(function):
    return getattr(function, "__qualname__", type(function).__name__)


@pytest.mark.parametrize(
    ("function", "argument", "value", "words"), CALLS, ids=[f"{name_of(one[0])}({one[1]}=)" for one in CALLS]
)
def test_an_argument_of_another_library_is_explained(function, argument, value, words):
    first = FIRST.get(function, ())
    arguments = () if first == () else (first() if callable(first) else first,)

    with pytest.raises(TypeError, match=rf"\w+\(\) has no argument '{argument}': .*{words}"):
        function(*arguments, **{argument: value})


def test_a_map_explains_its_arguments():
    for argument in ("max_concurrency", "batch_size", "n_jobs"):
        with pytest.raises(TypeError, match=rf"^Agent\.map\(\) has no argument '{argument}': write concurrency=$"):
            helper().map(["a"], **{argument: 3})


def test_the_arguments_of_a_program_are_no_list():
    with pytest.raises(TypeError, match=r"mcp\.stdio\(\): args\[0\] is a list; write mcp\.stdio\(command, \*args\)"):
        mcp.stdio("npx", ["-y", "server"])


def test_schemas_of_vendors_are_no_tools():
    for schema in ({"type": "function", "function": {"name": "x"}}, {"name": "x", "input_schema": {}}):
        with pytest.raises(
            TypeError, match=r"not dict; write a function, or Tool\(name, description, schema, function\)"
        ):
            helper(tools=[schema])


def test_no_remedy_is_about_an_argument_that_a_function_has():
    tables = {
        "AGENT": agent,
        "HANDOFF": handoff,
        "LLM": llm,
        "LOGGING": middleware.logging,
        "MEMORY": middleware.memory,
        "GUARDRAILS": middleware.guardrails,
        "RULE": middleware.rule,
        "SESSION": session,
        "TOOL": tool,
        "TO_TOOL": helper().to_tool,
    }
    for name, function in tables.items():
        hints = getattr(_peer_arguments, name, None) or getattr(_argument_errors, name)
        parameters = inspect.signature(function).parameters.values()
        shadowed = [one.name for one in parameters if one.kind is not one.POSITIONAL_ONLY and one.name in hints]
        assert shadowed == [], name
        for word, hint in hints.items():
            assert hint.format(name=word)
