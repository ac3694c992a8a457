"""Models as prerequisites: their own validators decide about a transition (decision UAIP-A7)."""

import dataclasses
import datetime
from typing import Annotated

import pytest
from pydantic import AfterValidator, BaseModel, field_validator, model_validator
from uaip_support import FACES, Wire, served

from turntree.uaip import TaskError, Workflow

pytestmark = pytest.mark.parametrize("face", FACES)


def even(value: int) -> int:
    if value % 2:
        raise ValueError("the number must be even")
    return value


class Booking(BaseModel):
    arrives: datetime.date
    leaves: datetime.date
    guests: Annotated[int, AfterValidator(even)]

    @model_validator(mode="after")
    def leaves_after_it_arrives(self) -> "Booking":
        if self.leaves <= self.arrives:
            raise ValueError("leaves must be after arrives")
        return self


@dataclasses.dataclass
class Room:
    number: int


class Card(BaseModel):
    card: str

    @field_validator("card")
    @classmethod
    def check(cls, value: str) -> str:
        if value == "stolen":
            raise TaskError("the card is blocked")
        if value == "broken":
            raise RuntimeError("password=1234")
        return value


def hotel() -> Workflow:
    made = Workflow("hotel")
    made.stage("ask")
    made.stage("book", prerequisites=[Booking, Room, "name"])
    made.stage("pay", prerequisites=[Card])
    made.transition("ask", "book", when=lambda state: state.get("name") != "nobody")
    made.transition("book", "pay")
    return made


VALUES = {"arrives": "2030-01-01", "leaves": "2030-01-03", "guests": 2, "number": 7, "name": "Ada"}


async def move(wire, stage, **updates):
    written = await wire.execute("state_input", workflow_name="hotel", state_updates=updates)
    assert written.status_code == 200, written.text
    return await wire.execute("stage_transition", workflow_name="hotel", stage=stage)


async def test_validators_of_models_refuse_values_that_match_the_schema(face):
    async with served(face, hotel()) as url, Wire(url) as wire:
        await wire.start("hotel")
        odd = await move(wire, "book", **{**VALUES, "guests": 3})
        early = await move(wire, "book", guests=2, leaves="2029-12-31")
        view = (await wire.http.get(f"/sessions/{wire.session}")).json()

    assert (odd.status_code, odd.json()["code"]) == (422, "missing_prerequisites")
    assert odd.json()["missing"] == []
    assert odd.json()["errors"] == [
        {"loc": ["guests"], "msg": "Value error, the number must be even", "type": "value_error"}
    ]
    assert early.json()["errors"] == [
        {"loc": [], "msg": "Value error, leaves must be after arrives", "type": "value_error"}
    ]
    assert "provide_state" in [tool["name"] for tool in early.json()["tools"]]
    assert (view["current_stage"], view["state_version"]) == ("ask", 2)


async def test_valid_values_go_on_to_the_guard(face):
    async with served(face, hotel()) as url, Wire(url) as wire:
        await wire.start("hotel")
        denied = await move(wire, "book", **{**VALUES, "name": "nobody"})
        moved = await move(wire, "book", name="Ada")

    assert (denied.status_code, denied.json()["code"]) == (422, "transition_denied")
    assert (moved.status_code, moved.json()["current_stage"]) == (200, "book")


async def test_a_validator_that_fails_otherwise_is_a_failed_action(face):
    async with served(face, hotel()) as url, Wire(url) as wire:
        await wire.start("hotel")
        await move(wire, "book", **VALUES)
        blocked = await move(wire, "pay", card="stolen")
        broken = await move(wire, "pay", card="broken")
        moved = await move(wire, "pay", card="fine")

    assert (blocked.json()["status"], blocked.json()["content"]) == ("task_error", "Error: the card is blocked")
    assert (broken.status_code, broken.json()["status"]) == (200, "task_error")
    assert "password" not in broken.text
    assert moved.json()["current_stage"] == "pay"
