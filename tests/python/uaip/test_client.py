"""Clients over HTTP and in process, async and sync."""

import contextlib

import pytest
from uaip_support import shop

from turntree import uaip
from turntree.uaip import UaipError, Workflow


@contextlib.asynccontextmanager
async def client_of(kind):
    if kind == "process":
        async with uaip.connect(shop()) as client:
            yield client
        return
    async with uaip.serve(shop()) as server, uaip.connect(server.url) as client:
        yield client


@pytest.mark.parametrize("kind", ["http", "process"])
async def test_a_session_has_stage_tools_and_state_of_the_last_answer(kind):
    async with client_of(kind) as client:
        session = await client.open("shop")
        assert (session.stage, session.workflow, session.terminal) == ("browse", "shop", False)
        assert session.stages == ["browse", "cart", "checkout", "done"]
        assert session.state == {"greeting": "hello"}
        assert [tool.name for tool in session.tools] == ["search", "transition_stage", "terminate_session"]
        assert session.tools[0]["input_schema"] == session.tools[0].input_schema
        assert await session.call("search", query="tea", limit=1) == ["tea 0"]
        await session.go("cart")
        await session.call("add", product="tea", count=2)
        assert session.state["lines"] == [{"product": "tea", "count": 2}]
        await session.provide({"street": "Main Street"}, number=3)
        assert session.state["number"] == 3
        await session.go("checkout")
        with pytest.raises(UaipError) as waiting:
            await session.call("pay", amount=3)
        await session.go("done")
        assert session.terminal
        await session.end()
        with pytest.raises(UaipError, match="ended"):
            await session.call("search", query="tea")

    assert session.ended
    assert (waiting.value.code, waiting.value.status) == ("approval_required", 200)
    assert waiting.value.body["approval"]["arguments"] == {"amount": 3}


@pytest.mark.parametrize("kind", ["http", "process"])
async def test_errors_have_code_status_and_detail(kind):
    async with client_of(kind) as client:
        session = await client.open()
        with pytest.raises(UaipError) as foreign:
            await session.call("add", product="tea", count=1)
        with pytest.raises(UaipError) as args:
            await session.call("search", query=3)
        with pytest.raises(UaipError) as transition:
            await session.go("done")
        with pytest.raises(UaipError) as private:
            await session.provide(total=0)
        await session.go("cart")
        with pytest.raises(UaipError) as failed:
            await session.call("fail")
        with pytest.raises(UaipError) as unknown:
            await client.open("none")

    assert (foreign.value.code, foreign.value.status) == ("task_not_in_stage", 422)
    assert foreign.value.body["allowed"] == ["search"]
    assert args.value.code == "invalid_args"
    assert transition.value.code == "invalid_transition"
    assert private.value.code == "state_key_not_writable"
    assert (failed.value.code, failed.value.detail) == ("task_error", "the product is sold out")
    assert (unknown.value.code, unknown.value.status) == ("workflow_not_found", 404)


def test_the_sync_client_walks_through_a_sync_server():
    with uaip.serve_sync(shop()) as server, uaip.connect_sync(server.url) as client:
        session = client.open("shop")
        assert session.call("search", query="tea") == ["tea 0", "tea 1"]
        session.go("cart")
        assert session.call("add", product="tea", count=1) == {"product": "tea", "count": 1}
        session.provide(note="soon")
        assert session.state["note"] == "soon"
        assert client.workflow("shop")["initial_stage"] == "browse"
        session.end()

    assert session.ended


def test_the_sync_client_works_in_process():
    with uaip.connect_sync(shop()) as client:
        session = client.open()
        session.go("cart")

        assert session.call("add", product="tea", count=1) == {"product": "tea", "count": 1}


async def test_the_client_works_against_the_reference_profile():
    async with uaip.serve(shop(), profile="reference") as server, uaip.connect(server.url) as client:
        session = await client.open("shop")
        assert await session.call("search", query="tea", limit=1) == ["tea 0"]
        with pytest.raises(UaipError):
            await session.call("add", product="tea", count=1)


async def test_a_server_that_does_not_answer_is_an_error_without_a_status():
    with pytest.raises(UaipError) as caught:
        await uaip.connect("http://127.0.0.1:1").open()

    assert (caught.value.code, caught.value.status) == ("connection_failed", None)


async def test_a_token_is_sent():
    async with uaip.serve(shop(), auth=lambda token: "ada" if token == "right" else None) as server:
        session = await uaip.connect(server.url, token="right").open()
        with pytest.raises(UaipError) as caught:
            await uaip.connect(server.url, token="wrong").open()

    assert session.stage == "browse"
    assert caught.value.status == 401


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: uaip.serve(), TypeError, "pass at least one"),
        (lambda: uaip.serve("shop"), TypeError, "expected a Workflow"),
        (lambda: uaip.serve(shop(), shop()), ValueError, 'two workflows are named "shop"'),
        (lambda: uaip.serve(shop(), profile="loose"), ValueError, 'profile must be "strict" or "reference"'),
        (lambda: uaip.serve(shop(), idle_ttl=0), ValueError, "idle_ttl must be a number of seconds greater than 0"),
        (lambda: uaip.serve(shop(), task_timeout="3"), TypeError, "task_timeout must be a number of seconds, not str"),
        (lambda: uaip.serve(shop(), queue_depth=0), ValueError, "queue_depth must be at least 1"),
        (lambda: uaip.serve(shop(), store={}), TypeError, "store must be a store of turntree.store or its URL"),
        (lambda: uaip.serve(Workflow("empty")), uaip.DefinitionError, "it has no stages"),
        (lambda: uaip.connect(shop(), token="x"), TypeError, "token is for servers"),
        (lambda: uaip.connect("http://x", store="memory://"), TypeError, "belong to the server"),
        (lambda: uaip.connect(shop(), ttl=3), TypeError, "unknown option 'ttl'"),
        (lambda: uaip.toolset(uaip.connect_sync(shop()).open()), TypeError, "blocks the event loop"),
    ],
)
def test_wrong_arguments_are_refused_at_once(call, error, message):
    with pytest.raises(error, match=message):
        call()


async def test_other_hosts_need_an_authenticator():
    with pytest.raises(ValueError, match="auth"):
        await uaip.serve(shop(), host="0.0.0.0").start()


async def test_a_notebook_shows_graph_stage_tools_and_state():
    async with uaip.serve(shop()) as server:
        session = await uaip.connect(server.url).open()

        shown, markdown = session._repr_html_(), session._repr_markdown_()

    assert "<svg" in shown
    assert "<td>search</td>" in shown
    assert "<td>greeting</td>" in shown
    assert "| search | Search the catalogue. |" in markdown
    assert repr(session) == "<Session of 'shop' in stage 'browse': search, transition_stage, terminate_session>"


async def test_sessions_outlive_the_server_in_sqlite(tmp_path):
    url = f"sqlite:///{tmp_path}/shop.db"
    async with uaip.serve(shop(), store=url) as server:
        session = await uaip.connect(server.url).open()
        await session.go("cart")
        id = session.id

    import httpx

    async with uaip.serve(shop(), store=url) as server, httpx.AsyncClient(trust_env=False, timeout=30) as http:
        view = (await http.get(f"{server.url}/sessions/{id}")).json()

    assert view["current_stage"] == "cart"
