"""The memory middleware."""

from __future__ import annotations

import asyncio

import pytest
from agent_middleware_support import (
    double,
    no_secret,
    texts,
)

from turntree import (
    Session,
    agent,
    session,
)
from turntree.middleware import memory
from turntree.upp import (
    AssistantMessage,
    Image,
    ToolCall,
    ToolResult,
    ToolResultMessage,
    UPPError,
    UserMessage,
    llm,
    scripted,
    tool,
)

# memory


def count_words(text):
    return len(text.split())


def history_of(turns):
    messages = []
    for number in range(turns):
        messages += [UserMessage(f"question {number}"), AssistantMessage(f"answer {number}")]
    return messages


def test_memory_sends_only_the_last_turns_and_leaves_the_history_unchanged(run):
    model = scripted(["1", "2", "3"])
    sess = session(agent(model=model, middleware=[memory(max_turns=2)]))
    for text in ["a", "b", "c"]:
        run(sess.run(text))

    assert [texts(request.messages) for request in model.requests] == [["a"], ["a", "1", "b"], ["b", "2", "c"]]
    assert texts(sess.tree.history()) == ["a", "1", "b", "2", "c", "3"]


def test_memory_counts_all_tokens_of_a_request(run):
    def sent(**options):
        model = scripted(["{}"])
        limit = memory(max_tokens=40, counter=count_words)
        run(agent(model=model, middleware=[limit], **options).run(history_of(10), "now"))
        return len(model.requests[0].messages)

    plain = sent()
    assert plain < 21
    assert sent(system="word " * 15) < plain
    assert sent(tools=[double]) < plain
    assert sent(structure={"type": "object", "description": "word " * 15}) < plain


def test_memory_counts_image_tokens(run):
    model = scripted(["x"])
    history = [
        UserMessage(["look", Image.from_bytes(b"\x89PNG", "image/png")]),
        AssistantMessage("nice"),
        *history_of(1),
    ]

    run(agent(model=model, middleware=[memory(max_tokens=1000)]).run(history, "now"))

    assert texts(model.requests[0].messages) == ["question 0", "answer 0", "now"]


def test_memory_cuts_more_as_tool_rounds_grow(run):
    @tool
    def read() -> str:
        return "word " * 30

    rounds = [[ToolCall(f"c{number}", "read", {})] for number in range(3)]
    model = scripted([*rounds, "done"])
    helper = agent(model=model, tools=[read], middleware=[memory(max_tokens=220, counter=count_words)])

    turn = run(helper.run(history_of(10), "go"))

    first = [texts(request.messages)[0] for request in model.requests]
    assert first[0] != first[-1]
    assert [request.messages[-1].type for request in model.requests][1:] == ["tool_result"] * 3
    assert turn.response.text == "done"


def test_turn_over_the_limit_ends_the_run_or_is_sent(run):
    model = scripted(["x"])
    long = "word " * 100
    history = history_of(3)

    with pytest.raises(UPPError, match="the last turn has 104 tokens") as raised:
        run(agent(model=model, middleware=[memory(max_tokens=50, counter=count_words)]).run(history, long))
    assert raised.value.code == "CONTEXT_LENGTH_EXCEEDED"
    assert model.requests == []

    limit = memory(max_tokens=50, counter=count_words, overflow="send")
    run(agent(model=model, middleware=[limit]).run(history, long))
    assert len(model.requests[0].messages) == 1


def test_memory_never_separates_a_tool_result_from_its_call(run):
    call = AssistantMessage("", [ToolCall("c", "double", {"x": 1})])
    history = [
        UserMessage("a"),
        call,
        UserMessage("meanwhile"),
        ToolResultMessage([ToolResult("c", 2)]),
        AssistantMessage("two"),
    ]
    model = scripted(["x"])

    run(agent(model=model, tools=[double], middleware=[memory(max_turns=2)]).run(history, "now"))

    assert [message.type for message in model.requests[0].messages][:2] == ["user", "assistant"]
    assert len(model.requests[0].messages) == 6


@pytest.mark.parametrize("is_async", [False, True])
def test_cut_messages_are_summarized_once(run, is_async):
    given = []

    def summarize(text):
        given.append(text)
        return f"summary {len(given)}"

    async def summarize_async(text):
        await asyncio.sleep(0)
        return summarize(text)

    model = scripted(lambda request: "ok")
    window = memory(
        max_tokens=200,
        counter=count_words,
        summary_tokens=20,
        summarize=summarize_async if is_async else summarize,
    )
    sess = session(agent(model=model, middleware=[window]))
    for number in range(40):
        run(sess.run(f"question {number}"))

    first = model.requests[-1].messages[0]
    assert first.text.startswith("Summary of the earlier conversation:\nsummary")
    assert first.metadata == {"turntree": {"summary": True}}
    assert model.requests[-1].messages[1].type == "user"
    # The history is cut in one step and then stays the same for some turns.
    assert 1 <= len(given) <= 6
    assert given[0].startswith("User: question 0\nAssistant: ok\n")
    assert all(f"Summary so far: summary {place}" in text for place, text in enumerate(given[1:], 1))
    assert "Summary of" not in "".join(texts(sess.tree.history()))


def test_summary_is_saved_with_its_session(run):
    given = []

    def helper():
        window = memory(max_turns=2, summarize=lambda text: given.append(text) or f"sum {len(given)}", name="window")
        return agent(model=scripted(lambda request: "ok"), middleware=[window])

    sess = session(helper())
    for number in range(4):
        run(sess.run(f"question {number}"))
    count = len(given)
    again = Session.from_json(sess.to_json(), helper())
    run(again.run("one more"))

    assert len(given) == count + 1
    assert given[-1].startswith(f"Summary so far: sum {count}\n")


def test_summarizer_may_be_an_agent_or_an_llm(run):
    for make in (lambda model: agent(model=model), lambda model: llm(model=model)):
        teller, model = scripted(["They said hello."]), scripted(["x"])
        window = memory(max_turns=1, summarize=make(teller))

        run(agent(model=model, middleware=[window]).run(history_of(2), "now"))

        assert "User: question 0" in teller.requests[0].messages[0].text
        assert texts(model.requests[0].messages) == [
            "Summary of the earlier conversation:\nThey said hello.",
            "now",
        ]


def test_summarizer_input_and_output_are_bounded(run):
    given, model = [], scripted(["x"])
    window = memory(
        max_turns=1,
        summarize=lambda text: given.append(text) or "blah " * 1000,
        summary_tokens=30,
        summary_input_tokens=100,
    )

    run(agent(model=model, middleware=[window]).run(history_of(200), "now"))

    assert len(given[0]) <= 500
    assert "answer 199" in given[0]
    assert "(the beginning is left out)" in given[0]
    assert len(model.requests[0].messages[0].text) <= 30 * 4


def test_a_summarizer_that_fails_ends_the_run(run):
    error = LookupError("mine")

    def broken(text):
        raise error

    with pytest.raises(LookupError) as raised:
        run(agent(model=scripted([]), middleware=[memory(max_turns=1, summarize=broken)]).run(history_of(2), "now"))
    assert raised.value is error
    with pytest.raises(TypeError, match="summarize must return a str, not int"):
        run(
            agent(model=scripted([]), middleware=[memory(max_turns=1, summarize=lambda text: 3)]).run(
                history_of(2), "now"
            )
        )


def test_token_counter_that_returns_no_number_raises(run):
    with pytest.raises(TypeError, match="counter must return a number of tokens, not 'x'"):
        run(agent(model=scripted([]), middleware=[memory(max_tokens=9, counter=lambda text: "x")]).run("now"))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, ValueError, "memory needs a limit"),
        ({"max_tokens": 0}, ValueError, "max_tokens must be more than 0"),
        ({"max_turns": -1}, ValueError, "max_turns must be more than 0"),
        ({"max_turns": 1, "overflow": "drop"}, ValueError, 'overflow must be "error" or "send"'),
        ({"max_turns": 1, "summarize": 3}, TypeError, "summarize must be an agent"),
        ({"max_turns": 1, "counter": no_secret}, TypeError, "counter must be a function"),
    ],
)
def test_memory_options_are_validated(options, error, words):
    with pytest.raises(error, match=words):
        memory(**options)


@pytest.mark.parametrize("options", [{"summary_tokens": 100}, {"summarize": str.upper}, {"summary_tokens": 200}])
def test_a_summary_that_leaves_no_space_for_messages_is_refused(options):
    with pytest.raises(ValueError, match=r"max_tokens \(100\) must be larger than summary_tokens"):
        memory(max_tokens=100, **options)
