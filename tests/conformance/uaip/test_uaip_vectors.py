"""The vectors, against both faces: the native server, and the ASGI application under uvicorn."""

import asyncio
import contextlib
import json
import socket
from pathlib import Path

import httpx
import pytest

from turntree import uaip

from .vector_player import Player
from .vector_workflows import made_of

FOLDER = Path(__file__).parent
DEFINITIONS = {made["name"]: made for made in json.loads((FOLDER / "workflows.json").read_text("utf-8"))["workflows"]}
CASES = [
    pytest.param(case, id=f"{path.stem}/{case['id']}")
    for path in sorted(FOLDER.glob("*.json"))
    for case in json.loads(path.read_text("utf-8")).get("cases", ())
]


@contextlib.asynccontextmanager
async def served(face, workflows, options):
    """Serve workflows by one of the faces, and yield the URL."""
    if face == "native":
        async with uaip.serve(*workflows, **options) as server:
            yield server.url
        return
    uvicorn = pytest.importorskip("uvicorn")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(uaip.asgi_app(*workflows, **options), log_level="warning", lifespan="on")
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


@pytest.mark.parametrize("face", ["native", "asgi"])
@pytest.mark.parametrize("case", [case for case in CASES if "steps" in case.values[0]])
async def test_the_server_answers_as_the_vector_says(case, face):
    options = dict(case.get("server", {}))
    if "auth" in options:
        options["auth"] = options["auth"].get
    workflows = [made_of(DEFINITIONS[name]) for name in case["workflows"]]

    async with (
        served(face, workflows, options) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as http,
    ):
        await Player(http).play(case["steps"])


@pytest.mark.parametrize("case", [case for case in CASES if "definition" in case.values[0]])
def test_a_definition_that_cannot_be_served_is_refused(case):
    with pytest.raises(uaip.DefinitionError) as refused:
        made_of(case["definition"]).check()

    for part in case["error"]:
        assert part in str(refused.value)
