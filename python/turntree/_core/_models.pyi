"""Models: references, replays, custom and scripted models, and prices."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

from typing_extensions import Self

from turntree._core._data import Json
from turntree._core._messages import ContentBlock, Message, StreamEvent, TokenUsage, ToolCall
from turntree._core._provider_config import ProviderConfig
from turntree.upp.prices import Price

@final
class Replay:
    """Recorded HTTP exchanges in use. Made by `replay`; given to a provider as ``transport``, or entered with ``with``.

    ``with replay(path):`` applies to every request that is made inside, in the tasks that are started inside as well;
    a ``transport`` of a configuration goes before it. Entering begins with the first exchange, leaving saves what was
    recorded.
    """

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def mode(self) -> Literal["replay", "record", "auto"]:
        """What it is used for; ``once`` has become one of the two."""

    @property
    def recorded(self) -> int:
        """Exchanges in the recording."""

    @property
    def played(self) -> int:
        """Answers that were played since the beginning, or since the recording was entered or rewound."""

    @property
    def unused(self) -> list[dict[str, Any]]:
        """The exchanges that were not played, in their order: ``index`` in the file from 0, ``method`` and ``url``."""

    def rewind(self) -> None:
        """Play from the first exchange again."""

    def save(self) -> None:
        """Write what was recorded, after a moment (2 seconds at most) for answers that are still being read.

        Raises:
            OSError: The file cannot be written; what was there stays.
            ValueError: The redaction hook failed.
        """

    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...

def replay(
    path: str | PathLike[str],
    mode: Literal["replay", "record", "auto", "once"] = "replay",
    *,
    ignore: Sequence[str] = ...,
    redact: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
    repeat: bool = False,
) -> Replay:
    """Record HTTP exchanges in a file, or play them instead of the network.

    Plays at the place of the socket: retries, limits, event streams and errors run as in life. Nothing touches the
    network and no key is needed. A request is answered by the first exchange that was not played and has the same
    method, URL and body; JSON is compared as values. Credentials are never written.

    Args:
        path: The file, as ``docs/replay.md`` describes it.
        mode: ``replay`` plays; ``record`` sends everything and replaces what the file held; ``auto`` plays what is
            recorded, sends and adds what is not; ``once`` records when there is no file, and plays it otherwise.
        ignore: JSON pointers into request bodies that are not compared, as ``/metadata/run``; ``*`` is any one key.
        redact: Takes out what only you know to be secret: called with an exchange as the file holds it, returns it
            changed. Called more than once, also with ``request`` alone. With it, nothing is written before the end of
            ``with``, or `Replay.save`.
        repeat: Play the last exchange that matches again, when all of them have been played.

    Raises:
        FileNotFoundError: There is nothing to play.
        OSError: The file cannot be read.
        ValueError: The file is no recording, is cut short, or is of a newer version; a pointer is none; no such mode.
    """

@final
class ModelReference:
    """A model that an agent can be given. UPP-1.2 §9.

    Made by a provider's factory, as ``anthropic("claude-sonnet-4-5")``, or by `scripted`. Equal only to itself.

    Args:
        provider: The name of the factory.
        model_id: The vendor's name of the model.
        options: The factory's own options.
        config: How to reach the provider.

    Raises:
        ValueError: No such provider, or no model.
    """

    def __new__(
        cls, provider: str, model_id: str, options: dict[str, Any], config: ProviderConfig | Mapping[str, Any] | None
    ) -> Self: ...
    @property
    def model_id(self) -> str:
        """The vendor's name of the model."""

    @property
    def provider(self) -> str:
        """Whose model, as ``openai``."""

    @property
    def modalities(self) -> tuple[Literal["llm", "embedding", "image"], ...]:
        """What its provider serves: of ``llm``, ``embedding`` and ``image``."""

    @property
    def capabilities(self) -> dict[str, bool]:
        """What it can take and do.

        Keys: ``streaming``, ``tools``, ``structured_output``, ``image_input``, ``document_input``, ``video_input``
        and ``audio_input``.
        """

    @property
    def requests(self) -> list[ModelRequest]:
        """What a script was asked so far, in order; empty for other models."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class ModelRequest:
    """What a model is asked: given to the function of `scripted`, and recorded in ``ModelReference.requests``."""

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
        """The tools as dicts with ``name``, ``description``, ``parameters`` and, where given, ``metadata``."""

    @property
    def structure(self) -> dict[str, Any] | None:
        """JSON Schema of the structured answer, where one is wanted."""

@final
class EventSink:
    """Where a stream of `create_provider` puts its events."""

    def push(self, event: StreamEvent | Mapping[str, Any]) -> bool:
        """Put an event; tell whether there is room for another.

        Raises:
            RuntimeError: Nobody reads the stream any more.
        """

    def wait(self) -> None:
        """Wait on this thread until there is room again.

        Raises:
            RuntimeError: Nobody reads the stream any more.
        """

    def when_room(self, function: Callable[[], object]) -> None:
        """Have a function called once, when there is room again or nobody reads any more; at once where there is."""

def custom_model(
    provider: str,
    model_id: str,
    capabilities: dict[str, Any],
    generate: Callable[[ModelRequest], Any] | None,
    stream: Callable[[ModelRequest, EventSink], Any] | None,
    media: dict[str, Any],
) -> ModelReference:
    """Refer to a model of a provider that is written in Python; `create_provider` does.

    Args:
        provider: Its name.
        model_id: The name of the model.
        capabilities: As `ModelReference.capabilities`.
        generate: Gives ``(items, usage, stop_reason, data, metadata, id)``.
        stream: Puts events into the sink and gives the same; items may be None.
        media: What makes vectors and pictures: ``embed(inputs, params, input_type)`` with its ``batch_size``,
            ``generate_image`` and ``edit``, each ``(prompt, params, image, mask)``.
    """

def price_rows() -> list[Price]:
    """Give the prices that calls use; the first that fits counts."""

def set_price_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Put rows before those of the package, in place of what was put there before.

    Raises:
        ValueError: A row of another shape.
    """

def tokens_cost(
    usage: TokenUsage | Mapping[str, Any], provider: str, model: str, rows: Sequence[Mapping[str, Any]]
) -> float | None:
    """Tell what tokens cost by these rows and then those that calls use; None where it is not certain."""

ReplyBlock: TypeAlias = str | ContentBlock | ToolCall | Mapping[str, Json]

ReplyContent: TypeAlias = ReplyBlock | BaseException | Sequence[ReplyBlock | StreamEvent | BaseException]

@final
class Reply:
    """One reply of a script, with its timing.

    Args:
        says: A text, a block, a `ToolCall`, a list of them, an exception that the call fails with, or a list of
            `StreamEvent` that may end in an exception.
        delay: Seconds before the answer begins.
        pace: Seconds before each further event of a stream.

    Raises:
        ValueError: A time is negative or not finite.
    """

    def __new__(cls, says: ReplyContent, *, delay: float = 0.0, pace: float = 0.0) -> Self: ...
    @property
    def delay(self) -> float:
        """Seconds before the answer begins."""

    @property
    def pace(self) -> float:
        """Seconds before each further event of a stream."""

    @property
    def says(self) -> Any:
        """What is answered, as it was given."""

def scripted(
    replies: Iterable[ReplyContent | Reply]
    | Callable[[ModelRequest], ReplyContent | Reply | Awaitable[ReplyContent | Reply]],
    *,
    model_id: str = "scripted",
) -> ModelReference:
    """Make a model that answers from a script: no network, no chance.

    A reply is a text, a block, a `ToolCall` (or its dict; its id may be missing), a list of them, an exception, or a
    list of `StreamEvent`. `Reply` adds timing. What was asked is recorded in ``requests``.

    Args:
        replies: The replies in their order, or a function (sync or async) from a request to its reply.
        model_id: The name that the model gives itself.

    Raises:
        TypeError: Neither a list nor a function, or a reply that is none of these.
    """
