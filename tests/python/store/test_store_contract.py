"""The public API of stores and stored sessions: names, defaults and errors, the same for every engine."""

import asyncio
import inspect
from datetime import timedelta

import pytest
from store_engines import texts

from turntree import ApprovalRequired, ConflictError, Session, StoreError, ToolContext, agent, session, store
from turntree.store import Store
from turntree.upp import UPPError, scripted, tool

IDS = ["x" * 200, "../../etc/passwd", "a b\"c'", "日本 🦀", "%2e%2e", "\u0301e", "Case", "case", "CON", ".", "a:b|c?*"]
KEYS = {"new": b"n" * 32, "old": b"o" * 32}


def parameters(function):
    """Return the names and defaults of parameters."""
    return [(name, one.default) for name, one in inspect.signature(function).parameters.items()]


def test_every_method_that_waits_has_a_twin_that_blocks():
    methods = [
        name for name, member in inspect.getmembers(Store, inspect.iscoroutinefunction) if not name.startswith("_")
    ]

    assert {"sessions", "delete", "prune", "export", "load_export", "check", "close", "enqueue", "run"} <= set(methods)
    for name in methods:
        blocking = getattr(Store, f"{name}_sync")
        assert not inspect.iscoroutinefunction(blocking)
        assert parameters(blocking) == parameters(getattr(Store, name)), name


def test_parameters_have_the_promised_names_order_and_defaults():
    nothing = inspect.Parameter.empty
    listed = {"agent": None, "status": None, "updated_after": None, "limit": 100, "after": None}
    assert parameters(Store.sessions)[1:] == [*listed.items()]
    assert parameters(Store.prune) == [("self", nothing), ("older_than", nothing), ("keep_heads", True)]
    assert {"agent": None, "not_before": None, "priority": 0}.items() <= dict(parameters(Store.enqueue)).items()
    assert parameters(Store.enqueue)[1:3] == [("session_id", nothing), ("input", nothing)]


def test_twins_do_the_same_without_an_event_loop(url, helper, tmp_path):
    path = tmp_path / "all.jsonl"
    with store.from_url(url) as saved:
        session(helper, id="a", persistence=saved).run_sync("one")
        session(helper, id="b", persistence=saved).run_sync("two")

        assert {info.id for info in saved.sessions_sync()} == {"a", "b"}
        assert saved.check_sync() == []
        assert saved.export_sync(path) == 2
        assert saved.delete_sync("a") is True
        assert saved.delete_sync("a") is False
        with pytest.raises(StoreError, match='"b"'):
            saved.load_export_sync(path)
        assert saved.load_sync("session:a") is None
        saved.delete_sync("b")
        assert saved.load_export_sync(path) == 2
        assert saved.prune_sync(timedelta(days=1)) == (0, 0, 0, 0)
        text = saved.load_sync("session:a")
        saved.save_sync("session:a", text)
        assert saved.load_sync("session:a") == text
        saved.close_sync()
        with pytest.raises(StoreError, match="closed"):
            saved.check_sync()


async def test_ids_are_any_printable_text_in_every_engine(url, helper):
    async with store.from_url(url) as saved:
        for id in IDS:
            await (await Session.open(saved, id, helper)).run(f"hello {id}")

        assert {info.id for info in await saved.sessions()} == set(IDS)
        for id in IDS:
            assert texts(await Session.load(saved, id, helper))[0] == f"hello {id}"
        for id, error in [("", ValueError), ("x" * 201, ValueError), ("a\nb", ValueError), (b"a", TypeError)]:
            with pytest.raises(error, match="id"):
                await Session.open(saved, id, helper)
        # No session has such an id: that is no error of the engine.
        for id in ("", "x" * 201, "a\nb", "a\0b"):
            assert await saved.load(id) is None
            assert await saved.delete(id) is False
            assert list(await saved.sessions(agent=id)) == []


async def test_a_page_has_a_hundred_sessions_by_default(url, helper):
    async with store.from_url(url) as saved:
        sess = session(helper, id="s0", persistence=saved)
        await sess.save()
        text = await saved.load("session:s0")
        for number in range(1, 101):
            await saved.save(f"session:s{number}", text.replace('"s0"', f'"s{number}"'))

        page = await saved.sessions()
        rest = await saved.sessions(after=page.next)

        assert (len(page), len(rest), rest.next) == (100, 1, None)
        assert {info.id for info in [*page, *rest]} == {f"s{number}" for number in range(101)}
        assert (await saved.sessions(limit=101)).next is None


async def test_the_list_says_what_a_session_waits_for(url):
    @tool(approval="ask")
    def pay() -> str:
        return "paid"

    def answer(request):
        if request.messages[-1].text == "fail":
            raise UPPError("down", "PROVIDER_ERROR")
        return "done" if request.messages[-1].type == "tool_result" else [{"toolName": "pay", "arguments": {}}]

    helper = agent(model=scripted(answer), tools=[pay])
    async with store.from_url(url) as saved:
        waiting = await Session.open(saved, "waiting", helper)
        with pytest.raises(ApprovalRequired):
            await waiting.run("pay")
        failed = await Session.open(saved, "failed", helper)
        with pytest.raises(UPPError):
            await failed.run("fail")
        await (await Session.open(saved, "new", helper)).save()

        listed = {info.id: info.status for info in await saved.sessions()}
        assert listed == {"waiting": "waiting", "failed": "unfinished", "new": "idle"}
        for id, status in listed.items():
            assert [info.id for info in await saved.sessions(status=status)] == [id]
            assert (await Session.load(saved, id, helper)).is_unfinished is (status != "idle")


async def test_metadata_of_open_is_for_new_sessions(url, helper):
    async with store.from_url(url) as saved:
        await (await Session.open(saved, "s", helper, metadata={"user": "ann"})).save()

        again = await Session.open(saved, "s", helper, metadata={"user": "bob"})

        assert again.metadata == {"user": "ann"}


@pytest.mark.parametrize("interval", ["turn", "step", "tool"])
async def test_the_state_of_a_run_is_stored_as_often_as_the_interval_says(url, interval):
    seen = []

    @tool
    async def look() -> str:
        seen.append(await saved.load("session:s") is not None)
        return "seen"

    replies = iter([[{"toolName": "look", "arguments": {}}], [{"toolName": "look", "arguments": {}}], "done"])
    helper = agent(model=scripted(lambda _request: next(replies)), tools=[look])
    async with store.from_url(url) as saved:
        sess = await Session.open(saved, "s", helper, save_interval=interval)
        await sess.run("go")

        assert seen == ([False, False] if interval == "turn" else [True, True])
        assert (await Session.load(saved, "s", helper, save_interval=interval)).to_json() == sess.to_json()


async def crashed(saved, helper, captured):
    """Leave the session in the state that it had while its tool ran, as a process does that dies there."""
    sess = await Session.open(saved, "s", helper)
    await sess.run("go")
    await saved.delete("s")
    await saved.save("session:s", captured[0])
    return await Session.load(saved, "s", helper)


async def test_an_idempotent_call_is_repeated_with_its_key_after_a_crash(url):
    captured, keys = [], []

    @tool(idempotent=True)
    async def charge(context: ToolContext, n: int) -> str:
        keys.append((n, context.idempotency_key))
        captured.append(await saved.load("session:s"))
        return "charged"

    calls = [{"toolName": "charge", "arguments": {"n": number}} for number in (1, 2)]
    helper = agent(model=scripted(lambda request: "done" if len(request.messages) > 1 else calls), tools=[charge])
    async with store.from_url(url) as saved:
        sess = await crashed(saved, helper, captured)

        assert sess.in_doubt == []
        assert sess.is_unfinished
        await sess.resume()

        first = dict(keys[:2])
        assert first[1] != first[2]
        assert dict(keys[2:]).items() <= first.items()
        assert len(keys) > 2


@pytest.mark.parametrize(
    ("resolution", "result", "count"),
    [({"result": 7}, (7, False), 1), ({"error": "no"}, ("no", True), 1), ({"retry": True}, ("paid", False), 2)],
)
async def test_a_call_in_doubt_is_asked_for_until_it_is_resolved(url, resolution, result, count):
    captured, paid = [], []

    @tool
    async def pay() -> str:
        paid.append(1)
        captured.append(await saved.load("session:s"))
        return "paid"

    call = [{"toolName": "pay", "arguments": {}}]
    helper = agent(model=scripted(lambda request: "done" if len(request.messages) > 1 else call), tools=[pay])
    async with store.from_url(url) as saved:
        sess = await crashed(saved, helper, captured)
        for _ in range(2):
            with pytest.raises(ApprovalRequired) as caught:
                await sess.resume()
            assert [call.tool_name for call in caught.value.calls] == ["pay"]
            assert caught.value.calls == sess.in_doubt
            sess = await Session.load(saved, "s", helper)

        sess.resolve(sess.in_doubt[0].tool_call_id, **resolution)
        turn = await sess.resume()

        assert [(one.result, one.is_error) for one in turn.tool_executions] == [result]
        assert len(paid) == count


async def test_conflicts_name_the_session(url, helper):
    async with store.from_url(url) as saved:
        first = await Session.open(saved, "ticket 7", helper)
        await first.run("one")
        stale_run = await Session.load(saved, "ticket 7", helper)
        stale_save = await Session.load(saved, "ticket 7", helper)
        await first.run("two")

        with pytest.raises(ConflictError, match='"ticket 7"'):
            await stale_run.run("three")
        stale_save.metadata["changed"] = True
        with pytest.raises(ConflictError, match='"ticket 7"'):
            await stale_save.save()
        await saved.delete("ticket 7")
        with pytest.raises(ConflictError, match='"ticket 7"'):
            await first.save()


async def test_a_run_of_the_queue_says_how_it_is(url, helper):
    async with store.from_url(url) as saved:
        if url.startswith(("redis", "file")):
            with pytest.raises(ValueError, match="has no queue"):
                await saved.enqueue("s", "hello")
            return
        id = await saved.enqueue("s", "hello")

        run = await saved.run(id)
        assert (run.status, run.turn, run.error) == ("queued", None, None)
        with pytest.raises(KeyError, match="unknown"):
            await saved.run("unknown")
        with pytest.raises(KeyError, match="unknown"):
            saved.run_sync("unknown")


async def test_the_first_key_writes_and_all_keys_read(url, helper):
    plain = store.from_url(url)
    async with store.encrypted(url, {"old": KEYS["old"]}) as saved:
        await (await Session.open(saved, "s", helper)).run("one")
        both = store.encrypted(plain, KEYS)
        await (await Session.load(both, "s", helper)).run("two")

        with pytest.raises(StoreError, match=r"key|decrypt"):
            await Session.load(saved, "s", helper)
        with pytest.raises(StoreError, match=r"key|decrypt"):
            await Session.load(store.encrypted(plain, {"old": b"w" * 32}), "s", helper)
        assert await both.rotate() == 1
        only_new = store.encrypted(plain, {"new": KEYS["new"]})
        assert texts(await Session.load(only_new, "s", helper))[::2] == ["one", "two"]


async def test_an_absolute_url_of_sqlite_has_four_slashes(tmp_path, monkeypatch, helper):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()

    await session(helper, id="s", persistence=f"sqlite:////{str(tmp_path)[1:]}/folder/x.db").run("one")
    await session(helper, id="s", persistence="sqlite:///x.db").run("two")
    await session(helper, id="s", persistence=f"file://{tmp_path}/files").run("three")

    assert texts(await Session.load(store.sqlite("folder/x.db"), "s", helper))[0] == "one"
    assert texts(await Session.load(store.sqlite("x.db"), "s", helper))[0] == "two"
    assert texts(await Session.load(store.file("files"), "s", helper))[0] == "three"


@pytest.mark.parametrize(
    "url",
    ["postgresql://ann:SECRET@127.0.0.1:1/db?connect_timeout=1", "redis://:SECRET@127.0.0.1:1/0"],
)
async def test_errors_name_the_host_and_never_the_password(url, helper):
    saved = store.from_url(url)
    for attempt in (saved.sessions(), saved.check(), Session.load(saved, "s", helper)):
        with pytest.raises(StoreError, match=r"127\.0\.0\.1") as caught:
            await asyncio.wait_for(attempt, 60)
        assert "SECRET" not in f"{caught.value!r} {caught.value.__cause__!r} {saved!r}"
    await saved.close()
