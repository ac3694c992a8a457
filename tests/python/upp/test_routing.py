"""`fallback` and `router`: models made of other models."""

import asyncio
import gc
import logging
import weakref

import pytest

from turntree import agent
from turntree.models import fallback, openai, router, scripted
from turntree.testing import serve
from turntree.upp import ErrorCode, Image, UPPError, create_provider, llm


def named(name, *replies):
    return scripted(list(replies), model_id=name)


def busy(code="RATE_LIMITED", **options):
    return UPPError("busy", code, provider="p", modality="llm", **options)


async def test_the_first_model_answers():
    turn = await llm(model=fallback(named("a", "from a"), named("b"))).generate("hi")

    assert (turn.text, turn.model) == ("from a", "a")


@pytest.mark.parametrize(
    "error",
    [
        busy(),
        busy("TIMEOUT"),
        busy("NETWORK_ERROR"),
        busy("PROVIDER_ERROR", status_code=503),
        busy("PROVIDER_ERROR", status_code=529),
        ConnectionError("lost"),
        TimeoutError("late"),
    ],
    ids=repr,
)
async def test_the_next_model_answers_after_a_transient_failure(error):
    turn = await llm(model=fallback(named("a", error), named("b", "from b"))).generate("hi")

    assert (turn.text, turn.model) == ("from b", "b")


@pytest.mark.parametrize(
    "error",
    [busy("INVALID_REQUEST"), busy("AUTHENTICATION_FAILED"), busy("CONTENT_FILTERED"), KeyError("own")],
    ids=repr,
)
async def test_other_errors_are_raised_unchanged(error):
    second = named("b", "from b")

    with pytest.raises(type(error)) as raised:
        await llm(model=fallback(named("a", error), second)).generate("hi")

    assert raised.value is error
    assert second.requests == []


async def test_the_error_of_the_last_model_is_raised_if_all_fail():
    last = busy("TIMEOUT")
    with pytest.raises(UPPError) as raised:
        await llm(model=fallback(named("a", busy()), named("b", last))).generate("hi")

    assert raised.value is last


@pytest.mark.parametrize("when", [("INVALID_REQUEST",), [ErrorCode.INVALID_REQUEST], "INVALID_REQUEST"])
async def test_codes_choose_the_errors(when):
    model = fallback(named("a", busy("INVALID_REQUEST")), named("b", "from b"), when=when)
    assert (await llm(model=model).generate("hi")).model == "b"

    model = fallback(named("a", busy()), named("b", "from b"), when=when)
    with pytest.raises(UPPError, match="busy"):
        await llm(model=model).generate("hi")


async def test_a_function_chooses_the_errors():
    seen = []

    def when(error):
        seen.append(error.code)
        return error.message == "busy"

    model = fallback(named("a", busy("INVALID_REQUEST")), named("b", "from b"), when=when)
    assert (await llm(model=model).generate("hi")).model == "b"
    assert seen == [ErrorCode.INVALID_REQUEST]


async def test_an_async_function_and_its_exception():
    async def when(error):
        raise LookupError("no rule") from error

    with pytest.raises(LookupError, match="no rule"):
        await llm(model=fallback(named("a", busy()), named("b", "x"), when=when)).generate("hi")


async def test_a_stream_falls_back_before_its_first_event():
    stream = llm(model=fallback(named("a", busy()), named("b", "from b"))).stream("hi")
    text = "".join([event.delta["text"] async for event in stream if event.type == "text_delta"])

    assert text == "from b"
    assert (await stream.turn).model == "b"


async def test_a_stream_that_has_begun_raises():
    from turntree.upp import StreamEvent

    begun = [StreamEvent("text_delta", 0, {"text": "half"}), busy()]
    second = named("b", "from b")
    stream = llm(model=fallback(named("a", begun), second)).stream("hi")
    pieces = []
    with pytest.raises(UPPError, match="busy"):
        async for event in stream:
            pieces.append(event.type)

    assert "text_delta" in pieces
    assert second.requests == []


async def test_models_without_a_capability_are_passed_over():
    blind = create_provider("blind_of_routing", type("P", (), {"generate": lambda self, request: "blind"})())("m")
    image = Image.from_base64("aGk=", "image/png")

    turn = await llm(model=fallback(blind, named("b", "seen"))).generate(image)

    assert turn.model == "b"


def test_agents_runs_and_sync_calls_take_them():
    first = agent(model=fallback(named("a", busy()), named("b", "from b")))
    assert first.run_sync("hi").model == "b"

    second = agent(model=named("own", "own"))
    assert second.run_sync("hi", model=fallback(named("c", busy()), named("d", "from d"))).model == "d"


def test_a_failure_is_logged(caplog, wait_for_log):
    with caplog.at_level(logging.WARNING, logger="turntree"):
        agent(model=fallback(named("a", busy()), named("b", "x"))).run_sync("hi")
        wait_for_log("scripted:a failed with RATE_LIMITED")


def test_what_the_message_records():
    turn = agent(model=fallback(named("a", busy()), named("b", "x"))).run_sync("hi")

    failed = [{"provider": "scripted", "model": "a", "code": "RATE_LIMITED"}]
    assert turn.response.metadata["turntree"]["routed"] == {"provider": "scripted", "model": "b", "failed": failed}


async def test_statuses_of_a_server_and_the_key_of_an_agent():
    """The key of an agent is not sent to the models of a fallback."""
    with serve(["hello"]) as server:
        down = openai("gpt-5", base_url="http://127.0.0.1:9/v1", api_key="sk-first-key")
        model = fallback(down, openai("gpt-5-mini", base_url=server.base_url, api_key="sk-second-key"))
        turn = await agent(model=model, config={"api_key": "sk-of-agent"}).run("hi")

    assert turn.model.startswith("gpt-5-mini")
    assert server.requests[0].headers["authorization"] == "Bearer sk-second-key"


async def test_a_router_chooses_by_the_request():
    short, long = named("short", "s"), named("long", "l")

    def choose(request):
        return long if len(request.messages[-1].text) > 10 else short

    model = llm(model=router(choose))
    assert (await model.generate("hi")).model == "short"
    assert (await model.generate("a longer question")).model == "long"


async def test_an_async_router_streams():
    async def choose(request):
        await asyncio.sleep(0)
        return fallback(named("a", busy()), named("b", "from b"))

    stream = llm(model=router(choose)).stream("hi")
    assert (await stream.turn).text == "from b"
    assert (await stream.turn).model == "b"


async def test_a_router_that_raises_or_returns_something_else():
    def refuse(request):
        raise LookupError("no model")

    with pytest.raises(LookupError, match="no model"):
        await llm(model=router(refuse)).generate("hi")
    with pytest.raises(TypeError, match="the result of choose must be a model"):
        await llm(model=router(lambda request: 3)).generate("hi")


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="at least one model"):
        fallback()
    with pytest.raises(TypeError, match=r"models\[1\] must be a model"):
        fallback(named("a"), 3)
    with pytest.raises(ValueError, match="when"):
        fallback(named("a"), when=["NO_SUCH_CODE"])
    with pytest.raises(TypeError, match="choose must be a function"):
        router("openai:gpt-5")
    assert repr(fallback(named("a"), named("b"))) == 'ModelReference(provider="fallback", model_id="a|b")'
    assert fallback("openai:gpt-5", "ollama:llama3.2").model_id == "gpt-5|llama3.2"


def test_a_router_in_a_cycle_is_collected():
    class Owner:
        def __init__(self):
            self.model = router(self.choose)

        def choose(self, request):
            return self.model

    owner = weakref.ref(Owner())
    gc.collect()
    assert owner() is None
