"""The magics `%chat` and `%%chat`. Imported by ``%load_ext turntree``, so that IPython is needed there alone."""

from __future__ import annotations

from typing import Any, cast

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from turntree import _core
from turntree._agent import Agent
from turntree._session import Session
from turntree.notebook._live import live

_USE = "write %%chat NAME and the message below it, or %chat NAME MESSAGE; NAME is a variable with a session or agent"


@magics_class
class ChatMagics(Magics):
    """Sends messages to a session or an agent."""

    async def run(self, line: str, cell: str | None = None) -> _core.Turn[Any]:
        """Run with the message, and show it while it goes on."""
        target, message = self._parts(line, cell)
        turn: _core.Turn[Any] = await live(target, message)
        return turn

    @line_cell_magic  # pyright: ignore[reportUntypedFunctionDecorator]
    def chat(self, line: str, cell: str | None = None) -> _core.Turn[Any]:
        """Send a message to a session or an agent, and show the run while it goes on.

        ::

            %%chat trip
            What do I pack for Tokyo?

            turn = %chat trip And in June?

        The first word is a variable with a session or an agent. An agent has no history; a session has.
        """
        # Cells are rewritten to await `run`; this serves calls of run_line_magic and run_cell_magic.
        target, message = self._parts(line, cell)
        return target.run_sync(message)

    def _parts(self, line: str, cell: str | None) -> tuple[Agent[Any, Any] | Session[Any, Any], str]:
        name, _, rest = line.strip().partition(" ")
        message = rest.strip() if cell is None else "\n".join(filter(None, [rest.strip(), cell.strip()]))
        shell: Any = self.shell
        found: Any = shell.user_ns.get(name)
        if not isinstance(found, (Agent, Session)):
            state = f"is {type(found).__name__}" if name in shell.user_ns else "is not defined"
            raise UsageError(f"{_USE}; {name} {state}" if name else _USE)
        if not message:
            raise UsageError(f"the message is empty: {_USE}")
        return cast("Agent[Any, Any] | Session[Any, Any]", found), message
