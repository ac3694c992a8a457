"""The table of providers is complete."""

import inspect

from turntree import upp

from .providers import PROVIDERS


def test_every_provider_is_tested():
    """The table has every factory of `turntree.upp` that returns a model reference, except those without a vendor.

    Perplexity has no tools, Z.ai no enforced schemas, Vertex AI other URLs, and Bedrock signatures and a format of its
    own: `test_hosts.py`, `test_cloud.py` and `test_bedrock.py` test them.
    """
    without_vendor = {"create_provider", "model", "scripted", "fallback", "router"}
    elsewhere = {"bedrock", "perplexity", "vertex", "zai"}
    factories = {
        name
        for name in upp.__all__
        if inspect.isroutine(getattr(upp, name))
        if inspect.signature(getattr(upp, name)).return_annotation in ("ModelReference", upp.ModelReference)
    }

    assert factories - without_vendor - elsewhere == {provider.factory.__name__ for provider in PROVIDERS.values()}
