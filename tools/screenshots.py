"""Takes the screenshots of the documentation: what a notebook shows, and the page of a session.

    python tools/screenshots.py [FOLDER]

The values come from scripted models, and Chromium shows them without a network. The folder is docs/images by default.
"""

from __future__ import annotations

import asyncio
import base64
import sys
import tempfile
from pathlib import Path

from turntree import agent, notebook, session
from turntree._cli._show import session_page
from turntree.upp import ToolCall, scripted, tool

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "images"
# In CSS pixels. A picture is as high as what it shows, up to the limit.
WIDTH, HEIGHT, SCALE = 860, 900, 1.5


@tool
async def weather(city: str) -> str:
    """Return the weather of a city."""
    await asyncio.sleep(0.2)  # visible in the picture of the times
    return f"{city}: sunny, 24 degrees"


def model():
    """Return a model that takes time to answer, as models do."""
    said = iter(
        [
            [ToolCall("c1", "weather", {"city": "Tokyo"}), ToolCall("c2", "weather", {"city": "Kyoto"})],
            "Take **sunglasses** and a hat. In the evening:\n\n- a light coat\n- good shoes",
            "In June it rains: take an `umbrella`.",
            "By train you can take two suitcases.",
        ]
    )

    async def answer(_request):
        await asyncio.sleep(0.3)
        return next(said)

    return scripted(answer)


async def pages() -> dict[str, str]:
    """Return the HTML of each picture, by the name of its file."""
    trip = session(agent(model=model(), tools=[weather], name="packer"), id="trip-to-japan")
    turn = await trip.run("What do I pack for Tokyo and Kyoto?")
    begin = trip.tree.root.id
    june = trip.tree.branch(begin, "in-june")
    trip.tree.checkout(june)
    await trip.run("And in June?")
    train = trip.tree.branch(begin, "by-train")
    trip.tree.checkout(train)
    await trip.run("And by train?")
    trip.tree.checkout(june)
    values = {
        "turn": turn,
        "session": trip,
        "diff": trip.tree.diff(june, train),
        "usage": turn.usage,
        "waterfall": notebook.waterfall(turn),
    }
    shown = {name: f"<!doctype html><body>{value._repr_html_()}" for name, value in values.items()}
    return {**shown, "inspector": session_page(trip.to_json().encode()) or ""}


def take(folder: Path) -> list[Path]:
    """Write the pictures to a folder. Returns their paths."""
    sys.path.insert(0, str(ROOT / "tests" / "python" / "notebook"))
    import browser

    taken = []
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        process, page = browser.start(Path(home))
        try:
            light = [{"name": "prefers-color-scheme", "value": "light"}]
            page.send("Emulation.setEmulatedMedia", features=light)
            size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": SCALE, "mobile": False}
            page.send("Emulation.setDeviceMetricsOverride", **size)
            page.send("Emulation.setScrollbarsHidden", hidden=True)
            for name, text in asyncio.run(pages()).items():
                source = Path(home) / f"{name}.html"
                source.write_text(text, "utf-8")
                page.open(source.as_uri())
                if name == "turn":
                    page.value("document.querySelector('details').open = true")
                height = min(HEIGHT, page.value("Math.ceil(document.body.getBoundingClientRect().bottom) + 8"))
                clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
                data = page.send("Page.captureScreenshot", format="png", clip=clip)["data"]
                taken.append(folder / f"{name}.png")
                taken[-1].write_bytes(base64.b64decode(data))
        finally:
            page.close()
            process.terminate()
            process.wait()
    return taken


if __name__ == "__main__":
    for path in take(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER):
        print(path)
