"""What the middleware of a model call reads and changes: request, response and state."""

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
    """One call of a model, as its middleware sees it. All hooks of a call get the same object. UPP-1.2 §17."""

    @property
    def modality(self) -> str:
        """What kind of model: ``llm``, ``embedding`` or ``image``."""

    @property
    def model_id(self) -> str:
        """The vendor's name of the model."""

    @property
    def provider(self) -> str:
        """Whose model."""

    @property
    def streaming(self) -> bool:
        """Whether somebody listens to a stream."""

    @property
    def request(self) -> CallRequest:
        """What is asked. Changes made in ``on_start`` and ``on_request`` take effect."""

    @property
    def response(self) -> CallResponse | EmbeddingResult | ImageResult | None:
        """The last answer, once there is one: a `CallResponse` of a language model, else the result of the call."""

    @property
    def stop_reason(self) -> str | None:
        """Why a language model stopped last, as ``end_turn``; None before it has."""

    @property
    def state(self) -> CallState:
        """What middlewares keep with the call."""

    @property
    def start_time(self) -> datetime:
        """When the call began."""

    @property
    def end_time(self) -> datetime | None:
        """When the call was over; None while it is not."""

@final
class CallRequest:
    """What a model is about to be asked.

    In ``on_start`` and ``on_request`` its members may be set, and their lists and dicts be changed in place: both take
    effect when the hook is over. Language models have `messages`, `system`, `tools` and `structure`, models that make
    vectors `inputs` and `input_type`, those that make pictures `prompt`; all have `params`. Another model's member
    raises `TypeError`.
    """

    @property
    def messages(self) -> list[Message]:
        """The conversation, oldest first. Where the turn starts is found by the ids of its messages."""

    @messages.setter
    def messages(self, value: HistoryInput) -> None: ...
    @property
    def system(self) -> str | list[dict[str, Any]] | None:
        """The system prompt: a text or a list of blocks."""

    @system.setter
    def system(self, value: str | Sequence[Mapping[str, Any]] | None) -> None: ...
    @property
    def params(self) -> dict[str, Any]:
        """The model's own parameters."""

    @params.setter
    def params(self, value: Mapping[str, Any]) -> None: ...
    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that are offered. Tools may be left out, put in another order or described anew.

        A tool that the model was not made with can be offered, but not be called.
        """

    @tools.setter
    def tools(self, value: Iterable[Tool[..., Any] | Mapping[str, Any]]) -> None: ...
    @property
    def structure(self) -> dict[str, Any] | None:
        """JSON Schema of the structured answer, where one is wanted."""

    @structure.setter
    def structure(self, value: Mapping[str, Any] | None) -> None: ...
    @property
    def inputs(self) -> list[str | Image]:
        """What vectors are wanted of: all inputs of the call, before they are cut into batches."""

    @inputs.setter
    def inputs(self, value: EmbeddingInput) -> None: ...
    @property
    def input_type(self) -> EmbeddingInputType | None:
        """What the vectors are for."""

    @input_type.setter
    def input_type(self, value: EmbeddingInputType | None) -> None: ...
    @property
    def prompt(self) -> str:
        """What to draw, or what to change of a picture."""

    @prompt.setter
    def prompt(self, value: ImagePrompt) -> None: ...

@final
class CallResponse:
    """What a language model answered last."""

    @property
    def message(self) -> AssistantMessage:
        """The model's message."""

    @property
    def usage(self) -> TokenUsage:
        """Tokens of this answer."""

    @property
    def stop_reason(self) -> str:
        """Why the model stopped, as ``end_turn``."""

    @property
    def data(self) -> Any:
        """The structured answer, where one was asked for and came; else None."""

@final
class CallState:
    """What middlewares keep with a call: a mapping from names to anything; hooks and stream of the call share it."""

    def __getitem__(self, key: str, /) -> Any: ...
    def __setitem__(self, key: str, value: Any, /) -> None: ...
    def __delitem__(self, key: str, /) -> None: ...
    def __contains__(self, key: str, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def get(self, name: str, default: Any = None) -> Any:
        """Give the value under a name, or `default`."""

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Give the value under a name; `default`, which is put there, when there is none."""

    def pop(self, name: str, default: Any = None) -> Any:
        """Take a value away and give it, or `default`."""

    def keys(self) -> list[str]:
        """Give the names, sorted."""
