"""Random operations on sessions of every engine, compared with a session in memory that has no store.

Both execute the same operations. The one with the store is also saved, loaded, reloaded and rebased, its store is
closed and opened again, and other writers change it.
"""

import asyncio
import itertools
import os

import pytest
from crash_engines import EVERY, url_of
from crash_sessions import content_of
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from turntree import ApprovalRequired, ConflictError, Session, agent, session, store
from turntree.upp import scripted, tool

# How many random sequences of operations are tried for each engine.
EXAMPLES = int(os.environ.get("TURNTREE_MODEL_EXAMPLES", "4"))


class ModelDown(Exception):
    """The failure of a model."""


@tool(approval="ask")
def act(text: str) -> str:
    """Act."""
    return f"acted {text}"


def make_agent(failed: set[str]):
    """Return an agent. Its replies depend on the text of the user, which starts with "say", "fail" or "ask".

    `failed` has the turns whose first call of the model has failed.
    """

    def reply(request):
        text = next(message.text for message in reversed(request.messages) if message.type == "user")
        if text.startswith("fail") and text not in failed:
            failed.add(text)
            return ModelDown()
        if text.startswith("ask") and request.messages[-1].type != "tool_result":
            return [{"toolCallId": text, "toolName": "act", "arguments": {"text": text}}]
        return f"re {text}"

    return agent(id="5d7a2b0c-6c0e-4f57-9f0a-0e2f5f7f1a11", model=scripted(reply), tools=[act])


def shape(sess: Session) -> list[object]:
    """Return what the session contains without generated ids and times."""
    nodes = sess.tree.nodes
    order = {id: index for index, id in enumerate(nodes)}
    return [
        order[sess.tree.current.id],
        sess.is_unfinished,
        [call.tool_call_id for call in sess.pending],
        [content_of(message) for message in sess.restored],
        len(sess.checkpoints),
        *(
            (
                node.name,
                order.get(node.parent_id),
                node.branch_point,
                [order[child] for child in node.children],
                [content_of(message) for message in node.thread.messages],
            )
            for node in nodes.values()
        ),
    ]


class Sessions(RuleBasedStateMachine):
    """A session in a store, and its twin without one."""

    url = ""
    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.store = store.from_url(self.url)
        self.id = f"s{next(self.numbers)}"
        self.texts = itertools.count()
        self.agents = make_agent(set()), make_agent(set())

    def teardown(self) -> None:
        self.check()
        self.loop.run_until_complete(self.store.delete(self.id))
        self.loop.close()

    def wait(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def load(self, interval: str = "turn") -> Session:
        return self.wait(Session.load(self.store, self.id, self.agents[0], save_interval=interval))

    def save(self) -> None:
        self.wait(self.session.save())
        self.check()

    def check(self) -> None:
        """Compare the session, what the store has, and the twin."""
        expected = shape(self.twin)
        assert shape(self.session) == expected
        assert shape(self.load()) == expected
        (info,) = [info for info in self.wait(self.store.sessions(limit=1000)) if info.id == self.id]
        users = [one for node in self.twin.tree.nodes.values() for one in node.thread.messages if one.type == "user"]
        assert (info.nodes, info.turns) == (len(self.twin.tree.nodes), len(users))
        assert info.status == ("waiting" if self.twin.pending else "unfinished" if self.twin.is_unfinished else "idle")

    def text(self, kind: str = "say") -> str:
        return f"{kind} {next(self.texts)}"

    @initialize(interval=st.sampled_from(["tool", "step", "turn"]))
    def open(self, interval) -> None:
        self.interval = interval
        self.session = self.wait(Session.open(self.store, self.id, self.agents[0], save_interval=interval))
        self.twin = session(self.agents[1], id=self.id)
        self.save()

    @precondition(lambda self: not self.twin.is_unfinished)
    @rule(kind=st.sampled_from(["say", "say", "fail", "ask"]))
    def run(self, kind) -> None:
        text = self.text(kind)
        for one in (self.session, self.twin):
            if kind == "fail":
                with pytest.raises(ModelDown):
                    self.wait(one.run(text))
            elif kind == "ask":
                with pytest.raises(ApprovalRequired):
                    self.wait(one.run(text))
            else:
                self.wait(one.run(text))
        self.save()

    @precondition(lambda self: self.twin.is_unfinished)
    @rule(approve=st.booleans())
    def resume(self, approve) -> None:
        for one in (self.session, self.twin):
            if approve:
                one.approve_all()
            else:
                one.deny_all("no")
            self.wait(one.resume())
        self.save()

    @rule(data=st.data(), go=st.booleans())
    def branch(self, data, go) -> None:
        parent = data.draw(st.integers(0, len(self.twin.tree) - 1))
        for one in (self.session, self.twin):
            id = one.tree.branch(list(one.tree.nodes)[parent], name=f"of {parent}")
            if go:
                one.tree.checkout(id)
        self.save()

    @rule(data=st.data())
    def checkout(self, data) -> None:
        node = data.draw(st.integers(0, len(self.twin.tree) - 1))
        for one in (self.session, self.twin):
            one.tree.checkout(list(one.tree.nodes)[node])
        self.save()

    @precondition(lambda self: not self.twin.is_unfinished and len(self.twin.tree) > 1)
    @rule(data=st.data())
    def merge(self, data) -> None:
        source, target = (data.draw(st.integers(0, len(self.twin.tree) - 1)) for _ in range(2))
        outcomes = []
        for one in (self.session, self.twin):
            ids = list(one.tree.nodes)
            try:
                outcomes.append(one.tree.merge(ids[source], ids[target]))
            except Exception as error:
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1]
        self.save()

    @precondition(lambda self: self.twin.checkpoints)
    @rule(data=st.data())
    def restore(self, data) -> None:
        point = data.draw(st.integers(0, len(self.twin.checkpoints) - 1))
        for one in (self.session, self.twin):
            self.wait(one.restore(one.checkpoints[point].id))
        self.save()

    @rule()
    def crash(self) -> None:
        """Forget the session, and load it."""
        self.session = self.load(self.interval)

    @precondition(lambda self: not self.url.startswith("memory"))
    @rule()
    def reopen_store(self) -> None:
        self.wait(self.store.close())
        self.store = store.from_url(self.url)
        self.session = self.load(self.interval)

    @precondition(lambda self: not self.twin.is_unfinished)
    @rule(rebase=st.booleans())
    def conflict(self, rebase) -> None:
        """Let another writer add a turn first."""
        other, stale, theirs, ours = self.load(), self.load(), self.text(), self.text()
        before = [message.text for message in stale.tree.history()]
        self.wait(other.run(theirs))
        with pytest.raises(ConflictError):
            self.wait(stale.run(ours))
        if not rebase:
            self.wait(stale.reload())
            self.wait(self.twin.run(theirs))
            self.session = self.load(self.interval)
            assert shape(stale) == shape(self.twin)
            return
        self.wait(stale.rebase())
        self.wait(stale.save())
        rebased = stale.tree.current
        assert [message.text for message in stale.tree.history()] == [*before, ours, f"re {ours}"]
        assert [message.text for message in stale.tree.history(rebased.parent_id)] == [*before, theirs, f"re {theirs}"]
        self.session = self.load(self.interval)
        self.twin = Session.from_json(stale.to_json(), self.agents[1])


@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.timeout(120 + 5 * EXAMPLES)
def test_a_session_behaves_as_its_model(engine, tmp_path):
    class OfEngine(Sessions):
        url = url_of(engine, tmp_path, "model")

    checked = settings(
        max_examples=EXAMPLES,
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    run_state_machine_as_test(OfEngine, settings=checked)
