"""The JavaScript packages `openai`, `ai` with `@ai-sdk/openai-compatible`, and `@a2a-js/sdk` against served agents.

The packages are those of ``tests/node/package-lock.json``; ``make test`` installs them. Without Node.js or the packages
the tests are skipped and name the reason; with CI=1 or TURNTREE_REQUIRE_NODE=1 that is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator
from typing import Any

import pytest
from uamp_clients import PLAIN, ROOT, auth, blocks, results_of, served_to_clients
from uamp_support import FACES

pytestmark = pytest.mark.timeout(300)

HERE = ROOT / "tests" / "node"
PACKAGES = ("openai", "ai6", "@ai-sdk/openai-compatible", "@a2a-js/sdk")
REQUIRED = any(os.environ.get(name, "") not in ("", "0") for name in ("CI", "TURNTREE_REQUIRE_NODE"))
COMPLETED, CANCELED = 3, 5

SENT = ["1 messages", "3 messages", "3 messages", COMPLETED]
STREAMED = ["task", "you said: hello", COMPLETED]

RESULTS: dict[str, Any] = {
    "openaiChat": ["you said: hello", "stop"],
    "openaiStream": ["you said: hello", "stop", True],
    "openaiTools": "it is sunny in Oulu",
    "openaiResponses": ["you said: one", "3 messages"],
    "openaiErrors": [
        ["AuthenticationError", 401, "invalid_api_key"],
        ["NotFoundError", 404, "model_not_found"],
        ["BadRequestError", 400, "empty_array"],
    ],
    "aiGenerate": ["you said: hello", "stop", True],
    "aiStream": ["you said: hello", "stop", True],
    "aiTools": ["it is sunny in Oulu", 2, {"city": "Oulu"}],
    "aiStreamTools": ["it is sunny in Oulu", 2, True, True, False],
    "aiObject": {"city": "Oulu", "people": 200000},
    "aiReasoning": ["therefore", "I think"],
    "aiLength": "length",
    "a2aSend": SENT,
    "a2aStream": STREAMED,
    "a2aCancel": ["task", CANCELED, [CANCELED, CANCELED]],
    "a2aRestSend": SENT,
    "a2aRestStream": STREAMED,
    "a2aLegacySend": SENT,
    "a2aLegacyStream": STREAMED,
    "a2aMissing": "JsonRpcTaskNotFoundError",
}


@pytest.fixture(scope="module")
def node() -> str:
    """The path of Node.js. Skips the tests without it or the packages."""
    missing = [name for name in PACKAGES if not (HERE / "node_modules" / name / "package.json").exists()]
    found = shutil.which("node")
    if found is None or missing:
        reason = "node is missing" if found is None else f"run `make node`: {', '.join(missing)}"
        message = f"NOT TESTED with the JavaScript clients of served agents: {reason}"
        (pytest.fail if REQUIRED else pytest.skip)(message)
    return str(found)


@pytest.fixture(scope="module", params=FACES)
def url(request: pytest.FixtureRequest) -> Generator[str]:
    with served_to_clients(request.param, auth=auth) as found:
        yield found


@pytest.fixture(scope="module")
def results(node: str, url: str) -> dict[str, Any]:
    return results_of([node, HERE / "uamp.mjs"], url)


@pytest.mark.parametrize("scenario", RESULTS)
def test_a_javascript_client(results: dict[str, Any], scenario: str) -> None:
    found = results[scenario]
    assert found == RESULTS[scenario], found["failed"] if isinstance(found, dict) and "failed" in found else found


def test_the_javascript_snippet_of_the_documentation_runs(node: str, url: str) -> None:
    (snippet,) = blocks("js")
    program = snippet.replace("http://localhost:8000", url).replace('from "ai"', 'from "ai6"')
    command = [node, "--input-type=module", "--eval", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=PLAIN, cwd=HERE)

    assert (done.returncode, done.stdout) == (0, "it is sunny in Oulu"), done.stderr
