"""Fixtures of the conformance tests of UPP-1.2."""

import os
from contextlib import ExitStack

import pytest

from turntree.testing import serve

from .providers import PROVIDERS

# Tests count requests: retries are those that a test configures.
os.environ["TURNTREE_MAX_RETRIES"] = "0"


@pytest.fixture(params=list(PROVIDERS))
def provider(request):
    """Each provider of the table."""
    return PROVIDERS[request.param]


@pytest.fixture(autouse=True)
def no_keys_of_this_machine(monkeypatch):
    """Remove environment variables that would replace the key or the address of a test."""
    for provider in PROVIDERS.values():
        if provider.variable:
            monkeypatch.delenv(provider.variable, raising=False)
    for name in ("OLLAMA_HOST", "OLLAMA_API_KEY", "GEMINI_API_KEY", "KIMI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def loopback():
    """Starts loopback servers, which are as strict as the vendors, and closes them after the test."""
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(serve(script))
