"""`count_tokens`: by the vendor's endpoint, or estimated."""

import json
import pickle
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from turntree.upp import (
    ErrorCode,
    HttpResponse,
    TokenCount,
    UPPError,
    anthropic,
    bedrock,
    google,
    groq,
    llm,
    openai,
    scripted,
    tool,
    vertex,
)


@pytest.fixture(scope="module")
def vendor():
    """A server that counts 42 tokens; `seen` has the path, the headers and the body of each request."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            data = json.dumps({"input_tokens": 42, "totalTokens": 42, "inputTokens": 42}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1", seen
    server.shutdown()
    server.server_close()


@tool
def weather(city: str) -> str:
    """Return the weather."""
    return city


async def test_anthropic_counts(vendor):
    url, seen = vendor
    model = anthropic("claude-sonnet-4-5", base_url=url, api_key="sk-ant-key")
    bound = llm(model=model, params={"max_tokens": 10, "temperature": 0}, system="Be brief.", tools=[weather])
    count = await bound.count_tokens("hello")

    path, headers, body = seen[-1]
    assert (count, count.tokens, count.exact, repr(count)) == (42, 42, True, "TokenCount(42, exact=True)")
    assert (path, headers["x-api-key"]) == ("/v1/messages/count_tokens", "sk-ant-key")
    assert set(body) == {"model", "messages", "system", "tools", "tool_choice"}


async def test_google_counts(vendor):
    url, seen = vendor
    count = await llm(model=google("gemini-2.5-flash", base_url=url, api_key="g")).count_tokens("hello")

    path, _, body = seen[-1]
    assert (count, count.exact, path) == (42, True, "/v1/models/gemini-2.5-flash:countTokens")
    assert body["generateContentRequest"]["model"] == "models/gemini-2.5-flash"
    assert body["generateContentRequest"]["contents"] == [{"role": "user", "parts": [{"text": "hello"}]}]


async def test_openai_counts(vendor):
    url, seen = vendor
    bound = llm(model=openai("gpt-5", base_url=url, api_key="k"), params={"max_output_tokens": 5})
    count = await bound.count_tokens("hello")

    path, _, body = seen[-1]
    assert (count, count.exact, path) == (42, True, "/v1/responses/input_tokens")
    assert body == {"model": "gpt-5", "input": "hello"}


async def test_models_at_vertex_count(vendor):
    url, seen = vendor
    where = {"auth": "token-1", "base_url": url}
    for name in ("claude-sonnet-4-5@20250929", "gemini-2.5-flash"):
        model = vertex(name, "my-project", "europe-west1", **where)
        count = await llm(model=model, params={"max_tokens": 9} if "claude" in name else {}).count_tokens("hello")
        assert (count, count.exact) == (42, True)

    place = "/v1/projects/my-project/locations/europe-west1/publishers"
    (path, headers, body), (google_path, _, google_body) = seen[-2:]
    assert (path, headers["authorization"]) == (f"{place}/anthropic/models/count-tokens:rawPredict", "Bearer token-1")
    assert set(body) == {"model", "messages", "anthropic_version"}
    assert body["model"] == "claude-sonnet-4-5@20250929"
    assert google_path == f"{place}/google/models/gemini-2.5-flash:countTokens"
    assert google_body == {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}


@pytest.mark.parametrize("region", ["", "eu."])
async def test_claude_at_bedrock_counts(vendor, region):
    url, seen = vendor
    model = bedrock(
        f"{region}anthropic.claude-sonnet-4-5-v1:0", "eu-west-1", base_url=url.removesuffix("/v1"), auth="k"
    )
    bound = llm(model=model, params={"inferenceConfig": {"maxTokens": 9}}, system="Be brief.", tools=[weather])
    count = await bound.count_tokens("hello")

    path, headers, body = seen[-1]
    assert (count, count.exact, headers["authorization"]) == (42, True, "Bearer k")
    assert path == "/model/anthropic.claude-sonnet-4-5-v1%3A0/count-tokens"
    converse = body.pop("input").pop("converse")
    assert (set(converse), body) == ({"messages", "system", "toolConfig"}, {})


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"detail": "Not today"}, ErrorCode.PROVIDER_ERROR),
        ({"error": {"message": "Not today"}}, ErrorCode.PROVIDER_ERROR),
        ({"note": "Not today"}, ErrorCode.INVALID_RESPONSE),
    ],
)
async def test_an_answer_without_the_number_says_why(answer, code):
    class Fixed:
        async def send(self, request):
            return HttpResponse(body=answer)

    with pytest.raises(UPPError, match="Not today") as caught:
        await llm(model=anthropic("m", api_key="k", transport=Fixed())).count_tokens("hello")

    assert caught.value.code == code


@pytest.mark.parametrize("model", [groq("m", api_key="k"), scripted([])], ids=["vendor", "scripted"])
async def test_other_models_are_estimated(model):
    bound = llm(model=model, system="You are helpful.")
    short, long = await bound.count_tokens("hello"), await bound.count_tokens("hello " * 100)

    assert (short.exact, long.exact) == (False, False)
    assert 5 <= short <= 20
    assert 140 <= long <= 180


def test_a_count_is_a_number():
    count = TokenCount(7, exact=False)

    assert pickle.loads(pickle.dumps(count)).exact is False
    assert count + 1 == 8
    assert f"{count}" == "7"
