"""Execution strategies: how an agent uses its model and tools. UAP-1.0 §5."""

from __future__ import annotations

__all__ = ["LoopStrategy", "loop"]


class LoopStrategy:
    """The strategy `loop` makes. UAP-1.0 §5.2."""

    __slots__ = ("max_iterations",)

    name = "loop"

    def __init__(self, max_iterations: int) -> None:
        self.max_iterations: int = max_iterations

    def __repr__(self) -> str:
        return f"loop(max_iterations={self.max_iterations})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoopStrategy) and other.max_iterations == self.max_iterations

    def __hash__(self) -> int:
        return hash((self.name, self.max_iterations))


def loop(max_iterations: int = 10) -> LoopStrategy:
    """Call the model, run the tools it asks for, and again until it asks for none. UAP-1.0 §5.2.

    Args:
        max_iterations: Most tool rounds. With M of them up to M + 1 model calls are made; one more round wanted
            raises ``UPPError`` (INVALID_REQUEST). 0 turns tool execution off: the turn ends with the calls.

    Raises:
        TypeError: Not an int.
        ValueError: Below 0.
    """
    if isinstance(max_iterations, bool) or not isinstance(max_iterations, int):
        message = f"max_iterations must be an int, not {type(max_iterations).__name__}"
        raise TypeError(message)
    if not 0 <= max_iterations < 2**32:
        message = f"max_iterations must be from 0 to 4294967295, not {max_iterations}"
        raise ValueError(message)
    return LoopStrategy(max_iterations)
