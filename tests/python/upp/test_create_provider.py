"""Providers written in Python, and models by name. UPP-1.2 §9."""

import asyncio
import threading

import pytest

from turntree import agent
from turntree.upp import (
    AssistantMessage,
    ErrorCode,
    Image,
    ImageResult,
    ModelResponse,
    StreamEvent,
    TokenUsage,
    ToolCall,
    UPPError,
    create_provider,
    embedding,
    image,
    model,
    native,
    openai,
    tool,
)

COUNT = iter(range(10**6))


def provider(llm, **options):
    return create_provider(f"test_{next(COUNT)}", llm, **options)


def text(piece):
    return StreamEvent.model_validate({"type": "text_delta", "index": 0, "delta": {"text": piece}})


class Generates:
    async def generate(self, request):
        await asyncio.sleep(0)
        return ModelResponse(
            f"You said {request.messages[-1].text}.",
            usage=TokenUsage(3, 4),
            metadata={"region": "north"},
        )


class GeneratesInThread:
    def generate(self, request):
        self.thread = threading.current_thread()
        return f"You said {request.messages[-1].text}."


class Streams:
    async def stream(self, request):
        for word in ("You said ", request.messages[-1].text, "."):
            await asyncio.sleep(0)
            yield text(word)
        yield ModelResponse(usage=TokenUsage(3, 4), metadata={"region": "north"})


class StreamsInThread:
    def stream(self, request):
        yield text("You said ")
        yield {"type": "text_delta", "index": 0, "delta": {"text": f"{request.messages[-1].text}."}}


IMPLEMENTATIONS = [Generates, GeneratesInThread, Streams, StreamsInThread]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_provider_needs_only_one_function_for_run_and_stream(implementation, run):
    own = agent(model=provider(implementation())("small"))

    async def main():
        turn = await own.run("hi")
        stream = own.stream("hi")
        events = [event.upp async for event in stream if event.source == "upp"]
        return turn, events, await stream.turn

    turn, events, streamed = run(main())

    assert turn.response.text == streamed.response.text == own.run_sync("hi").response.text == "You said hi."
    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    assert "".join(event.delta["text"] for event in events if event.type == "text_delta") == "You said hi."


@pytest.mark.parametrize("implementation", [Generates, Streams])
def test_usage_and_metadata_of_a_response_are_preserved(implementation):
    reference = provider(implementation())("small")

    turn = agent(model=reference).run_sync("hi")

    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (3, 4)
    assert turn.response.metadata[reference.provider] == {"region": "north", "model": "small"}


def test_sync_functions_do_not_block_the_event_loop(run):
    implementation = GeneratesInThread()

    run(agent(model=provider(implementation)("small")).run("hi"))

    assert implementation.thread is not threading.main_thread()


def test_tools_are_called_and_results_are_sent_back():
    class Calls:
        async def generate(self, request):
            if request.messages[-1].type == "tool_result":
                return AssistantMessage(f"It is {request.messages[-1].results[0].result}.")
            assert [known["name"] for known in request.tools] == ["add"]
            return [ToolCall("c1", "add", {"a": 1, "b": 2})]

    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    turn = agent(model=provider(Calls())("small"), tools=[add]).run_sync("1 + 2?")

    assert turn.response.text == "It is 3."
    assert turn.cycles == 2


def test_structured_answers_are_parsed():
    class Structured:
        async def generate(self, request):
            assert request.structure["type"] == "object"
            return '{"x": 2}'

    structure = {"type": "object", "properties": {"x": {"type": "integer"}}}

    assert agent(model=provider(Structured())("small"), structure=structure).run_sync("x?").data == {"x": 2}


def test_bind_creates_an_implementation_for_each_model():
    class Bound:
        def bind(self, model, *, shout=False):
            class One:
                async def generate(self, request):
                    return model.upper() if shout else model

            return One()

    own = provider(Bound())

    assert agent(model=own("a")).run_sync("hi").response.text == "a"
    assert agent(model=own("b", shout=True)).run_sync("hi").response.text == "B"
    with pytest.raises(TypeError, match="takes no options"):
        provider(Generates())("a", shout=True)


class OwnError(Exception):
    """An error class of the application."""


@pytest.mark.parametrize("streams", [False, True])
def test_exception_reaches_the_caller_unchanged(streams, run):
    raised = OwnError("no")

    class Fails:
        if streams:

            async def stream(self, request):
                yield text("Half an ")
                raise raised
        else:

            async def generate(self, request):
                raise raised

    own = agent(model=provider(Fails())("small"))

    with pytest.raises(OwnError) as caught:
        run(own.run("hi"))
    assert caught.value is raised

    async def listen():
        async for _ in own.stream("hi"):
            pass

    with pytest.raises(OwnError) as caught:
        run(listen())
    assert caught.value is raised


def test_upp_error_preserves_its_code():
    class Full:
        async def generate(self, request):
            raise UPPError("slow down", ErrorCode.RATE_LIMITED, provider="mine")

    with pytest.raises(UPPError) as caught:
        agent(model=provider(Full())("small")).run_sync("hi")
    assert caught.value.code == ErrorCode.RATE_LIMITED


@pytest.mark.parametrize("streams", [False, True])
def test_cancelled_run_cancels_the_provider_function(streams, run):
    seen = []

    class Waits:
        async def _wait(self):
            try:
                seen.append("begun")
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        if streams:

            async def stream(self, request):
                yield text("Once ")
                await self._wait()
        else:

            async def generate(self, request):
                await self._wait()

    own = agent(model=provider(Waits())("small"))

    async def main():
        task = asyncio.ensure_future(own.run("hi"))
        while not seen:
            await asyncio.sleep(0.001)  # the poll interval; the deadline is below
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while "cancelled" not in seen:
            await asyncio.sleep(0.001)  # the poll interval; the deadline is below

    run(asyncio.wait_for(main(), 30))

    assert seen == ["begun", "cancelled"]


@pytest.mark.parametrize("threaded", [False, True])
def test_stream_waits_for_a_slow_reader(threaded, run):
    made = []
    ended = threading.Event()

    class Endless:
        if threaded:

            def stream(self, request):
                try:
                    for number in range(100_000):
                        made.append(number)
                        yield text("x")
                finally:
                    ended.set()
        else:

            async def stream(self, request):
                try:
                    for number in range(100_000):
                        made.append(number)
                        yield text("x")
                finally:
                    ended.set()

    async def main():
        stream = agent(model=provider(Endless())("small")).stream("hi")
        count = 0
        async for event in stream:
            count += event.source == "upp"
            if count == 2000:
                break
        await stream.aclose()
        while not ended.is_set():
            await asyncio.sleep(0.001)  # the poll interval; the deadline is below

    run(asyncio.wait_for(main(), 30))

    assert 1900 < len(made) < 4000


def test_stream_runs_in_a_single_task(run):
    tasks = set()

    class Scoped:
        async def stream(self, request):
            async with asyncio.timeout(60):
                for _ in range(3):
                    tasks.add(asyncio.current_task())
                    await asyncio.sleep(0)
                    yield text("x")

    run(agent(model=provider(Scoped())("small")).run("hi"))

    assert len(tasks) == 1


def test_missing_capabilities_reject_requests():
    blind = agent(model=provider(Generates())("small"))
    seeing = agent(model=provider(Generates(), capabilities={"image_input": True, "tools": False})("small"))
    picture = Image.from_url("https://host/a.png", "image/png")

    with pytest.raises(UPPError, match="does not support image input"):
        blind.run_sync(["Look:", picture])
    seeing.run_sync(["Look:", picture])
    with pytest.raises(UPPError, match="does not support tools"):
        seeing.with_(tools=[tool(lambda: 1, name="f", description="F")]).run_sync("hi")


def test_model_reference_of_a_custom_provider_has_repr_and_attributes():
    own = provider(Generates())
    one, two = own("small"), own("small")

    assert repr(one) == f'ModelReference(provider="{own.name}", model_id="small")'
    assert one == one
    assert one != two
    assert (one.model_id, one.provider) == ("small", own.name)
    assert one.capabilities["streaming"] is True
    assert one.capabilities["image_input"] is False


def test_provider_names_are_unique_and_resolve_models():
    own = provider(Generates())

    assert model(f"{own.name}:small").provider == own.name
    assert agent(model=f"{own.name}:small").run_sync("hi").response.text == "You said hi."
    for taken in (own.name, "openai"):
        with pytest.raises(ValueError, match="already"):
            create_provider(taken, Generates())
    for name in ("", "a:b", "a b"):
        with pytest.raises(ValueError, match="without a colon"):
            create_provider(name, Generates())
    with pytest.raises(TypeError, match="needs generate"):
        create_provider("test_nothing", object())


def test_builtin_vendors_resolve_by_name():
    for name in ("anthropic", "google", "openai", "openai_chat", "xai_messages", "ollama", "deepseek_responses"):
        reference = model(f"{name}:some/model:tag", api_key="sk-1")
        assert (reference.provider, reference.model_id) == (name.split("_")[0], "some/model:tag")
    own = agent(model="openai:gpt-5")
    assert (own.model.provider, own.model.model_id) == ("openai", "gpt-5")
    assert own.with_(name="x").model is own.model
    for wrong, words in (
        ("gpt-5", "expected provider:model"),
        ("nobody:m", "expected one of anthropic"),
        ("openai:", "expected"),
    ):
        with pytest.raises(ValueError, match=words):
            agent(model=wrong)


def test_invalid_response_error_names_the_problem():
    class Wrong:
        async def generate(self, request):
            return ModelResponse("x", stop_reason="bored")

    class Nothing:
        async def generate(self, request):
            return None

    with pytest.raises(ValueError, match="stop_reason must be one of"):
        agent(model=provider(Wrong())("small")).run_sync("hi")
    with pytest.raises(TypeError, match="not None"):
        agent(model=provider(Nothing())("small")).run_sync("hi")


def test_custom_provider_rejects_native_tools_of_vendors():
    own = agent(model=provider(Generates())("small"), tools=[native.openai.web_search()])

    with pytest.raises(UPPError, match="web_search"):
        own.run_sync("hi")
    assert isinstance(openai("gpt-5").provider, str)


def test_leaving_a_stream_ends_its_blocked_thread(run):
    ended = threading.Event()

    class Endless:
        def stream(self, request):
            try:
                while True:
                    yield text("x")
            finally:
                ended.set()

    async def main():
        stream = agent(model=provider(Endless())("small")).stream("hi")
        async for event in stream:
            # Earlier events come from the agent; before this one the thread may not have started.
            if event.source == "upp" and event.upp.type == "text_delta":
                break
        await stream.aclose()

    run(main())

    assert ended.wait(30)


class Embeds:
    batch_size = 2

    def __init__(self):
        self.requests = []

    async def embed(self, request):
        self.requests.append(request)
        return [[float(len(text)), -0.5] for text in request.inputs]


class EmbedsInThread(Embeds):
    def embed(self, request):
        self.thread = threading.current_thread()
        self.requests.append(request)
        embeddings = [
            {"vector": [len(text), -0.5], "dimensions": 2, "index": i} for i, text in enumerate(request.inputs)
        ]
        return {"embeddings": embeddings, "usage": {"totalTokens": 7}}


@pytest.mark.parametrize("implementation", [Embeds, EmbedsInThread])
def test_custom_provider_creates_embeddings(implementation, run):
    own = implementation()
    reference = provider(own)("small")
    embedder = embedding(model=reference, params={"dimensions": 2})

    result = run(embedder.embed(["a", "bb", "ccc"], input_type="query"))

    assert [item.vector for item in result.embeddings] == [[1.0, -0.5], [2.0, -0.5], [3.0, -0.5]]
    assert [item.index for item in result.embeddings] == [0, 1, 2]
    assert result.usage.total_tokens == (14 if implementation is EmbedsInThread else 0)
    assert [request.inputs for request in own.requests] == [["a", "bb"], ["ccc"]]
    assert (own.requests[0].params, own.requests[0].input_type) == ({"dimensions": 2}, "query")
    assert embedder.embed_sync("dddd").embeddings[0].vector == [4.0, -0.5]
    assert reference.modalities == ("embedding",)
    if implementation is EmbedsInThread:
        assert own.thread is not threading.main_thread()


def test_embedding_only_provider_rejects_generate():
    with pytest.raises(UPPError, match="does not support llm modality") as caught:
        agent(model=provider(Embeds())("small")).run_sync("hi")
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    for bind in (embedding, image):
        with pytest.raises(UPPError, match="does not support"):
            bind(model=provider(Generates())("small"))


def test_wrong_number_of_vectors_is_rejected():
    class Short:
        def embed(self, request):
            return [[1.0]]

    with pytest.raises(UPPError, match="1 vectors for 2 inputs"):
        embedding(model=provider(Short())("small")).embed_sync(["a", "b"])

    class Wrong:
        def embed(self, request):
            return {"embeddings": "none"}

    with pytest.raises(ValueError, match="the return value of embed"):
        embedding(model=provider(Wrong())("small")).embed_sync("a")


def test_images_are_passed_to_embed_if_supported():
    class Sees:
        def embed(self, request):
            return [[1.0 if isinstance(item, Image) else 0.0] for item in request.inputs]

    inputs = ["a", Image.from_base64("aGk=", "image/png")]

    seen = embedding(model=provider(Sees(), capabilities={"image_input": True})("small")).embed_sync(inputs)

    assert [item.vector for item in seen.embeddings] == [[0.0], [1.0]]
    with pytest.raises(UPPError, match="image input"):
        embedding(model=provider(Sees())("small")).embed_sync(inputs)


PICTURE = Image.from_base64("aGk=", "image/png")


class Draws:
    def __init__(self):
        self.requests = []

    async def generate_image(self, request):
        self.requests.append(request)
        return [PICTURE] * request.params.get("n", 1)

    async def edit(self, request):
        self.requests.append(request)
        return ImageResult.model_validate({"images": [{"image": request.image}], "usage": {"imagesGenerated": 1}})


class DrawsInThread(Draws):
    def generate_image(self, request):
        self.requests.append(request)
        return PICTURE if request.params.get("n", 1) == 1 else (PICTURE, PICTURE)

    def edit(self, request):
        self.requests.append(request)
        return {"images": [{"image": request.image}], "usage": {"imagesGenerated": 1}}


@pytest.mark.parametrize("implementation", [Draws, DrawsInThread])
def test_custom_provider_generates_images(implementation, run):
    own = implementation()
    reference = provider(own)("small")
    maker = image(model=reference, params={"n": 2})

    async def main():
        stream = maker.stream("a cat")
        return await maker.generate("a cat"), [event.type async for event in stream], await stream.result

    result, events, streamed = run(main())

    assert [made.image for made in result.images] == [PICTURE, PICTURE]
    assert (events, streamed) == (["complete", "complete"], result)
    assert (own.requests[0].prompt, own.requests[0].image, own.requests[0].params) == ("a cat", None, {"n": 2})
    edited = maker.edit_sync(PICTURE, "a dog", mask=PICTURE)
    assert (edited.images[0].image, edited.usage.images_generated) == (PICTURE, 1)
    assert (own.requests[-1].prompt, own.requests[-1].mask) == ("a dog", PICTURE)
    capabilities = maker.capabilities
    assert (capabilities.generate, capabilities.streaming, capabilities.edit) == (True, True, True)
    assert reference.modalities == ("image",)


@pytest.mark.parametrize("is_async", [False, True])
def test_exceptions_from_embed_and_generate_image_reach_the_caller(is_async):
    raised = OwnError("no")

    class Fails:
        if is_async:

            async def embed(self, request):
                raise raised

            async def generate_image(self, request):
                raise raised
        else:

            def embed(self, request):
                raise raised

            def generate_image(self, request):
                raise raised

    reference = provider(Fails())("small")
    assert reference.modalities == ("embedding", "image")
    with pytest.raises(OwnError) as caught:
        embedding(model=reference).embed_sync("a")
    assert caught.value is raised
    with pytest.raises(OwnError) as caught:
        image(model=reference).generate_sync("a cat")
    assert caught.value is raised
    with pytest.raises(UPPError, match="image editing"):
        image(model=reference).edit_sync(PICTURE, "a cat")


def test_cancelled_call_cancels_embed(run):
    seen = []

    class Waits:
        async def embed(self, request):
            try:
                seen.append("begun")
                await asyncio.sleep(60)
            finally:
                seen.append("ended")

    async def main():
        task = asyncio.ensure_future(embedding(model=provider(Waits())("small")).embed("a"))
        while not seen:
            await asyncio.sleep(0.001)  # the poll interval; the deadline is below
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while len(seen) < 2:
            await asyncio.sleep(0.001)  # the poll interval; the deadline is below

    run(asyncio.wait_for(main(), 30))

    assert seen == ["begun", "ended"]


def test_generate_image_must_return_images():
    class Talks:
        def generate_image(self, request):
            return "a cat"

    with pytest.raises((TypeError, ValueError)):
        image(model=provider(Talks())("small")).generate_sync("a cat")
