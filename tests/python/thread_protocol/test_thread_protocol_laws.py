"""Properties of the conversion, tested with generated histories."""

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai import messages as m
from pydantic_ai.messages import ModelMessagesTypeAdapter as Adapter
from pydantic_ai.usage import RequestUsage
from support.laws import cases

from turntree import thread_protocol as tp

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
maybe = st.one_of(st.none(), texts)
zones = st.one_of(
    st.none(),
    st.just(timezone.utc),
    st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
times = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=zones)
floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), floats, texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=3)
maybe_objects = st.one_of(st.none(), objects)
identifiers = st.sampled_from(["c1", "c2", "c3", "call_0", ""])
tools = st.sampled_from(["weather", "search", ""])

media = st.sampled_from(["image/png", "audio/wav", "video/mp4", "application/pdf", "x/y"])
items = st.one_of(
    texts,
    st.builds(m.ImageUrl, texts, media_type=media, vendor_metadata=maybe_objects),
    st.builds(m.DocumentUrl, texts, media_type=media, identifier=maybe),
    st.builds(m.BinaryContent, st.binary(max_size=9), media_type=media),
    st.builds(m.TextContent, texts, metadata=values),
    st.builds(m.CachePoint),
)
outcomes = st.sampled_from(["success", "failed", "denied", "interrupted", "retried"])
retries = st.one_of(st.none(), st.builds(m.RetryInfo, st.just("validation_error"), attempt=st.integers(0, 3)))
request_parts = st.one_of(
    st.builds(m.SystemPromptPart, texts, timestamp=times, dynamic_ref=maybe),
    st.builds(m.UserPromptPart, st.one_of(texts, st.lists(items, max_size=3)), timestamp=times),
    st.builds(
        m.ToolReturnPart,
        tools,
        values,
        identifiers,
        timestamp=times,
        metadata=values,
        outcome=outcomes,
        retry=retries,
    ),
    st.builds(m.RetryFeedbackPart, texts, retry=st.just(m.RetryInfo("model_retry")), timestamp=times),
)
response_parts = st.one_of(
    st.builds(m.TextPart, texts, id=maybe, provider_details=maybe_objects),
    st.builds(m.ThinkingPart, texts, id=maybe, signature=maybe, provider_name=maybe),
    st.builds(m.ToolCallPart, tools, st.one_of(st.none(), texts, objects), identifiers, id=maybe),
    st.builds(m.NativeToolCallPart, tools, maybe_objects, identifiers, provider_name=maybe),
)
counts = st.integers(0, 2**70)
usages = st.builds(
    RequestUsage,
    input_tokens=counts,
    output_tokens=counts,
    cache_read_tokens=counts,
    details=st.dictionaries(texts, counts, max_size=2),
    cost=st.one_of(st.none(), st.decimals(allow_nan=False, allow_infinity=False).map(Decimal)),
)
requests = st.builds(
    m.ModelRequest,
    st.lists(request_parts, max_size=4),
    timestamp=st.one_of(st.none(), times),
    instructions=maybe,
    run_id=maybe,
    metadata=maybe_objects,
)
responses = st.builds(
    m.ModelResponse,
    st.lists(response_parts, max_size=4),
    usage=usages,
    timestamp=times,
    model_name=maybe,
    provider_name=maybe,
    provider_details=maybe_objects,
    finish_reason=st.sampled_from([None, "stop", "length", "tool_call", "error"]),
    conversation_id=maybe,
    metadata=maybe_objects,
)
histories = st.lists(st.one_of(requests, responses), max_size=4)

law = settings(deadline=None, max_examples=cases(150), suppress_health_check=list(HealthCheck))


@law
@given(histories)
def test_reading_objects_gives_the_same_thread_as_reading_their_json(history: list[Any]) -> None:
    dumped = Adapter.dump_json(history)

    walked = tp.from_pydantic_ai(history)

    assert walked.to_pydantic_ai_json() == dumped
    assert walked.model_dump_json() == tp.from_pydantic_ai(dumped).model_dump_json()


@law
@given(histories)
def test_built_objects_equal_those_that_pydantic_loads(history: list[Any]) -> None:
    dumped = Adapter.dump_json(history)
    loaded = Adapter.validate_json(dumped)

    built = tp.from_pydantic_ai(dumped).to_pydantic_ai()

    assert built == loaded
    assert Adapter.dump_json(built) == Adapter.dump_json(loaded)


@law
@given(histories)
def test_a_thread_is_equal_after_a_json_round_trip(history: list[Any]) -> None:
    thread = tp.from_pydantic_ai(history)

    again = tp.Thread.model_validate_json(thread.model_dump_json())

    assert again == thread
    assert again.digest() == thread.digest()
    assert again.to_pydantic_ai_json() == thread.to_pydantic_ai_json()
    assert [action.sequence for action in again] == list(range(1, len(again) + 1))
