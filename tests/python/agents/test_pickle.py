"""Agents, models and tools pickle by their options, for Ray, Dask, Spark and multiprocessing."""

import copy
import pickle
import subprocess
import sys
from dataclasses import dataclass

import pytest

from turntree import GuardrailError, agent, execution, mcp, middleware, session, store, testing, uaip
from turntree.tools import tool
from turntree.upp import ErrorCode, ProviderConfig, Tool, create_provider, fallback, llm, openai, router, scripted


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
        {"headers": {"X-Tenant": "tenant-4711"}},
        {"headers": {"User-Agent": "me", "X-Own-Pass": "a secret"}},
        {"config": {"headers": {"X-Own-Pass": "a secret"}}},
        {"base_url": "https://user:password@example.org/v1"},
        {"base_url": "https://example.org/v1?api_key=secret"},
    ):
        with pytest.raises(TypeError, match="may hold a secret"):
            pickle.dumps(openai("gpt-5", **options))


def test_headers_without_secrets_are_pickled():
    stored = pickle.dumps(openai("gpt-5", headers={"User-Agent": "reports/2", "X-Title": "Reports", "Accept": None}))

    assert b"reports/2" in stored
    assert pickle.loads(stored).model_id == "gpt-5"


def test_models_in_the_memory_of_a_process_say_why_they_cannot_be_pickled():
    class Own:
        def generate(self, request):
            return "Hi"

    custom = create_provider("own", Own())("m")

    with pytest.raises(TypeError, match="a scripted model cannot be pickled: its replies and requests"):
        pickle.dumps(agent(model=scripted(["Hi"])))
    with pytest.raises(TypeError, match="a custom model cannot be pickled: its functions belong to this process"):
        pickle.dumps(custom)


def test_the_configuration_of_an_agent_is_sent_without_its_key():
    stored = pickle.dumps(agent(model=openai("gpt-5"), config={"api_key": "sk-secret", "timeout": 3}))

    assert b"sk-secret" not in stored
    assert pickle.loads(stored).options["config"] == {"timeout": 3}
    for config in ({"headers": {"Authorization": "sk-secret"}}, ProviderConfig(api_key="sk-secret")):
        with pytest.raises(TypeError, match="the agent cannot be pickled: its config= holds a secret"):
            pickle.dumps(agent(model=openai("gpt-5"), config=config))


def test_sessions_and_llms_say_what_to_send_instead():
    with pytest.raises(TypeError, match=r"a session cannot be pickled: .* Session\.open\(store, id, agent\)"):
        pickle.dumps(session(agent(model=openai("gpt-5"))))
    with pytest.raises(TypeError, match=r"an LLM cannot be pickled: .* llm\(model=…\)"):
        pickle.dumps(llm(model=openai("gpt-5")))


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


def is_short(text: str) -> bool:
    return len(text) < 10


def choose(request):
    return openai("gpt-5")


def token() -> str:
    return "from a vault"


async def test_agents_are_pickled_with_their_middleware(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    rules = [is_short, middleware.rule("secret", message="no secrets")]
    given = [
        middleware.logging("debug", include_messages=True),
        middleware.guardrails(input=rules),
        middleware.memory(max_turns=3, counter=len, summarize=agent(model=openai("gpt-5"))),
        middleware.budget(steps=3, per="session", name="small"),
    ]
    with testing.serve(lambda _request: "Hi.") as server:
        other = copied(agent(model=openai("gpt-5", base_url=server.base_url), middleware=given))

        assert [repr(one) for one in other.options["middleware"]] == [repr(one) for one in given]
        assert (await other.run("Hello")).text == "Hi."
        for text, reason in (("longer than ten", "is_short"), ("secret", "no secrets")):
            with pytest.raises(GuardrailError, match=reason):
                await other.run(text)


async def test_models_made_of_other_models_are_pickled_by_their_parts(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with testing.serve([testing.ErrorReply(400), "Hi."]) as server:
        one = openai("gpt-5", base_url=server.base_url)
        model = copied(fallback(one, one, when=[ErrorCode.INVALID_REQUEST]))

        assert (await agent(model=model).run("Hello")).text == "Hi."
    assert copied(fallback(one, when=is_short)).provider == "fallback"
    assert copied(router(choose)).provider == "router"
    with pytest.raises(TypeError, match="a scripted model cannot be pickled"):
        pickle.dumps(fallback(one, scripted(["Hi"])))


def test_mcp_servers_are_pickled_without_secrets():
    program = mcp.stdio("tool-server", "--fast", prefix="x_", allow=["a"])
    site = mcp.http("https://example.com/mcp", headers={"X-Title": "a"}, auth=token)

    assert copied(program).__reduce__() == program.__reduce__()
    assert copied(site).name == "mcp https://example.com/mcp"
    for server in (
        mcp.stdio("tool-server", env={"API_KEY": "k"}),
        mcp.http("https://example.com/mcp", auth="sk-secret"),
        mcp.sse("https://example.com/sse", headers={"Authorization": "Bearer x"}),
        mcp.http("https://example.com/mcp", auth=mcp.oauth("https://example.com/mcp")),
    ):
        with pytest.raises(TypeError, match="cannot be pickled: it"):
            pickle.dumps(agent(model=openai("gpt-5"), tools=[server]))


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


def test_a_default_merge_can_be_pickled():
    both = agent(execution=execution.parallel(agent(name="a", model=openai("gpt-5")), agent(model=openai("gpt-5"))))

    assert copied(both).options["execution"].agents[0].name == "a"


def test_stores_and_clients_say_what_to_do_instead():
    with pytest.raises(TypeError, match=r"^a store cannot be pickled: give its URL, and write store\.from_url\(url\)"):
        pickle.dumps(store.memory())
    with pytest.raises(TypeError, match="^a client of UAIP cannot be pickled"):
        pickle.dumps(agent(model=openai("gpt-5"), tools=[uaip.toolset("http://127.0.0.1:1")]))


@pytest.mark.parametrize("copy_of", [copy.copy, copy.deepcopy])
async def test_a_copy_in_the_same_process_keeps_the_key(copy_of, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    with testing.serve(["Hi."] * 2) as server:
        model = openai("gpt-5", base_url=server.base_url, api_key="sk-here")

        await copy_of(agent(model=model)).run("Hello")
        await agent(model=copy_of(model)).run("Hello")

        assert {request.headers["authorization"] for request in server.requests} == {"Bearer sk-here"}


def test_agents_of_this_process_can_be_copied():
    helper = agent(model=scripted(["Hi"]), name="helper")

    assert copy.deepcopy({"helper": helper})["helper"] is helper
    assert helper.__replace__(name="other").name == "other"
