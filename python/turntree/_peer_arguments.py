"""Arguments of other libraries in functions beside `agent`, and what to write instead; see `_argument_errors`."""

from __future__ import annotations

from collections.abc import Mapping

from turntree._argument_errors import AGENT

__all__ = [
    "GUARDRAILS",
    "HANDOFF",
    "LLM",
    "LOGGING",
    "MCP",
    "MEMORY",
    "MODEL",
    "RULE",
    "SESSION",
    "STORE",
    "TOOL",
    "TO_TOOL",
]


def _table(words: Mapping[str, str]) -> dict[str, str]:
    """Return remedies by argument, from the arguments by remedy."""
    return {word: remedy for remedy, text in words.items() for word in text.split()}


_OF_AGENT = "it is an option of an agent: turntree.agent({name}=…)"
_NO_CONVERSATION = (
    "llm keeps no conversation: give the history with generate(history, input), or write turntree.session(agent)"
)

LLM: dict[str, str] = {
    **AGENT,
    **_table(
        {
            "answers of a wrong form are sent back with structure_repair=, a number of times": (
                "retries output_retries validation_retries"
            ),
            "retries of requests are those of the model: openai(…, max_retries=…)": "max_retries num_retries",
            "the time belongs to the model: openai(…, timeout=…)": "timeout request_timeout",
            _OF_AGENT: (
                "execution hooks strategy on_approval deps_type name id output_validators max_sub_agent_depth toolsets"
            ),
            "validators are those of an agent: turntree.agent(output_validators=[…])": "output_validator validators",
            "tool rounds are limited by tool_strategy=ToolUseStrategy(max_iterations=…)": (
                "max_turns max_steps max_iterations max_iter recursion_limit max_tool_calls"
            ),
            "the limits are those of a run of an agent: agent.run(input, limits=turntree.Limits(…))": (
                "limits usage_limits budget"
            ),
            "functions with dependencies need an agent: turntree.agent(…), and run(input, deps=…)": (
                "deps dependencies context context_schema"
            ),
            "other agents and handoffs need an agent: turntree.agent(tools=[…])": (
                "agents sub_agents handoffs team members"
            ),
            "MCP servers need an agent: turntree.agent(tools=[turntree.mcp.stdio(…)])": "mcp_servers mcp",
            _NO_CONVERSATION: (
                "memory checkpointer persistence store storage db checkpoints session session_id thread_id "
                "conversation_id user_id num_history_runs"
            ),
            "the history belongs to a call: generate(history, input)": (
                "message_history history messages chat_history"
            ),
            "the input belongs to a call: generate(input)": "input user_prompt prompt contents",
            "write `async for event in llm.stream(input)`, or `for event in llm.stream_sync(input)`": (
                "stream streaming event_stream_handler"
            ),
            "functions around a call are middleware=, from turntree.upp.middleware": "callbacks guardrails tracing",
            "write turntree.upp.middleware.logging() among middleware=": "verbose debug",
        }
    ),
}

HANDOFF = _table(
    {
        "write tool_name=": "tool_name_override tool",
        "the description is the second argument: handoff(agent, description)": (
            "tool_description_override tool_description handoff_description"
        ),
        "a function for each handoff is tool_strategy=ToolUseStrategy(on_before_call=…) of the agent that hands over": (
            "on_handoff on_invoke_handoff callback"
        ),
        "a handoff has no arguments: the other agent receives the messages": "input_type input_json_schema arguments",
        "write input_filter=, a function that takes the messages and returns those that the agent receives": (
            "filter message_filter nest_handoff_history handoff_history_mapper include_history"
        ),
        "handoffs that come and go are a toolset: a class with `async def tools(self, context)`": "is_enabled enabled",
        "write name=": "agent_name",
        "the agent that takes over comes first: handoff(agent)": "to target target_agent destination",
        "the messages are passed by themselves; deps= of the run is that of the other agent too": "context deps",
    }
)

TO_TOOL = _table(
    {
        "write name=": "tool_name name_override",
        "write description=": "tool_description description_override",
        "write parameter_schema=": "parameters input_schema args_schema schema arg_types",
        "the result is the text of the answer, or the data of an agent with structure=": (
            "custom_output_extractor output_extractor"
        ),
        'calls that wait for a person are those of Tool(…, approval="ask")': (
            "needs_approval requires_approval approval"
        ),
        "the limit belongs to the strategy: agent.with_(execution=loop(max_iterations=…))": "max_turns",
    }
)

MEMORY = _table(
    {
        "write max_turns=, the number of turns that are sent": (
            "k window window_size last_n n num_history_runs num_history_messages max_messages max_history"
        ),
        "write max_tokens=": "token_limit max_token_limit trigger_tokens max_context_tokens",
        "write summarize=, an agent, an llm() or a function": "llm summarizer model summary_model",
        "write counter=": "token_counter tokenizer",
        "the store belongs to a session: turntree.session(agent, persistence=…)": "store persistence db storage",
    }
)

GUARDRAILS = _table(
    {
        "write input=": "input_guardrails inputs input_rules on_input",
        "write output=": "output_guardrails outputs output_rules on_output",
        "rules for the input are input=, for the answer output=": "rules guardrails validators",
        "the reason is that of a rule: rule(…, message=…)": "message",
    }
)

RULE = _table(
    {
        "the pattern, the function or the schema comes first: rule(what)": (
            "pattern regex check function guardrail_function fn schema"
        ),
        "write message=": "reason error_message",
        "write replacement=": "replace replace_with",
        "write action=": "on_fail on_failure strategy",
    }
)

LOGGING = _table(
    {
        "write level=": "log_level loglevel",
        'write level="debug"': "verbose debug",
        "write include_messages=True": "log_messages include_content show_messages",
    }
)

STORE = _table(
    {
        "the place comes first: sqlite(path), file(path), postgres(url) or redis(url)": (
            "db_path db_file database filename file conn_string connection_string uri dsn db db_url folder host "
            "redis_url address"
        ),
        "write max_connections= of postgres(url)": "pool_size max_pool_size min_size max_size pool",
        "write schema= of postgres(url)": "table_name session_table table schema_name db_schema",
        "write prefix= of redis(url)": "key_prefix namespace",
        "entries are deleted with await store.prune(…)": "ttl expire expiration max_age",
        "write encrypted(store, keys)": "encryption_key key keys serde passphrase",
        "the tables are made by the first use; leave it out": "create_tables auto_create setup",
    }
)

_COMMAND = "the command and its arguments are mcp.stdio(command, *args), and an address is mcp.http(url)"

MCP = _table(
    {
        "the arguments come after the command: mcp.stdio(command, *args)": "args arguments",
        _COMMAND: (
            "command params server_params connection_params server config server_url endpoint base_url transport type"
        ),
        "write prefix=": "tool_prefix tool_name_prefix name server_name id",
        "write auth=, or headers=": "token api_key bearer_token authorization bearer",
        "write auth=turntree.mcp.oauth(…)": "oauth auth_provider",
        "write allow=, the names of tools": "tool_filter allowed_tools include_tools tools",
        "write deny=, the names of tools": "exclude_tools blocked_tools",
        "write on_sampling=": "sampling_callback sampling_handler sampling_model allow_sampling",
        "write on_elicitation=": "elicitation_callback elicitation_handler",
        "write roots=": "list_roots_callback",
        "write timeout=": (
            "read_timeout client_session_timeout_seconds timeout_seconds request_timeout sse_read_timeout "
            "session_timeout init_timeout tool_timeout"
        ),
        "write cwd= of mcp.stdio": "working_dir working_directory cwd",
        "write env= of mcp.stdio": "environment environ env",
        "write headers= of mcp.http": "headers default_headers extra_headers",
        "write auth= of mcp.http": "auth",
        "the tools are listed once, and again after the server says that they have changed; leave it out": (
            "cache_tools_list cache_tools"
        ),
        "functions before and after calls are tool_strategy=ToolUseStrategy(…) of the agent": (
            "process_tool_call tool_interceptors tool_hooks"
        ),
        "calls are decided by tool_strategy=ToolUseStrategy(on_before_call=…) of the agent": (
            "require_approval requires_approval approval requires_confirmation_tools"
        ),
    }
)

TOOL: dict[str, str] = {
    **dict.fromkeys(("name_override", "tool_name"), "write name="),
    **dict.fromkeys(("description_override", "desc"), "write description="),
    **dict.fromkeys(
        ("requires_approval", "needs_approval", "require_approval", "requires_confirmation", "approval_mode"),
        'write approval="ask"',
    ),
    **dict.fromkeys(("max_retries", "num_retries"), "write retries="),
    **dict.fromkeys(("takes_ctx", "with_context"), "annotate a parameter as turntree.ToolContext"),
    **dict.fromkeys(
        ("args_schema", "params_json_schema", "input_schema", "schema"),
        "the schema is that of the signature, or write Tool(name, description, schema, function)",
    ),
    **dict.fromkeys(("func", "coroutine", "function", "fn", "on_invoke_tool", "handler"), "write tool(function)"),
    **dict.fromkeys(
        ("strict", "strict_mode", "strict_json_schema"),
        'vendors have their own: metadata={{"openai": {{"strict": True}}}}',
    ),
    **dict.fromkeys(
        ("return_direct", "stop_after_tool_call", "result_as_answer"),
        "end the run with hooks=AgentStrategy(stop_condition=…) of the agent",
    ),
    **dict.fromkeys(
        ("is_enabled", "enabled", "prepare"),
        "tools that come and go are a toolset: a class with `async def tools(self, context)`",
    ),
    **dict.fromkeys(
        ("failure_error_function", "handle_tool_error", "on_error", "on_failure", "error_handler"),
        "the model reads the exception as an error result; raise turntree.ModelRetry(text) to say what is wrong, or "
        "write tool_strategy=ToolUseStrategy(on_error=…) of the agent",
    ),
    **dict.fromkeys(
        ("docstring_format", "docstring_style", "parse_docstring", "use_docstring_info", "infer_schema"),
        "the docstring is read by itself: its text before `Args:`, and the arguments there; leave it out",
    ),
    "require_parameter_descriptions": "descriptions come from `Args:` of the docstring; leave it out",
    **dict.fromkeys(
        ("requires_user_input", "external_execution", "confirm", "is_long_running", "interrupt_before"),
        'a call that waits for a person is approval="ask"',
    ),
    **dict.fromkeys(
        ("hooks", "tool_hooks", "pre_hook", "post_hook", "callbacks", "tool_input_guardrails", "guardrails"),
        "functions around calls are tool_strategy=ToolUseStrategy(…) of the agent; approval= is a function of the "
        "arguments",
    ),
    **dict.fromkeys(("tags", "extras", "title", "annotations"), "what vendors and applications add is metadata="),
    **dict.fromkeys(("parameters", "params"), "write Tool(name, description, parameters, function)"),
    **dict.fromkeys(
        ("sync", "blocking", "run_in_thread", "use_thread"), "a sync function runs in a thread, unless inline=True"
    ),
    "timeout": "limit the run with run(input, timeout=…)",
}

MODEL: dict[str, str] = {
    **dict.fromkeys(
        (
            *("temperature", "max_tokens", "top_p", "top_k", "stop", "seed", "n", "max_completion_tokens"),
            *("max_output_tokens", "reasoning_effort", "presence_penalty", "frequency_penalty", "tool_choice"),
            "parallel_tool_calls",
        ),
        'model parameters are those of the agent: agent(model=…, params={{"{name}": …}})',
    ),
    **dict.fromkeys(("num_retries", "retries"), "write max_retries="),
    **dict.fromkeys(("api_base", "endpoint"), "write base_url="),
    **dict.fromkeys(("streaming", "stream"), "every model streams: agent.stream(input)"),
    **dict.fromkeys(("default_headers", "extra_headers"), "write headers="),
    **dict.fromkeys(("http_client", "client"), "write transport=, an object with async send(request)"),
    "organization": 'write headers={{"OpenAI-Organization": …}}',
    "request_timeout": "write timeout=",
    **dict.fromkeys(("model_name", "model_id"), 'the name of the model comes first: openai("gpt-5")'),
    **dict.fromkeys(
        ("model_kwargs", "extra_body", "model_settings"), "model parameters are agent(model=…, params={{…}})"
    ),
    **dict.fromkeys(("messages", "input", "prompt"), "the input belongs to a run: await agent(model=…).run(input)"),
    **dict.fromkeys(
        ("response_format", "output_type", "response_model"), "the type of the answer is agent(model=…, structure=…)"
    ),
    "system": "the instructions are those of the agent: agent(model=…, system=…)",
    "tools": "the tools are those of the agent: agent(model=…, tools=[…])",
    "key": "write api_key=",
    "token": "write auth=",
}

SESSION: dict[str, str] = {
    **dict.fromkeys(("memory", "path", "storage", "adapter", "backend"), "the store of a session is persistence="),
    "tools": "the tools belong to the agent: turntree.session(turntree.agent(tools=[…]))",
    "system": "the instructions belong to the agent: turntree.session(turntree.agent(system=…))",
    "messages": "a session begins empty; Session.from_json reads one",
    "name": "write id=, or metadata=",
    "store": "the store of a session is persistence=",
    **dict.fromkeys(
        (
            *("db", "checkpointer", "saver", "session_service", "url", "db_url", "database", "db_path", "db_file"),
            *("conn_string", "connection_string", "engine", "uri"),
        ),
        'the store of a session is persistence=, such as "sqlite:///sessions.db"',
    ),
    **dict.fromkeys(("session_id", "thread_id", "conversation_id", "key"), "the id of a session is id="),
    **dict.fromkeys(("config", "configurable"), "the id of a session is id=, and data of the application metadata="),
    **dict.fromkeys(
        ("user_id", "app_name", "title", "tags", "session_name", "user"),
        'data of the application are metadata=, a dict such as {{"{name}": …}}',
    ),
    **dict.fromkeys(
        ("state", "session_state", "initial_state", "session_data"),
        "data of the application are metadata=, a dict; the object for the functions of a run is run(input, deps=…)",
    ),
    **dict.fromkeys(
        ("history", "message_history", "thread", "items", "initial_messages", "chat_history"),
        "a session begins empty; Session.from_json reads one, and agent.run(history, input) takes a history",
    ),
    **dict.fromkeys(
        ("deps", "dependencies", "context"), "the object for the functions of a run belongs to it: run(input, deps=…)"
    ),
    **dict.fromkeys(
        ("limits", "usage_limits", "max_turns", "timeout", "recursion_limit"),
        "limits belong to a run: session.run(input, limits=turntree.Limits(requests=…), timeout=…)",
    ),
    **dict.fromkeys(
        ("structure", "output_type", "middleware", "instructions", "hooks", "params", "execution"),
        "it is an option of the agent: turntree.session(turntree.agent(…))",
    ),
    **dict.fromkeys(
        ("num_history_runs", "max_messages", "window", "history_limit", "session_settings"),
        "the messages that are sent are limited by middleware of the agent: turntree.middleware.memory(max_turns=…)",
    ),
    **dict.fromkeys(("autosave", "auto_save", "save_every"), "write save_interval="),
    "encryption_key": "write persistence=turntree.store.encrypted(…)",
    "ttl": "sessions do not expire; see Store.prune",
    "model": "the model belongs to the agent: turntree.session(turntree.agent(model=…))",
}
