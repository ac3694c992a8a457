"""Claims of many processes that are killed at random: never two holders, no lost lease.

`make test-long` has 16 processes and 1000 claims of each. Each process logs what it holds. The log is append-only, so
that its order is that of the claims. A process that was killed has no exit: the next holder has a greater token.
"""

import os
import random
import subprocess
import sys
import time

import pytest

from turntree.harness import Coordination, Project

PROCESSES = int(os.environ.get("TURNTREE_CLAIM_PROCESSES", "3"))
CLAIMS = int(os.environ.get("TURNTREE_CLAIMS", "30"))
KILLS = int(os.environ.get("TURNTREE_CLAIM_KILLS", "2"))

WORKER = """
import os, random, sys, time
from turntree.harness import ClaimConflict, Coordination, Project

root, name, count, path = sys.argv[1:]
log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
work = Coordination(Project.find(root), name)
done = 0
while done < int(count):
    try:
        lease = work.acquire(f"port:{done % 2}", ttl=600)
    except ClaimConflict:
        time.sleep(random.random() / 500)
        continue
    line = f"{lease.resource} {lease.token} {name}\\n"
    os.write(log, f"enter {line}".encode())
    os.write(log, f"exit {line}".encode())
    if not lease.release():
        os.write(log, f"lost {line}".encode())
    done += 1
work.close()
"""


def start(root, name, count, log):
    return subprocess.Popen([sys.executable, "-c", WORKER, str(root), name, str(count), str(log)])


def exits_of(log, slot):
    lines = log.read_text().splitlines() if log.exists() else []
    return sum(line.startswith("exit ") and line.rpartition(" ")[2].startswith(f"{slot}-") for line in lines)


@pytest.mark.timeout(1800)
def test_processes_that_are_killed_never_share_a_claim(tmp_path):
    root, log = tmp_path / "project", tmp_path / "log"
    root.mkdir()
    Project.find(root)
    draw = random.Random(3)
    running = {slot: start(root, f"{slot}-0", CLAIMS, log) for slot in range(PROCESSES)}
    killed = set()
    kills = 0
    while any(process.poll() is None for process in running.values()):
        time.sleep(0.05)
        slot = draw.randrange(PROCESSES)
        # A process is killed when it has made some claims, so that it may hold one.
        if kills < KILLS and exits_of(log, slot) > 0 and running[slot].poll() is None:
            running[slot].kill()
            running[slot].wait()
            killed.update(f"{slot}-{number}" for number in range(kills + 1))
            kills += 1
            running[slot] = start(root, f"{slot}-{kills}", max(CLAIMS - exits_of(log, slot), 1), log)

    assert all(process.returncode == 0 for process in running.values())
    holders, tokens, count = {}, {}, 0
    for line in log.read_text().splitlines():
        kind, resource, token, name = line.split()
        assert kind != "lost", line
        if kind == "enter":
            holder = holders.get(resource)
            assert holder is None or holder in killed, f"{name} and {holder} hold {resource}"
            assert int(token) > tokens.get(resource, 0), line
            holders[resource], tokens[resource] = name, int(token)
            count += 1
        else:
            assert holders[resource] == name, line
            holders[resource] = None
    assert count >= PROCESSES * CLAIMS
    # What the killed ones held is free.
    rest = Coordination(Project.find(root), "rest")
    assert [rest.acquire(f"port:{number}").resource for number in range(2)] == ["port:0", "port:1"]
