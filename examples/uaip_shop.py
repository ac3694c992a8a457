"""A shop that an agent walks through: browse, cart, checkout, done. Runs offline with a scripted agent.

The agent sees only the tasks of its stage. It cannot pay before the address is known, and it cannot change the price:
the total is private.
"""

import asyncio

from pydantic import BaseModel
from schema_tokens import report

from turntree import agent
from turntree.uaip import State, TaskError, Workflow, toolset
from turntree.upp import ToolCall, scripted

PRICES = {"tea": 4, "coffee": 6, "cup": 9}


class Address(BaseModel):
    """Where to deliver."""

    street: str
    city: str


shop = Workflow("shop", "Sells tea, coffee and cups.", private=["total"])
shop.stage("browse", initial=True)
shop.stage("cart")
shop.stage("checkout", prerequisites=[Address, "lines"])
shop.stage("done", complete_on_enter=True)
shop.transition("browse", "cart")
shop.transition("cart", "browse")
shop.transition("cart", "checkout")
shop.transition("checkout", "done", when=lambda state: bool(state.get("paid")))


@shop.task(stage="browse")
def search(query: str) -> dict[str, int]:
    """Search the catalogue. Returns the products with their prices.

    Args:
        query: A part of the name; empty text lists everything.
    """
    return {name: price for name, price in PRICES.items() if query in name}


@shop.task(stage="browse")
def details(product: str) -> str:
    """Describe a product."""
    return f"{product}: {PRICES[product]} euros, in stock"


@shop.task(stage="cart", writes=["lines", "total"])
def add(product: str, count: int, state: State) -> dict[str, int]:
    """Put a product in the cart. Returns the cart.

    Args:
        product: The name of the product.
        count: How many, at least 1.
    """
    if product not in PRICES or count < 1:
        raise TaskError(f"the shop does not sell {count} of {product!r}")
    lines: dict[str, int] = state.get("lines", {})
    lines[product] = lines.get(product, 0) + count
    state.update(lines=lines, total=sum(PRICES[name] * number for name, number in lines.items()))
    return lines


@shop.task(stage="cart", writes=["lines", "total"])
def remove(product: str, state: State) -> dict[str, int]:
    """Take a product out of the cart."""
    lines: dict[str, int] = state.get("lines", {})
    lines.pop(product, None)
    state.update(lines=lines, total=sum(PRICES[name] * number for name, number in lines.items()))
    return lines


@shop.task(stage="checkout", writes=["paid"])
async def pay(method: str, state: State) -> str:
    """Pay the cart with "card" or "invoice"."""
    state.set("paid", method)
    return f"paid {state.get('total')} euros by {method}, delivery to {state.get('city')}"


def call(name: str, **arguments: object) -> ToolCall:
    """Return a call of the scripted model."""
    return ToolCall(tool_call_id=f"call-{name}", tool_name=name, arguments=arguments)


async def main() -> None:
    """Let a scripted agent buy tea."""
    model = scripted(
        [
            call("search", query="tea"),
            call("transition_stage", target_stage="cart"),
            call("add", product="tea", count=3),
            # The address is missing: the answer asks for it, and offers provide_state.
            call("transition_stage", target_stage="checkout"),
            call("provide_state", street="Main Street 3", city="Delft"),
            call("transition_stage", target_stage="checkout"),
            call("pay", method="card"),
            call("transition_stage", target_stage="done"),
            "Three packets of tea are on their way to Delft.",
        ]
    )
    turn = await agent(model=model, tools=[toolset(shop)]).run("Buy three packets of tea.")
    for execution in turn.tool_executions:
        print(f"{execution.tool_name}({execution.arguments}) -> {execution.result}")
    print(turn.response.text)
    print(report(shop, model.requests))


if __name__ == "__main__":
    asyncio.run(main())
