"""Agents over both faces: the native server, and the ASGI application under uvicorn."""

from __future__ import annotations

import gc
import subprocess
import sys
import urllib.request
import weakref
from typing import Any

import pytest
from uamp_support import FACES, http, served, under_uvicorn

from turntree import agent, uamp
from turntree.upp import scripted


def echo(name: str | None = "helper", **options: Any) -> Any:
    return agent(name=name, model=scripted(["one", "two"]), **options)


@pytest.mark.parametrize("face", FACES)
async def test_the_only_agent_is_served_at_the_root_and_below_its_name(face: str) -> None:
    async with served(face, echo("Weather agent")) as url, http(url) as client:
        for path in ("/info", "/v1/info", "/agents/Weather%20agent/info"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["name"]) == (200, "Weather agent"), path
        assert (await client.get("/agents/other/info")).status_code == 404


@pytest.mark.parametrize("face", FACES)
async def test_several_agents_are_served_below_their_names(face: str) -> None:
    async with served(face, echo("a"), echo(None)) as url, http(url) as client:
        listed = (await client.get("/agents")).json()["agents"]
        assert [found["name"] for found in listed] == ["a", "agent"]
        assert (await client.get("/agents/agent/capabilities")).json()["id"] == "agent"


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_request_needs_a_token_that_auth_accepts(face: str, is_async: bool) -> None:
    async def accepts(token: str) -> str | None:
        return "anna" if token == "secret" else None

    def accepts_sync(token: str) -> str | None:
        return "anna" if token == "secret" else None

    auth = accepts if is_async else accepts_sync
    async with served(face, echo(), auth=auth) as url, http(url) as client:
        assert (await client.get("/info")).status_code == 401
        assert (await client.get("/info", headers={"authorization": "Bearer wrong"})).status_code == 401
        assert (await client.get("/info", headers={"authorization": "Bearer secret"})).status_code == 200


async def test_an_application_without_lifespan_is_served() -> None:
    async with under_uvicorn(uamp.asgi_app(echo()), lifespan="off") as url, http(url) as client:
        assert (await client.get("/info")).json()["name"] == "helper"


def test_a_server_without_an_event_loop() -> None:
    with uamp.serve_sync(echo()) as server:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{server.url}/info", timeout=20) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    ("agents", "options", "kind", "words"),
    [
        ([], {}, TypeError, "there are no agents to serve"),
        (["helper"], {}, TypeError, r"agents\[0\]: expected an agent, got str"),
        ([echo("a"), echo("a")], {}, ValueError, 'two agents are named "a"'),
        ([echo("a/b")], {}, ValueError, '"a/b" cannot be a path'),
        ([echo("")], {}, ValueError, "cannot be a path"),
        ([echo()], {"store": 3}, TypeError, "store must be the URL of a store"),
        ([echo()], {"store": "mysql://x"}, ValueError, "mysql"),
        ([echo()], {"auth": "secret"}, TypeError, "auth must be a function"),
        ([echo()], {"signing_key": 3}, TypeError, "signing_key must be a private key"),
        ([echo()], {"signing_key": "secret"}, ValueError, "signing_key: "),
        ([echo()], {"signing_key": {"kty": "EC"}}, ValueError, "signing_key: "),
        ([echo()], {"public_url": 3}, TypeError, "public_url must be a str"),
        ([echo()], {"public_url": "example.com"}, ValueError, "must start with http"),
        ([echo()], {"resume_window": "60"}, TypeError, "resume_window must be a number"),
        ([echo()], {"resume_window": -1}, ValueError, "resume_window"),
        ([echo()], {"resume_window": float("nan")}, ValueError, "resume_window"),
        ([echo()], {"strict_openai": 1}, TypeError, "strict_openai must be a bool"),
    ],
)
def test_wrong_arguments_are_errors_that_name_them(
    agents: list[Any], options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    for make in (uamp.serve, uamp.serve_sync, uamp.asgi_app):
        with pytest.raises(kind, match=words):
            make(*agents, **options)


async def test_another_host_needs_auth() -> None:
    with pytest.raises(ValueError, match="auth"):
        await uamp.serve(echo(), host="0.0.0.0").start()


async def test_web_pages_of_other_sites_cannot_use_a_server_without_auth() -> None:
    async with uamp.serve(echo(), public_url="https://Agents.example/x/") as server, http(server.url) as client:
        for headers, status in (
            ({}, 200),
            ({"origin": "http://localhost:8080"}, 200),
            ({"origin": "https://agents.example", "host": "agents.example"}, 200),
            ({"origin": "https://evil.example"}, 403),
            ({"origin": "null"}, 403),
            ({"origin": "http://evil.example", "host": "evil.example"}, 403),
            ({"host": "evil.example:8000"}, 403),
        ):
            answer = await client.get("/info", headers=headers)
            assert answer.status_code == status, (headers, answer.text)
        assert answer.json()["error"]["code"] == "forbidden"
    async with uamp.serve(echo(), auth={"t": "anna"}.get) as server, http(server.url) as client:
        headers = {"origin": "https://app.example", "authorization": "Bearer t"}
        assert (await client.get("/info", headers=headers)).status_code == 200


@pytest.mark.parametrize("make", [uamp.serve, uamp.asgi_app])
def test_the_collector_frees_an_agent_whose_tool_refers_to_its_server(make: Any) -> None:
    class Owner:
        server: Any = None

        def look(self) -> str:
            """Look."""
            return "seen"

        def save(self, key: str, data: str) -> None: ...

        def load(self, key: str) -> None: ...

        def delete(self, key: str) -> None: ...

    owner = Owner()
    owner.server = make(agent(model=scripted([]), tools=[owner.look]), store=owner)
    found = weakref.ref(owner)
    del owner
    gc.collect()

    assert found() is None


def test_the_command_serves_an_agent(tmp_path: Any) -> None:
    source = (
        "from turntree import agent\nfrom turntree.upp import scripted\nhelper = agent(name='x', model=scripted([]))\n"
    )
    (tmp_path / "served_by_command.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "turntree", "serve", "--port", "0", "served_by_command:helper"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{url}/info", timeout=20) as answer:
            assert b'"name":"x"' in answer.read()
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.mark.parametrize("face", FACES)
async def test_everyone_can_read_the_public_key(face: str) -> None:
    def nobody(token: str) -> None:
        raise AssertionError(token)

    key = {
        "kty": "OKP",
        "crv": "Ed25519",
        "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    }
    async with served(face, echo(), signing_key=key, auth=nobody) as url, http(url) as client:
        keys = (await client.get("/.well-known/jwks.json")).json()["keys"]

    assert [(found["kty"], found["x"]) for found in keys] == [("OKP", key["x"])]
    assert "d" not in keys[0]


def test_a_signature_that_proves_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="not a JWT"):
        uamp.verify("x.y.z", "text", None, {"keys": []})
