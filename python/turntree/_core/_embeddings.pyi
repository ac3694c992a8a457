"""Results of embedding calls."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, final

from turntree._core._data import Data
from turntree._core._media import Image
from turntree._core._messages import Text

EmbeddingInput: TypeAlias = str | Text | Image | Mapping[str, Any] | Iterable[str | Text | Image | Mapping[str, Any]]

EmbeddingInputType: TypeAlias = Literal["document", "query"]

@final
class Embedding(Data):
    """The vector of one input. UPP-1.2 §15."""

    @property
    def vector(self) -> list[float]:
        """The numbers, a list of the caller's own; `buffer` gives them without a float object each."""

    @property
    def buffer(self) -> memoryview:
        """The numbers in memory, read-only, as ``numpy.asarray`` takes it without copying.

        32-bit floats (format ``f``), or 64-bit ones (``d``) where the vendor sent decimals.
        """

    @property
    def dimensions(self) -> int:
        """How many numbers."""

    @property
    def index(self) -> int:
        """Which of the inputs, from 0."""

    @property
    def tokens(self) -> int | None:
        """Tokens of the input, where the vendor says."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """What else the vendor says of it, under the provider's name; None where it says nothing."""

@final
class EmbeddingUsage(Data):
    """What embedding cost. UPP-1.2 §15."""

    @property
    def total_tokens(self) -> int:
        """Tokens of all inputs; 0 where the vendor does not say."""

@final
class EmbeddingResult(Data):
    """The vectors of all inputs. UPP-1.2 §15."""

    @property
    def embeddings(self) -> list[Embedding]:
        """One an input, in the order of the inputs."""

    @property
    def usage(self) -> EmbeddingUsage:
        """What they cost."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """What else the vendor says, under the provider's name; None where it says nothing.

        Of several calls: a fact on which all agree as it is, any other as the list of what each says.
        """

    @property
    def buffer(self) -> memoryview:
        """All numbers in memory, read-only: two-dimensional, one row an input, as ``numpy.asarray`` takes it.

        Raises:
            ValueError: There are no vectors, or they differ in length.
        """

@final
class EmbeddingProgress(Data):
    """One batch of a chunked call is done. UPP-1.2 §15."""

    @property
    def embeddings(self) -> list[Embedding]:
        """Its vectors; their `index` counts over all inputs."""

    @property
    def completed(self) -> int:
        """Inputs done so far."""

    @property
    def total(self) -> int:
        """All inputs."""

    @property
    def percent(self) -> float:
        """Done so far, from 0 to 100."""
