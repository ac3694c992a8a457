"""`bedrock`: Converse over sockets, signatures, and the sources of credentials simulated on a loopback server."""

import hashlib
import hmac
import json
import pickle
import struct
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from turntree import agent
from turntree.upp import ErrorCode, Image, ModelSettings, TextDelta, UPPError, bedrock, llm

MODEL = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
USAGE = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 45, "cacheReadInputTokens": 30}
ANSWER = {
    "output": {"message": {"role": "assistant", "content": [{"text": "hello"}]}},
    "stopReason": "end_turn",
    "usage": USAGE,
    "metrics": {"latencyMs": 1},
}
STREAM = [
    ("messageStart", {"role": "assistant"}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "hel"}}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "lo"}}),
    ("contentBlockStop", {"contentBlockIndex": 0}),
    ("messageStop", {"stopReason": "end_turn"}),
    ("metadata", {"usage": USAGE, "metrics": {"latencyMs": 1}}),
]


def message(headers, payload):
    """One message of an event stream."""
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + payload
    return whole + struct.pack(">I", zlib.crc32(whole))


def event(name, payload, kind="event"):
    headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    return message(headers, json.dumps(payload).encode())


def credentials(key_id):
    return {
        "AccessKeyId": key_id,
        "SecretAccessKey": "secret",
        "Token": "session",
        "Expiration": "2099-01-01T00:00:00Z",
        "Code": "Success",
    }


def sts(action, key_id):
    return (
        f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result><Credentials>'
        f"<AccessKeyId>{key_id}</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>"
        "<SessionToken>session</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>"
        f"</Credentials></{action}Result></{action}Response>"
    )


class Amazon:
    """Bedrock, the metadata services and the Security Token Service. `seen` has the requests."""

    def __init__(self):
        amazon = self
        self.seen = []
        self.status = 200
        self.stream = b"".join(event(*each) for each in STREAM)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                amazon.seen.append((self.command, self.path, headers, body))
                status, kind, data = amazon.reply(self.path, body)
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = answer

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.host}"

    def reply(self, path, body):
        if path.endswith("/converse-stream"):
            return 200, "application/vnd.amazon.eventstream", self.stream
        if path.endswith("/converse"):
            data = ANSWER if self.status == 200 else {"message": "Too many requests"}
            return self.status, "application/json", json.dumps(data).encode()
        if path == "/latest/api/token":
            return 200, "text/plain", b"metadata-token"
        if path.endswith("/security-credentials/"):
            return 200, "text/plain", b"role-1"
        if path.endswith("/security-credentials/role-1"):
            return 200, "application/json", json.dumps(credentials("OFMACHINE")).encode()
        if path == "/container":
            return 200, "application/json", json.dumps(credentials("OFCONTAINER")).encode()
        action = (
            parse_qs(body.decode() or urlsplit(path).query).get("Action") or parse_qs(urlsplit(path).query)["Action"]
        )
        return 200, "text/xml", sts(action[0], f"OFACTION{action[0].upper()}").encode()

    def calls(self):
        return [request for request in self.seen if "/converse" in request[1]]

    def key_id(self):
        return self.calls()[-1][2]["authorization"].split("Credential=")[1].split("/")[0]


@pytest.fixture(scope="module")
def server():
    running = Amazon()
    thread = threading.Thread(target=running.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield running
    running.server.shutdown()
    running.server.server_close()


@pytest.fixture
def amazon(server, monkeypatch, tmp_path):
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "REGION", "DEFAULT_REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("ROLE_ARN", "WEB_IDENTITY_TOKEN_FILE", "BEARER_TOKEN_BEDROCK", "EC2_METADATA_DISABLED"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("RELATIVE_URI", "FULL_URI"):
        monkeypatch.delenv(f"AWS_CONTAINER_CREDENTIALS_{name}", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
    server.seen.clear()
    server.status = 200
    server.stream = b"".join(event(*each) for each in STREAM)
    return server


KEYS = {"access_key_id": "AKID", "secret_access_key": "secret-1"}


def model_of(amazon, **options):
    return bedrock(MODEL, "eu-central-1", base_url=amazon.url, **options)


def signature(request, secret, region, host):
    """The signature of a request, by the algorithm of Amazon's description."""
    method, path, headers, body = request
    authorization = headers["authorization"]
    names = authorization.split("SignedHeaders=")[1].split(",")[0].split(";")
    values = {**headers, "host": host}
    lines = [f"{name}:{values[name].strip()}" for name in names]
    hashed = hashlib.sha256(body).hexdigest()
    canonical = "\n".join([method, quote(path, safe="/-._~"), "", *lines, "", ";".join(names), hashed])
    date = headers["x-amz-date"]
    scope = f"{date[:8]}/{region}/bedrock/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in (date[:8], region, "bedrock", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


async def test_a_call_is_signed(amazon):
    turn = await llm(model=model_of(amazon, **KEYS, session_token="token-1"), params={}).generate("hi")

    (request,) = amazon.calls()
    method, path, headers, body = request
    assert turn.text == "hello"
    assert (method, path) == ("POST", f"/model/{quote(MODEL, safe='')}/converse")
    assert json.loads(body) == {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}
    assert headers["x-amz-security-token"] == "token-1"
    assert headers["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()
    names = headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    assert {"host", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"} <= set(names)
    assert headers["authorization"].endswith(signature(request, "secret-1", "eu-central-1", amazon.host))
    assert "secret-1" not in str(headers)


async def test_a_stream_and_its_usage(amazon):
    stream = llm(model=model_of(amazon, **KEYS)).stream("hi")
    texts = [each.delta["text"] async for each in stream if isinstance(each, TextDelta)]
    turn = await stream.turn

    assert texts == ["hel", "lo"]
    assert (turn.text, turn.stop_reason) == ("hello", "end_turn")
    usage = turn.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.total_input_tokens) == (10, 30, 40)
    # The total of a sum of calls is input + output, whatever the vendor's.
    assert (usage.total_tokens, usage.requests) == (15, 1)


@pytest.mark.parametrize("size", [1, 7])
def test_a_stream_that_is_cut_off_or_damaged_is_an_error(amazon, size):
    # Inside of `messageStop`; the usage alone, which follows, may be missing.
    amazon.stream = b"".join(event(*each) for each in STREAM[:-1])[:-size]
    with pytest.raises(UPPError, match="ended before the response was complete") as caught:
        list(llm(model=model_of(amazon, **KEYS)).stream_sync("hi"))
    assert caught.value.code == ErrorCode.INVALID_RESPONSE

    damaged = bytearray(b"".join(event(*each) for each in STREAM))
    damaged[150] ^= size
    amazon.stream = bytes(damaged)
    with pytest.raises(UPPError, match="checksum"):
        list(llm(model=model_of(amazon, **KEYS)).stream_sync("hi"))


async def test_exceptions_inside_a_stream(amazon):
    amazon.stream = event("throttlingException", {"message": "Slow down"}, "exception")
    with pytest.raises(UPPError, match="Slow down") as caught:
        await llm(model=model_of(amazon, **KEYS)).stream("hi").turn
    assert caught.value.code == ErrorCode.RATE_LIMITED


async def test_errors_of_calls(amazon):
    amazon.status = 429
    with pytest.raises(UPPError, match="Too many requests") as caught:
        await llm(model=model_of(amazon, **KEYS, retry_strategy=None)).generate("hi")
    assert (caught.value.code, caught.value.status_code) == (ErrorCode.RATE_LIMITED, 429)


async def test_a_key_of_bedrock_replaces_the_signature(amazon, monkeypatch):
    await llm(model=model_of(amazon, auth=lambda: "key-1")).generate("hi")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "key-2")
    await llm(model=model_of(amazon, **KEYS)).generate("hi")

    assert [request[2]["authorization"] for request in amazon.calls()] == ["Bearer key-1", "Bearer key-2"]
    assert not any("x-amz-date" in request[2] for request in amazon.calls())


async def test_credentials_of_the_environment(amazon, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OFENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    await llm(model=bedrock(MODEL, base_url=amazon.url)).generate("hi")

    assert amazon.key_id() == "OFENVIRONMENT"
    assert "/us-west-2/bedrock/aws4_request" in amazon.calls()[0][2]["authorization"]


async def test_credentials_of_a_profile_precede_those_of_the_environment(amazon, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OFENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    keys = "aws_access_key_id = OFPROFILE\naws_secret_access_key = secret\n"
    Path(tmp_path / "credentials").write_text(f"[work]\n{keys}")
    Path(tmp_path / "config").write_text("[profile work]\nregion = ap-south-1\n")
    await llm(model=bedrock(MODEL, profile="work", base_url=amazon.url)).generate("hi")

    assert amazon.key_id() == "OFPROFILE"
    assert "/ap-south-1/" in amazon.calls()[0][2]["authorization"]


async def test_the_role_of_a_profile_is_assumed(amazon, tmp_path):
    keys = "aws_access_key_id = OFBASE\naws_secret_access_key = secret\n"
    Path(tmp_path / "credentials").write_text(f"[base]\n{keys}")
    role = "arn:aws:iam::123456789012:role/reader"
    Path(tmp_path / "config").write_text(
        f"[profile work]\nrole_arn = {role}\nsource_profile = base\nregion=eu-west-1\n"
    )
    model = bedrock(MODEL, profile="work", base_url=amazon.url)
    await llm(model=model).generate("hi")
    await llm(model=model).generate("again")

    assert amazon.key_id() == "OFACTIONASSUMEROLE"
    assumed = [request for request in amazon.seen if "/converse" not in request[1]]
    assert len(assumed) == 1
    assert "Credential=OFBASE/" in assumed[0][2]["authorization"]
    assert quote(role, safe="") in assumed[0][1] + assumed[0][3].decode()


async def test_a_web_identity(amazon, monkeypatch, tmp_path):
    (tmp_path / "token").write_text("identity-token")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
    await llm(model=model_of(amazon)).generate("hi")

    assert amazon.key_id() == "OFACTIONASSUMEROLEWITHWEBIDENTITY"


async def test_credentials_of_a_container(amazon, monkeypatch):
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{amazon.url}/container")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token")
    await llm(model=model_of(amazon)).generate("hi")

    assert amazon.key_id() == "OFCONTAINER"
    assert amazon.seen[0][2]["authorization"] == "container-token"


async def test_credentials_of_a_machine_are_kept(amazon):
    model = model_of(amazon)
    await llm(model=model).generate("hi")
    await llm(model=model).generate("again")

    assert amazon.key_id() == "OFMACHINE"
    assert amazon.calls()[-1][2]["x-amz-security-token"] == "session"
    assert [request[1] for request in amazon.seen].count("/latest/api/token") == 1


async def test_no_credentials_say_what_to_set(amazon, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(UPPError, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") as caught:
        await llm(model=model_of(amazon)).generate("hi")
    assert caught.value.code == ErrorCode.AUTHENTICATION_FAILED
    assert amazon.calls() == []


def test_what_is_missing_is_named(amazon):
    with pytest.raises(ValueError, match="set region= or AWS_REGION"):
        bedrock(MODEL)
    with pytest.raises(ValueError, match="name of a region"):
        bedrock(MODEL, "eu-central-1.evil.com/")
    with pytest.raises(ValueError, match="go together"):
        bedrock(MODEL, "eu-central-1", access_key_id="AKID")


def test_references_are_pickled_without_keys(amazon):
    restored = pickle.loads(pickle.dumps(model_of(amazon, profile="work")))
    assert (restored.provider, restored.model_id) == ("bedrock", MODEL)
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(model_of(amazon, **KEYS))


async def test_settings_tools_and_media(amazon):
    def look() -> Image:
        """Look."""
        raise AssertionError

    settings = ModelSettings(max_tokens=9000, stop=["x"], tool_choice="required", cache="auto", reasoning="low")
    runner = agent(model=model_of(amazon, **KEYS), tools=[look], settings=settings, system="Be kind.")
    await runner.run("What is this?", Image.from_bytes(b"\x89PNG\r\n\x1a\n", mime_type="image/png"))

    body = json.loads(amazon.calls()[0][3])
    assert body["inferenceConfig"] == {"maxTokens": 9000, "stopSequences": ["x"]}
    assert body["toolConfig"]["toolChoice"] == {"any": {}}
    assert body["system"] == [{"text": "Be kind."}, {"cachePoint": {"type": "default"}}]
    assert body["messages"][0]["content"][1]["image"]["format"] == "png"
    assert body["additionalModelRequestFields"]["thinking"]["type"] == "enabled"
