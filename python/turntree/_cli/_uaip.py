"""The command ``turntree uaip``."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

from turntree._cli._environment import add_env, load_env
from turntree._cli._objects import load_object
from turntree._cli._terminal import CliError, print_json, wants_colours

if TYPE_CHECKING:
    import argparse

    from turntree.uaip._graph import Outline


def add(commands: Any) -> None:
    """Add the command to a parser."""
    uaip: argparse.ArgumentParser = commands.add_parser(
        "uaip",
        help="show workflows",
        description="Shows workflows that agents walk through.",
        allow_abbrev=False,
    )
    kinds: Any = uaip.add_subparsers(metavar="COMMAND", required=True)
    graph: argparse.ArgumentParser = kinds.add_parser(
        "graph",
        help="draw the stages and transitions of a workflow",
        description="Draws the stages and transitions of a workflow.",
        allow_abbrev=False,
    )
    graph.add_argument("workflow", metavar="MODULE:WORKFLOW", help="the workflow, such as app.shop:shop")
    graph.add_argument("--current", metavar="STAGE", help="the stage to highlight")
    graph.add_argument("--format", choices=("text", "mermaid", "json"), default="text", help="(default: text)")
    graph.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    graph.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="use of colours (default: auto)"
    )
    add_env(graph)
    graph.set_defaults(run=run_graph)


def _as_dict(outline: Outline, current: str | None) -> dict[str, Any]:
    return {
        "workflow": outline.name,
        "description": outline.description,
        "initial": outline.initial,
        "current": current,
        "stages": [
            {"name": stage.name, "description": stage.description, "tasks": list(stage.tasks)}
            for stage in outline.stages
        ],
        "transitions": [
            {"from": source, "to": target, "guarded": guarded} for source, target, guarded in outline.transitions
        ],
    }


def run_graph(options: argparse.Namespace) -> int:
    """Print the graph and return the exit status."""
    from turntree.uaip import DefinitionError, workflow_of
    from turntree.uaip._graph import terminal

    load_env(options.env)
    output: Any = sys.stdout
    # What the application prints goes to standard error: a reader of the graph would take it for the graph.
    with redirect_stdout(sys.stderr):
        found = load_object(options.workflow, "a workflow", "app.shop:shop")
    if isinstance(output, TextIOWrapper):
        # Characters that the terminal's encoding lacks become question marks instead of an exception.
        output.reconfigure(errors="replace")
    try:
        workflow = workflow_of(found)
        if options.format == "mermaid":
            text = workflow.graph(options.current)
        elif options.format == "json":
            workflow.graph(options.current)
            print_json(_as_dict(workflow._outline(), options.current))
            return 0
        else:
            workflow.graph(options.current)
            text = terminal(workflow._outline(), options.current, colour=wants_colours(options.color))
    except TypeError as error:
        message = f"{options.workflow!r} is not a workflow: {error}"
        raise CliError(message, 2) from error
    except DefinitionError as error:
        raise CliError(str(error), 1) from error
    except KeyError as error:
        raise CliError(str(error.args[0]), 2) from error
    output.write(text)
    return 0
