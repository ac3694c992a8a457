"""Images from Python, over real sockets. UPP-1.2 §16."""

import asyncio
import base64

import pytest

from turntree.testing import ErrorReply, Fault, RawReply, Reply
from turntree.upp import (
    ErrorCode,
    GeneratedImage,
    Image,
    ImageCapabilities,
    UPPError,
    anthropic,
    google,
    image,
    openai,
    xai,
)

KEY = "sk-secret-0123456789"
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB")


def maker(server, model="gpt-image-1", **params):
    return image(model=openai(model, base_url=server.base_url, api_key=KEY), params=params)


def test_images_are_generated(run, loopback):
    server = loopback(Reply(input_tokens=11, output_tokens=22))

    result = run(maker(server, n=2, size="1024x1024").generate("a fox"))

    assert server.requests[0].json == {"model": "gpt-image-1", "prompt": "a fox", "n": 2, "size": "1024x1024"}
    assert [made.image.mime_type for made in result.images] == ["image/png"] * 2
    assert result.images[0].image.to_bytes().startswith(b"\x89PNG")
    assert result.images[0].metadata == {"openai": {"revised_prompt": "a fox, in detail"}}
    usage = result.usage
    assert (usage.images_generated, usage.input_tokens, usage.output_tokens, usage.cost) == (2, 11, 22, None)


@pytest.mark.parametrize("prompt", ["a fox", {"prompt": "a fox"}])
def test_sync_method_accepts_both_forms_of_prompt(loopback, prompt):
    server = loopback("")

    result = maker(server, response_format="url").generate_sync(prompt)

    assert server.requests[0].user_text == "a fox"
    assert result.images[0].image.to_url() == "https://pictures.example/dot.png"


def test_image_is_edited(run, loopback):
    server = loopback("")
    fox, mask = Image.from_bytes(PNG, "image/png"), Image.from_base64("AAEC", "image/webp")

    run(maker(server, n=1).edit(fox, "with a hat", mask=mask))
    maker(server).edit_sync(fox, "with a hat")

    assert server.requests[0].path == "/v1/images/edits"
    assert server.requests[0].json == {
        "model": "gpt-image-1",
        "prompt": "with a hat",
        "image": {"filename": "image.png", "type": "image/png", "size": len(PNG)},
        "mask": {"filename": "mask.webp", "type": "image/webp", "size": 3},
        "n": "1",
    }
    assert "mask" not in server.requests[1].json


def test_preview_events_precede_the_image(run, loopback):
    async def main():
        stream = maker(loopback(""), partial_images=2).stream("a fox")
        events = [event async for event in stream]
        return events, await stream.result, await stream

    events, result, again = run(main())

    assert [(event.type, event.index, type(event.image)) for event in events] == [
        ("preview", 0, Image),
        ("preview", 1, Image),
        ("complete", 0, GeneratedImage),
    ]
    assert events[-1].image == result.images[0]
    assert result == again


def test_sync_method_streams(loopback):
    with maker(loopback(""), partial_images=1).stream_sync("a fox") as stream:
        assert [event.type for event in stream] == ["preview", "complete"]
        assert len(stream.result.images) == 1


def test_stream_can_be_aborted(run, loopback):
    server = loopback(Reply(delay=60))

    async def main():
        stream = maker(server).stream("a fox")
        waiting = asyncio.ensure_future(stream.__anext__())
        await asyncio.to_thread(server.wait_for_request, timeout=20)
        stream.abort()
        with pytest.raises(UPPError) as first:
            await waiting
        with pytest.raises(UPPError) as second:
            await stream.result
        return first.value, second.value

    for error in run(main()):
        assert (error.code, error.modality) == (ErrorCode.CANCELLED, "image")
    assert server.requests[0].wait(20) == "dropped"


@pytest.mark.parametrize("fault", [Fault(error_after=1), Fault(truncate_after=40), Fault(reset_after=40)])
def test_broken_stream_raises_an_error(run, loopback, fault):
    async def main():
        stream = maker(loopback(Reply(fault=fault)), partial_images=1).stream("a fox")
        async for _ in stream:
            pass

    with pytest.raises(UPPError) as caught:
        run(main())

    assert caught.value.modality == "image"
    assert caught.value.code in {ErrorCode.PROVIDER_ERROR, ErrorCode.INVALID_RESPONSE, ErrorCode.NETWORK_ERROR}


def test_google_and_xai_generate_images(loopback):
    server = loopback("")
    imagen = image(model=google("imagen-4", base_url=f"{server.url}/v1beta", api_key=KEY), params={"sampleCount": 2})
    grok = image(model=xai("grok-2-image", base_url=server.base_url, api_key=KEY))

    assert len(imagen.generate_sync("a fox").images) == 2
    assert len(grok.generate_sync("a fox").images) == 1

    assert server.requests[0].json == {"instances": [{"prompt": "a fox"}], "parameters": {"sampleCount": 2}}
    assert server.requests[0].path == "/v1beta/models/imagen-4:predict"
    assert imagen.capabilities == ImageCapabilities(generate=True, streaming=False, edit=False, max_images=4)
    assert grok.model.modalities == ("llm", "image")


def test_unsupported_requests_are_rejected(run, loopback):
    server = loopback("")
    fox = Image.from_bytes(PNG, "image/png")
    grok = image(model=xai("grok-2-image", base_url=server.base_url, api_key=KEY))
    refused = [
        lambda: image(model=anthropic("claude")),
        lambda: grok.stream("a fox"),
        lambda: grok.edit_sync(fox, "a hat"),
        lambda: maker(server, "dall-e-3").edit_sync(fox, "a hat"),
        lambda: maker(server, "dall-e-3").stream("a fox"),
        lambda: maker(server).edit_sync(Image.from_url("https://h/a.png"), "a hat"),
        lambda: maker(server).generate_sync(""),
    ]
    for call in refused:
        with pytest.raises(UPPError) as caught:
            call()
        assert (caught.value.code, caught.value.modality) == (ErrorCode.INVALID_REQUEST, "image")
    assert server.requests == []


def test_error_names_an_argument_of_the_wrong_type(loopback):
    make = maker(loopback(""))
    with pytest.raises(TypeError, match="prompt must be a str, not int"):
        make.generate(42)
    with pytest.raises(TypeError, match="image must be"):
        make.edit("fox.png", "a hat")
    with pytest.raises(TypeError, match="model must come from"):
        image(model=None)


def test_vendor_errors_and_empty_answers_map_to_error_codes(loopback):
    server = loopback([ErrorReply(400, "no", code="content_policy_violation"), RawReply('{"data": []}')])

    codes = []
    for _ in range(2):
        with pytest.raises(UPPError) as caught:
            maker(server).generate_sync("a fox")
        codes.append(caught.value.code)

    assert codes == [ErrorCode.CONTENT_FILTERED, ErrorCode.INVALID_RESPONSE]
