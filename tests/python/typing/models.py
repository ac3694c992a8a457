"""Static types of models, keys, retries and scripts. Checked, never run."""

from typing import Any

from typing_extensions import assert_type

from turntree.upp import (
    AssistantMessage,
    Batch,
    DynamicKey,
    ExponentialBackoff,
    Message,
    ModelReference,
    ModelRequest,
    ProviderConfig,
    Reply,
    RetryAfterStrategy,
    RetryStrategy,
    RoundRobinKeys,
    StreamEvent,
    Text,
    TokenBucket,
    ToolCall,
    Turn,
    UPPError,
    WeightedKeys,
    anthropic,
    files,
    llm,
    ollama,
    openai,
    openai_compatible,
    openrouter,
    responses,
    scripted,
    xai,
)


async def fetch_key() -> str:
    return "k"


def factories() -> None:
    assert_type(openai("gpt-5", api="completions", api_key="k", timeout=3), ModelReference)
    assert_type(anthropic("claude", betas=["b"], retry_strategy=ExponentialBackoff(max_attempts=5)), ModelReference)
    assert_type(ollama("llama3.2", base_url="http://localhost:1"), ModelReference)
    assert_type(openai_compatible("m", "http://localhost:1", headers={"x-team": "blue", "x-old": None}), ModelReference)
    assert_type(openrouter("anthropic/claude", "responses"), ModelReference)
    assert_type(xai("grok-4", api="messages"), ModelReference)
    assert_type(responses("m", "http://localhost:1/v1", api_key_env="MY_KEY"), ModelReference)
    xai("grok-4", api="chat")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    openai("gpt-5", api_key=fetch_key)
    openai("gpt-5", api_key=lambda: "k")
    openai("gpt-5", api_key=RoundRobinKeys(["a", "b"]))
    openai("gpt-5", config={"base_url": "http://localhost:1"})
    openai("gpt-5", config=ProviderConfig(api_key=WeightedKeys([("a", 2.0)]), base_url="http://localhost:1"))
    openai("gpt-5", api="chat")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    openai("gpt-5", timout=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ProviderConfig(config={})  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def strategies() -> None:
    found: list[RetryStrategy] = [TokenBucket(max_tokens=3), RetryAfterStrategy(fallback_delay=1)]
    ProviderConfig(retry_strategy=found[0], api_key=DynamicKey(fetch_key))
    ProviderConfig(retry_strategy="none")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ExponentialBackoff(5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def scripts(model: ModelReference) -> None:
    script = scripted(
        [
            "text",
            Text("block"),
            ToolCall("1", "weather", {}),
            {"toolName": "weather", "arguments": {}},
            ["both", ToolCall("1", "weather", {})],
            ValueError("broken"),
            [StreamEvent("text_delta", 0, {"text": "a"}), ConnectionError("cut")],
            Reply("slow", delay=0.5, pace=0.01),
        ]
    )
    assert_type(script, ModelReference)
    assert_type(scripted(answer), ModelReference)
    assert_type(scripted(answer_later, model_id="later"), ModelReference)
    assert_type(scripted(lambda request: request.messages[-1].text), ModelReference)
    assert_type(model.requests, list[ModelRequest])
    assert_type(model.model_id, str)
    assert_type(model.provider, str)
    assert_type(model.capabilities, dict[str, bool])


def answer(request: ModelRequest) -> str | Reply:
    assert_type(request.messages, list[Message])
    assert_type(request.system, str | list[dict[str, Any]] | None)
    assert_type(request.params, dict[str, Any])
    assert_type(request.tools, list[dict[str, Any]])
    assert_type(request.structure, dict[str, Any] | None)
    return Reply("ok")


async def answer_later(request: ModelRequest) -> str:
    return request.messages[-1].text


def calls(message: AssistantMessage) -> None:
    for call in message.tool_calls or ():
        assert_type(call.arguments, dict[str, Any])


async def batches_and_files() -> None:
    bound = llm(model="openai:gpt-5", structure=int)
    batch = await bound.batch(["a", ([], "b")])
    assert_type(batch, Batch[int])
    assert_type(await batch.results(poll_interval=1, timeout=5), list[Turn[int] | UPPError])
    assert_type(Batch.resume(batch.id, bound), Batch[Any])
    assert_type(await files.upload(bound, b"", purpose="batch"), files.File)
    assert_type(files.get_sync("openai:gpt-5", "file-1").media_type, str | None)
    await batch.results(poll_interval="1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
