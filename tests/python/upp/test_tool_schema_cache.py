"""The schema of a function is derived once, whatever the number of tools made of it."""

import functools
import gc
import weakref

import pydantic
import pytest

from turntree.upp import tool


@pytest.fixture
def derived(monkeypatch):
    """The names of the functions whose schema was derived."""
    names = []
    create = pydantic.create_model

    def counted(name, **options):
        names.append(name)
        return create(name, **options)

    monkeypatch.setattr(pydantic, "create_model", counted)
    return names


def test_tools_of_one_function_derive_its_schema_once(derived):
    def add(a: int, b: int = 1) -> int:
        return a + b

    schemas = [tool(add).parameters for _ in range(3)]

    assert derived == ["add"]
    assert schemas[0] == schemas[1] == schemas[2]


def test_a_change_of_one_tools_schema_does_not_change_another():
    def add(a: int) -> int:
        return a

    first, second = tool(add), tool(add)
    first.parameters["properties"]["a"]["minimum"] = 1

    assert "minimum" not in second.parameters["properties"]["a"]
    assert "minimum" not in tool(add).parameters["properties"]["a"]


def test_a_wrapper_has_a_schema_of_its_own(derived):
    def add(a: int) -> int:
        return a

    tool(add).parameters  # noqa: B018 (derives it)

    @functools.wraps(add)
    def wrapper(a: int, b: str) -> int:
        return add(a)

    del wrapper.__wrapped__
    wrapper.__annotations__ = {"a": int, "b": str}

    assert set(tool(wrapper).parameters["properties"]) == {"a", "b"}
    assert len(derived) == 2


def test_the_cache_does_not_hold_functions():
    def add(a: int) -> int:
        return a

    tool(add).parameters  # noqa: B018 (derives it)
    alive = weakref.ref(add)
    del add
    gc.collect()

    assert alive() is None


def test_callables_that_cannot_be_cached_are_tools():
    class Add:
        __slots__ = ()  # no weak references
        __name__ = "add"

        def __call__(self, a: int) -> int:
            return a

    assert set(tool(Add()).parameters["properties"]) == {"a"}
    assert set(tool(Add()).parameters["properties"]) == {"a"}
