"""A fake model server on the loopback interface, for tests, demos and examples.

`serve` starts a small HTTP server in a background thread. It implements the APIs of OpenAI Chat Completions, OpenAI
Responses, Anthropic Messages, Google Gemini and Ollama, with and without streaming. Its replies come from a script. The
client under test is unchanged: it uses sockets and server-sent events, and any key.

    from turntree.testing import Reply, ToolCall, serve

    script = [ToolCall("weather", {"city": "Tokyo"}), "It is sunny in Tokyo."]
    with serve(script) as server:
        ...  # point a client at server.base_url, with any API key
        assert server.requests[1].tool_results == {"call_1": "sunny"}

A script can also contain failures: see `ErrorReply`, `RawReply` and `Fault`.

Uses the standard library only. `import turntree` does not import this package.
"""

from turntree.testing._replies import (
    ErrorReply,
    Fault,
    Finish,
    RawReply,
    Reply,
    ReplyLike,
    Script,
    ToolCall,
)
from turntree.testing._request import Api, Outcome, Request
from turntree.testing._server import LoopbackServer, serve

__all__ = [
    "serve",
    "LoopbackServer",
    "Request",
    "Reply",
    "ToolCall",
    "ErrorReply",
    "RawReply",
    "Fault",
    "Script",
    "ReplyLike",
    "Api",
    "Finish",
    "Outcome",
]
