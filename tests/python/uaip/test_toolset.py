"""Agents with the tools of a workflow's current stage."""

import httpx
import pytest
from uaip_support import shop

import turntree
from turntree import uaip
from turntree.upp import ToolCall, scripted


def call(name, /, **arguments):
    return ToolCall(tool_call_id=f"call-{name}", tool_name=name, arguments=arguments)


def names(request):
    return [tool["name"] if isinstance(tool, dict) else tool.name for tool in request.tools]


def walking_model():
    """Walks to the checkout in the smallest number of steps."""
    return scripted(
        [
            call("search", query="tea"),
            call("transition_stage", target_stage="cart"),
            call("add", product="tea", count=2),
            call("transition_stage", target_stage="checkout"),
            call("provide_state", street="Main Street", number=3),
            call("transition_stage", target_stage="checkout"),
            "ready to pay",
        ]
    )


EXPECTED = [
    ["search", "transition_stage"],
    ["search", "transition_stage"],
    ["add", "fail", "wrong", "hang", "walk", "transition_stage"],
    ["add", "fail", "wrong", "hang", "walk", "transition_stage"],
    ["add", "fail", "wrong", "hang", "walk", "transition_stage", "provide_state"],
    ["add", "fail", "wrong", "hang", "walk", "transition_stage"],
    ["pay", "transition_stage"],
]


@pytest.mark.parametrize("source", ["workflow", "url", "session"])
async def test_an_agent_sees_exactly_the_tools_of_its_stage(source):
    model = walking_model()
    async with uaip.serve(shop()) as server:
        given = {"workflow": shop(), "url": server.url}.get(source)
        if given is None:
            given = await uaip.connect(server.url).open()
        tools = uaip.toolset(given)
        turn = await turntree.agent(model=model, tools=[tools]).run("Buy tea.")

    assert turn.response.text == "ready to pay"
    assert [sorted(names(request)) for request in model.requests] == [sorted(expected) for expected in EXPECTED]
    assert tools.session.stage == "checkout"


def test_an_agent_walks_without_an_event_loop():
    model = walking_model()
    tools = uaip.toolset(shop())

    turntree.agent(model=model, tools=[tools]).run_sync("Buy tea.")

    assert tools.session.stage == "checkout"


async def test_a_refused_call_is_an_error_result_and_the_run_goes_on():
    model = scripted([call("search", query=3), call("search", query="tea"), "done"])

    turn = await turntree.agent(model=model, tools=[uaip.toolset(shop())]).run("Search.")

    first, second = turn.tool_executions
    assert first.is_error
    assert second.result == ["tea 0", "tea 1"]


async def test_a_task_that_needs_approval_stops_the_run_and_goes_on_after_the_decision():
    model = scripted([call("pay", amount=5), "paid"])
    async with uaip.connect(shop()) as client:
        walk = await client.open()
        await walk.go("cart")
        await walk.call("add", product="tea", count=1)
        await walk.provide(street="Main Street", number=3)
        await walk.go("checkout")
        session = turntree.session(turntree.agent(model=model, tools=[uaip.toolset(walk)]))

        with pytest.raises(turntree.ApprovalRequired) as asked:
            await session.run("Pay 5.")
        (waiting,) = asked.value.calls
        session.approve(waiting.tool_call_id)
        turn = await session.resume()

    assert turn.response.text == "paid"
    assert [execution.result for execution in turn.tool_executions] == ["paid 5"]


async def test_over_http_the_model_reads_that_a_call_needs_an_approval():
    model = scripted([call("pay", amount=5), call("pay", amount=5), "paid"])
    made = shop()

    async def decide(context, turn=None):
        for waiting in made.approvals:
            made.approve(waiting.id)

    async with uaip.serve(made) as server:
        walk = await uaip.connect(server.url).open()
        await walk.go("cart")
        await walk.call("add", product="tea", count=1)
        await walk.provide(street="Main Street", number=3)
        await walk.go("checkout")

        class Person:
            """Approves after the first answer of the tool."""

            name = "person"

            async def tools(self, context):
                await decide(context)
                return []

        turn = await turntree.agent(model=model, tools=[uaip.toolset(walk), Person()]).run("Pay 5.")

    first, second = turn.tool_executions
    assert first.result["status"] == "approval_required"
    assert second.result == "paid 5"


async def test_sessions_of_an_agent_walk_separately():
    model = scripted(
        lambda request: (
            "done" if request.messages[-1].type == "tool_result" else call("transition_stage", target_stage="cart")
        )
    )
    tools = uaip.toolset(shop())
    agent = turntree.agent(model=model, tools=[tools])
    first, second = turntree.session(agent), turntree.session(agent)

    await first.run("Go on.")
    walked = tools.session
    await second.run("Go on.")

    assert tools.session is not walked
    assert (walked.stage, tools.session.stage) == ("cart", "cart")


async def test_an_ended_session_has_no_tools():
    model = scripted(["nothing to do"])
    session = await uaip.connect(shop()).open()
    await session.end()

    await turntree.agent(model=model, tools=[uaip.toolset(session)]).run("Go on.")

    assert names(model.requests[0]) == []


@pytest.mark.parametrize("store", ["sqlite", None])
async def test_a_walk_goes_on_in_another_process_with_a_durable_store(store, tmp_path):
    url = f"sqlite:///{tmp_path}/walks.db" if store else None

    async def walk(replies, session_id):
        model = scripted(replies)
        tools = uaip.toolset(shop(), store=url)
        assistant = turntree.agent(model=model, tools=[tools])
        await turntree.session(assistant, id=session_id).run("Go on.")
        return sorted(names(model.requests[-1]))

    browse, cart = sorted(["search", "transition_stage"]), sorted(EXPECTED[2])
    assert await walk([call("transition_stage", target_stage="cart"), "in the cart"], "ada") == cart
    assert await walk(["still there"], "ada") == (cart if store else browse)
    assert await walk(["new"], "bob") == browse


async def test_a_walk_that_has_ended_begins_again(tmp_path):
    store = f"sqlite:///{tmp_path}/walks.db"

    async def tools_of():
        tools = uaip.toolset(shop(), store=store)
        model = scripted(["ok"])
        await turntree.session(turntree.agent(model=model, tools=[tools]), id="ada").run("Go on.")
        return tools.session

    first = await tools_of()
    again = await tools_of()
    await again.go("cart")
    await again.end()
    new = await tools_of()

    assert first.id == again.id
    assert new.id != first.id
    assert new.stage == "browse"


async def test_sessions_of_toolsets_are_not_found_over_http(tmp_path):
    store = f"sqlite:///{tmp_path}/walks.db"
    tools = uaip.toolset(shop(), store=store)
    await turntree.session(turntree.agent(model=scripted(["ok"]), tools=[tools]), id="ada").run("Go on.")
    async with uaip.serve(shop(), store=store) as server, httpx.AsyncClient(trust_env=False, timeout=30) as http:
        found = await http.get(f"{server.url}/sessions/{tools.session.id}")

    assert found.status_code == 404


async def test_one_session_of_an_agent_walks_through_two_workflows_of_one_store(tmp_path):
    store = f"sqlite:///{tmp_path}/walks.db"
    other = uaip.Workflow("other")
    other.stage("only")

    @other.task(stage="only")
    def greet() -> str:
        """Greet."""
        return "hello"

    model = scripted([call("transition_stage", target_stage="cart"), call("greet"), "done"])
    tools = [uaip.toolset(shop(), store=store), uaip.toolset(other, store=store)]
    await turntree.session(turntree.agent(model=model, tools=tools), id="ada").run("Go on.")

    assert [tool.session.stage for tool in tools] == ["cart", "only"]
    assert tools[0].session.id != tools[1].session.id
