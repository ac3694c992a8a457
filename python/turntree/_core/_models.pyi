"""Models: references, recordings, custom and scripted models, and prices."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

from typing_extensions import Self

from turntree._core._async import Coroutine
from turntree._core._data import Json
from turntree._core._messages import ContentBlock, Message, TokenUsage, ToolCall
from turntree._core._provider_config import ProviderConfig
from turntree._core._stream_events import StreamEvent
from turntree._recipes import Recipe
from turntree.exceptions import UPPError
from turntree.upp.prices import Price

@final
class Replay:
    """A recording of HTTP exchanges, returned by `replay`. Use it as ``transport`` or with ``with``.

    ``with replay(path):`` applies to all requests inside the block and in tasks that are started there. A
    ``transport`` in a configuration has precedence. Entering rewinds to the first exchange; leaving saves the new
    exchanges.
    """

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def mode(self) -> Literal["replay", "record", "auto"]:
        """The mode. ``once`` becomes ``record`` or ``replay``."""

    @property
    def recorded(self) -> int:
        """Number of exchanges in the recording."""

    @property
    def played(self) -> int:
        """Number of exchanges that were replayed since the recording was created, entered or rewound."""

    @property
    def unused(self) -> list[dict[str, Any]]:
        """The unused exchanges in order, as dicts: ``index`` in the file from 0, ``method`` and ``url``."""

    def rewind(self) -> None:
        """Start again from the first exchange."""

    def save(self) -> None:
        """Write the recording to the file. Waits up to 2 seconds for responses that are still being read.

        Raises:
            OSError: The file cannot be written. The existing file is unchanged.
            ValueError: The redaction hook failed.
        """

    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...

def guard_requests(hosts: list[str] | None) -> list[str] | None:
    """Refuse the requests of all models of this process, except those to this machine and to these hosts; None ends it.

    Returns the hosts that were allowed before.
    """

def replay(
    path: str | PathLike[str],
    mode: Literal["replay", "record", "auto", "once"] = "replay",
    *,
    ignore: Sequence[str] = ...,
    redact: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
    repeat: bool = False,
) -> Replay:
    """Record HTTP exchanges in a file, or replay them without network access.

    The recording replaces the HTTP connection only: retries, limits, event streams and errors work as usual. Replaying
    needs no key. A request gets the response of the first unused exchange with the same method, URL and body; JSON
    bodies are compared as values. Credentials are never recorded.

    Args:
        path: The file; ``docs/replay.md`` describes its format.
        mode: ``replay`` replays the file; ``record`` sends all requests and replaces the file; ``auto`` replays known
            requests, and sends and adds the others; ``once`` records if the file does not exist, else replays.
        ignore: JSON pointers to values in request bodies that are not compared, such as ``/metadata/run``; ``*`` is
            any key.
        redact: Function that removes further secrets: receives an exchange in the format of the file and returns it
            changed. May be called several times, also with ``request`` only. If given, the file is written only at the
            end of ``with`` or by `Replay.save`.
        repeat: If all matching exchanges are used, replay the last one again.

    Raises:
        FileNotFoundError: The file does not exist.
        OSError: The file cannot be read.
        ValueError: The file is not a recording, is truncated, or has a newer version; or a pointer or the mode is
            invalid.
    """

@final
class ModelReference:
    """A reference to a model: provider, model id and configuration.

    Returned by a provider's factory such as ``anthropic("claude-sonnet-4-5")``, or by `scripted`. Compared by identity.

    Args:
        provider: Name of the factory.
        model_id: The vendor's name of the model.
        options: Options of the factory.
        config: Configuration of the provider.
        recipe: What `pickle` stores for the reference.

    Raises:
        ValueError: The provider is unknown, or `model_id` is empty.

    Spec: UPP-1.2 §9.
    """

    def __new__(
        cls,
        provider: str,
        model_id: str,
        options: dict[str, Any],
        config: ProviderConfig | Mapping[str, Any] | None,
        recipe: tuple[Any, ...] | None = None,
    ) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the reference by the arguments of its factory, without the key."""

    def __copy__(self) -> Self:
        """Return the reference itself: it does not change."""

    def __deepcopy__(self, memo: object) -> Self:
        """Return the reference itself, with its key: it does not change."""

    @property
    def model_id(self) -> str:
        """The vendor's name of the model."""

    @property
    def provider(self) -> str:
        """Name of the provider, such as ``openai``."""

    @property
    def modalities(self) -> tuple[Literal["llm", "embedding", "image"], ...]:
        """The modalities of the provider: some of ``llm``, ``embedding`` and ``image``."""

    @property
    def capabilities(self) -> dict[str, bool]:
        """Capabilities of the model.

        Keys: ``streaming``, ``tools``, ``structured_output``, ``image_input``, ``document_input``, ``video_input``
        and ``audio_input``.
        """

    @property
    def requests(self) -> list[ModelRequest]:
        """The requests that a scripted model has received, in order. Empty for other models."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class ModelRequest:
    """The request to a model, as the function of `scripted` and ``ModelReference.requests`` have it."""

    @property
    def messages(self) -> list[Message]:
        """The conversation, oldest first."""

    @property
    def system(self) -> str | list[dict[str, Any]] | None:
        """The system prompt: a text, or a list of blocks."""

    @property
    def params(self) -> dict[str, Any]:
        """The model's own parameters."""

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools as dicts with ``name``, ``description``, ``parameters`` and optionally ``metadata``."""

    @property
    def structure(self) -> dict[str, Any] | None:
        """JSON Schema of the structured answer, or None."""

@final
class ModelCall:
    """A call of a model that has not been made."""

    @property
    def request(self) -> ModelRequest:
        """The request."""

    @property
    def last_message_id(self) -> str | None:
        """The id of the last message of the request, or None."""

    def run(self) -> Coroutine[str]:
        """Call the model and return the response as JSON text.

        Raises:
            UPPError: The call failed.
        """

def recorded_model(model: ModelReference, record: Callable[[ModelCall], Awaitable[str]]) -> ModelReference:
    """Return a model that calls another one through a function, which can record the response or return a recorded one.

    Args:
        model: The other model.
        record: Receives a `ModelCall` and returns the text that `ModelCall.run` has returned, now or earlier.
    """

def fallback_model(
    models: list[ModelReference],
    codes: list[str] | None,
    function: Callable[[UPPError], Any] | None,
    recipe: Recipe | None = None,
) -> ModelReference:
    """Return a model that calls these models in order until one answers. Used by `fallback`.

    Args:
        models: The models.
        codes: Codes of the errors after which the next model is called. None: the default.
        function: Decides instead of `codes`.
        recipe: What pickle needs to create the model in another process.

    Raises:
        ValueError: A code is unknown.
    """

def router_model(
    choose: Callable[[ModelRequest], ModelReference | Awaitable[ModelReference]], recipe: Recipe | None = None
) -> ModelReference:
    """Return a model that calls the model which a function chooses for each request. Used by `router`."""

@final
class EventSink:
    """Receives the events of a stream that is implemented in Python."""

    def push(self, event: StreamEvent | Mapping[str, Any]) -> bool:
        """Add an event and return whether there is space for another.

        Raises:
            RuntimeError: The reader has closed the stream.
        """

    def wait(self) -> None:
        """Block this thread until there is space.

        Raises:
            RuntimeError: The reader has closed the stream.
        """

    def when_room(self, function: Callable[[], object]) -> None:
        """Call a function once, when there is space or the reader has closed the stream; immediately if so now."""

@final
class TransportCall:
    """One request, as the Python half of a transport receives it."""

    @property
    def method(self) -> str:
        """The method."""

    @property
    def url(self) -> str:
        """The URL."""

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Names and values of the headers, secrets included."""

    @property
    def body(self) -> bytes:
        """The body."""

    def send(self, method: str, url: str, headers: list[tuple[str, str]], body: bytes) -> Coroutine[NetworkResponse]:
        """Send a request over the network and return its response.

        Raises:
            ConnectionError: The network failed.
            TimeoutError: There was no connection in time.
        """

    def respond(self, status: int, headers: list[tuple[str, str]]) -> None:
        """Begin the response.

        Raises:
            ValueError: The status or a header is invalid.
        """

    def push(self, chunk: bytes) -> Coroutine[bool]:
        """Add a chunk of the body when there is room for it. Return False if nobody reads it any more."""

    def forward(self, response: NetworkResponse) -> None:
        """Take the rest of the body from a response of the network.

        Raises:
            RuntimeError: The body was already read.
        """

    def end(self) -> None:
        """End the body."""

    def fail(self, exception: BaseException) -> None:
        """Fail with an exception, before or after the response has begun."""

@final
class NetworkResponse:
    """A response of the network, whose body is read as it arrives."""

    @property
    def status(self) -> int:
        """The status."""

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Names and values of the headers."""

    def next_chunk(self) -> Coroutine[bytes | None]:
        """Return the next chunk of the body, or None at its end.

        Raises:
            ConnectionError: The network failed.
        """

def custom_model(
    provider: str,
    model_id: str,
    capabilities: dict[str, Any],
    generate: Callable[[ModelRequest], Any] | None,
    stream: Callable[[ModelRequest, EventSink], Any] | None,
    media: dict[str, Any],
) -> ModelReference:
    """Return a reference to a model of a provider that is written in Python. Used by `create_provider`.

    Args:
        provider: Name of the provider.
        model_id: Name of the model.
        capabilities: As `ModelReference.capabilities`.
        generate: Returns ``(items, usage, stop_reason, data, metadata, id)``.
        stream: Pushes events into the sink and returns the same tuple; items may be None.
        media: Functions for embeddings and images: ``embed(inputs, params, input_type)`` with its ``batch_size``,
            ``generate_image`` and ``edit``, each ``(prompt, params, image, mask)``.
    """

def price_rows() -> list[Price]:
    """Return the price rows in use; the first matching row applies."""

def set_price_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Set the rows that have precedence over the built-in rows. Replaces earlier ones.

    Raises:
        ValueError: A row is invalid.
    """

def tokens_cost(
    usage: TokenUsage | Mapping[str, Any], provider: str, model: str, rows: Sequence[Mapping[str, Any]]
) -> float | None:
    """Return the cost of tokens by these rows, then by the rows in use. None if it is not certain."""

ReplyBlock: TypeAlias = str | ContentBlock | ToolCall | Mapping[str, Json]

ReplyContent: TypeAlias = ReplyBlock | BaseException | Sequence[ReplyBlock | StreamEvent | BaseException]

@final
class Reply:
    """One reply of a script, with its timing.

    Args:
        says: A text, a block, a `ToolCall`, a list of them, an exception that the call raises, or a list of
            `StreamEvent` whose last item may be an exception.
        delay: Seconds before the reply begins.
        pace: Seconds before each further event of a stream.

    Raises:
        ValueError: A time is negative or not finite.
    """

    def __new__(cls, says: ReplyContent, *, delay: float = 0.0, pace: float = 0.0) -> Self: ...
    @property
    def delay(self) -> float:
        """Seconds before the reply begins."""

    @property
    def pace(self) -> float:
        """Seconds before each further event of a stream."""

    @property
    def says(self) -> Any:
        """The content of the reply, as passed to the constructor."""

def scripted(
    replies: Iterable[ReplyContent | Reply]
    | Callable[[ModelRequest], ReplyContent | Reply | Awaitable[ReplyContent | Reply]],
    *,
    model_id: str = "scripted",
) -> ModelReference:
    """Return a model that replies from a script, without network access.

    A reply is a text, a block, a `ToolCall` (or its dict; its id may be missing), a list of them, an exception, or a
    list of `StreamEvent`. `Reply` adds timing. ``requests`` records the requests.

    Args:
        replies: The replies in order, or a function (sync or async) from a request to its reply.
        model_id: Name of the model.

    Raises:
        TypeError: `replies` is neither a list nor a function, or a reply has an unsupported type.
    """

@final
class VendorApi:
    """A model of a vendor's HTTP API, for requests that are not model calls.

    Args:
        model: The model.
        config: Configuration that overrides that of the model.

    Raises:
        TypeError: The model has no HTTP API.
    """

    def __new__(cls, model: ModelReference, config: ProviderConfig | Mapping[str, Any] | None) -> Self: ...
    def call(
        self, method: str, path: str, body: bytes, content_type: str, headers: list[tuple[str, str]], root: str
    ) -> Coroutine[bytes]:
        """Send a request with the key and the headers of the model and return the body of the response.

        Args:
            method: The method.
            path: The path under the base URL.
            body: The body; empty for none.
            content_type: The media type of the body.
            headers: Further headers.
            root: A path before that of the base URL, such as ``/upload``.

        Raises:
            UPPError: The request failed.
        """

    @property
    def path(self) -> str:
        """Path of the model's calls under the base URL."""

    def body(self, request: ModelRequest) -> str:
        """Return the body that the model sends for a request, as JSON text.

        Raises:
            UPPError: The API does not support the request.
        """

    def read(self, request: ModelRequest, body: str) -> str:
        """Return a response of the vendor as the JSON text of a response.

        Raises:
            UPPError: The text is not a response.
        """

def sign_rs256(key: bytes, data: bytes) -> bytes:
    """Sign data with an RSA key by RS256. The key is PKCS#8 in DER.

    Raises:
        ValueError: The key is not an RSA key of 2048 bits or more.
    """
