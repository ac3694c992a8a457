"""Record the files in this folder; see its README."""

import asyncio
from pathlib import Path

from turntree import agent
from turntree.testing import ErrorReply, ToolCall, serve
from turntree.upp import LinearBackoff, anthropic, openai, replay, tool

HERE = Path(__file__).parent
ADDRESS = "https://models.test"
QUESTION = "How is the weather in Tōkyō?"
ANSWER = "It is sunny in Tōkyō 🌞."
FACTORIES = {
    "chat": lambda **options: openai("gpt-5", "completions", **options),
    "responses": lambda **options: openai("gpt-5", **options),
    "messages": lambda **options: anthropic("claude-sonnet-4-5", **options),
}


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny"


def asker(wire, url, **options):
    """The agent whose run is recorded and played."""
    model = FACTORIES[wire](base_url=f"{url}/v1", retry_strategy=LinearBackoff(delay=0), **options)
    params = {"max_tokens": 200} if wire == "messages" else {}
    return agent(model=model, params=params, tools=[weather], system="Be brief.")


async def ask(wire, url, is_streamed, **options):
    """Its answer, with a first refusal, a tool call and a text on the way."""
    helper = asker(wire, url, **options)
    turn = await (helper.stream(QUESTION).turn if is_streamed else helper.run(QUESTION))
    return turn.response.text


def main():
    for wire in FACTORIES:
        for is_streamed in (False, True):
            path = HERE / f"{wire}_{'streamed' if is_streamed else 'plain'}.json"
            script = [ErrorReply(503, retry_after=0), ToolCall("weather", {"city": "Tōkyō"}), ANSWER]
            with serve(script) as server, replay(path, "record"):
                url = server.url
                asyncio.run(ask(wire, url, is_streamed, api_key="sk-any"))
            path.write_text(path.read_text("utf-8").replace(url, ADDRESS), "utf-8")


if __name__ == "__main__":
    main()
