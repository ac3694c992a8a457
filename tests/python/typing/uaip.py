"""Static types of workflows: tasks keep their signatures, classes stay classes. Checked, never run."""

from typing import Any

from typing_extensions import assert_type

from turntree import ToolContext, agent, uaip
from turntree.uaip import Client, Session, State, SyncSession, Workflow
from turntree.upp import scripted

shop = Workflow("shop", private=["total"])
shop.stage("browse", on_enter=lambda state: None)


@shop.stage("cart", prerequisites=["product"])
class Cart:
    """The cart."""

    size: int = 3


@shop.task(stage=Cart, timeout=3)
def add(product: str, state: State, context: ToolContext) -> int:
    """Add."""
    state.set("product", product)
    context.report("added")
    return 1


@shop.task(stage="browse")
async def search(query: str) -> list[str]:
    """Search."""
    return [query]


@uaip.stage(name="one")
class One:
    """A stage."""

    @uaip.task(output=int)
    def act(self, state: State) -> int:
        """Act."""
        return 3


@uaip.workflow(name="w")
class W:
    """A workflow."""

    one = One


assert_type(Cart.size, int)
assert_type(uaip.workflow_of(W), Workflow)


async def clients() -> None:
    assert_type(await search("x"), list[str])
    async with uaip.serve(shop, W, store="memory://") as server, uaip.connect(server.url, token="x") as client:
        assert_type(client, Client)
        session = await client.open("shop")
        assert_type(session, Session)
        assert_type(session.stage, str)
        assert_type(session.state, dict[str, Any])
        await session.provide({"a": 1}, b=2)
    with uaip.serve_sync(shop) as sync, uaip.connect_sync(sync.url) as blocking:
        assert_type(blocking.open(), SyncSession)
    agent(model=scripted(["ok"]), tools=[uaip.toolset(session), uaip.toolset(shop), uaip.toolset(server.url)])


async def tokens() -> None:
    auth = uaip.JwtAuthenticator(
        "https://login.example.com/keys", issuer="login", audience=["shop"], algorithms=["RS256"]
    )
    uaip.serve(shop, auth=auth)
    assert_type(await auth("token"), dict[str, Any] | None)
