"""Calls that wait for a person, and decisions, are stored with the session: a server that is killed forgets neither."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from uaip_stores import STORES, store_url

PROGRAM = Path(__file__).with_name("killed_approvals.py")


class Till:
    """The program, and a client of it."""

    def __init__(self, process):
        self.process = process
        self.http = httpx.Client(base_url=process.stdout.readline().strip(), trust_env=False, timeout=20)

    def tell(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def open(self):
        return self.http.post("/initialize", json={}).json()["session_id"]

    def pay(self, session, amount):
        body = {"action": "method_call", "task": "pay", "args": {"amount": amount}}
        return self.http.post("/execute", json=body, headers={"x-session-id": session}).json()


@contextlib.contextmanager
def till(store):
    """Run the program, and kill it at the end."""
    command = [sys.executable, str(PROGRAM), store]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, encoding="utf-8") as process:
        running = Till(process)
        try:
            yield running
        finally:
            process.kill()
            running.http.close()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", STORES)
def test_approvals_and_decisions_survive_kills(kind, tmp_path):
    store = store_url(kind, tmp_path)
    with till(store) as running:
        session, other = running.open(), running.open()
        asked = running.pay(session, 5)
        denied = running.pay(session, 6)
        foreign = running.pay(other, 5)
        assert asked["status"] == denied["status"] == foreign["status"] == "approval_required"
        assert asked["approval"] == {"id": asked["approval"]["id"], "task": "pay", "arguments": {"amount": 5}}
    with till(store) as running:
        # The calls that wait are still there, and a repeated call has the same id.
        waiting = running.tell("list")
        assert waiting == [asked["approval"], denied["approval"], foreign["approval"]]
        assert running.pay(session, 5)["approval"] == asked["approval"]
        running.tell(f"approve {asked['approval']['id']}")
        running.tell(f"deny {denied['approval']['id']}")
        assert running.tell("list") == [foreign["approval"]]
    with till(store) as running:
        # The decisions are still there; the approval of one session is not one of another.
        assert running.pay(other, 5)["status"] == "approval_required"
        paid = running.pay(session, 5)
        assert (paid["status"], paid["result"]) == ("ok", 5)
        refused = running.pay(session, 6)
        assert (refused["status"], refused["content"]) == (
            "task_error",
            "Error: a person has denied the call: too much",
        )
    with till(store) as running:
        # A decision is for one call.
        assert running.pay(session, 5)["status"] == "approval_required"
        assert running.pay(session, 6)["status"] == "approval_required"
