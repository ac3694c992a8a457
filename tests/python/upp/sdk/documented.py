"""The requests of vendors that have no package with types of them, as their documentation describes them.

- xAI: <https://docs.x.ai/developers/api-reference>, <https://docs.x.ai/developers/tools/web-search>
- OpenRouter: <https://openrouter.ai/docs/api-reference/chat-completion>, <https://openrouter.ai/docs/features/provider-routing>
- Groq: <https://console.groq.com/docs/api-reference>, <https://console.groq.com/docs/browser-search>
"""

from typing import Any, Literal, TypedDict

from typing_extensions import NotRequired, Required

# xAI, Responses


class Filters(TypedDict, total=False):
    allowed_domains: list[str]
    excluded_domains: list[str]


class XaiWebSearch(TypedDict, total=False):
    type: Required[Literal["web_search"]]
    filters: Filters
    enable_image_understanding: bool
    enable_image_search: bool


class XaiXSearch(TypedDict, total=False):
    type: Required[Literal["x_search"]]
    allowed_x_handles: list[str]
    excluded_x_handles: list[str]
    from_date: str
    to_date: str
    enable_image_understanding: bool
    enable_video_understanding: bool


class XaiCodeInterpreter(TypedDict):
    type: Literal["code_interpreter"]


class RetrievalMode(TypedDict):
    type: Literal["keyword", "semantic", "hybrid"]


class XaiFileSearch(TypedDict, total=False):
    type: Required[Literal["file_search"]]
    vector_store_ids: Required[list[str]]
    max_num_results: int
    retrieval_mode: RetrievalMode


class XaiMcp(TypedDict, total=False):
    type: Required[Literal["mcp"]]
    server_url: Required[str]
    server_label: str
    server_description: str
    allowed_tools: list[str]
    authorization: str
    headers: dict[str, str]


class Function(TypedDict, total=False):
    type: Required[Literal["function"]]
    name: Required[str]
    description: str
    parameters: dict[str, Any]
    strict: bool


class Message(TypedDict):
    type: NotRequired[Literal["message"]]
    role: Literal["user", "assistant", "system", "developer"]
    content: Any


class Effort(TypedDict, total=False):
    effort: Literal["none", "low", "medium", "high", "xhigh"]
    summary: Literal["auto", "concise", "detailed"]


class XaiResponses(TypedDict, total=False):
    model: Required[str]
    input: Required[str | list[Message]]
    tools: list[XaiWebSearch | XaiXSearch | XaiCodeInterpreter | XaiFileSearch | XaiMcp | Function]
    reasoning: Effort
    include: list[str]
    store: bool
    max_output_tokens: int
    max_turns: int
    previous_response_id: str


# OpenRouter, Chat Completions


class CacheControl(TypedDict, total=False):
    type: Required[Literal["ephemeral"]]
    ttl: Literal["5m", "1h"]


class ProviderPreferences(TypedDict, total=False):
    order: list[str]
    only: list[str]
    ignore: list[str]
    allow_fallbacks: bool
    require_parameters: bool
    data_collection: Literal["allow", "deny"]
    zdr: bool
    quantizations: list[str]
    sort: Literal["price", "throughput", "latency"]
    max_price: dict[str, float]


class OpenRouterReasoning(TypedDict, total=False):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
    max_tokens: int
    exclude: bool
    enabled: bool


class SearchParameters(TypedDict, total=False):
    engine: Literal["auto", "native", "exa", "firecrawl", "parallel"]
    max_results: int
    max_total_results: int
    search_context_size: Literal["low", "medium", "high"]
    allowed_domains: list[str]
    excluded_domains: list[str]


class OpenRouterWebSearch(TypedDict, total=False):
    type: Required[Literal["openrouter:web_search"]]
    parameters: SearchParameters


class ChatMessage(TypedDict):
    role: Literal["user", "assistant", "system", "tool"]
    content: Any


class OpenRouterChat(TypedDict, total=False):
    model: Required[str]
    messages: Required[list[ChatMessage]]
    tools: list[OpenRouterWebSearch]
    cache_control: CacheControl
    provider: ProviderPreferences
    reasoning: OpenRouterReasoning
    max_tokens: int
    models: list[str]
    plugins: list[dict[str, Any]]


# Groq, Chat Completions


class GroqTool(TypedDict):
    type: Literal["browser_search", "code_interpreter"]


class GroqChat(TypedDict, total=False):
    model: Required[str]
    messages: Required[list[ChatMessage]]
    tools: list[GroqTool]
    max_completion_tokens: int
    reasoning_effort: Literal["none", "default", "low", "medium", "high"]
