"""Workflows and their state."""

from collections.abc import Callable, Mapping
from typing import Any, final

from turntree._core._server import AsgiCore, ServerCore
from turntree._core._store import StoreCore

@final
class UaipClientCore:
    """The native half of ``turntree.uaip.Client``.

    With ``blocking=False``, operations return a coroutine.
    """

    @staticmethod
    def connect(url: str, token: str | None) -> UaipClientCore:
        """A client of the server at a URL. Raises ValueError for a URL that is not one."""

    @staticmethod
    def in_process(
        workflows: list[WorkflowCore], store: StoreCore, settings: Mapping[str, Any], principal: str | None
    ) -> UaipClientCore:
        """A client of workflows in this process. Their functions run on the event loop of the caller.

        With a ``principal``, sessions belong to it: clients of servers on the same store do not find them.
        """

    def open(self, workflow: str | None, key: str | None, blocking: bool) -> object:
        """Opens a session, or the one that was opened with the same ``key``."""

    def workflow(self, name: str, blocking: bool) -> object:
        """The schema of a workflow."""

@final
class UaipSessionCore:
    """The native half of ``turntree.uaip.Session``.

    With ``blocking=False``, operations return a coroutine.
    """

    @property
    def id(self) -> str:
        """The id, which is a secret."""

    @property
    def workflow(self) -> str:
        """The name of the workflow."""

    @property
    def stage(self) -> str:
        """The current stage."""

    @property
    def stages(self) -> list[str]:
        """The names of all stages."""

    @property
    def version(self) -> int | None:
        """The version of the state, if the server sends it."""

    @property
    def terminal(self) -> bool:
        """Whether no transition leaves the current stage."""

    @property
    def ended(self) -> bool:
        """Whether the session was ended."""

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that can be called now: dicts with ``name``, ``description`` and ``input_schema``."""

    def call(self, task: str, arguments: Mapping[str, Any], blocking: bool) -> object:
        """Calls a task and returns its result."""

    def call_with_progress(
        self, task: str, arguments: Mapping[str, Any], on_progress: Callable[[dict[str, Any]], Any], blocking: bool
    ) -> object:
        """Calls a task, and calls a function of each report. Returns the result."""

    def go(self, stage: str, blocking: bool) -> object:
        """Moves to another stage."""

    def provide(self, values: Mapping[str, Any], blocking: bool) -> object:
        """Writes values of the state."""

    def end(self, blocking: bool) -> object:
        """Ends the session."""

    def state(self, blocking: bool) -> object:
        """Reads the state that agents may see."""

def uaip_server(
    workflows: list[WorkflowCore],
    store: StoreCore,
    settings: Mapping[str, Any],
    host: str,
    port: int,
    auth: Callable[..., Any] | None,
    drain: float | None,
) -> ServerCore:
    """A native server of workflows."""

def uaip_asgi(
    workflows: list[WorkflowCore], store: StoreCore, settings: Mapping[str, Any], auth: Callable[..., Any] | None
) -> AsgiCore:
    """An ASGI application of workflows."""

def uaip_openapi(workflows: list[WorkflowCore]) -> dict[str, Any]:
    """The OpenAPI document of a server of workflows."""

@final
class WorkflowCore:
    """The native half of ``turntree.uaip.Workflow``: a definition that was checked, with its functions."""

    def __new__(cls, definition: Any, functions: Mapping[tuple[str, str, str], Callable[..., Any]]) -> WorkflowCore:
        """Checks a definition. ``functions`` maps ``(kind, stage, name)`` to functions.

        A function receives the arguments, the state and the context. Raises ValueError with the place, the rule and the
        remedy.
        """

    def approvals(self) -> list[tuple[str, str, dict[str, Any]]]:
        """The calls that wait for a decision, in the stores of running services: ``(id, task, arguments)``."""

    def decide(self, id: str, reason: str | None) -> bool:
        """Stores a decision: ``reason`` None grants the call. Returns whether a call with this id waited."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def initial_stage(self) -> str:
        """The name of the stage in which sessions start."""

@final
class State:
    """The state of a session: JSON values by key.

    A key is any text; ``user.email`` is one key. A read looks for the exact key first, and then follows the parts
    between the periods into objects: ``get("cart.items")`` finds the member ``items`` of the value ``cart``. A write
    never splits a key. ``get`` returns a copy: call ``set`` with a value that has changed. If the task fails, nothing
    is written.

    Created for each call of a task, guard or hook. After the call it raises RuntimeError.
    """

    def get(self, key: str, default: Any = None) -> Any:
        """Return a copy of a value, or ``default`` if there is none."""

    def set(self, key: str, value: Any) -> None:
        """Write a value under exactly this key. Raises TypeError for a value without a JSON form."""

    def has(self, key: str) -> bool:
        """Return whether `get` finds a value, which may be None."""

    def delete(self, key: str) -> bool:
        """Delete exactly this key; return whether it existed."""

    def update(self, values: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Write several values: a mapping, keywords, or both. Writes all of them or none."""

    def ns(self, name: str) -> State:
        """A view of the keys that start with a name and a period.

        ``state.ns("user").get("email")`` reads ``user.email``.
        """

    @property
    def shared(self) -> State:
        """The store of the session.

        It differs from this one only if the workflow has ``state_management``, which gives each stage a store of its
        own.
        """

    def keys(self) -> list[str]:
        """The keys in their order."""

    def to_dict(self) -> dict[str, Any]:
        """A copy of all keys and values."""

    def __contains__(self, key: str, /) -> bool: ...
