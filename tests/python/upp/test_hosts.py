"""Vendors and gateways with the Chat Completions API."""

import json

import pytest

from turntree.testing import serve
from turntree.upp import UPPError, llm, model
from turntree.upp import _hosts as hosts

VARIABLES = {
    "huggingface": "HF_TOKEN",
    "cohere": "COHERE_API_KEY",
    "together": "TOGETHER_API_KEY",
    "fireworks": "FIREWORKS_API_KEY",
    "nebius": "NEBIUS_API_KEY",
    "zai": "ZAI_API_KEY",
    "perplexity": "PERPLEXITY_API_KEY",
    "github": "GITHUB_TOKEN",
    "vercel": "AI_GATEWAY_API_KEY",
    "litellm": "LITELLM_API_KEY",
}


@pytest.fixture(scope="module")
def server():
    with serve(lambda request: "hello") as running:
        yield running


@pytest.mark.parametrize("name", VARIABLES)
async def test_each_host_answers_with_the_key_of_its_variable(name, server, monkeypatch):
    monkeypatch.setenv(VARIABLES[name], "sk-of-the-variable")

    reference = model(f"{name}:model-1", base_url=server.base_url)
    turn = await llm(model=reference).generate("hi")

    request = server.requests[-1]
    assert (reference.provider, turn.text, request.path) == (name, "hello", "/v1/chat/completions")
    assert request.headers["authorization"] == "Bearer sk-of-the-variable"


@pytest.mark.parametrize("name", [name for name in VARIABLES if name != "litellm"])
async def test_a_missing_key_names_the_variable(name, server, monkeypatch):
    monkeypatch.delenv(VARIABLES[name], raising=False)
    for other in ("CO_API_KEY", "PPLX_API_KEY", "GITHUB_API_KEY", "VERCEL_OIDC_TOKEN"):
        monkeypatch.delenv(other, raising=False)

    with pytest.raises(UPPError, match=VARIABLES[name]):
        await llm(model=getattr(hosts, name)("m", base_url=server.base_url)).generate("hi")


async def test_a_litellm_proxy_needs_no_key(server, monkeypatch):
    monkeypatch.delenv("LITELLM_API_KEY", raising=False)

    with pytest.raises(UPPError, match="didn't provide an API key"):
        await llm(model=hosts.litellm("m", base_url=server.base_url)).generate("hi")

    assert "authorization" not in server.requests[-1].headers


async def test_zai_gets_the_schema_as_text(server):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    with serve(['{"city": "Lima"}']) as own:
        model = hosts.zai("glm", base_url=own.base_url, api_key="sk-0123456789")
        turn = await llm(model=model, structure=schema).generate("where?")

    assert turn.data == {"city": "Lima"}
    assert json.loads(own.requests[0].body)["response_format"] == {"type": "json_object"}


def test_perplexity_has_no_tools():
    def look(place: str) -> str:
        """Look."""
        return place

    from turntree.upp import tool

    with pytest.raises(UPPError, match="does not support tools"):
        llm(model=hosts.perplexity("sonar", api_key="k"), tools=[tool(look)]).stream("hi")
