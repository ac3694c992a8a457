"""The parameters of vendors as typed dicts, for ``params=`` of models and agents.

All members are optional. Params are sent unchanged, and any dict is accepted: these classes are for editors and type
checkers.

```python
from turntree.upp import llm
from turntree.upp.params import AnthropicParams

params: AnthropicParams = {"max_tokens": 500, "thinking": {"type": "enabled", "budget_tokens": 1024}}
model = llm(model="anthropic:claude-sonnet-4-5", params=params)
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from turntree._public_names import set_public_module as _set_public_module

__all__ = [
    "AnthropicParams",
    "AnthropicThinking",
    "ChatParams",
    "GoogleParams",
    "GoogleThinking",
    "OllamaParams",
    "Reasoning",
    "ResponsesParams",
]


class AnthropicThinking(TypedDict, total=False):
    """Extended thinking of Anthropic.

    Attributes:
        type: Whether the model thinks.
        budget_tokens: The most tokens of thinking, from 1024; less than ``max_tokens``.
    """

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int


class AnthropicParams(TypedDict, total=False):
    """Parameters of Anthropic's Messages API.

    Attributes:
        max_tokens: The most tokens of the answer. Default: the most that the model can write.
        temperature: From 0 to 1.
        top_p: Nucleus sampling.
        top_k: Sampling among the most likely tokens.
        stop_sequences: Texts that end the answer.
        thinking: Extended thinking.
        tool_choice: How tools are chosen, such as ``{"type": "any"}``.
        metadata: Data about the request, such as ``{"user_id": …}``.
        service_tier: The capacity to use.
        output_config: Options of the output, such as ``{"effort": "low"}``.
        mcp_servers: Servers of the MCP connector.
        container: The container of code execution.
        context_management: Rules that clear old content.
    """

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    stop_sequences: Sequence[str]
    thinking: AnthropicThinking
    tool_choice: Mapping[str, object]
    metadata: Mapping[str, object]
    service_tier: Literal["auto", "standard_only"]
    output_config: Mapping[str, object]
    mcp_servers: Sequence[Mapping[str, object]]
    container: object
    context_management: Mapping[str, object]


class Reasoning(TypedDict, total=False):
    """Reasoning of OpenAI's Responses API.

    Attributes:
        effort: How much the model reasons.
        summary: Which summary of the reasoning is returned.
    """

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"]
    summary: Literal["auto", "concise", "detailed"]


class ResponsesParams(TypedDict, total=False):
    """Parameters of the Responses API, of OpenAI and others.

    Attributes:
        max_output_tokens: The most tokens of the answer, with reasoning.
        temperature: From 0 to 2.
        top_p: Nucleus sampling.
        reasoning: How the model reasons.
        text: Options of the text, such as ``{"verbosity": "low"}``.
        include: Further output, such as ``reasoning.encrypted_content``.
        store: Whether the vendor stores the response.
        previous_response_id: The response that this one continues.
        parallel_tool_calls: Whether the model may call several tools at once.
        tool_choice: How tools are chosen.
        truncation: What happens to inputs that are too long.
        service_tier: The capacity to use.
        metadata: Up to 16 pairs of text.
        prompt_cache_key: The key of the prompt cache.
        safety_identifier: An id of the end user.
        background: Whether the response is made in the background.
    """

    max_output_tokens: int
    temperature: float
    top_p: float
    reasoning: Reasoning
    text: Mapping[str, object]
    include: Sequence[str]
    store: bool
    previous_response_id: str
    parallel_tool_calls: bool
    tool_choice: str | Mapping[str, object]
    truncation: Literal["auto", "disabled"]
    service_tier: str
    metadata: Mapping[str, str]
    prompt_cache_key: str
    safety_identifier: str
    background: bool


class ChatParams(TypedDict, total=False):
    """Parameters of the Chat Completions API, of OpenAI and compatible hosts.

    Attributes:
        max_tokens: The most tokens of the answer; at OpenAI `max_completion_tokens`.
        max_completion_tokens: The most tokens of the answer, with reasoning.
        temperature: From 0 to 2.
        top_p: Nucleus sampling.
        top_k: Sampling among the most likely tokens, at some hosts.
        frequency_penalty: From -2 to 2.
        presence_penalty: From -2 to 2.
        stop: Texts that end the answer.
        seed: A number for repeatable sampling.
        logit_bias: Biases by id of the token.
        logprobs: Whether probabilities are returned.
        top_logprobs: The number of alternatives with probabilities.
        reasoning_effort: How much the model reasons.
        parallel_tool_calls: Whether the model may call several tools at once.
        tool_choice: How tools are chosen.
        service_tier: The capacity to use.
        user: An id of the end user.
        verbosity: The length of the answer.
    """

    max_tokens: int
    max_completion_tokens: int
    temperature: float
    top_p: float
    top_k: int
    frequency_penalty: float
    presence_penalty: float
    stop: str | Sequence[str]
    seed: int
    logit_bias: Mapping[str, float]
    logprobs: bool
    top_logprobs: int
    reasoning_effort: str
    parallel_tool_calls: bool
    tool_choice: str | Mapping[str, object]
    service_tier: str
    user: str
    verbosity: Literal["low", "medium", "high"]


class GoogleThinking(TypedDict, total=False):
    """Thinking of Gemini.

    Attributes:
        thinkingBudget: The most tokens of thinking; -1 lets the model decide.
        thinkingLevel: How much the model thinks.
        includeThoughts: Whether summaries of thoughts are returned.
    """

    thinkingBudget: int
    thinkingLevel: str
    includeThoughts: bool


class GoogleParams(TypedDict, total=False):
    """Parameters of Gemini, for `google` and `vertex`.

    Attributes:
        maxOutputTokens: The most tokens of the answer, with thinking.
        temperature: From 0 to 2.
        topP: Nucleus sampling.
        topK: Sampling among the most likely tokens.
        stopSequences: Texts that end the answer.
        seed: A number for repeatable sampling.
        presencePenalty: From -2 to 2.
        frequencyPenalty: From -2 to 2.
        responseModalities: What the model makes, such as ``["TEXT", "IMAGE"]``.
        thinkingConfig: Thinking.
        cachedContent: The name of a cache.
        toolConfig: How tools are chosen.
        tools: The vendor's own tools.
        safetySettings: Thresholds of the filters.
        labels: Labels of the request, of Vertex AI.
    """

    maxOutputTokens: int
    temperature: float
    topP: float
    topK: int
    stopSequences: Sequence[str]
    seed: int
    presencePenalty: float
    frequencyPenalty: float
    responseModalities: Sequence[str]
    thinkingConfig: GoogleThinking
    cachedContent: str
    toolConfig: Mapping[str, object]
    tools: Sequence[Mapping[str, object]]
    safetySettings: Sequence[Mapping[str, object]]
    labels: Mapping[str, str]


class OllamaParams(TypedDict, total=False):
    """Parameters of Ollama.

    Attributes:
        num_predict: The most tokens of the answer.
        num_ctx: The size of the context.
        temperature: How random the answer is.
        top_p: Nucleus sampling.
        top_k: Sampling among the most likely tokens.
        seed: A number for repeatable sampling.
        stop: Texts that end the answer.
        think: Whether, or how much, the model thinks.
        keep_alive: How long the model stays in memory, such as ``5m``.
    """

    num_predict: int
    num_ctx: int
    temperature: float
    top_p: float
    top_k: int
    seed: int
    stop: Sequence[str]
    think: bool | str
    keep_alive: str | int


_set_public_module(__name__, globals())
