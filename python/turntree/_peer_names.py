"""What to write instead of attributes and names that other libraries have and turntree names differently.

Loaded when such a name is asked for; see `turntree._public_names`.
"""

from turntree._public_names import MODULES

_TEXT = "the text of the answer is turn.text, and structured output turn.data"
_MESSAGES = "the new messages are turn.messages; a session keeps the whole conversation by itself"
_RUN = "write await agent.run(input), or agent.run_sync(input)"
_STREAM = "write `async for event in agent.stream(input)`, or `for event in agent.stream_sync(input)`"
_WITH = "agents do not change; agent.with_(…) is a copy with other options"
_TOOLS = "the tools are those of tools=: decorate functions with @turntree.tools.tool and pass them to agent(tools=[…])"
_SYSTEM = "the instructions of an agent are system="
_HISTORY = "the messages of the conversation are session.tree.history()"

AGENT: dict[str, str] = {
    **dict.fromkeys(("invoke", "ainvoke", "arun", "kickoff", "generate", "chat", "generate_reply", "call"), _RUN),
    **dict.fromkeys(("run_stream", "run_streamed", "iter", "astream", "stream_events", "run_stream_events"), _STREAM),
    **dict.fromkeys(("print_response", "aprint_response", "cli_response"), f"{_RUN}, and print turn.text"),
    **dict.fromkeys(("override", "clone", "copy", "bind"), _WITH),
    **dict.fromkeys(("tool_plain", "tool", "add_tool", "register_tool", "toolset"), _TOOLS),
    **dict.fromkeys(("system_prompt", "instructions", "get_system_message"), _SYSTEM),
    "as_tool": "write agent.to_tool(), or put the agent into tools=[…] of the other one",
    "batch": "write `async for turn in agent.map(inputs)`",
    "abatch": "write `async for turn in agent.map(inputs)`",
    "output_validator": "the validators are output_validators=, a list of functions",
    "output_type": "the type of the answer is structure=",
    "memory": "the conversation of a run is a session: turntree.session(agent)",
    "to_cli": "write `turntree chat module:agent` in a terminal",
    "to_a2a": "write turntree.uamp.serve(agent)",
    "to_ag_ui": "write turntree.uamp.serve(agent)",
}

SESSION: dict[str, str] = {
    **dict.fromkeys(("messages", "history", "get_items", "get_messages", "get_history", "all_messages"), _HISTORY),
    **dict.fromkeys(("invoke", "ainvoke", "arun", "chat", "send"), "write await session.run(input)"),
    **dict.fromkeys(("run_stream", "run_streamed", "astream"), "write `async for event in session.stream(input)`"),
    **dict.fromkeys(
        ("add_items", "add_message", "append"), "messages are added by runs; turntree.ThreadTree has trees to edit"
    ),
    **dict.fromkeys(("clear", "clear_session", "reset"), "create another session with turntree.session(agent)"),
    "thread": "the messages are session.tree.history(), and each node of session.tree has a thread",
    "state": "the state after a step is that of session.current_checkpoint",
    "session_id": "the id of a session is session.id",
    "thread_id": "the id of a session is session.id",
    "branch": "write session.fork(node_id), or run on a node with session.run(input, at=node)",
}

LLM: dict[str, str] = {
    **dict.fromkeys(
        ("invoke", "ainvoke", "complete", "acomplete", "completion", "create", "chat", "run"),
        "write await llm.generate(input), or llm.generate_sync(input)",
    ),
    **dict.fromkeys(("run_sync",), "write llm.generate_sync(input)"),
    **dict.fromkeys(("astream", "run_stream"), "write `async for event in llm.stream(input)`"),
    "bind_tools": "the tools are llm(tools=[…])",
    "with_structured_output": "the type of the answer is llm(structure=…)",
}

TURN: dict[str, str] = {
    **dict.fromkeys(
        ("output", "result", "content", "final_output", "output_text", "answer", "message", "parsed", "value"), _TEXT
    ),
    **dict.fromkeys(
        ("all_messages", "new_messages", "to_input_list", "new_items", "all_messages_json", "new_messages_json"),
        _MESSAGES,
    ),
    **dict.fromkeys(("choices", "raw_responses", "last_message"), "the last response is turn.response"),
    **dict.fromkeys(
        ("tool_calls", "tools", "tool_results"),
        "the calls are turn.tool_executions, each with its arguments and result",
    ),
    "metrics": "the tokens are turn.usage",
    "cost": "the cost is turn.usage.cost",
    **dict.fromkeys(("json", "to_json_string"), "write turn.model_dump_json()"),
    "dict": "write turn.model_dump()",
}

TREE: dict[str, str] = {
    **dict.fromkeys(
        ("messages", "thread"), "the messages are tree.history(), and each node of tree.nodes has a thread"
    ),
}

USAGE: dict[str, str] = {
    **dict.fromkeys(("prompt_tokens", "request_tokens", "prompt_token_count"), "write usage.input_tokens"),
    **dict.fromkeys(("completion_tokens", "response_tokens", "candidates_token_count"), "write usage.output_tokens"),
    **dict.fromkeys(("cached_tokens", "cache_read_input_tokens"), "write usage.cache_read_tokens"),
    "cache_creation_input_tokens": "write usage.cache_write_tokens",
    "thinking_tokens": "write usage.reasoning_tokens",
    "total_cost": "write usage.cost",
}

_IN_MODELS = [
    "anthropic",
    "cerebras",
    "deepseek",
    "google",
    "groq",
    "mistral",
    "moonshot",
    "ollama",
    "openai",
    "openai_compatible",
    "openrouter",
    "replay",
    "scripted",
    "xai",
    "llm",
    "ProviderConfig",
    "ModelReference",
]
_IN_TOOLS = [
    "tool",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolExecution",
]
_IN_UPP = [
    "Thread",
    "Turn",
    "TokenUsage",
    "Message",
    "UserMessage",
    "AssistantMessage",
    "ToolResultMessage",
    "Text",
    "Image",
    "Document",
    "Audio",
    "Video",
    "UPPError",
    "Reply",
    "StreamEvent",
]
_IN_EXECUTION = [
    "loop",
    "react",
    "plan",
    "sequence",
    "parallel",
    "route",
    "ExecutionStrategy",
]

ROOT: dict[str, str] = {
    **{name: f"write `from turntree.models import {name}`" for name in _IN_MODELS},
    **{name: f"write `from turntree.tools import {name}`" for name in _IN_TOOLS},
    **{name: f"write `from turntree.upp import {name}`" for name in _IN_UPP},
    **{name: f"write `from turntree.execution import {name}`" for name in _IN_EXECUTION},
    **{name: f"write `import turntree.{name}`" for name in MODULES},
    **dict.fromkeys(("function_tool", "ai_function"), "write `from turntree.tools import tool`"),
    **dict.fromkeys(
        ("create_agent", "create_react_agent", "ChatAgent", "LlmAgent", "AssistantAgent"),
        "write `from turntree import agent`",
    ),
    **dict.fromkeys(("Runner", "run", "run_sync"), f"agents run themselves: {_RUN}"),
    **dict.fromkeys(("RunContextWrapper", "InjectedState"), "functions take a turntree.ToolContext"),
    **dict.fromkeys(("StateGraph", "Graph", "Workflow"), "write `from turntree import uaip` for workflows with stages"),
    "SQLiteSession": 'write turntree.session(agent, id=…, persistence="sqlite:///sessions.db")',
    "UsageLimits": "write turntree.Limits(…)",
    "ModelSettings": "write `from turntree.models import ModelSettings`",
    "Team": "a team is an agent with other agents among tools=",
    "Crew": "a team is an agent with other agents among tools=",
}

UPP: dict[str, str] = {
    **dict.fromkeys(("SystemMessage", "SystemPromptPart"), "the system prompt is system= of agent() and llm()"),
    **dict.fromkeys(("ToolMessage", "ToolReturnPart", "FunctionMessage"), "write ToolResultMessage"),
    **dict.fromkeys(("HumanMessage", "UserPromptPart"), "write UserMessage"),
    **dict.fromkeys(("AIMessage", "ChatMessage"), "write AssistantMessage"),
    **dict.fromkeys(("ImageUrl", "ImageURL", "BinaryContent"), "write Image.from_url(…), or Image(data, mime_type)"),
    **dict.fromkeys(("OpenAI", "ChatOpenAI", "OpenAIModel", "OpenAIChatModel"), 'write openai("…")'),
    **dict.fromkeys(("Anthropic", "ChatAnthropic", "AnthropicModel"), 'write anthropic("…")'),
    **dict.fromkeys(("agent", "Agent", "session", "Session"), "it is in turntree, the package above"),
    "completion": 'write await llm(model="…").generate(input)',
}

# The names of classes of models and tools in other libraries.
MODELS: dict[str, str] = {**ROOT, **UPP}
