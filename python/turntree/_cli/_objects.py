"""Objects of applications that are given as ``module:name``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turntree._cli._terminal import CliError

if TYPE_CHECKING:
    from turntree.store import Store


def load_store(place: str) -> Store:
    """Return a store that is given by its URL, or as ``module:name``, for example an encrypted one."""
    from turntree.store import Store, from_url

    if "://" in place:
        try:
            return from_url(place)
        except ValueError as error:
            raise CliError(str(error), 2) from error
    found = load_object(place, "a store", "sqlite:///sessions.db or app.agents:sessions")
    if not isinstance(found, Store):
        message = f"{place!r} is not a store but {type(found).__name__}; give a URL, or the name of a store"
        raise CliError(message, 2)
    return found


def load_object(place: str, what: str, example: str) -> Any:
    """Import an object that is given as ``module:name``, also from the current folder; None if the name is unknown.

    Args:
        place: The module and the name, with periods between nested names.
        what: What it should be, for errors: "an agent".
        example: An example of a place, for errors.
    """
    module_name, separator, name = place.partition(":")
    if not separator or not module_name or not name:
        kind = what.split()[-1].upper()
        message = f"{place!r} is not the place of {what}: expected MODULE:{kind}, such as {example}"
        raise CliError(message, 2)
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise
        message = f"there is no module {module_name!r} in {folder} or among the installed packages"
        raise CliError(message, 2) from error
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
