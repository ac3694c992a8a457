"""Names of other libraries, and names of another module of turntree: the error says where it is."""

import importlib
import subprocess
import sys

import pytest

import turntree
from turntree import _peer_names
from turntree._public_names import MODULES

IMPORTS = {
    "from turntree import function_tool": "write `from turntree.tools import tool`",
    "from turntree import tool": "write `from turntree.tools import tool`",
    "from turntree import Runner": "agents run themselves",
    "from turntree import StateGraph": "`from turntree import uaip`",
    "from turntree import create_react_agent": "write `from turntree import agent`",
    "from turntree import InMemorySaver": "turntree.session(agent, id=…, persistence=…)",
    "from turntree import UsageLimits": "turntree.Limits(…)",
    "from turntree import HumanMessage": "from turntree.upp import UserMessage",
    "from turntree import ChatOpenAI": "from turntree.models import openai",
    "from turntree import stdio": "write `from turntree.mcp import stdio`",
    "from turntree import serve": "write `from turntree.mcp import serve`; another one is in turntree.testing",
    "from turntree import sqlite": "write `from turntree.store import sqlite`",
    "from turntree.tools import function_tool": "write `from turntree.tools import tool`",
    "from turntree.models import Agent": "write `from turntree import Agent`",
    "from turntree.execution import agent": "write `from turntree import agent`",
    "from turntree.mcp import MCPServerStdio": "mcp.stdio(command, *args)",
    "from turntree.exceptions import MaxTurnsExceeded": "LimitExceeded",
    "from turntree.testing import TestModel": "from turntree.models import scripted",
    "from turntree.store import SqliteSaver": "persistence=",
    "from turntree.middleware import input_guardrail": "from turntree.middleware import guardrails",
    "from turntree.upp import StateGraph": "`from turntree import uaip`",
}


@pytest.mark.parametrize("statement", IMPORTS)
def test_an_import_of_a_name_from_elsewhere_is_explained(statement):
    module, name = statement.split(" import ")

    with pytest.raises(ImportError) as raised:
        exec(statement)

    assert str(raised.value).startswith(f"cannot import name '{name}' from '{module.removeprefix('from ')}': ")
    assert IMPORTS[statement] in str(raised.value)


@pytest.mark.parametrize(
    "module", ["turntree", "turntree.tools", "turntree.mcp", "turntree.exceptions", "turntree.upp"]
)
def test_an_attribute_of_a_module_is_explained(module):
    found = importlib.import_module(module)

    assert not hasattr(found, "StateGraph")
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'StateGraph': write `from") as raised:
        _ = found.StateGraph
    assert (raised.value.name, raised.value.obj) == ("StateGraph", found)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'$"):
        _ = found.nothing
    assert "StateGraph" not in dir(found)


def test_names_that_nobody_knows_have_the_usual_error():
    with pytest.raises(ImportError, match=r"^cannot import name 'nothing' from 'turntree.tools' \("):
        exec("from turntree.tools import nothing")


def test_modules_of_packages_are_imported_as_before():
    program = "from turntree.upp import middleware, params; from turntree.harness import hooks; print(params.__name__)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50)

    assert done.stdout == "turntree.upp.params\n"


def test_each_public_name_is_found_where_it_is():
    missing = []
    for module in MODULES:
        public = importlib.import_module(f"turntree.{module}")
        for name in getattr(public, "__all__", ()):
            if name in turntree.__all__ or name in MODULES:
                continue
            remedy = _peer_names.ROOT.get(name, "")
            if "import " not in remedy:
                missing.append((module, name))
    assert missing == []


def test_each_remedy_names_what_exists():
    for name, remedy in _peer_names.ELSEWHERE.items():
        for code in remedy.split("`")[1::2]:
            if "import" in code:
                exec(code, {})
        assert not remedy.startswith("write `from turntree import ") or name not in MODULES
