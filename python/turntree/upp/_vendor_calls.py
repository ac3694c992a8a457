"""What files and batches share: the connection to the vendor, checks of ids, and calls without an event loop."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from turntree._core import ModelReference, ProviderConfig, VendorApi
from turntree._options import check_model
from turntree.exceptions import ErrorCode, UPPError
from turntree.upp._paths import is_vertex

if TYPE_CHECKING:
    from turntree.upp._llm import LLM

ResultT = TypeVar("ResultT")

_ID = re.compile(r"[\w.:-]+\Z", re.ASCII)


def model_and_config(owner: object) -> tuple[ModelReference, ProviderConfig | Mapping[str, Any] | None]:
    """Return the model of an LLM, a reference or a name, and the configuration that overrides that of the model.

    Raises:
        TypeError: It is something else.
        ValueError: The name has another form, or the provider is unknown.
    """
    from turntree.upp._llm import LLM, options_of

    if isinstance(owner, LLM):
        bound = cast("LLM[Any]", owner)
        return bound.model, options_of(bound).get("config")
    if isinstance(owner, str):
        from turntree.upp._registry import model

        return model(owner), None
    return check_model(owner), None


def connect(owner: object, what: str, vendors: Mapping[str, object]) -> tuple[str, VendorApi]:
    """Return the vendor of a model and its connection.

    Raises:
        UPPError: INVALID_REQUEST: the vendor is none of these.
    """
    model, config = model_and_config(owner)
    if model.provider not in vendors:
        refuse(model, what, vendors)
    return model.provider, api_of(model, config, what)


def api_of(model: ModelReference, config: ProviderConfig | Mapping[str, Any] | None, what: str) -> VendorApi:
    """Return the connection to the vendor of a model.

    Raises:
        UPPError: INVALID_REQUEST: the model is Claude at Vertex AI, which has the model calls alone.
    """
    api = VendorApi(model, config)
    if is_vertex(api.path):
        message = f"Vertex AI has no {what} of Claude; use a model of anthropic(…) for them"
        raise UPPError(message, ErrorCode.INVALID_REQUEST, provider=model.provider)
    return api


def refuse(model: ModelReference, what: str, vendors: Mapping[str, object]) -> NoReturn:
    """Raise the error of a vendor that does not have an API."""
    message = f"{what} are not supported for {model.provider} models; use a model of {' or '.join(sorted(vendors))}"
    raise UPPError(message, ErrorCode.INVALID_REQUEST, provider=model.provider)


def check_id(identifier: object, what: str, prefix: str = "") -> str:
    """Return an id without its prefix, for a path.

    Raises:
        TypeError: It is not a text.
        ValueError: It has characters that ids do not have.
    """
    if not isinstance(identifier, str):
        message = f"{what} must be a str, not {type(identifier).__name__}"
        raise TypeError(message)
    short = identifier.removeprefix(prefix)
    if not _ID.match(short) or set(short) == {"."}:
        message = f"{what} must be an id that the vendor has returned, not {identifier!r}"
        raise ValueError(message)
    return short


def multipart(kind: str, parts: list[tuple[list[str], bytes]]) -> tuple[bytes, str]:
    """Return a multipart body and its media type. A part is its header lines and its content."""
    import os

    boundary = f"turntree-{os.urandom(16).hex()}"
    body = bytearray()
    for lines, content in parts:
        body += f"--{boundary}\r\n".encode()
        body += "".join(f"{line}\r\n" for line in lines).encode()
        body += b"\r\n" + content + b"\r\n"
    body += f"--{boundary}--\r\n".encode()
    return bytes(body), f"multipart/{kind}; boundary={boundary}"


def form(fields: Mapping[str, str], name: str, media_type: str, data: bytes) -> tuple[bytes, str]:
    """Return a form with a file and its media type."""
    parts = [([f'Content-Disposition: form-data; name="{key}"'], value.encode()) for key, value in fields.items()]
    # Names are escaped as browsers do.
    escaped = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    disposition = f'Content-Disposition: form-data; name="file"; filename="{escaped}"'
    return multipart("form-data", [*parts, ([disposition, f"Content-Type: {media_type}"], data)])


def run_sync(function: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
    """Run a coroutine to its end on this thread, or on another one if this thread runs an event loop."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(function())
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as executor:
        return executor.submit(lambda: asyncio.run(function())).result()


def write_json(value: object) -> str:
    """Return the JSON text of a value. `json` is loaded with the first call that needs it."""
    import json

    return json.dumps(value, ensure_ascii=False)


def read_object(body: bytes | str, provider: str) -> dict[str, Any]:
    """Return the JSON object of a response.

    Raises:
        UPPError: INVALID_RESPONSE: the body is something else. PROVIDER_ERROR: it reports an error.
    """
    import json

    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        message = f"the response of {provider} is not a JSON object"
        raise UPPError(message, ErrorCode.INVALID_RESPONSE, provider=provider)
    members = cast("dict[str, Any]", value)
    reported: object = members.get("error") or members.get("detail")
    # Files and batches have an error of their own.
    if reported and not members.keys() & {"id", "name"}:
        is_object = isinstance(reported, dict)
        words: object = cast("dict[str, Any]", reported).get("message") if is_object else reported
        text = words if isinstance(words, str) else write_json(reported)
        raise UPPError(text, ErrorCode.PROVIDER_ERROR, provider=provider)
    return members
