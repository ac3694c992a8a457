"""The idempotency keys of tool calls."""

import uuid

import pytest
from session_support import call

from turntree import Session, ToolContext, agent, session
from turntree.upp import Tool, llm, scripted, tool


def keyed(model, *, raises=0):
    """An agent whose tool `pay` records the keys of its calls; the first `raises` calls end the run."""
    keys = []

    @tool(inline=True)
    def pay(context: ToolContext, amount: int = 1) -> str:
        keys.append(context.idempotency_key)
        if len(keys) <= raises:
            raise KeyboardInterrupt
        return f"paid {amount}"

    return agent(model=scripted(model), tools=[pay]), keys


def same_ids(request):
    """A model that calls `pay` twice in each of two responses, with the ids of a vendor that numbers calls from 0."""
    done = sum(message.type == "tool_result" for message in request.messages)
    if done == 2:
        return "done"
    return [{**call("pay"), "toolCallId": "pay_0"}, {**call("pay"), "toolCallId": "pay_0"}]


async def test_key_is_a_uuid_that_differs_for_each_call():
    helper, keys = keyed(same_ids)

    await helper.run("go")
    await helper.run("go")
    sess = session(helper)
    await sess.run("go")

    assert len(keys) == len(set(keys)) == 12
    assert all(str(uuid.UUID(key)) == key for key in keys)


async def test_key_of_a_bare_model_differs_for_each_call():
    helper, keys = keyed(same_ids)

    await llm(model=scripted(same_ids), tools=helper.tools).generate("go")

    assert len(set(keys)) == 4


@pytest.mark.parametrize("reloads", [False, True])
async def test_key_of_a_repeated_call_is_the_same(reloads):
    helper, keys = keyed([call("pay"), "done"], raises=2)
    sess = session(helper)
    with pytest.raises(KeyboardInterrupt):
        await sess.run("go")
    if reloads:
        sess = Session.from_json(sess.to_json(), helper)
    with pytest.raises(KeyboardInterrupt):
        await sess.resume()
    if reloads:
        sess = Session.from_json(sess.to_json(), helper)
    await sess.resume()

    assert len(keys) == 3
    assert len(set(keys)) == 1


async def test_key_of_a_sub_agents_call_differs_from_the_callers():
    helper, keys = keyed([call("pay"), "done"])
    keys_of_caller = []

    @tool
    def note(context: ToolContext) -> str:
        keys_of_caller.append(context.idempotency_key)
        return "ok"

    outer = agent(
        model=scripted([[call("note"), call("payer", task="go")], "done"]), tools=[note, helper.to_tool(name="payer")]
    )
    await outer.run("go")

    assert len({*keys, *keys_of_caller}) == 2


def test_tools_say_whether_they_are_idempotent():
    @tool(idempotent=True)
    def look() -> str:
        return "ok"

    assert look.idempotent
    assert not tool(len).idempotent
    assert Tool("look", "Look.", None, lambda: "ok", idempotent=True).idempotent
    with pytest.raises(TypeError, match="idempotent must be a bool, not str"):
        tool(idempotent="yes")(len)
