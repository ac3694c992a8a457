"""What the paths of vendors' APIs tell."""

from __future__ import annotations


def is_vertex(path: str) -> bool:
    """Return whether the path of a model's calls is one of Claude at Vertex AI."""
    return path.endswith(":rawPredict")
