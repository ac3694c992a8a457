"""Prices of models: built-in list prices with date and source, and prices that the application adds.

``turn.usage.cost`` is in US dollars. It is None if the cost is not certain: the model has no price row, a kind of
tokens has no price, the prompt is longer than ``up_to_input_tokens``, or the call uses a service tier, tools of the
vendor, audio or video. A cost that the vendor reports (OpenRouter, xAI, Perplexity) has precedence.

A row is a dict::

    {"provider": "openai", "models": ["gpt-5", "gpt-5-2025*"], "input": 1.25, "output": 10, "cache_read": 0.125}

Prices are per million tokens. A ``*`` at the end of a model name matches any suffix; the first matching row applies.
Optional members: ``cache_write``, ``cache_write_1h``, ``up_to_input_tokens``, ``date``, ``source`` and ``currency``
(``USD``).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from turntree._core import TokenUsage, price_rows, set_price_rows, tokens_cost
from turntree._public_names import set_public_module as _set_public_module

__all__ = ["Price", "add", "cost", "load", "reset", "table"]


class _RequiredPrice(TypedDict):
    provider: str
    models: list[str]
    input: float
    output: float


class Price(_RequiredPrice, total=False):
    """A price row for one or several models, in US dollars per million tokens."""

    cache_read: float | None
    cache_write: float | None
    cache_write_1h: float | None
    up_to_input_tokens: int | None
    date: str | None
    source: str | None
    currency: str


_LOCK = threading.Lock()
_added: list[Mapping[str, Any]] = []


def add(*rows: Price | Mapping[str, Any]) -> None:
    """Add rows with precedence over all others, for the whole process: new models, or other prices of known models.

    Raises:
        ValueError: A row is invalid; no row is added.
    """
    global _added
    with _LOCK:
        added: list[Mapping[str, Any]] = [*rows, *_added]
        set_price_rows(added)
        _added = added


def load(source: str | bytes | Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> None:
    """Add rows, as `add` does, from a list of rows, a mapping, or the JSON of either.

    Args:
        source: The rows. A mapping has ``provider:model`` as keys, and rows without ``provider`` and ``models`` as
            values.

    Raises:
        ValueError: A row is invalid; no row is added.
    """
    rows: Any = source
    if isinstance(source, str | bytes):
        import json

        rows = json.loads(source)
    if hasattr(rows, "items"):
        by_name = ((key.partition(":"), row) for key, row in rows.items())
        rows = [{**row, "provider": provider, "models": [model]} for (provider, _, model), row in by_name]
    add(*rows)


def reset() -> None:
    """Remove all added rows. The built-in rows remain."""
    global _added
    with _LOCK:
        set_price_rows([])
        _added = []


def table() -> list[Price]:
    """Return all rows. The first matching row applies."""
    return price_rows()


def cost(
    usage: TokenUsage | Mapping[str, Any],
    provider: str,
    model: str,
    *,
    prices: Sequence[Price | Mapping[str, Any]] = (),
) -> float | None:
    """Calculate the cost of tokens in US dollars.

    Args:
        usage: The usage of one call. A sum over several calls may include other models.
        provider: Name of the provider.
        model: Name of the model that sent the response.
        prices: Rows with precedence over all others, for this calculation only.

    Returns:
        The cost; None if it is not certain.
    """
    return tokens_cost(usage, provider, model, list(prices))


_set_public_module(__name__, globals())
