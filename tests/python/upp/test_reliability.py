"""Retries, limits, certificates and configuration through Python. UPP-1.2 §9, §13."""

import asyncio
import os
import signal
import socket
import ssl
import threading
import time
from collections import OrderedDict
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

import pytest

from turntree import agent, upp
from turntree.testing import ErrorReply, Reply, serve
from turntree.upp import ErrorCode, NoRetry, ProviderConfig, TokenBucket, UPPError, llm, openai

KEY = "sk-secret-0123456789abcdef"


def chat(url, **options):
    return agent(model=openai("gpt", "completions", base_url=url, api_key=KEY, **options))


class Patient:
    """A custom retry strategy that records its arguments."""

    def __init__(self):
        self.told = []

    def before_request(self):
        self.told.append("before")

    def set_retry_after(self, seconds):
        self.told.append(("after", seconds))

    def on_retry(self, error, attempt):
        self.told.append((error.code, error.status_code, attempt))
        return 0 if attempt < 3 else None

    def reset(self):
        self.told.append("reset")


def test_custom_retry_strategy_is_called_as_specified():
    strategy = Patient()
    with serve([ErrorReply(429, retry_after=7), ErrorReply(503), "Hello."]) as server:
        chat(server.base_url, retry_strategy=strategy).run_sync("Hi")

    assert strategy.told == [
        "before",
        ("after", 7.0),
        (ErrorCode.RATE_LIMITED, 429, 1),
        "before",
        (ErrorCode.PROVIDER_ERROR, 503, 2),
        "before",
        "reset",
    ]


def test_error_is_raised_when_the_retry_strategy_gives_up():
    with serve([ErrorReply(503)] * 3) as server, pytest.raises(UPPError) as caught:
        chat(server.base_url, retry_strategy=Patient()).run_sync("Hi")

    assert caught.value.status_code == 503
    assert len(server.requests) == 3


@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
def test_retry_strategy_can_be_async(run, is_streamed):
    class Slow:
        async def before_request(self):
            await asyncio.sleep(0)

        async def on_retry(self, error, attempt):
            await asyncio.sleep(0)
            return 0.0

        async def reset(self):
            await asyncio.sleep(0)

    async def ask(url):
        helper = chat(url, retry_strategy=Slow())
        return await (helper.stream("Hi").turn if is_streamed else helper.run("Hi"))

    with serve([ErrorReply(500), "Hello."]) as server:
        assert run(ask(server.base_url)).response.text == "Hello."


def test_retry_strategy_is_forked_for_each_request():
    class Once:
        forks = 0

        def __init__(self):
            self.left = 1

        def fork(self):
            Once.forks += 1
            return Once()

        def on_retry(self, error, attempt):
            self.left -= 1
            return 0 if self.left >= 0 else None

    with serve([ErrorReply(500), "one", ErrorReply(500), "two"]) as server:
        helper = chat(server.base_url, retry_strategy=Once())
        assert [helper.run_sync("Hi").response.text for _ in range(2)] == ["one", "two"]
    assert Once.forks == 2


@pytest.mark.parametrize("method", ["before_request", "on_retry", "reset", "fork"])
def test_exception_from_a_retry_strategy_reaches_the_caller(method):
    boom = LookupError("no idea")

    def fail(*_):
        raise boom

    strategy = type("Broken", (), {"on_retry": lambda *_: 0, method: fail})()
    with serve([ErrorReply(500), "Hello."]) as server, pytest.raises(LookupError) as caught:
        chat(server.base_url, retry_strategy=strategy).run_sync("Hi")

    assert caught.value is boom


@pytest.mark.parametrize("wrong", ["soon", -1, float("nan")])
def test_invalid_result_of_a_retry_strategy_raises(wrong):
    strategy = type("Odd", (), {"on_retry": lambda *_: wrong})()
    with serve([ErrorReply(500)]) as server, pytest.raises((TypeError, ValueError), match="on_retry"):
        chat(server.base_url, retry_strategy=strategy).run_sync("Hi")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_the_exception_of_a_key_function_is_the_cause(is_async):
    closed = LookupError("vault closed")

    def fail():
        raise closed

    async def fail_later():
        raise closed

    model = openai("gpt", api_key=fail_later if is_async else fail)
    with pytest.raises(UPPError, match="vault closed") as caught:
        agent(model=model).run_sync("Hi")

    assert caught.value.code == ErrorCode.AUTHENTICATION_FAILED
    assert caught.value.__cause__ is closed
    assert caught.value.cause is closed


def test_token_bucket_is_shared_by_threads_and_its_wait_can_be_cancelled(run):
    bucket = TokenBucket(max_tokens=1, refill_rate=4)
    with serve(lambda _: "Hello.") as server:
        begun = time.monotonic()
        threads = [
            threading.Thread(target=chat(server.base_url, retry_strategy=bucket).run_sync, args=("Hi",))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert time.monotonic() - begun >= 0.45

        # Its next token comes after 1000 seconds, however long this test takes.
        empty = TokenBucket(max_tokens=1, refill_rate=0.001)
        chat(server.base_url, retry_strategy=empty).run_sync("Hi")

        async def cancelled():
            await asyncio.wait_for(chat(server.base_url, retry_strategy=empty).run("Hi"), 0.05)

        with pytest.raises(asyncio.TimeoutError):
            run(cancelled())
        assert len(server.requests) == 4


def test_concurrent_requests_do_not_exceed_the_limit(run):
    under_way, most = 0, 0
    lock = threading.Lock()
    pairs = threading.Barrier(2)

    def reply(_):
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        pairs.wait(30)  # no reply comes before the next request
        time.sleep(0.03)  # the pace of the stand-in: a third request would come now
        with lock:
            under_way -= 1
        return Reply("Hello.")

    async def many(url):
        helper = chat(url, max_concurrency=2)
        await asyncio.gather(*(helper.run("Hi") for _ in range(6)))

    with serve(reply) as server:
        run(many(server.base_url))
    assert most == 2


def test_total_timeout_includes_retries():
    strategy = type("Stubborn", (), {"on_retry": lambda *_: 0.05})()
    begun = time.monotonic()
    with serve(lambda _: ErrorReply(500)) as server, pytest.raises(UPPError) as caught:
        chat(server.base_url, retry_strategy=strategy, total_timeout=0.3).run_sync("Hi")

    assert caught.value.code == ErrorCode.TIMEOUT
    # The upper bound only detects a hang: the strategy retries for ever.
    assert 0.25 < time.monotonic() - begun < 30


@pytest.mark.parametrize("kind", [dict, OrderedDict, MappingProxyType, ProviderConfig])
def test_config_can_be_any_mapping_and_single_options_override_it(kind):
    with serve(["Hello."]) as server:
        given = {"base_url": "http://127.0.0.1:9", "headers": {"X-Team": "blue"}, "api_key": KEY}
        config = kind(**given) if kind is ProviderConfig else kind(given)
        model = openai("gpt", "completions", config=config, base_url=server.base_url, headers={"x-more": "1"})
        agent(model=model).run_sync("Hi")

    headers = {name.lower(): value for name, value in server.requests[0].headers.items()}
    assert (headers["x-team"], headers["x-more"], headers["authorization"]) == ("blue", "1", f"Bearer {KEY}")


def test_config_dict_accepts_the_specified_option_names():
    spelled = {
        "apiKey": KEY,
        "baseUrl": "https://host/v1",
        "connectTimeout": 1,
        "idleTimeout": 2,
        "totalTimeout": 3,
        "apiVersion": "v1",
        "retryAfterMaxSeconds": 4,
        "maxConcurrency": 5,
    }
    assert repr(ProviderConfig(spelled)) == (
        "ProviderConfig(api_key=***, base_url='https://host/v1', connect_timeout=1.0, idle_timeout=2.0, "
        "total_timeout=3.0, api_version='v1', retry_after_max=4.0, max_concurrency=5)"
    )


@pytest.mark.parametrize(
    "shown",
    [
        "ExponentialBackoff(max_attempts=2, base_delay=0.5, max_delay=30.0, jitter=False)",
        "LinearBackoff(max_attempts=3, delay=1.5)",
        "NoRetry()",
        "TokenBucket(max_tokens=5, refill_rate=2.0, max_attempts=3)",
        "RetryAfterStrategy(max_attempts=1, fallback_delay=5.0)",
    ],
)
def test_a_retry_strategy_is_shown_as_the_call_that_makes_it(shown):
    assert repr(eval(shown, vars(upp))) == shown


def test_a_configuration_is_shown_with_the_options_that_are_set_and_without_secrets():
    config = ProviderConfig(
        api_key=KEY, headers={"X-Team": "blue"}, base_url=f"https://me:{KEY}@host/v1", retry_strategy=NoRetry()
    )

    assert repr(config) == (
        "ProviderConfig(api_key=***, base_url='https://host/v1', headers=['X-Team'], retry_strategy=...)"
    )
    assert repr(ProviderConfig()) == "ProviderConfig()"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"timeuot": 3}, 'unknown option "timeuot"; did you mean "timeout"?'),
        ({"max_concurrency": 0}, "1 at least"),
        ({"max_concurrency": "many"}, "whole number"),
        ({"proxy": "socks"}, "proxy must be"),
        ({"total_timeout": -1}, "total_timeout"),
        ({"ca_certificates": b"nothing"}, "CA certificates contain no certificate"),
        ({"ca_certificates": "/nowhere/ca.pem"}, "cannot be read from /nowhere/ca.pem"),
        ({"ca_certificates": 7}, "path or bytes"),
        ({"retry_strategy": object()}, "on_retry"),
    ],
)
def test_error_names_an_invalid_option(options, reason):
    with pytest.raises((TypeError, ValueError)) as caught:
        ProviderConfig(**options)
    assert reason in str(caught.value)


def test_plain_http_warns_once_for_each_host():
    with pytest.warns(UserWarning, match="http://models.example.test is not encrypted"):
        openai("gpt", base_url="http://models.example.test/v1")
    for url in ("http://models.example.test/v2", "http://127.0.0.1:1/v1", "http://[::1]/v1", "http://localhost/v1"):
        openai("gpt", base_url=url)


def test_certificate_of_a_custom_authority_is_trusted(tmp_path):
    trustme = pytest.importorskip("trustme", reason="needs trustme, of the dev extra")
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    pem = authority.cert_pem.bytes()
    path = tmp_path / "ca.pem"
    path.write_bytes(pem)

    with serve(lambda _: "Hello.") as server, TlsInFrontOf(server, context) as url:
        for certificates in (pem, path, str(path)):
            assert chat(url, ca_certificates=certificates, proxy="direct").run_sync("Hi").response.text == "Hello."
        with pytest.raises(UPPError) as caught:
            chat(url, proxy="direct").run_sync("Hi")
    assert caught.value.code == ErrorCode.NETWORK_ERROR


class TlsInFrontOf:
    """A TLS proxy that forwards decrypted bytes to a server, one connection at a time."""

    def __init__(self, server, context):
        self._target = urlsplit(server.base_url)
        self._context = context
        self._listener = socket.create_server(("localhost", 0))

    def __enter__(self):
        threading.Thread(target=self._serve, daemon=True).start()
        return f"https://localhost:{self._listener.getsockname()[1]}{self._target.path}"

    def __exit__(self, *_):
        self._listener.close()

    def _serve(self):
        while True:
            try:
                raw, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(raw,), daemon=True).start()

    def _pass_on(self, raw):
        try:
            client = self._context.wrap_socket(raw, server_side=True)
        except (ssl.SSLError, OSError):
            return
        inner = socket.create_connection((self._target.hostname, self._target.port))

        def back():
            while data := inner.recv(65536):
                client.sendall(data)
            client.close()

        threading.Thread(target=back, daemon=True).start()
        try:
            while data := client.recv(65536):
                inner.sendall(data)
        except OSError:
            pass
        finally:
            inner.close()


def let_it_wait(thread):
    """A thread that waits for a token inside the core has no event: wait until it has slept for a while."""
    stat = Path(f"/proc/self/task/{thread.native_id}/stat")
    asleep = 0
    while asleep < 20:
        time.sleep(0.01)  # the poll interval
        state = stat.read_text().rpartition(")")[2].split()[0] if stat.exists() else "S"
        asleep = asleep + 1 if state == "S" else 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_wait_for_a_token_does_not_block_a_forked_process(loopback):
    server = loopback(["one", "two"])
    bucket = TokenBucket(max_tokens=1, refill_rate=0.001)
    model = llm(model=openai("gpt", base_url=server.base_url, api_key=KEY, retry_strategy=bucket))
    assert model.generate_sync("Hi").response.text == "one"
    waiting = threading.Thread(target=lambda: model.generate_sync("Never"), daemon=True)
    waiting.start()
    let_it_wait(waiting)

    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if model.generate_sync("Hi").response.text == "two" else 1)
        except BaseException:
            os._exit(2)
    deadline, status = time.monotonic() + 10, None
    while status is None and time.monotonic() < deadline:
        done, code = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(code) if done else None
        time.sleep(0.01)  # the poll interval
    if status is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    assert status == 0
    assert waiting.is_alive()
