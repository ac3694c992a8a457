"""A support desk where a person approves refunds. Runs offline with a scripted agent.

The run stops when the agent asks for a refund, and goes on after the decision of a person.
"""

import asyncio

from schema_tokens import report

from turntree import ApprovalRequired, agent, session
from turntree.uaip import State, TaskError, Workflow, toolset
from turntree.upp import ToolCall, scripted, tool

ORDERS: dict[str, dict[str, str | int]] = {"A-17": {"item": "kettle", "paid": 40}, "A-18": {"item": "lamp", "paid": 25}}

desk = Workflow("support-desk", "Helps with orders.", private=["order"])
desk.stage("identify")
desk.stage("resolve")
desk.stage("closed", complete_on_enter=True)
desk.transition("identify", "resolve", when=lambda state: state.has("order"))
desk.transition("resolve", "closed")


@desk.task(stage="identify", writes=["order"])
def find_order(number: str, state: State) -> dict[str, str | int]:
    """Find an order by its number.

    Args:
        number: The number, such as A-17.
    """
    if number not in ORDERS:
        raise TaskError(f"there is no order {number}; ask for the number again")
    state.set("order", number)
    return ORDERS[number]


@desk.task(stage="resolve")
def send_manual() -> str:
    """Send the manual of the product."""
    return "sent"


@desk.task(stage="resolve")
@tool(approval=lambda arguments: "ask" if arguments["amount"] > 10 else True)
def refund(amount: int, state: State) -> str:
    """Pay money back. A person approves amounts over 10 euros.

    Args:
        amount: Euros.
    """
    return f"refunded {amount} euros for {state.get('order')}"


@desk.task(stage="closed")
def rate(stars: int) -> str:
    """Store how content the customer is, from 1 to 5 stars."""
    return f"{stars} stars"


def call(name: str, **arguments: object) -> ToolCall:
    """Return a call of the scripted model."""
    return ToolCall(tool_call_id=f"call-{name}", tool_name=name, arguments=arguments)


async def main() -> None:
    """Let a scripted agent refund an order, with an approval in between."""
    model = scripted(
        [
            call("find_order", number="A-17"),
            call("transition_stage", target_stage="resolve"),
            call("refund", amount=40),
            call("transition_stage", target_stage="closed"),
            "The 40 euros for the kettle are on their way back to you.",
        ]
    )
    chat = session(agent(model=model, tools=[toolset(desk)]))
    try:
        turn = await chat.run("The kettle of order A-17 is broken.")
    except ApprovalRequired as waiting:
        (asked,) = waiting.calls
        print(f"a person approves {asked.tool_name}({asked.arguments})")
        chat.approve(asked.tool_call_id)
        turn = await chat.resume()
    for execution in turn.tool_executions:
        print(f"{execution.tool_name}({execution.arguments}) -> {execution.result}")
    print(turn.response.text)
    print(report(desk, model.requests))


if __name__ == "__main__":
    asyncio.run(main())
