"""`Session.rebase` keeps what both writers have done, in every engine."""

from __future__ import annotations

from datetime import timedelta

import pytest

from turntree import ConflictError, Session, agent, store
from turntree.upp import ToolCall, UPPError, scripted, tool


@pytest.fixture
def helper():
    return agent(model=scripted(lambda request: f"re {request.messages[-1].text}"))


def texts(sess):
    return [message.text for message in sess.tree.history()]


def everything(sess):
    return sorted(message.text for node in sess.tree.nodes.values() for message in node.thread.messages)


async def conflict(awaitable):
    with pytest.raises(ConflictError):
        await awaitable


@pytest.mark.parametrize("interval", ["turn", "tool"])
async def test_two_writers_that_have_created_a_session_keep_both_turns(url, helper, interval):
    async with store.from_url(url) as saved:
        first = await Session.open(saved, "s", helper, save_interval=interval)
        second = await Session.open(saved, "s", helper, save_interval=interval)
        await first.run("first")
        await conflict(second.run("second"))

        await second.rebase()
        if second.is_unfinished:
            await second.resume()
        await second.save()

        loaded = await Session.load(saved, "s", helper)
        assert texts(loaded) == ["second", "re second"]
        assert everything(loaded) == ["first", "re first", "re second", "second"]
        assert texts(loaded) == texts(second)
        await loaded.run("more")
        assert texts(loaded) == ["second", "re second", "more", "re more"]
        assert await saved.check() == []


async def test_a_new_session_without_changes_takes_what_is_stored(url, helper):
    async with store.from_url(url) as saved:
        second = await Session.open(saved, "s", helper)
        first = await Session.open(saved, "s", helper)
        await first.run("first")

        await second.rebase()

        assert second.to_dict()["threadTree"] == first.to_dict()["threadTree"]
        await second.run("second")
        assert texts(second) == ["first", "re first", "second", "re second"]


async def test_a_session_that_was_deleted_and_created_again_keeps_both_turns(url, helper):
    async with store.from_url(url) as saved:
        old = await Session.open(saved, "s", helper, save_interval="turn")
        await old.run("old")
        await saved.delete("s")
        with pytest.raises(ConflictError, match="from_json"):
            await old.rebase()
        new = await Session.open(saved, "s", helper)
        await new.run("new")
        await conflict(old.run("more"))

        await old.rebase()
        await old.save()

        loaded = await Session.load(saved, "s", helper)
        assert texts(loaded) == ["old", "re old", "more", "re more"]
        assert everything(loaded) == sorted([*texts(loaded), "new", "re new"])


async def test_a_copy_of_a_deleted_session_can_be_stored_again(url, helper):
    async with store.from_url(url) as saved:
        sess = await Session.open(saved, "s", helper)
        await sess.run("one")
        await saved.delete("s")

        copy = Session.from_json(sess.to_json(), helper, persistence=saved)
        await copy.save()

        assert texts(await Session.load(saved, "s", helper)) == ["one", "re one"]


async def test_the_turn_after_a_restore_survives_a_rebase(url, helper):
    """The turn takes the place of another one in the same node."""
    async with store.from_url(url) as saved:
        first = await Session.open(saved, "s", helper, save_interval="turn")
        await first.run("one")
        checkpoint = first.checkpoints[-1].id
        await first.run("two")
        second = await Session.load(saved, "s", helper, save_interval="turn")
        await second.restore(checkpoint)
        first.metadata["seen"] = True
        await first.save()
        await conflict(second.run("instead"))

        await second.rebase()
        await second.save()

        loaded = await Session.load(saved, "s", helper)
        assert texts(loaded) == ["one", "re one", "instead", "re instead"]
        assert {"two", "re two"} <= set(everything(loaded))
        assert loaded.metadata == {"seen": True}


async def test_a_turn_on_a_branch_that_was_pruned_is_complete_after_a_rebase(url, helper):
    async with store.from_url(url) as saved:
        first = await Session.open(saved, "s", helper, save_interval="turn")
        await first.run("one")
        root = first.tree.current
        branch = first.tree.branch(root.id)
        unused = first.tree.branch(root.id)
        first.tree.checkout(branch)
        await first.run("two")
        first.tree.checkout(unused)
        await first.run("unused")
        first.tree.checkout(root.id)
        await first.run("three")
        second = await Session.load(saved, "s", helper, save_interval="turn")
        second.tree.checkout(branch)
        await saved.prune(timedelta(0))
        await conflict(second.run("four"))

        await second.rebase()
        await second.save()

        loaded = await Session.load(saved, "s", helper)
        assert texts(loaded) == ["one", "re one", "two", "re two", "four", "re four"]
        assert {"three", "re three"} <= set(everything(loaded))
        assert "unused" not in everything(loaded)
        assert await saved.check() == []


async def test_a_rebase_merges_the_keys_of_metadata(url, helper):
    async with store.from_url(url) as saved:
        first = await Session.open(saved, "s", helper, metadata={"kept": 1, "both": 1, "gone": 1, "theirs": 1})
        await first.save()
        second = await Session.load(saved, "s", helper)
        first.metadata.update(theirs=2, both=2, new=2)
        await first.save()
        second.metadata.update(both=3, ours=3)
        del second.metadata["gone"]
        await conflict(second.save())

        await second.rebase()

        assert second.metadata == {"kept": 1, "both": 3, "theirs": 2, "new": 2, "ours": 3}
        await second.save()
        assert (await Session.load(saved, "s", helper)).metadata == second.metadata


class Payment:
    """An agent with a tool that pays; its model fails after the payment until `works`."""

    def __init__(self) -> None:
        self.works = False
        self.paid = 0

        @tool
        async def pay() -> str:
            """Pay."""
            self.paid += 1
            return "paid"

        self.agent = agent(model=scripted(self.reply), tools=[pay])

    def reply(self, request):
        if request.messages[-1].type == "user":
            return ToolCall("c1", "pay", {})
        if not self.works:
            raise UPPError("overloaded", "PROVIDER_ERROR")
        return "thanks"

    async def failed(self, saved):
        sess = await Session.open(saved, "s", self.agent)
        with pytest.raises(UPPError):
            await sess.run("pay")
        self.works = True


async def test_a_run_that_was_ended_here_is_not_unfinished_after_a_rebase(url):
    payment = Payment()
    async with store.from_url(url) as saved:
        await payment.failed(saved)
        first = await Session.load(saved, "s", payment.agent, save_interval="turn")
        other = await Session.load(saved, "s", payment.agent)
        other.metadata["seen"] = True
        await other.save()
        await conflict(first.resume())

        await first.rebase()

        assert not first.is_unfinished
        assert texts(first)[-1] == "thanks"
        await first.save()
        loaded = await Session.load(saved, "s", payment.agent)
        assert (loaded.is_unfinished, loaded.metadata, payment.paid) == (False, {"seen": True}, 1)


async def test_a_run_that_another_writer_has_ended_is_not_unfinished_after_a_rebase(url):
    payment = Payment()
    async with store.from_url(url) as saved:
        await payment.failed(saved)
        first = await Session.load(saved, "s", payment.agent)
        other = await Session.load(saved, "s", payment.agent)
        await other.resume()
        first.metadata["seen"] = True
        await conflict(first.save())

        await first.rebase()

        assert not first.is_unfinished
        assert texts(first) == texts(other)
        await first.save()
        loaded = await Session.load(saved, "s", payment.agent)
        assert (loaded.is_unfinished, loaded.metadata, payment.paid) == (False, {"seen": True}, 1)
