"""Whole chats of the real Vercel AI SDK, majors 5, 6 and 7, against a server of ten lines.

The browser's side is `AbstractChat`, on which `useChat` of all frameworks is built; ``tests/node/chat.mjs`` runs it.
"""

import asyncio
import json
import socket
import subprocess
import threading

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from test_ui_real_client import HERE, REQUIRED, missing

from turntree import Session, ValidationError, agent
from turntree.store import memory
from turntree.thread_protocol import ui_input, ui_response
from turntree.upp import ToolCall, scripted, tool

MAJORS = [5, 6, 7]


@tool(approval="ask")
def pay(to: str) -> str:
    """Pay a person."""
    return f"paid {to}"


def reply(request):
    last = request.messages[-1]
    if last.type == "tool_result":
        return ", ".join(str(result.result) for result in last.results)
    if last.text.startswith("Pay "):
        return [ToolCall(f"call-{name}", "pay", {"to": name}) for name in last.text.split()[1:]]
    files = f" with {last.content[0].type}" if last.content[0].type != "text" else ""
    return f"{len(request.messages)}: {last.text}{files}"


helper = agent(model=scripted(reply), tools=[pay])
store = memory()
app = FastAPI()


@app.post("/chat/{sdk}")
async def answer(sdk: int, request: Request) -> StreamingResponse:
    chat = ui_input(await request.json())
    session = await Session.open(store, chat.id, helper)
    ui = ui_response(chat.stream(session), reply_to=chat, sdk=sdk)
    return StreamingResponse(ui, headers=ui.headers)


@pytest.fixture(scope="module")
def address():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
        listening.listen()
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/chat"
        server.should_exit = True
        thread.join(30)


@pytest.fixture(scope="module")
def converse(address):
    if (reason := missing()) is not None:
        message = f"NOT TESTED against the real Vercel AI SDK: {reason}"
        (pytest.fail if REQUIRED else pytest.skip)(message)
    process = subprocess.Popen(["node", "chat.mjs"], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(sdk, id, *steps):
        request = {"sdk": sdk, "api": f"{address}/{sdk}", "id": f"{id}-{sdk}", "steps": steps}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answered = json.loads(process.stdout.readline())
        assert answered["errors"] == []
        return answered["messages"], answered["bodies"]

    yield ask
    process.stdin.close()
    process.wait(30)
    process.stdout.close()


def texts(messages):
    return [part["text"] for message in messages for part in message["parts"] if part["type"] == "text"]


def calls(messages):
    parts = [part for message in messages for part in message["parts"] if part["type"] == "tool-pay"]
    return [(part["state"], part.get("output", part.get("errorText"))) for part in parts]


@pytest.mark.parametrize("sdk", MAJORS)
def test_the_session_has_the_earlier_messages(converse, sdk):
    after, bodies = converse(sdk, "talk", {"send": {"text": "Hello"}}, {"send": {"text": "More"}})

    assert texts(after[-1]) == ["Hello", "1: Hello", "More", "3: More"]
    assert [body["trigger"] for body in bodies] == ["submit-message"] * 2


@pytest.mark.parametrize("sdk", MAJORS)
def test_files_of_the_browser_reach_the_model(converse, sdk):
    picture = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,iVBORw0KGgo="}
    after, _ = converse(sdk, "files", {"send": {"text": "Look", "files": [picture]}})

    assert texts(after[-1])[-1] == "1: Look with image"


@pytest.mark.parametrize("sdk", [6, 7])
def test_the_user_answers_requests_for_approval(converse, sdk):
    steps = [{"send": {"text": "Pay ann bob"}}, {"approve": "call-ann"}, {"deny": "call-bob", "reason": "too much"}]
    after, bodies = converse(sdk, "pay", *steps, {"send": {"text": "Thanks"}})

    assert [state for state, _ in calls(after[0])] == ["approval-requested"] * 2
    assert calls(after[2]) == [("output-available", "paid ann"), ("output-denied", None)]
    assert texts(after[2])[-1] == "paid ann, Tool execution denied: too much"
    assert texts(after[3])[-2:] == ["Thanks", "5: Thanks"]
    assert len(bodies) == 3
    assert len(after[2]) == 2  # The answer continues the message of the assistant.


def test_a_client_of_version_5_answers_with_results(converse):
    yes = {"result": "call-ann", "tool": "pay", "output": True}
    no = {"result": "call-bob", "tool": "pay", "output": {"approved": False, "reason": "too much"}}
    after, _ = converse(5, "pay", {"send": {"text": "Pay ann bob"}}, yes, no)

    assert calls(after[2]) == [("output-available", "paid ann"), ("output-error", "Tool execution denied: too much")]
    assert texts(after[2])[-1] == "paid ann, Tool execution denied: too much"


@pytest.mark.parametrize("sdk", MAJORS)
def test_a_regenerated_answer_is_a_branch_of_the_session(converse, sdk):
    steps = [{"send": {"text": "One"}}, {"send": {"text": "Two"}}, {"regenerate": {}}, {"regenerate": {}}]
    after, bodies = converse(sdk, "again", *steps, {"send": {"text": "Three"}})

    assert bodies[2]["trigger"] == "regenerate-message"
    assert texts(after[3]) == ["One", "1: One", "Two", "3: Two"]  # The model does not see the question twice.
    assert texts(after[4])[-2:] == ["Three", "5: Three"]
    tree = asyncio.run(Session.load(store, f"again-{sdk}", helper)).tree
    assert [(node.branch_point, len(node.thread)) for node in tree.nodes.values()] == [(None, 4), (2, 2), (2, 4)]


def test_the_first_answer_of_a_chat_can_be_regenerated(converse):
    after, _ = converse(6, "first", {"send": {"text": "One"}}, {"regenerate": {}}, {"send": {"text": "Two"}})

    assert texts(after[-1]) == ["One", "1: One", "Two", "3: Two"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "it is empty"),
        ("hello", "expecting value, at character 1"),
        ('{\n "id":\n}', "expecting value, at line 3"),
    ],
)
def test_a_body_that_is_not_json_is_explained(body, problem):
    with pytest.raises(
        ValidationError, match=f"^the body is not JSON: {problem}; pass the body as the request has it$"
    ):
        ui_input(body)
