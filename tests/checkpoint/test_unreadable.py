"""What is stored and cannot be read: classes that have moved or gone, bytes that somebody else has made."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import sys
from typing import Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from loopwright.agents import AgentState, create_agent
from loopwright.checkpoint.codec import VERSION, Codec
from loopwright.checkpoint.kinds import Unreadable
from loopwright.checkpoint.registry import Registry
from loopwright.errors import LoopwrightError, StoredDataError, UnknownTypeError
from loopwright.graph import END, START, StateGraph
from loopwright.messages import HumanMessage, ToolMessage
from loopwright.testing import ScriptedModel
from tests.checkpoint.bytes_saver import BytesSaver
from tests.checkpoint.test_codec import CLASSES


@dataclasses.dataclass
class Cart:
    items: list[Any]


class Colour(enum.Enum):
    RED = 1


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


def lost_in(value: Any, *known: type, path: str = "state") -> tuple[Any, list[Unreadable]]:
    """What a value becomes where only `known` classes are, and what of it is lost; it is stored again as it was."""
    data = Codec(Registry([Cart, Colour])).encode(value)
    lost: list[Unreadable] = []
    codec = Codec(Registry(known))
    found = codec.decode(data, path, lost)
    assert codec.encode(found) == data
    return found, lost


def test_a_class_that_is_not_registered_leaves_the_rest_readable():
    found, [lost] = lost_in({"n": (1, {2}), "cart": [Cart([Colour.RED])]}, path='state["x"]')

    assert found == {"n": (1, {2}), "cart": [lost]}
    assert (lost.name, lost.path) == (f"{__name__}:Cart", 'state["x"]["cart"][0]')
    assert repr(lost) == f'<Unreadable {__name__}:Cart at state["x"]["cart"][0]: the class is not registered>'


def test_it_is_found_wherever_it_is():
    value = {
        "a": ({"b": {Colour.RED}},),
        Colour.RED: 1,
        "m": ToolMessage("x", tool_call_id="1", artifact=[Cart([])], more={"c": Colour.RED}),
        "cart": Cart([Colour.RED]),
    }
    _, lost = lost_in(value, Cart)
    assert {each.path for each in lost} == {
        'state["a"][0]["b"][0]',
        "state (a key)",
        'state["m"].extra["more"]["c"]',
        'state["cart"].items[0]',
    }


def test_it_is_found_in_a_message_alone():
    codec = Codec(Registry())
    data = Codec(Registry([Cart])).encode_message(ToolMessage("x", tool_call_id="1", artifact=Cart([1])))
    lost: list[Unreadable] = []
    message: Any = codec.decode_message(data, 'state["messages"][3]', lost)

    assert [each.path for each in lost] == ['state["messages"][3].artifact']
    assert message.text == "x"
    assert codec.encode_message(message) == data
    assert Codec(Registry([Cart])).decode_message(data).artifact == Cart([1])  # type: ignore


def test_members_and_fields_that_are_gone():
    class Now(enum.Enum):
        BLUE = 1

    class Other(NamedTuple):
        x: int

    class Slim(msgspec.Struct):
        pass

    class Strict(pydantic.BaseModel):
        wanted: int

    @dataclasses.dataclass(slots=True)
    class Slots:
        pass

    @dataclasses.dataclass
    class More:
        items: list[Any]
        wanted: int

    for kind, value, words in (
        (Now, Colour.RED, "the enum has no 'RED'"),
        (Other, Cart([1]), "its fields are items, those of the class x"),
        (Slim, Cart([1]), "what is stored does not fit the class: "),
        (Strict, Cart([1]), "what is stored does not fit the class: "),
        (Slots, Cart([1]), "what is stored does not fit the class: "),
        (More, Cart([1]), "it has no 'wanted', which the class wants now"),
        (Now, Cart([1]), "the class is of another sort now"),
        (Cart, Colour.RED, "the enum has no 'RED'"),
    ):
        registry = Registry([Cart, Colour])
        data = Codec(registry).encode([value, 1])
        later = Registry()
        later.add(kind, name=registry.name_of(type(value)))
        lost: list[Unreadable] = []
        found = Codec(later).decode(data, "state", lost)
        assert found == [lost[0], 1]
        assert words in lost[0].reason
        assert Codec(later).encode(found) == data


def test_fields_that_came_later_get_their_defaults():
    @dataclasses.dataclass
    class Data:
        items: list[Any]
        new: int = 3
        made: list[Any] = dataclasses.field(default_factory=list)
        late: int = dataclasses.field(init=False, compare=False)

    @dataclasses.dataclass(slots=True)
    class Slots:
        items: list[Any]
        new: int = 3

    class Named(NamedTuple):
        items: list[Any]
        new: int = 3

    class Packed(msgspec.Struct):
        items: list[Any]
        new: int = 3

    registry = Registry([Cart])
    data = Codec(registry).encode(Cart([1]))
    for kind in (Data, Slots, Named, Packed):
        later = Registry()
        later.add(kind, name=registry.name_of(Cart))
        assert Codec(later).decode(data) == kind([1])

    class Earlier(pydantic.BaseModel):
        items: list[Any]

    class Model(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow")
        items: list[Any]
        new: int = 3
        made: list[Any] = pydantic.Field(default_factory=list)
        _own: int = 4

    class BeforePacked(msgspec.Struct):
        items: list[Any]

    class BeforeNamed(NamedTuple):
        items: list[Any]

    for before, kind in ((Earlier, Model), (BeforePacked, Packed), (BeforeNamed, Named)):
        old = Registry([before])
        data = Codec(old).encode(before(items=[1]))
        later = Registry()
        later.add(kind, name=old.name_of(before))
        found = Codec(later).decode(data)
        assert found == kind(items=[1])
        if kind is Model:
            assert (found.model_fields_set, found._own, found.model_extra) == ({"items"}, 4, {})


@pytest.mark.parametrize("slots", [False, True])
def test_a_field_that_has_another_name_now_is_not_taken_for_one_that_came_later(slots):
    """The object would be without what was stored."""
    Old = dataclasses.make_dataclass("Bag", [("items", list)])
    later = ("lines", list, dataclasses.field(default_factory=list))
    New = dataclasses.make_dataclass("Bag", [later], slots=slots)
    Both = dataclasses.make_dataclass("Bag", [("items", list), later], slots=slots)
    old, new, both = Registry(), Registry(), Registry()
    for registry, kind in ((old, Old), (new, New), (both, Both)):
        registry.add(kind, name="m:Bag")
    data = Codec(old).encode(Old(["tea"]))
    for registry, kind in ((new, New), (both, Both)):
        registry.add(kind, name=old.name_of(Old))

    found = Codec(new).decode(data)
    assert isinstance(found, Unreadable)
    assert "the class has no 'items' any more" in found.reason
    assert Codec(new).encode(found) == data
    assert Codec(both).decode(data) == Both(["tea"], [])


def test_attributes_that_are_no_fields_come_back():
    cart = Cart(["tea"])
    cart.total = 3  # type: ignore[attr-defined]
    codec = Codec(Registry([Cart]))

    assert vars(codec.decode(codec.encode(cart))) == {"items": ["tea"], "total": 3}


ran: list[Any] = []


@dataclasses.dataclass
class Guarded:
    name: str

    @property
    def size1(self) -> int:
        ran.append("get")
        return 0

    @size1.setter
    def size1(self, value: int) -> None:
        ran.append(value)


class Hooked(enum.Flag):
    A = 1
    B = 2

    @classmethod
    def _missing_(cls, value: object) -> Any:
        ran.append(value)
        return super()._missing_(value)


@pytest.mark.parametrize("more", [b"", b"\x81\xa5size1\x07"])
def test_loading_sets_no_property(more):
    """A stored field that the class has as a property now, and an attribute beside the fields of that name."""
    ran.clear()
    registry = Registry([Guarded, Hooked])
    name = msgspec.msgpack.encode(registry.name_of(Guarded))
    field = b"\x81\xa4name\xa1x" if more else b"\x81\xa5size1\xa1x"
    parts = bytes([0x93 if more else 0x92]) + name + field + more
    data = b"\x01v" + msgspec.msgpack.encode(msgspec.msgpack.Ext(0x11, parts))

    found = Codec(registry).decode(data)
    assert isinstance(found, Guarded if more else Unreadable)
    assert ran == []


def test_loading_flags_asks_no_hook():
    ran.clear()
    codec = Codec(Registry([Hooked]))
    data = codec.encode(Hooked.A)
    word = msgspec.msgpack.encode([codec.registry.name_of(Hooked), ["A", 64]])
    unknown = codec.decode(data[:2] + msgspec.msgpack.encode(msgspec.msgpack.Ext(0x12, word)))

    assert isinstance(unknown, Unreadable)
    assert ran == []


def test_what_a_later_version_stores_is_kept():
    codec = Codec(Registry())
    data = b"\x01v" + msgspec.msgpack.encode({"a": msgspec.msgpack.Ext(0x5A, b"future"), "n": 1})
    lost: list[Unreadable] = []
    found = codec.decode(data, "state", lost)
    assert found == {"a": lost[0], "n": 1}
    assert lost[0].reason == "a later version of Loopwright has stored it"
    assert Codec(Registry()).encode(found)[2:].startswith(b"\xa1a\xc7\x06Zfuture")

    with pytest.raises(
        StoredDataError, match=r"state was stored by a later version .*format 2; this one reads up to 1"
    ):
        codec.decode(b"\x02v\xc0")
    assert VERSION == 1


# --- bytes of somebody else's making --------------------------------------------


def test_B122_loading_imports_nothing_and_runs_nothing(tmp_path, monkeypatch):
    marker = tmp_path / "marker"
    (tmp_path / "evil_module.py").write_text(
        f"open({str(marker)!r}, 'w').close()\nimport dataclasses, enum\n"
        "@dataclasses.dataclass\nclass Evil:\n    items: list\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    ext = msgspec.msgpack.Ext
    pack = msgspec.msgpack.encode
    codec = Codec(Registry(CLASSES))
    for name in ("evil_module:Evil", "os:system", "builtins:eval", "evil_module", ":", "", "subprocess:Popen"):
        for code, parts in ((0x11, [name, {"items": []}]), (0x12, [name, "RED"])):
            lost: list[Unreadable] = []
            codec.decode(b"\x01v" + pack([ext(code, pack(parts))]), "state", lost)
            assert [each.name for each in lost] == [name]
        message = codec.decode_message(b"\x01v" + pack({"type": name, "content": "x", "kwargs": {"items": []}}))
        assert message.text == "x"
    assert not marker.exists()
    assert "evil_module" not in sys.modules
    importlib.import_module("evil_module")
    assert marker.exists()  # the trap works
    del sys.modules["evil_module"]


def test_B121_data_that_looks_like_a_stored_object_is_data():
    codec = Codec(Registry([Cart]))
    name = codec.registry.name_of(Cart)
    for looks in (
        {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {}},
        [name, {"items": []}],
        {"__type__": name, "items": []},
        codec.encode(Cart([])),
        {"code": 0x11, "data": codec.encode(Cart([]))[3:]},
    ):
        assert codec.decode(codec.encode(looks)) == looks


HOSTILE = [
    b"",
    b"\x01",
    b"\x01v",
    b"\x00v\xc0",
    b"x",
    b"\x01z\xc0",
    b"\x01l",
    b"\x01l\x00",
    b"\x01l\xff\xff\xff\xff",
    b"\x01d\xff\xff\xff\xff",
    b"\x01h\x01\x00\x00\x00\x02",
    b"\x01v\xdd\xff\xff\xff\xff",
    b"\x01v\xdf\xff\xff\xff\xff",
    b"\x01v\xc9\xff\xff\xff\xff\x11",
    b"\x01v\xc6\xff\xff\xff\xff",
    b"\x01v\xdb\x00\x00\x00\x02\xff\xff",
    b"\x01v\x81\x80\x01",
    b"\x01v\xc1",
    b"\x01v\x01\x01",
    b"\x01v" + b"\x91" * 100_000,
    b"\x01v" + b"\x81\xa1a" * 100_000,
]


@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: data[:8].hex())
def test_broken_bytes_are_told(data):
    codec = Codec(Registry())
    for read in (codec.decode, codec.decode_message):
        with pytest.raises(StoredDataError, match=r'^What is stored for state\["x"\] cannot be read; it is damaged: '):
            read(data, 'state["x"]')


def test_nested_extensions_that_never_end_are_told():
    data = b"\xc0"
    for _ in range(3000):
        data = msgspec.msgpack.encode(msgspec.msgpack.Ext(0x01, data))
    with pytest.raises(StoredDataError, match="damaged"):
        Codec(Registry()).decode(b"\x01v" + data)


def test_objects_that_do_not_fit_their_kind_are_kept():
    pack, ext = msgspec.msgpack.encode, msgspec.msgpack.Ext
    codec = Codec(Registry([Cart, Colour, Rights]))
    cart, colour, rights = (codec.registry.name_of(kind) for kind in (Cart, Colour, Rights))
    for code, parts in (
        (0x03, [[1]]),
        (0x04, 3),
        (0x02, [1]),
        (0x05, [-1]),
        (0x07, ["x"]),
        (0x11, []),
        (0x11, [["x"]]),
        (0x11, [cart]),
        (0x11, [cart, 3]),
        (0x11, [cart, {"__class__": "x"}]),
        (0x12, [colour, ["RED"]]),
        (0x12, [rights, ["ALL"]]),
        (0x12, [rights, 3.5]),
        (0x20, "x"),
        (0x22, "2026-99-99"),
        (0x25, "Nowhere/Town"),
        (0x25, "../../etc/passwd"),
        (0x26, "many"),
        (0x28, ["(", 0]),
        (0x29, "x"),
        (0x6E, b"\xff"),
    ):
        data = b"\x01l" + pack(ext(code, pack(parts))) + b"\x00\x00\x00\x01"
        lost: list[Unreadable] = []
        found = codec.decode(data, "state", lost)
        assert found == lost, (code, parts)
        assert codec.encode(found) == data


# --- runs -----------------------------------------------------------------------


class State(TypedDict):
    cart: Any
    n: int


CONFIG: Any = {"configurable": {"thread_id": "1"}}


def test_B117_a_class_that_has_moved_stops_the_run_and_loses_nothing(tmp_path, monkeypatch):
    (tmp_path / "old_shop.py").write_text("import dataclasses\n@dataclasses.dataclass\nclass Cart:\n    items: list\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    old: Any = importlib.import_module("old_shop")
    ran: list[Any] = []

    def fill(state: State) -> dict[str, Any]:
        ran.append(state["cart"])
        return {"cart": state.get("cart") or old.Cart(["tea"]), "n": state["n"] + 1}

    builder = StateGraph(State).add_node("fill", fill).add_edge(START, "fill").add_edge("fill", END)
    saver = BytesSaver(types=[old.Cart])
    builder.compile(saver).invoke({"cart": None, "n": 0}, CONFIG)
    del sys.modules["old_shop"]

    saver = saver.reopened()
    graph = builder.compile(saver)
    values = graph.get_state(CONFIG).values
    assert (type(values["cart"]), values["n"]) == (Unreadable, 1)
    for given in ({"n": 5}, None):
        with pytest.raises(
            UnknownTypeError,
            match=r"Thread '1' holds what cannot be read here: state\[\"cart\"\] is a old_shop:Cart \(the class is not "
            r"registered\).*saver\.register\(TheClass, name=\"old_shop:Cart\"\)",
        ) as caught:
            graph.invoke(given, CONFIG)
        assert isinstance(caught.value, LoopwrightError)
    assert ran == [None]
    graph.update_state(CONFIG, {"n": 7})
    assert graph.get_state(CONFIG).values["n"] == 7

    saver.register(Cart, name="old_shop:Cart")
    assert graph.invoke({"n": 8}, CONFIG) == {"cart": Cart(["tea"]), "n": 9}
    assert ran == [None, Cart(["tea"])]


class Noted(AgentState):
    cart: Cart


def test_an_agent_reads_what_its_state_declares_after_a_restart():
    saver = BytesSaver()
    agent = create_agent(ScriptedModel("one"), state_schema=Noted, checkpointer=saver)
    agent.invoke({"messages": [HumanMessage("hi")], "cart": Cart(["tea"])}, CONFIG)  # type: ignore

    again = create_agent(ScriptedModel("two"), state_schema=Noted, checkpointer=saver.reopened())
    result = again.invoke({"messages": [HumanMessage("more")]}, CONFIG)
    assert result["cart"] == Cart(["tea"])
    assert [message.text for message in result["messages"]] == ["hi", "one", "more", "two"]
