"""Errors for arguments that other libraries have and turntree names differently."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, SupportsFloat, SupportsIndex, TypeVar

CallableT = TypeVar("CallableT", bound=Callable[..., Any])

__all__ = [
    "AGENT",
    "BUDGET",
    "HOOKS",
    "LIMITS",
    "PLAN",
    "REACT",
    "RUN",
    "SESSION_RUN",
    "SETTINGS",
    "STRATEGY",
    "TOOL_STRATEGY",
    "explain_arguments",
    "unknown_argument",
]

_STRUCTURE = "pass the type of the answer as structure="
_PARAMS = 'model parameters are those of the vendor: pass params={{"{name}": …}}'

AGENT: dict[str, str] = {
    "instructions": "the instructions of an agent are system=",
    "system_prompt": "the instructions of an agent are system=",
    "prompt": "the instructions of an agent are system=, and the input goes to run()",
    "role": "the instructions of an agent are system=",
    "output_type": _STRUCTURE,
    "result_type": _STRUCTURE,
    "response_model": _STRUCTURE,
    "response_format": _STRUCTURE,
    "output_schema": _STRUCTURE,
    "llm": "the model is model=",
    "model_name": "the model is model=",
    "model_settings": 'model parameters are params=, a dict such as {{"max_tokens": 500}}',
    **dict.fromkeys(
        (
            *("temperature", "max_tokens", "top_p", "top_k", "seed", "stop", "n", "presence_penalty"),
            *("frequency_penalty", "max_output_tokens", "max_completion_tokens", "logit_bias", "extra_body"),
        ),
        _PARAMS,
    ),
    **dict.fromkeys(
        (
            *("instruction", "global_instruction", "static_instruction", "prompt_template", "additional_context"),
            *("expected_output", "introduction", "add_datetime_to_context", "state_modifier", "system_message"),
        ),
        "the instructions of an agent are system=, a text or a function that returns one",
    ),
    "functions": "the tools are tools=",
    "toolsets": "toolsets are among tools=",
    "agents": "other agents are among tools=",
    "sub_agents": "other agents are among tools=",
    "handoffs": "handoffs are among tools=: tools=[handoff(other_agent)]",
    "deps": "the dependencies belong to a run: run(input, deps=…); deps_type= is their type",
    "limits": "the limits belong to a run: run(input, limits=turntree.Limits(…))",
    "usage_limits": "the limits belong to a run: run(input, limits=turntree.Limits(…))",
    "retries": "the retries of output are output_retries=, those of a tool @tool(retries=…)",
    "output_validator": "the validators are output_validators=, a list of functions",
    "memory": "the conversation of a run is a session: turntree.session(agent)",
    **dict.fromkeys(
        ("checkpointer", "persistence", "store", "storage", "db", "checkpoints"),
        "the store belongs to a session: turntree.session(agent, persistence=…)",
    ),
    **dict.fromkeys(
        ("message_history", "history", "messages", "chat_history"),
        "the history belongs to a run: run(history, input); a session keeps it by itself",
    ),
    **dict.fromkeys(("input", "user_prompt"), "the input goes to run(input)"),
    "description": "the description is that of the tool: tools=[agent.to_tool(description=…)], or handoff(agent, …)",
    "dependencies": "the dependencies belong to a run: run(input, deps=…); deps_type= is their type",
    "context_schema": "the dependencies belong to a run: run(input, deps=…); deps_type= is their type",
    **dict.fromkeys(
        ("timeout", "max_execution_time", "run_timeout"), "the time belongs to a run: run(input, timeout=…)"
    ),
    **dict.fromkeys(("context", "runtime_context"), "the object for the functions of a run is run(input, deps=…)"),
    **dict.fromkeys(("budget", "tool_call_limit", "max_tool_calls"), "write run(input, limits=turntree.Limits(…))"),
    **dict.fromkeys(
        ("max_retries", "num_retries"),
        "retries of requests are those of the model: openai(…, max_retries=…); those of output are output_retries=, "
        "and those of a tool @tool(retries=…)",
    ),
    "tool_retries": "the retries of a tool are @tool(retries=…)",
    **dict.fromkeys(("fallbacks", "fallback_models", "fallback_model"), "write model=turntree.models.fallback(…)"),
    **dict.fromkeys(
        ("prepare_tools", "prepare_output_tools", "tool_filter"),
        "tools that come and go are a toolset among tools=: a class with `async def tools(self, context)`",
    ),
    **dict.fromkeys(
        ("tool_use_behavior", "stop_at_tool_names", "return_direct", "end_strategy"),
        "the run ends early with hooks=AgentStrategy(stop_condition=…)",
    ),
    **dict.fromkeys(("handoff_description",), "the description is that of the handoff: handoff(agent, description)"),
    **dict.fromkeys(("agent_id",), "write id="),
    **dict.fromkeys(("agent_name",), "write name="),
    **dict.fromkeys(("metadata", "tags"), "the metadata belong to a run: run(input, metadata=…)"),
    **dict.fromkeys(
        ("markdown", "show_tool_calls", "stream_intermediate_steps", "show_full_reasoning"),
        "an agent prints nothing: write print(turn.text), or read the events of agent.stream(input)",
    ),
    **dict.fromkeys(("model_kwargs", "model_params", "generation_config"), "model parameters are params=, a dict"),
    **dict.fromkeys(("client", "http_client"), 'the connection belongs to the model: openai("…", transport=…)'),
    "provider": 'the provider is in the name of the model: model="openai:gpt-5"',
    **dict.fromkeys(("code_executor", "code_execution"), "tools of vendors are among tools=: turntree.upp.native"),
    **dict.fromkeys(
        ("output_model", "response_schema", "output_cls", "structured_output"),
        _STRUCTURE,
    ),
    **dict.fromkeys(("validators", "result_validators"), "the validators are output_validators=, a list of functions"),
    **dict.fromkeys(
        ("human_in_the_loop", "needs_approval", "require_approval", "requires_approval", "interrupt_after"),
        'calls that wait for a person are @tool(approval="ask")',
    ),
    "max_iter": "the limit belongs to the strategy: execution=loop(max_iterations=…)",
    **dict.fromkeys(("goal", "backstory", "persona"), "the instructions of an agent are system="),
    **dict.fromkeys(("team", "members"), "other agents are among tools="),
    **dict.fromkeys(("builtin_tools", "native_tools"), "tools of vendors are among tools=: turntree.upp.native"),
    **dict.fromkeys(
        (
            *("session_id", "thread_id", "user_id", "app_name", "conversation_id", "num_history_runs"),
            *("num_history_messages", "add_history_to_messages", "add_history_to_context", "read_chat_history"),
            *("enable_user_memories", "enable_agentic_memory"),
        ),
        "the conversation of a run is a session: turntree.session(agent, id=…, metadata=…)",
    ),
    **dict.fromkeys(
        ("history_processors", "pre_model_hook", "before_model_callback", "callbacks", "event_stream_handler"),
        "functions around a run are middleware=, and those of its steps hooks=",
    ),
    **dict.fromkeys(
        ("after_model_callback", "before_agent_callback", "after_agent_callback", "post_model_hook"),
        "functions around a run are middleware=, and those of its steps hooks=",
    ),
    **dict.fromkeys(
        ("before_tool_callback", "after_tool_callback", "tool_hooks"),
        "the hooks of tools are tool_strategy=ToolUseStrategy(…)",
    ),
    **dict.fromkeys(("interrupt_before", "interrupt_on"), 'calls that wait for a person are @tool(approval="ask")'),
    **dict.fromkeys(("instrument", "tracing"), "traces are sent for all agents: see turntree.tracing"),
    **dict.fromkeys(
        ("knowledge", "output_key", "input_schema", "state_schema", "session_state"),
        "agents have none; give the data to a run with run(input, deps=…), and read them in tools",
    ),
    **dict.fromkeys(("debug", "debug_mode"), "add turntree.middleware.logging() to middleware="),
    **dict.fromkeys(("tool_choice", "parallel_tool_calls", "reasoning_effort"), _PARAMS),
    **dict.fromkeys(
        ("generate_content_config", "model_config"),
        'model parameters are params=, a dict such as {{"max_tokens": 500}}',
    ),
    "reasoning": "write settings=ModelSettings(reasoning=…) of turntree.models",
    "planner": "how an agent works is execution=, such as execution=turntree.execution.plan()",
    "stream": "write `async for event in agent.stream(input)`, or `for event in agent.stream_sync(input)`",
    "api_key": 'the key belongs to the model: openai("…", api_key=…), or config=',
    "base_url": 'the URL belongs to the model: openai("…", base_url=…), or config=',
    "max_steps": "the limit belongs to the strategy: execution=loop(max_iterations=…)",
    "recursion_limit": "the limit belongs to the strategy: execution=loop(max_iterations=…)",
    "max_iterations": "the limit belongs to the strategy: execution=loop(max_iterations=…)",
    "max_turns": "the limit belongs to the strategy: execution=loop(max_iterations=…)",
    "verbose": "add turntree.middleware.logging() to middleware=",
    **dict.fromkeys(
        ("guardrails", "input_guardrails", "output_guardrails"),
        "guardrails are middleware: middleware=[turntree.middleware.guardrails(…)]",
    ),
    **dict.fromkeys(
        ("mcp_servers", "mcp"), "MCP servers are among tools=: tools=[turntree.mcp.stdio(…)] or turntree.mcp.http(…)"
    ),
}

_OF_AGENT = "it is an option of the agent: agent.with_({name}=…) is a copy with it"
_ROUNDS = "write limits=turntree.Limits(requests=…), or agent(execution=loop(max_iterations=…))"
_STREAM = "write `async for event in agent.stream(input)`, or `for event in agent.stream_sync(input)`"

RUN: dict[str, str] = {
    **dict.fromkeys(("structure", "tools", "system", "middleware", "execution", "output_validators"), _OF_AGENT),
    **dict.fromkeys(
        ("output_type", "response_model", "result_type", "response_format", "output_schema", "schema"),
        _STRUCTURE.replace("pass", "give the agent"),
    ),
    **dict.fromkeys(
        ("instructions", "system_prompt", "instruction"),
        "the instructions of an agent are system=: agent.with_(system=…) is a copy with others",
    ),
    **dict.fromkeys(
        (
            *("temperature", "max_tokens", "top_p", "top_k", "seed", "stop", "n", "presence_penalty"),
            *("frequency_penalty", "max_output_tokens", "max_completion_tokens", "extra_body"),
        ),
        _PARAMS,
    ),
    **dict.fromkeys(("model_kwargs", "generation_config", "config_overrides"), "model parameters are params=, a dict"),
    **dict.fromkeys(
        ("memory", "checkpointer", "persistence", "store", "storage", "db", "session_service", "conversation"),
        "the conversation is kept by a session: turntree.session(agent, id=…, persistence=…)",
    ),
    **dict.fromkeys(("agent", "starting_agent"), "the agent is the one whose method runs: await agent.run(input)"),
    **dict.fromkeys(
        ("guardrails", "input_guardrails", "output_guardrails"),
        "guardrails are middleware of the agent: agent(middleware=[turntree.middleware.guardrails(…)])",
    ),
    **dict.fromkeys(("handoffs", "agents", "sub_agents"), "other agents are among tools= of the agent"),
    **dict.fromkeys(("tags", "run_name", "run_id"), "write metadata=, a dict"),
    "max_retries": "retries of requests are those of the model: openai(…, max_retries=…)",
    **dict.fromkeys(("max_turns", "max_steps", "max_iterations", "recursion_limit"), _ROUNDS),
    **dict.fromkeys(("toolsets", "functions"), "the tools are those of the agent: agent.with_(tools=[…]) is a copy"),
    **dict.fromkeys(("hooks", "tool_strategy", "on_refusal"), _OF_AGENT),
    **dict.fromkeys(("callbacks", "event_stream_handler"), "read the events: `async for event in agent.stream(input)`"),
    **dict.fromkeys(
        ("images", "audio", "videos", "files"), "media are blocks of the input: run([text, Image.from_url(…)])"
    ),
    **dict.fromkeys(
        ("new_message", "task", "inputs", "message", "query", "question", "content", "user_input"),
        "the input has no name: run(input)",
    ),
    "usage": "the usage is turn.usage; a limit of it is limits=turntree.Limits(…)",
    **dict.fromkeys(("run_config", "stream_mode"), "write the options of the run by name, such as timeout="),
    **dict.fromkeys(("user_id", "conversation_id"), "run a session instead: turntree.session(agent, id=…, metadata=…)"),
    **dict.fromkeys(("session_state", "state_delta"), "the object for the functions of the run is deps="),
    "deferred_tool_results": "decide about calls with session.approve(call), and continue with session.resume()",
    "approval": "calls are approved by on_approval=",
    "retries": "retries are those of the agent and its tools: agent.with_(output_retries=…), @tool(retries=…)",
    **dict.fromkeys(("debug", "verbose"), "add turntree.middleware.logging() to middleware= of the agent"),
    **dict.fromkeys(("tool_choice", "parallel_tool_calls", "reasoning_effort"), _PARAMS),
    "builtin_tools": "the tools are those of the agent: agent.with_(tools=[…]) is a copy",
    "stream": _STREAM,
    "session_id": "run a session instead: turntree.session(agent, id=…)",
    **dict.fromkeys(
        ("on_error", "raise_exceptions", "ignore_errors"), "map(inputs, return_exceptions=True) returns errors"
    ),
    "max_concurrency": "write concurrency=",
    **dict.fromkeys(
        ("max_workers", "batch_size", "n_jobs", "workers", "num_workers", "semaphore", "parallelism"),
        "write concurrency=",
    ),
    **dict.fromkeys(("show_progress", "tqdm", "progress_bar", "on_progress"), "write progress="),
    "limit": "write limits=turntree.Limits(…)",
    "message_history": "the history comes first: run(history, input); a session keeps it by itself",
    "history": "the history comes first: run(history, input); a session keeps it by itself",
    "messages": "the history comes first: run(history, input); a session keeps it by itself",
    "input": "the input has no name: run(input)",
    "prompt": "the input has no name: run(input)",
    "user_prompt": "the input has no name: run(input)",
    "at": "another node of a session is the argument of its run: await session.run(input, at=node)",
    "session": "run the session instead: await session.run(input)",
    "thread_id": "run a session instead: turntree.session(agent, id=…)",
    "usage_limits": "the limits are limits=turntree.Limits(…)",
    "model_settings": 'model parameters are params=, a dict such as {{"max_tokens": 500}}',
    "context": "the object for the functions of the run is deps=",
    "dependencies": "the object for the functions of the run is deps=",
    **dict.fromkeys(
        ("config", "configurable"),
        "a thread is a session: turntree.session(agent, id=…); connection settings are agent(config=…), and "
        "metadata of a run metadata=",
    ),
    **dict.fromkeys(("stream_events", "stream_intermediate_steps", "yield_run_output"), _STREAM),
}

_KEPT = "a session keeps the history by itself: session.run(input)"

SESSION_RUN: dict[str, str] = {
    **RUN,
    **dict.fromkeys(("message_history", "history", "messages"), _KEPT),
    **dict.fromkeys(("session", "conversation"), "the session is the one whose method runs"),
    **dict.fromkeys(
        ("memory", "checkpointer", "persistence", "store", "storage", "db", "session_service"),
        "the store is that of the session: turntree.session(agent, persistence=…)",
    ),
    **dict.fromkeys(
        ("config", "configurable"),
        "the thread is the session itself, whose id is that of turntree.session(agent, id=…); connection settings are "
        "agent(config=…), and metadata of a run metadata=",
    ),
    "thread_id": "the id is that of the session: turntree.session(agent, id=…)",
    "session_id": "the id is that of the session: turntree.session(agent, id=…)",
    **dict.fromkeys(
        ("stream", "stream_events", "stream_intermediate_steps", "yield_run_output"),
        _STREAM.replace("agent.", "session."),
    ),
    **dict.fromkeys(
        ("user_id", "conversation_id"), "the id is that of the session: turntree.session(agent, id=…, metadata=…)"
    ),
    **dict.fromkeys(
        ("callbacks", "event_stream_handler"), "read the events: `async for event in session.stream(input)`"
    ),
}
del SESSION_RUN["at"]

LIMITS: dict[str, str] = {
    **dict.fromkeys(
        ("request_limit", "requests_limit", "recursion_limit", "max_turns", "max_requests", "max_iterations"),
        "write requests=",
    ),
    **dict.fromkeys(("tool_calls_limit", "max_tool_calls", "tool_call_limit"), "write tool_calls="),
    **dict.fromkeys(("total_tokens_limit", "max_tokens", "tokens", "token_limit"), "write total_tokens="),
    **dict.fromkeys(("max_cost", "budget", "max_budget", "usd"), "write cost=, in US dollars"),
    **dict.fromkeys(("timeout", "max_seconds"), "write seconds=, or timeout= of the run"),
    "input_tokens_limit": "write input_tokens=",
    "output_tokens_limit": "write output_tokens=",
    "response_tokens_limit": "write output_tokens=",
    "request_tokens_limit": "write input_tokens=",
}

SETTINGS: dict[str, str] = {
    **dict.fromkeys(("max_output_tokens", "max_completion_tokens", "maxtokens", "max_new_tokens"), "write max_tokens="),
    **dict.fromkeys(("stop_sequences", "stop_sequence"), "write stop="),
    **dict.fromkeys(("reasoning_effort", "effort", "thinking", "thinking_budget"), "write reasoning="),
    "presence_penalty": "parameters of one vendor are params=",
    "frequency_penalty": "parameters of one vendor are params=",
    "top_k": "parameters of one vendor are params=",
}

STRATEGY: dict[str, str] = {
    **dict.fromkeys(
        ("max_steps", "max_turns", "steps", "recursion_limit", "max_rounds"), "the limit of loop() is max_iterations="
    ),
    "max_iterations": "the limit of react() is max_steps=, that of plan() max_plan_steps=",
    "prompt": "the prompt of react() is reasoning_prompt=",
}

# The limits of plan() and react() have other names than that of loop().
_OTHER_LIMITS = ("max_turns", "max_iterations", "steps", "recursion_limit", "max_rounds")
PLAN: dict[str, str] = {
    **STRATEGY,
    **dict.fromkeys((*_OTHER_LIMITS, "max_steps"), "the limit of plan() is max_plan_steps="),
}
REACT: dict[str, str] = {**STRATEGY, **dict.fromkeys(_OTHER_LIMITS, "the limit of react() is max_steps=")}

TOOL_STRATEGY: dict[str, str] = {
    **dict.fromkeys(("retries", "max_retries"), "the retries of a tool are @tool(retries=…)"),
    **dict.fromkeys(("max_turns", "max_rounds", "max_steps"), "write max_iterations="),
}

BUDGET: dict[str, str] = {
    **dict.fromkeys(("max_cost", "usd", "dollars"), "write cost=, in US dollars"),
    **dict.fromkeys(("max_tokens", "total_tokens"), "write tokens="),
    **dict.fromkeys(("max_steps", "requests", "max_turns"), "write steps="),
    **dict.fromkeys(("timeout", "max_seconds"), "write seconds="),
}

HOOKS: dict[str, str] = {
    **dict.fromkeys(("on_start", "on_agent_start", "on_llm_start", "before_model"), "write on_step_start="),
    **dict.fromkeys(("on_end", "on_agent_end", "on_finish"), "write on_complete="),
    **dict.fromkeys(
        ("on_tool_start", "on_tool_end", "on_tool_call"), "the hooks of tools are tool_strategy=ToolUseStrategy(…)"
    ),
    "on_handoff": "other agents are tools: the hooks of tools are tool_strategy=ToolUseStrategy(…)",
}

# Keywords of native classes, by class.
_CLASSES: dict[str, dict[str, str]] = {
    "ToolCall": {
        **dict.fromkeys(("id", "call_id"), "write tool_call_id="),
        "name": "write tool_name=",
        **dict.fromkeys(("args", "input", "params"), "write arguments=, a dict"),
    },
    "ToolResult": {
        **dict.fromkeys(("id", "call_id"), "write tool_call_id="),
        **dict.fromkeys(("content", "output"), "write result="),
    },
    **{
        name: {
            "role": "the class is the role: UserMessage(content) or AssistantMessage(content)",
            **dict.fromkeys(("text", "parts"), "write content="),
        }
        for name in ("UserMessage", "AssistantMessage")
    },
    **{
        name: {
            **({"url": f"write {name}.from_url(url)"} if name in ("Image", "Document") else {}),
            "path": f"write {name}.from_path(path)",
            **dict.fromkeys(("media_type", "type"), "write mime_type="),
        }
        for name in ("Image", "Document", "Audio", "Video")
    },
    "TokenUsage": {
        **dict.fromkeys(("input", "prompt_tokens", "request_tokens"), "write input_tokens="),
        **dict.fromkeys(("output", "completion_tokens", "response_tokens"), "write output_tokens="),
        "total": "write total_tokens=",
    },
    "ExponentialBackoff": dict.fromkeys(("max_retries", "retries"), "write max_attempts="),
}


# Flags of code objects, as in `inspect.CO_VARARGS` and `inspect.CO_VARKEYWORDS`.
_TAKES_POSITIONS = 0x04
_TAKES_KEYWORDS = 0x08


def explain_arguments(
    hints: Mapping[str, str], options: frozenset[str] | None = None
) -> Callable[[CallableT], CallableT]:
    """Decorate a function: an unknown keyword raises TypeError with what to write instead.

    A TypeError about an argument of another type than its annotation (`str`, `int`, `float` or `bool`) names the
    function and the argument.

    Args:
        hints: The remedies by keyword.
        options: The keywords of a function that takes them as ``**options``.
    """

    def decorate(function: CallableT) -> CallableT:
        # The code object tells all of it; `inspect` would be about a tenth of the time of `import turntree`.
        code = function.__code__
        places = code.co_argcount
        named = set(code.co_varnames[code.co_posonlyargcount : places + code.co_kwonlyargcount])
        named |= options or frozenset()
        known = sorted(named - {"self"})
        name = function.__qualname__.removesuffix(".__init__")
        by_place = places - ("self" in code.co_varnames[:1])
        takes_any = bool(code.co_flags & _TAKES_KEYWORDS) and options is None
        takes_more = bool(code.co_flags & _TAKES_POSITIONS)

        @functools.wraps(function)
        def checked(*arguments: Any, **given: Any) -> Any:
            if given and not takes_any and not given.keys() <= named:
                unknown = next(one for one in given if one not in named)
                raise TypeError(_message(name, unknown, hints, known))
            if len(arguments) > places and not takes_more:
                by_name = [one for one in known if one not in code.co_varnames[:places]]
                others = f"{by_place} by position, the others by name" if by_place else "its arguments by name"
                first = f", such as {known_first(by_name)}=" if by_name else ""
                message = f"{name}() takes {others}{first}"
                raise TypeError(message)
            try:
                return function(*arguments, **given)
            except (TypeError, AttributeError) as error:
                refused = _refused_type(function, {**dict(zip(code.co_varnames, arguments, strict=False)), **given})
                if refused is None or (refused[0] in str(error) and "must be" in str(error)):
                    raise
                message = f"{name}(): {refused[0]} must be {refused[1]}"
                raise TypeError(message) from None

        return checked  # type: ignore[return-value]  # The same signature, by `functools.wraps`.

    return decorate


_SCALARS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("a str", lambda value: isinstance(value, str)),
    "bool": ("a bool", lambda value: isinstance(value, bool)),
    "int": ("an int", lambda value: isinstance(value, SupportsIndex)),
    "float": ("a number", lambda value: isinstance(value, (SupportsFloat, SupportsIndex))),
}


def _refused_type(function: Callable[..., Any], given: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first argument that does not have the type of its annotation, and what it must be."""
    for argument, value in given.items():
        kind, _, rest = str(function.__annotations__.get(argument, "")).partition(" | ")
        if kind in _SCALARS and rest in ("", "None") and not (rest and value is None):
            words, fits = _SCALARS[kind]
            if not fits(value):
                found = "None" if value is None else type(value).__name__
                return argument, f"{words}{' or None' if rest else ''}, not {found}"
    return None


def known_first(known: list[str]) -> str:
    """The argument that an example shows."""
    return next((name for name in ("model", "requests", "persistence") if name in known), known[0])


def unknown_argument(
    function: str, options: Mapping[str, Any], hints: Mapping[str, str], known: Iterable[str] = ()
) -> TypeError:
    """The error of a method that takes no such keyword."""
    message = _message(function, next(iter(options)), hints, [])
    others = f"; the arguments are {', '.join(sorted(known))}" if known and next(iter(options)) not in hints else ""
    return TypeError(f"{message}{others}")


def refused_arguments(
    class_name: str, parameters: list[tuple[str, bool]], more: int, unknown: Mapping[str, Any] | None
) -> TypeError:
    """The error of a native constructor for arguments that it does not take.

    Args:
        class_name: The name of the class.
        parameters: The name of each parameter, and whether it is passed by keyword alone.
        more: The number of arguments by position that are too many.
        unknown: The unknown arguments by keyword.
    """
    if unknown:
        known = [name for name, _ in parameters]
        return TypeError(_message(class_name, next(iter(unknown)), _CLASSES.get(class_name, {}), known))
    by_place = [name for name, by_keyword in parameters if not by_keyword]
    by_name = [name for name, by_keyword in parameters if by_keyword]
    others = f", the others by name, such as {by_name[0]}=" if by_name else ""
    if not by_place:
        return TypeError(f"{class_name}() takes its arguments by name, such as {by_name[0]}=")
    places = f"{len(by_place)} argument{'s' * (len(by_place) > 1)} by position ({', '.join(by_place)})"
    return TypeError(f"{class_name}() takes {places}, not {len(by_place) + more}{others}")


def without_note(error: Exception) -> Exception:
    """The error of the native module about an argument, which PyO3 gives a note that names the argument again."""

    def add_note(_note: str, /) -> None:
        vars(error).pop("add_note")

    vars(error)["add_note"] = add_note
    return error


def _message(function: str, name: str, hints: Mapping[str, str], known: list[str]) -> str:
    # Loaded only for an error.
    from difflib import get_close_matches

    remedy = f"the arguments are {', '.join(known)}" if known else "it is not an argument of turntree"
    if name in hints:
        remedy = hints[name].format(name=name)
    else:
        # Another word of a peer must be very similar, or its remedy is about something else.
        similar = get_close_matches(name, hints, 1, 0.8)
        near = get_close_matches(name, [*known, *similar], 1)
        if near and near[0] in known:
            remedy = f"{remedy}; did you mean {near[0]}=?"
        elif near:
            remedy = hints[near[0]].format(name=near[0])
    return f"{function}() has no argument '{name}': {remedy}"
