"""Transports of the application: objects with `async send(request)`."""

import asyncio
import gc
import json
import pickle
import weakref

import pytest
from http_faults_support import KEY, MODES, WORDS, chat

from turntree import agent
from turntree.testing import ErrorReply, Reply
from turntree.upp import (
    ErrorCode,
    ExponentialBackoff,
    HttpRequest,
    HttpResponse,
    Transport,
    UPPError,
    anthropic,
    llm,
    openai,
    openai_compatible,
)

NOWHERE = "https://nowhere.invalid/v1"
MESSAGE = {"content": "Hello."}
ANSWER = {"id": "1", "model": "m", "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}]}


def chunk(text, finish=None):
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return f"data: {json.dumps({'id': '1', 'choices': [choice]})}\n\n"


class Mock:
    """Answers with what it was given, and remembers the requests."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []

    async def send(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer(request) if callable(answer) else answer


class PickledMock:
    """A transport that can be pickled."""

    async def send(self, request):
        return HttpResponse(body=ANSWER)


def mocked(*answers, **options):
    mock = Mock(*answers)
    return mock, llm(model=openai_compatible("m", NOWHERE, transport=mock, **options))


# Answers of the application


async def test_headers_of_an_error_are_shown_except_cookies():
    headers = {"X-Request-Id": "req_1", "Retry-After": "7", "Set-Cookie": "session=secret"}
    _, model = mocked(HttpResponse(400, headers, {"error": {"message": "no"}}), max_retries=0)

    with pytest.raises(UPPError) as caught:
        await model.generate("Hi")

    shown = caught.value.headers
    assert (shown["x-request-id"], shown["retry-after"], shown["set-cookie"]) == ("req_1", "7", "***")
    assert caught.value.request_id == "req_1"


async def test_transport_answers_requests_without_network_and_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    mock = Mock(HttpResponse(body=ANSWER))

    turn = await llm(model=openai("m", "completions", transport=mock)).generate("Hi")

    assert turn.response.text == "Hello."
    [request] = mock.requests
    assert (request.method, request.url) == ("POST", "https://api.openai.com/v1/chat/completions")
    assert request.json()["messages"] == [{"role": "user", "content": "Hi"}]
    assert request.headers["content-type"] == "application/json"
    assert "authorization" not in request.headers
    assert isinstance(mock, Transport)


def test_transport_serves_calls_without_an_event_loop():
    mock, model = mocked(HttpResponse(body=ANSWER))

    assert model.generate_sync("Hi").response.text == "Hello."
    assert agent(model=model.model).run_sync("Hi").response.text == "Hello."
    assert len(mock.requests) == 2


def test_synchronous_send_is_accepted(run):
    class Sync:
        def send(self, request):
            return HttpResponse(body=ANSWER)

    assert run(llm(model=openai_compatible("m", NOWHERE, transport=Sync())).generate("Hi")).response.text == "Hello."


async def chunks_of_answer():
    for text in ("Hel", "lo"):
        yield chunk(text)
        await asyncio.sleep(0)
    yield chunk(".", "stop").encode() + b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    "body",
    [
        lambda: chunk("Hello.", "stop"),
        lambda: chunk("Hello.", "stop").encode(),
        lambda: [chunk("Hel"), chunk("lo.", "stop")],
        lambda: iter([chunk("Hel").encode(), chunk("lo.", "stop").encode()]),
        chunks_of_answer,
    ],
    ids=["text", "bytes", "list", "iterator", "async iterator"],
)
async def test_transport_streams(body):
    given = body()
    headers = {"Content-Type": "text/event-stream"}
    if isinstance(given, list):
        given = iter(given)
    _, model = mocked(lambda _: HttpResponse(headers=headers, body=given))

    stream = model.stream("Hi")
    texts = [event.delta["text"] async for event in stream if event.type == "text_delta"]

    assert "".join(texts) == "Hello."
    assert (await stream.turn).response.text == "Hello."


async def test_events_arrive_before_the_body_ends():
    goes_on = asyncio.Event()

    async def body():
        yield chunk("Hel")
        await goes_on.wait()
        yield chunk("lo.", "stop")

    _, model = mocked(lambda _: HttpResponse(headers={"content-type": "text/event-stream"}, body=body()))
    stream = model.stream("Hi")
    async for event in stream:
        if event.type == "text_delta" and not goes_on.is_set():
            assert event.delta["text"] == "Hel"
            goes_on.set()

    assert (await stream.turn).response.text == "Hello."


# The network


@pytest.mark.parametrize("mode", MODES)
def test_requests_can_be_changed_and_sent(run, loopback, mode):
    class Signing:
        async def send(self, request):
            signed = request.with_(headers={"X-Signature": str(len(request.body)), "User-Agent": None})
            return await signed.send()

    server = loopback(Reply(WORDS))
    runner = agent(model=chat(server.base_url, transport=Signing()))

    async def streamed():
        return await runner.stream("Hi").turn

    turn = run(streamed() if mode == "streamed" else runner.run("Hi"))

    assert turn.response.text == WORDS
    [request] = server.requests
    assert request.headers["x-signature"].isdigit()
    assert request.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("mode", MODES)
def test_responses_can_be_recorded(run, loopback, mode):
    seen = []

    class Recording:
        async def send(self, request):
            response = await request.send()
            seen.append((response.status, await response.read()))
            return response

    server = loopback(Reply(WORDS))
    runner = agent(model=chat(server.base_url, transport=Recording()))

    async def streamed():
        return await runner.stream("Hi").turn

    assert run(streamed() if mode == "streamed" else runner.run("Hi")).response.text == WORDS
    [(status, body)] = seen
    assert status == 200
    assert b"one" in body


async def test_chunks_of_a_response_can_be_read(loopback):
    class Copying:
        async def send(self, request):
            response = await request.send()
            return HttpResponse(response.status, response.headers, response.chunks())

    server = loopback(Reply(WORDS))
    stream = llm(model=chat(server.base_url, transport=Copying())).stream("Hi")

    assert "".join([event.delta["text"] async for event in stream if event.type == "text_delta"]) == WORDS


def test_statuses_of_a_transport_are_errors_and_retried(run):
    failing = HttpResponse(503, body={"error": {"message": "busy"}})
    mock, model = mocked(
        failing, failing, HttpResponse(body=ANSWER), retry_strategy=ExponentialBackoff(base_delay=0, jitter=False)
    )

    assert run(model.generate("Hi")).response.text == "Hello."
    assert len(mock.requests) == 3


# Errors


class OwnError(Exception):
    """An exception of the application."""


@pytest.mark.parametrize("mode", MODES)
def test_exceptions_of_a_transport_reach_the_caller_unchanged(run, mode):
    raised = OwnError("not today")
    mock, model = mocked(raised, max_retries=2)

    async def streamed():
        return await model.stream("Hi").turn

    with pytest.raises(OwnError) as caught:
        run(streamed() if mode == "streamed" else model.generate("Hi"))

    assert caught.value is raised
    assert len(mock.requests) == 1


@pytest.mark.parametrize(
    ("raised", "code"),
    [(ConnectionResetError("gone"), ErrorCode.NETWORK_ERROR), (TimeoutError("slow"), ErrorCode.TIMEOUT)],
)
def test_failures_of_the_network_are_errors_of_the_model(run, raised, code):
    mock, model = mocked(raised, retry_strategy=ExponentialBackoff(max_attempts=1, base_delay=0, jitter=False))

    with pytest.raises(UPPError) as caught:
        run(model.generate("Hi"))

    assert caught.value.code == code
    assert len(mock.requests) == 2


async def test_exception_in_the_middle_of_a_body_ends_the_stream():
    async def body():
        yield chunk("Hel")
        raise OwnError("in the middle")

    _, model = mocked(lambda _: HttpResponse(headers={"content-type": "text/event-stream"}, body=body()))

    with pytest.raises(OwnError, match="in the middle"):
        async for _ in model.stream("Hi"):
            pass


def test_network_failure_behind_a_transport_is_the_same_error(run):
    class Passing:
        async def send(self, request):
            return await request.send()

    with pytest.raises(UPPError) as caught:
        run(agent(model=chat("http://127.0.0.1:9/v1", transport=Passing())).run("Hi"))

    assert caught.value.code == ErrorCode.NETWORK_ERROR


@pytest.mark.parametrize("answer", [None, {"status": 200}, "text", 200])
def test_wrong_answer_of_a_transport_is_a_type_error(run, answer):
    _, model = mocked(lambda _: answer)

    with pytest.raises(TypeError, match="send must return an HttpResponse"):
        run(model.generate("Hi"))


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (HttpResponse(99), "status"),
        (HttpResponse(200, {"bad name": "x"}), "bad name"),
        (HttpResponse(200, {"x": "a\nb"}), "line breaks"),
        (HttpResponse(body=(1, 2)), "bytes or str"),
    ],
)
def test_invalid_response_is_named(run, response, text):
    _, model = mocked(response)

    with pytest.raises((ValueError, TypeError), match=text):
        run(model.generate("Hi"))


@pytest.mark.parametrize("wrong", [1, "https://proxy", object(), Mock])
def test_transport_without_send_is_refused(wrong):
    with pytest.raises(TypeError, match="transport must be"):
        openai("gpt", transport=wrong)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
def test_unknown_content_encoding_is_named(run, mode, encoding):
    _, model = mocked(
        HttpResponse(200, {"content-type": "application/json", "content-encoding": encoding}, b"\x28\xb5")
    )

    async def streamed():
        return await model.stream("Hi").turn

    with pytest.raises(UPPError, match=f"content encoding {encoding}.*cannot be decoded") as caught:
        run(streamed() if mode == "streamed" else model.generate("Hi"))

    assert caught.value.code == ErrorCode.INVALID_RESPONSE


async def test_own_request_cannot_be_sent():
    with pytest.raises(RuntimeError, match="with_"):
        await HttpRequest("GET", NOWHERE).send()


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_body_without_end_is_limited(kind):
    def endless():
        while True:
            yield b" " * 1_000_000

    async def endless_later():
        for piece in endless():
            yield piece

    body = endless if kind == "sync" else endless_later
    _, model = mocked(lambda _: HttpResponse(headers={"content-type": "application/json"}, body=body()))

    with pytest.raises(UPPError, match="larger than") as caught:
        await model.generate("Hi")

    assert caught.value.code == ErrorCode.INVALID_RESPONSE


async def test_body_waits_for_a_slow_reader():
    made = 0

    async def endless():
        nonlocal made
        while True:
            made += 1
            yield chunk("word")

    _, model = mocked(lambda _: HttpResponse(headers={"content-type": "text/event-stream"}, body=endless()))
    async with model.stream("Hi") as stream:
        await anext(stream)
        for _ in range(5000):
            await asyncio.sleep(0)

    assert 1 < made < 1000


async def test_response_of_the_network_serves_one_request(loopback):
    kept = []

    class Keeping:
        async def send(self, request):
            if not kept:
                kept.append(await request.send())
            return kept[0]

    model = llm(model=chat(loopback([Reply(WORDS)]).base_url, transport=Keeping()))
    await model.generate("Hi")

    with pytest.raises(RuntimeError, match="already read"):
        await model.generate("Hi")


def test_transport_serves_one_event_loop_after_another():
    mock, model = mocked(HttpResponse(body=ANSWER))

    for _ in range(3):
        assert asyncio.run(model.generate("Hi")).response.text == "Hello."
    assert len(mock.requests) == 3


def test_event_loop_that_closes_ends_send():
    ended = []
    began = asyncio.Event()

    class Hanging:
        async def send(self, request):
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(None)

    model = llm(model=openai_compatible("m", NOWHERE, transport=Hanging()))

    async def leave():
        asked = asyncio.ensure_future(model.generate("Hi"))
        await asyncio.wait_for(began.wait(), 20)
        return asked

    asked = asyncio.run(leave())

    assert asked.cancelled()
    assert ended == [None]


async def test_transport_that_gives_up_is_a_network_error():
    _, model = mocked(asyncio.CancelledError())

    with pytest.raises(UPPError, match="stopped without a response") as caught:
        await model.generate("Hi")

    assert caught.value.code == ErrorCode.NETWORK_ERROR


# Cancellation, timeouts, memory, pickling


@pytest.mark.parametrize("place", ["head", "body"])
async def test_cancelled_call_cancels_send(place):
    began, ended = asyncio.Event(), asyncio.Event()

    async def hang():
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def body():
        yield chunk("Hel")
        await hang()

    class Hanging:
        async def send(self, request):
            if place == "head":
                await hang()
            return HttpResponse(headers={"content-type": "text/event-stream"}, body=body())

    stream = llm(model=openai_compatible("m", NOWHERE, transport=Hanging())).stream("Hi")
    task = asyncio.ensure_future(anext(stream))
    if place == "body":
        await task
    await began.wait()
    stream.abort()
    task.cancel()

    await asyncio.wait_for(ended.wait(), 10)


async def test_timeout_cancels_send():
    began, ended = asyncio.Event(), asyncio.Event()

    class Hanging:
        async def send(self, request):
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    model = llm(model=openai_compatible("m", NOWHERE, transport=Hanging(), timeout=0.05))
    for _ in range(100):  # on a stalled machine the time may be over before the first request is sent
        with pytest.raises(UPPError) as caught:
            await model.generate("Hi")
        assert caught.value.code == ErrorCode.TIMEOUT
        if began.is_set():
            break

    assert began.is_set()
    await asyncio.wait_for(ended.wait(), 10)


def test_transport_is_collected_with_its_model(run):
    mock, model = mocked(HttpResponse(body=ANSWER))
    mock.model = model
    run(model.generate("Hi"))
    gone = weakref.ref(mock)

    del mock, model
    gc.collect()

    assert gone() is None


def test_model_with_a_transport_is_pickled_with_it(run):
    model = openai_compatible("m", NOWHERE, transport=PickledMock())

    copy = pickle.loads(pickle.dumps(model))

    assert run(llm(model=copy).generate("Hi")).response.text == "Hello."


def test_transport_that_cannot_be_pickled_says_so():
    class Local:
        async def send(self, request):
            return HttpResponse(body=ANSWER)

    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        pickle.dumps(openai_compatible("m", NOWHERE, transport=Local()))


def test_reprs_do_not_show_keys(loopback, run):
    shown = []

    class Printing:
        async def send(self, request):
            shown.append(repr(request))
            return HttpResponse(body=ANSWER)

    model = openai_compatible("m", NOWHERE + "?key=hidden", api_key=KEY, transport=Printing())
    run(llm(model=model).generate("Hi"))

    assert KEY not in shown[0]
    assert "hidden" not in shown[0]
    assert repr(HttpResponse(204)) == "HttpResponse(204)"


def test_error_responses_of_the_network_pass_through(run, loopback):
    class Passing:
        async def send(self, request):
            return await request.send()

    server = loopback(ErrorReply(401))

    with pytest.raises(UPPError) as caught:
        run(agent(model=chat(server.base_url, transport=Passing())).run("Hi"))

    assert (caught.value.code, caught.value.status_code) == (ErrorCode.AUTHENTICATION_FAILED, 401)


def test_transport_serves_every_factory(run):
    def answer(_):
        message = {"type": "message", "role": "assistant", "id": "1", "model": "m", "stop_reason": "end_turn"}
        usage = {"input_tokens": 1, "output_tokens": 1}
        return HttpResponse(body={**message, "usage": usage, "content": [{"type": "text", "text": "Hello."}]})

    mock = Mock(answer)

    assert run(llm(model=anthropic("claude-sonnet-4-5", transport=mock)).generate("Hi")).response.text == "Hello."
    assert mock.requests[0].json()["max_tokens"] == 64_000
