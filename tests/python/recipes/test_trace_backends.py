"""The programs of docs/trace-backends.md send spans to a server of this machine."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from recipe_environment import block, blocks, python_with, run

pytestmark = pytest.mark.timeout(900)

SPANS = ["chat scripted", "chat scripted", "execute_tool stock", "invoke_agent clerk"]
STEPS = ["step 1", "step 2"]
DECODE = """
import sys
from pathlib import Path
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
for path in sorted(Path(sys.argv[1] if len(sys.argv) > 1 else ".").glob("*.request")):
    request = ExportTraceServiceRequest.FromString(path.read_bytes())
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                tokens = [each.value.int_value for each in span.attributes if each.key == "gen_ai.usage.output_tokens"]
                print(span.name, tokens[0] if tokens else "")
"""


@pytest.fixture
def collector(tmp_path):
    """A server that stores what is posted. Yields its URL and the requests: path and headers."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path.endswith("/v1/traces"):
                (tmp_path / f"{len(asked):03}.request").write_bytes(body)
            asked.append((self.path, self.headers))
            self.answer(200)

        def do_GET(self):
            self.answer(404)

        def answer(self, status):
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("words", "variables", "path", "names"),
    [
        ("import logfire", {"LOGFIRE_TOKEN": "none", "LOGFIRE_BASE_URL": "{url}"}, "/v1/traces", [*SPANS, *STEPS]),
        (
            "import get_client",
            {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk", "LANGFUSE_BASE_URL": "{url}"},
            "/api/public/otel/v1/traces",
            SPANS,
        ),
        ("phoenix.otel", {"PHOENIX_COLLECTOR_ENDPOINT": "{url}"}, "/v1/traces", [*SPANS, *STEPS]),
    ],
    ids=["logfire", "langfuse", "phoenix"],
)
def test_a_backend_receives_the_spans_of_a_run(words, variables, path, names, collector, tmp_path):
    url, asked = collector
    python = python_with("data-and-traces.txt")
    (agent,) = blocks("trace-backends.md", "python")
    given = {name: value.format(url=url) for name, value in variables.items()}
    run(python, agent + block("trace-backends.md", words), tmp_path, **given)

    assert {found for found, _ in asked if found.endswith("/v1/traces")} == {path}
    lines = run(python, DECODE, tmp_path).splitlines()
    assert sorted(line.rpartition(" ")[0] for line in lines) == sorted(names)
    assert all(int(line.rpartition(" ")[2]) > 0 for line in lines if line.startswith("chat"))
