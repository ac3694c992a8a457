"""Events of UAMP and their types."""

from typing import Any, ClassVar, final

from typing_extensions import Self

from turntree._core._data import Data, Json

@final
class ClientEvent(Data):
    """An event that a client sends, such as ``input.text``.

    Members are attributes under the names of the protocol: those of events, such as ``event_id``, ``session_id``,
    ``timestamp`` and ``seq``, and those of the type. A member that is missing is None. Members that the protocol
    does not name, and events of types that are not in `TYPES`, are unchanged.

    Spec: UAMP-1.0 §5.
    """

    TYPES: ClassVar[frozenset[str]]
    def __new__(cls, type: str, /, **members: Json) -> Self: ...
    def __getattr__(self, name: str) -> Any: ...
    @property
    def type(self) -> str:
        """The type."""

@final
class ServerEvent(Data):
    """An event that a server sends, such as ``response.delta``; like `ClientEvent`.

    Spec: UAMP-1.0 §6.
    """

    TYPES: ClassVar[frozenset[str]]
    def __new__(cls, type: str, /, **members: Json) -> Self: ...
    def __getattr__(self, name: str) -> Any: ...
    @property
    def type(self) -> str:
        """The type."""

@final
class SystemEvent(Data):
    """An event inside an application, such as ``system.stop``; like `ClientEvent`. Clients do not send them.

    Spec: UAMP-1.0 §11.
    """

    TYPES: ClassVar[frozenset[str]]
    def __new__(cls, type: str, /, **members: Json) -> Self: ...
    def __getattr__(self, name: str) -> Any: ...
    @property
    def type(self) -> str:
        """The type."""

@final
class ContentItem(Data):
    """A part of a message or of an output.

    The types are ``text``, ``image``, ``audio``, ``video``, ``file``, ``tool_call`` and ``tool_result``; other ones are
    unchanged.

    Spec: UAMP-1.0 §8.4.2.
    """

    def __new__(cls, type: str, /, **members: Json) -> Self: ...
    def __getattr__(self, name: str) -> Any: ...
    @property
    def type(self) -> str:
        """The type."""

@final
class UampMessage(Data):
    """A message of a conversation: an element of ``messages`` of ``input.text``.

    ``content`` is its text; ``content_items`` has its media as well.

    Spec: UAMP-1.0 §8.5.
    """

    def __new__(cls, **members: Json) -> Self: ...
    def __getattr__(self, name: str) -> Any: ...

@final
class SessionConfig(Data):
    """The configuration of a session: the member ``session`` of ``session.create``.

    Spec: UAMP-1.0 §8.1.
    """

    def __new__(cls, **members: Json) -> Self: ...
    def __getattr__(self, name: str) -> Any: ...

@final
class Capabilities(Data):
    """What a model, a client or an agent can do. Members that are required and missing are False.

    Spec: UAMP-1.0 §9.
    """

    def __new__(cls, **members: Json) -> Self: ...
    def __getattr__(self, name: str) -> Any: ...

@final
class UsageStats(Data):
    """Tokens and costs of a response.

    Spec: UAMP-1.0 §8.7.
    """

    def __new__(cls, **members: Json) -> Self: ...
    def __getattr__(self, name: str) -> Any: ...
