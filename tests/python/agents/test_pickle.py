"""Agents, models and tools pickle by their options, for Ray, Dask, Spark and multiprocessing."""

import pickle
import subprocess
import sys
from dataclasses import dataclass

import pytest

from turntree import agent, testing
from turntree.tools import tool
from turntree.upp import Tool, create_provider, openai, scripted


@dataclass
class City:
    name: str


@tool(idempotent=True)
def weather(city: str) -> str:
    """Return the weather."""
    return f"Rain in {city}"


def double(number: int) -> int:
    """Return the double."""
    return 2 * number


def copied(value):
    return pickle.loads(pickle.dumps(value))


def test_a_model_is_pickled_by_the_arguments_of_its_factory():
    model = copied(openai("gpt-5", api="completions", base_url="http://127.0.0.1:1/v1", timeout=3))

    assert (model.provider, model.model_id) == ("openai", "gpt-5")


def test_the_key_of_a_model_is_not_pickled():
    models = [openai("gpt-5", api_key="sk-secret"), openai("gpt-5", config={"api_key": "sk-secret", "timeout": 3})]

    for model in models:
        assert b"sk-secret" not in pickle.dumps(agent(model=model))


async def test_the_key_is_read_from_the_environment_of_the_other_process(monkeypatch):
    with testing.serve(["Hi."]) as server:
        stored = pickle.dumps(agent(model=openai("gpt-5", base_url=server.base_url, api_key="sk-here")))
        monkeypatch.setenv("OPENAI_API_KEY", "sk-there")

        turn = await pickle.loads(stored).run("Hello")

        assert turn.text == "Hi."
        assert server.requests[0].headers["authorization"] == "Bearer sk-there"


def test_secrets_in_other_settings_are_refused():
    for options in (
        {"headers": {"Authorization": "Bearer x"}},
        {"base_url": "https://user:password@example.org/v1"},
    ):
        with pytest.raises(TypeError, match="hold a secret"):
            pickle.dumps(openai("gpt-5", **options))


def test_models_in_the_memory_of_a_process_say_why_they_cannot_be_pickled():
    class Own:
        def generate(self, request):
            return "Hi"

    custom = create_provider("own", Own())("m")

    with pytest.raises(TypeError, match="a scripted model cannot be pickled: its replies and requests"):
        pickle.dumps(agent(model=scripted(["Hi"])))
    with pytest.raises(TypeError, match="a custom model cannot be pickled: its functions belong to this process"):
        pickle.dumps(custom)


def test_a_decorated_tool_is_pickled_by_its_module_and_name():
    assert copied(weather) is weather


def test_other_tools_are_pickled_by_their_arguments():
    made = copied(Tool("twice", "Doubles.", {"type": "object"}, double, approval="ask", retries=3))

    assert (made.name, made.description, made.parameters) == ("twice", "Doubles.", {"type": "object"})
    assert (made.approval, made.retries, made(4)) == ("ask", 3, 8)


def test_an_agent_has_its_options_and_id():
    helper = agent(model=openai("gpt-5"), name="helper", system="Help.")
    original = agent(model=openai("gpt-5"), tools=[weather, helper], structure=City, name="main", params={"top_p": 1})

    other = copied(original)

    assert (other.id, other.name, other.options["params"]) == (original.id, "main", {"top_p": 1})
    assert [one.name for one in other.tools] == [one.name for one in original.tools]
    assert other.options["structure"] is City


_CHILD = """
import pickle, sys
turn = pickle.load(sys.stdin.buffer).run_sync("Weather?")
print(turn.text)
"""


def test_another_process_runs_a_pickled_agent(monkeypatch):
    with testing.serve(["Dry."]) as server:
        model = openai("gpt-5", base_url=server.base_url, api_key="sk-here")
        stored = pickle.dumps(agent(model=model, system="Say the weather."))
        monkeypatch.setenv("OPENAI_API_KEY", "sk-there")

        done = subprocess.run(
            [sys.executable, "-c", _CHILD], input=stored, capture_output=True, timeout=120, check=True
        )

    assert done.stdout.decode().strip() == "Dry."
