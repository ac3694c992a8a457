"""Native tools of vendors, blocks omitted for other models, and costs. UPP-1.2 §14, §19."""

import asyncio
import copy
import inspect
import json
import logging
import pickle

import pytest

from turntree import agent
from turntree.testing import RawReply
from turntree.upp import UPPError, anthropic, moonshot, native, openai, prices, tool

KEY = "sk-secret-0123456789"


@tool
def weather(city: str) -> str:
    """Forecast."""
    return f"{city}: sunny"


def constructors():
    for vendor in ("anthropic", "google", "groq", "moonshot", "openai", "openrouter", "xai"):
        module = getattr(native, vendor)
        for name in module.__all__:
            yield vendor, name, getattr(module, name)


NEEDED = {
    ("openai", "file_search"): (["vs_1"],),
    ("openai", "mcp"): ("docs",),
    ("openai", "computer_use"): (800, 600),
    ("google", "file_search"): (["fileSearchStores/a"],),
    ("xai", "file_search"): (["c_1"],),
    ("xai", "mcp"): ("https://host/mcp",),
    ("anthropic", "computer"): (800, 600),
}


@pytest.mark.parametrize(
    ("vendor", "name", "make"), list(constructors()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_native_tool_constructors_return_dicts_with_vendor_names(vendor, name, make):
    made = make(*NEEDED.get((vendor, name), ()))

    assert isinstance(made, dict)
    assert made.provider == vendor
    assert None not in made.values()
    json.dumps(made)
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
    assert inspect.getdoc(make)


def test_native_tools_have_the_vendor_shapes():
    assert native.anthropic.web_search(max_uses=2) == {
        "type": "web_search_20250305",
        "name": "web_search",
        "max_uses": 2,
    }
    assert native.anthropic.text_editor(version="20250124")["name"] == "str_replace_editor"
    assert native.anthropic.text_editor(max_characters=9) == {
        "type": "text_editor_20250728",
        "name": "str_replace_based_edit_tool",
        "max_characters": 9,
    }
    assert native.anthropic.tool_search("bm25")["type"] == "tool_search_tool_bm25_20251119"
    assert native.openai.file_search(["vs"], max_num_results=3) == {
        "type": "file_search",
        "vector_store_ids": ["vs"],
        "max_num_results": 3,
    }
    assert native.openai.code_interpreter() == {"type": "code_interpreter", "container": {"type": "auto"}}
    assert native.openai.mcp("docs", server_url="https://h", require_approval="never") == {
        "type": "mcp",
        "server_label": "docs",
        "server_url": "https://h",
        "require_approval": "never",
    }
    assert native.google.google_search() == {"googleSearch": {}}
    assert native.google.file_search(["s"], metadata_filter="a=1") == {
        "fileSearch": {"fileSearchStoreNames": ["s"], "metadataFilter": "a=1"}
    }
    assert native.xai.web_search(allowed_domains=["a.example"], enable_image_search=True) == {
        "type": "web_search",
        "filters": {"allowed_domains": ["a.example"]},
        "enable_image_search": True,
    }
    assert native.xai.web_search() == {"type": "web_search"}
    assert native.xai.code_execution() == {"type": "code_interpreter"}
    assert native.xai.file_search(["c"], retrieval_mode="hybrid")["retrieval_mode"] == {"type": "hybrid"}
    assert native.moonshot.web_search() == {"type": "builtin_function", "function": {"name": "$web_search"}}


def sent(server, place=0):
    return json.loads(server.requests[place].body)


def answer(**members):
    body = {
        "id": "msg_1",
        "type": "message",
        "model": "claude-sonnet-4-5-20250929",
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Done."}],
        "usage": {"input_tokens": 1000, "output_tokens": 100},
        **members,
    }
    return RawReply(json.dumps(body).encode())


def claude(server, name="claude-sonnet-4-5", **options):
    return anthropic(name, base_url=server.base_url, api_key=KEY, **options)


PARAMS = {"max_tokens": 64}


def test_native_tools_in_tools_and_params_are_sent(loopback):
    server = loopback([answer(), answer()])
    search = native.anthropic.web_search(max_uses=2)

    beside = agent(model=claude(server), tools=[weather, search], params=PARAMS)
    beside.run_sync("hi")
    agent(model=claude(server), tools=[weather], params={**PARAMS, "tools": [search]}).run_sync("hi")

    assert sent(server)["tools"] == sent(server, 1)["tools"]
    assert sent(server)["tools"][1] == dict(search)
    assert [known.name for known in beside.tools] == ["weather", "web_search"]


def test_native_tools_of_another_vendor_are_rejected_before_a_request(loopback):
    server = loopback([])
    own = agent(
        model=openai("gpt-5", base_url=server.base_url, api_key=KEY), tools=[weather, native.anthropic.web_search()]
    )

    with pytest.raises(UPPError, match=r'"web_search" is a tool of anthropic') as caught:
        own.run_sync("hi")

    assert caught.value.code == "INVALID_REQUEST"
    assert server.requests == []


def test_native_tool_with_a_run_function_is_executed(loopback):
    call = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}
    server = loopback([answer(content=[call], stop_reason="tool_use"), answer()])
    seen = []

    async def shell(arguments):
        await asyncio.sleep(0)
        seen.append(arguments)
        return "README.md"

    own = agent(model=claude(server), tools=[native.anthropic.bash(run=shell)], params=PARAMS)

    turn = own.run_sync("What is there?")

    assert seen == [{"command": "ls"}]
    assert sent(server)["tools"] == [{"type": "bash_20250124", "name": "bash"}]
    assert sent(server, 1)["messages"][-1]["content"][0]["content"] == "README.md"
    assert turn.response.text == "Done."


def test_native_tool_without_a_run_function_returns_an_error_result(loopback):
    call = {"type": "tool_use", "id": "t1", "name": "bash", "input": {}}
    server = loopback([answer(content=[call], stop_reason="tool_use"), answer()])

    agent(model=claude(server), tools=[native.anthropic.bash()], params=PARAMS).run_sync("hi")

    result = sent(server, 1)["messages"][-1]["content"][0]
    assert result["is_error"] is True
    assert "run=" in result["content"]


def test_moonshot_builtin_functions_return_their_arguments(loopback):
    arguments = {"search_result": {"search_id": "abc"}, "usage": {"total_tokens": 13}}
    call = {
        "id": "s1",
        "type": "builtin_function",
        "function": {"name": "$web_search", "arguments": json.dumps(arguments)},
    }
    bodies = [
        {
            "id": "c1",
            "model": "kimi-k2",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"content": "", "tool_calls": [call]}}],
        },
        {
            "id": "c2",
            "model": "kimi-k2",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "Found."}}],
        },
    ]
    replies = [RawReply(json.dumps(body).encode()) for body in bodies]
    server = loopback(replies)
    own = agent(
        model=moonshot("kimi-k2", base_url=server.base_url, api_key=KEY),
        tools=[native.moonshot.web_search(), weather],
    )

    turn = own.run_sync("News?")

    tools = sent(server)["tools"]
    assert tools[0] == {"type": "builtin_function", "function": {"name": "$web_search"}}
    assert tools[1]["function"]["name"] == "weather"
    returned = sent(server, 1)["messages"][-1]
    assert (returned["role"], returned["tool_call_id"]) == ("tool", "s1")
    assert json.loads(returned["content"]) == arguments
    assert turn.response.text == "Found."


def test_server_tool_blocks_round_trip_in_order(loopback):
    content = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u"}]},
        {"type": "text", "text": "It is so."},
    ]
    server = loopback([answer(content=content), answer()])
    own = agent(model=claude(server), tools=[native.anthropic.web_search()], params=PARAMS)

    turn = own.run_sync("Is it?")
    own.run_sync(list(turn.messages), "Sure?")

    assert turn.response.text == "It is so."
    assert turn.usage.cost is None  # searches have an additional price
    assert sent(server, 1)["messages"][1]["content"] == content


def test_blocks_omitted_for_another_model_are_logged(loopback, caplog):
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "seal"}
    server = loopback([answer(content=[thinking, {"type": "text", "text": "Yes."}]), answer(), answer()])
    first = agent(model=claude(server), params=PARAMS).run_sync("hi")

    with caplog.at_level(logging.DEBUG, logger="turntree.upp"):
        agent(model=claude(server), params=PARAMS).run_sync(list(first.messages), "Go on")
        assert caplog.records == []
        agent(model=claude(server, "claude-opus-4-5"), params=PARAMS).run_sync(list(first.messages), "Go on")

    assert thinking in sent(server, 1)["messages"][1]["content"]
    assert sent(server, 2)["messages"][1]["content"] == [{"type": "text", "text": "Yes."}]
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("turntree.upp", "DEBUG")
    assert "anthropic:claude-sonnet-4-5-20250929" in record.getMessage()
    assert "anthropic:claude-opus-4-5" in record.getMessage()
    assert "seal" not in record.getMessage()


@pytest.fixture
def own_prices():
    prices.reset()
    yield
    prices.reset()


@pytest.mark.usefixtures("own_prices")
def test_turn_usage_contains_its_cost(loopback):
    server = loopback([answer(), answer(model="claude-99"), answer(model="claude-99"), answer(model="claude-99")])

    known = agent(model=claude(server), params=PARAMS).run_sync("hi").usage
    assert known.cost == pytest.approx(0.0045)
    assert known.cycles[0].cost == known.cost
    assert known.model_dump(by_alias=True)["cost"] == known.cost

    unknown = agent(model=claude(server), params=PARAMS).run_sync("hi").usage
    assert unknown.cost is None
    assert "cost" not in unknown.model_dump_json()

    row = {"provider": "anthropic", "models": ["claude-9*"], "input": 1, "output": 10}
    own = agent(model=claude(server, prices=[row]), params=PARAMS).run_sync("hi").usage
    assert own.cost == pytest.approx(0.002)
    prices.add(row)
    assert agent(model=claude(server), params=PARAMS).run_sync("hi").usage.cost == own.cost


@pytest.mark.usefixtures("own_prices")
def test_prices_can_be_added_replaced_and_loaded():
    usage = {"inputTokens": 1000, "outputTokens": 100}
    assert prices.cost(usage, "openai", "gpt-5") == pytest.approx(0.00225)
    assert prices.cost(usage, "openai", "nobody") is None

    prices.add({"provider": "openai", "models": ["gpt-5"], "input": 2, "output": 0})
    assert prices.cost(usage, "openai", "gpt-5") == pytest.approx(0.002)
    prices.load({"openai:gpt-5": {"input": 3, "output": 0}})
    assert prices.cost(usage, "openai", "gpt-5") == pytest.approx(0.003)
    prices.load(json.dumps([{"provider": "openai", "models": ["gpt-5"], "input": 4, "output": 0}]))
    assert prices.cost(usage, "openai", "gpt-5") == pytest.approx(0.004)
    once = [{"provider": "openai", "models": ["gpt-5"], "input": 5, "output": 0}]
    assert prices.cost(usage, "openai", "gpt-5", prices=once) == pytest.approx(0.005)
    assert prices.table()[0]["input"] == 4

    with pytest.raises(ValueError, match="prices"):
        prices.add({"provider": "openai", "models": ["x"]})
    assert prices.table()[0]["input"] == 4
    prices.reset()
    assert prices.cost(usage, "openai", "gpt-5") == pytest.approx(0.00225)


def test_every_builtin_price_has_a_date_and_a_source():
    rows = prices.table()

    assert len(rows) > 20
    assert all(row["date"] and row["source"].startswith("https://") for row in rows)
