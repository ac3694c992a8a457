"""Histories, threads, streams and messages that grow in one dimension, and the measurement of growth."""

import gc
import json
import time
from collections.abc import Callable
from typing import Any

# Twice the size must cost less than this factor of CPU time. Linear work costs 2, quadratic work 4.
BOUND = 2.3
TIME = "2026-03-01T10:00:00Z"

Operation = Callable[[], object]


# How a ratio over the bound is measured again: rounds, and how many times the size is doubled. The fastest of many
# rounds leaves out what other processes on the machine cost. Over several doublings a disturbance of one measurement
# weighs less, while work that grows too fast costs a large multiple.
REPETITIONS = ((5, 1), (7, 2), (9, 3))

Clock = Callable[[], float]


def cost(operation: Operation, clock: Clock) -> float:
    """Return the time of one call in seconds."""
    begin = clock()
    result = operation()
    spent = clock() - begin
    del result
    return spent


def per_doubling(small: Operation, large: Operation, rounds: int, doublings: int, clock: Clock) -> float:
    """Return the factor that each doubling of the size costs; the two are measured in turn."""
    samples = [(cost(small, clock), cost(large, clock)) for _ in range(rounds)]
    ratio = min(after for _, after in samples) / max(min(before for before, _ in samples), 1e-6)
    return ratio ** (1 / doublings)


def smallest_ratio(prepare: Callable[[int], Operation], size: int, clock: Clock) -> float:
    """Return by which factor the time of an operation grows when its size doubles.

    One sample of each size is enough if it is below the bound. Otherwise the smallest of several measurements counts,
    of more rounds and of larger sizes.
    """
    small = prepare(size)
    ratio = per_doubling(small, prepare(2 * size), 1, 1, clock)
    for rounds, doublings in REPETITIONS:
        if ratio < BOUND:
            break
        large = prepare(2**doublings * size)
        ratio = min(ratio, per_doubling(small, large, rounds, doublings, clock))
    return ratio


def growth(prepare: Callable[[int], Operation], size: int) -> float:
    """Return by which factor the CPU time of all threads grows when the size of an operation doubles.

    The garbage of other tests is collected before, and none is collected meanwhile.
    """
    gc.collect()
    gc.disable()
    try:
        return smallest_ratio(prepare, size, time.process_time)
    finally:
        gc.enable()


# --- Histories of Pydantic AI -----------------------------------------------------------------------------------------


def request(*parts: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"parts": list(parts), "kind": "request", "timestamp": TIME, **members}


def response(*parts: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"parts": list(parts), "usage": {}, "timestamp": TIME, "kind": "response", **members}


def user(content: Any) -> dict[str, Any]:
    return {"part_kind": "user-prompt", "content": content, "timestamp": TIME}


def text(content: str) -> dict[str, Any]:
    return {"part_kind": "text", "content": content}


def call(call_id: str, tool_name: str = "t", args: Any = '{"city":"Paris"}') -> dict[str, Any]:
    return {"part_kind": "tool-call", "tool_name": tool_name, "args": args, "tool_call_id": call_id}


def returned(call_id: str, tool_name: str = "t", content: Any = "sunny") -> dict[str, Any]:
    part = {"part_kind": "tool-return", "tool_name": tool_name, "content": content, "tool_call_id": call_id}
    return {**part, "timestamp": TIME}


def pairs(n: int, first: dict[str, Any], second: dict[str, Any]) -> list[dict[str, Any]]:
    return [first, second] * n


def metadata_of(n: int) -> dict[str, Any]:
    return {f"key{index}": {"value": index} for index in range(n)}


HISTORIES: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "many messages": lambda n: pairs(n, request(user("hello")), response(text("hi there"))),
    "many parts": lambda n: [
        request(*[user(f"hello {index}") for index in range(n)]),
        response(*[part for index in range(n) for part in (text("a"), {"part_kind": "thinking", "content": "b"})]),
    ],
    "many content items": lambda n: [
        request(user([item for index in range(n) for item in ("text", {"kind": "image-url", "url": "https://x/y"})])),
        response(text("done")),
    ],
    "one huge part": lambda n: [
        request(user("a word " * n * 20)),
        response(text('quoted "word"\n' * n * 20), call("c", args='{"text":"' + "a word " * n * 20 + '"}')),
        request(returned("c", content={"text": "result " * n * 20})),
    ],
    "many calls in one response": lambda n: [
        request(user("go")),
        response(*[call(f"c{index}") for index in range(n)]),
        request(*[returned(f"c{index}") for index in range(n)]),
    ],
    "results in reverse order": lambda n: [
        request(user("go")),
        response(*[call(f"c{index}") for index in range(n)]),
        request(*[returned(f"c{index}") for index in reversed(range(n))]),
    ],
    "many calls": lambda n: [
        request(user("go")),
        *[message for index in range(n) for message in (response(call(f"c{index}")), request(returned(f"c{index}")))],
    ],
    "repeated ids": lambda n: [
        request(user("go")),
        *pairs(n, response(call("c")), request(returned("c"))),
    ],
    "repeated ids in one response": lambda n: [
        request(user("go")),
        response(*[call("c") for _ in range(n)]),
        request(*[returned("c") for _ in range(n)]),
    ],
    "open calls": lambda n: [
        request(user("go")),
        *[response(call(f"c{index}")) for index in range(n)],
        response(text("done")),
    ],
    "many agents": lambda n: [
        request(user("go")),
        *[response(text("hi"), metadata={"agent": f"agent {index}"}) for index in range(n)],
    ],
    "calls of many agents": lambda n: [
        request(user("go"), metadata={"agent": "main"}),
        response(text("hi"), metadata={"agent": "main"}),
        *[
            message
            for index in range(n)
            for message in (
                response(call("c"), metadata={"agent": f"agent {index % 7}"}),
                request(returned("c"), metadata={"agent": f"agent {index % 7}"}),
            )
        ],
    ],
    "much metadata": lambda n: [
        request(user("go"), metadata=metadata_of(n)),
        response(text("hi"), metadata=metadata_of(n), provider_details=metadata_of(n)),
    ],
    "many unknown members": lambda n: [
        request(user("go") | {f"later_{index}": index for index in range(n)}),
        response(text("hi") | {f"later_{index}": index for index in range(n)}, **{f"new_{i}": i for i in range(n)}),
    ],
    "large arguments": lambda n: [
        request(user("go")),
        response(call("c", args=json.dumps(metadata_of(n))), call("d", args=metadata_of(n))),
        request(returned("c", content=metadata_of(n)), returned("d", content=[metadata_of(1)] * n)),
    ],
    "many instructions": lambda n: [
        message
        for index in range(n)
        for message in (request(user("go"), instructions=f"Be brief, number {index}."), response(text("hi")))
    ],
    "one long instruction": lambda n: pairs(
        n, request(user("go"), instructions="Be brief. " * 20), response(text("hi"))
    ),
    "many system prompts": lambda n: [
        request(*[{"part_kind": "system-prompt", "content": f"rule {i}", "timestamp": TIME} for i in range(n)]),
        response(text("hi")),
    ],
    "many retries": lambda n: [
        request(user("go")),
        *[
            message
            for index in range(n)
            for message in (
                response(call(f"c{index}")),
                request(
                    {
                        "part_kind": "retry-prompt",
                        "tool_name": "t",
                        "tool_call_id": f"c{index}",
                        "content": "again",
                        "timestamp": TIME,
                    }
                ),
            )
        ],
    ],
}

# --- Threads ----------------------------------------------------------------------------------------------------------

AGENT = "6f5c3f9e-8e35-4c48-9f5e-0d1f6a7f3a01"
OTHER = "6f5c3f9e-8e35-4c48-9f5e-0d1f6a7f3a02"


def document(actions: list[dict[str, Any]], **members: Any) -> dict[str, Any]:
    agents = members.pop("agents", None) or [AGENT, OTHER]
    return {
        "version": "1.0.0",
        "thread_id": "6f5c3f9e-8e35-4c48-9f5e-0d1f6a7f3a00",
        "created_at": TIME,
        "updated_at": TIME,
        "title": "growth",
        "agents": {
            agent: {"agent_id": agent, "agent_identifier": agent, "agent_name": f"name {agent}", "created_at": TIME}
            for agent in agents
        },
        "actions": [{"sequence": number, "timestamp": TIME, **action} for number, action in enumerate(actions, 1)],
        **members,
    }


def says(content: Any = "hello") -> dict[str, Any]:
    return {"action_type": "user_message", "content": content}


def answers(content: Any = "hi", agent: str = AGENT, **members: Any) -> dict[str, Any]:
    return {"action_type": "assistant_message", "agent_id": agent, "content": content, **members}


def thinks(agent: str = AGENT) -> dict[str, Any]:
    return {"action_type": "thinking", "agent_id": agent, "content": "hm", "provider_name": "p"}


def calls(call_id: str, agent: str = AGENT, args: Any = None) -> dict[str, Any]:
    args = {"city": "Paris"} if args is None else args
    about = {"tool_name": "t", "tool_call_id": call_id, "args": args}
    return {"action_type": "tool_call", "agent_id": agent, **about}


def results(call_id: str, content: Any = "sunny", status: str = "success") -> dict[str, Any]:
    about = {"tool_name": "t", "tool_call_id": call_id, "status": status, "content": content}
    return {"action_type": "tool_return", **about}


def event(name: str, **data: Any) -> dict[str, Any]:
    return {"action_type": f"system.{name}", "data": data}


def alternating(n: int, *actions: dict[str, Any]) -> list[dict[str, Any]]:
    return list(actions) * n


def numbered(n: int, *actions: Callable[[str], dict[str, Any]]) -> list[dict[str, Any]]:
    return [action(f"c{index}") for index in range(n) for action in actions]


THREADS: dict[str, Callable[[int], dict[str, Any]]] = {
    "many messages": lambda n: document(alternating(n, says(), answers())),
    "many answers": lambda n: document([says(), *alternating(n, answers())]),
    "many thoughts": lambda n: document([says(), *alternating(n, thinks()), answers()]),
    "many parts": lambda n: document(
        [says([{"type": "text", "text": f"{i}"} for i in range(n)]), answers([{"type": "text", "text": "a"}] * n)]
    ),
    "one huge part": lambda n: document([says("a word " * n * 20), answers('quoted "word"\n' * n * 20)]),
    "many calls in one response": lambda n: document([says(), *numbered(n, calls), *numbered(n, results)]),
    "results in reverse order": lambda n: document([says(), *numbered(n, calls), *reversed(numbered(n, results))]),
    "many calls": lambda n: document([says(), *numbered(n, calls, results), answers()]),
    "repeated ids": lambda n: document([says(), *alternating(n, calls("c"), results("c")), answers()]),
    "repeated ids in one response": lambda n: document(
        [says(), *alternating(n, calls("c")), *alternating(n, results("c"))]
    ),
    "repeated ids of another agent": lambda n: document(
        [says(), answers(), *alternating(n, calls("c", OTHER), results("c")), answers()]
    ),
    "calls of another agent in one response": lambda n: document(
        [says(), answers(), *[calls("c", OTHER)] * n, *[results("c")] * n, answers()]
    ),
    "two agents in turn": lambda n: document(alternating(n, answers(), answers("hi", OTHER))),
    "many agents": lambda n: document(
        [says(), *[answers("hi", f"agent-{i}") for i in range(n)], answers()],
        agents=[AGENT, *[f"agent-{i}" for i in range(n)]],
    ),
    "open calls": lambda n: document([says(), *numbered(n, calls), answers()]),
    "results without a call": lambda n: document([says(), *numbered(n, results), answers()]),
    "many second results": lambda n: document([says(), calls("c"), *[results("c")] * n, answers()]),
    "denied calls": lambda n: document(
        [
            says(),
            *numbered(n, calls),
            *numbered(n, lambda i: event("tp.tool_denied", tool_call_id=i), lambda i: results(i, status="error")),
        ]
    ),
    "approvals": lambda n: document(
        [
            says(),
            *numbered(n, calls, lambda i: event("tp.approval", tool_call_id=i, approval_id=f"a{i}", approved=True)),
            *numbered(n, results),
        ]
    ),
    "many data events": lambda n: document(
        [says(), *[event("note", id=f"d{i}", value=i) for i in range(n)], answers()]
    ),
    "many sources": lambda n: document(
        [says(), *[event("tp.source_url", source_id=f"s{i}", url="https://x/y") for i in range(n)], answers()]
    ),
    "many errors": lambda n: document([says(), *alternating(n, event("tp.error", error_text="boom"), answers())]),
    "much thread metadata": lambda n: document([says(), answers()], metadata=metadata_of(n)),
    "much action metadata": lambda n: document([says(), answers(metadata=metadata_of(n))]),
    "metadata of many actions": lambda n: document(alternating(n, says() | {"metadata": {"app": {"a": 1}}})),
    "large data": lambda n: document([says(), event("note", **metadata_of(n)), answers()]),
    "many unknown members": lambda n: document([says() | {f"later_{i}": i for i in range(n)}, answers()]),
    "large arguments": lambda n: document([says(), calls("c", args=metadata_of(n)), results("c", metadata_of(n))]),
    "many attachments": lambda n: document(
        [says() | {"attachments": [{"name": "f", "url": "https://x/y", "media_type": "image/png"}] * n}, answers()]
    ),
    "many files": lambda n: document([says([{"type": "image", "image_url": "https://x/y"}] * n), answers()]),
}

# --- Chunks of UI message streams -------------------------------------------------------------------------------------


def stream(*chunks: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "start", "messageId": "m"}, {"type": "start-step"}, *chunks, {"type": "finish"}]


def each(n: int, *chunks: dict[str, Any]) -> list[dict[str, Any]]:
    """Repeat the chunks; ``#`` in an id is the number."""
    made = []
    for number in range(n):
        for chunk in chunks:
            made.append({k: v.replace("#", str(number)) if isinstance(v, str) else v for k, v in chunk.items()})
    return made


def opened(call_id: str = "c#") -> dict[str, Any]:
    return {"type": "tool-input-start", "toolCallId": call_id, "toolName": "t"}


def piece(call_id: str = "c#", delta: str = "x") -> dict[str, Any]:
    return {"type": "tool-input-delta", "toolCallId": call_id, "inputTextDelta": delta}


def ready(call_id: str = "c#") -> dict[str, Any]:
    return {"type": "tool-input-available", "toolCallId": call_id, "toolName": "t", "input": {"city": "Paris"}}


def output(call_id: str = "c#") -> dict[str, Any]:
    return {"type": "tool-output-available", "toolCallId": call_id, "output": "sunny"}


def failed(call_id: str = "c#") -> dict[str, Any]:
    return {"type": "tool-output-error", "toolCallId": call_id, "errorText": "boom"}


BEGUN = (opened("long"), piece("long", '{"text":"'))
DELTA = piece("long", "word ")

CHUNKS: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "many deltas of one text": lambda n: stream(
        {"type": "text-start", "id": "t"},
        *[{"type": "text-delta", "id": "t", "delta": "word "}] * n,
        {"type": "text-end", "id": "t"},
    ),
    "many texts": lambda n: stream(
        *each(
            n,
            {"type": "text-start", "id": "t#"},
            {"type": "text-delta", "id": "t#", "delta": "w"},
            {"type": "text-end", "id": "t#"},
        )
    ),
    "many deltas of arguments": lambda n: stream(*BEGUN, *[DELTA] * n, piece("long", '"}'), ready("long")),
    "one huge delta": lambda n: stream(*BEGUN, piece("long", "a word " * 20 * n), piece("long", '"}'), ready("long")),
    "many calls": lambda n: stream(*each(n, opened(), piece(), ready(), output())),
    "many calls, results last": lambda n: stream(*each(n, opened(), ready()), *each(n, output())),
    "many calls with open arguments": lambda n: stream(*each(n, opened()), *each(n, piece()), *each(n, piece())),
    "calls between deltas": lambda n: stream(*BEGUN, *each(n, DELTA, opened(), ready(), output())),
    "errors between deltas": lambda n: stream(*BEGUN, *each(n, DELTA, {"type": "error", "errorText": "boom"})),
    "late deltas": lambda n: stream(*BEGUN, *[piece("long", "word " * n)], *each(n, DELTA, ready("long"))),
    "results between deltas": lambda n: stream(*BEGUN, piece("long", "word " * n), *each(n, DELTA, output("long"))),
    "failures between deltas": lambda n: stream(*BEGUN, piece("long", "word " * n), *each(n, DELTA, failed("long"))),
    "repeated ids": lambda n: stream(*each(n, ready("c"), output("c"), {"type": "start-step"})),
    "many errors": lambda n: stream(*each(n, ready(), output()), *each(n, {"type": "error", "errorText": "boom"})),
    "errors of one call": lambda n: stream(ready("c"), *each(n, {"type": "error", "errorText": "boom"})),
    "errors after data": lambda n: stream(
        {"type": "data-tp-error", "data": {"error_text": "boom", "more": "x" * n * 20}},
        *each(n, {"type": "error", "errorText": "boom"}),
    ),
    "many data chunks": lambda n: stream(*each(n, {"type": "data-note", "data": {"a": 1}})),
    "data chunks with ids": lambda n: stream(*each(n, {"type": "data-note", "id": "d#", "data": {"a": 1}})),
    "data chunks with one id": lambda n: stream(*each(n, {"type": "data-note", "id": "d", "data": {"a": 1}})),
    "many data types": lambda n: stream(*each(n, {"type": "data-note#", "id": "d", "data": {"a": 1}})),
    "metadata with one member": lambda n: stream(*[{"type": "message-metadata", "messageMetadata": {"a": 1}}] * n),
    "metadata with many members": lambda n: stream(
        *[{"type": "message-metadata", "messageMetadata": {f"k{index}": 1}} for index in range(n)]
    ),
    "nested metadata": lambda n: stream(
        *[{"type": "message-metadata", "messageMetadata": {"a": {"b": {f"k{index}": 1}}}} for index in range(n)]
    ),
    "much metadata at once": lambda n: stream({"type": "message-metadata", "messageMetadata": metadata_of(n)}),
    "metadata beside a large member": lambda n: stream(
        {"type": "message-metadata", "messageMetadata": {"large": "x" * n * 20}},
        *[{"type": "message-metadata", "messageMetadata": {"a": 1}}] * n,
    ),
    "many steps": lambda n: stream(*each(n, {"type": "start-step"}, ready(), {"type": "finish-step"})),
    "many resets": lambda n: stream(
        *each(n, ready(), output()), {"type": "start-step"}, *each(n, opened("r"), {"type": "reset-step"})
    ),
    "many starts": lambda n: each(n, {"type": "start", "messageId": "m#"}, ready()),
    "approvals": lambda n: stream(
        *each(
            n,
            ready(),
            {"type": "tool-approval-request", "toolCallId": "c#", "approvalId": "a#"},
            {"type": "tool-approval-response", "approvalId": "a#", "approved": True},
            output(),
        )
    ),
    "approvals of open calls": lambda n: stream(
        *each(n, ready(), {"type": "tool-approval-request", "toolCallId": "c#", "approvalId": "a#"}),
        *each(n, {"type": "tool-approval-response", "approvalId": "a#", "approved": True}),
    ),
    "denials": lambda n: stream(
        *each(n, ready()),
        *each(n, failed(), {"type": "data-tp-tool_denied", "data": {"tool_call_id": "c"}}),
        *[{"type": "data-tp-tool_denied", "data": {"tool_call_id": f"c{index}"}} for index in range(n)],
    ),
    "many unknown members": lambda n: stream({"type": "data-note", "data": {}} | {f"k{i}": i for i in range(n)}),
    "malformed unknown members": lambda n: stream(
        {"type": "text-start", "id": "t", "transient": "no"} | {f"k{i}": i for i in range(n)}
    ),
}

# --- Messages of chats ------------------------------------------------------------------------------------------------


def chat(*parts: dict[str, Any], role: str = "assistant", **members: Any) -> dict[str, Any]:
    return {"id": "m", "role": role, "parts": list(parts), **members}


def said(content: str = "hi") -> dict[str, Any]:
    return {"type": "text", "text": content, "state": "done"}


def tool(call_id: str) -> dict[str, Any]:
    about = {"input": {"city": "Paris"}, "output": "sunny"}
    return {"type": "tool-t", "toolCallId": call_id, "state": "output-available", **about}


CHATS: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "many messages": lambda n: pairs(n, chat(said(), role="user"), chat(said())),
    "many parts": lambda n: [chat(*[said()] * n, role="user"), chat(*[said(), {"type": "step-start"}] * n)],
    "one huge part": lambda n: [chat(said("a word " * n * 20), role="user"), chat(said('a "word"\n' * n * 20))],
    "many calls": lambda n: [chat(*[tool(f"c{index}") for index in range(n)])],
    "many calls in steps": lambda n: [
        chat(*[part for index in range(n) for part in ({"type": "step-start"}, tool(f"c{index}"))])
    ],
    "repeated ids": lambda n: [chat(*[tool("c")] * n)],
    "many data parts": lambda n: [chat(*[{"type": "data-note", "id": f"d{i}", "data": {"a": 1}} for i in range(n)])],
    "much metadata": lambda n: [chat(said(), metadata=metadata_of(n))],
    "metadata of many messages": lambda n: [chat(said(), metadata={"a": 1})] * n,
    "many unknown members": lambda n: [chat(said() | {f"k{i}": i for i in range(n)})],
    "large arguments": lambda n: [chat(tool("c") | {"input": metadata_of(n), "output": metadata_of(n)})],
    "denied calls": lambda n: [
        chat(
            *[
                tool(f"c{i}") | {"state": "output-denied", "approval": {"id": f"a{i}", "approved": False}}
                for i in range(n)
            ]
        )
    ],
}
