"""The pytest plugin, in pytest processes of its own."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from turntree.testing import serve

TESTS = """
import pytest
from turntree import agent
from turntree.upp import UPPError, openai, ToolCall, tool


async def ask(model):
    return await agent(model=model).run("hi")


async def test_scripted(turntree):
    turn = await ask(turntree.scripted("hello"))
    turntree.expect(turn).text_equals("hello").not_called()


async def test_real_requests_are_refused_without_a_key():
    with pytest.raises(UPPError, match="a test tried to send a request to api.openai.com"):
        await ask(openai("gpt-5"))


@pytest.mark.turntree_requests("api.openai.com")
async def test_a_host_can_be_allowed():
    with pytest.raises(UPPError, match="OPENAI_API_KEY"):
        await ask(openai("gpt-5"))


async def test_the_guard_is_there_again():
    with pytest.raises(UPPError, match="turntree_requests"):
        await ask(openai("gpt-5"))


async def test_this_machine_can_be_reached(turntree):
    with turntree.serve("from the server") as server:
        turn = await ask(openai("gpt-5", base_url=server.base_url, api_key="k"))
    assert turn.text == "from the server"
"""

RECORDED = """
from turntree import agent
from turntree.upp import openai


async def test_recorded(turntree):
    with turntree.replay():
        turn = await agent(model=openai("gpt-5", base_url="URL", api_key="k")).run("hi")
    assert turn.text == "recorded"
"""


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    plugins = ["-p", "no:turntree", "-p", "turntree.testing._pytest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-c", "pytest.ini", *plugins]
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return subprocess.run(
        [*command, *arguments], cwd=folder, env={**settings, **environment}, capture_output=True, text=True, check=False
    )


def test_scripted_models_and_the_guard(tmp_path: Path) -> None:
    (tmp_path / "test_agent.py").write_text(TESTS, encoding="utf-8")
    result = run(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "5 passed" in result.stdout


def test_requests_are_recorded_on_demand_and_played_otherwise(tmp_path: Path) -> None:
    (tmp_path / "test_agent.py").write_text(RECORDED, encoding="utf-8")
    missing = run(tmp_path)
    assert missing.returncode == 1
    assert "recordings" in missing.stdout

    with serve("recorded") as server:
        here = RECORDED.replace("URL", server.base_url)
        (tmp_path / "test_agent.py").write_text(here, encoding="utf-8")
        recorded = run(tmp_path, "--turntree-record")
        assert recorded.returncode == 0, recorded.stdout
    assert (tmp_path / "recordings" / "test_agent" / "test_recorded.jsonl").is_file()
    played = run(tmp_path)
    assert played.returncode == 0, played.stdout


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path, "-o", "turntree_requests=maybe")
    assert result.returncode == 4
    assert 'turntree_requests must be "refuse" or "allow", not "maybe"' in result.stderr


def test_the_plugin_is_an_entry_point_of_the_package() -> None:
    [plugin] = entry_points(group="pytest11", name="turntree")
    assert plugin.value == "turntree.testing._pytest"
