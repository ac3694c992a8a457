"""A model on the loopback interface, for tests, demos and examples.

`serve` starts a small HTTP server in a background thread. It speaks the wires of OpenAI Chat
Completions, OpenAI Responses, Anthropic Messages, Google Gemini and Ollama, streaming and not, and
answers what a script says. The client under test is the real one: real sockets, real server-sent events, no key.

    from turntree.testing import Reply, ToolCall, serve

    script = [ToolCall("weather", {"city": "Tokyo"}), "It is sunny in Tokyo."]
    with serve(script) as server:
        ...  # point a client at server.base_url, with any API key
        assert server.requests[1].tool_results == {"call_1": "sunny"}

A script can also make the server fail: see `ErrorReply`, `RawReply` and `Fault`.

Standard library only. `import turntree` does not load this package.
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
