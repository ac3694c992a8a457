"""What calls cost: list prices with date and source, and yours before them.

``turn.usage.cost`` is in US dollars, and None unless it is certain: nothing is guessed for a model without a row,
tokens of a kind without a price, a prompt longer than the price is for, tiers of service, the vendor's own tools, sound
and film. What a vendor says itself (OpenRouter) wins.

A row is a dict::

    {"provider": "openai", "models": ["gpt-5", "gpt-5-2025*"], "input": 1.25, "output": 10, "cache_read": 0.125}

Prices are for a million tokens. A ``*`` at the end of a name stands for anything; the first row that fits counts. More
members: ``cache_write``, ``cache_write_1h``, ``up_to_input_tokens``, ``date``, ``source``, ``currency`` (``USD``).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypedDict

from turntree._core import price_rows, set_price_rows, tokens_cost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from turntree._core import TokenUsage

__all__ = ["Price", "add", "cost", "load", "reset", "table"]


class _Needed(TypedDict):
    provider: str
    models: list[str]
    input: float
    output: float


class Price(_Needed, total=False):
    """Prices of one or several models, in US dollars for a million tokens."""

    cache_read: float | None
    cache_write: float | None
    cache_write_1h: float | None
    up_to_input_tokens: int | None
    date: str | None
    source: str | None
    currency: str


_LOCK = threading.Lock()
_own: list[Mapping[str, Any]] = []


def add(*rows: Price | Mapping[str, Any]) -> None:
    """Put rows before all others, for the whole process: new models, or other prices for known ones.

    Raises:
        ValueError: A row of another shape; nothing is then added.
    """
    global _own
    with _LOCK:
        rows_now: list[Mapping[str, Any]] = [*rows, *_own]
        set_price_rows(rows_now)
        _own = rows_now


def load(source: str | bytes | Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> None:
    """Put rows before all others, from a list of rows, its JSON, or a mapping.

    Args:
        source: The mapping has ``provider:model`` as keys, and rows without ``provider`` and ``models`` as values.

    Raises:
        ValueError: Rows of another shape.
    """
    rows: Any = source
    if isinstance(source, str | bytes):
        import json

        rows = json.loads(source)
    if hasattr(rows, "items"):
        named = ((key.partition(":"), row) for key, row in rows.items())
        rows = [{**row, "provider": provider, "models": [model]} for (provider, _, model), row in named]
    add(*rows)


def reset() -> None:
    """Forget what was added."""
    global _own
    with _LOCK:
        set_price_rows([])
        _own = []


def table() -> list[Price]:
    """Give all rows, in the order in which they are tried."""
    return price_rows()


def cost(
    usage: TokenUsage | Mapping[str, Any],
    provider: str,
    model: str,
    *,
    prices: Sequence[Price | Mapping[str, Any]] = (),
) -> float | None:
    """Tell what tokens cost, in US dollars.

    Args:
        usage: Of one call: a sum over several may mix models.
        provider: Whose model.
        model: The model that answered.
        prices: Rows that go before all others, for this time alone.

    Returns:
        None unless it is certain.
    """
    return tokens_cost(usage, provider, model, list(prices))
