"""The `openai` package as a client of served agents: chat completions, responses, models and both Realtime APIs."""

from __future__ import annotations

import json
from typing import Any

import openai
from _scenarios import run
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "Weather", "parameters": CITY}}


class City(BaseModel):
    """A structured output."""

    city: str
    people: int


def client(url: str, key: str = "secret", **options: Any) -> OpenAI:
    """A client that does not retry."""
    return OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=30, **options)


def user(text: str) -> list[Any]:
    """A conversation with one message."""
    return [{"role": "user", "content": text}]


def chat(url: str) -> Any:
    """A completion in one piece."""
    done = client(url).chat.completions.create(model="echo", messages=user("hello"))
    usage = done.usage
    assert usage is not None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    return [done.object, done.choices[0].message.content, done.choices[0].finish_reason]


def chat_stream(url: str) -> Any:
    """A streamed completion; the usage is in the last chunk."""
    stream = client(url).chat.completions.create(
        model="echo", messages=user("hello"), stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    ends = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason]
    return [text, ends, chunks[-1].choices, chunks[-1].usage is not None, [chunk.usage for chunk in chunks[:2]]]


def chat_tools(url: str) -> Any:
    """The client runs a tool and sends its result."""
    messages = user("what is the weather?")
    asked = client(url).chat.completions.create(model="caller", messages=messages, tools=[WEATHER])
    choice = asked.choices[0]
    (call,) = choice.message.tool_calls or []
    messages += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    done = client(url).chat.completions.create(model="caller", messages=messages, tools=[WEATHER])
    arguments = json.loads(call.function.arguments)
    return [choice.finish_reason, call.function.name, arguments, done.choices[0].message.content]


def chat_stream_tools(url: str) -> Any:
    """The SDK assembles the call of a stream."""
    with client(url).chat.completions.stream(model="caller", messages=user("weather?"), tools=[WEATHER]) as stream:
        done = stream.get_final_completion()
    (call,) = done.choices[0].message.tool_calls or []
    return [done.choices[0].finish_reason, call.function.name, json.loads(call.function.arguments)]


def chat_structured(url: str) -> Any:
    """The SDK parses the output into a class."""
    done = client(url).chat.completions.parse(model="structured", messages=user("Oulu"), response_format=City)
    city = done.choices[0].message.parsed
    return [type(city).__name__, city.city, city.people] if city else None


def chat_length(url: str) -> Any:
    """The output is cut off, in one piece and streamed."""
    whole = client(url).chat.completions.create(model="cut", messages=user("hello"))
    chunks = client(url).chat.completions.create(model="cut", messages=user("hello"), stream=True)
    ends = [chunk.choices[0].finish_reason for chunk in chunks]
    return [whole.choices[0].finish_reason, ends[-1]]


def chat_filtered(url: str) -> Any:
    """The output is withheld."""
    done = client(url).chat.completions.create(model="filtered", messages=user("hello"))
    return done.choices[0].finish_reason


def chat_reasoning(url: str) -> Any:
    """Reasoning is a member that the SDK keeps."""
    done = client(url).chat.completions.create(model="thinker", messages=user("hello"))
    return [done.choices[0].message.content, (done.choices[0].message.model_extra or {}).get("reasoning_content")]


def errors(url: str) -> Any:
    """Errors are the exceptions of the SDK."""
    found: dict[str, Any] = {}

    def raises(name: str, call: Any) -> None:
        try:
            call()
        except openai.APIStatusError as error:
            found[name] = [type(error).__name__, error.status_code, error.code, error.param]

    good = client(url)
    raises("key", lambda: client(url, "wrong").chat.completions.create(model="echo", messages=user("hi")))
    raises("model", lambda: good.chat.completions.create(model="nobody", messages=user("hi")))
    raises("messages", lambda: good.chat.completions.create(model="echo", messages=[]))
    raises("broken", lambda: good.chat.completions.create(model="broken", messages=user("hi")))
    raises(
        "broken_stream", lambda: list(good.chat.completions.create(model="broken", messages=user("hi"), stream=True))
    )
    raises("previous", lambda: good.responses.create(model="echo", input="hi", previous_response_id="resp_none"))
    raises("retrieve", lambda: good.models.retrieve("nobody"))
    return found


def models(url: str) -> Any:
    """The agents are models."""
    listed = {model.id: model.object for model in client(url).models.list()}
    return [listed["echo"], client(url).models.retrieve("echo").id, "nobody" in listed]


def responses(url: str) -> Any:
    """A response, one that continues it, and both again from the store."""
    made = client(url)
    first = made.responses.create(model="echo", input="one", instructions="Be brief.")
    second = made.responses.create(model="counter", input="two", previous_response_id=first.id)
    again = made.responses.retrieve(second.id)
    made.responses.delete(first.id)
    assert first.usage is not None
    assert first.usage.total_tokens > 0
    return [
        first.status,
        first.output_text,
        second.output_text,
        again.output_text,
        second.previous_response_id == first.id,
    ]


def responses_stream(url: str) -> Any:
    """The SDK assembles the events of a stream."""
    with client(url).responses.stream(model="echo", input="hello") as stream:
        kinds = [event.type for event in stream]
        done = stream.get_final_response()
    return [kinds[0], kinds[-1], "response.output_text.delta" in kinds, done.output_text, done.status]


def responses_tools(url: str) -> Any:
    """The client runs a tool of a response."""
    made = client(url)
    tool = {"type": "function", "name": "weather", "description": "Weather", "parameters": CITY, "strict": False}
    first = made.responses.create(model="caller", input="weather?", tools=[tool])
    (call,) = [item for item in first.output if item.type == "function_call"]
    output = [{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]
    second = made.responses.create(model="caller", input=output, tools=[tool], previous_response_id=first.id)
    return [call.name, json.loads(call.arguments), second.output_text]


def responses_structured(url: str) -> Any:
    """The SDK parses the output of a response into a class."""
    city = client(url).responses.parse(model="structured", input="Oulu", text_format=City).output_parsed
    return [city.city, city.people] if city else None


def responses_length(url: str) -> Any:
    """A response that is cut off, in one piece and streamed."""
    whole = client(url).responses.create(model="cut", input="hello")
    with client(url).responses.stream(model="cut", input="hello") as stream:
        last = [event.type for event in stream][-1]
    reason = whole.incomplete_details.reason if whole.incomplete_details else None
    return [whole.status, reason, whole.output_text, last]


def _realtime(url: str, model: str, generation: str) -> Any:
    """A connection of one of the generations."""
    made = client(url, websocket_base_url=f"{url.replace('http', 'ws', 1)}/v1")
    api = made.realtime if generation == "current" else made.beta.realtime
    return api.connect(model=model)


def _say(connection: Any, text: str) -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    connection.conversation.item.create(item=item)


def _text(url: str, generation: str) -> Any:
    delta = "response.output_text.delta" if generation == "current" else "response.text.delta"
    with _realtime(url, "echo", generation) as connection:
        text, kinds = "", [connection.recv().type]
        instructions = {"instructions": "Be brief."}
        session = {"type": "realtime", **instructions} if generation == "current" else instructions
        connection.session.update(session=session)
        _say(connection, "hello")
        connection.response.create()
        for event in connection:
            kinds.append(event.type)
            text += event.delta if event.type == delta else ""
            if event.type == "response.done":
                break
    return [kinds[0], kinds[1], text, event.response.status, event.response.output[0].content[0].text]


def _call(url: str, generation: str) -> Any:
    tool = {"type": "function", "name": "weather", "description": "Weather", "parameters": CITY}
    said = []
    with _realtime(url, "caller", generation) as connection:
        session: dict[str, Any] = {"type": "realtime"} if generation == "current" else {}
        connection.session.update(session={**session, "tools": [tool]})
        _say(connection, "weather?")
        connection.response.create()
        for event in connection:
            if event.type != "response.done":
                continue
            (item,) = event.response.output
            if item.type == "function_call":
                said += [item.name, json.loads(item.arguments or "{}")]
                output = {"type": "function_call_output", "call_id": item.call_id, "output": "sunny"}
                connection.conversation.item.create(item=output)
                connection.response.create()
                continue
            said.append(item.content[0].text)
            break
    return said


def _cancel(url: str, generation: str) -> Any:
    with _realtime(url, "waiter", generation) as connection:
        _say(connection, "wait")
        connection.response.create()
        for event in connection:
            if event.type == "response.created":
                connection.response.cancel()
            elif event.type == "response.done":
                return event.response.status
    return None


def realtime_text(url: str) -> Any:
    """Text over the current Realtime API."""
    return _text(url, "current")


def realtime_call(url: str) -> Any:
    """A function call over the current Realtime API."""
    return _call(url, "current")


def realtime_cancel(url: str) -> Any:
    """A cancelled response of the current Realtime API."""
    return _cancel(url, "current")


def realtime_beta_text(url: str) -> Any:
    """Text over the beta of the Realtime API."""
    return _text(url, "beta")


def realtime_beta_call(url: str) -> Any:
    """A function call over the beta of the Realtime API."""
    return _call(url, "beta")


def realtime_beta_cancel(url: str) -> Any:
    """A cancelled response of the beta of the Realtime API."""
    return _cancel(url, "beta")


async def concurrent(url: str) -> Any:
    """Many completions at once over one client."""
    import asyncio

    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="secret", max_retries=0) as many:
        made = [many.chat.completions.create(model="echo", messages=user(f"number {n}")) for n in range(20)]
        done = await asyncio.gather(*made)
    return [answer.choices[0].message.content for answer in done] == [f"you said: number {n}" for n in range(20)]


if __name__ == "__main__":
    run(
        [
            chat,
            chat_stream,
            chat_tools,
            chat_stream_tools,
            chat_structured,
            chat_length,
            chat_filtered,
            chat_reasoning,
            errors,
            models,
            responses,
            responses_stream,
            responses_tools,
            responses_structured,
            responses_length,
            realtime_text,
            realtime_call,
            realtime_cancel,
            realtime_beta_text,
            realtime_beta_call,
            realtime_beta_cancel,
            concurrent,
        ]
    )
