"""Fixtures of the tests of tracing."""

from tracing_support import no_complaints, traced, untouched

__all__ = ["no_complaints", "traced", "untouched"]
