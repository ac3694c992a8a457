"""Reprs and messages, which get into logs and notebooks, have no token and no password."""

import io
import pickle

import pytest
import rich

from turntree import agent, mcp, uaip, uamp, upp
from turntree.upp import AccessToken, scripted

SECRET = "s3cret-of-this-test"
URL = f"https://user:{SECRET}@127.0.0.1:9/mcp?api_key={SECRET}"

OBJECTS = {
    "AccessToken": lambda: AccessToken(SECRET, 1.0),
    "PaymentRequest": lambda: uamp.PaymentRequest(
        agent="h", principal=None, claims={}, session_id=None, response_id="r", payment_token=SECRET
    ),
    "Daemon": lambda: uamp.dial(f"wss://user:{SECRET}@127.0.0.1:9", agent(model=scripted(["x"]), name="h")),
    "mcp.http": lambda: mcp.http(URL),
    "mcp.sse": lambda: mcp.sse(URL),
    "mcp.oauth": lambda: mcp.oauth(URL, client_id="c", client_secret=SECRET),
    "uamp.connect": lambda: uamp.connect(URL, token=SECRET),
    "uamp.connect_sync": lambda: uamp.connect_sync(URL, token=SECRET),
    "uaip.connect": lambda: uaip.connect(URL, token=SECRET),
    "uaip.connect_sync": lambda: uaip.connect_sync(URL, token=SECRET),
    "openai": lambda: upp.openai("m", api_key=SECRET, base_url=URL, headers={"x-key": SECRET}),
    "llm": lambda: upp.llm(model=upp.openai("m", api_key=SECRET, base_url=URL), config={"headers": {"x-key": SECRET}}),
    "ProviderConfig": lambda: upp.ProviderConfig(api_key=SECRET, headers={"x-key": SECRET}),
    "RoundRobinKeys": lambda: upp.RoundRobinKeys([SECRET]),
    "EntraCredentials": lambda: upp.EntraCredentials("t", "c", SECRET),
    "HttpRequest": lambda: upp.HttpRequest("GET", f"https://127.0.0.1/?key={SECRET}", {"authorization": SECRET}),
    "HttpResponse": lambda: upp.HttpResponse(200, {"set-cookie": SECRET}, SECRET.encode()),
}


@pytest.mark.parametrize("create", OBJECTS.values(), ids=OBJECTS)
def test_a_repr_has_no_secret(create):
    for text in (repr(create()), str(create())):
        assert SECRET not in text


@pytest.mark.parametrize("create", OBJECTS.values(), ids=OBJECTS)
def test_the_displays_of_notebooks_and_rich_have_no_secret(create):
    shown = create()
    output = io.StringIO()
    rich.print(shown, file=output)

    for text in (shown._repr_html_(), output.getvalue(), repr(list(shown.__rich_repr__()))):
        assert text
        assert SECRET not in text


def test_reprs_keep_what_tells_objects_apart():
    assert repr(AccessToken(SECRET, 1.0)) == "AccessToken(***, expires_on=1.0)"
    assert "127.0.0.1:9/mcp?…" in repr(mcp.http(URL))
    assert "127.0.0.1:9/mcp?page=2" in repr(mcp.http("http://127.0.0.1:9/mcp?page=2"))


def test_an_error_that_names_a_server_has_no_secret():
    with pytest.raises(TypeError, match=r"'mcp https://127\.0\.0\.1:9/mcp\?…' cannot be pickled") as error:
        pickle.dumps(mcp.http(URL))

    assert SECRET not in str(error.value)
