"""Middleware around `embedding()` and `image()`. UPP-1.2 §17."""

import asyncio

import pytest

from turntree.testing import ErrorReply
from turntree.upp import Image, UPPError, embedding, image, openai
from turntree.upp.middleware import logging, persistence


class Diary:
    """Records its hook calls and changes the request."""

    def __init__(self):
        self.heard = []

    def on_start(self, context):
        self.heard.append(f"start {context.modality} {context.streaming}")

    async def on_request(self, context):
        await asyncio.sleep(0)
        request = context.request
        if context.modality == "embedding":
            request.inputs = [text.strip() for text in request.inputs]
            request.params["dimensions"] = 2
        else:
            request.prompt = f"{request.prompt}, in oil"
            request.params["n"] = 2
        with pytest.raises(TypeError, match="only requests of language models"):
            _ = request.messages

    def on_response(self, context):
        self.heard.append(type(context.response).__name__)

    def on_end(self, context):
        assert context.end_time >= context.start_time
        assert context.stop_reason is None
        self.heard.append("end")

    def on_error(self, error, context):
        self.heard.append(f"error {error.code.value}")

    def on_abort(self, error, context):
        self.heard.append(f"abort {error.code.value}")

    def on_stream_event(self, event, context):
        raise AssertionError

    def on_stream_end(self, context):
        raise AssertionError


def vectors_of(server, *middleware):
    model = openai("text-embedding-3-small", base_url=server.base_url, api_key="sk-0123456789")
    return embedding(model=model, middleware=middleware)


def pictures_of(server, *middleware):
    model = openai("gpt-image-1", base_url=server.base_url, api_key="sk-0123456789")
    return image(model=model, middleware=middleware)


def test_hooks_can_change_embedding_inputs(run, loopback):
    diary, server = Diary(), loopback(["", ""])
    embedder = vectors_of(server, diary)

    run(embedder.embed([" a ", "b"]))
    embedder.embed_sync("c ")

    assert [request.json["input"] for request in server.requests] == [["a", "b"], ["c"]]
    assert server.requests[0].json["dimensions"] == 2
    assert embedder.params is None
    assert diary.heard == ["start embedding False", "EmbeddingResult", "end"] * 2


def test_hooks_run_once_for_a_chunked_call(run, loopback):
    diary, server = Diary(), loopback(["", ""])

    async def main():
        stream = vectors_of(server, diary).embed(["a", "b"], chunked=True, batch_size=1)
        seen = [progress.completed async for progress in stream]
        return seen, (await stream.result).embeddings

    seen, embeddings = run(main())

    assert (seen, len(embeddings)) == ([1, 2], 2)
    assert diary.heard == ["start embedding True", "EmbeddingResult", "end"]


def test_aborted_chunked_call_calls_on_abort_and_failed_call_calls_on_error(run, loopback):
    aborted, failed = Diary(), Diary()
    server = loopback(["", ErrorReply(400, "no")])

    async def main():
        stream = vectors_of(server, aborted).embed(["a", "b"], chunked=True, batch_size=1)
        await stream.__anext__()
        stream.abort()
        with pytest.raises(UPPError, match="ancel"):
            await stream.result

    run(main())
    with pytest.raises(UPPError):
        vectors_of(server, failed).embed_sync("a")

    assert aborted.heard == ["start embedding True", "abort CANCELLED"]
    assert failed.heard == ["start embedding False", "error INVALID_REQUEST"]


def test_hooks_can_change_image_requests(run, loopback):
    diary, server = Diary(), loopback(["", ""])
    maker = pictures_of(server, diary)

    run(maker.generate("a fox"))
    maker.edit_sync(Image.from_base64("AAEC", "image/png"), "with a hat")
    assert (server.requests[0].json["prompt"], server.requests[0].json["n"]) == ("a fox, in oil", 2)
    assert b"with a hat, in oil" in server.requests[1].body
    assert diary.heard == ["start image False", "ImageResult", "end"] * 2


def test_hooks_run_around_an_image_stream(run, loopback):
    diary, server = Diary(), loopback(["", ""])

    async def main():
        stream = pictures_of(server, diary).stream("a fox")
        kinds = [event.type async for event in stream]
        return kinds, await stream.result

    kinds, result = run(main())
    left = pictures_of(server, diary).stream_sync("a fox")
    next(iter(left))
    left.close()

    assert kinds[-1] == "complete"
    assert len(result.images) == 1
    assert diary.heard == ["start image True", "ImageResult", "end", "start image True", "abort CANCELLED"]


def test_exception_from_an_embedding_hook_is_raised_as_the_same_object(run, loopback):
    raised = RuntimeError("out of paper")

    class Failing:
        def on_request(self, context):
            raise raised

    with pytest.raises(RuntimeError) as caught:
        run(vectors_of(loopback([]), Failing()).embed("a"))

    assert caught.value is raised


def test_logging_and_persistence_do_not_affect_embeddings(run, loopback):
    lines = []

    class Drawer:
        id = "x"

        def load(self, id):
            raise AssertionError

        save = load

    log = logging("debug", lambda level, message, data: lines.append((message, data)), log_contents=True)
    run(vectors_of(loopback(""), log, persistence(Drawer())).embed(["a", "b"]))

    assert [message.rsplit("3-small ")[-1] for message, _ in lines] == [
        "starts",
        "receives a request",
        "returned a response",
        "ends",
    ]
    assert lines[1][1]["contents"] == ["a", "b"]
    assert lines[2][1]["embeddings"] == 2
