"""A support desk: an agent finds the colleague who can help, and gives the conversation to it. Runs offline."""

from turntree import agent, handoff, session
from turntree.upp import ModelRequest, ToolCall, scripted


def play_triage(request: ModelRequest) -> ToolCall | str:
    """Choose the agent by the words of the last message, as a model would do."""
    question = request.messages[-1].text
    if "invoice" in question:
        return ToolCall("call_1", "transfer_to_billing", {})
    return "What is it about?"


def play_billing(request: ModelRequest) -> ToolCall | str:
    """Answer about invoices, and give the conversation back for anything else."""
    question = next(message for message in reversed(request.messages) if message.type == "user").text
    if "else" in question:
        return ToolCall("call_2", "transfer_to_triage", {})
    return "The invoice is corrected. You get 5 euros back."


billing = agent(
    model=scripted(play_billing),
    name="billing",
    system="You correct invoices.",
    tools=[handoff(lambda: triage, "For everything that is not about money.", name="triage")],
)
triage = agent(
    model=scripted(play_triage),
    name="triage",
    system="Find the agent that can help.",
    tools=[handoff(billing, "For invoices and refunds.")],
)


def main() -> None:
    """Ask three questions in one session, and print who answers."""
    chat = session(triage)
    for question in ("Hello.", "My invoice is wrong.", "Now something else."):
        turn = chat.run_sync(question)
        print(f"user: {question}\n{turn.agent}: {turn.text}")


if __name__ == "__main__":
    main()
