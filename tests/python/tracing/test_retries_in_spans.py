"""Spans of model calls tell how often a request was sent again."""

import pytest

from turntree.testing import ErrorReply
from turntree.upp import UPPError, llm, openai


@pytest.mark.parametrize("streams", [False, True])
def test_span_has_the_number_of_retries(run, traced, loopback, streams):
    server = loopback([ErrorReply(503, retry_after=0), ErrorReply(429, retry_after=0), "Hello."])
    model = llm(model=openai("gpt-5", base_url=server.base_url, api_key="k", max_retries=2))

    async def streamed():
        return await model.stream("Hi").turn

    run(streamed() if streams else model.generate("Hi"))

    assert traced.spans[-1].attributes["http.request.resend_count"] == 2


def test_span_of_a_failure_has_the_number_of_retries(run, traced, loopback):
    server = loopback(ErrorReply(503, retry_after=0))
    model = llm(model=openai("gpt-5", base_url=server.base_url, api_key="k", max_retries=1))

    with pytest.raises(UPPError):
        run(model.generate("Hi"))

    assert 1 in [span.attributes.get("http.request.resend_count") for span in traced.spans]


def test_span_without_retries_has_no_number(run, traced, loopback):
    server = loopback("Hello.")

    run(llm(model=openai("gpt-5", base_url=server.base_url, api_key="k")).generate("Hi"))

    assert all("http.request.resend_count" not in span.attributes for span in traced.spans)
