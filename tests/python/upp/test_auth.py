"""`auth=` of every factory: tokens, functions that return one, and signers."""

import asyncio
import pickle
import time

import pytest
from http_faults_support import KEY, WORDS

from turntree import agent, upp
from turntree._core import guard_requests
from turntree.testing import ErrorReply, Reply
from turntree.upp import (
    AccessToken,
    ErrorCode,
    HttpResponse,
    RoundRobinKeys,
    UPPError,
    anthropic,
    google,
    llm,
    ollama,
    openai,
    openai_compatible,
)

TOKEN = "token-0123456789"
ANSWER = {"choices": [{"index": 0, "message": {"content": "Hello."}, "finish_reason": "stop"}]}


class Seeing:
    """A transport that remembers headers."""

    def __init__(self):
        self.headers = []

    async def send(self, request):
        self.headers.append(request.headers)
        return HttpResponse(body=ANSWER)


def seeing(**options):
    transport = Seeing()
    model = openai_compatible("m", "https://nowhere.invalid/v1", transport=transport, **options)
    return transport, llm(model=model)


FACTORIES = """
    anthropic azure cerebras cohere deepseek fireworks github google groq huggingface litellm mistral moonshot nebius
    ollama openai openai_compatible openrouter perplexity responses together vercel vertex xai zai
""".split()  # noqa: SIM905

REQUIRED = {
    "azure": {"endpoint": "https://x.openai.azure.com"},
    "vertex": {"project": "p"},
    "responses": {"host": "https://nowhere.invalid/v1"},
    "openai_compatible": {"base_url": "https://nowhere.invalid/v1"},
}


@pytest.mark.parametrize("name", FACTORIES)
async def test_every_factory_sends_a_token_as_bearer_and_no_key(name, monkeypatch):
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    seen = []

    class Stop(Exception):
        pass

    class Looking:
        async def send(self, request):
            seen.append(request.headers)
            raise Stop

    model = getattr(upp, name)("m", auth=TOKEN, transport=Looking(), **REQUIRED.get(name, {}))
    with pytest.raises(Stop):
        await llm(model=model).generate("Hi")

    [headers] = seen
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert KEY not in str(headers)


@pytest.mark.parametrize("make", [anthropic, google, openai, ollama])
def test_token_takes_precedence_over_the_key(run, make):
    seen = []

    class Looking:
        async def send(self, request):
            seen.append(request.headers)
            raise KeyError("enough")

    with pytest.raises(KeyError):
        run(llm(model=make("m", auth=TOKEN, api_key=KEY, transport=Looking())).generate("Hi"))

    assert seen[0]["authorization"] == f"Bearer {TOKEN}"
    assert not {"x-api-key", "x-goog-api-key"} & set(seen[0])


@pytest.mark.parametrize("kind", ["sync", "async", "lambda of async", "keys"])
async def test_functions_return_tokens(kind):
    async def later():
        await asyncio.sleep(0)
        return TOKEN

    auth = {"sync": lambda: TOKEN, "async": later, "lambda of async": lambda: later(), "keys": RoundRobinKeys([TOKEN])}
    transport, model = seeing(auth=auth[kind])

    await model.generate("Hi")

    assert transport.headers[0]["authorization"] == f"Bearer {TOKEN}"


def test_async_functions_serve_calls_without_an_event_loop():
    async def later():
        await asyncio.sleep(0)
        return TOKEN

    transport, model = seeing(auth=later)

    model.generate_sync("Hi")

    assert transport.headers[0]["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("lifetime", [3600, 0])
async def test_access_tokens_are_kept_until_they_expire(lifetime):
    calls = []

    async def fetch():
        calls.append(None)
        await asyncio.sleep(0.01)
        return AccessToken(f"{TOKEN}-{len(calls)}", time.time() + lifetime)

    transport, model = seeing(auth=fetch)

    await asyncio.gather(*(model.generate("Hi") for _ in range(5)))
    await model.generate("Hi")

    used = {headers["authorization"] for headers in transport.headers}
    assert len(calls) == len(used) == (1 if lifetime else 2)


async def test_slow_function_is_called_once_for_requests_at_the_same_time():
    calls, goes_on = [], asyncio.Event()

    async def fetch():
        calls.append(None)
        await goes_on.wait()
        return AccessToken(TOKEN, time.time() + 3600)

    transport, model = seeing(auth=fetch)
    asked = [asyncio.ensure_future(model.generate("Hi")) for _ in range(20)]
    while not calls:
        await asyncio.sleep(0)
    asked[0].cancel()
    await asyncio.wait(asked[:1])
    goes_on.set()
    await asyncio.gather(*asked[1:])

    assert asked[0].cancelled()
    assert len(calls) == 1
    assert len(transport.headers) == 19


async def test_requests_at_the_same_time_have_texts_of_their_own():
    numbers = iter(range(100))

    async def fetch():
        await asyncio.sleep(0)
        return str(next(numbers))

    transport, model = seeing(auth=fetch)

    await asyncio.gather(*(model.generate("Hi") for _ in range(10)))

    assert len({headers["authorization"] for headers in transport.headers}) == 10


async def test_failed_call_is_not_kept():
    answers = iter([LookupError("no token today"), AccessToken(TOKEN, time.time() + 3600)])

    def fetch():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    transport, model = seeing(auth=fetch)
    failed = await asyncio.gather(*(model.generate("Hi") for _ in range(5)), return_exceptions=True)
    await model.generate("Hi")

    assert {type(error) for error in failed} == {UPPError}
    assert len(transport.headers) == 1


def test_tokens_serve_one_event_loop_after_another():
    calls = []

    async def fetch():
        calls.append(None)
        await asyncio.sleep(0)
        return AccessToken(TOKEN, time.time() + 3600 * len(calls) - 3600)

    transport, model = seeing(auth=fetch)

    for _ in range(3):
        asyncio.run(model.generate("Hi"))

    assert len(calls) == 2
    assert len(transport.headers) == 3


@pytest.mark.parametrize("token", ["", " ", "a\nb"])
async def test_token_that_is_no_header_is_refused(token):
    transport, model = seeing(auth=lambda: token)

    with pytest.raises(UPPError, match="is empty or has") as caught:
        await model.generate("Hi")
    with pytest.raises(ValueError, match="auth is empty or has"):
        openai("gpt", auth=token)

    assert caught.value.code == ErrorCode.AUTHENTICATION_FAILED
    assert transport.headers == []


async def test_tokens_that_are_text_are_asked_for_each_request():
    tokens = iter("abc")
    transport, model = seeing(auth=lambda: next(tokens))

    for _ in range(3):
        await model.generate("Hi")

    assert [headers["authorization"] for headers in transport.headers] == ["Bearer a", "Bearer b", "Bearer c"]


async def test_exception_of_a_function_is_the_cause():
    raised = LookupError("no token today")

    def fail():
        raise raised

    _, model = seeing(auth=fail)

    with pytest.raises(UPPError) as caught:
        await model.generate("Hi")

    assert caught.value.code == ErrorCode.AUTHENTICATION_FAILED
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize("given", [None, 7, b"token", ("token", 1)])
async def test_wrong_token_is_refused(given):
    _, model = seeing(auth=lambda: given)

    with pytest.raises(UPPError, match="AccessToken"):
        await model.generate("Hi")


# Signers


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("streams", [False, True])
def test_signer_sets_and_removes_headers(run, loopback, kind, streams, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    class Sync:
        def sign(self, request):
            assert "authorization" not in request.headers
            return {"X-Signature": f"{request.method} {len(request.body)}", "content-type": "application/json"}

    class Async(Sync):
        async def sign(self, request):
            return super().sign(request)

    server = loopback(Reply(WORDS), strict=False)
    signer = Async() if kind == "async" else Sync()
    runner = agent(model=openai("gpt", "completions", base_url=server.base_url, auth=signer))

    async def streamed():
        return await runner.stream("Hi").turn

    assert run(streamed() if streams else runner.run("Hi")).response.text == WORDS
    [request] = server.requests
    assert request.headers["x-signature"].startswith("POST ")
    assert "authorization" not in request.headers


async def test_signer_signs_before_the_transport():
    class Signer:
        def sign(self, request):
            return {"X-Signed": "yes"}

    transport, model = seeing(auth=Signer())

    await model.generate("Hi")

    assert transport.headers[0]["x-signed"] == "yes"


def test_the_guard_of_tests_lets_signers_reach_a_transport_and_not_the_network(run):
    class Signer:
        def sign(self, request):
            return {"X-Signed": "yes"}

    transport, model = seeing(auth=Signer())
    before = guard_requests([])
    try:
        run(model.generate("Hi"))
        with pytest.raises(RuntimeError, match=r"a test tried to send a request to nowhere\.invalid"):
            run(llm(model=openai_compatible("m", "https://nowhere.invalid/v1", auth=Signer())).generate("Hi"))
    finally:
        guard_requests(before)

    assert transport.headers[0]["x-signed"] == "yes"


async def test_exception_of_a_signer_reaches_the_caller():
    class Signer:
        def sign(self, request):
            raise LookupError("no clock")

    _, model = seeing(auth=Signer())

    with pytest.raises(LookupError, match="no clock"):
        await model.generate("Hi")


@pytest.mark.parametrize("wrong", [7, ["token"], object(), b"token", dict])
def test_wrong_auth_is_refused(wrong):
    with pytest.raises(TypeError, match="auth must be"):
        openai("gpt", auth=wrong)


def test_model_with_auth_is_not_pickled():
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(openai("gpt", auth=TOKEN))


def test_token_is_not_shown(run, loopback):
    server = loopback(ErrorReply(401, f"wrong token {TOKEN}"))

    with pytest.raises(UPPError) as caught:
        run(agent(model=openai("gpt", base_url=server.base_url, auth=TOKEN)).run("Hi"))

    assert TOKEN not in f"{caught.value!r} {caught.value.body} {caught.value}"


# Headers


def test_header_without_a_value_is_dropped(run):
    transport, model = seeing(api_key=KEY, headers={"Authorization": None, "content-TYPE": "application/json"})

    run(model.generate("Hi"))

    assert "authorization" not in transport.headers[0]
    assert transport.headers[0]["content-type"] == "application/json"


async def test_every_header_that_turntree_sets_can_be_dropped():
    dropped = {"Authorization": None, "content-type": None, "Accept": None}
    transport, model = seeing(api_key=KEY, headers={**dropped, "X-Note": "hi"})

    await model.generate("Hi")

    assert not transport.headers[0].keys() & {name.lower() for name in dropped}
    assert transport.headers[0]["x-note"] == "hi"


def test_headers_that_are_sent_by_default_are_dropped(run, loopback):
    server = loopback([Reply("Hello"), Reply("Hello")])
    dropped = {"User-Agent": None, "Accept-Encoding": None, "accept": None}

    run(agent(model=openai("gpt", base_url=server.base_url, api_key=KEY)).run("Hi"))
    run(agent(model=openai("gpt", base_url=server.base_url, api_key=KEY, headers=dropped)).run("Hi"))

    default, changed = (set(request.headers) for request in server.requests)
    assert default - changed == {"user-agent", "accept-encoding", "accept"}


def test_missing_key_names_the_variable_and_the_option(run, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(UPPError) as caught:
        run(llm(model=openai("gpt")).generate("Hi"))

    assert caught.value.message == "no API key: set the environment variable OPENAI_API_KEY, or pass api_key="
