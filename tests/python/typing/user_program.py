"""A program as users write it, without a single `Any`. Checked by mypy with `disallow_any_expr`, never run."""

# mypy: disallow-any-expr

from dataclasses import dataclass

from typing_extensions import assert_never, assert_type

from turntree import Agent, agent
from turntree.upp import (
    LLM,
    AccessToken,
    AnyMessage,
    AnyStreamEvent,
    AssistantMessage,
    Audio,
    AudioDelta,
    Binary,
    CodeExecution,
    CodeExecutionDelta,
    ContentBlock,
    ContentBlockStart,
    ContentBlockStop,
    Document,
    HttpRequest,
    HttpResponse,
    Image,
    ImageDelta,
    MessageStart,
    MessageStop,
    ModelReference,
    ObjectDelta,
    Reasoning,
    ReasoningDelta,
    StreamEvent,
    Text,
    TextDelta,
    Thread,
    ToolCallDelta,
    ToolExecutionEnd,
    ToolExecutionProgress,
    ToolExecutionStart,
    ToolResultMessage,
    Turn,
    UPPError,
    UserMessage,
    Video,
    VideoDelta,
    anthropic,
    llm,
    openai,
)
from turntree.upp.params import AnthropicParams, ResponsesParams


@dataclass
class City:
    """A structured answer."""

    name: str
    people: int


class Stamped:
    """A transport."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on."""
        return await request.with_(headers={"x-team": "blue", "x-old": None}).send()


class Signer:
    """A signer."""

    def sign(self, request: HttpRequest) -> dict[str, str]:
        """Sign the body."""
        return {"x-length": str(len(request.body))}


async def token() -> AccessToken:
    return AccessToken("token", 2e9)


def models() -> list[ModelReference]:
    return [
        openai("gpt-5", transport=Stamped(), max_connections=4, http2=True, max_retries=3),
        openai("gpt-5", http2="only", auth=token),
        anthropic("claude-sonnet-4-5", auth=Signer(), headers={"anthropic-beta": None}),
        anthropic("claude-sonnet-4-5", auth=lambda: "token"),
    ]


async def ask(model: ModelReference) -> str:
    params: AnthropicParams = {"max_tokens": 500, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    bound = llm(model=model, structure=City, params=params)
    assert_type(bound, LLM[City])
    turn = await bound.generate("Which city?")
    assert_type(turn, Turn[City])
    assert_type(turn.data.name, str)
    assert_type(turn.usage.input_tokens, int)
    return turn.data.name.upper()


async def write(model: ModelReference) -> str:
    bound = llm(model=model)
    assert_type(bound, LLM[None])
    turn = await bound.generate("Write a line.")
    assert_type(turn, Turn[None])
    helper = agent(model=model, system="Be brief.")
    assert_type(helper, Agent[None, None])
    heard = [turn.text, (await helper.run("Write a line.")).text]
    stream = bound.stream("Write a line.")
    async for event in stream:
        if isinstance(event, TextDelta):
            heard.append(event.text)
    assert_type(await stream.turn, Turn[None])
    return " ".join(heard)


async def run(model: ModelReference) -> int:
    params: ResponsesParams = {"reasoning": {"effort": "low"}, "store": False}
    turn = await agent(model=model, structure=City, params=params).run("Which city?")
    return turn.data.people


async def listen(model: ModelReference) -> list[str]:
    stream = llm(model=model, structure=City).stream("Which city?")
    heard: list[str] = []
    async for event in stream:
        match event:
            case TextDelta(text):
                heard.append(text)
            case ToolCallDelta():
                heard.append(event.type)
            case _:
                pass
    turn = await stream.turn
    heard.append(turn.data.name)
    return heard


def shown(message: AnyMessage) -> str:
    match message:
        case UserMessage():
            return f"user: {message.text}"
        case AssistantMessage(tool_calls=calls):
            return f"assistant: {message.text} {len(calls or [])}"
        case ToolResultMessage():
            return f"tools: {len(message.results)}"
        case _:
            assert_never(message)


async def transcript(model: ModelReference) -> list[str]:
    turn = await llm(model=model, structure=City).generate("Hi")
    lines = [shown(message) for message in turn.messages]
    return lines + [shown(message) for message in Thread(turn.messages)]


def block(part: ContentBlock) -> str:
    match part:
        case Text() | Reasoning():
            return part.text
        case Image() | Document():
            return part.mime_type
        case Audio() | Video() | Binary():
            return f"{len(part.data)} bytes"
        case CodeExecution():
            return part.output or ""
        case _:
            assert_never(part)


def event_of(event: AnyStreamEvent) -> str:
    match event:
        case TextDelta(text) | ReasoningDelta(text) | ObjectDelta(text):
            return text
        case ImageDelta(data) | AudioDelta(data) | VideoDelta(data):
            return f"{len(data)} bytes"
        case ToolCallDelta(call_id) | ToolExecutionStart(call_id):
            return call_id
        case ToolExecutionEnd() | ToolExecutionProgress():
            return event.tool_name
        case CodeExecutionDelta(code, language):
            return f"{language}: {code}"
        case MessageStart() | MessageStop() | ContentBlockStart() | ContentBlockStop():
            return event.type
        case _:
            assert_never(event)


def any_event(event: StreamEvent) -> str:
    match event:
        case TextDelta(text):
            return text
        case StreamEvent():
            return event.type
        case _:
            assert_never(event)


def failed(error: UPPError) -> str:
    return f"{error.code} {error.status_code} {error.retry_after}"
