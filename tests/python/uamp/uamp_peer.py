"""A server of UAMP in Python, for tests of the client: it can lose connections."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any


class Peer:
    """An ASGI application that speaks UAMP over WebSocket. `answer` is called for each ``response.create``."""

    def __init__(self, answer: Callable[[Peer, str], Awaitable[None]]) -> None:
        self.answer = answer
        self.received: list[dict[str, Any]] = []
        self.log: list[dict[str, Any]] = []
        self.headers: dict[str, str] = {}
        self.paths: list[str] = []
        self.loses_history = False
        self._send: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            return
        self.headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.paths.append(scope["path"])
        await receive()
        await send({"type": "websocket.accept"})
        self._send = send
        while (message := await receive())["type"] == "websocket.receive":
            await self._on(json.loads(message["text"]))

    async def _on(self, event: dict[str, Any]) -> None:
        self.received.append(event)
        kind = event["type"]
        if kind == "session.create":
            resume = event["session"].get("extensions", {}).get("uamp", {}).get("resume")
            resumed = resume is not None and not self.loses_history
            session = {"id": "s1", "status": "active", "agent": event.get("agent") or "helper"}
            created = {"uamp_version": "1.0", "session_id": "s1", "session": session, "resumed": resumed}
            await self._text({"type": "session.created", **created})
            after = resume["after_seq"] if resume is not None else 0
            for sent in self.log if resumed else []:
                if sent["seq"] > after:
                    await self._text(sent)
        elif kind == "ping":
            await self._text({"type": "pong", "reply_to": event["event_id"]})
        elif kind == "response.create":
            await self.answer(self, event["event_id"])
        elif kind == "response.cancel":
            await self.send("response.cancelled", response_id="r1", partial_output=[])

    async def send(self, kind: str, **members: Any) -> None:
        """Send an event of the session, and keep it for clients that come back."""
        self.log.append({"type": kind, "session_id": "s1", "seq": len(self.log) + 1, **members})
        await self._text(self.log[-1])

    async def keep(self, kind: str, **members: Any) -> None:
        """Keep an event that the client has missed."""
        self.log.append({"type": kind, "session_id": "s1", "seq": len(self.log) + 1, **members})

    async def lose(self) -> None:
        """Close the connection."""
        await self._send({"type": "websocket.close", "code": 1012})

    async def delta(self, text: str, keep: bool = False) -> None:
        """Send, or only keep, a piece of text."""
        way = self.keep if keep else self.send
        await way("response.delta", response_id="r1", delta={"type": "text", "text": text})

    async def done(self, text: str, keep: bool = False) -> None:
        """Send, or only keep, the end of the response."""
        way = self.keep if keep else self.send
        output = [{"type": "text", "text": text}]
        await way("response.done", response_id="r1", response={"id": "r1", "status": "completed", "output": output})

    async def _text(self, event: dict[str, Any]) -> None:
        await self._send({"type": "websocket.send", "text": json.dumps({"event_id": "e", **event})})
