"""A server that is killed loses nothing that it has acknowledged, and doubles nothing that has an idempotency key."""

import contextlib
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from uaip_stores import STORES, store_url

PROGRAM = Path(__file__).with_name("killed_server.py")
ROUNDS = 8


@contextlib.contextmanager
def server(store, log):
    command = [sys.executable, str(PROGRAM), store, str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            with httpx.Client(base_url=process.stdout.readline().strip(), trust_env=False, timeout=10) as http:
                yield process, http
        finally:
            process.kill()


def add(http, session, key, **args):
    body = {"action": "method_call", "task": "add", "args": args}
    return http.post("/execute", json=body, headers={"x-session-id": session, "idempotency-key": key})


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", STORES)
def test_kills_between_and_inside_of_actions_lose_and_double_nothing(kind, tmp_path):
    store, log = store_url(kind, tmp_path), tmp_path / "log"
    with server(store, log) as (_, http):
        session = http.post("/initialize", json={}).json()["session_id"]
    acknowledged = 0
    for round in range(ROUNDS):
        with server(store, log) as (process, http):
            assert add(http, session, f"between-{round}").json()["result"] == acknowledged + 1
            acknowledged += 1
            process.kill()
        runs = len(log.read_text().splitlines())
        with server(store, log) as (process, http):
            # The answer of an action that was acknowledged is repeated, and its task does not run again.
            assert add(http, session, f"between-{round}").json()["result"] == acknowledged
            assert len(log.read_text().splitlines()) == runs
            with httpx.Client(base_url=http.base_url, trust_env=False, timeout=10) as other:
                request = other.build_request(
                    "POST",
                    "/execute",
                    json={"action": "method_call", "task": "add", "args": {"slow": True}},
                    headers={"x-session-id": session, "idempotency-key": f"inside-{round}"},
                )
                killer = subprocess.Popen([sys.executable, "-c", KILLER, str(process.pid), str(log), str(runs + 1)])
                with pytest.raises(httpx.TransportError):
                    other.send(request)
                killer.wait()
        with server(store, log) as (_, http):
            # Nothing of the action that was killed is stored.
            view = http.get(f"/sessions/{session}").json()
            assert view["state"]["count"] == acknowledged
            again = add(http, session, f"inside-{round}-again").json()
            assert again["result"] == acknowledged + 1
            acknowledged += 1


KILLER = """
import os, signal, sys, time
from pathlib import Path

pid, log, count = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
while len(log.read_text().splitlines()) < count:
    time.sleep(0.01)
os.kill(pid, signal.SIGKILL)
"""
