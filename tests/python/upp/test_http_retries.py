"""Error responses, retries, and faults during a run."""

import time

import pytest
from http_faults_support import MODES, WIRES, WORDS, any_path, ask, chat, local, messages

from turntree import agent
from turntree.testing import ErrorReply, Fault, RawReply, Reply, ToolCall, serve
from turntree.upp import (
    ErrorCode,
    ExponentialBackoff,
    LinearBackoff,
    NoRetry,
    RetryAfterStrategy,
    TokenBucket,
    UPPError,
    tool,
)

# Error responses and retries

QUICK = {"base_delay": 0.001, "max_delay": 0.002, "jitter": False}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("retry_after", [None, 7, "Wed, 21 Oct 2015 07:28:00 GMT", "nonsense"])
def test_status_429_is_rate_limited_with_retry_after(run, loopback, mode, retry_after):
    server = loopback(ErrorReply(429, "slow down", retry_after=retry_after))

    error = ask(run, chat, server.base_url, mode)

    assert (error.code, error.status_code) == (ErrorCode.RATE_LIMITED, 429)
    assert error.retry_after == {7: 7.0, "Wed, 21 Oct 2015 07:28:00 GMT": 0.0}.get(retry_after)
    assert error.request_id
    assert len(server.requests) == 1


def test_excessive_retry_after_is_bounded(run, loopback):
    server = loopback(ErrorReply(429, retry_after=10**12))

    error = ask(run, chat, server.base_url, "plain", retry_after_max=60)

    assert error.retry_after == 60


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("strategy", "requests"),
    [
        (None, 1),
        (NoRetry(), 1),
        (ExponentialBackoff(max_attempts=2, **QUICK), 3),
        (LinearBackoff(max_attempts=3, delay=0.001), 4),
        (RetryAfterStrategy(max_attempts=1, fallback_delay=0.001), 2),
        (TokenBucket(max_tokens=10, refill_rate=1000.0, max_attempts=2), 3),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else str(value),
)
def test_max_retries_sets_the_number_of_attempts(run, loopback, mode, strategy, requests):
    server = loopback(ErrorReply(429))

    error = ask(run, chat, server.base_url, mode, retry_strategy=strategy)

    assert error.code == ErrorCode.RATE_LIMITED
    assert len(server.requests) == requests


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", WIRES)
@pytest.mark.parametrize(
    "failure",
    [
        ErrorReply(429),
        ErrorReply(500),
        ErrorReply(503),
        Reply(WORDS, fault=Fault(reset_after=0)),
        Reply(WORDS, fault=Fault(close_after=0)),
    ],
    ids=["429", "500", "503", "reset", "close"],
)
def test_retry_recovers_from_a_temporary_failure(run, loopback, make, mode, failure):
    server = loopback([failure, failure, Reply(WORDS)])
    params = {"max_tokens": 100} if make is messages else {}
    model = make(server.base_url, retry_strategy=ExponentialBackoff(**QUICK))
    runner = agent(model=model, params=params)

    async def streamed():
        return await runner.stream("Hi").turn

    turn = run(streamed() if mode == "streamed" else runner.run("Hi"))

    assert turn.response.text == WORDS
    assert turn.cycles == 1
    assert len(server.requests) == 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_permanent_error_is_not_retried(run, loopback, mode, status):
    server = loopback(ErrorReply(status))

    ask(run, chat, server.base_url, mode, retry_strategy=ExponentialBackoff(**QUICK))

    assert len(server.requests) == 1


def test_retry_waits_as_long_as_retry_after(run, loopback):
    server = loopback([ErrorReply(429, retry_after=1), Reply("ok")])
    model = chat(server.base_url, retry_strategy=RetryAfterStrategy())

    began = time.monotonic()
    turn = run(agent(model=model).run("Hi"))

    assert turn.response.text == "ok"
    assert time.monotonic() - began >= 0.95


def test_request_is_not_retried_after_a_stream_has_started(run, loopback):
    server = loopback([Reply(WORDS, fault=Fault(reset_after=400)), Reply(WORDS)])

    error = ask(run, chat, server.base_url, "streamed", retry_strategy=ExponentialBackoff(**QUICK))

    assert error.code == ErrorCode.NETWORK_ERROR
    assert len(server.requests) == 1


def test_a_wait_between_attempts_can_be_cancelled(run, loopback):
    import asyncio

    server = loopback(ErrorReply(429, retry_after=600))
    runner = agent(model=chat(server.base_url, retry_strategy=RetryAfterStrategy()))

    async def main():
        asking = asyncio.ensure_future(runner.run("Hi"))
        request = await asyncio.to_thread(server.wait_for_request, timeout=10)
        assert await asyncio.to_thread(request.wait, 10) == "sent"
        await asyncio.sleep(0.1)  # the client reads the response, and begins to wait
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    began = time.monotonic()
    run(main())

    # The bound only detects a wait of the 600 seconds that the server requested.
    assert time.monotonic() - began < 30
    assert len(server.requests) == 1


# Faults in the middle of a run


@pytest.mark.parametrize("mode", MODES)
def test_failure_after_tools_contains_the_partial_turn(run, loopback, mode):
    @tool
    def add(a: int, b: int) -> int:
        return a + b

    server = loopback([[ToolCall("add", {"a": 1, "b": 2})], ErrorReply(500)])
    runner = agent(model=chat(server.base_url), tools=[add])

    async def streamed():
        return await runner.stream("Hi").turn

    with pytest.raises(UPPError) as caught:
        run(streamed() if mode == "streamed" else runner.run("Hi"))

    partial = caught.value.partial
    assert partial is not None
    assert [message.type for message in partial.messages] == ["user", "assistant", "tool_result"]
    assert partial.cycles == 1
    assert partial.usage.total_tokens > 0


def test_run_sync_and_stream_sync_raise_the_same_error(loopback):
    server = loopback(Reply(WORDS, fault=Fault(reset_after=10)))
    runner = agent(model=chat(server.base_url))

    with pytest.raises(UPPError) as plain:
        runner.run_sync("Hi")
    with pytest.raises(UPPError) as streamed:
        list(runner.stream_sync("Hi"))

    assert plain.value.code == streamed.value.code == ErrorCode.NETWORK_ERROR


def test_connection_pool_stays_usable_after_a_failure(run, loopback):
    replies = iter([Fault(reset_after=30), Fault(close_after=30), None, None])
    server = loopback(lambda _: Reply(WORDS, fault=next(replies)))
    runner = agent(model=chat(server.base_url))

    async def main():
        outcomes = []
        for _ in range(4):
            try:
                outcomes.append((await runner.run("Hi")).response.text)
            except UPPError as error:
                outcomes.append(error.code)
        return outcomes

    assert run(main()) == [ErrorCode.NETWORK_ERROR, ErrorCode.NETWORK_ERROR, WORDS, WORDS]


def test_an_error_can_be_pickled_and_copied(run, loopback):
    import copy
    import pickle

    server = loopback(ErrorReply(429, "slow", retry_after=3))

    error = ask(run, chat, server.base_url, "plain")

    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert (again.code, again.status_code, again.retry_after, str(again)) == (
            error.code,
            429,
            3.0,
            str(error),
        )


def test_servers_of_this_file_give_good_answers(run):
    good = b'{"model":"m","message":{"role":"assistant","content":"hi"},"done":true,"done_reason":"stop"}'

    with any_path(RawReply(good)) as url:
        turn = run(agent(model=local(url)).run("Hi"))

    assert turn.response.text == "hi"
    with serve("ok") as server:
        assert run(agent(model=chat(server.base_url)).run("Hi")).response.text == "ok"
