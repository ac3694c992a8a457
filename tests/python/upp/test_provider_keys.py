"""API keys."""

import asyncio
import json
import logging
import traceback
from collections import Counter
from contextlib import nullcontext

import pytest
from providers_support import (
    KEY,
    WIRES,
    chat,
    helper,
    messages,
    no_keys_of_this_machine,  # noqa: F401
    responses,
    sent_key,
    streamed,
    weather,
)

from turntree import agent
from turntree.testing import ErrorReply, RawReply, Reply, ToolCall
from turntree.upp import (
    DynamicKey,
    ErrorCode,
    ProviderConfig,
    RoundRobinKeys,
    UPPError,
    WeightedKeys,
    anthropic,
    embedding,
    google,
    llm,
    openai,
    openai_compatible,
    replay,
    xai,
)


@pytest.mark.parametrize("make", WIRES)
def test_key_can_be_a_string(run, loopback, make):
    server = loopback("ok")

    run(helper(make, server).run("Hi"))

    assert sent_key(server.requests[0]) == KEY


@pytest.mark.parametrize(
    ("make", "variable"),
    [(chat, "OPENAI_API_KEY"), (responses, "OPENAI_API_KEY"), (messages, "ANTHROPIC_API_KEY")],
)
def test_key_is_read_from_the_environment(run, loopback, monkeypatch, make, variable):
    monkeypatch.setenv(variable, "of-the-environment\n")
    server = loopback("ok")

    run(helper(make, server, options={"api_key": None}).run("Hi"))

    assert sent_key(server.requests[0]) == "of-the-environment"


@pytest.mark.parametrize("make", [chat, responses, messages])
def test_missing_key_error_names_the_environment_variable(run, loopback, make):
    server = loopback("ok")

    with pytest.raises(UPPError, match=r"_API_KEY") as caught:
        run(helper(make, server, options={"api_key": None}).run("Hi"))

    assert caught.value.code == ErrorCode.AUTHENTICATION_FAILED
    assert server.requests == []


@pytest.mark.parametrize("key", ["", "  \n"])
def test_empty_key_counts_as_missing(run, loopback, key):
    server = loopback("ok")

    with pytest.raises(UPPError) as caught:
        run(helper(chat, server, options={"api_key": key}).run("Hi"))

    assert caught.value.code == ErrorCode.AUTHENTICATION_FAILED
    assert server.requests == []


def test_openai_compatible_needs_no_key(run, loopback):
    server = loopback("ok", strict=False)

    run(agent(model=openai_compatible("llama", base_url=server.base_url)).run("Hi"))

    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_key_function_is_called_for_each_request(run, loopback, is_async, wrapped):
    given = iter(["first", "second"])
    loops = []

    def sync_key():
        return next(given)

    async def async_key():
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        return next(given)

    function = async_key if is_async else sync_key
    server = loopback([[ToolCall("weather", {"city": "Tokyo"})], "ok"])
    runner = helper(chat, server, options={"api_key": DynamicKey(function) if wrapped else function}, tools=[weather])

    async def main():
        await runner.run("Hi")
        return asyncio.get_running_loop()

    loop = run(main())

    assert [sent_key(request) for request in server.requests] == ["first", "second"]
    assert loops == ([loop, loop] if is_async else [])


@pytest.mark.parametrize("is_async", [False, True])
def test_key_function_works_in_run_sync(loopback, is_async):
    async def key():
        return "later"

    server = loopback("ok")

    helper(chat, server, options={"api_key": key if is_async else lambda: "later"}).run_sync("Hi")

    assert sent_key(server.requests[0]) == "later"


@pytest.mark.parametrize("is_streamed", [False, True])
def test_failing_key_function_raises_an_error(run, loopback, is_streamed):
    def key():
        raise LookupError("the vault is closed")

    server = loopback("ok")
    runner = helper(chat, server, options={"api_key": key})

    with pytest.raises(UPPError, match="the vault is closed") as caught:
        run(streamed(runner, "Hi") if is_streamed else runner.run("Hi"))

    assert caught.value.code == ErrorCode.AUTHENTICATION_FAILED
    assert server.requests == []


@pytest.mark.parametrize("wrong", [None, 42, b"key", "two\nlines"])
def test_key_function_must_return_a_key(run, loopback, wrong):
    server = loopback("ok")

    with pytest.raises(UPPError) as caught:
        run(helper(chat, server, options={"api_key": lambda: wrong}).run("Hi"))

    assert caught.value.code in {ErrorCode.AUTHENTICATION_FAILED, ErrorCode.INVALID_REQUEST}
    assert server.requests == []


def test_round_robin_keys_are_used_in_turn(run, loopback):
    server = loopback("ok")
    runner = helper(chat, server, options={"api_key": RoundRobinKeys(["a", "b", "c"])})

    async def main():
        for _ in range(4):
            await runner.run("Hi")

    run(main())

    assert [sent_key(request) for request in server.requests] == ["a", "b", "c", "a"]


@pytest.mark.parametrize("rare", [("rare", 1), {"key": "rare", "weight": 1.0}])
def test_weighted_keys_are_used_by_weight(run, loopback, rare):
    server = loopback("ok")
    runner = helper(chat, server, options={"api_key": WeightedKeys([("often", 30), rare])})

    async def main():
        for _ in range(60):
            await runner.run("Hi")

    run(main())

    counts = Counter(sent_key(request) for request in server.requests)
    assert counts["often"] > 40
    assert set(counts) <= {"often", "rare"}


@pytest.mark.parametrize(
    "wrong",
    [KEY, (KEY,), (KEY, "much"), {"key": KEY}, {"key": KEY, "weight": "much"}, {"key": KEY, "weight": 1, "more": 2}],
)
def test_invalid_weighted_key_is_rejected_and_not_shown(wrong):
    with pytest.raises(TypeError) as caught:
        WeightedKeys([wrong])

    shown = "".join(traceback.format_exception_only(caught.value))
    assert "dict of key and weight" in shown
    assert KEY not in shown


def test_api_version_is_sent_only_to_vendors_with_versions(run, loopback, tmp_path):
    server = loopback("ok")
    made = [
        anthropic("claude", base_url=server.base_url, api_key=KEY, api_version="2030-01-01"),
        xai("grok", "messages", base_url=server.base_url, api_key=KEY, api_version="2030-01-02"),
        openai("gpt", base_url=server.base_url, api_key=KEY, api_version="2030-01-03"),
    ]
    for model in made:
        llm(model=model, params={"max_tokens": 9} if model.provider != "openai" else None).generate_sync("Hi")
    given = [request.headers.get("anthropic-version") for request in server.requests]
    assert given == ["2030-01-01", "2030-01-02", None]
    assert not any("2030-01-03" in f"{request.path}{request.headers}" for request in server.requests)

    path = tmp_path / "empty.json"
    path.write_text('{"format": "turntree.replay", "version": 1, "exchanges": []}')
    with replay(path):
        for version in ("v1", "v1alpha"):
            model = google("gemini", api_version=version)
            for call in (llm(model=model).generate_sync, embedding(model=model).embed_sync):
                with pytest.raises(UPPError, match=f"googleapis.com/{version}/models/gemini:"):
                    call("Hi")


@pytest.mark.parametrize("wrong", [42, b"key", ["a"], object()])
def test_invalid_key_is_rejected_at_construction(wrong):
    with pytest.raises(TypeError, match="api_key"):
        openai("gpt", api_key=wrong)


@pytest.mark.parametrize("make", [RoundRobinKeys, WeightedKeys])
def test_key_strategies_without_keys_are_rejected(make):
    with pytest.raises(ValueError, match="at least one key"):
        make([])


@pytest.mark.parametrize("wrapped", [str, lambda key: lambda: key, lambda key: RoundRobinKeys([key]), DynamicKey])
def test_repr_does_not_show_the_key(wrapped):
    key = wrapped(KEY) if wrapped is not DynamicKey else DynamicKey(lambda: KEY)
    model = openai("gpt", api_key=key, headers={"x-own": KEY})
    config = ProviderConfig(api_key=key, headers={"Authorization": KEY})

    shown = repr(model) + repr(config) + repr(agent(model=model, config=config))
    shown += repr(agent(model=model, config=config).options)
    if not isinstance(key, str):
        shown += repr(key)

    assert KEY not in shown


@pytest.mark.parametrize("in_a_header", [False, True])
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("make", WIRES)
def test_errors_and_logs_do_not_show_the_key(run, loopback, caplog, capfd, make, is_streamed, in_a_header):
    caplog.set_level(logging.DEBUG)
    server = loopback(ErrorReply(401, f"Incorrect API key provided: {KEY}."), strict=False)
    options = {"api_key": None, "headers": {"Authorization": f"Bearer {KEY}"}} if in_a_header else {}
    runner = helper(make, server, options=options)

    with pytest.raises(UPPError) as caught:
        run(streamed(runner, "Hi") if is_streamed else runner.run("Hi"))

    error = caught.value
    shown = str(error) + repr(error) + json.dumps(error.to_dict()) + repr(error.__dict__)
    assert KEY not in shown + caplog.text + "".join(capfd.readouterr())
    assert error.code == ErrorCode.AUTHENTICATION_FAILED


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("is_recorded", [False, True])
def test_errors_logs_and_recordings_hide_the_values_of_all_configured_headers(
    run, loopback, caplog, capfd, tmp_path, is_streamed, is_recorded
):
    caplog.set_level(logging.DEBUG)
    headers = {"X-Tenant": "tenant-4711", "X-Pass": "several secret words", "Cookie": "session=c00kie"}
    quoted = "no tenant-4711, no words, not several secret words, not session=c00kie"
    server = loopback(ErrorReply(403, quoted), strict=False)
    path = tmp_path / "recording.json"
    options = {"api_key": KEY, "headers": headers}
    config = ProviderConfig(**options)
    model = openai_compatible("m", base_url=server.base_url, **options)
    runner = agent(model=model)

    with replay(path, "record") if is_recorded else nullcontext(), pytest.raises(UPPError) as caught:
        run(streamed(runner, "Hi") if is_streamed else runner.run("Hi"))

    error = caught.value
    shown = str(error) + repr(error) + json.dumps(error.to_dict()) + repr(error.__dict__)
    shown += (
        repr((config, model, runner))
        + "".join(traceback.format_exception(error))
        + caplog.text
        + "".join(capfd.readouterr())
    )
    shown += path.read_text() if is_recorded else ""
    for value in ("tenant-4711", "several secret words", "session=c00kie"):
        assert value not in shown
    assert {name: server.requests[0].headers[name.lower()] for name in headers} == headers


@pytest.mark.parametrize("escape", [json.dumps, lambda text: json.dumps(text).replace("/", r"\/")])
def test_header_value_is_hidden_in_the_escaped_form_of_a_json_body(run, loopback, escape):
    value = 'pass/"word\\9'
    body = '{"error": {"message": "denied", "seen": ' + escape(value) + "}}"
    server = loopback(RawReply(body, 403), strict=False)

    with pytest.raises(UPPError) as caught:
        run(agent(model=chat(server, headers={"X-Pass": value})).run("Hi"))

    error = caught.value
    assert error.body == '{"error": {"message": "denied", "seen": "***"}}'
    assert server.requests[0].headers["x-pass"] == value


def test_stream_error_does_not_show_the_key(run, loopback):
    from turntree.testing import Fault

    server = loopback(Reply("one two three", fault=Fault(error_after=2, error_message=f"bad {KEY}")))

    with pytest.raises(UPPError) as caught:
        run(streamed(helper(chat, server), "Hi"))

    assert KEY not in str(caught.value)
