"""What a run has done so far, from the events of its stream: text, tool calls with their state, tokens, time."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from turntree._reprs import count
from turntree.notebook._markdown import to_html
from turntree.notebook._page import ENTRIES, TEXT, Page, colour_of, escape, one_line, plain, seconds, visible

if TYPE_CHECKING:
    from turntree import _core


class Call:
    """A tool call, from its first piece to its result."""

    __slots__ = ("agent", "arguments", "began", "json", "name", "progress", "result", "state", "took")

    def __init__(self, name: str, agent: str) -> None:
        self.name = name
        # The sub-agent that made the call; empty for the agent itself.
        self.agent = agent
        self.json: list[str] = []
        self.arguments: Any = None
        self.state = "being written"
        self.progress: Any = None
        self.result: Any = None
        self.began: float | None = None
        self.took: float | None = None

    @property
    def label(self) -> str:
        """The name, after that of the sub-agent that made the call."""
        return f"{self.agent}: {self.name}" if self.agent else self.name

    def given(self) -> str:
        """Return the arguments on one line."""
        if isinstance(self.arguments, dict):
            given: dict[str, Any] = self.arguments  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            return one_line(", ".join(f"{key}={plain(value)[:200]}" for key, value in list(given.items())[:20]), 100)
        return one_line("".join(self.json), 100)

    def note(self, now: float) -> str:
        """Return the state with its time, and the last report of progress."""
        parts = [self.state]
        if self.took is not None:
            parts.append(seconds(self.took))
        elif self.began is not None:
            parts.append(f"{int(now - self.began)} s")
        if self.progress is not None and self.took is None:
            parts.append(one_line(plain(self.progress), 80))
        return " · ".join(parts)


class Activity:
    """Collects the events of one run."""

    __slots__ = ("_at", "_texts", "began", "calls", "ended", "input_tokens", "order", "output_tokens", "state", "steps")

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.ended: float | None = None
        self.state = "running"
        self.steps = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.calls: dict[str, Call] = {}
        # In the order of occurrence: ("text", pieces), ("reasoning", pieces) and ("call", [id]).
        self.order: list[tuple[str, list[str]]] = []

    def add(self, event: _core.AgentStreamEvent) -> None:
        """Add an event. Of sub-agents, the tools are shown."""
        agent = "" if event.sub_agent is None else event.sub_agent.tool_name
        if event.upp is not None:
            self._of_model(event.upp.type, dict(event.upp.delta), agent)
        elif event.uap is not None and not agent:
            self._of_agent(event.uap.type, event.uap.data)

    def _of_agent(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "step_start":
            self.steps += 1
        elif kind == "step_end":
            usage = data["usage"]
            self.input_tokens += usage["inputTokens"]
            self.output_tokens += usage["outputTokens"]
        elif kind == "action":
            for made in data["toolCalls"]:
                call = self._call(made["toolCallId"], made["toolName"], "")
                call.arguments = made["arguments"]
                call.state = "waiting"

    def _of_model(self, kind: str, delta: dict[str, Any], agent: str) -> None:
        if kind in ("text_delta", "reasoning_delta") and not agent:
            self._piece(kind.partition("_")[0], delta["text"])
        elif kind == "message_start" and not agent:
            self.order.append(("text", []))
        elif kind == "tool_call_delta" and not agent:
            call = self._call(delta.get("toolCallId"), delta.get("toolName"), agent)
            call.json.append(delta.get("argumentsJson") or "")
        elif kind.startswith("tool_execution_"):
            self._execution(kind, delta, self._call(delta.get("toolCallId"), delta.get("toolName"), agent))

    @staticmethod
    def _execution(kind: str, delta: dict[str, Any], call: Call) -> None:
        if kind == "tool_execution_start":
            call.state, call.began = "running", time.monotonic()
        elif kind == "tool_execution_progress":
            call.progress = delta.get("progress")
        elif kind == "tool_execution_end":
            call.state = "failed" if delta.get("isError") else "done"
            call.result = delta.get("result")
            call.took = 0.0 if call.began is None else time.monotonic() - call.began

    def _piece(self, kind: str, text: str) -> None:
        if not self.order or self.order[-1][0] != kind:
            self.order.append((kind, []))
        self.order[-1][1].append(text)

    def _call(self, id: str | None, name: str | None, agent: str) -> Call:
        key = f"{agent}/{id}"
        if key not in self.calls:
            self.calls[key] = Call(name or "tool", agent)
            self.order.append(("call", [key]))
        return self.calls[key]

    def end(self, state: str) -> None:
        """End the run: the clock stops."""
        self.state, self.ended = state, time.monotonic()

    def facts(self) -> str:
        """Return the state, tokens and time on one line."""
        took = (self.ended or time.monotonic()) - self.began
        time_shown = f"{int(took)} s" if self.ended is None else seconds(took)
        return " · ".join(
            [
                self.state,
                *([count(len(self.calls), "tool call")] if self.calls else []),
                count(self.steps, "model call"),
                f"{self.input_tokens:,} + {count(self.output_tokens, 'token')}",
                time_shown,
            ]
        )

    def html(self) -> str:
        """Return what the run has done as HTML."""
        page, now = Page(), time.monotonic()
        shown = self.order[-ENTRIES:]
        page.entries(len(self.order), len(shown), "earlier parts")
        for kind, pieces in shown:
            if kind == "call":
                _add_call(page, self.calls[pieces[0]], now)
            elif pieces:
                _add_text(page, kind, "".join(pieces))
        page.add(f'<p class="dim" role="status">{escape(self.facts())}</p>')
        return page.html()

    def __repr__(self) -> str:
        texts = ["".join(pieces) for kind, pieces in self.order if kind == "text" and pieces]
        shown = "".join(map(visible, one_line(texts[-1] if texts else "", 200)))
        return f"{shown} [{self.facts()}]".strip()

    def _repr_html_(self) -> str:
        return self.html()


def _add_text(page: Page, kind: str, text: str) -> None:
    if kind == "reasoning":
        page.add(f"<details><summary>reasoning</summary>{page.pre(text, TEXT)}</details>")
        return
    shown, note = page.cut(text)
    page.add(f'<div class="m" style="--c:{colour_of(0)}">', to_html(shown), note, "</div>")


def _add_call(page: Page, call: Call, now: float) -> None:
    given = f"({page.line(call.given(), 100)})"
    page.add(
        f"<details{' class=bad' if call.state == 'failed' else ''}><summary>tool "
        f"<code>{page.line(call.label, 100)}</code>{given} "
        f'<span class="dim">{escape(call.note(now))}</span></summary>'
    )
    page.add(page.pre(plain(call.arguments) if call.arguments is not None else "".join(call.json)))
    if call.took is not None:
        page.add(page.pre(plain(call.result)))
    page.add("</details>")


def arguments_of(delta: dict[str, Any]) -> str:
    """Return the arguments of an action's call as Python shows a call."""
    arguments = delta["arguments"]
    if not isinstance(arguments, dict):
        return one_line(plain(arguments), 100)
    given: dict[str, Any] = arguments  # pyright: ignore[reportUnknownVariableType]
    return one_line(", ".join(f"{key}={json.dumps(value, default=repr)[:200]}" for key, value in given.items()), 100)
