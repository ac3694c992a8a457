"""The built-in prices equal those of an external data set."""

from decimal import Decimal

import pytest

from turntree._core import price_rows

snapshots = pytest.importorskip("genai_prices.data_snapshot", reason="genai-prices is not installed")

ALL = price_rows()
ROWS = [row for row in ALL if row["source"].startswith("https://pypi.org/project/genai-prices/")]
KINDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
}


def today(prices):
    """Current prices: the last entry if there are several with start dates."""
    return prices[-1].prices if isinstance(prices, list) else prices


def published(row, model, kind):
    """The price in the data set for prompts of the length that the row covers."""
    provider = snapshots.get_snapshot().find_provider(None, row["provider"], None)
    price = getattr(today(provider.find_model(model).prices), kind)
    for tier in getattr(price, "tiers", ()):
        assert row["up_to_input_tokens"] <= tier.start, (model, kind)
    return getattr(price, "base", price)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["models"][0])
def test_each_builtin_price_equals_a_published_price(row):
    for model in row["models"]:
        for ours, theirs in KINDS.items():
            known = row.get(ours)
            expected = published(row, model, theirs)
            assert (None if known is None else Decimal(str(known))) == expected, (model, ours)


def test_each_builtin_price_is_in_the_data_set():
    assert len(ROWS) == len(ALL) > 20
