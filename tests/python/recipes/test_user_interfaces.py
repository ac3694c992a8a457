"""The programs of docs/user-interfaces.md answer in Streamlit, Gradio and Chainlit."""

import pytest
from recipe_environment import block, python_with, run

pytestmark = pytest.mark.timeout(900)

STREAMLIT = """
from streamlit.testing.v1 import AppTest
page = AppTest.from_file("app.py", default_timeout=60).run()
page = page.chat_input[0].set_value("Hello").run()
page = page.chat_input[0].set_value("Again").run()
page = page.run()  # what a reload shows
assert not page.exception, page.exception
print([(message.name, message.markdown[0].value) for message in page.chat_message])
"""
GRADIO = """
import app
from gradio_client import Client
_, url, _ = app.app.launch(prevent_thread_lock=True, server_name="127.0.0.1", quiet=True)
client = Client(url, verbose=False)
print([client.predict("Hello", api_name="/answer"), client.predict("Again", api_name="/answer")])
app.app.close()
"""
CHAINLIT = """
import asyncio, sys
from types import SimpleNamespace
import chainlit as cl
from chainlit.config import config
from chainlit.context import init_ws_context
from chainlit.session import WebsocketSession
from chainlit.user_session import user_sessions

async def main():
    sent = []

    async def emit(event, data):
        sent.append((event, data))

    async def ask(data, timeout):
        return None

    session = WebsocketSession(
        id="s1", socket_id="k1", emit=emit, emit_call=ask, user_env={}, client_type="webapp", thread_id=None,
        user=None, token=None, chat_profile=None,
    )
    init_ws_context(session)
    import app
    await config.code.on_chat_start()
    for text in ("Hello", "Again"):
        await config.code.on_message(cl.Message(text))
    print([data["output"] for event, data in sent if event == "new_message" and data["type"] == "assistant_message"])
    print(sum(event == "stream_token" for event, _ in sent) > 1)

asyncio.run(main())
"""


def written(tmp_path, words):
    (tmp_path / "app.py").write_text(block("user-interfaces.md", words), "utf-8")
    return tmp_path


def test_streamlit_shows_the_conversation_after_each_answer(tmp_path):
    said = run(python_with("recipes.txt"), STREAMLIT, written(tmp_path, "import streamlit"))

    assert said.splitlines()[-1] == str(
        [
            ("user", "Hello"),
            ("assistant", "**Hello** is message 1"),
            ("user", "Again"),
            ("assistant", "**Again** is message 3"),
        ]
    )


def test_gradio_keeps_the_conversation_of_a_browser(tmp_path):
    variables = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1"}
    said = run(python_with("recipes.txt"), GRADIO, written(tmp_path, "import gradio"), **variables)

    assert str(["**Hello** is message 1", "**Again** is message 3"]) in said.splitlines()


def test_chainlit_streams_the_answers_of_a_session(tmp_path):
    said = run(python_with("recipes.txt"), CHAINLIT, written(tmp_path, "import chainlit"))

    assert said.splitlines()[-2:] == [str(["**Hello** is message 1", "**Again** is message 3"]), "True"]
