"""Buttons for a live run: stop, approve, deny, and a field for the next message. Needs ipywidgets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from turntree.notebook._page import one_line, plain, visible

if TYPE_CHECKING:
    from turntree import _core


class Controls:
    """The buttons below one display.

    Front ends may handle clicks in another thread, while the cell goes on; each click is passed to the event loop.

    Attributes:
        asks: Whether calls that wait for approval are decided by buttons.
    """

    def __init__(
        self,
        stop: Callable[[], None],
        send: Callable[[str], None] | None,
        loop: asyncio.AbstractEventLoop,
        *,
        asks: bool,
    ) -> None:
        self.asks = asks
        self._widgets: Any = import_module("ipywidgets")
        shown: Any = import_module("IPython.display")
        self._loop = loop
        self._stop: Any = self._button("Stop", "Stop this run", stop)
        self._questions: Any = self._widgets.VBox([])
        parts: list[Any] = [self._questions, self._stop]
        self._field: Any = None
        if send is not None:
            self._field = self._widgets.Text(placeholder="Next message", continuous_update=False, disabled=True)

            def changed(change: Any) -> None:
                self._submit(send, change["new"])

            self._field.observe(changed, names="value")
            parts.append(self._field)
        shown.display(self._widgets.VBox(parts))

    def _button(self, label: str, tooltip: str, clicked: Callable[[], None]) -> Any:
        button = self._widgets.Button(description=label, tooltip=tooltip)

        def pass_on(_: Any) -> None:
            self._loop.call_soon_threadsafe(clicked)

        button.on_click(pass_on)
        return button

    def _submit(self, send: Callable[[str], None], text: str) -> None:
        if text.strip():
            self._field.value = ""
            self._loop.call_soon_threadsafe(send, text)

    async def ask(self, call: _core.ToolCall) -> bool:
        """Show a call with two buttons, and return what a person decides."""
        decided: asyncio.Future[bool] = self._loop.create_future()

        def decide(*, approved: bool) -> None:
            if not decided.done():
                decided.set_result(approved)

        text = f"{call.tool_name}({one_line(plain(call.arguments), 200)})"
        label = self._widgets.Label("".join(map(visible, one_line(text, 240))))
        approve = self._button("Approve", f"Let {call.tool_name[:40]} run", lambda: decide(approved=True))
        deny = self._button("Deny", f"Do not let {call.tool_name[:40]} run", lambda: decide(approved=False))
        question = self._widgets.HBox([label, approve, deny])
        self._questions.children = (*self._questions.children, question)
        try:
            return await decided
        finally:
            self._questions.children = tuple(each for each in self._questions.children if each is not question)

    def busy(self) -> None:
        """Let the run be stopped."""
        self._stop.disabled = False
        if self._field is not None:
            self._field.disabled = True

    def idle(self) -> None:
        """Let the next message be written."""
        self._stop.disabled = True
        if self._field is not None:
            self._field.disabled = False
