"""What to write instead of names of modules that other libraries have and turntree names differently or elsewhere.

Loaded when such a name is asked for; see `turntree._public_names.explain_names`.
"""

import turntree
from turntree._public_names import MODULES

# The names of each public module that `turntree` does not have. Names of `turntree.upp` that `turntree.models` or
# `turntree.tools` have too are there.
_PLACES: dict[str, str] = {
    "tools": "Tool ToolCall ToolExecution ToolResult tool",
    "models": (
        "ModelReference ModelSettings ProviderConfig anthropic azure bedrock cerebras cohere deepseek fallback "
        "fireworks github google groq huggingface litellm llm mistral moonshot nebius ollama openai "
        "openai_compatible openrouter perplexity replay router scripted together vercel vertex xai zai"
    ),
    "execution": (
        "AbortSignal AgentsStrategy CustomStrategy ExecutionContext ExecutionStrategy FallbackStrategy LoopStrategy "
        "ParallelStrategy PlanStrategy ReactStrategy RouteStrategy SelectStrategy SequenceStrategy StrategyState "
        "fallback loop parallel plan react route select sequence"
    ),
    "middleware": "AgentMiddleware GuardrailRule Middleware MiddlewareContext budget guardrails logging memory rule",
    "mcp": "Elicitation McpError McpServer OAuth TokenStore http oauth serve sse stdio",
    "store": (
        "ImportReport ImportedSession PersistenceAdapter PruneResult Run RunPage SessionInfo SessionPage Store "
        "StoreIssue encrypted file from_url memory postgres redis sqlite"
    ),
    "testing": (
        "Api Case CaseResult Dataset ErrorReply Expectation Fault Finish Judge LoopbackServer Outcome RawReply "
        "ReplyLike Report Request Script Verdict evaluate evaluate_sync expect judge serve"
    ),
    "upp": (
        "AccessToken AnyMessage AnyStreamEvent ApplicationDefaultCredentials AssistantMessage Audio AudioDelta "
        "Batch BatchStatus Binary Capabilities CodeExecution CodeExecutionDelta ContentBlock ContentBlockStart "
        "ContentBlockStop CustomRetry CycleUsage Document DynamicKey Embedding EmbeddingModel EmbeddingProgress "
        "EmbeddingRequest EmbeddingResult EmbeddingStream EmbeddingUsage EntraCredentials ErrorCode "
        "ExponentialBackoff GeneratedImage HttpRequest HttpResponse Image ImageCapabilities ImageDelta ImageEvent "
        "ImageModel ImageRequest ImageResult ImageStream ImageUsage KeyStrategy LLM LinearBackoff ManagedIdentity "
        "Message MessageStart MessageStop ModelRequest ModelResponse NativeTool NoRetry ObjectDelta Provider "
        "Reasoning ReasoningDelta Replay Reply RetryAfterStrategy RetryStrategy RoundRobinKeys Signer StreamEvent "
        "StreamResult SyncEmbeddingStream SyncImageStream SyncStreamResult Text TextDelta Thread TokenBucket "
        "TokenCount TokenUsage ToolCallDelta ToolExecutionEnd ToolExecutionProgress ToolExecutionStart "
        "ToolResultMessage ToolUseStrategy Transport Turn UPPError UserMessage Video VideoDelta WeightedKeys "
        "create_provider embedding files from_pydantic_ai image model native prices responses to_pydantic_ai"
    ),
    "thread_protocol": (
        "Action AgentConfig AssistantMessageAction Attachment AudioContent Change ContentPart DocumentIssue "
        "FileContent ImageContent Issue MessageContent OtherAction Report SystemAction TextContent ThinkingAction "
        "ThinkingUsage Thread ToolCallAction ToolReturnAction UiAnswer UiChunk UiInput UiResponse UiStreamReader "
        "Usage UserMessageAction VideoContent canonicalize_pydantic_ai convert_arrow convert_jsonl "
        "downgrade_pydantic_ai from_pydantic_ai from_tree from_ui_messages from_ui_stream from_upp "
        "pydantic_ai_version ui_input ui_response"
    ),
    "uamp": (
        "Capabilities Client ClientEvent ContentItem Daemon Event JwtAuthenticator Message PaymentError PaymentGate "
        "PaymentRequest Response ServerEvent SessionConfig SyncClient SyncResponse SyncSession SystemEvent "
        "UampError UsageStats a2a_agent acp_stdio asgi_app connect connect_sync dial serve serve_sync verify"
    ),
    "uaip": (
        "Approval Client DefinitionError JwtAuthenticator Stage State StateTransfer SyncClient SyncSession "
        "TaskError ToolInfo UaipError Workflow WorkflowToolset asgi_app connect connect_sync construct openapi "
        "serve serve_sync stage task toolset workflow workflow_of"
    ),
    "harness": (
        "Action Change Claim ClaimConflict Conflict Coordination Decision Forecast Gate Guard HarnessError "
        "HookReply IntegrityViolation Lease MatchedRule ModelSlot Overlaps PolicyViolation Project Replay StoreBusy "
        "Worktree Worktrees guard hooks"
    ),
    "notebook": "Inspector Live View conversation inspect live waterfall",
    "tracing": "instrument uninstrument",
    "durable": "PendingCall",
    "arrow": "table",
}


def _places() -> dict[str, str]:
    """Return where each name is."""
    modules: dict[str, list[str]] = {}
    for module, names in _PLACES.items():
        for name in names.split():
            modules.setdefault(name, []).append(module)
    remedies: dict[str, str] = {}
    for name, (first, *others) in modules.items():
        more = f"; another one is in turntree.{' and turntree.'.join(others)}" if others else ""
        remedies[name] = f"write `from turntree.{first} import {name}`{more}"
    return remedies


_RUN = "agents run themselves: write await agent.run(input), or agent.run_sync(input)"
_STREAM = "write `async for event in agent.stream(input)`; event.upp and event.uap have a type"
_CONTEXT = "functions of tools take a turntree.ToolContext, others a turntree.RunContext"
_WORKFLOW = (
    "write `from turntree import uaip` for workflows with stages, or `from turntree import execution` for strategies"
)
_SESSION = "the conversation of a run is a session: turntree.session(agent, id=…, persistence=…)"
_STORE = 'write turntree.session(agent, id=…, persistence="sqlite:///sessions.db")'
_APPROVAL = 'write `from turntree.tools import tool`, and @tool(approval="ask")'
_STRUCTURE = "the type of the answer is agent(structure=…)"
_GUARDRAILS = "write `from turntree.middleware import guardrails`"
_EXCEEDED = "write `from turntree import LimitExceeded`"
_FAILED = "write `from turntree.exceptions import UPPError`, which has a code"
_MCP = "write `from turntree import mcp`, and mcp.stdio(command, *args) or mcp.http(url)"
_NATIVE = "write `from turntree.upp import native`, and native.openai.web_search() or another tool of a vendor"
_TESTING = "write `from turntree.models import scripted`"
_TEAM = "a team is an agent with other agents among tools=, or turntree.execution.sequence(…), parallel(…) or route(…)"
_TOOLSET = "toolsets are turntree.Toolset; lists of functions are passed as tools="
_PROMPT = "prompts are Python strings: agent(system=…), or a function for system= that takes a turntree.RunContext"

# Names of other libraries, by remedy.
_PEERS: dict[str, str] = {
    "write `from turntree.tools import tool`": (
        "function_tool ai_function FunctionTool StructuredTool BaseTool tool_plain beta_tool"
    ),
    "write `from turntree import agent`": (
        "create_agent create_react_agent ChatAgent LlmAgent AssistantAgent BaseAgent ReActAgent AgentExecutor "
        "ConversableAgent CodeAgent ToolCallingAgent"
    ),
    _RUN: "Runner InMemoryRunner run run_sync arun ",
    _STREAM: (
        "StreamedRunResult RunResultStreaming RunItemStreamEvent RawResponsesStreamEvent AgentUpdatedStreamEvent "
        "PartDeltaEvent PartStartEvent FinalResultEvent FunctionToolCallEvent FunctionToolResultEvent TextPartDelta "
        "RunEvent AgentRunEvent"
    ),
    _CONTEXT: (
        "RunContextWrapper InjectedState InjectedStore InjectedToolArg ToolRuntime CallbackContext "
        "InvocationContext RunnableConfig get_runtime Runtime ReadonlyContext"
    ),
    "a run returns a Turn: write `from turntree.upp import Turn`": (
        "AgentRunResult RunResult RunOutput RunResponse AgentResponse"
    ),
    _WORKFLOW: (
        "StateGraph Graph Workflow MessageGraph START END Flow Pregel entrypoint task add_messages MessagesState "
        "GraphBuilder BaseNode Send Step Steps Loop Parallel Router Condition"
    ),
    "a team is an agent with other agents among tools=": "Team Crew Swarm GroupChat",
    _TEAM: "SequentialAgent ParallelAgent LoopAgent create_supervisor RoundRobinGroupChat",
    "write turntree.tools.handoff(agent), and put it into tools=[…]": (
        "Handoff HandoffInputData HandoffInputFilter create_handoff_tool"
    ),
    "put the agent into tools=[…] of the other one, or write agent.to_tool()": "AgentTool ",
    _STORE: (
        "SQLiteSession SqliteDb SqliteSaver AsyncSqliteSaver SqliteStorage SQLAlchemySession DatabaseSessionService "
        "SqliteAgentStorage"
    ),
    'write turntree.session(agent, id=…, persistence="postgres://…")': (
        "PostgresSaver AsyncPostgresSaver PostgresDb PostgresStorage PgAgentStorage"
    ),
    _SESSION: (
        "MemorySaver InMemorySaver InMemorySessionService InMemoryStore Memory Checkpointer BaseCheckpointSaver "
        "ChatMessageHistory InMemoryDb ConversationBufferMemory MemoryManager OpenAIConversationsSession "
        "InMemoryMemoryService RedisSaver RedisSession"
    ),
    "write turntree.Limits(…), and pass it to run(input, limits=…)": "UsageLimits RunConfig ",
    "write `from turntree.models import ModelSettings`": "GenerateContentConfig GenerationConfig",
    "the usage is turn.usage, a turntree.upp.TokenUsage": "RunUsage Usage RequestUsage UsageMetadata",
    _APPROVAL: (
        "interrupt Command HumanInTheLoopMiddleware DeferredToolRequests DeferredToolResults ToolApproved "
        "ToolDenied ToolApprovalItem LongRunningFunctionTool CallDeferred"
    ),
    _STRUCTURE: (
        "ToolOutput NativeOutput PromptedOutput TextOutput StructuredDict ToolStrategy ProviderStrategy "
        "AgentOutputSchema PydanticOutputParser JsonOutputParser StrOutputParser ResponseFormat"
    ),
    _GUARDRAILS: (
        "input_guardrail output_guardrail GuardrailFunctionOutput InputGuardrail OutputGuardrail guardrail "
        "Guardrail PIIMiddleware"
    ),
    "write `from turntree import GuardrailError`": (
        "InputGuardrailTripwireTriggered OutputGuardrailTripwireTriggered InputCheckError OutputCheckError"
    ),
    _EXCEEDED: "UsageLimitExceeded MaxTurnsExceeded GraphRecursionError",
    _FAILED: (
        "UnexpectedModelBehavior ModelHTTPError ModelAPIError AgentsException ModelBehaviorError APIError "
        "RateLimitError APIStatusError AuthenticationError APIConnectionError OutputParserException AgentRunError "
        "UserError ContextWindowExceededError"
    ),
    "write `from turntree import ModelRetry`": (
        "ToolRetryError RetryAgentRun ToolException RetryPromptPart StopAgentRun"
    ),
    _MCP: (
        "MCPServerStdio MCPServerStreamableHttp MCPServerStreamableHTTP MCPServerSse MCPServerSSE MCPTools "
        "MCPToolset MultiServerMCPClient MCPServer StdioServerParameters McpToolset HostedMCPTool FastMCPToolset "
        "MultiMCPTools MCPClient"
    ),
    _NATIVE: (
        "WebSearchTool WebFetchTool CodeExecutionTool CodeInterpreterTool FileSearchTool ImageGenerationTool "
        "ComputerTool google_search BuiltinTool UrlContextTool"
    ),
    _TESTING: (
        "TestModel FunctionModel FakeListChatModel FakeChatModel GenericFakeChatModel FakeListLLM "
        "capture_run_messages FakeModel"
    ),
    "write turntree.tracing.instrument()": (
        "trace InstrumentationSettings LangSmith set_tracing_disabled set_tracing_export_api_key custom_span "
        "function_span traceable add_trace_processor"
    ),
    'the key belongs to the model: `from turntree.models import openai`, and openai("…", api_key=…)': (
        "set_default_openai_key set_default_openai_client set_default_openai_api AsyncOpenAI AsyncAnthropic "
        "AzureOpenAI AsyncAzureOpenAI"
    ),
    'write agent(model="openai:gpt-5"), or `from turntree.models import openai` and openai("…")': (
        "init_chat_model infer_model OpenAIResponsesModel OpenAIResponses OpenAIProvider OpenAIChat LitellmModel "
        "LiteLlm OpenAIChatCompletionsModel BaseChatModel ChatGoogleGenerativeAI GoogleModel GeminiModel Gemini "
        "Claude BedrockModel ChatBedrock ChatOllama ChatGroq ChatMistralAI GroqModel MistralModel"
    ),
    "write `from turntree.models import fallback`": "FallbackModel ",
    _TOOLSET: "FunctionToolset AbstractToolset CombinedToolset FilteredToolset Toolkit BaseToolset ToolNode",
    "hooks are agent(hooks=turntree.AgentHooks(…)); middleware is agent(middleware=[…])": (
        "RunHooks BaseCallbackHandler wrap_model_call wrap_tool_call before_model after_model before_agent "
        "after_agent dynamic_prompt SummarizationMiddleware"
    ),
    _PROMPT: "ChatPromptTemplate PromptTemplate MessagesPlaceholder ",
    "write turntree.testing.evaluate(agent, dataset)": "Evaluator LLMJudge AccuracyEval",
    "the text of a turn is turn.text, and its messages turn.messages": (
        "ItemHelpers MessageOutputItem ToolCallItem ToolCallOutputItem get_buffer_string convert_to_messages "
        "trim_messages"
    ),
    "write turntree.uamp.serve(agent)": "AgentOS Playground AGUIApp to_a2a get_fast_api_app ",
    "write `turntree chat module:agent` in a terminal": "run_demo_loop run_demo_loop_async",
    "write `from turntree.upp import embedding`, and embedding(model=…)": (
        "Embedder OpenAIEmbeddings OpenAIEmbedder SentenceTransformerEmbeddings"
    ),
    "turntree has none; write a tool that searches your index": (
        "Knowledge VectorStore PgVector Retriever VectorDb create_retriever_tool LanceDb Chroma"
    ),
}
_USER = "write `from turntree.upp import UserMessage`, and UserMessage(text)"

# Classes of messages, their parts and models.
_CLASSES: dict[str, str] = {
    "the system prompt is system= of agent() and llm()": "SystemMessage SystemPromptPart InstructionPart",
    "write `from turntree.upp import ToolResultMessage`": "ToolMessage ToolReturnPart FunctionMessage",
    _USER: "HumanMessage UserPromptPart",
    "write `from turntree.upp import AssistantMessage`": "AIMessage ChatMessage AIMessageChunk",
    "messages are a UserMessage, an AssistantMessage or a ToolResultMessage of turntree.upp": (
        "ModelMessage BaseMessage ModelMessagesTypeAdapter MessageParam Content"
    ),
    "write `from turntree.upp import Image`, and Image.from_url(…) or Image(data, mime_type)": (
        "ImageUrl ImageURL BinaryContent BinaryImage"
    ),
    "write `from turntree.upp import Document`, and Document.from_url(…) or Document(data, mime_type)": (
        "DocumentUrl File FileUrl"
    ),
    "write `from turntree.upp import Audio`, and Audio(data, mime_type)": "AudioUrl",
    "write `from turntree.upp import Video`, and Video(data, mime_type)": "VideoUrl",
    'write `from turntree.models import openai`, and openai("…")': "OpenAI ChatOpenAI OpenAIModel OpenAIChatModel",
    'write `from turntree.models import anthropic`, and anthropic("…")': "Anthropic ChatAnthropic AnthropicModel",
    'write `from turntree.models import llm`, and await llm(model="…").generate(input)': "completion acompletion",
    "write `from turntree.tools import ToolCall`": "ToolCallPart ToolUseBlock",
    "write `from turntree.upp import Text`": "TextPart TextBlock",
    "write `from turntree.upp import Reasoning`": "ThinkingPart ThinkingBlock",
}


def _by_name(words: dict[str, str]) -> dict[str, str]:
    return {name: remedy for remedy, text in words.items() for name in text.split()}


_MODULES = {name: f"write `import turntree.{name}`" for name in MODULES}

ROOT: dict[str, str] = {**_by_name(_CLASSES), **_by_name(_PEERS), **_places(), **_MODULES}

# For other modules of the package: names of `turntree` are there.
ELSEWHERE: dict[str, str] = {
    **ROOT,
    **{name: f"write `from turntree import {name}`" for name in turntree.__all__ if name[0] != "_"},
}
