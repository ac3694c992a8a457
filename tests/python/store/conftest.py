"""Fixtures: the URL of an empty store for each engine, and an agent."""

import pytest
from store_engines import url_of

from turntree import agent
from turntree.upp import scripted


@pytest.fixture(params=["memory", "file", "sqlite", "postgres", "redis"])
def url(request, tmp_path):
    return url_of(request.param, tmp_path, request.node.name)


@pytest.fixture
def helper():
    return agent(model=scripted(lambda request: f"you said {request.messages[-1].text}"))
