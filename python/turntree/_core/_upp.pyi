"""The native halves of `turntree.upp.llm`, of embedding models and of image models."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, final

from typing_extensions import Self

from turntree._core._async import BlockingEvents, Coroutine, EventStream, ResultStreamCore
from turntree._core._embeddings import EmbeddingInput, EmbeddingInputType, EmbeddingProgress, EmbeddingResult
from turntree._core._images import ImageEvent, ImageLike, ImagePrompt, ImageResult
from turntree._core._messages import Turn
from turntree._core._middleware import MiddlewareChain
from turntree._core._models import ModelReference
from turntree._core._provider_config import ProviderConfig
from turntree._core._stream_events import StreamEvent
from turntree.upp._structure import AnswerType
from turntree.upp._tools import Tool

_T_co = TypeVar("_T_co", covariant=True)

@final
class AgentStreamCore(Generic[_T_co]):
    """The native half of ``turntree.AgentStream`` and ``turntree.upp.StreamResult``."""

    @classmethod
    def __class_getitem__(cls, item: Any, /) -> Any:
        """Return an annotation with the types of the events and the result, for type checkers."""

    @property
    def events(self) -> EventStream[_T_co]:
        """The asynchronous iterator over events; always the same object."""

    def blocking(self) -> BlockingEvents[_T_co]:
        """Return the synchronous iterator over the same events."""

    @property
    def partial(self) -> Any:
        """The structured answer so far as plain data, from the events that were read. None before the first data."""

    def turn(self) -> Coroutine[Turn]:
        """Return a coroutine that waits for the turn. The run continues while it is awaited."""

    def turn_sync(self) -> Turn:
        """Wait for the turn on this thread."""

    def abort(self) -> None:
        """Stop the run and release its connection immediately, even if nothing awaits the run. The turn is partial."""

@final
class LlmCore:
    """The native half of ``turntree.upp.LLM``. Any number of calls can run at the same time."""

    def __new__(
        cls,
        *,
        model: ModelReference,
        params: Mapping[str, Any] | None,
        config: ProviderConfig | Mapping[str, Any] | None,
        max_iterations: int | None,
        tools: list[Tool[..., Any]],
        system: str | Sequence[Mapping[str, Any]] | None,
        structure: Any,
        structure_repair: bool,
        output_retries: int | None,
        answer: AnswerType | None,
        hooks: dict[str, Callable[..., Any] | None],
        middleware: MiddlewareChain,
        cleanup_timeout: float | None,
    ) -> Self: ...
    def generate(self, arguments: tuple[Any, ...]) -> Coroutine[Turn]:
        """Start a call on the caller's event loop and return a coroutine that returns the turn.

        Raises:
            UPPError: The model does not support a requested feature, or an argument is not an input. Raised
                immediately.
        """

    def generate_sync(self, arguments: tuple[Any, ...]) -> Turn:
        """Call on this thread, without an event loop, and return the turn.

        Raises:
            UPPError: As `generate`, or the model call failed.
        """

    def stream(self, arguments: tuple[Any, ...], on_loop: bool) -> AgentStreamCore[StreamEvent]:
        """Start a streamed call.

        Args:
            arguments: The history, if any, and the inputs.
            on_loop: Whether tools run on the caller's event loop. Otherwise they run on a loop in a background
                thread.

        Raises:
            UPPError: As `generate`, or the model cannot stream.
        """

@final
class EmbeddingModelCore:
    """The native half of ``turntree.upp.EmbeddingModel``."""

    def __new__(
        cls,
        *,
        model: ModelReference,
        params: Mapping[str, Any] | None,
        config: ProviderConfig | Mapping[str, Any] | None,
        middleware: MiddlewareChain,
    ) -> Self: ...
    def embed(
        self, inputs: EmbeddingInput, batch_size: int | None, concurrency: int, input_type: EmbeddingInputType | None
    ) -> Coroutine[EmbeddingResult]:
        """Start a call and return a coroutine that returns the result."""

    def embed_sync(
        self, inputs: EmbeddingInput, batch_size: int | None, concurrency: int, input_type: EmbeddingInputType | None
    ) -> EmbeddingResult:
        """As `embed`, but block this thread until the result."""

    def stream(
        self, inputs: EmbeddingInput, batch_size: int | None, concurrency: int, input_type: EmbeddingInputType | None
    ) -> ResultStreamCore[EmbeddingProgress, EmbeddingResult]:
        """Start a streamed call."""

@final
class ImageModelCore:
    """The native half of ``turntree.upp.ImageModel``."""

    def __new__(
        cls,
        *,
        model: ModelReference,
        params: Mapping[str, Any] | None,
        config: ProviderConfig | Mapping[str, Any] | None,
        middleware: MiddlewareChain,
    ) -> Self: ...
    @property
    def capabilities(self) -> dict[str, Any]:
        """Capabilities of the model."""

    def generate(self, prompt: ImagePrompt, image: ImageLike | None, mask: ImageLike | None) -> Coroutine[ImageResult]:
        """Start a call and return a coroutine that returns the result. Edits `image` if it is given."""

    def generate_sync(self, prompt: ImagePrompt, image: ImageLike | None, mask: ImageLike | None) -> ImageResult:
        """As `generate`, but block this thread until the result."""

    def stream(self, prompt: ImagePrompt) -> ResultStreamCore[ImageEvent, ImageResult]:
        """Start a streamed call."""
