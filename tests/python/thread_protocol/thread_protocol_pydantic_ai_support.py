"""Histories for the tests of the Pydantic AI conversion."""

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic_ai import messages as m

ROOT = Path(__file__).resolve().parents[3]


EXAMPLES = sorted((ROOT / "examples/data").glob("*.json"))


UTC = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


def request(*parts: Any, **options: Any) -> m.ModelRequest:
    return m.ModelRequest(parts=list(parts), **options)


def response(*parts: Any, **options: Any) -> m.ModelResponse:
    return m.ModelResponse(parts=list(parts), timestamp=options.pop("timestamp", UTC), **options)


def returned(content: Any, **options: Any) -> m.ToolReturnPart:
    return m.ToolReturnPart("t", content, "c1", timestamp=UTC, **options)
