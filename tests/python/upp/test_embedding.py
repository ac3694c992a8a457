"""Embeddings from Python, over real sockets. UPP-1.2 §15."""

import asyncio
import gc
import json
import pickle
import struct

import pytest

from turntree.testing import ErrorReply, RawReply, Reply
from turntree.upp import (
    EmbeddingResult,
    ErrorCode,
    Image,
    Text,
    UPPError,
    anthropic,
    embedding,
    google,
    mistral,
    ollama,
    openai,
    openai_compatible,
    openrouter,
    scripted,
)

KEY = "sk-secret-0123456789"


def small(server, **options):
    return embedding(model=openai("text-embedding-3-small", base_url=server.base_url, api_key=KEY), **options)


def raw(vectors, **members):
    data = [{"index": place, "embedding": vector} for place, vector in enumerate(vectors)]
    return RawReply(json.dumps({"data": data, "usage": {"total_tokens": 7}, **members}))


async def awaited(awaitable):
    return await awaitable


# One call


def test_vectors_are_in_input_order(run, loopback):
    server = loopback(raw([[0.1, -0.2], [1, 2]], model="m"))
    embedder = small(server, params={"dimensions": 2})

    result = run(embedder.embed(["a", "b"]))

    assert [item.vector for item in result.embeddings] == [[0.1, -0.2], [1.0, 2.0]]
    assert [(item.index, item.dimensions, item.tokens) for item in result.embeddings] == [(0, 2, None), (1, 2, None)]
    assert (result.usage.total_tokens, result.metadata) == (7, {"openai": {"model": "m"}})
    (request,) = server.requests
    assert request.json == {"model": "text-embedding-3-small", "input": ["a", "b"], "dimensions": 2}
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert embedder.params == {"dimensions": 2}
    assert embedder.model.model_id == "text-embedding-3-small"


@pytest.mark.parametrize("inputs", ["one", Text("one"), {"type": "text", "text": "one"}, ("one",), iter(["one"])])
def test_single_input_needs_no_list(loopback, inputs):
    server = loopback("")

    result = small(server).embed_sync(inputs)

    assert len(result.embeddings) == 1
    assert server.requests[0].json["input"] == ["one"]


def test_base64_encoding_returns_the_same_numbers(run, loopback):
    server = loopback("")

    decimals = run(small(server).embed(["a", "b"]))
    encoded = run(small(server, params={"encoding_format": "base64"}).embed(["a", "b"]))

    assert [item.vector for item in decimals.embeddings] == [item.vector for item in encoded.embeddings]
    assert [item.buffer.format for item in (decimals.embeddings[0], encoded.embeddings[0])] == ["d", "f"]


def test_vectors_support_the_buffer_protocol(loopback):
    result = small(loopback(""), params={"encoding_format": "base64"}).embed_sync(["a", "b", "c"])

    first = result.embeddings[0]
    assert struct.unpack("8f", first.buffer) == tuple(first.vector)
    assert (result.buffer.shape, result.buffer.readonly) == ((3, 8), True)
    assert result.buffer.tolist() == [item.vector for item in result.embeddings]


def test_vectors_of_different_lengths_have_no_matrix(loopback):
    result = small(loopback(raw([[1], [1, 2]]))).embed_sync(["a", "b"])

    with pytest.raises(ValueError, match="no matrix"):
        _ = result.buffer


def test_embedding_results_support_the_data_methods(loopback):
    result = small(loopback("")).embed_sync(["a"])

    assert EmbeddingResult.model_validate(result.model_dump()) == result
    assert pickle.loads(pickle.dumps(result)) == result
    assert set(result.to_dict()) == {"embeddings", "usage", "metadata"}


# Errors


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([], "the list is empty"),
        (["a", ""], r"inputs\[1\] is empty"),
        (Image.from_url("https://h/a.png"), "image input"),
    ],
)
def test_inputs_that_cannot_be_embedded_are_rejected(loopback, inputs, words):
    server = loopback("")

    with pytest.raises(UPPError, match=words) as caught:
        small(server).embed(inputs)

    assert (caught.value.code, caught.value.modality) == (ErrorCode.INVALID_REQUEST, "embedding")
    assert server.requests == []


@pytest.mark.parametrize("inputs", [42, None, b"bytes", ["a", 1], [["a"]], [{"type": "document"}]])
def test_error_names_an_input_of_the_wrong_type(loopback, inputs):
    with pytest.raises((TypeError, ValueError), match="inputs"):
        small(loopback("")).embed(inputs)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"batch_size": 0}, "batch_size"), ({"concurrency": -1}, "concurrency"), ({"input_type": "both"}, "input_type")],
)
def test_error_names_an_option_out_of_range(loopback, options, words):
    with pytest.raises(ValueError, match=words):
        small(loopback("")).embed("a", **options)


def test_embedding_errors_contain_the_modality(run, loopback):
    server = loopback([raw(["?!"]), raw([]), ErrorReply(429, "slow down")])

    codes = []
    for _ in range(3):
        with pytest.raises(UPPError) as caught:
            run(small(server).embed("a"))
        codes.append((caught.value.code, caught.value.modality, caught.value.provider))

    expected = [ErrorCode.INVALID_RESPONSE, ErrorCode.INVALID_RESPONSE, ErrorCode.RATE_LIMITED]
    assert codes == [(code, "embedding", "openai") for code in expected]


@pytest.mark.parametrize("model", [anthropic("claude"), scripted(["Hello."])])
def test_provider_without_embeddings_is_rejected(model):
    with pytest.raises(UPPError, match="does not support embedding modality") as caught:
        embedding(model=model)

    assert (caught.value.code, caught.value.modality) == (ErrorCode.INVALID_REQUEST, "embedding")
    assert model.modalities == ("llm",)


def test_model_argument_must_be_a_model_reference():
    with pytest.raises(TypeError, match="model must come from"):
        embedding(model="text-embedding-3-small")


# Batches and streams


def test_batches_are_joined_in_input_order(run, loopback):
    server = loopback(Reply(input_tokens=5))

    result = run(small(server).embed([f"t{n}" for n in range(7)], batch_size=3, concurrency=2))

    assert sorted(request.json["input"] for request in server.requests) == [
        ["t0", "t1", "t2"],
        ["t3", "t4", "t5"],
        ["t6"],
    ]
    assert [item.index for item in result.embeddings] == list(range(7))
    assert result.embeddings[6].vector == small(server).embed_sync("t6").embeddings[0].vector
    assert result.usage.total_tokens == 15


def test_large_inputs_are_split_at_the_limit_of_the_model(run, loopback):
    server = loopback("")
    model = google("gemini-embedding-001", base_url=f"{server.url}/v1beta", api_key=KEY)

    run(embedding(model=model).embed(["x"] * 101))

    assert [len(request.json["requests"]) for request in server.requests] == [100, 1]


def test_chunked_call_reports_each_batch(run, loopback):
    async def main():
        stream = small(loopback("")).embed(list("abcde"), chunked=True, batch_size=2)
        seen = [(p.completed, p.total, p.percent, [e.index for e in p.embeddings]) async for p in stream]
        return seen, await stream.result, await stream

    seen, result, again = run(main())

    assert seen == [(2, 5, 40.0, [0, 1]), (4, 5, 80.0, [2, 3]), (5, 5, 100.0, [4])]
    assert result == again
    assert [item.index for item in result.embeddings] == [0, 1, 2, 3, 4]


def test_chunked_call_starts_when_read_and_its_result_can_be_awaited_alone(run, loopback):
    server = loopback("")

    async def main():
        stream = small(server).embed(list("abc"), chunked=True, batch_size=1)
        # The test proves an absence, which has no event: it gives the call time to send a request.
        await asyncio.sleep(0.01)
        before = len(server.requests)
        return before, await stream.result

    before, result = run(main())

    assert (before, len(server.requests), len(result.embeddings)) == (0, 3, 3)


def test_an_abort_cancels_iteration_and_result(run, loopback):
    server = loopback(Reply(delay=60))

    async def main():
        stream = small(server).embed(list("abc"), chunked=True, batch_size=1)
        waiting = asyncio.ensure_future(awaited(stream.result))
        await asyncio.to_thread(server.wait_for_request, timeout=20)
        stream.abort()
        with pytest.raises(UPPError) as first:
            await waiting
        with pytest.raises(UPPError) as second:
            async for _ in stream:
                pass
        return first.value, second.value

    for error in run(main()):
        assert (error.code, error.modality) == (ErrorCode.CANCELLED, "embedding")
    assert len(server.requests) == 1
    assert server.requests[0].wait(20) == "dropped"


def test_cancelled_task_closes_its_http_requests(run, loopback):
    server = loopback(Reply(delay=60))

    async def main():
        task = asyncio.ensure_future(small(server).embed("a"))
        await asyncio.to_thread(server.wait_for_request, timeout=20)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert run(main())
    assert server.requests[0].wait(20) == "dropped"


def test_sync_method_streams(loopback):
    with small(loopback("")).embed_sync(list("abc"), chunked=True, batch_size=2) as stream:
        assert [progress.completed for progress in stream] == [2, 3]
        assert len(stream.result.embeddings) == 3


def test_a_failed_batch_fails_the_result(run, loopback):
    server = loopback([raw([[1]]), ErrorReply(500, "broken")])

    async def main():
        stream = small(server).embed(["a", "b"], chunked=True, batch_size=1)
        seen = []
        with pytest.raises(UPPError, match="broken"):
            async for progress in stream:
                seen.append(progress.completed)
        with pytest.raises(UPPError, match="broken"):
            await stream.result
        return seen

    assert run(main()) == [1]


# Vendors


@pytest.mark.parametrize("input_type", [None, "document", "query"])
def test_embedding_requests_use_the_format_of_each_vendor(loopback, input_type):
    server = loopback("")
    url, key = server.base_url, {"api_key": KEY}
    models = [
        google("m", base_url=f"{server.url}/v1beta", **key),
        ollama("m", base_url=server.url),
        openrouter("m", base_url=url, **key),
        mistral("m", base_url=url, **key),
        openai_compatible("m", url, **key),
    ]

    results = [embedding(model=model).embed_sync("abc", input_type=input_type) for model in models]

    assert len({tuple(result.embeddings[0].vector) for result in results}) == 1
    assert all(result.usage.total_tokens > 0 for result in results)
    asked = [request.json for request in server.requests]
    task = {"document": "RETRIEVAL_DOCUMENT", "query": "RETRIEVAL_QUERY", None: None}[input_type]
    assert asked[0]["requests"][0].get("taskType") == task
    assert [body.get("input_type") for body in asked[1:]] == [None, input_type, None, input_type]
    assert [model.modalities[:2] for model in models] == [("llm", "embedding")] * 5


def test_config_overrides_the_settings_of_the_model_factory(loopback):
    server = loopback("")
    model = openai("m", base_url="http://127.0.0.1:1", api_key="wrong")

    embedding(model=model, config={"base_url": server.base_url, "api_key": KEY}).embed_sync("a")

    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_embedder_referenced_by_its_key_function_is_collected(loopback):
    class Owner:
        def __init__(self, server):
            self.embedder = embedding(model=openai("m", base_url=server.base_url, api_key=self.key))

        def key(self):
            return KEY

    import weakref

    owner = Owner(loopback(""))
    owner.embedder.embed_sync("a")
    gone = weakref.ref(owner)
    del owner
    gc.collect()

    assert gone() is None
