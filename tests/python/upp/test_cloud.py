"""`azure` and `vertex`, with the sign-in of their clouds on loopback servers."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from turntree.upp import (
    ApplicationDefaultCredentials,
    EntraCredentials,
    ManagedIdentity,
    UPPError,
    azure,
    llm,
    native,
    vertex,
)

CHAT = {
    "id": "chatcmpl-1",
    "model": "gpt-4.1",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
CLAUDE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "hello"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
}


class Cloud:
    """A server of tokens and of models. `seen` has `(method, path, query, headers, body)` of each request."""

    def __init__(self):
        cloud = self
        self.seen = []
        self.status = 200

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
                url = urlsplit(self.path)
                headers = {name.lower(): value for name, value in self.headers.items()}
                cloud.seen.append((self.command, url.path, parse_qs(url.query), headers, body))
                is_token = "token" in url.path
                status = cloud.status if is_token else 200
                answer = {"access_token": f"token-{len(cloud.tokens())}", "expires_in": 3600} if is_token else None
                if is_token and status != 200:
                    answer = {"error": "invalid_client", "error_description": body}
                answer = answer or (
                    GEMINI if "generateContent" in url.path else CLAUDE if "rawPredict" in url.path else CHAT
                )
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = answer

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.host}"

    def tokens(self):
        return [request for request in self.seen if "token" in request[1]]

    def calls(self):
        return [request for request in self.seen if "token" not in request[1]]


@pytest.fixture
def cloud(monkeypatch):
    for name in ("AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION", "IDENTITY_ENDPOINT", "IDENTITY_HEADER"):
        monkeypatch.delenv(name, raising=False)
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    running = Cloud()
    thread = threading.Thread(target=running.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield running
    running.server.shutdown()
    running.server.server_close()


async def test_azure_with_a_key(cloud):
    model = azure("my-gpt", endpoint=cloud.url, api_version="2024-06-01", api_key="azure-key-1")
    turn = await llm(model=model).generate("hi")

    method, path, query, headers, body = cloud.seen[0]
    assert (turn.text, model.provider, model.model_id) == ("hello", "azure", "my-gpt")
    assert (method, path) == ("POST", "/openai/deployments/my-gpt/chat/completions")
    assert query == {"api-version": ["2024-06-01"]}
    assert headers["api-key"] == "azure-key-1"
    assert "authorization" not in headers
    assert json.loads(body)["messages"] == [{"role": "user", "content": "hi"}]


async def test_azure_reads_its_environment(cloud, monkeypatch):
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", cloud.url + "/")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "azure-key-2")
    monkeypatch.setenv("OPENAI_API_VERSION", "v1")

    await llm(model=azure("my-gpt")).generate("hi")

    assert cloud.seen[0][1] == "/openai/v1/chat/completions"
    assert cloud.seen[0][3]["api-key"] == "azure-key-2"


async def test_azure_with_a_token_and_with_functions(cloud):
    async def fresh():
        return "token-of-async"

    for auth, token in [
        ("fixed-token", "fixed-token"),
        (lambda: "token-of-f", "token-of-f"),
        (fresh, "token-of-async"),
    ]:
        await llm(model=azure("d", endpoint=cloud.url, auth=auth)).generate("hi")
        headers = cloud.seen[-1][3]
        assert headers["authorization"] == f"Bearer {token}"
        assert "api-key" not in headers


async def test_entra_gives_one_token_for_several_calls(cloud):
    auth = EntraCredentials("tenant-1", "client-1", "very-secret", authority=cloud.url)
    model = llm(model=azure("d", endpoint=cloud.url, auth=auth))
    await model.generate("hi")
    await model.generate("hi")

    [(method, path, _, _, body)] = cloud.tokens()
    assert (method, path) == ("POST", "/tenant-1/oauth2/v2.0/token")
    assert parse_qs(body) == {
        "grant_type": ["client_credentials"],
        "client_id": ["client-1"],
        "client_secret": ["very-secret"],
        "scope": ["https://cognitiveservices.azure.com/.default"],
    }
    assert [call[3]["authorization"] for call in cloud.calls()] == ["Bearer token-1"] * 2
    assert "very-secret" not in repr(auth) + repr(model)


async def test_refused_credentials_are_an_error_without_secrets(cloud):
    cloud.status = 401
    auth = EntraCredentials("t", "c", "very-secret", authority=cloud.url)

    with pytest.raises((UPPError, RuntimeError), match="status 401") as raised:
        await llm(model=azure("d", endpoint=cloud.url, auth=auth)).generate("hi")

    assert "invalid_client" in str(raised.value)
    assert "very-secret" not in str(raised.value)


@pytest.mark.parametrize("app", [True, False], ids=["app", "machine"])
async def test_managed_identities(cloud, monkeypatch, app):
    endpoint = f"{cloud.url}/msi/token"
    if app:
        monkeypatch.setenv("IDENTITY_ENDPOINT", endpoint)
        monkeypatch.setenv("IDENTITY_HEADER", "header-secret")
    auth = ManagedIdentity("client-7", endpoint=None if app else endpoint)
    await llm(model=azure("d", endpoint=cloud.url, auth=auth)).generate("hi")

    [(method, _, query, headers, _)] = cloud.tokens()
    assert method == "GET"
    assert query["resource"] == ["https://cognitiveservices.azure.com"]
    assert query["client_id"] == ["client-7"]
    assert headers.get("x-identity-header") == ("header-secret" if app else None)
    assert headers.get("metadata") == (None if app else "true")
    assert cloud.calls()[0][3]["authorization"] == "Bearer token-1"


def service_account(tmp_path, cloud):
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    file = tmp_path / "account.json"
    account = {
        "type": "service_account",
        "project_id": "project-of-file",
        "private_key_id": "key-1",
        "private_key": pem,
        "client_email": "me@project.iam.gserviceaccount.com",
        "token_uri": f"{cloud.url}/token",
    }
    file.write_text(json.dumps(account))
    return file, key


async def test_vertex_with_a_service_account(cloud, tmp_path, monkeypatch):
    file, key = service_account(tmp_path, cloud)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    model = vertex("gemini-2.5-flash", location="europe-west1", base_url=f"{cloud.url}/v1")
    turn = await llm(model=model).generate("hi")

    [(_, _, _, _, form)] = cloud.tokens()
    fields = parse_qs(form)
    assert fields["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    head, claims, signature = fields["assertion"][0].split(".")
    decoded = [base64.urlsafe_b64decode(part + "==") for part in (head, claims, signature)]
    key.public_key().verify(decoded[2], f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
    assert json.loads(decoded[0]) == {"alg": "RS256", "typ": "JWT", "kid": "key-1"}
    assert json.loads(decoded[1])["aud"] == f"{cloud.url}/token"
    [(_, path, _, headers, _)] = cloud.calls()
    place = "/v1/projects/project-of-file/locations/europe-west1/publishers/google/models"
    assert path == f"{place}/gemini-2.5-flash:generateContent"
    assert headers["authorization"] == "Bearer token-1"
    assert (turn.text, model.provider) == ("hello", "vertex")


async def test_vertex_with_the_metadata_server(cloud, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GCE_METADATA_HOST", cloud.host)
    model = vertex("gemini-2.5-flash", project="p", base_url=cloud.url)
    await llm(model=model, tools=[native.google.google_search()]).generate("hi")

    [(_, path, _, headers, _)] = cloud.tokens()
    assert path == "/computeMetadata/v1/instance/service-accounts/default/token"
    assert headers["metadata-flavor"] == "Google"
    assert json.loads(cloud.calls()[0][4])["tools"] == [{"googleSearch": {}}]


async def test_vertex_with_an_authorized_user(cloud, tmp_path):
    user = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
    file = tmp_path / "adc.json"
    file.write_text(json.dumps({**user, "token_uri": f"{cloud.url}/token"}))
    auth = ApplicationDefaultCredentials(file)
    await llm(model=vertex("g", project="p", auth=auth, base_url=cloud.url)).generate("hi")

    assert parse_qs(cloud.tokens()[0][4])["grant_type"] == ["refresh_token"]


def test_what_is_missing_is_named(tmp_path, monkeypatch, cloud):
    with pytest.raises(ValueError, match="AZURE_OPENAI_ENDPOINT"):
        azure("d")
    with pytest.raises(ValueError, match="GOOGLE_CLOUD_PROJECT"):
        vertex("g", auth="token")
    with pytest.raises(TypeError, match="auth must be a token"):
        azure("d", endpoint="https://x", auth=3)
    monkeypatch.delenv("AZURE_CLIENT_SECRET", raising=False)
    with pytest.raises(ValueError, match="AZURE_CLIENT_SECRET"):
        EntraCredentials("t", "c")
    file = tmp_path / "other.json"
    file.write_text("{}")
    with pytest.raises(ValueError, match="not a file of a service account"):
        ApplicationDefaultCredentials(file)


async def test_claude_at_vertex(cloud):
    model = vertex("claude-sonnet-4-5@20250929", "my-project", "europe-west1", auth="token-1", base_url=cloud.url)
    turn = await llm(model=model, params={"max_tokens": 9}).generate("hi")

    method, path, _, headers, body = cloud.seen[0]
    assert (turn.text, model.provider) == ("hello", "anthropic")
    place = "/projects/my-project/locations/europe-west1/publishers/anthropic"
    assert (method, path) == ("POST", f"{place}/models/claude-sonnet-4-5@20250929:rawPredict")
    assert headers["authorization"] == "Bearer token-1"
    assert "x-api-key" not in headers
    assert json.loads(body) == {
        "anthropic_version": "vertex-2023-10-16",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }
