"""Measures what the schemas of tools cost in the requests of a run. Used by the examples of workflows.

The number of tokens is an estimate: four characters of compact JSON for each.
"""

import json
from collections.abc import Iterable
from typing import Any

from turntree.uaip import Workflow
from turntree.upp import ModelRequest

CHARACTERS_A_TOKEN = 4


def tokens(tools: Iterable[dict[str, Any]]) -> int:
    """Return the estimated number of tokens of the schemas of tools."""
    return sum(len(json.dumps(tool, separators=(",", ":"))) for tool in tools) // CHARACTERS_A_TOKEN


def report(workflow: Workflow, requests: list[ModelRequest]) -> str:
    """Compare the tools that each request had with all tasks of the workflow at once."""
    staged = sum(tokens(request.tools) for request in requests)
    every = [task for stage in workflow.outline()["stages"] for task in stage["tasks"]]
    flat = tokens({"name": t["name"], "description": t["description"], "parameters": t["parameters"]} for t in every)
    flat *= len(requests)
    saved = 100 - 100 * staged // flat
    return (
        f"tool schemas in {len(requests)} requests: {staged} tokens with stages, {flat} with all {len(every)} tasks at "
        f"once ({saved} % saved; estimate: {CHARACTERS_A_TOKEN} characters of JSON a token)"
    )
