"""Files that the installed LangGraph and OpenAI Agents SDK write are imported.

The packages of `requirements/import-tests.txt` are installed once, in an environment below `target`.
"""

import subprocess
from pathlib import Path

import pytest
from import_support import SOURCES, drawn, needs_msgpack, texts
from support.client_environment import client_environment

import turntree
from turntree import Session, agent, store
from turntree.upp import scripted


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with files that the packages have written now."""
    folder = tmp_path_factory.mktemp("sources")
    program = [environment(), SOURCES / "make_sources.py", folder]
    subprocess.run([str(part) for part in program], check=True, capture_output=True, text=True)
    return folder


def environment():
    """The Python of an environment with the packages."""
    return client_environment("import-tests", "files that LangGraph and the OpenAI Agents SDK write now")


def shape(report):
    """What must be the same for the committed files and new ones."""
    return {row.source.rpartition(".db")[2]: row[2:7] for row in report.sessions}


@needs_msgpack
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["langgraph.db", "langgraph-changes.db", "openai.db", "openai-branches.db"])
def test_files_of_the_real_packages_are_imported_like_the_committed_ones(written, name):
    new, committed = store.memory(), store.memory()

    report = new.import_from_sync(written / name)

    assert shape(report) == shape(committed.import_from_sync(SOURCES / name))
    assert new.check_sync() == []


@needs_msgpack
@pytest.mark.timeout(600)
async def test_a_new_thread_of_langgraph_is_continued(written):
    sessions = store.memory()
    await sessions.import_from(written / "langgraph.db")

    session = await Session.open(sessions, "shop", agent(model=scripted(["Sleep well."])))
    await session.run("Thanks")

    assert texts(session)[-1] == ("assistant", "Sleep well.")
    assert [size for _, _, size in drawn(session)] == [6, 4]


TOOLS = """
import asyncio
import agents, langchain_core.tools
from turntree import agent
from turntree.upp import scripted, tool

def double(a: int) -> int:
    "Double a number."
    return a * 2

async def result_of(foreign):
    model = scripted([{"toolName": "double", "arguments": {"a": 2}}, "done"])
    return (await agent(model=model, tools=[foreign]).run("Go")).tool_executions[0].result

async def main():
    ours = tool(double)
    print(
        await result_of(langchain_core.tools.tool(double)),
        await result_of(agents.function_tool(double)),
        langchain_core.tools.tool(ours).invoke({"a": 2}),
        agents.function_tool(ours.run).name,
    )

asyncio.run(main())
"""


@pytest.mark.timeout(600)
def test_tools_of_the_real_packages_are_accepted_and_accept_ours(tmp_path):
    # Only turntree itself: the environment has other versions of the packages of this one.
    (tmp_path / "turntree").symlink_to(Path(turntree.__file__).parent)
    program = [str(environment()), "-c", TOOLS]
    done = subprocess.run(program, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False)

    assert done.stdout.split() == ["4", "4", "4", "double"], done.stderr
