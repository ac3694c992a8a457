"""Workflows that agents walk through: UAIP 0.1.0, the Universal Agent Interactive Protocol.

A workflow has stages, and an agent sees and calls only the tasks of its current stage::

    from turntree.uaip import State, Workflow

    shop = Workflow("shop", private=["total"])
    shop.stage("browse")
    shop.stage("cart")
    shop.transition("browse", "cart")


    @shop.task(stage="browse")
    def choose(product: str, state: State) -> str:
        "Choose a product."
        state.set("product", product)
        return product
"""

from __future__ import annotations

from turntree import _servables
from turntree._core import JwtAuthenticator, State, ToolContext
from turntree._public_names import set_public_module
from turntree.uaip._approvals import Approval
from turntree.uaip._client import Client, Session, SyncClient, SyncSession, ToolInfo, connect, connect_sync
from turntree.uaip._decorators import construct, stage, task, workflow, workflow_of
from turntree.uaip._errors import DefinitionError, TaskError, UaipError
from turntree.uaip._serving import asgi_app, openapi, serve, serve_sync
from turntree.uaip._toolset import WorkflowToolset, toolset
from turntree.uaip._workflow import Stage, StateTransfer, Workflow

__all__ = [
    # definitions
    "Workflow",
    "Stage",
    "State",
    "StateTransfer",
    "ToolContext",
    "construct",
    "stage",
    "task",
    "workflow",
    "workflow_of",
    "Approval",
    # servers
    "serve",
    "serve_sync",
    "asgi_app",
    "openapi",
    "JwtAuthenticator",
    # clients
    "connect",
    "connect_sync",
    "Client",
    "SyncClient",
    "Session",
    "SyncSession",
    "ToolInfo",
    # agents
    "toolset",
    "WorkflowToolset",
    # errors
    "DefinitionError",
    "TaskError",
    "UaipError",
]

set_public_module("turntree.uaip", globals())


def _is_workflow(value: object) -> bool:
    try:
        workflow_of(value)
    except TypeError:
        return False
    return True


_servables.register(_servables.Servable("workflow", _is_workflow, serve))
