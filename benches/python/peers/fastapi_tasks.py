"""The endpoints of `uaip_requests.py` with FastAPI. Nothing is stored."""

from typing import Annotated, Any
from uuid import uuid4

from fastapi import FastAPI, Header, HTTPException
from pydantic import BaseModel

app = FastAPI()
_turns: dict[str, int] = {}


class Initialize(BaseModel):
    """The body of the first request of a session."""

    workflow_name: str


class Arguments(BaseModel):
    """The arguments of the task."""

    number: int


class Execute(BaseModel):
    """The body of a call."""

    workflow_name: str
    action: str
    task: str
    args: Arguments


async def nothing(number: int) -> int:
    """Return the number."""
    return number


@app.post("/initialize")
async def initialize(body: Initialize) -> dict[str, Any]:
    """Open a session."""
    session_id = str(uuid4())
    _turns[session_id] = 0
    return {"session_id": session_id, "workflow": body.workflow_name, "initial_stage": "only", "stages": ["only"]}


@app.post("/execute")
async def execute(body: Execute, x_session_id: Annotated[str, Header()]) -> dict[str, Any]:
    """Run the task."""
    if x_session_id not in _turns:
        raise HTTPException(404, "Session not found")
    result = await nothing(body.args.number)
    _turns[x_session_id] += 1
    schema = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
    return {
        "content": str(result),
        "tools": [{"name": "nothing", "description": "Return the number.", "input_schema": schema}],
        "status": "ok",
        "current_stage": "only",
        "terminal": True,
        "result": result,
        "state_version": _turns[x_session_id],
    }
