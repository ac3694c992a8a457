"""Counts of the tokens of a request, by the vendor or estimated."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from turntree._core import ModelCall, ModelReference, ProviderConfig, VendorApi, recorded_model
from turntree._public_names import publish
from turntree.exceptions import ErrorCode, UPPError
from turntree.upp._paths import is_vertex
from turntree.upp._vendor_calls import read_object

if TYPE_CHECKING:
    from typing_extensions import Self

# Characters of a token, about, in the languages of Europe; also bytes of a token in other languages.
_BYTES_OF_TOKEN = 4
# The frame of a message in the formats of vendors.
_TOKENS_OF_MESSAGE = 4
# A picture of medium size; vendors count from 85 to 1600.
_TOKENS_OF_MEDIUM = 800

_ANTHROPIC = ("model", "messages", "system", "tools", "tool_choice", "thinking")
_BEDROCK = ("messages", "system", "toolConfig", "additionalModelRequestFields")
_VERTEX = ("contents", "systemInstruction", "tools", "generationConfig")
_OPENAI = (
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "text",
    "reasoning",
    "parallel_tool_calls",
    "previous_response_id",
    "conversation",
    "truncation",
)


class TokenCount(int):
    """The number of input tokens of a request. An int.

    Attributes:
        tokens: The number.
        exact: Whether the vendor has counted. If False, the number is an estimate by the length of the text.
    """

    exact: bool

    def __new__(cls, tokens: int, *, exact: bool) -> Self:
        count = super().__new__(cls, tokens)
        count.exact = exact
        return count

    @property
    def tokens(self) -> int:
        """The number."""
        return int(self)

    def __repr__(self) -> str:
        return f"TokenCount({int(self)}, exact={self.exact})"

    def __str__(self) -> str:
        return str(int(self))

    def __reduce__(self) -> tuple[Callable[[int, bool], TokenCount], tuple[int, bool]]:
        return _restored, (int(self), self.exact)


def _restored(tokens: int, exact: bool) -> TokenCount:  # noqa: FBT001
    return TokenCount(tokens, exact=exact)


class _CapturedError(Exception):
    """Ends a call whose request has been captured."""


async def captured_request(model: ModelReference, call: Callable[[ModelReference], Awaitable[object]]) -> ModelCall:
    """Return the call that `call` makes with a model, without making it."""
    calls: list[ModelCall] = []

    async def capture(made: ModelCall) -> str:
        calls.append(made)
        raise _CapturedError

    with contextlib.suppress(_CapturedError):
        await call(recorded_model(model, capture))
    return calls[0]


async def count(
    model: ModelReference, config: ProviderConfig | Mapping[str, Any] | None, call: ModelCall
) -> TokenCount:
    """Count the tokens of a call: by the vendor's endpoint if it has one, else estimated."""
    import json  # `import turntree` does not load it

    if model.provider in ("fallback", "router", "scripted"):
        return _estimate(call)
    try:
        api = VendorApi(model, config)
    except TypeError:
        return _estimate(call)
    body = cast("dict[str, Any]", json.loads(api.body(call.request)))
    path, request, member = _endpoint(model, api.path, body)
    if path is None:
        return _estimate(call)
    answer = await api.call("POST", path, json.dumps(request).encode(), "application/json", [], "")
    counted = read_object(answer, model.provider).get(member)
    if not isinstance(counted, int):
        message = f"the response of {model.provider} has no number {member}: {answer[:200].decode(errors='replace')}"
        raise UPPError(message, ErrorCode.INVALID_RESPONSE, provider=model.provider)
    return TokenCount(counted, exact=True)


def _endpoint(model: ModelReference, calls: str, body: dict[str, Any]) -> tuple[str | None, dict[str, Any], str]:
    """Return the path of the vendor's count, its request, and the member of its answer."""
    name = model.model_id
    if model.provider == "anthropic" and is_vertex(calls):
        request = {"model": name, **_only(body, ("anthropic_version", *_ANTHROPIC))}
        return "/models/count-tokens:rawPredict", request, "input_tokens"
    if model.provider == "anthropic":
        return "/messages/count_tokens", _only(body, _ANTHROPIC), "input_tokens"
    if model.provider == "google":
        collection = name if "/" in name else f"models/{name}"
        request = {"generateContentRequest": {"model": collection, **body}}
        return f"/{collection}:countTokens", request, "totalTokens"
    if model.provider == "vertex":
        return f"/models/{name}:countTokens", _only(body, _VERTEX), "totalTokens"
    if model.provider == "bedrock" and "anthropic." in name and not name.startswith("arn:"):
        from urllib.parse import quote  # `import turntree` does not load it

        # Profiles of several regions cannot count; their model can.
        path = f"/model/{quote(name[name.index('anthropic.') :], safe='')}/count-tokens"
        return path, {"input": {"converse": _only(body, _BEDROCK)}}, "inputTokens"
    if model.provider == "openai" and "input" in body:
        return "/responses/input_tokens", _only(body, _OPENAI), "input_tokens"
    return None, {}, ""


def _only(body: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: body[name] for name in names if name in body}


def _estimate(call: ModelCall) -> TokenCount:
    import json

    request = call.request
    tokens = 0.0
    for message in request.messages:
        written = message.model_dump(mode="json")
        tokens += _TOKENS_OF_MESSAGE
        blocks = cast("list[dict[str, Any]]", written.get("content") or [])
        for block in blocks:
            text = block.get("text")
            tokens += _of_text(text) if isinstance(text, str) else _TOKENS_OF_MEDIUM
        others = [written.get("toolCalls"), written.get("results")]
        tokens += sum(_of_text(json.dumps(other, ensure_ascii=False)) for other in others if other)
    rest = [request.system, request.tools, request.structure]
    tokens += sum(_of_text(json.dumps(part, ensure_ascii=False)) for part in rest if part)
    return TokenCount(math.ceil(tokens), exact=False)


def _of_text(text: str) -> float:
    return len(text.encode()) / _BYTES_OF_TOKEN


publish(__name__, globals())
