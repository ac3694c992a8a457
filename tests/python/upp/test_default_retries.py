"""The retries of a model without a strategy: as those of the vendors' SDKs."""

import pytest
from http_faults_support import MODES, WORDS, chat

from turntree import agent
from turntree.testing import ErrorReply, Fault, Reply
from turntree.upp import ErrorCode, NoRetry, ProviderConfig, UPPError

# The server requests this wait, so that the tests do not wait for the default.
SOON = {"retry_after": 0}


@pytest.fixture(autouse=True)
def default_retries(monkeypatch):
    """The default of programs, which `conftest.py` turns off for other tests."""
    monkeypatch.delenv("TURNTREE_MAX_RETRIES")


def outcome(run, model, mode):
    runner = agent(model=model)

    async def streamed():
        return await runner.stream("Hi").turn

    try:
        return run(streamed() if mode == "streamed" else runner.run("Hi"))
    except UPPError as error:
        return error


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
def test_two_retries_follow_a_temporary_failure(run, loopback, mode, status):
    server = loopback([ErrorReply(status, **SOON), ErrorReply(status, **SOON), Reply(WORDS)])

    turn = outcome(run, chat(server.base_url), mode)

    assert turn.response.text == WORDS
    assert len(server.requests) == 3
    assert turn.response.metadata["turntree"]["retries"] == [str(status)] * 2


@pytest.mark.parametrize("mode", MODES)
def test_third_failure_is_raised(run, loopback, mode):
    server = loopback(ErrorReply(503, **SOON))

    error = outcome(run, chat(server.base_url), mode)

    assert error.status_code == 503
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_permanent_failure_is_not_retried(run, loopback, status):
    server = loopback(ErrorReply(status))

    error = outcome(run, chat(server.base_url), "plain")

    assert error.status_code == status
    assert len(server.requests) == 1


@pytest.mark.parametrize("mode", MODES)
def test_lost_connection_is_retried(run, loopback, mode):
    server = loopback([Reply(WORDS, fault=Fault(reset_after=0)), Reply(WORDS)])

    turn = outcome(run, chat(server.base_url), mode)

    assert turn.response.text == WORDS
    assert turn.response.metadata["turntree"]["retries"] == ["network error"]


def test_stream_that_has_begun_is_not_retried(run, loopback):
    server = loopback([Reply(WORDS, fault=Fault(reset_after=400)), Reply(WORDS)])

    error = outcome(run, chat(server.base_url), "streamed")

    assert error.code == ErrorCode.NETWORK_ERROR
    assert len(server.requests) == 1


def test_wait_of_more_than_a_minute_is_left_to_the_caller(run, loopback):
    server = loopback(ErrorReply(429, retry_after=3600))

    error = outcome(run, chat(server.base_url), "plain")

    assert (error.code, error.retry_after) == (ErrorCode.RATE_LIMITED, 3600)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("value", "requests"),
    [
        ("99999999999999999999", 1),
        ("Tue, 01 Jan 2999 00:00:00 GMT", 1),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 2),
        ("0.001", 2),
        ("-5", 2),
        ("1e999", 2),
        ("nan", 2),
        ("soon", 2),
        ("", 2),
    ],
)
def test_odd_waits_are_left_to_the_caller_or_replaced(run, loopback, value, requests):
    server = loopback(ErrorReply(503, headers={"Retry-After": value}))

    error = outcome(run, chat(server.base_url, max_retries=1), "plain")

    assert error.status_code == 503
    assert len(server.requests) == requests


@pytest.mark.parametrize(
    ("options", "requests"),
    [
        ({"max_retries": 0}, 1),
        ({"max_retries": 1}, 2),
        ({"max_retries": 4}, 5),
        ({"retry_strategy": NoRetry()}, 1),
        ({"config": {"maxRetries": 1}}, 2),
        ({"config": ProviderConfig(retry_strategy=NoRetry()), "max_retries": 1}, 2),
    ],
    ids=["none", "one", "four", "strategy", "config", "over a strategy"],
)
def test_number_of_retries_can_be_set(run, loopback, options, requests):
    server = loopback(ErrorReply(503, **SOON))

    error = outcome(run, chat(server.base_url, **options), "plain")

    assert error.status_code == 503
    assert len(server.requests) == requests


def test_environment_sets_the_default(run, loopback, monkeypatch):
    monkeypatch.setenv("TURNTREE_MAX_RETRIES", "1")
    server = loopback(ErrorReply(503, **SOON))

    outcome(run, chat(server.base_url), "plain")

    assert len(server.requests) == 2


def test_response_without_retries_does_not_mention_them(run, loopback):
    server = loopback(Reply(WORDS))

    turn = outcome(run, chat(server.base_url), "plain")

    assert "turntree" not in (turn.response.metadata or {}) or "retries" not in turn.response.metadata["turntree"]


@pytest.mark.parametrize("wrong", [-1, "2", True, 1.5])
def test_wrong_number_of_retries_is_refused(wrong):
    with pytest.raises(TypeError, match="max_retries"):
        chat("http://127.0.0.1:1", max_retries=wrong)
