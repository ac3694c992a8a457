"""Thread trees: nodes, branches and differences."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, final

from typing_extensions import Self

from turntree._core._data import Data, Json
from turntree._core._messages import Message, Thread, Turn

@final
class ThreadNode(Data):
    """One node of a `ThreadTree`: a handle that shows the node as it is now. UAP-1.0 §7.1."""

    @property
    def id(self) -> str:
        """A UUIDv4, or what the document said that the tree was read from."""
    @property
    def parent_id(self) -> str | None:
        """The node it branches from; None for the root."""
    @property
    def branch_point(self) -> int | None:
        """How many messages of the parent's thread belong to its history; None for the root."""
    @property
    def thread(self) -> Thread:
        """Its own messages, none of its parent's; what is added here is added to the tree."""
    @property
    def name(self) -> str | None:
        """For people; may be assigned."""
    @name.setter
    def name(self, name: str | None) -> None: ...
    @property
    def metadata(self) -> dict[str, Any]:
        """Facts about the node, in a dict of its own: to change them, assign a dict.

        ``mergedFrom`` lists the ids of nodes that were merged into this one.
        """
    @metadata.setter
    def metadata(self, metadata: Mapping[str, Json]) -> None: ...
    @property
    def children(self) -> list[str]:
        """Ids of the branches that start here, oldest first."""

@final
class ThreadDiff(Data):
    """Two nodes of a tree side by side."""

    @property
    def ancestor_id(self) -> str:
        """The nearest node that both have above them, or are."""
    @property
    def common(self) -> int:
        """How many messages both histories begin with."""
    @property
    def only_a(self) -> list[Message]:
        """Messages of the first history that the second lacks, by their ids."""
    @property
    def only_b(self) -> list[Message]:
        """Messages of the second history that the first lacks, by their ids."""

@final
class ThreadTree(Data):
    """A conversation with branches. UAP-1.0 §7.

    Always has a root, named "main", and a current node, which is where messages are added. Branching and copying cost
    the same however long the conversation is: messages are shared. Handles may be used from any thread. Works as a
    mapping of ids to nodes; ``print(tree)`` and a notebook draw it.

    Args:
        thread: What the root begins with: a thread or a list of messages. It is not changed, its messages are shared.
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
        """All nodes at this moment by their ids, in the order they were made, in a dict of its own."""
    def branch(self, from_id: str, name: str | None = None) -> str:
        """Start a branch at a node, without moving to it. UAP-1.0 §7.1.

        Args:
            from_id: Node to branch from.
            name: For people; shown in drawings.

        Returns:
            The new node's id. Its history is the parent's up to this moment; later messages of the parent do not
            appear in it.

        Raises:
            KeyError: No node has this id.
        """
    def checkout(self, node_id: str) -> None:
        """Make a node current.

        Raises:
            KeyError: No node has this id.
        """
    def merge(self, source_id: str, target_id: str) -> int:
        """Append to a node the messages of another one's history that it lacks, by their ids and in order.

        The source stays as it is; the target lists it in its metadata under ``mergedFrom``. Merging again adds only
        what is new since; merging a node or its ancestor into it changes nothing.

        Returns:
            How many messages were added.

        Raises:
            KeyError: No node has one of these ids.
        """
    def history(self, node_id: str | None = None) -> list[Message]:
        """Give all messages from the root to a node, oldest first.

        Args:
            node_id: Default: the current node.

        Raises:
            KeyError: No node has this id.
        """
    def leaves(self) -> list[ThreadNode]:
        """Give the nodes without branches, in the order they were made."""
    def diff(self, a: str, b: str) -> ThreadDiff:
        """Compare the histories of two nodes.

        Raises:
            KeyError: No node has one of these ids.
        """
    def append(self, turn: Turn) -> ThreadTree:
        """Add all messages of a turn to the current node; gives the tree."""
    def push(self, *messages: Message | Mapping[str, Json]) -> ThreadTree:
        """Add messages to the current node; gives the tree."""
    def draw(self, *, lines: int = 40) -> str:
        """Give the tree as text: a line a node, at most `lines` of them."""
    def __copy__(self) -> ThreadTree:
        """Give a tree of its own that shares the messages."""

    def __deepcopy__(self, _memo: object = None) -> ThreadTree:
        """Give a tree of its own that shares the messages."""

    def _repr_html_(self) -> str: ...
    def __len__(self) -> int: ...
    def __contains__(self, id: object, /) -> bool: ...
    def __getitem__(self, id: str, /) -> ThreadNode: ...
    def __iter__(self) -> Iterator[str]: ...
