from __future__ import annotations

import dataclasses
import enum
import gc
import sys
import textwrap
import types
import typing
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import msgspec
import pydantic
import pytest

from loopwright.agents import create_agent
from loopwright.agents.middleware import AgentMiddleware, AgentState
from loopwright.agents.structured_output import ToolStrategy
from loopwright.checkpoint.codec import Codec
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.checkpoint.record import Send
from loopwright.checkpoint.registry import Declarations, Registry, declared_types, stored_name
from loopwright.errors import UnstorableError, UsageError
from loopwright.graph import END, START, StateGraph
from loopwright.messages import AnyMessage, HumanMessage
from loopwright.testing import ScriptedModel
from loopwright.tools import tool

if TYPE_CHECKING:
    from nowhere import Nothing  # type: ignore

T = TypeVar("T")


class Colour(enum.Enum):
    RED = 1


class Size(enum.StrEnum):
    BIG = "big"


@dataclasses.dataclass
class Leaf:
    colour: Colour


@dataclasses.dataclass
class Tree:
    leaves: list[Leaf]
    up: Tree | None = None
    lost: Nothing | None = None
    size: Literal[Size.BIG] = Size.BIG


class Point(NamedTuple):
    tree: Tree


class Model(pydantic.BaseModel, Generic[T]):
    inner: T
    _leaf: Leaf | None = None


class Packet(msgspec.Struct):
    points: dict[str, tuple[Point, ...]]


class Shape(TypedDict):
    packet: typing.Required[Packet]


class Plain:
    shape: Shape


class Nothing_:
    def __init__(self, leaf: Leaf) -> None: ...


class Parcel(HumanMessage, tag="registry.parcel"):
    leaf: Leaf | None = None


Bound = TypeVar("Bound", bound=Point)
Alias = NewType("Alias", Leaf)  # type: ignore


def function(a: Annotated[list[Leaf], "x"], b: Any = None) -> Model[Leaf]: ...  # type: ignore


EVERYTHING = {Packet, Point, Tree, Leaf, Colour, Size}


@pytest.mark.parametrize(
    ("hint", "found"),
    [
        (Leaf, {Leaf, Colour}),
        (Tree, {Tree, Leaf, Colour, Size}),
        (Shape, EVERYTHING),
        (Plain, EVERYTHING),
        (list[Shape] | None, EVERYTHING),
        (typing.Optional[Leaf], {Leaf, Colour}),  # noqa: UP045
        (typing.Callable[[Leaf], Size], {Leaf, Colour, Size}),
        (Annotated[Colour, Leaf], {Colour}),
        (Model[Leaf], {Model[Leaf], Leaf, Colour}),
        (Model[Colour] | Leaf, {Model[Colour], Leaf, Colour}),
        (function, {Model[Leaf], Leaf, Colour}),
        (Bound, EVERYTHING - {Packet}),
        (Alias, {Leaf, Colour}),
        (Parcel, {Leaf, Colour}),
        (Nothing_, set()),
        (AnyMessage, set()),
        (dict[str, Any], set()),
        (pydantic.BaseModel, set()),
        (enum.Enum, set()),
        (Send, set()),
        ("Leaf", set()),
        (None, set()),
        ({"title": "x"}, set()),
        (AgentState, set()),
    ],
    ids=str,
)
def test_declared_types(hint, found):
    assert declared_types(hint) == found


def test_names():
    assert stored_name(Leaf) == f"{__name__}:Leaf"
    assert stored_name(Model[Leaf]) == f"{__name__}:Model[{__name__}:Leaf]"
    assert stored_name(Model[list[int]]) == f"{__name__}:Model[list[int]]"
    assert Registry([Leaf]).name_of(Leaf) == f"{__name__}:Leaf"
    assert Registry().name_of(Send) == "Send"
    with pytest.raises(KeyError):
        Registry().name_of(Leaf)


def test_what_is_added_is_known_with_what_its_fields_name():
    registry = Registry()
    before = registry.version
    registry.add(Tree)

    assert registry.version == before + 4
    assert [kind in registry for kind in (Tree, Leaf, Colour, Size, Packet)] == [True, True, True, True, False]
    assert registry.type_of(f"{__name__}:Leaf") is Leaf
    assert registry.type_of("os:system") is None
    assert repr(registry) == "Registry(8 classes)"


def test_a_class_that_has_moved_is_known_under_its_old_name():
    registry = Registry()
    registry.add(Leaf, name="old.module:Blatt")

    assert registry.type_of("old.module:Blatt") is Leaf
    assert registry.name_of(Leaf) == f"{__name__}:Leaf"


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ((Nothing_,), {}, "Nothing_ cannot be stored: make it a dataclass"),
        ((Leaf(Colour.RED),), {}, "register takes classes, not Leaf"),
        ((Leaf, Tree), {"name": "a:b"}, "for one class that has moved"),
        ((Leaf,), {"name": "Leaf"}, 'name="old.module:Cart"'),
    ],
)
def test_what_cannot_be_registered_is_told(given, options, words):
    with pytest.raises(UsageError, match=words):
        InMemorySaver().register(*given, **options)


def test_a_class_derived_from_a_known_one_is_known():
    @dataclasses.dataclass
    class Needle(Leaf):
        length: int = 1

    registry = Registry([Leaf])
    assert registry.type_of(stored_name(Needle)) is Needle
    assert Needle in Registry([Leaf])


def test_of_two_classes_of_one_name_the_later_is_meant():
    def made() -> Any:
        @dataclasses.dataclass
        class Again:
            x: int

        return Again

    first, second = made(), made()
    registry = Registry([first, second])
    codec = Codec(registry)
    assert type(codec.decode(codec.encode(first(1)))) is second


def test_declarations_are_read_when_a_class_is_met():
    class Watched:
        reads = 0

        @property
        def declares(self) -> list[Any]:
            Watched.reads += 1
            return [Leaf]

    registry = Registry()
    held = Declarations(Watched())
    registry.expect(held)
    assert Watched.reads == 0
    assert Leaf in registry
    assert Tree not in registry
    assert Watched.reads == 1


def test_declarations_that_nobody_holds_any_more_are_not_read():
    registry = Registry()
    registry.expect(Declarations(Leaf))
    gc.collect()
    assert Leaf not in registry


def test_annotations_that_exist_for_type_checkers_only_hide_no_others():
    source = """
        from __future__ import annotations
        from dataclasses import dataclass
        from typing import List
        @dataclass
        class Inner:
            x: int
        @dataclass
        class Outer:
            lost: Nothing
            inner: List[Inner]
    """
    module: Any = types.ModuleType("half_resolved")
    sys.modules["half_resolved"] = module
    exec(textwrap.dedent(source), vars(module))
    try:
        assert declared_types(module.Outer) == {module.Outer, module.Inner}
    finally:
        del sys.modules["half_resolved"]


# --- what graphs and agents declare ---------------------------------------------


class Ask(pydantic.BaseModel):
    tree: Size


class Answer(pydantic.BaseModel):
    leaf: Leaf


class Hooked(AgentState):
    point: Point


class Hook(AgentMiddleware):
    state_schema = Hooked


@dataclasses.dataclass
class Context:
    packet: Packet


@dataclasses.dataclass
class Result:
    number: int


class Own(AgentState):
    shape: Colour


@tool(args_schema=Ask)
def plant(tree: Size) -> Result:
    """Plant a tree."""
    return Result(1)


def test_an_agent_declares_what_its_parts_name():
    saver = InMemorySaver()
    agent = create_agent(
        ScriptedModel(),
        [plant],
        middleware=[Hook()],
        state_schema=Own,
        context_schema=Context,
        response_format=ToolStrategy(Answer),
        checkpointer=saver,
    )

    known = {Colour, Leaf, Tree, Point, Packet, Context, Ask, Size, Answer, Result}
    assert [kind for kind in known if kind not in saver.registry] == []
    assert Model not in saver.registry
    assert agent.checkpointer is saver


def test_an_agent_that_is_kept_only_with_a_config_declares_too():
    saver = InMemorySaver()
    agent = create_agent(ScriptedModel(), state_schema=Own, checkpointer=saver).with_config(tags=["x"])
    gc.collect()
    assert Colour in saver.registry
    assert agent.config["tags"] == ["x"]


class Inner(TypedDict):
    leaf: Leaf


class Outer(TypedDict):
    size: Size


def test_a_graph_declares_what_graphs_in_it_do():
    inner = StateGraph(Inner).add_node("a", lambda state: {}).add_edge(START, "a").compile()
    outer = StateGraph(Outer).add_node("inner", inner).add_edge(START, "inner").add_edge("inner", END)
    saver = InMemorySaver()
    graph = outer.compile(checkpointer=saver)

    assert (Leaf in saver.registry, Size in saver.registry, Point in saver.registry) == (True, True, False)
    assert graph.checkpointer is saver


def test_a_graph_that_a_node_calls_is_kept_where_the_run_around_it_is():
    saver = InMemorySaver()
    seen: list[bool] = []

    class Kept(TypedDict):
        leaf: Leaf

    inner = StateGraph(Kept).add_node("a", lambda state: {"leaf": Leaf(Colour.RED)}).add_edge(START, "a").compile()

    def call_inner(state: Outer) -> dict[str, Any]:
        seen.append(inner.invoke({"leaf": Leaf(Colour.RED)}) == {"leaf": Leaf(Colour.RED)})
        return {}

    outer = StateGraph(Outer).add_node("b", call_inner).add_edge(START, "b").compile(saver)
    outer.invoke({"size": Size.BIG}, {"configurable": {"thread_id": "1"}})
    assert seen == [True]
    assert Leaf in saver.registry


class Loose(TypedDict):
    value: Any


def test_what_nobody_declared_is_refused_in_memory_as_on_disk():
    builder = StateGraph(Loose).add_node("a", lambda state: {"value": [Leaf(Colour.RED)]}).add_edge(START, "a")
    config: Any = {"configurable": {"thread_id": "1"}}

    with pytest.raises(UnstorableError, match=r'state\["value"\]\[0\] cannot be stored: .*Leaf, which is not declared'):
        builder.compile(InMemorySaver()).invoke({"value": 1}, config)
    saver = InMemorySaver(types=[Leaf])
    assert builder.compile(saver).invoke({"value": 1}, config) == {"value": [Leaf(Colour.RED)]}
    later = InMemorySaver()
    later.register(Leaf)
    assert builder.compile(later).invoke({"value": 1}, config) == {"value": [Leaf(Colour.RED)]}
