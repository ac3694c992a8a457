"""Exchanges recorded with the loopback server and replayed without it. UPP-1.2 §9 (transport), docs/replay.md."""

import asyncio
import contextlib
import importlib.util
import json
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from turntree import agent
from turntree.testing import ErrorReply, Reply, ToolCall, serve
from turntree.upp import (
    ErrorCode,
    LinearBackoff,
    ProviderConfig,
    UPPError,
    anthropic,
    embedding,
    image,
    openai,
    replay,
    scripted,
    tool,
)

KEY = "sk-secret-0123456789abcdef"
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def no_keys_of_this_machine(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny"


def chat(url, **options):
    return agent(model=openai("gpt", "completions", base_url=url, **options), tools=[weather])


def responses(url, **options):
    return agent(model=openai("gpt", base_url=url, **options), tools=[weather])


def messages(url, **options):
    return agent(model=anthropic("claude", base_url=url, **options), params={"max_tokens": 9}, tools=[weather])


WIRES = [chat, responses, messages]
SCRIPT = [ToolCall("weather", {"city": "Tokyo"}), "It is sunny in Tokyo."]


async def ask(helper, text, is_streamed):
    if not is_streamed:
        return (await helper.run(text)).response.text
    stream = helper.stream(text)
    async for _ in stream:
        pass
    return (await stream.turn).response.text


def at_nowhere(path, url):
    """Change the recording to an address without a server, to show that a replay uses no network."""
    path.write_text(path.read_text().replace(url, NOWHERE))


@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("make", WIRES, ids=lambda make: make.__name__)
def test_run_with_tools_is_replayed_without_server_and_key(run, tmp_path, make, is_streamed):
    path = tmp_path / "run.json"
    with serve(SCRIPT) as server, replay(path, "record") as tape:
        url = server.base_url
        lived = run(ask(make(url, api_key=KEY), "Weather?", is_streamed))
    assert tape.recorded == 2
    assert KEY not in path.read_text()
    at_nowhere(path, url)

    with replay(path) as tape:
        played = run(ask(make(url.replace(url, NOWHERE)), "Weather?", is_streamed))

    assert played == lived == "It is sunny in Tokyo."
    assert (tape.played, tape.unused) == (2, [])


def test_recording_can_be_the_transport_of_a_provider(tmp_path):
    path = tmp_path / "nested" / "one.json"
    with serve(["Hello."]) as server:
        tape = replay(path, "once")
        chat(server.base_url, api_key=KEY, transport=tape).run_sync("Hi")
        tape.save()

        again = replay(path, "once")
        config = ProviderConfig(base_url=server.base_url, transport=again)
        turn = agent(model=openai("gpt", "completions"), tools=[weather], config=config).run_sync("Hi")

        assert len(server.requests) == 1
    assert (tape.mode, again.mode, turn.response.text) == ("record", "replay", "Hello.")


def test_unrecorded_request_error_describes_the_difference(tmp_path):
    path = tmp_path / "one.json"
    with serve(["Hello."]) as server, replay(path, "record"):
        url = server.base_url
        chat(url, api_key=KEY).run_sync("Hi")

    with replay(path) as tape, pytest.raises(UPPError) as caught:
        chat(url).run_sync("Bye")

    assert caught.value.code == ErrorCode.INVALID_REQUEST
    for part in ("exchange 0", '/messages/0/content (recorded "Hi", requested "Bye")', "one.json", 'mode="auto"'):
        assert part in caught.value.message
    assert [unused["index"] for unused in tape.unused] == [0]
    with replay(path, ignore=["/messages/*/content"]):
        assert chat(url).run_sync("Bye").response.text == "Hello."


def test_retries_are_replayed(run, tmp_path):
    path = tmp_path / "retries.json"
    options = {"api_key": KEY, "retry_strategy": LinearBackoff(delay=0.01)}
    with serve([ErrorReply(503), "Hello."]) as server, replay(path, "record"):
        url = server.base_url
        run(ask(chat(url, **options), "Hi", is_streamed=True))

    with replay(path) as tape:
        assert run(ask(chat(url, **options), "Hi", is_streamed=True)) == "Hello."
    assert tape.played == 2
    statuses = [exchange["response"]["status"] for exchange in json.loads(path.read_text())["exchanges"]]
    assert statuses == [503, 200]


def test_parallel_runs_replay_their_own_answers(run, tmp_path):
    path = tmp_path / "parallel.json"

    def echo(request):
        return Reply(f"You said {request.user_text}.")

    async def all_of(url):
        helper = chat(url, api_key=KEY)
        turns = await asyncio.gather(*(helper.run(f"number {n}") for n in range(8)))
        return [turn.response.text for turn in turns]

    with serve(echo) as server, replay(path, "record"):
        url = server.base_url
        lived = run(all_of(url))
    with replay(path):
        assert run(all_of(url)) == lived
    assert lived[3] == "You said number 3."


def test_replay_affects_only_calls_inside_its_block(run, tmp_path):
    path = tmp_path / "scope.json"

    async def side_by_side(url):
        async def inside():
            with replay(path, "record"):
                await chat(url, api_key=KEY).run("inside")

        await asyncio.gather(inside(), chat(url, api_key=KEY).run("outside"))

    with serve(lambda _: "Hello.") as server:
        run(side_by_side(server.base_url))

    assert "inside" in path.read_text()
    assert "outside" not in path.read_text()


def test_auto_mode_records_missing_exchanges(tmp_path):
    path = tmp_path / "auto.json"
    with serve(["one", "two"]) as server:
        for texts in (["a"], ["a", "b"], ["a", "b"]):
            with replay(path, "auto"):
                for text in texts:
                    chat(server.base_url, api_key=KEY).run_sync(text)
        assert len(server.requests) == 2
        url = server.base_url
    # Everything is recorded, so no key is needed.
    with replay(path, "auto"):
        assert chat(url).run_sync("b").response.text == "two"


def test_hook_removes_names_from_a_recording(tmp_path):
    path = tmp_path / "hook.json"

    def without_ada(exchange):
        return json.loads(json.dumps(exchange).replace("Ada", "Name"))

    with serve(["Hello, Ada."]) as server, replay(path, "record", redact=without_ada):
        url = server.base_url
        assert chat(url, api_key=KEY).run_sync("I am Ada").response.text == "Hello, Ada."
    assert "Ada" not in path.read_text()
    with replay(path, redact=without_ada):
        assert chat(url).run_sync("I am Ada").response.text == "Hello, Name."


def test_failing_hook_raises_and_nothing_is_written(tmp_path):
    path = tmp_path / "hook.json"

    asked, answered = LookupError("at once"), LookupError("no such name")

    def fails_at_once(exchange):
        raise asked

    def fails_later(exchange):
        if "response" in exchange:
            raise answered
        return exchange

    with serve(["Hello."]) as server:
        with replay(path, "record", redact=fails_at_once), pytest.raises(LookupError) as caught:
            chat(server.base_url, api_key=KEY).run_sync("Hi")
        assert caught.value is asked
        with pytest.raises(LookupError) as caught, replay(path, "record", redact=fails_later):
            chat(server.base_url, api_key=KEY).run_sync("Hi")
        assert caught.value is answered
    assert not path.exists()


def test_two_processes_record_into_one_file(tmp_path):
    path = tmp_path / "shared.json"
    code = (
        "import sys; from turntree.upp import llm, openai, replay\n"
        "with replay(sys.argv[1], 'auto'):\n"
        "    model = openai('gpt', 'completions', base_url=sys.argv[2], api_key='k-0123456789')\n"
        "    for number in range(5): llm(model=model).generate_sync(f'{sys.argv[3]}{number}')\n"
    )
    with serve(["Hello."] * 10) as server:
        started = [
            subprocess.Popen([sys.executable, "-c", code, str(path), server.base_url, name]) for name in ("a", "b")
        ]
        assert [process.wait(60) for process in started] == [0, 0]

    assert replay(path).recorded == 10
    assert [entry.name for entry in tmp_path.iterdir()] == ["shared.json"]


RECORD_ONE = (
    "import sys; from turntree.upp import llm, openai, replay\n"
    "with replay(sys.argv[1], 'auto'):\n"
    "    model = openai('gpt', 'completions', base_url=sys.argv[2], api_key='k-0123456789')\n"
    "    llm(model=model).generate_sync(sys.argv[3])\n"
)

# Holds the lock of a recording until it is killed.
HOLD_LOCK = (
    "import fcntl, sys, time\n"
    "file = open(sys.argv[1] + '.lock', 'w'); fcntl.flock(file, fcntl.LOCK_EX)\n"
    "print('locked', flush=True); time.sleep(60)\n"
)


def record(path, url, text="Hi"):
    with replay(path, "record"):
        return chat(url, api_key=KEY).run_sync(text).response.text


def test_lock_file_of_an_ended_process_does_not_delay_a_recording(tmp_path):
    path = tmp_path / "one.json"
    (tmp_path / "one.json.lock").touch()

    with serve(["Hello."]) as server:
        record(path, server.base_url)

    assert replay(path).recorded == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["one.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="fcntl")
def test_killed_owner_of_the_lock_is_replaced_and_no_exchange_is_lost(tmp_path):
    path = tmp_path / "shared.json"
    owner = subprocess.Popen([sys.executable, "-c", HOLD_LOCK, str(path)], stdout=subprocess.PIPE)
    assert owner.stdout.readline() == b"locked\n"
    with serve(["Hello."] * 2) as server:
        recorders = [
            subprocess.Popen([sys.executable, "-c", RECORD_ONE, str(path), server.base_url, text]) for text in "ab"
        ]
        while len(server.requests) < 2:
            time.sleep(0.01)  # the poll interval
        assert [recorder.poll() for recorder in recorders] == [None, None]
        owner.kill()
        owner.communicate()

        assert [recorder.wait(30) for recorder in recorders] == [0, 0]

    assert replay(path).recorded == 2


@pytest.mark.skipif(sys.platform == "win32", reason="file modes of POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_recording_again_keeps_the_mode_of_the_file(tmp_path, mode):
    path = tmp_path / "one.json"
    with serve(["Hello."] * 2) as server:
        record(path, server.base_url)
        path.chmod(mode)
        record(path, server.base_url)

    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege")
@pytest.mark.parametrize("exists", [True, False])
def test_recording_through_a_symbolic_link_changes_its_target(tmp_path, exists):
    target, link, other = tmp_path / "data" / "one.json", tmp_path / "link.json", tmp_path / "other.json"
    target.parent.mkdir()
    other.symlink_to("link.json")
    link.symlink_to("data/one.json")
    with serve(["Hello."] * 2) as server:
        if exists:
            record(target, server.base_url)
        record(other, server.base_url, "through the link")

    assert link.is_symlink()
    assert other.is_symlink()
    assert "through the link" in target.read_text()
    assert sorted(entry.name for entry in tmp_path.rglob("*")) == ["data", "link.json", "one.json", "other.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="files in place of folders")
@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("make", WIRES, ids=lambda make: make.__name__)
def test_run_fails_if_its_recording_cannot_be_written(run, tmp_path, make, is_streamed):
    folder = tmp_path / "folder"
    with serve(["Hello."]) as server:
        tape = replay(folder / "one.json", "record")
        folder.write_text("a file instead of the folder")

        with pytest.raises(UPPError) as caught:
            run(ask(make(server.base_url, api_key=KEY, transport=tape), "Hi", is_streamed))
        with pytest.raises(OSError, match=r"one\.json"):
            tape.save()

    assert str(folder / "one.json") in caught.value.message


@pytest.mark.skipif(sys.platform == "win32", reason="files in place of folders")
def test_block_fails_if_its_recording_cannot_be_written(run, tmp_path):
    folder = tmp_path / "folder"

    def record_stream(url):
        with replay(folder / "one.json", "record"):
            folder.write_text("a file instead of the folder")
            with contextlib.suppress(UPPError):
                run(ask(chat(url, api_key=KEY), "Hi", is_streamed=True))

    with serve(["Hello."]) as server, pytest.raises(OSError, match=r"folder.one\.json"):
        record_stream(server.base_url)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_device_is_not_replaced_by_a_recording():
    with serve(["Hello."]) as server:
        tape = replay("/dev/full", "record")
        with pytest.raises(UPPError, match="/dev/full: it is not a file"):
            chat(server.base_url, api_key=KEY, transport=tape).run_sync("Hi")

    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"format": "turntree.replay", "version": 1, "exchanges": [', "truncated"),
        ("not json", "not JSON"),
        ('{"interactions": []}', "check the path"),
        ('{"format": "turntree.replay", "version": 99, "exchanges": []}', "upgrade"),
    ],
)
def test_error_of_an_unusable_recording_states_the_reason(tmp_path, text, reason):
    path = tmp_path / "broken.json"
    path.write_text(text)

    with pytest.raises(ValueError, match=reason) as caught:
        replay(path)

    assert str(path) in str(caught.value)


def test_error_names_an_invalid_argument(tmp_path):
    with pytest.raises(FileNotFoundError, match="no recording at"):
        replay(tmp_path / "none.json")
    with pytest.raises(ValueError, match='not "play"'):
        replay(tmp_path / "none.json", "play")
    with pytest.raises(ValueError, match="invalid JSON pointer"):
        replay(tmp_path / "none.json", "record", ignore=["messages"])
    with pytest.raises(TypeError, match="transport must be a replay"):
        openai("gpt", transport="cassette.json")


def test_scripted_models_are_not_recorded(tmp_path):
    with replay(tmp_path / "none.json", "record") as tape:
        assert agent(model=scripted(["Hi."])).run_sync("Hi").response.text == "Hi."
    assert tape.recorded == 0
    assert not (tmp_path / "none.json").exists()


@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
def test_recordings_of_version_1_can_be_replayed(run, root, wire, is_streamed):
    folder = root / "tests" / "data" / "replay"
    spec = importlib.util.spec_from_file_location("make_replay", folder / "make.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)

    with replay(folder / f"{wire}_{'streamed' if is_streamed else 'plain'}.json") as tape:
        answer = run(make.ask(wire, make.ADDRESS, is_streamed))

    assert answer == make.ANSWER
    assert (tape.played, tape.unused) == (3, [])


# Vectors and pictures


def vectors(url):
    return embedding(model=openai("text-embedding-3-small", base_url=url))


def pictures(url):
    return image(model=openai("gpt-image-1", base_url=url))


def test_replay_block_covers_embedding_and_image_calls(run, tmp_path, monkeypatch):
    path = tmp_path / "both.json"

    async def ask_for_all(url):
        stream = vectors(url).embed(["c", "d"], chunked=True, batch_size=1, concurrency=2)
        drawing = pictures(url).stream("a hen")
        return [
            await vectors(url).embed(["a", "b"]),
            [len(progress.embeddings) async for progress in stream],
            await stream.result,
            await pictures(url).generate("a fox"),
            [event.type async for event in drawing],
            await drawing.result,
        ]

    with serve([""] * 7) as server, replay(path, "record") as recording, monkeypatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        lived = run(ask_for_all(server.base_url))
        lived.append(vectors(server.base_url).embed_sync("e"))
        lived.append(pictures(server.base_url).generate_sync("a cat"))
        url = server.base_url
    with replay(path) as played:
        again = run(ask_for_all(url))
        again.append(vectors(url).embed_sync("e"))
        again.append(pictures(url).generate_sync("a cat"))

    assert recording.recorded == 7
    assert again == lived
    assert (played.played, played.unused) == (7, [])
    assert KEY not in path.read_text()
    with pytest.raises(UPPError), replay(path):
        vectors(url).embed_sync("nobody recorded this")
