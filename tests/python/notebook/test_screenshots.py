"""The pictures of the documentation are what the script takes now."""

import importlib.util
import struct
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
IMAGES = ROOT / "docs" / "images"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("screenshots", ROOT / "tools" / "screenshots.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def size(path):
    """The width and height of a PNG."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return struct.unpack(">II", data[16:24])


def test_the_script_takes_every_picture_of_the_documentation(tool, tmp_path):
    taken = tool.take(tmp_path)

    assert sorted(path.name for path in taken) == sorted(path.name for path in IMAGES.glob("*.png"))
    for path in taken:
        (width, height), (_, stored) = size(path), size(IMAGES / path.name)
        assert width == tool.WIDTH * tool.SCALE
        # Fonts differ between machines by a few lines; a missing part is more.
        assert abs(height - stored) <= 0.3 * stored, path.name
        assert path.stat().st_size > 5_000, path.name


def test_every_picture_is_on_a_page_with_words_for_it():
    text = (ROOT / "docs" / "notebooks.md").read_text("utf-8")

    for path in IMAGES.glob("*.png"):
        assert f"](images/{path.name})" in text
        before = text.partition(f"](images/{path.name})")[0]
        assert len(before.rpartition("![")[2]) > 20, path.name
