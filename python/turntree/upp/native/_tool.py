"""What a vendor's own tool is, whoever the vendor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class NativeTool(dict[str, Any]):
    """A tool that a vendor owns: a dict in the vendor's words, which may also stand in ``tools=[…]`` beside functions.

    In ``tools`` it reaches the vendor that owns it, and any other model refuses it with INVALID_REQUEST before anything
    is sent. In ``params={"tools": […]}`` it is the dict that it is, passed on unchecked.

    Args:
        provider: The name of the vendor's provider.
        name: What the tool is called; for tools that are run here, as the model calls them.
        definition: The vendor's words. Members that are None are left out.
        run: What runs the tool where the vendor leaves that to us (a shell, an editor): a function of the dict of
            arguments, sync or async. Without it a call of the tool fails, and the model is told.
    """

    __slots__ = ("name", "provider", "run")

    approval: None = None
    description: str = ""
    _takes_context: bool = False

    def __init__(
        self,
        provider: str,
        name: str,
        definition: Mapping[str, Any],
        *,
        run: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        super().__init__({key: value for key, value in definition.items() if value is not None})
        self.provider = provider
        self.name = name
        self.run = run

    @property
    def _mode(self) -> str:
        import inspect

        return "async" if inspect.iscoroutinefunction(self.run) else "thread"

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments; the vendor knows it, we do not."""
        return {"type": "object"}

    @property
    def metadata(self) -> dict[str, Any]:
        """What carries the vendor's words through ``tools``."""
        return {self.provider: {"native": dict(self)}}

    def _call(self, arguments: dict[str, Any], context: Any) -> Any:
        """Run it, as an agent does."""
        del context
        if self.run is None:
            message = f"{self.name} of {self.provider} is not run here; give its constructor run=, a function"
            raise RuntimeError(message)
        return self.run(arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (self.provider, self.name, dict(self), self.run))

    def __repr__(self) -> str:
        return f"NativeTool({self.provider}, {dict(self)!r})"


def _again(provider: str, name: str, definition: dict[str, Any], run: Any) -> NativeTool:
    return NativeTool(provider, name, definition, run=run)
