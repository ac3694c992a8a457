"""The table of providers is complete."""

import inspect

from turntree import upp

from .providers import PROVIDERS


def test_every_provider_is_tested():
    """The table has every factory of `turntree.upp` that returns a model reference, except those without a vendor."""
    without_vendor = {"create_provider", "model", "scripted"}
    factories = {
        name
        for name in upp.__all__
        if inspect.isroutine(getattr(upp, name))
        if inspect.signature(getattr(upp, name)).return_annotation in ("ModelReference", upp.ModelReference)
    }

    assert factories - without_vendor == {provider.factory.__name__ for provider in PROVIDERS.values()}
