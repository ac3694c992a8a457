"""Code that a vendor runs for the model: a block of its own, sent back to the vendor as it came."""

import json
import struct
import zlib

import pytest

from turntree.testing import RawReply, serve
from turntree.thread_protocol import from_upp
from turntree.upp import (
    AssistantMessage,
    CodeExecution,
    CodeExecutionDelta,
    Reasoning,
    Text,
    UserMessage,
    anthropic,
    bedrock,
    google,
    groq,
    llm,
    ollama,
    openai,
)

KEY = {"api_key": "k"}


def sse(*events):
    frames = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return RawReply("".join(frames), content_type="text/event-stream")


MAX = {"max_tokens": 64}


def claude(url):
    return anthropic("claude-sonnet-4-5", base_url=url, **KEY)


def gemini(url):
    return google("gemini-2.5-flash", base_url=url, **KEY)


def gpt(url):
    return openai("gpt-5", base_url=url, **KEY)


BASH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "bash_code_execution", "input": {"command": "ls"}}
LISTED = {
    "type": "bash_code_execution_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {
        "type": "bash_code_execution_result",
        "stdout": "a.txt\n",
        "stderr": "",
        "return_code": 0,
        "content": [],
    },
}
CLAUDE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "Look:"}, BASH, LISTED, {"type": "text", "text": "One file."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
CLAUDE_EVENTS = [
    {"type": "message_start", "message": {**CLAUDE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Look:"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {**BASH, "input": {}}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"comm'}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": 'and": "ls"}'}},
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2, "content_block": LISTED},
    {"type": "content_block_stop", "index": 2},
    {"type": "content_block_start", "index": 3, "content_block": {"type": "text", "text": "One file."}},
    {"type": "content_block_stop", "index": 3},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]

GEMINI_PARTS = [
    {"text": "Look:"},
    {"executableCode": {"language": "PYTHON", "code": "print(6*7)"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}},
    {"text": "It is 42."},
]


def gemini_frame(*parts, **members):
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **members}], "modelVersion": "m"}


GEMINI = gemini_frame(*GEMINI_PARTS, finishReason="STOP")

RAN = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "code": "print(6*7)",
    "container_id": "c",
    "outputs": [{"type": "logs", "logs": "42\n"}],
}


def said(text):
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": f"msg_{len(text)}", "role": "assistant", "status": "completed", "content": [part]}


GPT = {"id": "resp_1", "object": "response", "model": "gpt-5", "status": "completed", "usage": {}}
GPT |= {"output": [said("Look:"), RAN, said("It is 42.")]}
GPT_EVENTS = [
    {"type": "response.created", "response": {**GPT, "output": []}},
    *(
        {"type": f"response.output_item.{word}", "output_index": place, "item": item}
        for place, item in enumerate(GPT["output"])
        for word in ("added", "done")
    ),
    {"type": "response.completed", "response": GPT},
]

NOVA_CALL = {
    "toolUseId": "tooluse_1",
    "name": "nova_code_interpreter",
    "input": {"code": "print(6*7)"},
    "type": "server_tool_use",
}
NOVA_RESULT = {
    "toolUseId": "tooluse_1",
    "type": "nova_code_interpreter_result",
    "status": "success",
    "content": [{"text": '{"stdOut":"42\\n","stdErr":"","exitCode":0,"isError":false}'}],
}
NOVA_BLOCKS = [{"text": "Look:"}, {"toolUse": NOVA_CALL}, {"toolResult": NOVA_RESULT}, {"text": "It is 42."}]


def nova(url):
    return bedrock("us.amazon.nova-2-lite-v1:0", region="us-east-1", base_url=url, **KEY)


def converse(*blocks):
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    message = {"role": "assistant", "content": list(blocks)}
    return RawReply(json.dumps({"output": {"message": message}, "stopReason": "end_turn", "usage": usage}))


def block_events(index, block):
    """The events of one block of ConverseStream: a start, deltas, a stop."""
    (kind, members), place = next(iter(block.items())), {"contentBlockIndex": index}
    if kind == "text":
        yield "contentBlockDelta", {**place, "delta": {"text": members}}
    else:
        late = "input" if kind == "toolUse" else "content"
        yield "contentBlockStart", {**place, "start": {kind: {k: v for k, v in members.items() if k != late}}}
        value = {"input": json.dumps(members[late])} if kind == "toolUse" else members[late]
        yield "contentBlockDelta", {**place, "delta": {kind: value}}
    yield "contentBlockStop", place


def converse_stream(*blocks):
    events = [("messageStart", {"role": "assistant"})]
    for index, block in enumerate(blocks):
        events += block_events(index, block)
    events += [("messageStop", {"stopReason": "end_turn"}), ("metadata", {"usage": {}})]
    return RawReply(b"".join(map(stream_message, events)), content_type="application/vnd.amazon.eventstream")


def stream_message(event):
    """One message of an AWS event stream."""
    headers = {":event-type": event[0], ":content-type": "application/json", ":message-type": "event"}
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in headers.items()
    )
    payload = json.dumps(event[1]).encode()
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + payload
    return whole + struct.pack(">I", zlib.crc32(whole))


SHELL = CodeExecution("ls", "a.txt\n", language="bash")
PYTHON = CodeExecution("print(6*7)", "42\n", language="python")
VENDORS = {
    "anthropic": (claude, RawReply(json.dumps(CLAUDE)), sse(*CLAUDE_EVENTS), SHELL),
    "google": (
        gemini,
        RawReply(json.dumps(GEMINI)),
        RawReply(
            "".join(
                f"data: {json.dumps(frame)}\n\n"
                for frame in [*map(gemini_frame, GEMINI_PARTS), gemini_frame(finishReason="STOP")]
            ),
            content_type="text/event-stream",
        ),
        PYTHON,
    ),
    "openai": (gpt, RawReply(json.dumps(GPT)), sse(*GPT_EVENTS), PYTHON),
    "bedrock": (nova, converse(*NOVA_BLOCKS), converse_stream(*NOVA_BLOCKS), PYTHON),
}
vendors = pytest.mark.parametrize("vendor", VENDORS)


def answered(vendor):
    """The message of a vendor that ran code."""
    make, whole, _, _ = VENDORS[vendor]
    with serve(lambda request: whole) as server:
        return llm(model=make(server.base_url), settings=MAX).generate_sync("Go").response


@vendors
def test_output_of_code_is_a_block_of_its_own(vendor):
    block = VENDORS[vendor][3]
    response = answered(vendor)
    assert [type(part) for part in response.content] == [Text, CodeExecution, Text]
    assert response.content[1] == block
    assert (block.output or "") not in response.text


@vendors
def test_streams_have_an_event_with_code_and_output(vendor):
    make, _, streamed, block = VENDORS[vendor]
    with serve(lambda request: streamed) as server:
        stream = llm(model=make(server.base_url), settings=MAX).stream_sync("Go")
        events = [event for event in stream if isinstance(event, CodeExecutionDelta)]
        response = stream.turn.response
    assert [(event.code, event.output, event.language) for event in events] == [
        (block.code, block.output, block.language)
    ]
    assert response.content == answered(vendor).content


@vendors
def test_the_vendor_receives_its_own_parts_again(vendor):
    make, whole, _, _ = VENDORS[vendor]
    with serve(lambda request: whole) as server:
        model = llm(model=make(server.base_url), settings=MAX)
        turn = model.generate_sync("Go")
        model.generate_sync(turn.messages, "Again")
        body = server.requests[1].json
    if vendor == "anthropic":
        assert body["messages"][1]["content"] == CLAUDE["content"]
    elif vendor == "google":
        assert body["contents"][1]["parts"] == GEMINI_PARTS
    elif vendor == "bedrock":
        assert body["messages"][1]["content"] == NOVA_BLOCKS
    else:
        sent = [item for item in body["input"] if item.get("role") != "user"]
        assert [item["type"] for item in sent] == ["message", "code_interpreter_call", "message"]
        assert sent[1] == RAN


@vendors
def test_other_vendors_receive_code_and_output_as_text(vendor):
    message, block = answered(vendor), VENDORS[vendor][3]
    with serve(lambda request: "ok") as server:
        for make in (ollama, lambda model, **options: openai(model, "completions", **options)):
            llm(model=make("m", base_url=server.base_url, **KEY)).generate_sync([message], "Go on")
            text = server.requests[-1].json["messages"][0]["content"]
            assert f"```{block.language}\n{block.code}\n```" in text
            assert f"```\n{block.output.strip()}\n```" in text


@vendors
def test_a_message_that_was_changed_keeps_the_code_as_text(vendor):
    make, whole, _, block = VENDORS[vendor]
    message = answered(vendor)
    changed = AssistantMessage(message.content[1:], metadata=message.metadata)
    with serve(lambda request: whole) as server:
        llm(model=make(server.base_url), settings=MAX).generate_sync([UserMessage("Go"), changed], "Go on")
        assert block.output.strip() in json.dumps(server.requests[0].json)


@vendors
def test_threads_of_the_protocol_lose_nothing(vendor):
    message, block = answered(vendor), VENDORS[vendor][3]
    thread = from_upp([message])
    assert thread.to_upp() == [message]
    assert block.output.strip() in json.dumps(
        [action.model_dump(mode="json").get("content") for action in thread.actions]
    )


def test_failed_code_says_so():
    failed = {"type": "bash_code_execution_tool_result", "tool_use_id": "x", "content": {"error_code": "unavailable"}}
    crashed = {**LISTED, "content": {**LISTED["content"], "stdout": "", "stderr": "no", "return_code": 1}}
    for result, output in ((failed, "unavailable"), (crashed, "no")):
        reply = RawReply(json.dumps({**CLAUDE, "content": [BASH, result]}))
        with serve(lambda request, reply=reply: reply) as server:
            (block,) = llm(model=claude(server.base_url), settings=MAX).generate_sync("Go").response.content
        assert (block.is_error, block.output) == (True, output)


def test_messages_of_earlier_versions_send_the_parts_of_the_vendor():
    parts = ["text", {"part": GEMINI_PARTS[1]}, {"part": GEMINI_PARTS[2]}, "text"]
    old = AssistantMessage(
        ["Look:", "```\n42\n```", "It is 42."],
        metadata={"google": {"model": "gemini-2.5-flash", "parts": parts}},
    )
    with serve(lambda request: RawReply(json.dumps(GEMINI))) as server:
        llm(model=gemini(server.base_url)).generate_sync([old], "Again")
        assert server.requests[0].json["contents"][0]["parts"] == GEMINI_PARTS


def test_a_block_is_a_value():
    assert CodeExecution.model_validate(SHELL.model_dump()) == SHELL
    assert SHELL.model_dump(exclude_none=True) == {
        "type": "code_execution",
        "code": "ls",
        "output": "a.txt\n",
        "language": "bash",
    }
    event = CodeExecutionDelta(1, {"output": "hi"})
    assert (event.type, event.code, event.output) == ("code_execution_delta", None, "hi")


def compound(url):
    return groq("groq/compound", base_url=url, **KEY)


SEARCHED = {"index": 0, "type": "search", "arguments": '{"query": "x"}', "output": "found"}
RAN_BY_COMPOUND = {"index": 1, "type": "python", "arguments": '{"code": "print(6*7)"}', "output": "42\n"}
RAN_BY_GPT_OSS = {
    "index": 0,
    "type": "function",
    "name": "python",
    "arguments": "print(6*7)",
    "output": None,
    "code_results": [{"text": "42\n", "png": None}],
}


def groq_choice(member, message, finish=None):
    return {"id": "c", "model": "m", "choices": [{"index": 0, member: message, "finish_reason": finish}]}


def groq_whole(*tools):
    message = {"role": "assistant", "content": "It is 42.", "reasoning": "Compute.", "executed_tools": list(tools)}
    return RawReply(json.dumps(groq_choice("message", message, "stop")))


def groq_stream(*tools):
    without_output = [{**tool, "output": None, "code_results": None} for tool in tools]
    frames = [
        groq_choice("delta", {"role": "assistant", "reasoning": "Compute."}),
        *(groq_choice("delta", {"executed_tools": [tool]}) for tool in without_output),
        *(groq_choice("delta", {"executed_tools": [tool]}) for tool in tools),
        groq_choice("delta", {"content": "It is 42.", "executed_tools": list(tools)}),
        groq_choice("delta", {}, "stop"),
    ]
    text = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames)
    return RawReply(text + "data: [DONE]\n\n", content_type="text/event-stream")


@pytest.mark.parametrize("tools", [[SEARCHED, RAN_BY_COMPOUND], [RAN_BY_GPT_OSS]])
def test_groq_reports_code_in_the_tools_that_it_executed(tools):
    with serve([groq_whole(*tools), groq_stream(*tools), groq_whole()]) as server:
        model = llm(model=compound(server.base_url))
        response = model.generate_sync("Go").response
        stream = model.stream_sync("Go")
        events = [event for event in stream if isinstance(event, CodeExecutionDelta)]
        streamed = stream.turn.response
        model.generate_sync([response], "Again")
        sent = server.requests[2].json["messages"][0]
    assert [type(block) for block in response.content] == [Reasoning, CodeExecution, Text]
    assert response.content[1] == PYTHON
    assert [(event.code, event.output, event.language) for event in events] == [("print(6*7)", "42\n", "python")]
    assert streamed.content == response.content
    assert streamed.metadata["groq"]["executed_tools"] == response.metadata["groq"]["executed_tools"] == tools
    # The API refuses the member in requests.
    assert "executed_tools" not in sent
    assert "```python\nprint(6*7)\n```" in sent["content"]
    assert sent["content"].endswith("It is 42.")


def test_code_of_groq_without_an_output_is_a_block_too():
    (tool,) = [{**RAN_BY_COMPOUND, "output": None}]
    with serve([groq_whole(tool), groq_stream(tool)]) as server:
        model = llm(model=compound(server.base_url))
        block = model.generate_sync("Go").response.content[1]
        assert (block.code, block.output) == ("print(6*7)", None)
        assert model.stream_sync("Go").turn.response.content[1] == block


def test_failed_code_of_nova_says_so():
    crashed = {"json": {"stdOut": "", "stdErr": "no", "exitCode": 1, "isError": True}}
    for result, output in (({"content": [crashed]}, "no"), ({"content": [], "status": "error"}, "")):
        blocks = [{"toolUse": NOVA_CALL}, {"toolResult": {**NOVA_RESULT, **result}}]
        with serve([converse(*blocks), converse_stream(*blocks)]) as server:
            model = llm(model=nova(server.base_url))
            for turn in (model.generate_sync("Go"), model.stream_sync("Go").turn):
                (block,) = turn.response.content
                assert (block.code, block.is_error, block.output) == ("print(6*7)", True, output)


@pytest.mark.parametrize("printed", [[], [{"json": {"stdOut": "42"}}]], ids=["only an image", "text and an image"])
def test_images_that_code_of_nova_made_follow_it(printed):
    picture = {"image": {"format": "jpeg", "source": {"bytes": "aGk="}}}
    blocks = [
        {"toolUse": NOVA_CALL},
        {"toolResult": {**NOVA_RESULT, "content": [*printed, picture]}},
        {"text": "Done."},
    ]
    with serve([converse(*blocks), converse_stream(*blocks), "ok"]) as server:
        model = llm(model=nova(server.base_url))
        stream = model.stream_sync("Go")
        whole, events = model.generate_sync("Go"), list(stream)
        for turn in (whole, stream.turn):
            code, image, text = turn.response.content
            assert (code.output, image.mime_type, image.to_base64()) == ("42" if printed else "", "image/jpeg", "aGk=")
            assert text.text == "Done."
        (delta,) = (event for event in events if event.type == "image_delta")
        assert delta.index == 1

        model.generate_sync(whole.messages, "and?")
        assert json.loads(server.requests[-1].body)["messages"][1]["content"] == blocks
