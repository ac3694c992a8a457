"""Results of embedding calls."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, final

from typing_extensions import Self

from turntree._core._data import Data
from turntree._core._media import Image
from turntree._core._messages import Text

EmbeddingInput: TypeAlias = str | Text | Image | Mapping[str, Any] | Iterable[str | Text | Image | Mapping[str, Any]]

EmbeddingInputType: TypeAlias = Literal["document", "query"]

@final
class Embedding(Data):
    """The embedding vector of one input.

    Spec: UPP-1.2 §15.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def vector(self) -> list[float]:
        """The numbers, a new list each time; `buffer` has them without a float object each."""

    @property
    def buffer(self) -> memoryview:
        """The numbers in memory, read-only, for ``numpy.asarray`` without copying.

        32-bit floats (format ``f``), or 64-bit ones (``d``) where the vendor sent decimals.
        """

    @property
    def dimensions(self) -> int:
        """Number of dimensions."""

    @property
    def index(self) -> int:
        """Index of the input, from 0."""

    @property
    def tokens(self) -> int | None:
        """Tokens of the input; None if the vendor does not report them."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """Metadata of the vendor, under the provider's name, or None."""

@final
class EmbeddingUsage(Data):
    """Usage of an embedding call.

    Spec: UPP-1.2 §15.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def total_tokens(self) -> int:
        """Tokens of all inputs; 0 if the vendor does not report them."""

@final
class EmbeddingResult(Data):
    """The embeddings of all inputs.

    Spec: UPP-1.2 §15.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def embeddings(self) -> list[Embedding]:
        """One embedding per input, in the order of the inputs."""

    @property
    def usage(self) -> EmbeddingUsage:
        """Usage of the call."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """Metadata of the vendor, under the provider's name, or None.

        Values that differ between several calls are lists with one item per call.
        """

    @property
    def buffer(self) -> memoryview:
        """All numbers in memory, read-only, one row per input, for ``numpy.asarray`` without copying.

        Raises:
            ValueError: There are no embeddings, or their lengths differ.
        """

@final
class EmbeddingProgress(Data):
    """Progress of a batched call: one batch is finished.

    Spec: UPP-1.2 §15.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def embeddings(self) -> list[Embedding]:
        """Embeddings of the batch; their `index` counts over all inputs."""

    @property
    def completed(self) -> int:
        """Number of finished inputs."""

    @property
    def total(self) -> int:
        """Number of all inputs."""

    @property
    def percent(self) -> float:
        """Finished inputs in percent, from 0 to 100."""
