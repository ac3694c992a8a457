"""`NativeTool`: a tool that a vendor defines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from turntree._public_names import publish


class NativeTool(dict[str, Any]):
    """A tool that a vendor defines: a dict in the vendor's format, which ``tools=[…]`` accepts like a function.

    In ``tools``, a model of another vendor raises INVALID_REQUEST before the request is sent. In
    ``params={"tools": […]}``, the dict is sent unchanged and is not validated.

    Args:
        provider: Name of the vendor's provider.
        name: Name of the tool. For tools that the application executes: the name in the model's calls.
        definition: The dict in the vendor's format. Members that are None are removed.
        run: Function that executes the tool if the vendor does not (a shell, an editor): takes the dict of arguments,
            sync or async. Without it, the model receives an error result for each call.
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
        self.provider: str = provider
        self.name: str = name
        self.run: Callable[[dict[str, Any]], Any] | None = run

    @property
    def _mode(self) -> str:
        import inspect

        return "async" if inspect.iscoroutinefunction(self.run) else "thread"

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments: any object, because only the vendor has the schema."""
        return {"type": "object"}

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata that transports the definition through ``tools``."""
        return {self.provider: {"native": dict(self)}}

    def _call(self, arguments: dict[str, Any], context: Any) -> Any:
        """Execute the tool. The native core calls it."""
        del context
        if self.run is None:
            message = f"{self.name} of {self.provider} has no function to execute it; pass run= to its constructor"
            raise RuntimeError(message)
        return self.run(arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self.provider, self.name, dict(self), self.run))

    def __repr__(self) -> str:
        from turntree._reprs import literal

        return f"NativeTool({self.provider}, {literal(dict(self))})"


def _restore(provider: str, name: str, definition: dict[str, Any], run: Any) -> NativeTool:
    return NativeTool(provider, name, definition, run=run)


publish(__name__, globals())
