"""The page that shows a session: what it has, who can read it, and how it works in a browser."""

import asyncio
import http.client
from pathlib import Path
from urllib.parse import urlsplit

import browser
import pytest

from turntree import agent, session
from turntree._cli import main
from turntree.notebook import inspect
from turntree.upp import ToolCall, scripted, tool

HOSTILE = "</details></main><script>alert(1)</script><img src=https://evil.example/x onerror=alert(1)>\u202egnp.exe"
AXE = Path(__file__).resolve().parents[2] / "node" / "node_modules" / "axe-core" / "axe.min.js"


@tool
def weather(city: str) -> str:
    """Return the weather."""
    return f"{city}: sunny"


def talk():
    """A session with two branches, a tool call and hostile text."""

    async def run():
        model = scripted([ToolCall("c1", "weather", {"city": HOSTILE}), "Take **sunglasses**.", HOSTILE, "Later."])
        made = session(agent(model=model, tools=[weather], name="Ada"))
        await made.run("What do I pack?")
        made.tree.checkout(made.tree.branch(made.tree.root.id, "in-june"))
        await made.run(HOSTILE)
        return made

    return asyncio.run(run())


@pytest.fixture(scope="module")
def shown():
    made = talk()
    with made.inspect() as inspector:
        yield made, inspector


def get(inspector, path=None, method="GET", host=None, body=None):
    address = urlsplit(inspector.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    headers = {} if host is None else {"Host": host}
    connection.request(method, address.path if path is None else path, body, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, text


def test_the_page_has_the_tree_messages_checkpoints_and_requests(shown):
    made, inspector = shown
    status, headers, text = get(inspector)

    assert status == 200
    assert "<svg" in text
    assert "in-june (current): 2 messages" in text
    assert made.checkpoints[0].id in text
    assert "<td>weather</td>" in text
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert headers["Content-Security-Policy"].startswith(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-"
    )
    assert headers["Cache-Control"] == "no-store"


def test_only_the_address_with_the_token_leads_to_the_page(shown):
    _, inspector = shown
    right = urlsplit(inspector.url).path

    for path in ("/", "/x/", "/content", f"/x{right[1:]}", f"{right}other", right[:-2] + "/"):
        status, _, text = get(inspector, path)
        assert (status, text) == (404, "not found")


def test_other_names_of_the_host_are_refused(shown):
    _, inspector = shown
    port = urlsplit(inspector.url).port

    assert get(inspector, host=f"evil.example:{port}")[0] == 421
    assert get(inspector, host="127.0.0.1")[0] == 421
    assert get(inspector, host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_the_page_is_read_only(shown, method):
    status, headers, text = get(shown[1], method=method, body=b"x" * 10_000)

    assert (status, headers["Allow"], text) == (405, "GET, HEAD", "method not allowed")


def test_head_has_the_headers_of_the_page_without_its_text(shown):
    status, headers, text = get(shown[1], method="HEAD")

    assert (status, text) == (200, "")
    assert int(headers["Content-Length"]) == len(get(shown[1])[2].encode())


def test_the_content_is_sent_again_only_when_it_has_changed(shown):
    made, inspector = shown
    path = urlsplit(inspector.url).path + "content"
    _, headers, _ = get(inspector, path)

    assert get(inspector, f"{path}?{headers['X-Version']}")[0] == 204
    made.tree.branch(made.tree.root.id, "another")
    assert "another" in get(inspector, f"{path}?{headers['X-Version']}")[2]


def test_a_large_session_shows_its_current_node_and_its_last_messages():
    made = session(agent(model=scripted(lambda request: f"answer {len(request.messages)}.")))
    for _ in range(60):
        made.run_sync("Go on.")
    root = made.tree.root.id
    for number in range(40):
        at = made.tree.branch(root, f"branch-{number}")
    made.tree.checkout(at)

    with made.inspect() as inspector:
        text = get(inspector)[2]
    messages = text[text.index('id="messages"') : text.index('id="checkpoints"')]

    assert "20 earlier messages are not shown" in messages
    assert "answer 119." in messages
    assert "answer 3." not in messages
    assert "branch-39 (current): 0 messages" in messages
    assert "… 11 more nodes are not shown" in messages


def test_a_closed_inspector_answers_no_more():
    inspector = inspect(session(agent(model=scripted([]))))
    inspector.close()
    inspector.close()

    with pytest.raises(ConnectionRefusedError):
        get(inspector)
    assert repr(inspector) == "Inspector(closed)"
    assert list(inspector.__rich_repr__()) == ["closed"]
    with pytest.raises(TypeError, match="session must be a Session, not str"):
        inspect("session")


@pytest.fixture(scope="module")
def page(shown, tmp_path_factory):
    process, page = browser.start(tmp_path_factory.mktemp("browser"))
    try:
        page.open(shown[1].url)
        yield page
    finally:
        page.close()
        process.terminate()
        process.wait()


def test_a_browser_shows_the_page_without_errors_and_asks_nobody_else(shown, page):
    made, inspector = shown
    page.until("document.querySelector('main svg')")
    made.tree.branch(made.tree.root.id, "while-open")
    page.until("document.querySelector('main').textContent.includes('while-open')")

    assert page.value("document.title") == f"Session {made.id}"
    assert page.value("document.querySelectorAll('main script, main img').length") == 0
    assert [each for each in page.asked if not each.startswith((inspector.url, "data:"))] == []
    assert page.logged == []


def test_the_page_follows_the_session_also_without_the_slash_at_its_end(shown, page):
    made, inspector = shown
    page.open(inspector.url.rstrip("/"))
    made.tree.branch(made.tree.root.id, "without-slash")
    page.until("document.querySelector('main').textContent.includes('without-slash')")

    assert page.value("document.getElementById('state').textContent") == "following the session"
    assert page.logged == []
    page.open(inspector.url)


def test_the_page_works_by_keyboard(page):
    page.value("document.activeElement.blur(); window.scrollTo(0, 0)")
    seen = []
    for _ in range(12):
        page.press("Tab")
        seen.append(page.value("document.activeElement.textContent.slice(0, 40)"))
        if page.value("document.activeElement.localName") == "summary":
            break
    assert "Skip to the content" in seen
    assert "Messages" in seen
    before = page.value("document.activeElement.parentElement.open")
    page.press("Enter", "\r")
    assert page.value("document.activeElement.parentElement.open") is not before


def violations(page):
    """The rules of axe that the page breaks, with everything opened."""
    page.value("document.querySelectorAll('details').forEach(each => { each.open = true })")
    page.value(AXE.read_text("utf-8") + "; null")
    return page.value(
        "axe.run().then(found => found.violations.map(each => [each.id, each.nodes.slice(0, 3).map(one => one.html)]))"
    )


def test_the_page_passes_axe(page):
    if not AXE.exists():
        browser.absent("axe-core (npm ci in tests/node)")
    assert violations(page) == []


def test_the_page_as_a_file_has_no_script_passes_axe_and_asks_nobody(shown, page, tmp_path, capsys):
    made, _ = shown
    (tmp_path / "session.json").write_text(made.to_json(), "utf-8")
    assert main(["show", "--html", str(tmp_path / "session.json")]) == 0
    file = tmp_path / "session.html"
    file.write_text(capsys.readouterr().out, "utf-8")
    # The live page asks for news until it is left.
    page.open("about:blank")
    page.asked.clear()
    page.logged.clear()
    page.open(file.as_uri())

    titles = page.value("[...document.querySelectorAll('h2')].map(each => each.textContent)")
    assert titles == ["Tree", "Messages", "Checkpoints", "Requests"]
    assert page.value("document.querySelectorAll('script, main img').length") == 0
    assert made.checkpoints[0].id in page.value("document.body.textContent")
    assert [each for each in page.asked if not each.startswith((file.as_uri(), "data:"))] == []
    assert page.logged == []
    if AXE.exists():
        assert violations(page) == []
