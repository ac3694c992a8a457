"""The context of a model call for middleware: request, response and state."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, final

from turntree._core._agents import HistoryInput
from turntree._core._embeddings import EmbeddingInput, EmbeddingInputType, EmbeddingResult
from turntree._core._images import ImagePrompt, ImageResult
from turntree._core._media import Image
from turntree._core._messages import AssistantMessage, Message, TokenUsage
from turntree.upp._tools import Tool

@final
class CallContext:
    """The context of one model call. All hooks of a call receive the same object.

    Spec: UPP-1.2 §17.
    """

    @property
    def modality(self) -> str:
        """Kind of model: "llm", "embedding" or "image"."""

    @property
    def model_id(self) -> str:
        """The vendor's name of the model."""

    @property
    def provider(self) -> str:
        """Name of the provider."""

    @property
    def streaming(self) -> bool:
        """Whether the call is streamed."""

    @property
    def request(self) -> CallRequest:
        """The request. Changes in `on_start` and `on_request` take effect."""

    @property
    def response(self) -> CallResponse | EmbeddingResult | ImageResult | None:
        """The last response; None before it.

        A `CallResponse` of a language model, an `EmbeddingResult` or an `ImageResult`.
        """

    @property
    def stop_reason(self) -> str | None:
        """Last stop reason of a language model, such as `end_turn`; None before the first response."""

    @property
    def state(self) -> CallState:
        """The state that middlewares store with the call."""

    @property
    def start_time(self) -> datetime:
        """Start time of the call."""

    @property
    def end_time(self) -> datetime | None:
        """End time of the call; None while it runs."""

@final
class CallRequest:
    """The request of a call.

    ``on_start`` and ``on_request`` may set its attributes, and change their lists and dicts in place. Changes take
    effect when the hook returns. Requests of language models have `messages`, `system`, `tools` and `structure`, those
    of embedding models `inputs` and `input_type`, those of image models `prompt`; all have `params`. Other attributes
    raise `TypeError`.
    """

    @property
    def messages(self) -> list[Message]:
        """The conversation as a list, oldest message first. The ids of the messages mark where the turn starts."""

    @messages.setter
    def messages(self, value: HistoryInput) -> None: ...
    @property
    def system(self) -> str | list[dict[str, Any]] | None:
        """The system prompt: a text, a list of blocks, or None."""

    @system.setter
    def system(self, value: str | Sequence[Mapping[str, Any]] | None) -> None: ...
    @property
    def params(self) -> dict[str, Any]:
        """The model's own parameters, a dict."""

    @params.setter
    def params(self, value: Mapping[str, Any]) -> None: ...
    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that the model may call. Remove, reorder or change them.

        A tool that was not passed to the model can be added, but not executed.
        """

    @tools.setter
    def tools(self, value: Iterable[Tool[..., Any] | Mapping[str, Any]]) -> None: ...
    @property
    def structure(self) -> dict[str, Any] | None:
        """JSON Schema of the structured answer, or None."""

    @structure.setter
    def structure(self, value: Mapping[str, Any] | None) -> None: ...
    @property
    def inputs(self) -> list[str | Image]:
        """The inputs to embed, before batching: a list of texts and `Image` blocks."""

    @inputs.setter
    def inputs(self, value: EmbeddingInput) -> None: ...
    @property
    def input_type(self) -> EmbeddingInputType | None:
        """Purpose of the embeddings: "document", "query" or None."""

    @input_type.setter
    def input_type(self, value: EmbeddingInputType | None) -> None: ...
    @property
    def prompt(self) -> str:
        """The prompt of an image, or of the change to an image."""

    @prompt.setter
    def prompt(self, value: ImagePrompt) -> None: ...

@final
class CallResponse:
    """The last response of a language model."""

    @property
    def message(self) -> AssistantMessage:
        """The model's message."""

    @property
    def usage(self) -> TokenUsage:
        """Tokens of this call."""

    @property
    def stop_reason(self) -> str:
        """The stop reason, such as `end_turn`."""

    @property
    def data(self) -> Any:
        """The structured answer, or None."""

@final
class CallState:
    """The state of one call: a mapping from names to any objects. The hooks and the stream of the call share it."""

    def __getitem__(self, key: str, /) -> Any: ...
    def __setitem__(self, key: str, value: Any, /) -> None: ...
    def __delitem__(self, key: str, /) -> None: ...
    def __contains__(self, key: str, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def get(self, name: str, default: Any = None) -> Any:
        """The value under a name, or `default`."""

    def setdefault(self, name: str, default: Any = None) -> Any:
        """The value under a name. If there is none, stores and returns `default`."""

    def pop(self, name: str, default: Any = None) -> Any:
        """Removes and returns the value under a name, or `default`."""

    def keys(self) -> list[str]:
        """The names, sorted."""
