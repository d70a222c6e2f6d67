from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import io
import ipaddress
import pathlib
import re
import socket
import sys
import threading
import types
import typing
import uuid
import zoneinfo

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.checkpoint.plain import check_storable, plain_copy
from loopwright.checkpoint.record import NO_ARG
from loopwright.errors import UnstorableError, UsageError
from loopwright.messages import AIMessage, HumanMessage, ToolMessage
from loopwright.messages.history import History


class Colour(enum.Enum):
    RED = 1


class Word(enum.StrEnum):
    A = "a"


@dataclasses.dataclass
class Item:
    name: str
    parts: list = dataclasses.field(default_factory=list)
    late: object = dataclasses.field(init=False, default=None)


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    name: str
    parts: object = ()


@dataclasses.dataclass(unsafe_hash=True)
class Hashable:
    name: str
    parts: list = dataclasses.field(default_factory=list, hash=False)


class Slotted:
    __slots__ = "extra"  # noqa: PLC0205 - a lone string is what is tested


@dataclasses.dataclass
class Half(Slotted):
    """A slot that is filled later, and a `__dict__` beside it."""

    name: str


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", arbitrary_types_allowed=True)

    name: str
    parts: list = []
    lock: typing.Any = None
    _private: typing.Any = pydantic.PrivateAttr(default=None)


class Bare(pydantic.BaseModel):
    name: str


class Point(typing.NamedTuple):
    x: int
    tail: object = ()


class Mutable(msgspec.Struct):
    items: list


class Frozen(msgspec.Struct, frozen=True):
    items: object


class Note(HumanMessage):
    extra_data: dict = {}


WHOLE = [
    None,
    True,
    7,
    2**90,
    1.5,
    float("inf"),
    1j,
    "text",
    "\ud800",
    b"bytes",
    dt.date(2026, 1, 2),
    dt.time(1, 2),
    dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
    dt.datetime(2026, 1, 2, tzinfo=zoneinfo.ZoneInfo("UTC")),
    dt.datetime(2026, 1, 2),  # noqa: DTZ001
    dt.timedelta(1),
    dt.timezone(dt.timedelta(hours=2)),
    decimal.Decimal("1.10"),
    uuid.UUID(int=1),
    pathlib.Path("a/b"),
    pathlib.PurePosixPath("a"),
    ipaddress.ip_address("127.0.0.1"),
    ipaddress.ip_network("10.0.0.0/8"),
    re.compile("a+"),
    Colour.RED,
    Word.A,
    NO_ARG,
    (),
    (1, ("a", b"b")),
    frozenset({1, (2,)}),
    Fixed("a"),
    Point(1),
    Frozen((1, 2)),
    HumanMessage("hi"),
    AIMessage("", tool_calls=[{"name": "f", "args": {"a": [1]}, "id": "1"}]),
    Note("hi", extra_data={"a": [1]}),
]


@pytest.mark.parametrize("value", WHOLE, ids=repr)
def test_what_cannot_change_is_kept_as_it_is(value):
    assert plain_copy(value) is value
    assert check_storable(value) is None


COPIED = [
    [],
    [1, [2, {"a": {3}}]],
    {},
    {"a": [1], 2: "b", (3, "c"): None, Colour.RED: 1},
    {1, "a"},
    bytearray(b"x"),
    collections.deque([1, [2]], maxlen=5),
    ([1],),
    Item("a", [1]),
    Fixed("a", [1]),
    Model.model_validate({"name": "a", "parts": [1], "more": {"b": [2]}}),
    Bare(name="a"),
    Point(1, [2]),
    Mutable([1]),
    Frozen([1]),
    Frozen({"a": Fixed("b", [Item("c")])}),
]


@pytest.mark.parametrize("value", COPIED, ids=repr)
def test_what_can_change_is_copied(value):
    copied = plain_copy(value)

    assert copied is not value
    assert copied == value
    assert type(copied) is type(value)
    assert repr(copied) == repr(value)


def test_a_frozenset_of_changeable_things_is_copied():
    item: typing.Any = Frozen((Item("a"),))
    hashable = Hashable("a")
    copied: typing.Any = plain_copy((frozenset({hashable}), item))

    assert next(iter(copied[0])) is not hashable
    assert copied[1].items[0] is not item.items[0]


def test_copies_are_deep():
    item: typing.Any = Item("a", [[1]])
    model: typing.Any = Model.model_validate({"name": "a", "parts": [[1]], "more": [1]})
    mutable = Mutable([[1]])
    model._private = [1]
    item.late = [1]
    item.beside = [1]
    copied = plain_copy({"item": item, "model": model, "mutable": mutable, "deque": collections.deque([[1]])})
    for value in (item.parts[0], item.late, item.beside, model.parts[0], model.more, model._private, mutable.items[0]):
        value.append(2)

    assert (copied["item"].parts, copied["item"].late, copied["item"].beside) == ([[1]], [1], [1])
    assert (copied["model"].parts, copied["model"].more, copied["model"]._private) == ([[1]], [1], [1])
    assert copied["mutable"].items == [[1]]


def test_slots_beside_a_dict():
    half = Half("a")
    assert plain_copy(half) == half
    half.extra = [1]
    copied = plain_copy(half)
    half.extra.append(2)

    assert copied.extra == [1]


def test_a_history_becomes_a_list_of_the_same_messages():
    history = History([HumanMessage("hi")])
    copied = plain_copy(history)

    assert type(copied) is list
    assert copied[0] is history[0]


def test_messages_are_shared_not_copied():
    message = ToolMessage("x", tool_call_id="1", artifact={"a": [1]})

    assert plain_copy({"m": [message]})["m"][0] is message


def generator():
    yield 1


async def coroutine_function():
    pass


class Plain:
    pass


class MyDict(dict):
    pass


class Zone(dt.tzinfo):
    pass


REFUSED = [
    (print, "a function. Store its name"),
    (lambda: 1, "a function. Store its name"),
    (functools.partial(print), "a function. Store its name"),
    ([].append, "a function. Store its name"),
    (Plain().__init__, "of class builtins.method-wrapper"),
    (threading.Lock(), "of class _thread.lock. Make the class a dataclass"),
    (threading.RLock(), "of class _thread.RLock"),
    (generator(), "of class builtins.generator"),
    (sys, "of class builtins.module"),
    (io.StringIO(), "of class _io.StringIO"),
    (object(), "of class builtins.object"),
    (Plain(), r"of class .*Plain\. Make the class a dataclass, a pydantic model or a msgspec.Struct"),
    (Plain, "a class. Store its name"),
    (Item, "a class. Store its name"),
    (Colour, "a class. Store its name"),
    (ValueError("x"), r"an exception \(builtins.ValueError\). Store its text: str\(error\)"),
    (MyDict(a=1), r"a .*MyDict, which would come back as a plain dict. Store dict\(value\)"),
    (collections.defaultdict(list), r"a collections.defaultdict, which .* Store dict\(value\)"),
    (collections.OrderedDict(), r"Store dict\(value\)"),
    (collections.Counter(), r"Store dict\(value\)"),
    (type("MyStr", (str,), {})("a"), r"Store str\(value\)"),
    (type("MyFloat", (float,), {})(1.0), r"Store float\(value\)"),
    (type("MyList", (list,), {})(), r"Store list\(value\)"),
    (types.MappingProxyType({}), "of class builtins.mappingproxy"),
    (asyncio.Event(), "of class asyncio.locks.Event"),
    (type("ndarray", (), {"__module__": "numpy"})(), r"of class numpy.ndarray. Store value.tolist\(\)."),
    (
        type("DataFrame", (), {"__module__": "pandas.core"})(),
        r'of class pandas.core.DataFrame. Store value.to_dict\("list"\).',
    ),
]


@pytest.mark.parametrize(
    ("value", "words"), REFUSED, ids=lambda value: None if isinstance(value, str) else repr(value)[:30]
)
def test_what_cannot_be_brought_back_is_refused(value, words):
    with pytest.raises(UnstorableError, match=rf"^state cannot be stored: it is .*{words}") as caught:
        check_storable(value)
    with pytest.raises(UnstorableError):
        plain_copy([value])

    assert isinstance(caught.value, UsageError)
    assert isinstance(caught.value, TypeError)


def test_an_open_socket_is_refused():
    with socket.socket() as open_socket, pytest.raises(UnstorableError, match=r"of class socket\.socket"):
        check_storable(open_socket)


def holding(lock) -> list[tuple[object, str]]:
    item: typing.Any = Item("a")
    item.beside = lock
    private = Model(name="a")
    private._private = {"k": lock}
    return [
        ({"cart": [1, Fixed("a", lock)]}, '["cart"][1].parts'),
        ({"a": {"b": (1, [lock])}}, '["a"]["b"][1][0]'),
        ({1: {None: lock}}, "[1][None]"),
        ({'say "hi"\\': lock}, '["say \\"hi\\"\\\\"]'),
        ({"x" * 200: lock}, '["' + "x" * 80 + '"]'),
        ({Fixed("k", lock): 1}, "[Fixed(name='k', parts=" + repr(lock)[: 80 - 23] + "].parts"),
        (Item("a", [lock]), ".parts[0]"),
        (item, ".beside"),
        (Model(name="a", lock=lock), ".lock"),
        (Model.model_validate({"name": "a", "more": [lock]}), ".more[0]"),
        (private, '._private["k"]'),
        (Point(1, lock), ".tail"),
        (Mutable([lock]), ".items[0]"),
        ({frozenset({1}): {1, 2}, "s": collections.deque([0, lock])}, '["s"][1]'),
        (ToolMessage("x", tool_call_id="1", artifact={"f": lock}), '.artifact["f"]'),
        (AIMessage("x", additional_kwargs={"f": [lock]}), '.additional_kwargs["f"][0]'),
        (Note("x", extra_data={"f": lock}), '.extra_data["f"]'),
        (Note("x", more={"f": lock}), '.extra["more"]["f"]'),  # pyright: ignore[reportCallIssue]
        (dt.time(1, tzinfo=Zone()), ".tzinfo"),
    ]


def test_the_path_leads_to_what_cannot_be_stored():
    lock = threading.Lock()
    for value, path in holding(lock):
        with pytest.raises(UnstorableError) as caught:
            check_storable(value, 'state["x"]')
        told = str(caught.value).partition(" cannot be stored: ")[0].replace(" (the key)", "")
        if not path.startswith("[Fixed"):
            assert told == f'state["x"]{path}'
        else:
            assert told.endswith(".parts")


def test_what_contains_itself_is_refused():
    loop: list = []
    loop.append(loop)

    with pytest.raises(
        UnstorableError, match=r"^state\[0\].* cannot be stored: it is nested more than 100 deep, or contains itself"
    ):
        check_storable(loop)


def test_only_registered_classes_where_a_saver_has_a_list():
    registered = {Item, Colour}

    check_storable({"a": Item("x", [Colour.RED, HumanMessage("hi"), dt.date(2026, 1, 1)])}, "state", registered)
    for value in (Fixed("a"), Word.A, Model(name="a"), Point(1), Mutable([])):
        with pytest.raises(
            UnstorableError, match=r"^state\[0\] cannot be stored: it is of class .*, which is not declared"
        ):
            check_storable([value], "state", registered)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=4)
        | st.builds(Item, st.text(max_size=3), st.lists(inner, max_size=2))
        | st.builds(Point, st.integers(), inner)
        | st.builds(Frozen, inner)
    ),
    max_leaves=12,
)


@given(plain)
def test_a_copy_equals_its_original_to_the_last_type(value):
    assert repr(plain_copy(value)) == repr(value)
    assert plain_copy(value) == value
