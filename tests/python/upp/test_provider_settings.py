"""Headers, base URLs and settings, and vendors that share an API."""

import pytest
from providers_support import (
    KEY,
    VENDORS,
    chat,
    compatible,
    helper,
    messages,
    no_keys_of_this_machine,  # noqa: F401
    responses,
    sent_key,
    streamed,
    text_of,
    weather,
)

from turntree import agent
from turntree.testing import RawReply, Reply, ToolCall
from turntree.upp import (
    ErrorCode,
    ProviderConfig,
    UPPError,
    anthropic,
    deepseek,
    ollama,
    openai,
    openrouter,
    xai,
)
from turntree.upp import responses as responses_host

# Headers and base URLs


def test_custom_headers_override_case_insensitively(run, loopback):
    server = loopback("ok")
    runner = helper(
        messages,
        server,
        options={"headers": {"X-API-KEY": "other", "ANTHROPIC-VERSION": "2030-01-01", "x-team": "blue"}},
    )

    run(runner.run("Hi"))

    headers = server.requests[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("other", "2030-01-01")
    assert headers["x-team"] == "blue"


def test_agent_config_overrides_model_config(run, loopback):
    server = loopback("ok")
    model = chat(server, headers={"x-a": "model", "x-b": "model", "x-c": "model"})

    run(agent(model=model, config={"headers": {"X-A": "agent", "X-C": None}}).run("Hi"))

    headers = server.requests[0].headers
    assert (headers["x-a"], headers["x-b"]) == ("agent", "model")
    assert "x-c" not in headers


@pytest.mark.parametrize("bad", [{"a b": "c"}, {"a": "b\r\nc: d"}, {"": "x"}])
def test_invalid_headers_are_rejected(run, loopback, bad):
    server = loopback("ok")

    with pytest.raises((UPPError, ValueError, TypeError)) as caught:
        run(helper(chat, server, options={"headers": bad}).run("Hi"))

    assert server.requests == []
    if isinstance(caught.value, UPPError):
        assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("make", "ending"),
    [
        (chat, "/chat/completions"),
        (responses, "/responses"),
        (messages, "/messages"),
        (compatible, "/chat/completions"),
    ],
)
@pytest.mark.parametrize("form", ["{url}/v1", "{url}/v1/", "{url}/v1{ending}", "{url}/v1?tenant=7"])
def test_base_url_can_be_a_prefix_or_an_endpoint(run, loopback, make, ending, form):
    server = loopback("ok")
    url = form.format(url=server.url, ending=ending)

    run(helper(make, server, options={"base_url": url}).run("Hi"))

    (request,) = server.requests
    assert request.path == f"/v1{ending}"
    assert request.query == ("tenant=7" if "tenant" in form else "")


@pytest.mark.parametrize("wrong", ["", "localhost:8000", "ftp://host", 42, "http://"])
def test_invalid_base_urls_are_rejected(run, wrong):
    with pytest.raises((TypeError, ValueError, UPPError)) as caught:
        run(agent(model=openai("gpt", "completions", base_url=wrong, api_key=KEY)).run("Hi"))

    if isinstance(caught.value, UPPError):
        assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("timeout", "5"),
        ("timeout", -1),
        ("timeout", float("nan")),
        ("headers", [("a", "b")]),
        ("headers", {"a": 1}),
        ("retry_strategy", "often"),
        ("timeouts", 5),
    ],
)
def test_error_names_an_invalid_setting(option, wrong):
    with pytest.raises((TypeError, ValueError), match=option):
        openai("gpt", **{option: wrong})


def test_settings_can_be_one_config_object(run, loopback):
    server = loopback("ok")
    config = ProviderConfig(api_key=KEY, base_url=server.base_url)

    run(agent(model=openai("gpt", config=config)).run("Hi"))
    run(agent(model=openai("gpt", config={"apiKey": KEY, "baseUrl": server.base_url})).run("Hi"))
    run(agent(model=openai("gpt"), config=config).run("Hi"))

    assert [sent_key(request) for request in server.requests] == [KEY] * 3


def test_single_settings_override_a_config_object(run, loopback):
    server = loopback("ok")
    config = ProviderConfig(api_key="another", base_url=server.base_url)

    run(agent(model=openai("gpt", api_key=KEY, config=config)).run("Hi"))

    assert sent_key(server.requests[0]) == KEY


@pytest.mark.parametrize("wrong", ["chat", "", None])
def test_openai_supports_two_apis(wrong):
    with pytest.raises((TypeError, ValueError), match="api"):
        openai("gpt", wrong)


@pytest.mark.parametrize("make", [openai, anthropic, ollama])
@pytest.mark.parametrize("wrong", [None, 42, ""])
def test_model_requires_a_name(make, wrong):
    with pytest.raises((TypeError, ValueError), match="model"):
        make(wrong)


def test_html_page_of_a_proxy_is_an_invalid_response(run, loopback):
    server = loopback(RawReply("<html>Welcome</html>", content_type="text/html"))

    with pytest.raises(UPPError, match="text/html") as caught:
        run(helper(chat, server).run("Hi"))

    assert caught.value.code == ErrorCode.INVALID_RESPONSE


# Vendors that share an API


def run_with_tool(server, model):
    """A streamed run that calls a tool, on Chat Completions."""
    return streamed(agent(model=model, tools=[weather]), "Weather in Oslo?")


@pytest.mark.parametrize(("variable", "factory"), VENDORS.items())
def test_vendor_key_is_read_from_its_environment_variable(run, loopback, monkeypatch, variable, factory):
    server = loopback([Reply(tool_calls=[ToolCall("weather", {"city": "Oslo"})]), Reply("Sunny.")])
    monkeypatch.setenv(variable, KEY)

    events, turn = run(run_with_tool(server, factory("m", base_url=server.base_url)))

    assert text_of(events) == turn.response.text == "Sunny."
    assert [execution.result for execution in turn.tool_executions] == ["Oslo: sunny"]
    assert factory.__name__ in turn.response.metadata
    for request in server.requests:
        assert request.path.endswith("/chat/completions")
        assert request.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("factory", [openrouter, xai, deepseek])
def test_vendors_that_also_support_the_responses_api(run, loopback, factory):
    server = loopback([Reply(tool_calls=[ToolCall("weather", {"city": "Oslo"})]), Reply("Sunny.")])
    model = factory("m", "responses", base_url=server.base_url, api_key=KEY)

    events, turn = run(run_with_tool(server, model))

    assert text_of(events) == turn.response.text == "Sunny."
    assert {request.path.rsplit("/", 1)[-1] for request in server.requests} == {"responses"}


def test_xai_supports_the_messages_api(run, loopback):
    server = loopback(Reply("Hello."))
    model = xai("grok", "messages", base_url=server.base_url, api_key=KEY)

    turn = run(agent(model=model, params={"max_tokens": 5}).run("Hi"))

    assert turn.response.text == "Hello."
    assert server.requests[0].headers["x-api-key"] == KEY
    assert "xai" in turn.response.metadata


def test_responses_host_has_its_own_environment_variable(run, loopback, monkeypatch):
    server = loopback(Reply("Hello."))
    monkeypatch.setenv("OPENRESPONSES_API_KEY", "of-the-default")
    monkeypatch.setenv("MY_HOST_KEY", KEY)

    turns = [
        run(agent(model=responses_host("m", server.base_url)).run("Hi")),
        run(agent(model=responses_host("m", server.base_url, api_key_env="MY_HOST_KEY")).run("Hi")),
        run(agent(model=responses_host("m", server.base_url, api_key="given")).run("Hi")),
    ]

    assert [turn.response.text for turn in turns] == ["Hello."] * 3
    keys = [request.headers["authorization"] for request in server.requests]
    assert keys == ["Bearer of-the-default", f"Bearer {KEY}", "Bearer given"]


def test_responses_host_requires_a_host():
    with pytest.raises(ValueError, match="host"):
        responses_host("m", " ")
    with pytest.raises(TypeError):
        responses_host("m")


def test_unsupported_api_error_lists_the_supported_apis():
    with pytest.raises(ValueError, match='"messages" for xai, not "chat"'):
        xai("m", "chat")
    with pytest.raises(ValueError, match='"completions" for openrouter, not "messages"'):
        openrouter("m", "messages")
