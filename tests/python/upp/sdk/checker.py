"""Checks requests by the types of the vendors' own packages, or by `documented` if there are none.

Reads a JSON document per line, answers each with one. Runs in an environment with these packages and without turntree.
"""

from __future__ import annotations

import collections.abc
import json
import sys
import types
import typing
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

import documented
import typing_extensions

REQUIRED = (typing.Required, typing_extensions.Required)
NOT_REQUIRED = (typing.NotRequired, typing_extensions.NotRequired)
# Members that the package requires, although the API has a default for them or does without.
DEFAULTED = {
    "ResponseInputImageParam": {"detail"},
    "ResponseOutputMessageParam": {"id", "status"},
    "ResponseOutputTextParam": {"annotations"},
}
PLAIN = {str: str, int: int, float: (int, float), bool: bool, type(None): type(None)}


def problem(value: Any, kind: Any, path: str = "") -> str | None:
    """Why a value is not of a type of an SDK; None if it is."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (typing.Annotated, *REQUIRED, *NOT_REQUIRED):
        return problem(value, arguments[0], path)
    if kind in (Any, object) or isinstance(kind, typing.TypeVar):
        return None
    if isinstance(kind, typing.TypeAliasType if hasattr(typing, "TypeAliasType") else ()):
        return problem(value, kind.__value__, path)
    if origin in (Union, types.UnionType):
        found = [problem(value, each, path) for each in arguments]
        # The alternative that matched the most has the deepest error.
        return None if None in found else max(found, key=lambda text: text.split(":")[0].count("/"))
    if origin is Literal:
        return None if value in arguments else f"{path}: {value!r} is none of {arguments[:8]}"
    if typing_extensions.is_typeddict(kind):
        return of_members(value, kind, path)
    if origin in (list, collections.abc.Iterable, collections.abc.Sequence, typing.Iterable):
        if not isinstance(value, list):
            return f"{path}: expected a list, got {type(value).__name__}"
        return first(problem(item, arguments[0], f"{path}/{place}") for place, item in enumerate(value))
    if origin in (dict, collections.abc.Mapping):
        if not isinstance(value, dict):
            return f"{path}: expected an object, got {type(value).__name__}"
        return first(problem(item, arguments[1], f"{path}/{name}") for name, item in value.items())
    if kind in PLAIN:
        is_bool = isinstance(value, bool) and kind in (int, float)
        return None if isinstance(value, PLAIN[kind]) and not is_bool else f"{path}: expected {kind}, got {value!r}"
    if hasattr(kind, "model_validate"):
        try:
            kind.model_validate(value)
        except ValueError as error:
            return f"{path}: {error}"
        return None
    return f"{path}: no rule for {kind!r}"


def of_members(value: Any, kind: Any, path: str) -> str | None:
    if not isinstance(value, dict):
        return f"{path}: expected an object, got {type(value).__name__}"
    members = hints(kind)
    # The marks of annotations that are texts are found in the hints alone.
    marks = {name: get_origin(hint) for name, hint in members.items()}
    required = {name for name, mark in marks.items() if mark in REQUIRED}
    required |= {name for name in kind.__required_keys__ if marks.get(name) not in NOT_REQUIRED}
    missing = required - DEFAULTED.get(kind.__name__, set()) - set(value)
    unknown = set(value) - set(members)
    if missing or unknown:
        return f"{path}: missing {sorted(missing)}, unknown {sorted(unknown)} in {kind.__name__}"
    return first(problem(item, members[name], f"{path}/{name}") for name, item in value.items())


@cache
def hints(kind: Any) -> dict[str, Any]:
    return typing_extensions.get_type_hints(kind, include_extras=True)


def first(problems: Any) -> str | None:
    return next((each for each in problems if each is not None), None)


# One function for each API


def openai_chat(body: dict[str, Any]) -> str | None:
    from openai.types.chat import completion_create_params as sdk

    return problem(body, sdk.CompletionCreateParamsNonStreaming)


def openai_responses(body: dict[str, Any]) -> str | None:
    from openai.types.responses import response_create_params as sdk

    return problem(body, sdk.ResponseCreateParamsNonStreaming)


def anthropic_messages(body: dict[str, Any]) -> str | None:
    from anthropic.types import message_create_params as sdk

    return problem(body, sdk.MessageCreateParamsNonStreaming)


def anthropic_beta(body: dict[str, Any]) -> str | None:
    from anthropic.types.beta import message_create_params as sdk

    return problem(body, sdk.MessageCreateParamsNonStreaming)


def google_generate_content(body: dict[str, Any]) -> str | None:
    from google.genai import types as sdk

    members = {
        "contents": list[sdk.Content],
        "systemInstruction": sdk.Content,
        "generationConfig": sdk.GenerationConfig,
        "tools": list[sdk.Tool],
        "toolConfig": sdk.ToolConfig,
        "safetySettings": list[sdk.SafetySetting],
        "cachedContent": str,
        "labels": dict[str, str],
    }
    if unknown := set(body) - set(members):
        return f": unknown {sorted(unknown)}"
    return first(problem(value, members[name], f"/{name}") for name, value in body.items())


@cache
def bedrock_runtime() -> Any:
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    return ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))


def bedrock_converse(body: dict[str, Any]) -> str | None:
    from botocore.validate import ParamValidator

    shape = bedrock_runtime().operation_model("Converse").input_shape
    return ParamValidator().validate({"modelId": "m", **body}, shape).generate_report() or None


def bedrock_count_tokens(body: dict[str, Any]) -> str | None:
    from botocore.validate import ParamValidator

    shape = bedrock_runtime().operation_model("CountTokens").input_shape
    return ParamValidator().validate({"modelId": "m", **body}, shape).generate_report() or None


def xai_responses(body: dict[str, Any]) -> str | None:
    return problem(body, documented.XaiResponses)


def openrouter_chat(body: dict[str, Any]) -> str | None:
    return problem(body, documented.OpenRouterChat)


def groq_chat(body: dict[str, Any]) -> str | None:
    return problem(body, documented.GroqChat)


def signature(request: dict[str, Any]) -> str:
    """The signature of botocore for a request."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    headers = request["headers"]
    names = headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    signed = {name: headers[name] for name in names}
    asked = AWSRequest(request["method"], request["url"], signed, request["body"].encode())
    asked.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(Credentials(request["key_id"], request["secret"]), "bedrock", request["region"])
    return auth.signature(auth.string_to_sign(asked, auth.canonical_request(asked)), asked)


CHECKS = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic-messages": anthropic_messages,
    "anthropic-beta": anthropic_beta,
    "google-generate-content": google_generate_content,
    "bedrock-converse": bedrock_converse,
    "bedrock-count-tokens": bedrock_count_tokens,
    "xai-responses": xai_responses,
    "openrouter-chat": openrouter_chat,
    "groq-chat": groq_chat,
    "signature": signature,
}

for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps(CHECKS[asked["check"]](asked["value"])), flush=True)
