"""A router in Python, for tests of the daemon role: it asks the agents that have connected."""

from __future__ import annotations

import asyncio
import json
from typing import Any


class Router:
    """An ASGI application that daemons dial. Sessions are named ``s-<agent>-<number>``."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.creates: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.sessions: dict[str, str] = {}
        self.refuses: dict[str, Any] | None = None
        self.closes_with_status = False
        self.forgets = False
        self.names_position: int | None = None
        self.opened = asyncio.Event()
        self.arrived = asyncio.Condition()
        self._made = 0
        self._ended = asyncio.Event()
        self._send: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            return
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await receive()
        if self.closes_with_status:
            await send({"type": "websocket.close", "code": 1008})
            return
        await send({"type": "websocket.accept"})
        self._send = send
        ended = self._ended = asyncio.Event()
        while (message := await receive())["type"] == "websocket.receive":
            await self._on(json.loads(message["text"]))
            async with self.arrived:
                self.arrived.notify_all()
        ended.set()

    async def _on(self, event: dict[str, Any]) -> None:
        self.received.append(event)
        if event["type"] != "session.create":
            return
        self.creates.append(event)
        if self.refuses is not None:
            await self.send("session.error", error=self.refuses, reply_to=event["event_id"])
            return
        agent = event["agent"]
        resume = event["session"].get("extensions", {}).get("uamp", {}).get("resume")
        if resume is not None and self.forgets:
            error = {"code": "session_not_found", "message": "gone"}
            await self.send("session.error", error=error, session_id=resume["session_id"])
            return
        config: dict[str, Any] = {}
        if resume is None:
            self._made += 1
            self.sessions[agent] = f"s-{agent}-{self._made}"
        elif self.names_position is not None:
            position = {"session_id": resume["session_id"], "after_seq": self.names_position}
            config = {"extensions": {"uamp": {"resume": position}}}
        session = {"id": self.sessions[agent], "status": "active", "config": config}
        created = {"uamp_version": "1.0", "session_id": self.sessions[agent], "session": session, "agent": agent}
        await self.send("session.created", **created, resumed=resume is not None)
        self.opened.set()

    async def send(self, kind: str, **members: Any) -> None:
        """Send an event to the daemon."""
        await self._send({"type": "websocket.send", "text": json.dumps({"type": kind, "event_id": "e", **members})})

    async def ask(self, agent: str, text: str, event_id: str, **members: Any) -> None:
        """Ask an agent for a response."""
        await self.send("input.text", session_id=self.sessions[agent], text=text, **{"event_id": event_id, **members})

    async def lose(self) -> None:
        """Close the connection, and return when nothing more can arrive on it."""
        self.opened.clear()
        ended = self._ended
        await self._send({"type": "websocket.close", "code": 1012})
        await asyncio.wait_for(ended.wait(), 20)

    async def until(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait for this many events of a type, and return all that the router has received."""

        def has_arrived() -> bool:
            return sum(event["type"] == kind for event in self.received) >= count

        async with self.arrived:
            await asyncio.wait_for(self.arrived.wait_for(has_arrived), 20)
        return list(self.received)

    def text(self, session: str) -> str:
        """The text of the deltas of a session; an event that came twice counts once."""
        seen: dict[str, str] = {}
        for event in self.received:
            if event["type"] == "response.delta" and event["session_id"] == session:
                seen[event["event_id"]] = event["delta"].get("text", "")
        return "".join(seen.values())
