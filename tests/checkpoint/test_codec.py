from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import pathlib
import re
import sys
import threading
import typing
import uuid
import zoneinfo
from collections import deque
from typing import Any, Generic, TypeVar

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.checkpoint.codec import VERSION, Codec
from loopwright.checkpoint.kinds import Unreadable
from loopwright.checkpoint.record import Interrupt, Overwrite, Pending, Send
from loopwright.checkpoint.registry import Registry
from loopwright.errors import StoredDataError, UnstorableError
from loopwright.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage, UnknownMessage
from loopwright.messages.history import History, add_messages
from tests.checkpoint import test_plain as kinds
from tests.messages import strategies

T = TypeVar("T")


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Open(enum.IntFlag, boundary=enum.KEEP):
    A = 1
    B = 2


class Level(enum.IntEnum):
    LOW = 1
    SAME = 1
    HIGH = 2


@dataclasses.dataclass
class Box(Generic[T]):
    kind: typing.ClassVar[str] = "box"
    content: T | None = None
    weight: float = dataclasses.field(init=False)
    __secret: int = 3  # pyright: ignore[reportGeneralTypeIssues]


@dataclasses.dataclass(slots=True)
class Slots:
    name: str
    late: Any = dataclasses.field(init=False)
    __secret: int = 3  # pyright: ignore[reportGeneralTypeIssues]


@dataclasses.dataclass
class Shouts:
    """Says what must not run when it is loaded."""

    name: str

    def __post_init__(self) -> None:
        raise AssertionError("ran")

    def __setattr__(self, name: str, value: object) -> None:
        raise AssertionError("ran")


class Validates(pydantic.BaseModel, Generic[T]):
    number: T
    child: kinds.Bare | None = None
    made: list[int] = pydantic.Field(default_factory=list)

    @pydantic.model_validator(mode="before")
    @classmethod
    def never(cls, data: Any) -> Any:
        raise AssertionError("ran")


class Checked(msgspec.Struct, Generic[T], frozen=True, tag="checked", rename="camel", kw_only=True):
    some_thing: T
    more: int = 2

    def __post_init__(self) -> None:
        CHECKED.append(self)

    def __init_subclass__(cls, **options: Any) -> None:
        CHECKED.append(cls)


CHECKED: list[Any] = []


class Wide(msgspec.Struct, dict=True):
    a: int


class Point3(kinds.Point):
    """A named tuple that has attributes beside its fields."""


class Order(HumanMessage, tag="codec.order", rename="camel"):
    item_list: list[str]
    price: float = 0.0
    when: dt.datetime | None = None
    box: Any = None


CLASSES = (
    kinds.Colour,
    kinds.Word,
    kinds.Item,
    kinds.Fixed,
    kinds.Hashable,
    kinds.Half,
    kinds.Model,
    kinds.Bare,
    kinds.Point,
    kinds.Mutable,
    kinds.Frozen,
    Rights,
    Open,
    Level,
    Box,
    Slots,
    Shouts,
    Validates,
    Validates[int],
    Checked,
    Wide,
    Point3,
)


@pytest.fixture
def codec() -> Codec:
    return Codec(Registry(CLASSES))


def there_and_back(value: Any, codec: Codec | None = None) -> Any:
    """What comes back, of the same type, and of the same bytes when it is written again."""
    codec = codec or Codec(Registry(CLASSES))
    data = codec.encode(value)
    lost: list[Unreadable] = []
    found = codec.decode(data, "state", lost)
    assert lost == []
    assert type(found) is type(value)
    assert codec.encode(found) == data
    return found


def box(**attributes: Any) -> Box[Any]:
    made: Box[Any] = Box(1)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def shouts() -> Shouts:
    made = object.__new__(Shouts)
    made.__dict__["name"] = "a"
    return made


def wide() -> Wide:
    made: Any = Wide(1)
    made.beside = (1, 2)
    return made


def point() -> Point3:
    made = Point3(1, 2)
    made.beside = {3}  # pyright: ignore[reportAttributeAccessIssue]
    return made


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")

EXACT = [
    *kinds.WHOLE,
    *kinds.COPIED,
    float("nan"),
    -0.0,
    float("-inf"),
    complex(-0.0, float("inf")),
    2**63,
    2**64 - 1,
    2**64,
    -(2**63),
    -(2**63) - 1,
    -(2**5000),
    10**5000,
    "",
    "\ud800 and \udfff",
    "日本 🎈",
    b"",
    b"\x00\xff",
    [],
    [[]] * 20,
    list(range(70_000)),
    {},
    {str(number): number for number in range(70_000)},
    {"\ud800": 1},
    {0: 1, True: 2, None: 3, 1.5: 4, (1, "a"): 5, frozenset({1}): 6, b"x": 7},
    {"a": 1, 2: "b"},
    {"type": "constructor", "lc": 1, "id": ["os", "system"]},
    {"__class__": "os:system", "0x11": ["x", {}]},
    set(),
    {1, "a", (2, 3), None},
    deque([1, 2]),
    deque(maxlen=0),
    dt.datetime.max,  # noqa: DTZ901 - the last one there is
    dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),
    dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN),
    dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.timezone(dt.timedelta(hours=-3, seconds=7), "here")),
    dt.time(1, 2, 3, 4, tzinfo=dt.UTC, fold=1),
    dt.timedelta(days=-1, microseconds=1),
    dt.timedelta.min,
    dt.date.min,
    BERLIN,
    decimal.Decimal("-0.00"),
    decimal.Decimal("1E+999"),
    decimal.Decimal("-Infinity"),
    decimal.Decimal("1" * 60),
    uuid.UUID("12345678-1234-5678-1234-567812345678"),
    pathlib.PureWindowsPath("C:\\a"),
    pathlib.Path("\udcff"),
    ipaddress.ip_address("fe80::1%eth0"),
    ipaddress.ip_interface("10.0.0.1/8"),
    ipaddress.ip_interface("::1/64"),
    ipaddress.ip_network("::/64"),
    re.compile(b"a(b)?", re.IGNORECASE | re.DOTALL),
    Rights.READ,
    Rights(0),
    Rights.READ | Rights.WRITE,
    Open.A | Open.B,
    Open(9),
    Level.SAME,
    Level.HIGH,
    [Level.HIGH, 2, kinds.Word.A, "a", True, 1, 1.0],
    box(weight=1.0),
    box(content=[box(weight=2)], weight=decimal.Decimal(1), beside=1),
    shouts(),
    Validates.model_construct(number=1),
    Validates[int].model_construct(number=1, child=kinds.Bare(name="x")),
    Validates.model_construct({"number", "odd"}, number=1),
    kinds.Model.model_validate({"name": "a", "_private": 1, "more": {"x": (1,)}}),
    Checked(some_thing=(1, 2)),
    Checked[int](some_thing=3),
    wide(),
    point(),
    Interrupt({"q": (1,)}, "7"),
    [Send("node", {"x": {1}}), Overwrite([1]), Pending("1", "n", ("push", 0))],
    Order("x", item_list=["pie"], price=1, when=dt.datetime(2026, 1, 1, tzinfo=BERLIN), box=(1,)),
    Order("x", item_list=("pie",)),  # pyright: ignore[reportArgumentType]
    UnknownMessage("x", type="unknown"),
    ToolMessage("x", tool_call_id="1", artifact=kinds.Item("a", [2**70, "\ud800"])),
    AIMessage([{"type": "text", "text": "x"}, "y"], response_metadata={"at": dt.date(2026, 1, 1)}, zz={1}),
    AIMessage("", additional_kwargs={"type": "ai", "lc": 1, "x": {"type": "human", "content": "x"}}),
]


def shown(value: Any) -> str:
    try:
        return repr(value)[:40]
    except ValueError:
        return "a number beyond words"


@pytest.mark.parametrize("value", EXACT, ids=shown)
def test_what_is_stored_comes_back_as_it_was(value):
    sys.set_int_max_str_digits(0)
    try:
        found = there_and_back(value)
        assert sorted(repr(found)) == sorted(repr(value))  # the order of a set may be another
        inside = there_and_back({"deep": [(value,)]})["deep"][0][0]
    finally:
        sys.set_int_max_str_digits(4300)
    if value == value:  # noqa: PLR0124 - all but those that hold NaN
        assert found == value
        assert inside == value


def test_a_value_that_equals_itself_only_by_identity():
    found = there_and_back([float("nan"), decimal.Decimal("NaN"), complex("nan")])
    assert repr(there_and_back(decimal.Decimal("sNaN123"))) == "Decimal('sNaN123')"
    assert [number != number for number in found] == [True, True, True]  # noqa: PLR0124


def test_B116_fields_that_init_does_not_take_come_back():
    item = kinds.Item("a")
    item.late = [1, (2,)]
    assert there_and_back(item).late == [1, (2,)]


def test_nothing_of_a_struct_is_run(codec):
    data = codec.encode([Checked(some_thing=1), Checked(some_thing=2)])
    CHECKED.clear()
    found = codec.decode(data)
    codec.registry.type_of("nowhere:Nothing")  # looks through all that is derived from what is known
    again = codec.decode(data)

    assert CHECKED == []
    assert [type(each) for each in (*found, *again)] == [Checked] * 4
    assert found == [Checked(some_thing=1), Checked(some_thing=2)]


def test_what_is_not_set_stays_unset(codec):
    slots = Slots("a")
    found = codec.decode(codec.encode([slots, Box(1)]))
    assert not hasattr(found[0], "late")
    assert found[0]._Slots__secret == 3
    assert not hasattr(found[1], "weight")


def test_all_parts_of_a_model_come_back():
    model: Any = kinds.Model.model_validate({"name": "a", "more": {"b": {2}}})
    model._private = {"k": (1,)}
    found = there_and_back(model)

    assert found.__pydantic_private__ == {"_private": {"k": (1,)}}
    assert found.__pydantic_extra__ == {"more": {"b": {2}}}
    assert found.model_fields_set == {"name", "more"}
    assert found.model_dump(exclude_unset=True) == model.model_dump(exclude_unset=True)
    found.parts.append(1)
    assert kinds.Model(name="b").parts == []


def test_the_object_is_free_of_the_bytes_it_was_read_from(codec):
    data = bytearray(codec.encode([bytearray(b"abc"), b"abc", ("x",)]))
    found = codec.decode(data)
    data[:] = bytes(len(data))
    assert found == [bytearray(b"abc"), b"abc", ("x",)]


def test_a_set_is_the_same_bytes_whatever_its_order(codec):
    one, other = {f"{n}" for n in range(50)}, {f"{n}" for n in reversed(range(50))}
    assert codec.encode(one) == codec.encode(other)


def test_what_grows_only_grows_at_its_end_in_bytes_too(codec):
    for short, longer in (
        ([1, "a"] * 7, [1, "a"] * 8),
        ({str(n): n for n in range(15)}, {str(n): n for n in range(16)}),
    ):
        before, after = codec.encode(short), codec.encode(longer)
        assert after.startswith(before[:-4])
        assert before[0] == after[0] == VERSION


def test_a_history_at_the_top_is_a_history_again(codec):
    history = add_messages([], ["hi", AIMessage("yes")])
    found = codec.decode(codec.encode(history))
    assert type(found) is History
    assert found == history
    assert type(codec.decode(codec.encode({"m": history}))["m"]) is list


# --- messages -------------------------------------------------------------------


@given(strategies.messages | strategies.chunks)
def test_a_message_comes_back_as_it_was(message):
    codec = Codec(Registry())
    data = codec.encode_message(message)
    found = codec.decode_message(data)
    assert found == message
    assert type(found) is type(message)
    assert codec.encode_message(found) == data
    assert codec.decode(codec.encode((message,))) == (message,)


@pytest.mark.parametrize(
    "message", [value for value in EXACT if isinstance(value, HumanMessage | AIMessage)], ids=shown
)
def test_odd_messages_alone(codec, message):
    found = codec.decode_message(codec.encode_message(message))
    assert repr(found) == repr(message)
    assert found == message


def test_a_chunk_keeps_what_it_holds(codec):
    chunk = AIMessageChunk(
        "x", tool_call_chunks=[{"name": "f", "args": "{", "id": "1", "index": 0}], additional_kwargs={"x": (1,)}
    )
    assert codec.decode_message(codec.encode_message(chunk)) == chunk


def test_a_users_field_is_not_brought_to_its_annotation(codec):
    found = codec.decode_message(codec.encode_message(Order("x", item_list=[], price=1)))
    assert type(found.price) is int


def test_an_unknown_class_of_message_survives(codec):
    data = codec.encode_message(Order("x", item_list=["pie"])).replace(b"codec.order", b"codec.ardor")
    found = codec.decode_message(data)
    assert type(found) is HumanMessage
    assert found.extra["item_list"] == ["pie"]
    assert codec.encode_message(found) == data


def test_a_message_of_a_class_that_wants_more_now_is_read_as_its_parent(codec):
    data = codec.encode_message(Order("x", item_list=["pie"])).replace(b"item_list", b"item_lost")
    found = codec.decode_message(data)
    assert type(found) is HumanMessage
    assert codec.encode_message(found) == data


# --- refused --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"), kinds.REFUSED, ids=lambda value: None if isinstance(value, str) else repr(value)[:30]
)
def test_it_refuses_what_a_copy_refuses(codec, value, words):
    with pytest.raises(UnstorableError, match=rf"^state cannot be stored: it is .*{words}"):
        codec.encode(value)


def test_the_path_leads_to_what_cannot_be_stored(codec):
    lock = threading.Lock()
    for value, path in kinds.holding(lock):
        with pytest.raises(UnstorableError) as caught:
            codec.encode(value, 'state["x"]')
        told = str(caught.value).partition(" cannot be stored: ")[0].replace(" (the key)", "")
        assert told.endswith(".parts") if path.startswith("[Fixed") else told == f'state["x"]{path}'
        if isinstance(value, HumanMessage | AIMessage | ToolMessage):
            with pytest.raises(UnstorableError) as caught:
                codec.encode_message(value, 'state["x"]')
            assert str(caught.value).partition(" cannot be stored: ")[0] == f'state["x"]{path}'


def test_what_contains_itself_is_refused(codec):
    loop: list[Any] = []
    loop.append((loop,))
    for attempt in (codec.encode, lambda v: codec.encode_message(ToolMessage("", tool_call_id="1", artifact=v))):
        with pytest.raises(
            UnstorableError, match="cannot be stored: it is nested more than 100 deep, or contains itself"
        ):
            attempt(loop)


def test_an_undeclared_class_is_refused():
    with pytest.raises(UnstorableError, match=r'^state\["a"\]\[0\] cannot be stored: .*Item, which is not declared'):
        Codec(Registry()).encode({"a": [kinds.Item("x")]})


def test_a_path_of_a_class_derived_from_path_is_refused(codec):
    class Own(type(pathlib.Path())):
        pass

    with pytest.raises(UnstorableError, match=r"would come back as a plain path. Store pathlib.Path\(value\)"):
        codec.encode(Own("a"))


# --- anything -------------------------------------------------------------------

hashables = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.times(timezones=st.none() | st.just(dt.UTC))
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.ip_addresses()
    | st.sampled_from([*kinds.Colour, *kinds.Word, *Level, *Rights, Rights(0)]),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3) | st.builds(kinds.Frozen, inner),
    max_leaves=6,
)
anything = st.recursive(
    hashables | st.complex_numbers(allow_nan=False) | st.builds(bytearray, st.binary()),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(hashables, inner, max_size=4)
        | st.sets(hashables, max_size=4)
        | st.builds(deque, st.lists(inner, max_size=3), st.none() | st.integers(3, 5))
        | st.builds(kinds.Item, st.text(max_size=3), st.lists(inner, max_size=2))
        | st.builds(kinds.Point, st.integers(), inner)
        | st.builds(kinds.Mutable, inner)
        | st.builds(lambda inner: kinds.Model.model_construct(name="a", extra=inner), inner)
        | st.builds(lambda inner: ToolMessage("x", tool_call_id="1", artifact=inner), inner)
        | st.builds(Interrupt, inner)
    ),
    max_leaves=15,
)


@given(anything)
def test_anything_comes_back_as_it_was(value):
    assert there_and_back(value) == value


@given(st.builds(bytes.__add__, st.sampled_from([b"", b"\x01v", b"\x01l", b"\x01d", b"\x01h"]), st.binary(max_size=40)))
def test_any_bytes_are_read_or_refused(data):
    codec = Codec(Registry(CLASSES))
    for read in (codec.decode, codec.decode_message):
        try:
            read(data)
        except StoredDataError:
            continue


@given(anything, st.data())
def test_bytes_that_were_spoilt_are_read_or_refused(value, data):
    codec = Codec(Registry(CLASSES))
    blob = bytearray(codec.encode(value))
    for _ in range(data.draw(st.integers(1, 3))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(blob)))
    for spoilt in (bytes(blob), bytes(blob[:cut])):
        try:
            codec.decode(spoilt)
        except StoredDataError:
            continue
