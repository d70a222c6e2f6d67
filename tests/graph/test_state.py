"""States: how each key takes updates, and how callers and nodes see them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NotRequired, Required, TypedDict

import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import InvalidUpdateError, UsageError
from loopwright.graph import START, MessagesState, StateGraph
from loopwright.graph.state import (
    Channel,
    EphemeralValue,
    OmitFromInput,
    OmitFromOutput,
    OmitFromSchema,
    PrivateStateAttr,
    as_update,
    channels_of,
    fold,
    merge_channels,
)
from loopwright.graph.types import Command, Overwrite
from loopwright.messages import AIMessage, HumanMessage, RemoveMessage
from tests.graph.worlds import Log, World, both_worlds, chain, thread


def adds(old: list[Any], new: list[Any]) -> list[Any]:
    return old + new


def channels(schema: Any) -> dict[str, Channel]:
    return channels_of(schema)


# --- what a schema declares -----------------------------------------------------


class Everything(TypedDict):
    plain: int
    added: Annotated[list[int], adds]
    needed: Required[Annotated[list[int], adds]]
    maybe: NotRequired[Annotated[list[int], adds]]
    read_only: typing_extensions.ReadOnly[Annotated[list[int], adds]]
    described: Annotated[int, "words"]
    union: Annotated[list[int] | None, lambda old, new: new]
    made: Annotated[Sequence[int], adds]


@pytest.mark.parametrize("key", ["added", "needed", "maybe", "read_only", "made"])
def test_reducers_are_found_behind_every_wrapper(key):
    channel = channels(Everything)[key]
    assert channel.reducer is adds
    assert channel.default is list


def test_a_key_without_a_reducer_keeps_the_last_value():
    for key in ("plain", "described"):
        assert channels(Everything)[key].reducer is None


def test_a_type_without_an_empty_value_begins_with_the_first_update():
    class Point:
        def __init__(self, x: int) -> None: ...

    state = TypedDict("state", {"union": Annotated[list[int] | None, adds], "point": Annotated[Point, adds]})  # noqa: UP013 - its types are local
    assert [channel.default for channel in channels(state).values()] == [None, None]
    assert fold(channels(state), {}, [("a", [("union", 1)])]) == ({"union": 1}, {"union"})


def test_a_type_of_the_users_begins_empty():
    assert channels(Counted)["tally"].default is Tally


class Tally(dict[str, int]):
    """A user's own collection."""


class Counted:
    tally: Annotated[Tally, lambda old, new: Tally({**old, **new})]
    constant: ClassVar[int]


def test_class_variables_are_no_keys():
    assert list(channels(Counted)) == ["tally"]


def test_a_schema_is_read_once():
    assert channels_of(Log) is channels_of(Log)


def test_a_type_that_cannot_be_found_is_named():
    class Hidden:
        value: int

    class State(TypedDict):
        hidden: Hidden

    with pytest.raises(UsageError, match=r"State names a type that cannot be found: .*'Hidden'.*at module level"):
        channels_of(State)


@pytest.mark.parametrize("reducer", [lambda: 0, lambda old: old, lambda a, b, c: a, lambda *, old, new: old])
def test_a_reducer_takes_two_arguments(reducer):
    state = TypedDict("state", {"log": Annotated[list, reducer]})  # noqa: UP013 - the reducer is local
    with pytest.raises(UsageError, match="reducer of state key 'log' must take two arguments, \\(old, update\\)"):
        channels_of(state)


@pytest.mark.parametrize("reducer", [lambda a, b: a, lambda *both: both, lambda a, b, c=0: a, operator.add, max])
def test_reducers_that_can_be_called_with_two(reducer):
    """`max` hides its signature and is taken at its word."""
    assert channels_of(TypedDict("state", {"n": Annotated[int, reducer]}))["n"].reducer is reducer


def test_marks_say_who_sees_a_key():
    class Marked(TypedDict):
        run: Annotated[int, OmitFromInput]
        give: Annotated[int, OmitFromOutput]
        private: Annotated[int, PrivateStateAttr]
        free: Annotated[int, OmitFromSchema(input=False, output=False)]
        brief: Annotated[int, EphemeralValue]
        made: Annotated[int, EphemeralValue()]

    found = {name: (c.in_input, c.in_output, c.ephemeral) for name, c in channels_of(Marked).items()}
    assert found == {
        "run": (False, True, False),
        "give": (True, False, False),
        "private": (False, False, False),
        "free": (True, True, False),
        "brief": (True, True, True),
        "made": (True, True, True),
    }
    assert repr(PrivateStateAttr) == "OmitFromSchema(input=True, output=True)"


def test_channels_of_several_schemas_are_merged():
    class Plain(TypedDict):
        log: list[Any]
        other: int

    assert list(merge_channels([Plain, Log])) == ["log", "other"]
    assert merge_channels([Plain, Log])["log"].reducer is operator.add
    assert merge_channels([Log, Log])["log"].reducer is operator.add


# --- folding --------------------------------------------------------------------

ADDED = channels_of(Log)


@given(st.lists(st.lists(st.lists(st.integers(), max_size=3), max_size=3), max_size=4))
def test_updates_are_folded_in_the_order_of_the_tasks(tasks):
    writes = [(f"t{i}", [("log", update) for update in updates]) for i, updates in enumerate(tasks)]
    state, changed = fold(ADDED, {"log": [0]}, writes)
    flat = [value for updates in tasks for update in updates for value in update]
    assert state == {"log": [0, *flat]}
    assert changed == ({"log"} if any(tasks) else set())


def test_a_state_is_never_changed_in_place():
    before = {"log": [1]}
    after, _ = fold(ADDED, before, [("a", [("log", [2])])])
    assert (before, after) == ({"log": [1]}, {"log": [1, 2]})


def test_two_tasks_may_not_write_one_plain_key():
    plain = channels_of(TypedDict("plain", {"x": int}))
    assert fold(plain, {"x": 0}, [("a", [("x", 1)])]) == ({"x": 1}, {"x"})
    with pytest.raises(InvalidUpdateError, match="key 'x' was written twice in one step, by 'a' and 'b'"):
        fold(plain, {"x": 0}, [("a", [("x", 1)]), ("b", [("x", 1)])])


def test_keys_that_the_graph_does_not_have_are_left_out():
    assert fold(ADDED, {}, [("a", [("other", 1)])]) == ({}, set())


@pytest.mark.parametrize(
    ("updates", "expected"),
    [
        ([Overwrite([9])], [9]),
        ([Overwrite([9]), [2]], [9]),
        ([[2], Overwrite([9])], [9]),
    ],
)
def test_overwrite_takes_the_place_of_all(updates, expected):
    """Whatever else the step writes to the key, and in whatever order its tasks stand."""
    writes = [(f"t{i}", [("log", update)]) for i, update in enumerate(updates)]
    assert fold(ADDED, {"log": [1]}, writes) == ({"log": expected}, {"log"})


def test_two_overwrites_in_one_step():
    writes = [("a", [("log", Overwrite([1]))]), ("b", [("log", Overwrite([2]))])]
    with pytest.raises(InvalidUpdateError, match="'log' was overwritten twice in one step, by 'a' and 'b'"):
        fold(ADDED, {"log": []}, writes)


def test_overwrite_of_a_plain_key_is_its_value():
    assert fold(channels_of(TypedDict("plain", {"x": int})), {}, [("a", [("x", Overwrite(3))])]) == ({"x": 3}, {"x"})


@both_worlds
def test_overwrite_in_a_run(world: World):
    graph = chain(("a", lambda state: {"log": Overwrite(["new"])}), "b").compile()
    assert world.invoke(graph, {"log": ["old"]}) == {"log": ["new", "b"]}


@both_worlds
def test_ephemeral_keys_live_for_one_step(world: World):
    """The next step sees them, the one after does not, and no checkpoint has them."""

    class State(Log):
        hint: Annotated[str, EphemeralValue]

    seen: list[Any] = []

    def look(state: Any) -> None:
        seen.append(state.get("hint"))

    saver = InMemorySaver()
    graph = chain(("a", look), ("b", lambda state: {"hint": "b"}), ("c", look), ("d", look), state=State)
    compiled = graph.compile(checkpointer=saver)
    assert world.invoke(compiled, {"log": [], "hint": "in"}, thread()) == {"log": []}
    assert seen == ["in", "b", None]
    assert all("hint" not in record.values for record in saver.walk("1"))


# --- updates --------------------------------------------------------------------


@dataclass
class Point:
    x: int
    y: int = 0
    never: int = field(init=False, repr=False)


class Model(BaseModel):
    x: int = 1
    y: int = 2


def test_instances_as_updates():
    """Of a pydantic model what was set, of a dataclass what it has."""
    assert as_update(Point(3)) == {"x": 3, "y": 0}
    assert as_update(Model(y=5)) == {"y": 5}
    assert as_update(3) is None
    assert as_update(Point) is None


@both_worlds
def test_dataclass_states(world: World):
    @dataclass
    class State:
        log: Annotated[list[Any], operator.add] = field(default_factory=list)
        count: int = 7

    seen: list[Any] = []

    def look(state: State) -> dict[str, Any]:
        seen.append((type(state).__name__, state.count))
        return {"log": ["a"], "count": state.count + 1}

    graph = chain(("a", look), ("b", look), state=State).compile()
    assert world.invoke(graph, State(log=["in"])) == {"log": ["in", "a", "a"], "count": 9}
    assert seen == [("State", 7), ("State", 8)]


@both_worlds
def test_pydantic_states(world: World):
    """Nodes get instances, checked and with defaults; callers get dicts."""

    class State(BaseModel):
        log: Annotated[list[str], operator.add] = []
        count: int = 7

    def look(state: State) -> State:
        return State(log=["a"], count=state.count + 1)

    graph = chain(("a", look), state=State).compile()
    assert world.invoke(graph, {"log": ["in"]}) == {"log": ["in", "a"], "count": 8}
    assert world.invoke(graph, State(count=1)) == {"log": ["a"], "count": 2}
    with pytest.raises(ValueError, match="count"):
        world.invoke(graph, {"count": "many"})


@both_worlds
def test_conditional_edges_get_instances_too(world: World):
    class State(BaseModel):
        log: Annotated[list[str], operator.add] = []
        n: int = 0

    builder = StateGraph(State).add_node("up", lambda state: {"n": state.n + 1}).add_edge(START, "up")
    builder.add_conditional_edges("up", lambda state: "up" if state.n < 3 else "__end__")
    assert world.invoke(builder.compile(), {"log": []}) == {"log": [], "n": 3}


@both_worlds
def test_a_plain_class_is_a_schema(world: World):
    class State:
        log: Annotated[list[Any], operator.add]

    assert world.invoke(chain("a", state=State).compile(), {"log": ["in"]}) == {"log": ["in", "a"]}


@both_worlds
def test_a_command_may_update_with_pairs_or_an_instance(world: World):
    graph = chain(
        ("a", lambda state: Command(update=[("x", 1), ("y", 2)])),
        ("b", lambda state: Command(update=Model(x=3))),
        state=Model,
    ).compile()
    assert world.invoke(graph, {}) == {"x": 3, "y": 2}


@both_worlds
def test_messages_are_added_replaced_and_removed(world: World):
    def edit(state: Any) -> dict[str, Any]:
        first = state["messages"][0]
        return {"messages": [RemoveMessage(id=first.id), AIMessage("new", id="2"), ("user", "more")]}

    graph = chain(("edit", edit), state=MessagesState).compile()
    given = [HumanMessage("one"), AIMessage("old", id="2")]
    result = world.invoke(graph, {"messages": given})
    assert [(m.type, m.text) for m in result["messages"]] == [("ai", "new"), ("human", "more")]
    assert [m.id for m in given] == [None, "2"]


@both_worlds
def test_input_that_is_no_state(world: World):
    with pytest.raises(InvalidUpdateError, match=r'must be a dict of state keys, \{"log": …\}; got str: \'hi\''):
        world.invoke(chain("a").compile(), "hi")


@both_worlds
def test_keys_marked_private_are_not_taken_from_callers_and_not_given_to_them(world: World):
    """What a thread holds is shown whole to who asks for it: `get_state`, the `checkpoints` mode."""

    class State(Log):
        secret: Annotated[int, PrivateStateAttr]
        result: Annotated[int, OmitFromInput]
        given: Annotated[int, OmitFromOutput]

    seen: list[Any] = []
    graph = chain(
        ("a", lambda s: {"secret": 1, "result": 2}), ("b", lambda s: seen.append(dict(s)) and None), state=State
    )
    whole = {"log": [], "secret": 9, "result": 9, "given": 9}
    compiled = graph.compile(checkpointer=InMemorySaver())
    assert world.invoke(compiled, whole, thread()) == {"log": [], "result": 2}
    assert seen == [{"log": [], "secret": 1, "result": 2, "given": 9}]
    assert world.state(compiled, thread()).values == {"log": [], "secret": 1, "result": 2, "given": 9}
    shown = world.stream(compiled, whole, thread("2"), stream_mode=["values", "checkpoints", "tasks"])
    inputs = [chunk["input"] for mode, chunk in shown if mode == "tasks" and "input" in chunk]
    states = [chunk for mode, chunk in shown if mode == "values"]
    assert all("secret" not in state and "given" not in state for state in [*inputs, *states])
    assert shown[-1] == ("checkpoints", {**shown[-1][1], "values": {"log": [], "secret": 1, "result": 2, "given": 9}})
