"""What `useChat` of the Vercel AI SDK posts: the new message of the user, or answers to requests for approval."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from turntree import _core
from turntree._agent_stream import AgentStream
from turntree._session import Session
from turntree._texts import json_problem
from turntree._types import Input


class UiAnswer:
    """The answer of the user to a request for approval.

    Attributes:
        tool_call_id: The id of the call, or its idempotency key if another call of the message has the same id.
        approved: Whether the user has approved it.
        reason: The reason that the user has given, or None.
    """

    __slots__ = ("approved", "reason", "tool_call_id")

    def __init__(self, tool_call_id: str, approved: bool, reason: str | None = None) -> None:  # noqa: FBT001
        self.tool_call_id: str = tool_call_id
        self.approved: bool = approved
        self.reason: str | None = reason

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UiAnswer):
            return NotImplemented
        return (self.tool_call_id, self.approved, self.reason) == (other.tool_call_id, other.approved, other.reason)

    def __hash__(self) -> int:
        return hash((self.tool_call_id, self.approved, self.reason))

    def __repr__(self) -> str:
        from turntree._reprs import literal

        reason = "" if self.reason is None else f", reason={literal(self.reason)}"
        return f"UiAnswer({literal(self.tool_call_id)}, approved={self.approved}{reason})"


class UiInput:
    """A request of `useChat`, created by `ui_input`.

    Attributes:
        id: The id of the chat.
        input: The new message of the user, as `Session.run` takes it: a text, or a list of blocks. None if the request
            answers requests for approval.
        answers: The answers to requests for approval.
        message_id: The id of the message that the response continues, or None for a new message.
        trigger: Why the client has sent the request: "submit-message" or "regenerate-message".
        messages: All messages of the request. They are the client's: do not use them as a history.
    """

    __slots__ = ("answers", "id", "input", "message_id", "messages", "trigger")

    def __init__(
        self,
        id: str,
        input: Input | None,
        answers: list[UiAnswer],
        message_id: str | None,
        trigger: str,
        messages: list[dict[str, Any]],
    ) -> None:
        self.id: str = id
        self.input: Input | None = input
        self.answers: list[UiAnswer] = answers
        self.message_id: str | None = message_id
        self.trigger: str = trigger
        self.messages: list[dict[str, Any]] = messages

    def stream(self, session: Session[Any, Any], **options: Any) -> AgentStream[Any]:
        """Run the session with the new message, or resume it with the answers.

        To regenerate an answer, the session runs the message again on a new branch that begins before it. The branch
        becomes the current one; the earlier answer stays in the tree.

        Only answers to calls in `Session.pending` count: a client can send any.

        Args:
            session: The session of the chat.
            **options: As `Session.stream`, and ``sub_agent_events`` for a new message.

        Raises:
            SessionError: The request answers nothing that the session has asked.
        """
        if self.input is not None:
            if self.trigger == "regenerate-message" and not session.pending:
                _branch_before(session, self.input)
            return session.stream(self.input, **options)
        # A call that is shown with its key keeps this id when the other calls with the same one are decided.
        waiting = session._native.pending_by_key
        keys = {key: key for key, *_ in waiting} | {shown_id: key for key, shown_id, *_ in waiting}
        answers = {keys[answer.tool_call_id]: answer for answer in self.answers if answer.tool_call_id in keys}
        if not answers and not session.is_unfinished:
            from turntree.exceptions import SessionError

            message = (
                f'session "{session.id}" waits for no approval; the answers of the client are to other calls, or '
                "were sent before"
            )
            raise SessionError(message)
        for key, answer in answers.items():
            if answer.approved:
                session.approve(key)
            else:
                session.deny(key, answer.reason)
        options.pop("sub_agent_events", None)
        return session.resume_stream(**options)

    def __repr__(self) -> str:
        from turntree._reprs import literal

        what = f"answers={literal(self.answers)}" if self.input is None else f"input={literal(self.input)}"
        return f"UiInput(id={literal(self.id)}, {what})"


def _branch_before(session: Session[Any, Any], input: Input) -> None:
    """Check out a new branch of the session that begins before its last message of the user.

    Does nothing if that is another message: the run of this one has failed, so it is not in the tree.
    """
    tree = session.tree
    node, length = tree.current, len(tree.current.thread)
    while True:
        own = list(node.thread.messages)[:length]
        places = [place for place, message in enumerate(own) if message.type == "user"]
        if places:
            if own[places[-1]].content == _core.UserMessage(cast("Any", input)).content:
                start, after = node.id, places[-1]
                if after == 0 and node.parent_id is not None:
                    start, after = node.parent_id, node.branch_point or 0
                tree.checkout(tree.branch(start, "regenerated", after=after))
            return
        if node.parent_id is None:
            return
        node, length = tree[node.parent_id], node.branch_point or 0


def ui_input(body: Mapping[str, Any] | str | bytes | bytearray) -> UiInput:
    """Read what `useChat` of the Vercel AI SDK, versions 5 to 7, posts.

    ::

        @app.post("/api/chat")
        async def chat(request: Request) -> StreamingResponse:
            chat = ui_input(await request.json())
            session = await Session.open(store, chat.id, helper)
            ui = ui_response(chat.stream(session), reply_to=chat)
            return StreamingResponse(ui, headers=ui.headers)

    Only the last message counts. If it is the user's, it is the input of a run; if it is the assistant's, it has the
    answers to requests for approval. The session has the earlier messages: those of the request could be forged.

    Clients of version 5 do not know approvals. There, a result that the client adds to a call that waits
    (``addToolResult`` with ``true``, ``false`` or ``{"approved": …, "reason": …}``) is the answer.

    Args:
        body: The body of the request: a dict, or its JSON.

    Raises:
        ValidationError: The body has no id, no messages, or a last message that is neither; the message names the path.
    """
    data = _dict_of(body)
    raw_messages = data.get("messages")
    if not isinstance(raw_messages, list) or not raw_messages:
        raise _invalid("messages: expected a list of at least one message, as useChat posts it")
    messages = cast("list[Any]", raw_messages)
    last = messages[-1]
    place = f"messages[{len(messages) - 1}]"
    if not isinstance(last, dict) or not isinstance(cast("dict[str, Any]", last).get("parts"), list):
        raise _invalid(f"{place}: expected a message with parts, as useChat posts it")
    chat_id = data.get("id")
    if not isinstance(chat_id, str) or not chat_id:
        raise _invalid("id: expected the id of the chat, a text")
    message = cast("dict[str, Any]", last)
    trigger = data.get("trigger")
    trigger = trigger if isinstance(trigger, str) else "submit-message"
    role = message.get("role")
    if role == "user":
        return UiInput(chat_id, _content_of(message, place), [], None, trigger, messages)
    if role == "assistant":
        id = message.get("id")
        answers = _answers_of(cast("list[Any]", message["parts"]))
        return UiInput(chat_id, None, answers, id if isinstance(id, str) else None, trigger, messages)
    raise _invalid(
        f"{place}.role: the last message must be of the user, or of the assistant with answers, not {role!r}"
    )


def _dict_of(body: Any) -> Mapping[str, Any]:
    if isinstance(body, (str, bytes, bytearray)):
        try:
            body = json.loads(body)
        except ValueError as error:
            raise _invalid(
                f"the body is not JSON: {json_problem(error)}; pass the body as the request has it"
            ) from None
    if not isinstance(body, Mapping):
        raise _invalid(f"expected the body of a request of useChat, a dict, not {type(body).__name__}")
    return cast("Mapping[str, Any]", body)


def _content_of(message: dict[str, Any], place: str) -> Input:
    from turntree import _core

    # Without what the client claims beside the parts.
    own = {"id": "input", "role": "user", "parts": message["parts"]}
    converted: list[_core.Message] = _core.from_ui_messages([own], sidecar="none").to_upp()
    content = [block for one in converted for block in getattr(one, "content", ())]
    if not content:
        raise _invalid(f"{place}.parts: the message is empty; expected text or files")
    return content[0].text if len(content) == 1 and content[0].type == "text" else content


def _answers_of(parts: list[Any]) -> list[UiAnswer]:
    """Return the answers in the parts of a message of the assistant; the last one of each call counts."""
    answers: dict[str, UiAnswer] = {}
    for part in parts:
        answer = _answer_of(cast("dict[str, Any]", part)) if isinstance(part, dict) else None
        if answer is not None:
            answers[answer.tool_call_id] = answer
    return list(answers.values())


def _answer_of(part: dict[str, Any]) -> UiAnswer | None:
    call_id, state = part.get("toolCallId"), part.get("state")
    if not isinstance(call_id, str):
        return None
    answer: Any = part.get("approval") if state == "approval-responded" else None
    if state == "output-available":
        output = part.get("output")
        answer = {"approved": output} if isinstance(output, bool) else output
    if not isinstance(answer, dict):
        return None
    given = cast("dict[str, Any]", answer)
    approved, reason = given.get("approved"), given.get("reason")
    if not isinstance(approved, bool):
        return None
    return UiAnswer(call_id, approved, reason if isinstance(reason, str) and reason else None)


def _invalid(message: str) -> Exception:
    from turntree.exceptions import ValidationError

    return ValidationError(message)
