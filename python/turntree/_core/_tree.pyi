"""Thread trees: nodes, branches and differences."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, final

from typing_extensions import Self

from turntree._core._data import Data, Json
from turntree._core._messages import AnyMessage, Message, Thread, Turn

@final
class ThreadNode(Data):
    """One node of a `ThreadTree`: a handle to the node's current state.

    Spec: UAP-1.0 §7.1.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def id(self) -> str:
        """The id: a UUIDv4, or any text if the tree was read from JSON."""
    @property
    def parent_id(self) -> str | None:
        """The id of the node that it branches from; None for the root."""
    @property
    def branch_point(self) -> int | None:
        """The number of messages of the parent's thread that belong to the node's history; None for the root."""
    @property
    def thread(self) -> Thread:
        """The node's own messages, without those of its parent. Messages added to it are added to the tree."""
    @property
    def name(self) -> str | None:
        """A name for display. May be assigned."""
    @name.setter
    def name(self, name: str | None) -> None: ...
    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the node, as a new dict. Assign a dict to change it.

        ``mergedFrom`` lists the ids of the nodes that were merged into this one.
        """
    @metadata.setter
    def metadata(self, metadata: Mapping[str, Json]) -> None: ...
    @property
    def children(self) -> list[str]:
        """The ids of the branches that start here, oldest first."""

@final
class ThreadDiff(Data):
    """The difference between the histories of two nodes."""

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def ancestor_id(self) -> str:
        """The id of the nearest common ancestor; one of the two nodes if it is an ancestor of the other."""
    @property
    def common(self) -> int:
        """The number of messages at the start that both histories have."""
    @property
    def id_a(self) -> str | None:
        """The id of the first node; None for a difference that an earlier version wrote."""
    @property
    def id_b(self) -> str | None:
        """The id of the second node; None for a difference that an earlier version wrote."""
    @property
    def name_a(self) -> str | None:
        """The name of the first node, or None."""
    @property
    def name_b(self) -> str | None:
        """The name of the second node, or None."""
    @property
    def only_a(self) -> list[Message]:
        """Messages that only the first history has, compared by id."""
    @property
    def only_b(self) -> list[Message]:
        """Messages that only the second history has, compared by id."""

@final
class ThreadTree(Data):
    """A conversation with branches.

    A tree always has a root, named "main", and a current node, which new messages are added to. The cost of a
    branch or a copy does not depend on the length of the conversation, because messages are shared. Handles may be
    used from any thread. Works as a mapping from ids to nodes; ``print(tree)`` and notebooks draw it.

    Args:
        thread: The messages of the root: a thread or a list of messages. It is not changed; its messages are
            shared.

    Spec: UAP-1.0 §7.
    """

    def __new__(cls, thread: Thread | Iterable[Message | Mapping[str, Json]] | None = None) -> Self: ...
    @property
    def root(self) -> ThreadNode:
        """The node without a parent."""
    @property
    def current(self) -> ThreadNode:
        """The node that messages are added to."""
    @property
    def nodes(self) -> dict[str, ThreadNode]:
        """All nodes by id, in order of creation, as a new dict."""
    def branch(self, from_id: str, name: str | None = None, *, after: int | None = None) -> str:
        """Start a branch at a node. The current node does not change.

        Args:
            from_id: The node to branch from.
            name: A name for display; shown in drawings.
            after: The number of the node's own messages that belong to the branch, to begin before a message again.
                Default: all of them.

        Returns:
            The new node's id. Its history is the parent's history up to now; later messages of the parent do not
            appear in it.

        Raises:
            KeyError: No node has this id.
            ValueError: The node has fewer messages than `after`.

        Spec: UAP-1.0 §7.1.
        """
    def checkout(self, node_id: str) -> None:
        """Make a node the current node.

        Raises:
            KeyError: No node has this id.
        """
    def merge(self, source_id: str, target_id: str) -> int:
        """Append the messages of another node's history that the node does not have, compared by id and in order.

        The source does not change; the target lists it in its metadata under ``mergedFrom``. A second merge appends
        only messages that are new since the first. Merging a node or one of its ancestors into the node changes
        nothing.

        Returns:
            The number of appended messages.

        Raises:
            KeyError: No node has one of these ids.
        """
    def history(self, node_id: str | None = None) -> list[AnyMessage]:
        """Return all messages from the root to a node, oldest first.

        Args:
            node_id: Default: the current node.

        Raises:
            KeyError: No node has this id.
        """
    def leaves(self) -> list[ThreadNode]:
        """Return the nodes without branches, in order of creation."""
    def diff(self, a: str, b: str) -> ThreadDiff:
        """Compare the histories of two nodes.

        Raises:
            KeyError: No node has one of these ids.
        """
    def append(self, turn: Turn) -> ThreadTree:
        """Append all messages of a turn to the current node and return the tree."""
    def push(self, *messages: Message | Mapping[str, Json]) -> ThreadTree:
        """Append messages to the current node and return the tree."""
    def draw(self, *, lines: int = 40) -> str:
        """Return the tree as text: one line per node, at most `lines` of them."""
    def __copy__(self) -> ThreadTree:
        """Return a separate tree that shares the messages."""

    def __deepcopy__(self, _memo: object = None) -> ThreadTree:
        """Return a separate tree that shares the messages."""

    def __len__(self) -> int: ...
    def __contains__(self, id: object, /) -> bool: ...
    def __getitem__(self, id: str, /) -> ThreadNode: ...
    def __iter__(self) -> Iterator[str]: ...
