"""Script of test_process_exit: forks processes that exit while a daemon thread runs. Prints failures as JSON.

Arguments: the number of processes for each scenario, then names of scenarios. A fork costs 5 ms, a new process 200 ms.
"""

import asyncio
import json
import os
import random
import sys
import threading
import time

from turntree import agent
from turntree.execution import loop
from turntree.upp import UserMessage, scripted, tool

STATUS = 7
started = threading.Event()
steps = loop(10**6)


@tool
def in_a_thread() -> int:
    started.set()
    return 1


@tool(inline=True)
def inline() -> int:
    started.set()
    return sum(range(10))


@tool(inline=True)
def inline_for_ever() -> None:
    started.set()
    while True:
        pass


@tool(inline=True)
def inline_without_the_gil() -> None:
    started.set()
    time.sleep(0.02)  # a system call that ends during the shutdown


@tool
async def as_task() -> int:
    started.set()
    await asyncio.sleep(0)
    return 1


@tool
async def nested() -> None:
    calls(inline).run_sync("go")


def calls(function):
    """An agent whose model calls the function in each step."""
    model = scripted(lambda _request: [{"toolName": function.name, "arguments": {}}])
    return agent(model=model, tools=[function], execution=steps)


def streams():
    for _ in calls(inline).stream_sync("go"):
        pass


def asks_a_function():
    helper = agent(model=scripted(lambda _request: started.set() or "Hi."))
    while True:
        helper.run_sync("go")


class Answers:
    def model_dump_json(self, **_options):
        started.set()
        return str(sum(range(10)))


def converts():
    while True:
        UserMessage("Hi.", metadata={"vendor": Answers()})


def builds_agents():
    while True:
        calls(inline)
        started.set()


def runs(function):
    return lambda: calls(function).run_sync("go")


def runs_on_loop(function):
    return lambda: asyncio.run(calls(function).run("go"))


SCENARIOS = {
    "run_sync, thread": runs(in_a_thread),
    "run_sync, inline": runs(inline),
    "run_sync, inline for ever": runs(inline_for_ever),
    "run_sync, inline without the GIL": runs(inline_without_the_gil),
    "run_sync, task": runs(as_task),
    "run_sync, nested": runs(nested),
    "stream_sync": streams,
    "loop, inline": runs_on_loop(inline),
    "loop, task": runs_on_loop(as_task),
    "model function": asks_a_function,
    "conversion": converts,
    "agents": builds_agents,
}


def leave(scenario):
    threading.Thread(target=scenario, daemon=True).start()
    assert started.wait(60)
    time.sleep(random.uniform(0, 0.01))  # another moment in each process
    sys.exit(STATUS)


def main(count, names):
    failures = {}
    for name in names or SCENARIOS:
        for _ in range(0, count, 4):
            children = []
            for _ in range(4):
                child = os.fork()
                if child == 0:
                    leave(SCENARIOS[name])
                children.append(child)
            for child in children:
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                if status != STATUS:
                    failures.setdefault(name, []).append(status)
    print(json.dumps(failures))


main(int(sys.argv[1]), sys.argv[2:])
