"""Connections of HTTP/2: streams, limits of the server, and waiting for a connection."""

import asyncio
import time

import pytest
from http2_server import http2_server

from turntree.upp import ErrorCode, UPPError, llm, openai_compatible

pytestmark = pytest.mark.timeout(60)


def model_of(server, **options):
    options = {"ca_certificates": server.ca_certificates, "max_retries": 0, **options}
    return llm(model=openai_compatible("m", server.url, **options))


async def ask_at_once(model, number):
    turns = await asyncio.gather(*(model.generate("Hi") for _ in range(number)))
    return [turn.response.text for turn in turns]


async def test_cold_burst_of_requests_opens_one_connection():
    with http2_server() as server:
        texts = await ask_at_once(model_of(server), 60)

        assert texts == ["Hi."] * 60
        assert server.protocols == ["h2"]


async def test_more_connections_are_opened_when_one_is_full():
    with http2_server(streams=4) as server:
        server.answering.clear()
        asked = asyncio.ensure_future(ask_at_once(model_of(server), 12))
        for _ in range(12):
            assert await asyncio.to_thread(server.asked.acquire, timeout=30)
        server.answering.set()

        assert await asked == ["Hi."] * 12
        assert server.most_streams == 4
        assert len(server.protocols) == 3
        assert (server.requests, server.refused, server.resets) == (12, 0, 0)


async def test_burst_of_many_requests_opens_as_few_connections_as_possible():
    with http2_server(streams=40) as server:
        server.answering.clear()
        asked = asyncio.ensure_future(ask_at_once(model_of(server), 100))
        for _ in range(100):
            assert await asyncio.to_thread(server.asked.acquire, timeout=30)
        server.answering.set()

        assert len(await asked) == 100
        assert len(server.protocols) == 3
        assert (server.requests, server.refused, server.resets) == (100, 0, 0)


async def test_connection_that_the_server_retires_is_replaced():
    with http2_server(lifetime=2) as server:
        model = model_of(server)

        texts = [(await model.generate("Hi")).response.text for _ in range(5)]

        assert texts == ["Hi."] * 5
        assert server.protocols == ["h2"] * 3
        assert server.requests == 5


@pytest.mark.parametrize(
    ("http2", "goaway", "protocol"), [(False, False, "http/1.1"), (True, False, "h2"), (True, True, "h2")]
)
async def test_idle_connection_that_the_server_closed_is_replaced_without_a_retry(http2, goaway, protocol):
    with http2_server() as server:
        model = model_of(server, http2=http2, max_retries=0)
        for _ in range(3):
            turn = await model.generate("Hi")
            assert (turn.response.text, turn.usage.requests) == ("Hi.", 1)
            await asyncio.to_thread(server.close_connections, goaway=goaway)

        assert server.protocols == [protocol] * 3
        assert (server.requests, server.open_connections) == (3, 0)


async def test_stream_follows_on_a_connection_that_the_server_closed():
    with http2_server() as server:
        model = model_of(server, max_retries=0)
        await model.generate("Hi")
        await asyncio.to_thread(server.close_connections)

        assert (await model.stream("Hi").turn).response.text == "Hi."
        assert server.protocols == ["h2"] * 2


async def test_connections_are_used_again():
    with http2_server(streams=3) as server:
        model = model_of(server)
        for _ in range(3):
            await ask_at_once(model, 9)

        assert len(server.protocols) <= 3


async def test_cancelled_streams_make_room():
    with http2_server(streams=2) as server:
        server.ending.clear()
        model = model_of(server, max_connections=1)
        for _ in range(5):
            streams = [model.stream("Hi") for _ in range(2)]
            for stream in streams:
                assert (await anext(stream)).type
            for stream in streams:
                stream.abort()
        server.ending.set()

        assert await ask_at_once(model, 2) == ["Hi."] * 2
        assert (server.protocols, server.refused) == (["h2"], 0)


async def test_number_of_connections_is_limited():
    with http2_server(streams=2) as server:
        texts = await ask_at_once(model_of(server, max_connections=2), 12)

        assert texts == ["Hi."] * 12
        assert len(server.protocols) == 2
        assert (server.requests, server.refused, server.resets) == (12, 0, 0)


async def test_waiting_for_a_stream_is_not_charged_to_the_timeout():
    timeout = 3.0  # the answers themselves come in time, even if the machine stops for a second
    with http2_server(streams=1) as server:
        server.ending.clear()
        model = model_of(server, max_connections=1, timeout=timeout, idle_timeout=30)
        first = model.stream("Hi")
        assert (await anext(first)).type

        second = asyncio.ensure_future(model.generate("Hi"))
        began = time.monotonic()
        while time.monotonic() - began < timeout + 0.3:
            await asyncio.sleep(0.05)
        assert not second.done()
        assert server.requests == 1
        server.ending.set()

        assert (await first.turn).response.text == "Hi."
        assert (await second).response.text == "Hi."


async def test_waiting_for_a_connection_is_charged_to_the_total_timeout():
    with http2_server(streams=1) as server:
        server.ending.clear()
        model = model_of(server, max_connections=1, total_timeout=30)
        first = model.stream("Hi")
        assert (await anext(first)).type
        impatient = model_of(server, max_connections=1, total_timeout=0.3)

        with pytest.raises(UPPError) as caught:
            await impatient.generate("Hi")

        assert caught.value.code == ErrorCode.TIMEOUT
        server.ending.set()
        assert (await first.turn).response.text == "Hi."


async def test_request_that_stops_waiting_for_a_connection_is_not_sent():
    with http2_server(streams=1) as server:
        server.ending.clear()
        model = model_of(server, max_connections=1)
        first = model.stream("Hi")
        assert (await anext(first)).type
        waiting = [asyncio.ensure_future(model.generate("Hi")) for _ in range(3)]
        await asyncio.sleep(0.3)
        waiting[0].cancel()
        waiting[1].cancel()
        await asyncio.gather(*waiting[:2], return_exceptions=True)
        server.ending.set()

        assert (await first.turn).response.text == "Hi."
        assert (await waiting[2]).response.text == "Hi."
        assert server.requests == 2


async def test_refused_streams_are_sent_again():
    with http2_server(refuse=3) as server:
        texts = await ask_at_once(model_of(server), 8)

        assert texts == ["Hi."] * 8
        assert (server.refused, server.requests) == (3, 8)


async def test_http2_can_be_turned_off():
    with http2_server() as server:
        texts = await ask_at_once(model_of(server, http2=False, max_connections=2), 8)

        assert texts == ["Hi."] * 8
        assert server.protocols == ["http/1.1"] * 2


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_connections": 0}, ValueError),
        ({"max_connections": "4"}, TypeError),
        ({"max_connections": True}, TypeError),
        ({"http2": "yes"}, ValueError),
        ({"http2": 2}, TypeError),
    ],
)
def test_wrong_connection_settings_are_refused(options, error):
    with pytest.raises(error, match=next(iter(options))):
        openai_compatible("m", "https://localhost/v1", **options)
