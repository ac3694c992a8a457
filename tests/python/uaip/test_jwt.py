"""Servers whose principals come from JSON Web Tokens, with the keys of an issuer that runs in the test."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from uaip_support import FACES, served, shop

from turntree import uaip, uamp
from turntree.uaip import Workflow

ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")

ISSUER = "https://login.example.com"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """Publishes keys and signs tokens. Without a key id in ``published``, the answer is 404."""

    def __init__(self) -> None:
        self.keys = {"one": ed25519.Ed25519PrivateKey.generate()}
        self.published = ["one"]
        self.fetches = 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.fetches += 1
                body = json.dumps({"keys": [issuer.public(kid) for kid in issuer.published]}).encode()
                self.send_response(200 if issuer.published else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def public(self, kid: str) -> dict[str, str]:
        x = encoded(self.keys[kid].public_key().public_bytes_raw())
        return {"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x}

    def token(self, kid: str = "one", signed_by: str | None = None, alg: str = "EdDSA", **claims: object) -> str:
        body = {"iss": ISSUER, "aud": "shop", "sub": "ada", "exp": int(time.time()) + 600, **claims}
        body = {name: value for name, value in body.items() if value is not None}
        head = {"alg": alg, "kid": kid}
        message = ".".join(encoded(json.dumps(part).encode()) for part in (head, body))
        signature = self.keys[signed_by or kid].sign(message.encode())
        return f"{message}.{encoded(signature)}"

    def authenticator(self, **options: object):
        return uaip.JwtAuthenticator(self.url, issuer=ISSUER, audience="shop", **options)


async def status(http: httpx.AsyncClient, token: str, path: str = "/api/workflows") -> int:
    return (await http.get(path, headers={"authorization": f"Bearer {token}"})).status_code


@pytest.mark.parametrize("face", FACES)
async def test_tokens_of_the_issuer_are_accepted_and_others_refused(face):
    with Issuer() as issuer:
        issuer.keys["stranger"] = ed25519.Ed25519PrivateKey.generate()
        good = issuer.token()
        unsigned = f"{encoded(json.dumps({'alg': 'none'}).encode())}.{good.split('.')[1]}."
        refused = [
            issuer.token(signed_by="stranger"),
            issuer.token("stranger"),
            issuer.token(exp=int(time.time()) - 3600),
            issuer.token(nbf=int(time.time()) + 3600),
            issuer.token(iss="https://other.example.com"),
            issuer.token(aud="bakery"),
            issuer.token(exp=None),
            issuer.token(aud=None),
            issuer.token(sub=None),
            issuer.token(alg="HS256"),
            unsigned,
            "no token",
            good[:-8],
        ]
        async with (
            served(face, shop(), auth=issuer.authenticator()) as url,
            httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as http,
        ):
            assert await status(http, good) == 200
            assert await status(http, issuer.token(aud=["bakery", "shop"])) == 200
            assert [await status(http, token) for token in refused] == [401] * len(refused)
            assert (await http.get("/api/workflows")).status_code == 401
        fetches = issuer.fetches

    # A request with a key that is not published does not make the server fetch the keys each time.
    assert fetches <= 2


@pytest.mark.parametrize("face", FACES)
async def test_sessions_belong_to_the_subject_of_the_token(face):
    with Issuer() as issuer:
        async with (
            served(face, shop(), auth=issuer.authenticator()) as url,
            uaip.connect(url, token=issuer.token()) as client,
            httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as http,
        ):
            session = await client.open("shop")
            assert await session.call("search", query="tea") == ["tea 0", "tea 1"]
            path = f"/sessions/{session.id}"

            assert await status(http, issuer.token(), path) == 200
            assert await status(http, issuer.token(sub="bob"), path) == 404


async def test_a_server_without_keys_answers_that_it_cannot_check():
    with Issuer() as issuer:
        issuer.published = []
        async with (
            uaip.serve(shop(), auth=issuer.authenticator()) as server,
            httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=30) as http,
        ):
            assert await status(http, issuer.token()) == 503


async def test_a_called_authenticator_returns_the_claims():
    with Issuer() as issuer:
        check = issuer.authenticator(algorithms=["EdDSA"], leeway=0, max_age=60)

        claims = await check(issuer.token(role="baker"))
        nobody = await check("no token")

    assert claims is not None
    assert (claims["sub"], claims["role"]) == ("ada", "baker")
    assert nobody is None


async def test_an_application_can_decide_further():
    made = Workflow("w")
    made.stage("s")
    with Issuer() as issuer:
        check = issuer.authenticator()

        async def only_bakers(token: str):
            claims = await check(token)
            return claims if claims and claims.get("role") == "baker" else None

        async with (
            uaip.serve(made, auth=only_bakers) as server,
            httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=30) as http,
        ):
            assert await status(http, issuer.token(role="baker")) == 200
            assert await status(http, issuer.token()) == 401


def test_an_algorithm_that_is_not_accepted_is_refused():
    with Issuer() as issuer, uaip.serve_sync(shop(), auth=issuer.authenticator(algorithms=["RS256"])) as server:
        answer = httpx.get(f"{server.url}/api/workflows", headers={"authorization": f"Bearer {issuer.token()}"})

    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("login.example.com/keys", {}, "jwks_url: .* no URL of http or https"),
        ("file:///etc/keys", {}, "jwks_url: .* no URL of http or https"),
        ("https://login.example.com/keys", {"algorithms": ["HS256"]}, 'algorithms: "HS256" is unknown'),
        ("https://login.example.com/keys", {"algorithms": []}, "algorithms: no algorithm is accepted"),
        ("https://login.example.com/keys", {"audience": []}, "audiences: a token for any server"),
        ("https://login.example.com/keys", {"leeway": -1}, "leeway must be a number of seconds"),
        ("https://login.example.com/keys", {"max_age": float("nan")}, "max_age must be a number of seconds"),
    ],
)
def test_wrong_settings_are_refused(url, options, message):
    with pytest.raises(ValueError, match=message):
        uaip.JwtAuthenticator(url, **{"issuer": ISSUER, "audience": "shop", **options})


@pytest.mark.parametrize("make", [uaip.serve, uaip.asgi_app])
def test_an_auth_that_cannot_be_called_is_refused(make):
    with pytest.raises(TypeError, match="auth"):
        make(shop(), auth="secret")


def test_both_protocols_have_the_class():
    assert uamp.JwtAuthenticator is uaip.JwtAuthenticator
    assert repr(uaip.JwtAuthenticator("https://a.example/k", issuer=ISSUER, audience="shop")).startswith(
        "JwtAuthenticator("
    )
