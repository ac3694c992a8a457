"""Reads deeply nested data in every entry; `test_depth` runs it. Arguments: the kind of thread, and the depths."""

import asyncio
import copy
import json
import pickle
import sys
import threading

from turntree import thread_protocol as tp
from turntree import upp

TIME = "2024-01-15T10:30:00Z"
EVENT = {"type": "new", "index": 0, "delta": {"x": 0}}


def text(levels):
    return '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


def data(levels):
    value = []
    for _ in range(levels - 2):
        value = [value]
    return {"a": value}


def law(value):
    """What a value writes can be read again."""
    written = value.to_json()
    assert type(value).model_validate_json(written) == value
    assert type(value).model_validate(value.model_dump()) == value
    value.to_dict()
    value.model_dump_json(indent=1, exclude_none=True)
    repr(value)
    assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value


def use(thread, text=None):
    """Everything that a thread offers. `text`: the text of the arguments."""
    law(thread)
    for action in thread.actions:
        law(action)
        if text is not None and isinstance(action, tp.ToolCallAction):
            levels = len(text) // 2 - 2
            assert isinstance(action.args, dict) == (levels <= 160), levels
            assert levels <= 160 or action.args in (text, {"INVALID_JSON": text})
        copied = tp.Thread()
        copied.append(action)
        law(copied)
    thread.validate()
    thread.canonical_json()
    thread.digest()
    thread.usage()
    history = thread.to_upp()
    law(upp.Thread(history))
    law(tp.from_upp(history))
    law(tp.from_ui_messages(json.dumps(thread.to_ui_messages())))
    list(thread.to_ui_stream_bytes())
    law(tp.from_ui_stream(thread.to_ui_stream()))
    law(tp.from_pydantic_ai(thread.to_pydantic_ai_json()))


def within(document, **values):
    """The JSON of a document with a text as the value of some members."""
    written = json.dumps(document)
    for name, value in values.items():
        assert f'"{name}": 0' in written
        written = written.replace(f'"{name}": 0', f'"{name}": {value}')
    return written


def document(value):
    call = {"action_type": "tool_call", "agent_id": "m", "tool_name": "x", "tool_call_id": "c", "args": 0}
    agent = {"agent_id": "m", "agent_identifier": "m", "agent_name": "m", "created_at": TIME}
    thread = {"version": "1.0.0", "thread_id": "t", "created_at": TIME, "updated_at": TIME, "title": ""}
    actions = [{"sequence": 1, "timestamp": TIME, **call}]
    return within({**thread, "agents": {"m": agent}, "actions": actions}, args=value)


def ui(value):
    part = {"type": "tool-x", "toolCallId": "c", "state": "output-available", "input": 0, "output": 0}
    return within([{"id": "m", "role": "assistant", "parts": [part]}], input=value, output=value)


def history(value):
    part = {"part_kind": "tool-call", "tool_name": "x", "tool_call_id": "c", "args": 0}
    return within([{"kind": "response", "timestamp": TIME, "parts": [part]}], args=value)


def chunks(value):
    start, finish = '{"type":"start","messageId":"m"}', '{"type":"finish"}'
    call = {"type": "tool-input-available", "toolCallId": "c", "toolName": "x", "input": 0}
    result = {"type": "tool-output-available", "toolCallId": "c", "output": 0}
    body = [start, within(call, input=value), within(result, output=value), finish]
    return "".join(f"data: {chunk}\n\n" for chunk in body)


def message(value):
    call = {"toolCallId": "c", "toolName": "x", "arguments": 0}
    content = [{"type": "text", "text": "t", "x": 0}]
    shape = {"id": "m", "type": "assistant", "timestamp": TIME, "content": content}
    return within({**shape, "toolCalls": [call], "metadata": {"a": 0}}, x=value, arguments=value, a=value)


def action(value):
    return within({"action_type": "system.x", "sequence": 1, "timestamp": TIME, "data": 0}, data=value)


def ui_data(data):
    return [{"id": "m", "role": "assistant", "parts": [{"type": "data-x", "data": data}]}]


def ui_chunks(data):
    return [{"type": "start", "messageId": "m"}, {"type": "data-x", "data": data}]


def of_message(text):
    one = upp.Message.model_validate_json(text)
    for value in (one, upp.Thread([one]), *one.content, *one.tool_calls):
        law(value)
    use(tp.from_upp([one]))


TEXTS = {
    "thread": lambda text: use(tp.Thread.model_validate_json(document(json.dumps(text)))),
    "ui messages": lambda text: use(tp.from_ui_messages(ui(json.dumps(text)))),
    "ui messages as data": lambda text: use(tp.from_ui_messages(json.loads(ui(json.dumps(text))))),
    "ui stream": lambda text: use(tp.from_ui_stream(chunks(json.dumps(text)))),
    "history": lambda text: use(tp.from_pydantic_ai(history(json.dumps(text))), text),
    "message": lambda text: of_message(message(json.dumps(text))),
}
VALUES = {
    "thread": lambda text: law(tp.Thread.model_validate_json(document(text))),
    "ui messages": lambda text: law(tp.from_ui_messages(ui(text))),
    "ui stream": lambda text: law(tp.from_ui_stream(chunks(text))),
    "history": lambda text: law(tp.from_pydantic_ai(history(text))),
    "message": lambda text: law(upp.Message.model_validate_json(message(text))),
    "action": lambda text: law(tp.SystemAction.model_validate_json(action(text))),
    "event": lambda text: law(upp.StreamEvent.model_validate_json(within(EVENT, x=text))),
}
DATA = {
    "thread": lambda data: law(tp.Thread.model_validate(json.loads(document("0")) | {"metadata": data})),
    "action": lambda data: law(tp.ToolCallAction(agent_id="m", tool_name="x", tool_call_id="c", args=data)),
    "appended action": lambda data: law(tp.Thread().append({"action_type": "system.x", "data": data})),
    "ui messages": lambda data: law(tp.from_ui_messages(ui_data(data))),
    "ui stream": lambda data: law(tp.from_ui_stream(ui_chunks(data))),
    "call": lambda data: law(upp.ToolCall("c", "x", data)),
    "block": lambda data: law(upp.UserMessage([{"type": "text", "text": "t", "x": data}])),
}


def attack(depths):
    for levels in depths:
        for entries, value in ((TEXTS, text(levels)), (VALUES, text(levels)), (DATA, data(levels))):
            for name, entry in entries.items():
                try:
                    entry(value)
                except ValueError as error:
                    if entries is TEXTS or "nested" not in str(error) or levels <= 160:
                        raise RuntimeError(name, levels) from error


mode, depths = sys.argv[1], [int(depth) for depth in sys.argv[2].split(",")]
if mode == "main":
    attack(depths)
elif mode == "to_thread":
    asyncio.run(asyncio.to_thread(attack, depths))
else:
    threading.stack_size(int(mode))
    thread = threading.Thread(target=attack, args=(depths,))
    thread.start()
    thread.join()
print("done")
