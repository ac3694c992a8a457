"""Tests of agents: a fake model server, assertions about turns, and evaluations.

`expect` makes assertions about a turn, and `evaluate` runs an agent on a dataset of cases. The pytest plugin has the
fixture ``turntree``, and refuses requests to real models.

`serve` starts a small HTTP server in a background thread. It implements the APIs of OpenAI Chat Completions, OpenAI
Responses, Anthropic Messages, Google Gemini and Ollama, with and without streaming. Its replies come from a script. The
client under test is unchanged: it uses sockets and server-sent events, and any key.

    from turntree.testing import Reply, ToolCall, serve

    script = [ToolCall("weather", {"city": "Tokyo"}), "It is sunny in Tokyo."]
    with serve(script) as server:
        ...  # point a client at server.base_url, with any API key
        assert server.requests[1].tool_results == {"call_1": "sunny"}

A script can also contain failures: see `ErrorReply`, `RawReply` and `Fault`.

The server uses the standard library only. `import turntree` does not import this package.
"""

from turntree._public_names import set_public_module as _set_public_module
from turntree.testing._evaluation import (
    Case,
    CaseResult,
    Dataset,
    Judge,
    Report,
    Verdict,
    evaluate,
    evaluate_sync,
    judge,
)
from turntree.testing._expect import Expectation, expect
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
from turntree.upp import scripted

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
    "scripted",
    "expect",
    "Expectation",
    "Case",
    "Dataset",
    "evaluate",
    "evaluate_sync",
    "judge",
    "Judge",
    "Verdict",
    "Report",
    "CaseResult",
]

_set_public_module(__name__, globals())
