"""Measures what the schemas of tools cost in the requests of a run. Used by the examples of workflows.

Tokens are counted with the tokenizer o200k_base if the package bpe-openai is installed. Otherwise their number is an
estimate: four characters of compact JSON for each. The output says which.
"""

import importlib
import json
from collections.abc import Callable, Iterable
from typing import Any

from turntree.uaip import Workflow
from turntree.upp import ModelRequest

CHARACTERS_A_TOKEN = 4


def tokenizer() -> tuple[Callable[[str], int], str]:
    """Return a function that counts the tokens of a text, and its name."""
    try:
        bpe_openai = importlib.import_module("bpe_openai")
    except ImportError:
        return (
            lambda text: len(text) // CHARACTERS_A_TOKEN,
            f"estimate: {CHARACTERS_A_TOKEN} characters of JSON a token",
        )
    encoding = bpe_openai.get_encoding("o200k_base")
    return lambda text: len(encoding.encode(text)), "tokenizer: o200k_base"


def report(workflow: Workflow, requests: list[ModelRequest]) -> str:
    """Compare the tools that each request had with all tasks of the workflow at once."""
    count, name = tokenizer()

    def tokens(tools: Iterable[dict[str, Any]]) -> int:
        return count("".join(json.dumps(tool, separators=(",", ":")) for tool in tools))

    staged = sum(tokens(request.tools) for request in requests)
    every = [task for stage in workflow.outline()["stages"] for task in stage["tasks"]]
    flat = tokens({"name": t["name"], "description": t["description"], "parameters": t["parameters"]} for t in every)
    flat *= len(requests)
    saved = 100 - 100 * staged // flat
    return (
        f"tool schemas in {len(requests)} requests: {staged} tokens with stages, {flat} with all {len(every)} tasks at "
        f"once ({saved} % saved; {name})"
    )
