"""Runs the functions of a client and prints what they return as one JSON object."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import traceback
from collections.abc import Callable
from typing import Any


def run(scenarios: list[Callable[[str], Any]]) -> None:
    """Call each function with the URL of the command line. A failure is printed as ``{"failed": traceback}``."""
    url = sys.argv[1]
    results: dict[str, Any] = {}
    for scenario in scenarios:
        try:
            result = scenario(url)
            results[scenario.__name__] = asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result
        except BaseException:
            results[scenario.__name__] = {"failed": traceback.format_exc()}
    print(json.dumps(results))


async def _awaited(result: Any) -> Any:
    return await asyncio.wait_for(result, 60)
