"""Common settings, as the vendors receive them."""

import copy
import pickle
import warnings

import pytest

import turntree
from turntree import models
from turntree.testing import RawReply, serve
from turntree.upp import (
    ErrorCode,
    Image,
    ModelSettings,
    UPPError,
    anthropic,
    deepseek,
    google,
    groq,
    llm,
    mistral,
    ollama,
    openai,
    openrouter,
    scripted,
    tool,
    xai,
)


@tool
def store(note: str) -> str:
    """Store a note."""
    return note


@pytest.fixture(scope="module")
def server():
    with serve(lambda request: "ok") as server:
        yield server


def sent(server, factory, model_id, *, tools=(), params=None, **settings):
    before = len(server.requests)
    model = factory(model_id, base_url=server.base_url, api_key="k")
    options = {"params": {"max_tokens": 100, **(params or {})}} if factory is anthropic else {"params": params}
    llm(model=model, settings=ModelSettings(**settings), tools=tools, **options).generate_sync("hi")
    return server.requests[before].json


def openai_chat(model, **options):
    return openai(model, api="completions", **options)


SAMPLING = {"max_tokens": 50, "temperature": 0.5, "top_p": 0.9, "stop": "END", "seed": 7}


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        (openai_chat, {"max_completion_tokens": 50, "temperature": 0.5, "top_p": 0.9, "stop": ["END"], "seed": 7}),
        (groq, {"max_completion_tokens": 50, "temperature": 0.5, "top_p": 0.9, "stop": ["END"], "seed": 7}),
        (mistral, {"max_tokens": 50, "temperature": 0.5, "top_p": 0.9, "stop": ["END"], "random_seed": 7}),
        (xai, {"max_completion_tokens": 50, "seed": 7}),
        (openrouter, {"max_tokens": 50, "seed": 7}),
        (
            google,
            {
                "generationConfig": {
                    "maxOutputTokens": 50,
                    "temperature": 0.5,
                    "topP": 0.9,
                    "stopSequences": ["END"],
                    "seed": 7,
                }
            },
        ),
        (ollama, {"options": {"num_predict": 50, "temperature": 0.5, "top_p": 0.9, "stop": ["END"], "seed": 7}}),
    ],
)
def test_each_vendor_gets_its_own_words(server, factory, expected):
    body = sent(server, factory, "m", **SAMPLING)
    assert {name: body.get(name) for name in expected} == expected
    assert not [name for name in body if name.startswith("turntree:")]


@pytest.mark.parametrize(
    ("factory", "model_id", "effort", "expected"),
    [
        (openai, "gpt-5", "low", {"reasoning": {"effort": "low"}}),
        (openai, "gpt-5", 5000, {"reasoning": {"effort": "medium"}}),
        (openai_chat, "gpt-5", "high", {"reasoning_effort": "high"}),
        (openrouter, "m", 3000, {"reasoning": {"max_tokens": 3000}}),
        (deepseek, "deepseek-chat", "high", {"thinking": {"type": "enabled"}}),
        (google, "gemini-2.5-flash", "low", {"generationConfig": {"thinkingConfig": {"thinkingBudget": 2048}}}),
        (google, "gemini-3-pro", "low", {"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}}),
        (ollama, "qwen3", "low", {"think": True}),
        (ollama, "gpt-oss:20b", "low", {"think": "low"}),
    ],
)
def test_reasoning_is_an_effort_or_a_budget_as_the_vendor_takes_it(server, factory, model_id, effort, expected):
    body = sent(server, factory, model_id, reasoning=effort)
    assert {name: body.get(name) for name in expected} == expected


def test_thinking_of_anthropic_fits_into_max_tokens(server):
    model = anthropic("claude-sonnet-4-5", base_url=server.base_url, api_key="k")
    before = len(server.requests)
    llm(model=model, settings={"reasoning": "low"}).generate_sync("hi")
    llm(model=model, settings={"reasoning": "high", "max_tokens": 4000}).generate_sync("hi")
    adaptive = anthropic("claude-opus-4-6", base_url=server.base_url, api_key="k")
    llm(model=adaptive, settings={"reasoning": "high", "max_tokens": 4000}).generate_sync("hi")
    bodies = [request.json for request in server.requests[before:]]
    assert [body["thinking"] for body in bodies] == [
        {"type": "enabled", "budget_tokens": 2048},
        {"type": "enabled", "budget_tokens": 2000},
        {"type": "adaptive"},
    ]
    assert bodies[0]["max_tokens"] > 2048
    assert bodies[2]["output_config"] == {"effort": "high"}


@pytest.mark.parametrize(
    ("factory", "choice", "expected"),
    [
        (
            openai_chat,
            "store",
            {"tool_choice": {"type": "function", "function": {"name": "store"}}, "parallel_tool_calls": False},
        ),
        (openai, "store", {"tool_choice": {"type": "function", "name": "store"}, "parallel_tool_calls": False}),
        (openai, "required", {"tool_choice": "required"}),
        (anthropic, "required", {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}}),
        (anthropic, "store", {"tool_choice": {"type": "tool", "name": "store", "disable_parallel_tool_use": True}}),
        (anthropic, "none", {"tool_choice": {"type": "none"}}),
        (
            google,
            "store",
            {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["store"]}}},
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:settings")
def test_tool_choice_and_parallel_calls(server, factory, choice, expected):
    body = sent(server, factory, "m", tools=[store], tool_choice=choice, parallel_tool_calls=False)
    assert {name: body.get(name) for name in expected} == expected


def test_the_cache_is_marked_where_vendors_do_not_cache_by_themselves(server):
    assert sent(server, anthropic, "m", cache="auto")["cache_control"] == {"type": "ephemeral"}
    assert sent(server, anthropic, "m", cache="1h")["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert sent(server, openrouter, "anthropic/claude-sonnet-4.5", cache="auto")["cache_control"] == {
        "type": "ephemeral"
    }
    assert "cache_control" not in sent(server, openai, "gpt-5", cache="auto")


@pytest.mark.parametrize(
    ("model_id", "most"),
    [
        ("claude-3-haiku-20240307", 4096),
        ("claude-3-5-sonnet-20241022", 8192),
        ("claude-opus-4-1-20250805", 32_000),
        ("claude-sonnet-4-5", 64_000),
        ("a-model-of-tomorrow", 4096),
    ],
)
def test_anthropic_gets_the_most_tokens_of_the_model_if_none_are_given(server, model_id, most):
    model = anthropic(model_id, base_url=server.base_url, api_key="k")
    before = len(server.requests)
    assert llm(model=model).generate_sync("hi").text == "ok"
    assert llm(model=model, params={"max_tokens": 9}).stream_sync("hi").turn.text == "ok"
    assert [request.json["max_tokens"] for request in server.requests[before:]] == [most, 9]


@pytest.mark.filterwarnings("ignore:settings")
def test_sampling_is_left_out_only_if_the_model_thinks(server):
    sampling = {"temperature": 0.5, "top_p": 0.4}
    thinks = sent(server, anthropic, "claude-sonnet-4-5", params={"max_tokens": 5000}, reasoning="low", **sampling)
    assert "thinking" in thinks
    assert {"temperature", "top_p"} & set(thinks) == set()
    answers = sent(server, anthropic, "claude-sonnet-4-5", params={"max_tokens": 500}, reasoning="low", **sampling)
    assert "thinking" not in answers
    assert (answers["temperature"], answers["top_p"]) == (0.5, 0.4)


def test_vendor_parameters_take_precedence(server):
    assert sent(server, openai, "m", params={"max_output_tokens": 9}, max_tokens=50)["max_output_tokens"] == 9
    body = sent(server, google, "m", params={"maxOutputTokens": 9}, max_tokens=50)
    assert body["generationConfig"] == {"maxOutputTokens": 9}


def test_a_setting_that_the_vendor_lacks_is_left_out_with_a_warning(server):
    with pytest.warns(UserWarning, match="settings.seed is not sent to openai"):
        body = sent(server, openai, "m", seed=7)
    assert "seed" not in body
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "seed" not in sent(server, openai, "m", seed=7)


def test_settings_of_a_run_replace_those_of_the_agent_by_name(server):
    model = openai("m", base_url=server.base_url, api_key="k")
    agent = turntree.agent(model=model, settings=ModelSettings(max_tokens=50, temperature=0.5))
    before = len(server.requests)
    agent.run_sync("hi", settings=ModelSettings(max_tokens=60))
    body = server.requests[before].json
    assert (body["max_output_tokens"], body["temperature"]) == (60, 0.5)


def test_timeout_limits_one_call():
    with serve(RawReply("{}", delay=30.0)) as slow:
        model = openai("m", base_url=slow.base_url, api_key="k")
        with pytest.raises(UPPError) as caught:
            llm(model=model, settings=ModelSettings(timeout=0.05)).generate_sync("hi")
    assert caught.value.code == ErrorCode.TIMEOUT


def test_settings_are_values():
    settings = ModelSettings(max_tokens=5, stop=["a"])
    assert models.ModelSettings is ModelSettings
    assert pickle.loads(pickle.dumps(settings)) == settings == copy.deepcopy(settings)
    assert repr(settings) == "ModelSettings(max_tokens=5, stop=['a'])"
    assert len({settings, ModelSettings(max_tokens=5, stop=["a"])}) == 1
    for wrong in ({"max_tokens": "5"}, {"parallel_tool_calls": 1}, {"stop": 3}, {"temperature": True}):
        with pytest.raises(TypeError):
            ModelSettings(**wrong)
    for wrong in ({"max_tokens": 0}, {"temperature": 3}, {"top_p": -1}, {"cache": "always"}):
        with pytest.raises(ValueError, match="must be"):
            ModelSettings(**wrong)
    with pytest.raises(TypeError, match="ModelSettings"):
        llm(model=openai("m"), settings=3)
    with pytest.raises(ValueError, match="on_refusal"):
        llm(model=openai("m"), on_refusal="ignore")


def test_output_is_repaired_as_often_as_asked():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    for build in (llm, turntree.agent):
        model = scripted(["no", "still no", "never", '{"n": 1}'])
        asked = build(model=model, structure=schema, structure_repair=3)
        turn = asked.generate_sync("n?") if build is llm else asked.run_sync("n?")
        assert turn.data == {"n": 1}
        with pytest.raises(UPPError):
            again = build(model=scripted(["no", "no", "no"]), structure=schema, structure_repair=1)
            again.generate_sync("n?") if build is llm else again.run_sync("n?")


def test_agents_take_texts_and_blocks_one_by_one():
    model = scripted(["a dot"])
    picture = Image.from_url("https://example.com/dot.png")
    turntree.agent(model=model).run_sync("What is this?", picture)
    (message,) = model.requests[0].messages
    assert [block.type for block in message.content] == ["text", "image"]
