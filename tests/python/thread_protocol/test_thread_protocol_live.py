"""Message objects in unusual states: the results of `dump_json` and `validate_json` are the reference."""

import collections
import dataclasses
import enum
import uuid
import warnings
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel
from pydantic_ai import messages as m
from pydantic_ai.messages import ModelMessagesTypeAdapter as Adapter
from pydantic_ai.usage import RequestUsage, RunUsage

import turntree
from turntree import thread_protocol as tp

UTC = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
BERLIN = ZoneInfo("Europe/Berlin")


class Text(str):
    pass


class Whole(int):
    pass


class Mapping(dict[str, Any]):
    pass


class Moment(datetime):
    pass


class Word(str, enum.Enum):
    RED = "red"


class Number(enum.IntEnum):
    THREE = 3


@dataclasses.dataclass
class Plain:
    x: int = 1
    data: bytes = b"\xff\xfe"
    inner: Any = None


class Pair(NamedTuple):
    a: int = 1
    b: str = "x"


class Model(BaseModel):
    x: int = 1
    at: datetime = UTC
    price: Decimal = Decimal("1.10")
    names: frozenset[str] = frozenset({"a"})
    inner: "Model | None" = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)
    x: int = Field(1, serialization_alias="EX")


class Root(RootModel[list[int]]):
    pass


class OddZone(tzinfo):
    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(hours=1, minutes=7)

    def dst(self, dt: datetime | None) -> None:
        return None

    def tzname(self, dt: datetime | None) -> str:
        return "odd"


class OwnUrl(m.ImageUrl):
    pass


class OwnBinary(m.BinaryContent):
    pass


class OwnUsage(RequestUsage):
    pass


@dataclasses.dataclass(repr=False)
class OwnText(m.TextPart):
    mine: int = 1


@dataclasses.dataclass(repr=False)
class OwnRequest(m.ModelRequest):
    mine: int = 1


def at(year: int, *clock: int, zone: tzinfo | None = None, fold: int = 0) -> datetime:
    return datetime(year, *(clock or (1, 1)), tzinfo=zone, fold=fold)  # type: ignore[arg-type]


MOMENTS: list[Any] = [
    at(2026, 3, 29, 2, 30, zone=BERLIN),
    at(2026, 10, 25, 2, 30, zone=BERLIN, fold=1),
    at(1890, zone=ZoneInfo("Europe/Amsterdam")),
    at(2026, zone=OddZone()),
    at(2026, zone=timezone(timedelta(0), "Zulu")),
    at(2026, zone=timezone(timedelta(hours=-23, minutes=-59, seconds=-59))),
    at(2026, zone=timezone(timedelta(microseconds=1))),
    datetime.min,
    datetime.max.replace(tzinfo=timezone(timedelta(hours=5))),
    Moment(2026, 1, 1),
    date(2026, 1, 1),
    "2026-01-01T00:00:00Z",
    5,
]
VALUES: list[Any] = [
    *(None, True, 5, -0.0, 1e22, 5e-324, float("nan"), 2**70, "", "x", "\ud800", "\x00\u2028é"),
    *(Text("s"), Whole(5), Mapping(a=1), Moment(2026, 1, 1), Word.RED, Number.THREE, Plain(), Pair()),
    *(Model(), Model(inner=Model()), Open(x=3, more=b"x"), Root([1]), [Plain(inner=Plain(inner={"a": {1}}))]),
    *(b"", b"\xff\xfe", bytearray(b"ab"), {1}, frozenset({"a"}), collections.deque([1]), collections.Counter("aab")),
    *(uuid.UUID(int=5), PurePosixPath("/x"), date(2026, 1, 1), timedelta(days=-1, seconds=3), Decimal("1E+5")),
    *({1: 2}, {None: 1}, {True: 1, 1.5: 2}, {b"k": 1}, {Word.RED: 1}, {1: 1, "1": 2}, range(3), object(), len),
    *(m.ImageUrl("https://example.org/x.png"), OwnUrl("https://example.org/x.png"), m.CachePoint(), RequestUsage()),
    *(m.BinaryContent(b"\xff", media_type="image/png"), OwnBinary(b"x", media_type="a/b"), m.TextPart("x")),
    *(
        {"kind": "binary", "data": "!!", "media_type": "x"},
        {"kind": "image-url", "url": "ftp://x", "media_type": "x/y"},
    ),
]


def changed(value: Any, **members: Any) -> Any:
    """The object with members set without `__init__`."""
    for name, member in members.items():
        object.__setattr__(value, name, member)
    return value


def request(*parts: Any, **options: Any) -> Any:
    return m.ModelRequest(parts=list(parts), **options)


def response(*parts: Any, **options: Any) -> Any:
    return m.ModelResponse(parts=list(parts), timestamp=UTC, **options)


def prompt(content: Any = "x") -> Any:
    return m.UserPromptPart(content, timestamp=UTC)


def call() -> Any:
    return m.ToolCallPart("t", {}, "c")


def returned(content: Any = "x", **options: Any) -> Any:
    return m.ToolReturnPart("t", content, "c", timestamp=UTC, **options)


def picture() -> Any:
    return m.BinaryContent(b"x", media_type="image/png")


def usage(**members: Any) -> Any:
    return response(usage=changed(RequestUsage(), **members))


PLACES: dict[str, Callable[[Any], Any]] = {
    "content of a return": lambda value: request(returned(value)),
    "inside of a return": lambda value: request(returned({"a": [value]})),
    "metadata of a return": lambda value: request(returned(metadata=value)),
    "outcome": lambda value: request(changed(returned(), outcome=value)),
    "retry": lambda value: request(changed(returned(outcome="retried"), retry=value)),
    "arguments": lambda value: response(changed(call(), args=value)),
    "inside of arguments": lambda value: response(m.ToolCallPart("t", {"a": value}, "c")),
    "ids": lambda value: response(changed(call(), tool_call_id=value, id=value)),
    "details": lambda value: response(m.TextPart("x", provider_details={"a": value}), metadata={"b": value}),
    "text": lambda value: response(changed(m.TextPart("x"), content=value)),
    "kind of a part": lambda value: response(changed(m.TextPart("x"), part_kind=value)),
    "kind of a message": lambda value: changed(response(), kind=value),
    "prompt": lambda value: request(changed(prompt(), content=value)),
    "item": lambda value: request(changed(prompt(), content=[value, "y"])),
    "metadata of an item": lambda value: request(prompt([m.TextContent("x", metadata=value)])),
    "bytes": lambda value: request(prompt([changed(picture(), data=value)])),
    "run id": lambda value: changed(request(), run_id=value),
    "parts": lambda value: changed(request(), parts=value),
    "state": lambda value: changed(response(), state=value, finish_reason=value),
    "usage": lambda value: changed(response(), usage=value),
    "tokens": lambda value: usage(input_tokens=value),
    "details of usage": lambda value: usage(details={"a": value}),
    "cost": lambda value: usage(cost=value, audio_seconds=value),
    "unknown members of usage": lambda value: usage(searches=value),
}
TIMES: dict[str, Callable[[Any], Any]] = {
    "time of a prompt": lambda value: request(changed(prompt(), timestamp=value)),
    "time of a request": lambda value: changed(request(), timestamp=value),
    "time of an answer": lambda value: changed(response(), timestamp=value),
    "time in a return": lambda value: request(returned(value), returned({"a": value})),
}
ODD: dict[str, Callable[[], Any]] = {
    "subclasses of messages": lambda: OwnRequest(parts=[prompt()]),
    "subclasses of parts": lambda: response(OwnText("x", mine=5), m.TextPart("y")),
    "subclasses of items": lambda: request(prompt([OwnUrl("https://x/y.png"), OwnBinary(b"x", media_type="a/b")])),
    "subclasses of usage": lambda: response(usage=OwnUsage(input_tokens=1)),
    "usage of runs": lambda: response(usage=RunUsage(requests=1, tool_calls=2, input_tokens=5)),
    "unknown members": lambda: response(changed(m.TextPart("x"), nobody=5)),
    "digests": lambda: request(changed(returned({"a": 1}), content_file_digests=["x"])),
    "an answer's part in a request": lambda: request(m.TextPart("x")),
    "a request's part in an answer": lambda: response(prompt()),
    "a tuple of parts": lambda: m.ModelRequest(parts=(prompt(),)),
    "another URL": lambda: request(prompt([changed(m.ImageUrl("https://x/y.png"), url="https://x/z.gif")])),
    "another identifier": lambda: request(prompt([changed(picture(), _identifier="z", media_type="audio/wav")])),
    "kinds of tools": lambda: response(m.ToolCallPart("t", {}, "c", tool_kind="mcp_server")),
    "a generator": lambda: request(returned(number for number in [1, 2])),
}


def outcome(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:
        return error


def check(make: Callable[[], Any]) -> None:
    """Reading the objects gives what Pydantic dumps: the first time checks each class, the second trusts it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(outcome(make), Exception):
            return  # No `__init__` accepts it.
        for _ in range(2):
            dumped = outcome(lambda: Adapter.dump_json([make()]))
            thread = outcome(lambda: tp.from_pydantic_ai([make()]))
            if isinstance(dumped, Exception):
                assert isinstance(thread, turntree.SerializationError)
                continue
            loaded = outcome(lambda dumped=dumped: Adapter.validate_json(dumped))
            if isinstance(thread, Exception):
                assert isinstance(thread, turntree.ValidationError)
                assert isinstance(loaded, Exception)
                continue
            assert thread.to_pydantic_ai_json() == dumped
            built = outcome(thread.to_pydantic_ai)
            assert isinstance(built, Exception) == isinstance(loaded, Exception)
            if not isinstance(loaded, Exception):
                assert Adapter.dump_json(built) == Adapter.dump_json(loaded)


@pytest.mark.parametrize("place", PLACES)
def test_values_that_bypass_the_constructor_are_read_as_pydantic_dumps_them(place: str) -> None:
    # Every class is trusted now, so only the reading of the objects can detect the value.
    tp.from_pydantic_ai([request(prompt([picture()]), returned()), response(m.TextPart("x"), call())])
    for value in VALUES:
        check(lambda value=value: PLACES[place](value))


@pytest.mark.parametrize("place", TIMES)
def test_times_of_every_zone_are_read_as_pydantic_dumps_them(place: str) -> None:
    for value in MOMENTS:
        check(lambda value=value: TIMES[place](value))


@pytest.mark.parametrize("odd", ODD)
def test_unusual_objects_are_read_as_pydantic_dumps_them(odd: str) -> None:
    check(ODD[odd])
