"""Reprs and messages, which get into logs and notebooks, have no token and no password."""

import pickle

import pytest

from turntree import agent, mcp, uamp
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
}


@pytest.mark.parametrize("create", OBJECTS.values(), ids=OBJECTS)
def test_a_repr_has_no_secret(create):
    for text in (repr(create()), str(create())):
        assert SECRET not in text


def test_reprs_keep_what_tells_objects_apart():
    assert repr(AccessToken(SECRET, 1.0)) == "AccessToken(***, expires_on=1.0)"
    assert "127.0.0.1:9/mcp?…" in repr(mcp.http(URL))
    assert "127.0.0.1:9/mcp?page=2" in repr(mcp.http("http://127.0.0.1:9/mcp?page=2"))


def test_an_error_that_names_a_server_has_no_secret():
    with pytest.raises(TypeError, match=r"'mcp https://127\.0\.0\.1:9/mcp\?…' cannot be pickled") as error:
        pickle.dumps(mcp.http(URL))

    assert SECRET not in str(error.value)
