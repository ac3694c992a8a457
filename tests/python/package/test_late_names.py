"""Public names are imported when they are asked for. Each one works if it is the first one of a process."""

import os
import subprocess
import sys
import textwrap

import pytest

import turntree

# Looks at each public name in a process that has imported nothing else.
EACH_ALONE = """
import importlib, inspect, os, pickle, pydoc, sys, traceback, typing

def hints(value):
    for found in [value, *(vars(value).values() if inspect.isclass(value) else ())]:
        found = found.fget if isinstance(found, property) else found
        found = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
        if inspect.isclass(found) or inspect.isfunction(found) and found.__name__.strip("_"):
            if not found.__name__.startswith("_") or found.__name__ == "__init__":
                yield from typing.get_type_hints(found).values()

def look(module, name):
    value = getattr(importlib.import_module(module), name)
    assert name in dir(sys.modules[module])
    if typing.get_origin(value) is not None or isinstance(value, str):
        return
    assert pydoc.render_doc(value)
    assert not [hint for hint in hints(value) if "Late" in type(hint).__name__]
    if inspect.ismodule(value):
        return
    assert "._" not in value.__module__, value.__module__
    assert pickle.loads(pickle.dumps(value)) is value
    if inspect.isroutine(value) or inspect.isclass(value) and not issubclass(value, dict):
        inspect.signature(value)

module = importlib.import_module(sys.argv[1])
for name in module.__all__:
    child = os.fork()
    if child == 0:
        try:
            look(module.__name__, name)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        print(name)
"""


def output(program, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="looks in forked processes")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("module", ["turntree", "turntree.upp", "turntree.upp.native", "turntree.execution"])
def test_python_can_look_at_a_name_that_is_the_first_one_of_its_process(module):
    assert output(EACH_ALONE, module) == ""


def test_names_of_private_modules_that_are_loaded_already_are_those_of_the_public_module():
    shown = output(
        """
        from turntree import agent
        from turntree.upp import scripted

        stream = agent(model=scripted(["Hi"])).stream("Hello")
        print(type(stream).__module__, type(stream).__init__.__module__)
        import turntree
        print("Session" in vars(turntree), turntree.AgentStream is type(stream))
        """
    )

    assert shown.splitlines() == ["turntree turntree._agent_stream", "False True"]


def test_errors_of_the_provider_layer_are_complete_before_it_is_imported():
    shown = output(
        """
        import pickle, sys
        from turntree.exceptions import UPPError
        print("turntree.upp" in sys.modules)
        try:
            UPPError("no code")
        except TypeError as error:
            print(error)
        print(repr(pickle.loads(pickle.dumps(UPPError("Busy", "TIMEOUT")))))
        from turntree import upp
        print(upp.UPPError is UPPError)
        """
    )

    loaded, refused, restored, is_same = shown.splitlines()
    assert (loaded, is_same) == ("False", "True")
    assert refused.startswith("UPPError() needs code; write UPPError(message, code)")
    assert restored == "UPPError('Busy', code='TIMEOUT')"


def test_all_names_are_imported_by_a_star():
    shown = output(
        """
        names = {}
        exec("from turntree import *\\nfrom turntree.upp import *", names)
        import turntree, turntree.upp
        print([name for name in turntree.__all__ + turntree.upp.__all__ if name not in names])
        """
    )

    assert shown == "[]"


def test_completion_shows_the_names_before_they_are_imported():
    shown = output("import turntree; print(sorted(name for name in dir(turntree) if name[0] != '_'))")

    assert set(turntree.__all__) - {"__version__"} | {"exceptions", "store", "upp"} == set(eval(shown))


def test_names_can_be_replaced_and_restored(monkeypatch):
    before = turntree.handoff
    with monkeypatch.context() as changed:
        changed.delattr(turntree, "handoff")
        assert turntree.handoff is before
        changed.setattr(turntree, "handoff", None)
        assert turntree.handoff is None

    assert turntree.handoff is before


def test_a_name_that_was_replaced_stays_when_others_of_its_module_are_imported():
    shown = output(
        """
        import turntree
        turntree.agent = "mine"
        turntree.Agent
        print(turntree.agent)
        """
    )

    assert shown == "mine"


def test_threads_can_ask_for_a_name_at_the_same_time():
    shown = output(
        """
        import threading, turntree
        start, found = threading.Barrier(8), []
        names = ["agent", "session", "query", "handoff", "Toolset", "Limits", "SessionError", "StepResult"]

        def ask(name):
            start.wait()
            found.append(getattr(turntree, name).__name__)

        threads = [threading.Thread(target=ask, args=(name,)) for name in names]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(sorted(found) == sorted(names))
        """
    )

    assert shown == "True"
