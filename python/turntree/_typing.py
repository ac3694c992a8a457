"""Names of `typing` that Python 3.10 does not have, for annotations.

`typing_extensions` has them for type checkers; the package does not need it at run time.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack
elif sys.version_info >= (3, 11):
    from typing import Self, Unpack
else:

    class Unpack:
        """Keyword arguments: `typing.get_type_hints` returns `Any` for them."""

        def __class_getitem__(cls, options: object) -> Any:
            return Any

    class Self:
        """The class of the object."""


__all__ = ["Self", "Unpack"]
