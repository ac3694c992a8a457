"""Helpers of the tests of the loopback server."""

import http.client
import json
from contextlib import closing

PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic-messages": "/v1/messages",
}


APIS = list(PATHS)


def question(api, text="Hi", *, stream=False, **more):
    body = {"model": "test-model", "stream": stream, **more}
    if api == "openai-responses":
        body.setdefault("input", text)
        return body
    if api == "anthropic-messages":
        body.setdefault("max_tokens", 100)
    elif stream:
        body.setdefault("stream_options", {"include_usage": True})
    body.setdefault("messages", [{"role": "user", "content": text}])
    return body


def post(server, api, body, *, headers=None, timeout=30):
    """Send a POST request and return the open connection and its response."""
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=timeout)
    keys = {
        "content-type": "application/json",
        "authorization": "Bearer test",
        "x-api-key": "test",
        "anthropic-version": "2023-06-01",
    }
    connection.request("POST", PATHS[api], json.dumps(body), keys if headers is None else headers)
    return connection, connection.getresponse()


def ask(server, api, body, **options):
    """Send a POST request and return status, headers and body."""
    connection, response = post(server, api, body, **options)
    with closing(connection):
        return response.status, response.headers, response.read()


def parse(raw):
    events = []
    for frame in raw.decode().split("\n\n"):
        if not frame:
            continue
        fields = dict(line.split(": ", 1) for line in frame.split("\n"))
        data = fields["data"]
        events.append((fields.get("event"), data if data == "[DONE]" else json.loads(data)))
    return events
