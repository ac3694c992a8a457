"""Images and documents as the results of tools, in the form that each vendor takes."""

import json

import pytest

from turntree.testing import serve
from turntree.upp import (
    AssistantMessage,
    Document,
    ErrorCode,
    Image,
    ToolCall,
    ToolResult,
    ToolResultMessage,
    UPPError,
    UserMessage,
    anthropic,
    google,
    llm,
    mistral,
    ollama,
    openai,
)

PNG = Image.from_bytes(b"\x89PNG", mime_type="image/png")
DATA = "iVBORw=="
URL = f"data:image/png;base64,{DATA}"


@pytest.fixture(scope="module")
def server():
    with serve(lambda _: "ok") as running:
        yield running


def results(*values):
    calls = [ToolCall(f"call_{index}", "look", {}) for index in range(len(values))]
    dumped = [value.model_dump(mode="json") if hasattr(value, "model_dump") else value for value in values]
    dumped = [
        [each.model_dump(mode="json") if hasattr(each, "model_dump") else each for each in value]
        if isinstance(value, list)
        else value
        for value in dumped
    ]
    answers = [ToolResult(call.tool_call_id, value) for call, value in zip(calls, dumped, strict=True)]
    return [
        UserMessage("look"),
        AssistantMessage([], tool_calls=calls),
        ToolResultMessage(answers),
    ]


def sent(server, model, *values, **options):
    llm(model=model, params={"max_tokens": 64}, **options).generate_sync(results(*values), "and?")
    return json.loads(server.requests[-1].body)


def test_anthropic_takes_texts_images_and_documents(server):
    model = anthropic("m", base_url=server.base_url, api_key="k")
    pdf = Document.from_base64("aGk=", mime_type="application/pdf")
    body = sent(server, model, ["a cat", PNG, pdf])

    (block,) = body["messages"][2]["content"]
    assert block["content"] == [
        {"type": "text", "text": "a cat"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}},
    ]


def test_openai_responses_takes_them_as_the_output_of_the_call(server):
    body = sent(server, openai("m", base_url=server.base_url, api_key="k"), PNG)

    output = next(item for item in body["input"] if item.get("type") == "function_call_output")
    assert output["output"] == [{"type": "input_image", "image_url": URL}]


def test_chat_completions_gets_them_in_a_message_of_the_user_after_all_results(server):
    body = sent(server, openai("m", "completions", base_url=server.base_url, api_key="k"), ["a cat", PNG], "plain")

    messages = body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "user", "user"]
    assert messages[2]["content"] == "a cat\n[image: see the next message]"
    assert messages[3]["content"] == "plain"
    assert messages[4]["content"] == [
        {"type": "text", "text": "The result of the tool call call_0:"},
        {"type": "image_url", "image_url": {"url": URL}},
    ]


def test_mistral_gets_an_answer_between_results_and_media(server):
    body = sent(server, mistral("m", base_url=server.base_url, api_key="k"), PNG)

    assert [message["role"] for message in body["messages"]][2:5] == ["tool", "assistant", "user"]


@pytest.mark.parametrize(("name", "is_inside"), [("gemini-2.5-flash", False), ("gemini-3-pro", True)])
def test_gemini_takes_them_in_the_response_or_beside_it(server, name, is_inside):
    body = sent(server, google(name, base_url=server.base_url, api_key="k"), ["a cat", PNG], "plain")

    parts = body["contents"][2]["parts"]
    inline = {"inlineData": {"mimeType": "image/png", "data": DATA}}
    assert parts[0]["functionResponse"]["response"] == {"result": "a cat\n[image]"}
    assert parts[0]["functionResponse"].get("parts", []) == ([inline] if is_inside else [])
    assert parts[1]["functionResponse"]["response"] == {"result": "plain"}
    assert parts[2:] == ([] if is_inside else [inline])


@pytest.mark.parametrize(
    ("make", "value", "words"),
    [
        (lambda url: ollama("m", base_url=url), PNG, "send images in a user message"),
        (
            lambda url: anthropic("m", base_url=url, api_key="k"),
            {"type": "audio", "mimeType": "audio/wav", "data": "aGk="},
            "return text, images or documents",
        ),
    ],
)
def test_what_a_vendor_does_not_take_is_refused_with_its_place(server, make, value, words):
    before = len(server.requests)
    with pytest.raises(UPPError, match=words) as caught:
        sent(server, make(server.base_url), value)

    assert caught.value.code == ErrorCode.INVALID_REQUEST
    assert "messages[2]" in caught.value.message
    assert "call_0" in caught.value.message
    assert len(server.requests) == before


def test_images_by_url_are_refused_for_ollama(server):
    image = Image.from_url("https://host/a.png", mime_type="image/png")
    with pytest.raises(UPPError, match="Ollama fetches no URLs"):
        llm(model=ollama("m", base_url=server.url)).generate_sync(UserMessage([image]))


def test_an_object_that_only_looks_like_media_stays_text(server):
    body = sent(server, anthropic("m", base_url=server.base_url, api_key="k"), {"type": "image", "id": 4})

    assert json.loads(body["messages"][2]["content"][0]["content"]) == {"type": "image", "id": 4}
