"""What the corpus holds, by name. A value that has been written once stays as it is here; new ones are added."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import pathlib
import re
import typing
import uuid
import zoneinfo
from collections import deque
from typing import Any

import msgspec
import pydantic

from loopwright.checkpoint.record import NO_ARG, Interrupt, Overwrite, Pending, Send
from loopwright.messages import AIMessage, ChatMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from loopwright.messages.history import add_messages


class Colour(enum.Enum):
    RED = 1


class Word(enum.StrEnum):
    A = "a"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Item:
    name: str
    parts: list[Any] = dataclasses.field(default_factory=list)
    late: Any = dataclasses.field(init=False, default=None)


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    name: str


class Point(typing.NamedTuple):
    x: int
    y: int


class Packet(msgspec.Struct):
    items: list[Any]


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")

    name: str
    child: Model | None = None
    _own: int = 1


class Order(HumanMessage, tag="corpus.order"):
    items: list[str]


CLASSES = (Colour, Word, Rights, Item, Fixed, Point, Packet, Model)

CALL = {"name": "look", "args": {"city": "Oslo", "days": [1, 2]}, "id": "call_1", "type": "tool_call"}
USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "input_token_details": {"cache_read": 3}}

VALUES: dict[str, Any] = {
    "none": None,
    "numbers": [True, False, 0, -1, 2**63, 2**64, -(2**100), 1.5, float("inf"), 1j],
    "text": ["", "plain", "日本 🎈", "\ud800 half"],
    "bytes": [b"", b"\x00\xff", bytearray(b"a")],
    "groups": [[], (), (1, (2,)), set(), {1, "a"}, frozenset({1}), deque([1, 2], 3), {}],
    "dict": {"a": 1, "b": {"c": [None]}},
    "odd_dict": {1: "a", None: "b", (1, 2): "c", "d": 1},
    "looks_like_an_object": {"lc": 1, "type": "constructor", "id": ["os", "system"]},
    "times": [
        dt.datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - one without a zone
        dt.datetime(2026, 10, 25, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=1),
        dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2), "here")),
        dt.time(1, 2, 3),
        dt.date(2026, 1, 2),
        dt.timedelta(days=-1, microseconds=1),
        dt.UTC,
        zoneinfo.ZoneInfo("UTC"),
    ],
    "leaves": [
        decimal.Decimal("-1.10"),
        uuid.UUID(int=1),
        re.compile("a+", re.IGNORECASE),
        pathlib.PurePosixPath("a/b"),
        pathlib.PureWindowsPath("a\\b"),
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_interface("10.0.0.1/8"),
        ipaddress.ip_network("10.0.0.0/8"),
        ipaddress.ip_address("::1"),
        ipaddress.ip_interface("::1/64"),
        ipaddress.ip_network("::/64"),
    ],
    "enums": [Colour.RED, Word.A, Rights.READ, Rights.READ | Rights.WRITE, Rights(0)],
    "objects": [Item("a", [1]), Fixed("a"), Point(1, 2), Packet([(1,)]), Model(name="a", child=Model(name="b"))],
    "model_with_more": Model.model_validate({"name": "a", "more": [1]}),
    "engine": [
        Send("node", {"x": 1}),
        Interrupt({"q": 1}, "7"),
        Overwrite([1]),
        Pending("1", "n", ("push", 0)),
        Pending("2", "m", (), 1),
        NO_ARG,
    ],
    "history": add_messages(
        [],
        [
            SystemMessage("Be brief.", id="1"),
            HumanMessage([{"type": "text", "text": "Weather?"}, {"type": "image", "url": "x"}], id="2"),
            AIMessage("", tool_calls=[CALL], usage_metadata=USAGE, response_metadata={"model_name": "m"}, id="3"),
            ToolMessage("sunny", tool_call_id="call_1", name="look", artifact=Item("a"), status="error", id="4"),
            AIMessage("Sunny.", id="5", additional_kwargs={"at": dt.date(2026, 1, 1)}, extra_word="x"),
            ChatMessage("no", role="critic", id="6"),
            Order("pie", items=["pie"], id="7"),
        ],
    ),
    "messages_inside": {"left": [HumanMessage("a", id="1")], "gone": RemoveMessage(id="1")},
}
