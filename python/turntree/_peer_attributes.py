"""What to write instead of attributes of objects of other libraries.

Loaded when such an attribute is asked for; see `turntree._public_names.explain_attributes`. A table has remedies by
attribute; no remedy speaks of an attribute that the class has.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def _table(words: Mapping[str, str]) -> dict[str, str]:
    """Return remedies by attribute, from the attributes by remedy."""
    return {word: remedy for remedy, text in words.items() for word in text.split()}


_RUN = "write await agent.run(input), or agent.run_sync(input)"
_STREAM = "write `async for event in agent.stream(input)`, or `for event in agent.stream_sync(input)`"
_TOOLS = "the tools are those of tools=: decorate functions with @turntree.tools.tool and pass them to agent(tools=[…])"
_SESSION = "the conversation of a run is a session: session = turntree.session(agent), and await session.run(input)"
_SERVE = "write turntree.uamp.serve(agent)"

AGENT = _table(
    {
        _RUN: (
            "invoke ainvoke arun kickoff kickoff_async generate chat generate_reply call run_async invoke_async "
            "complete execute ask query predict respond initiate_chat a_run run_until_done run_live"
        ),
        _STREAM: (
            "run_stream run_streamed iter astream stream_events run_stream_events astream_events stream_text "
            "run_stream_sync stream_async arun_stream run_stream_async stream_chat astream_chat run_streaming "
            "astream_log"
        ),
        f"{_RUN}, and print turn.text": "print_response aprint_response cli_response pprint_response",
        "agents do not change; agent.with_(…) is a copy with other options": (
            "override clone copy bind with_config configure model_copy with_options deep_copy set_model update"
        ),
        _TOOLS: (
            "tool_plain tool add_tool add_tools set_tools register_tool toolset bind_tools register_for_llm "
            "register_function get_tools"
        ),
        "the instructions of an agent are system=": (
            "system_prompt instructions get_system_message get_system_prompt system_message prompt role"
        ),
        "write agent.to_tool(), or put the agent into tools=[…] of the other one": "as_tool as_function",
        "write turntree.tools.handoff(agent), and put it into tools=[…] of the other one": "as_handoff transfer_to",
        "write `async for turn in agent.map(inputs)`": "batch abatch batch_as_completed run_batch kickoff_for_each",
        "the validators are output_validators=, a list of functions": "output_validator result_validator",
        "the type of the answer is structure=": (
            "output_type result_type response_model output_schema with_structured_output response_format"
        ),
        _SESSION: (
            "memory session sessions history messages all_messages new_messages message_history chat_history "
            "get_chat_history get_session get_session_messages get_messages_for_session conversation add_message "
            "add_messages reset clear_history checkpointer storage db"
        ),
        "the state of a conversation is that of its session: session.tree.history() has the messages, and "
        "session.checkpoints the states": ("get_state aget_state update_state aupdate_state get_state_history state"),
        "a run returns the answer: turn = await agent.run(input), and then turn.text": (
            "output result final_output run_response last_run last_message response"
        ),
        "the usage is that of a turn: turn.usage": "usage get_usage metrics",
        "the dependencies belong to a run: run(input, deps=…)": "deps dependencies context session_state",
        "other agents are among tools=: see agent.tools": (
            "handoffs sub_agents agents members team find_agent find_sub_agent"
        ),
        "read it in agent.options, a dict": (
            "params settings structure execution hooks strategy tool_strategy config on_approval output_validators "
            "output_retries deps_type model_settings structure_repair on_refusal"
        ),
        "middleware is passed as middleware=; agent.middleware has it": "middlewares hook add_middleware callbacks",
        "calls are approved by on_approval=, or by session.approve(call)": "approve continue_run acontinue_run confirm",
        "stop a run by cancelling its task, or write stream.abort()": "cancel cancel_run stop abort interrupt",
        "write turntree.tracing.instrument()": "instrument instrument_all tracing",
        "write turntree.mcp.serve(agent)": "to_mcp as_mcp mcp_server as_mcp_server",
        "write `async with turntree.mcp.stdio(…) as server`, and pass it to agent(tools=[server])": (
            "run_mcp_servers connect_mcp_servers mcp_servers"
        ),
        "write await turntree.testing.evaluate(agent, dataset)": "evaluate run_evals eval",
        "write `turntree chat module:agent` in a terminal": "to_cli to_cli_sync cli_app acli_app cli",
        _SERVE: "to_a2a to_ag_ui to_web to_fastapi get_app serve playground",
    }
)

_HISTORY = "the messages of the conversation are session.tree.history()"

SESSION = _table(
    {
        _HISTORY: (
            "messages history get_items get_messages get_history all_messages message_history chat_history "
            "get_chat_history get_session_messages events items get_all new_messages get_state aget_state values"
        ),
        "write await session.run(input), or session.run_sync(input)": (
            "invoke ainvoke arun chat send run_async invoke_async ask send_message print_response"
        ),
        "write `async for event in session.stream(input)`, or `for event in session.stream_sync(input)`": (
            "run_stream run_streamed astream stream_events astream_events iter"
        ),
        "messages are added by runs; turntree.ThreadTree has trees to edit": (
            "add_items add_message add_messages append append_event add_user_message update_state aupdate_state add"
        ),
        "go back with session.run(input, at=node), or with await session.restore(checkpoint)": (
            "pop_item undo rewind delete_messages remove_last get_state_history time_travel"
        ),
        "create another session with turntree.session(agent)": "clear clear_session reset new_session",
        "the messages are session.tree.history(), and each node of session.tree has a thread": "thread",
        "the id of a session is session.id": "session_id thread_id conversation_id",
        "data of the application are session.metadata, a dict": (
            "user_id app_name session_state session_data name title rename extra_data config tags"
        ),
        "write session.fork(node_id), or run on a node with session.run(input, at=node)": "branch",
        "the calls that wait for a decision are session.pending: session.approve(call) or session.deny(call), and "
        "then await session.resume()": (
            "interrupts interruptions pending_approvals reject continue_run acontinue_run confirm"
        ),
        "a run returns the answer: turn = await session.run(input), and then turn.text": (
            "output result final_output last_turn response content"
        ),
        "the store of a session is session.persistence": "store storage db memory checkpointer saver",
        "the tools are those of the agent: session.agent.tools": "tools",
        "the usage is that of a turn: turn.usage": "usage",
    }
)

LLM = _table(
    {
        "write await llm.generate(input), or llm.generate_sync(input)": (
            "invoke ainvoke complete acomplete completion create chat run messages responses completions beta "
            "generate_content generate_text predict agenerate call request acall parse"
        ),
        "write llm.generate_sync(input)": "run_sync complete_sync",
        "write `async for event in llm.stream(input)`": (
            "astream run_stream stream_chat stream_text astream_events iter"
        ),
        "the tools are llm(tools=[…])": "bind_tools bind tools",
        "the type of the answer is llm(structure=…)": "with_structured_output structure output_type",
        "retries belong to the model: openai(…, max_retries=…)": "with_retry",
        "write llm(model=turntree.models.fallback(…))": "with_fallbacks",
        "the parameters are llm(params=…), a dict such as {'max_tokens': 500}": "temperature max_tokens model_kwargs",
        "embeddings are turntree.upp.embedding(model=…)": "embeddings embed",
    }
)

_TEXT = "the text of the answer is turn.text, and structured output turn.data"

TURN = _table(
    {
        _TEXT: (
            "output result content final_output output_text answer message parsed value output_parsed text_content "
            "structured_response structured_output final_output_as get_output get_content_as_string output_data"
        ),
        "the new messages are turn.messages; a session keeps the whole conversation by itself": (
            "all_messages new_messages to_input_list new_items all_messages_json new_messages_json history "
            "message_history"
        ),
        "the text of the answer is turn.text, and the whole response turn.response": (
            "choices raw_responses last_message candidates parts new_message"
        ),
        "the calls are turn.tool_executions, each with its arguments and result": "tool_calls tools tool_results",
        "the tokens are turn.usage": "metrics usage_metadata response_metadata token_usage",
        "the name of the model is turn.model": "model_name",
        "the cost is turn.usage.cost": "cost total_cost total_cost_usd",
        "the reason of the end is turn.stop_reason": "finish_reason done_reason status",
        "the reasoning is turn.response.reasoning": "reasoning_content reasoning thinking",
        "the name of the agent that answered is turn.agent": "last_agent agent_name active_agent",
        "a run that needs a decision raises turntree.ApprovalRequired: session.approve(call), and then await "
        "session.resume()": ("interruptions interrupts pending_approvals is_paused requires_action"),
        "the run is over; write `async for event in agent.stream(input)` for its events": (
            "stream_events stream_text events run_items text_stream"
        ),
        "write print(turn.text)": "pretty_print print pprint",
        "write turn.model_dump_json()": "json to_json_string",
        "write turn.model_dump()": "dict",
        "write await session.resume() for a run of a session": "to_state",
    }
)

TREE = _table({"the messages are tree.history(), and each node of tree.nodes has a thread": "messages thread"})

THREAD = _table(
    {
        "write thread.push(message), or thread.user(text)": (
            "add_message add_messages add_items add extend add_user_message"
        ),
        "write thread.messages": "history all_messages get_items get_messages chat_history",
        "write thread.clear()": "clear_session reset",
    }
)

USAGE = _table(
    {
        "write usage.input_tokens": "prompt_tokens request_tokens prompt_token_count input_token_count input",
        "write usage.output_tokens": (
            "completion_tokens response_tokens candidates_token_count output_token_count output"
        ),
        "write usage.total_tokens": "total_token_count total",
        "write usage.cache_read_tokens": "cached_tokens cache_read_input_tokens cached_content_token_count",
        "write usage.cache_write_tokens": "cache_creation_input_tokens",
        "write usage.reasoning_tokens": "thinking_tokens thoughts_token_count",
        "write usage.cost": "total_cost cost_usd",
        "the input tokens are usage.input_tokens, and those of the cache among them usage.cache_read_tokens": (
            "prompt_tokens_details input_tokens_details input_token_details"
        ),
        "the output tokens are usage.output_tokens, and those of reasoning among them usage.reasoning_tokens": (
            "completion_tokens_details output_tokens_details output_token_details"
        ),
        "the requests of a run are usage.requests, and its tool calls len(turn.tool_executions)": "tool_calls",
    }
)

# Words by which the result of a run is read, of a stream that has not ended.
_OF_RESULT = (
    "final_output output get_output result response get_final_message get_final_text final_result get_final_response "
    "get_final_completion wait until_done until_complete data messages all_messages new_messages usage content parsed "
    "tool_executions stop_reason final_message to_input_list new_items last_agent run_result final_output_as choices "
    "get_final_result run_response tool_calls text_content"
)
_PARTIAL = "stream_structured partial_output snapshot current_message_snapshot stream_output get_partial"

STREAM = _table(
    {
        "write `async for text in stream.text()`": "stream_text text_stream text_deltas response_gen get_text_stream "
        "content_stream",
        "write `async for event in stream`": (
            "stream_events events stream_responses stream iter aiter event_stream stream_run"
        ),
        "the stream ends with a turn: write turn = await stream.turn, and then turn.text or turn.data": _OF_RESULT,
        "the structured answer so far is stream.partial": _PARTIAL,
        "write stream.abort(), or await stream.aclose()": "cancel close stop",
    }
)

SYNC_STREAM = _table(
    {
        "write `for text in stream.text()`": (
            "stream_text text_stream text_deltas response_gen get_text_stream content_stream"
        ),
        "write `for event in stream`": "stream_events events stream_responses stream iter event_stream stream_run",
        "the stream ends with a turn: write turn = stream.turn, and then turn.text or turn.data": _OF_RESULT,
        "the structured answer so far is stream.partial": _PARTIAL,
        "write stream.abort(), or stream.close()": "cancel stop aclose",
    }
)

_WAITS = 'a call that waits for a person is that of a tool with @tool(approval="ask")'

TOOL_CONTEXT = _table(
    {
        "the object that the run was given as deps= is context.deps": (
            "context dependencies ctx store runtime config configurable user_context"
        ),
        "data of the run are context.metadata, a dict, and objects of the application context.deps": (
            "state session_state user_data session actions save_artifact load_artifact list_artifacts search_memory"
        ),
        "write context.report(progress)": "stream_writer writer emit send_progress report_progress progress",
        "the id of the run is context.turn_id": "run_id invocation_id trace_id request_id",
        "the id of the call is context.tool_call_id": "function_call_id tool_id tool_use_id call_id",
        "the id of the session is context.session_id": "thread_id conversation_id",
        "the id of the agent is context.agent_id": "agent agent_name",
        "the user whom a server has found is context.principal; other data of users belong to deps=": "user_id user",
        "write context.cancelled": "is_cancelled cancellation_token is_aborted",
        "tools do not receive the messages; the functions of toolsets, system= and output_validators= do, from "
        "RunContext": ("messages history conversation prompt user_content"),
        "the usage is that of the turn, after the run: turn.usage": "usage",
        _WAITS: "request_confirmation interrupt tool_call_approved approve_tool request_approval elicit",
    }
)

RUN_CONTEXT = _table(
    {
        "the object that the run was given as deps= is context.deps": (
            "context dependencies ctx store runtime config configurable user_context"
        ),
        "data of the run are context.metadata, a dict, and objects of the application context.deps": (
            "state session_state user_data session"
        ),
        "the id of the run is context.turn_id": "run_id invocation_id trace_id request_id",
        "the id of the session is context.session_id": "thread_id conversation_id",
        "write context.agent_name, or context.agent_id": "agent",
        "write context.step": "run_step current_step",
        "the messages are context.messages": "history message_history conversation prompt input user_content",
        "write context.cancelled": "is_cancelled cancellation_token is_aborted",
        "the usage is that of the turn, after the run: turn.usage": "usage",
        "the context of a call is turntree.ToolContext": "tool_call_id tool_name report",
        "the user whom a server has found is context.principal of ToolContext; other data of users belong to deps=": (
            "user_id user principal"
        ),
    }
)

_ARGUMENTS = "args input params parameters kwargs tool_args tool_input args_as_dict args_as_json_str function_args"

TOOL_CALL = _table(
    {
        "write call.tool_name": "name function_name tool",
        "write call.arguments, a dict": _ARGUMENTS,
        "write call.tool_call_id": "id call_id tool_use_id tool_id",
        "write call.tool_name and call.arguments": "function custom",
        "the result is in turn.tool_executions": "result output content",
    }
)

TOOL_RESULT = _table(
    {
        "write result.result": "content output value return_value response text artifact",
        "write result.tool_call_id": "id call_id tool_use_id",
        "write result.is_error": "error status outcome",
        "the name of the tool is that of the call: turn.tool_executions has both": "name tool_name",
    }
)

EXECUTION = _table(
    {
        "write execution.tool_name": "name function_name tool",
        "write execution.arguments, a dict": _ARGUMENTS,
        "write execution.tool_call_id": "id call_id tool_use_id",
        "write execution.result": "content output value return_value response",
        "write execution.is_error, and execution.exception for the exception": "error status outcome tool_call_error",
        "write execution.duration, in milliseconds": "duration_ms time elapsed metrics",
    }
)

MESSAGE = _table(
    {
        "write message.type": "role kind",
        "the blocks are message.content, and the text is message.text": "parts blocks content_blocks text_content",
        "write message.timestamp": "created_at created time",
        "the results are those of a ToolResultMessage: message.results": "tool_call_id results tool_results",
        "calls are those of an AssistantMessage: message.tool_calls": "tool_calls function_call",
        "the reasoning is message.reasoning": "reasoning_content thinking",
        "the usage is that of a turn: turn.usage": "usage usage_metadata",
        "what vendors add is message.metadata": (
            "additional_kwargs response_metadata provider_details provider_name model_name model finish_reason name"
        ),
        "write print(message.text)": "pretty_print pretty_repr",
    }
)

MODEL = _table(
    {
        "a model answers through llm(model=…) or agent(model=…): await llm(model=model).generate(input)": (
            "invoke ainvoke chat completions responses messages generate generate_content create complete run "
            "run_sync stream astream request predict"
        ),
        "the tools are agent(model=…, tools=[…])": "bind_tools bind",
        "the type of the answer is agent(model=…, structure=…)": "with_structured_output",
        "the name is model.model_id, and the vendor model.provider": "model_name name id model",
        "retries are those of the factory: openai(…, max_retries=…)": "with_retry",
        "write turntree.models.fallback(model, other)": "with_fallbacks",
        "embeddings are turntree.upp.embedding(model=…)": "embeddings embed",
        "parameters of the model are agent(model=…, params={…})": "temperature max_tokens settings model_settings",
    }
)

TOOL = _table(
    {
        "write tool(…), with the arguments of the function": (
            "invoke ainvoke arun call func function fn entrypoint _run on_invoke_tool coroutine forward"
        ),
        "write tool.parameters": (
            "args_schema args schema json_schema params_json_schema input_schema inputSchema parameters_json_schema "
            "function_schema get_input_schema tool_call_schema"
        ),
        "write tool.retries": "max_retries",
        'write tool.approval, which is "ask" for calls that wait for a person': (
            "requires_approval needs_approval requires_confirmation"
        ),
        "the vendor's metadata are tool.metadata": "strict strict_json_schema tags",
        "tools do not change; write Tool(…) or @tool(…) with other options": "copy clone model_copy with_config",
    }
)

# The words of the two tables below are in `turntree/__init__.py` too.
EVENT = _table(
    {
        "an event is of the model or a tool (event.upp) or of the agent (event.uap), which have a type": (
            "type event kind event_kind"
        ),
        'a piece of the answer\'s text is event.upp.delta["text"] if event.upp and event.upp.type == "text_delta"; '
        "`async for text in stream.text()` has these pieces alone": (
            "delta text content data part item choices message chunk output_text content_delta candidates"
        ),
        'a call is event.upp if event.upp and event.upp.type == "tool_execution_start", and its result if the '
        'type is "tool_execution_end"': ("tool tool_name tool_call tool_call_id tool_calls arguments result"),
        "the stream ends with a turn: write turn = await stream.turn, and then turn.text": (
            "is_final_response final_output output response usage"
        ),
        "the agent and the step are those of event.uap, and a sub-agent is event.sub_agent": (
            "author agent agent_id agent_name name run_id step node new_agent"
        ),
    }
)

STREAM_EVENT = _table(
    {
        "write event.type": "event kind event_kind",
        'a piece of the answer\'s text is event.delta["text"] if event.type == "text_delta"; `async for text in '
        "stream.text()` has these pieces alone": (
            "content part item choices output_text content_delta message chunk candidates content_block"
        ),
        'a call is an event with event.type == "tool_execution_start"': "tool_call tool_calls",
        "the stream ends with a turn: write turn = await stream.turn, and then turn.text": (
            "is_final_response final_output response usage snapshot"
        ),
    }
)
