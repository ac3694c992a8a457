"""Projects."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from turntree._core import HarnessCore

# How errors name a project.
PROJECT = "Project.find(path)"


class Project:
    """A project: the main working tree of a repository, whatever working tree a caller is in.

    Create one with `find`. One that was pickled is found again by its folder.
    """

    def __init__(self, core: HarnessCore) -> None:
        self._core = core
        self._info: dict[str, Any] = core.info()

    @classmethod
    def find(cls, path: str | os.PathLike[str] = ".") -> Project:
        """Find the project of a folder, and open its state.

        The project is the git repository that has the folder, else the nearest folder above with ``turntree.toml``,
        else the folder itself. Variables such as ``GIT_DIR`` have no effect.

        Args:
            path: A folder of the project.

        Raises:
            HarnessError: The folder does not exist, or ``turntree.toml`` is not valid.
        """
        return cls(HarnessCore(os.fspath(path)))

    @property
    def root(self) -> Path:
        """The main working tree."""
        return Path(self._info["root"])

    @property
    def worktree(self) -> Path:
        """The working tree that has the folder."""
        return Path(self._info["worktree"])

    @property
    def branch(self) -> str | None:
        """The branch of that working tree; None outside of a repository or on a detached head."""
        return cast("str | None", self._info["branch"])

    @property
    def is_linked(self) -> bool:
        """Whether that working tree is a linked one."""
        return bool(self._info["is_linked"])

    @property
    def state(self) -> Path:
        """The folder of the state that all processes of the project share."""
        return Path(self._info["state"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Project):
            return NotImplemented
        return (self.root, self.worktree) == (other.root, other.worktree)

    def __hash__(self) -> int:
        return hash((self.root, self.worktree))

    def __reduce__(self) -> tuple[Any, ...]:
        return Project.find, (str(self.worktree),)

    def __repr__(self) -> str:
        return f"Project({str(self.root)!r})"


def checked_project(project: object, instead: str) -> Project:
    """Return the project, or say what to write instead of another object."""
    if not isinstance(project, Project):
        raise TypeError(f"project must be a Project, not {type(project).__name__}; write {instead}")
    return project
