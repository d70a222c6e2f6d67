"""Nodes: what a function may ask for, what may stand in a node's place, trying again, and what leaves no trace."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from typing import Any

import pytest

from loopwright.config import get_config, get_store, get_stream_writer
from loopwright.errors import ModelTimeoutError, UsageError
from loopwright.graph import START, MessagesState, StateGraph
from loopwright.graph.nodes import Branch, is_coroutine_function
from loopwright.graph.runtime import Runtime, get_runtime
from loopwright.graph.task import Task
from loopwright.graph.types import Command, RetryPolicy, Send
from loopwright.messages import AIMessage, AIMessageChunk, HumanMessage
from loopwright.testing import ManualClock, ScriptedModel, say
from tests.graph.worlds import Asyncio, Log, World, both_worlds, chain

# --- signatures -----------------------------------------------------------------


def plain(state, config: Any, *, runtime: Runtime[Any], writer, store, extra=3):
    writer("said")
    return {"log": [config["tags"], runtime.context, store, extra]}


async def coroutine(state, writer, runtime, config, store):
    writer("said")
    await asyncio.sleep(0)
    return {"log": [config["tags"], runtime.context, store, 3]}


class Callable_:
    def __call__(self, state, config, runtime, writer, store):
        writer("said")
        return {"log": [config["tags"], runtime.context, store, 3]}


class AsyncCallable:
    async def __call__(self, state, config, runtime, writer, store):
        writer("said")
        return {"log": [config["tags"], runtime.context, store, 3]}

    async def method(self, state, config, runtime, writer, store):
        return await self(state, config, runtime, writer, store)


async def partly(prefix, state, config, runtime, writer, store):
    writer(prefix)
    return {"log": [config["tags"], runtime.context, store, 3]}


SIGNATURES = {
    "plain": plain,
    "coroutine": coroutine,
    "callable": Callable_(),
    "async callable": AsyncCallable(),
    "method": AsyncCallable().method,
    "partial": functools.partial(partly, "said"),
    "keywords": lambda state, **more: plain(
        state, get_config(), runtime=get_runtime(), writer=get_stream_writer(), store=get_store()
    ),
}


@both_worlds
@pytest.mark.parametrize("function", SIGNATURES.values(), ids=SIGNATURES)
def test_a_function_gets_what_it_names(world: World, function):
    """By the names of its parameters: config, runtime, writer, store; others need a default."""
    graph = chain(("a", function)).compile(store="the store")
    given = {"log": []}, {"tags": ["t"]}
    expected = [["t"], "the context", "the store", 3]
    assert world.invoke(graph, *given, context="the context") == {"log": expected}
    shown = world.stream(graph, *given, context="the context", stream_mode=["custom", "values"])
    assert shown == [("values", {"log": []}), ("custom", "said"), ("values", {"log": expected})]


def test_a_function_without_a_signature_is_given_the_state():
    seen: list[Any] = []
    graph = chain(("a", seen.append)).compile()
    graph.invoke({"log": []})
    assert seen == [{"log": []}]


def test_a_builtin_that_hides_its_signature_is_given_the_state():
    assert chain(("a", dict)).compile().invoke({"log": [1]}) == {"log": [1, 1]}


def test_a_function_that_takes_no_state():
    with pytest.raises(UsageError, match=r"function of node 'a' takes no argument; .* def nothing\(state\)"):

        def nothing(): ...

        StateGraph(Log).add_node("a", nothing)
    with pytest.raises(UsageError, match="conditional edge '<lambda>' takes no argument"):
        StateGraph(Log).add_node("a", print).add_conditional_edges("a", lambda: "a")


def test_a_parameter_that_nothing_fills():
    with pytest.raises(UsageError, match=r"wants a parameter 'db' that nothing fills.*config, runtime, writer, store"):
        StateGraph(Log).add_node("a", lambda state, db: None)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (coroutine, True),
        (functools.partial(functools.partial(coroutine)), True),
        (AsyncCallable(), True),
        (AsyncCallable().method, True),
        (plain, False),
        (Callable_(), False),
        (AsyncCallable, False),
        (print, False),
    ],
)
def test_what_is_a_coroutine_function(function, expected):
    assert is_coroutine_function(function) is expected


@both_worlds
def test_the_config_of_a_node_has_every_key_that_is_looked_into(world: World):
    found: list[Any] = []
    graph = chain(("a", lambda state, config: found.append(config) and None)).compile()
    world.invoke(graph, {"log": []})
    world.invoke(graph, {"log": []}, {"tags": ["t"], "metadata": {"m": 1}})
    assert [(config["tags"], config["metadata"].get("m")) for config in found] == [([], None), (["t"], 1)]
    assert ["tags" in config["metadata"] for config in found] == [False, False]


@both_worlds
def test_what_a_node_can_ask_from_below(world: World):
    """Without parameters: the context variable leads there, from any function the node calls."""
    found: dict[str, Any] = {}

    def deep() -> None:
        config: Any = get_config()
        found["metadata"] = {k: v for k, v in config["metadata"].items() if k.startswith("langgraph")}
        found["place"] = config["configurable"]["checkpoint_ns"]
        found["store"] = get_store()
        found["info"] = get_runtime().execution_info
        get_stream_writer()("nowhere")

    graph = chain(("a", lambda state: deep())).compile(store="shelf")
    world.invoke(graph, {"log": []}, {"run_id": "the run"})
    task_id = found["info"]["task_id"]
    assert found["info"] == {"run_id": "the run", "task_id": task_id, "node": "a", "step": 1}
    assert found["place"] == f"a:{task_id}"
    assert found["store"] == "shelf"
    assert found["metadata"] == {
        "langgraph_step": 1,
        "langgraph_node": "a",
        "langgraph_triggers": ("branch:to:a",),
        "langgraph_path": ("__pregel_pull", "a"),
        "langgraph_checkpoint_ns": f"a:{task_id}",
    }


@pytest.mark.parametrize("ask", [get_config, get_store, get_stream_writer])
def test_asking_outside_of_a_run(ask):
    with pytest.raises(RuntimeError, match=f"{ask.__name__}\\(\\) was called outside of a run"):
        ask()


def test_the_runtime_outside_of_a_run():
    with pytest.raises(RuntimeError, match=r"get_runtime\(\) was called outside of a run"):
        get_runtime()


def test_a_runtime_is_changed_by_a_copy():
    runtime = Runtime(context="a", store=1)
    changed = runtime.override(context="b")
    assert (runtime.context, changed.context, changed.store) == ("a", "b", 1)
    assert changed.heartbeat() is None
    assert changed.stream_writer("x") is None
    assert repr(changed) == "Runtime(context='b', store=1, budget=None)"
    with pytest.raises(TypeError, match="a Runtime has no 'contxt'; it has budget, context"):
        runtime.override(contxt=1)


@both_worlds
def test_B134_context_variables_reach_nodes_and_do_not_leak(world: World):
    """What the caller has set is seen by each node, on whatever thread; what a node sets, its siblings do not see."""
    name = contextvars.ContextVar("name", default="nobody")
    seen: list[str] = []

    def one(state: Any) -> None:
        seen.append(name.get())
        name.set("one")

    async def two(state: Any) -> None:
        seen.append(name.get())
        name.set("two")

    builder = StateGraph(Log).add_node("a", one).add_node("b", two).add_node("c", one).add_node("d", two)
    for node in "abcd":
        builder.add_edge(START, node)
    graph = builder.compile()

    def run() -> None:
        name.set("ann")
        for config in ({}, {"max_concurrency": 1}, {"max_concurrency": 2}):
            world.invoke(graph, {"log": []}, config)
            world.stream(graph, {"log": []}, config)

    contextvars.copy_context().run(run)
    assert seen == ["ann"] * 24


# --- in a node's place ----------------------------------------------------------


@both_worlds
def test_a_model_as_a_node(world: World):
    """It is asked with the state's messages and its answer is added to them; its tokens are those of the node."""
    model = ScriptedModel(say("Hello Ann.", id="m1"), loop=True)
    graph = chain(("model", model), state=MessagesState).compile()
    result = world.invoke(graph, {"messages": "I am Ann"})
    assert [(m.type, m.text) for m in result["messages"]] == [("human", "I am Ann"), ("ai", "Hello Ann.")]
    tokens = world.stream(graph, {"messages": "I am Ann"}, stream_mode="messages")
    assert "".join(token.text for token, _ in tokens) == "Hello Ann."
    assert {(token.id, meta["langgraph_node"]) for token, meta in tokens} == {("m1", "model")}


def test_a_model_in_a_graph_without_messages():
    with pytest.raises(UsageError, match="'model' is a model, which needs a state with one key of messages"):
        chain(("model", ScriptedModel("x"))).compile().invoke({"log": []})


class Doubler:
    """Something with `invoke` that is neither a function nor a model."""

    def invoke(self, input: Any, config: Any = None) -> Any:
        return {"log": [config["metadata"]["langgraph_node"], input["log"][0] * 2]}


class AsyncDoubler(Doubler):
    async def ainvoke(self, input: Any, config: Any = None) -> Any:
        return {"log": ["async", input["log"][0] * 2]}


@both_worlds
def test_anything_with_invoke_as_a_node(world: World):
    assert world.invoke(chain(("a", Doubler())).compile(), {"log": [2]}) == {"log": [2, "a", 4]}
    word = "async" if isinstance(world, Asyncio) else "a"
    assert world.invoke(chain(("a", AsyncDoubler())).compile(), {"log": [2]}) == {"log": [2, word, 4]}


@both_worlds
def test_a_model_call_in_a_node(world: World):
    """Its tokens appear once, under the node's name; the message the node returns is not shown again."""

    def ask(state: Any) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    model = ScriptedModel(say("one two", chunks=["one ", "two"]), loop=True)
    graph = chain(("ask", ask), state=MessagesState).compile()
    tokens = world.stream(graph, {"messages": "hi"}, stream_mode="messages")
    assert [(type(token).__name__, token.text, meta["langgraph_node"]) for token, meta in tokens if token.text] == [
        ("AIMessageChunk", "one ", "ask"),
        ("AIMessageChunk", "two", "ask"),
    ]


@both_worlds
def test_a_model_with_the_tag_nostream_is_left_out(world: World):
    """Its tokens and its message; what the node returns is shown when the step's writes are."""
    quiet = ScriptedModel(say("secret", id="q"), loop=True).with_config(tags=["nostream"])

    async def ask(state: Any) -> None:
        await quiet.ainvoke("hi")

    graph = chain(("ask", ask), state=MessagesState).compile()
    assert world.stream(graph, {"messages": "hi"}, stream_mode="messages") == []


@both_worlds
def test_tags_and_metadata_of_a_model_call_are_told_with_its_tokens(world: World):
    model = ScriptedModel(say("hi", chunks=["hi"])).with_config(tags=["mine"], metadata={"k": 1})

    def ask(state: Any) -> None:
        model.invoke("hello")

    graph = chain(("ask", ask), state=MessagesState).compile()
    config = {"tags": ["run"], "metadata": {"r": 2}}
    _, meta = world.stream(graph, {"messages": "hi"}, config, stream_mode="messages")[0]
    assert (meta["tags"], meta["k"], meta["r"]) == (["run", "mine"], 1, 2)


# --- nodes of our own -----------------------------------------------------------


class Own:
    """A node that works on the task itself, as those of an agent do."""

    def __init__(self, *tags: str) -> None:
        self.tags = tags
        self.told: list[bool] = []

    async def run_node(self, task: Task) -> Any:
        tell = task.chunk_teller(self.tags)
        self.told.append(tell is not None)
        for word in ("a", "b"):
            if tell is not None:
                tell(AIMessageChunk(word, id="m"))
                await task.port.pause()
        assert task.runtime is task.runtime
        return {"messages": [AIMessage("ab", id="m")]}


@both_worlds
@pytest.mark.parametrize("modes", ["messages", ["messages"], ["messages", "values"], ["messages", "events"]])
def test_a_node_of_our_own_tells_its_tokens(world: World, modes):
    own = Own("mine")
    graph = chain(("own", own), state=MessagesState).compile()
    shown = world.stream(graph, {"messages": "hi"}, stream_mode=modes)
    pairs = shown if modes == "messages" else [chunk for mode, chunk in shown if mode == "messages"]
    assert [(token.text, meta["langgraph_node"], meta["tags"]) for token, meta in pairs] == [
        ("a", "own", ["mine"]),
        ("b", "own", ["mine"]),
    ]
    outer = chain(("outer", graph), state=MessagesState).compile()
    deep = world.stream(outer, {"messages": "hi"}, stream_mode="messages", subgraphs=True)
    assert [token.text for _, (token, _) in deep] == ["a", "b"]
    assert own.told == [True, True]


@both_worlds
def test_a_node_of_our_own_has_nobody_to_tell(world: World):
    own, quiet = Own(), Own("nostream")
    for node, mode in ((own, "updates"), (own, "values"), (quiet, "messages")):
        world.stream(chain(("own", node), state=MessagesState).compile(), {"messages": "hi"}, stream_mode=mode)
    assert (own.told, quiet.told) == ([False, False], [False])


@both_worlds
def test_a_question_of_our_own_is_asked_as_it_is(world: World):
    """It gets the task and the state, and may answer with a list."""
    builder = chain("a", "b").add_node("c", lambda state: {"log": ["c"]})
    builder.branches["a"] = [
        Branch(lambda task, state: [task.name, "c"][len(state["log"]) :], ["a", "b", "c"], plain=True)
    ]
    assert world.invoke(builder.compile(), {"log": []}) == {"log": ["a", "b", "c"]}


# --- trying again ---------------------------------------------------------------


class Flaky:
    """A node that fails so often."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.tries = 0

    def __call__(self, state: Any) -> dict[str, Any]:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return {"log": [self.tries]}


def retrying(node: Flaky, *policies: RetryPolicy) -> Any:
    builder = StateGraph(Log).add_node("a", node, retry_policy=policies).add_edge(START, "a")
    return builder.compile()


@both_worlds
def test_a_node_is_tried_again_after_growing_pauses(world: World):
    node = Flaky(ConnectionError(), ModelTimeoutError("slow"))
    with ManualClock() as clock:
        assert world.invoke(retrying(node, RetryPolicy(jitter=False)), {"log": []}) == {"log": [3]}
    assert clock.slept == [0.5, 1.0]


@both_worlds
def test_the_last_error_is_raised_when_the_tries_are_used_up(world: World):
    node = Flaky(ConnectionError(1), ConnectionError(2), ConnectionError(3))
    with ManualClock(), pytest.raises(ConnectionError, match="2"):
        world.invoke(retrying(node, RetryPolicy(max_attempts=2)), {"log": []})
    assert node.tries == 2


@both_worlds
def test_the_first_policy_that_suits_the_error_counts(world: World):
    node = Flaky(KeyError("a"), ConnectionError())
    policies = (
        RetryPolicy(retry_on=KeyError, initial_interval=3, jitter=False),
        RetryPolicy(
            retry_on=lambda error: isinstance(error, ConnectionError),
            initial_interval=5,
            backoff_factor=1,
            jitter=False,
        ),
    )
    with ManualClock() as clock:
        world.invoke(retrying(node, *policies), {"log": []})
    assert clock.slept == [3, 5]
    with ManualClock() as clock, pytest.raises(ValueError, match="bug"):
        world.invoke(retrying(Flaky(ValueError("bug")), *policies), {"log": []})
    assert clock.slept == []


@both_worlds
def test_defaults_of_nodes(world: World):
    builder = StateGraph(Log).set_node_defaults(
        retry_policy=RetryPolicy(retry_on=(KeyError, OSError), initial_interval=1, jitter=False)
    )
    builder.add_node("a", Flaky(KeyError())).add_edge(START, "a")
    builder.set_node_defaults().add_node("b", Flaky(KeyError("b"))).add_edge("a", "b")
    with ManualClock() as clock, pytest.raises(KeyError, match="b"):
        world.invoke(builder.compile(), {"log": []})
    assert clock.slept == [1]


@both_worlds
def test_a_retry_beside_a_sibling(world: World):
    """Only the one that failed runs again, and the step waits for it."""
    flaky, steady = Flaky(ConnectionError()), Flaky()
    policy = RetryPolicy(jitter=False)
    builder = StateGraph(Log).add_node("a", flaky, retry_policy=policy).add_node("b", steady)
    builder.add_edge(START, "a").add_edge(START, "b")
    with ManualClock():
        assert world.invoke(builder.compile(), {"log": []}) == {"log": [2, 1]}
    assert (flaky.tries, steady.tries) == (2, 1)


# --- at the same time -----------------------------------------------------------


@both_worlds
def test_nodes_of_one_step_run_at_the_same_time(world: World):
    meet = threading.Barrier(3, timeout=5)
    builder = StateGraph(Log)
    for name in "abc":
        builder.add_node(name, lambda state: (meet.wait() and None) or {"log": [1]}).add_edge(START, name)
    assert world.invoke(builder.compile(), {"log": []}) == {"log": [1, 1, 1]}


@both_worlds
@pytest.mark.parametrize("limit", [1, 2])
def test_B137_max_concurrency_holds(world: World, limit):
    """Never more at once than asked for, as many as asked for, and results in the order of the tasks."""
    running, most, lock = [0], [0], threading.Lock()
    meet = threading.Barrier(limit, timeout=5)

    def work(arg: Any) -> dict[str, Any]:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        meet.wait()
        with lock:
            running[0] -= 1
        return {"log": [arg]}

    builder = StateGraph(Log).add_node("work", work)
    builder.add_conditional_edges(START, lambda state: [Send("work", n) for n in range(4)], ["work"])
    graph = builder.compile()
    config = {"max_concurrency": limit}
    assert world.invoke(graph, {"log": []}, config) == {"log": [0, 1, 2, 3]}
    assert world.stream(graph, {"log": []}, config, stream_mode="values")[-1] == {"log": [0, 1, 2, 3]}
    assert most[0] <= limit


@both_worlds
def test_a_command_in_parallel_with_updates(world: World):
    builder = StateGraph(Log).add_node("a", lambda state: Command(update={"log": ["a"]}, goto="c"))
    builder.add_node("b", lambda state: {"log": ["b"]}).add_node("c", lambda state: {"log": ["c"]})
    builder.add_edge(START, "a").add_edge(START, "b")
    assert world.invoke(builder.compile(), {"log": []}) == {"log": ["a", "b", "c"]}


@both_worlds
def test_messages_given_are_not_changed(world: World):
    given = HumanMessage("hi")
    graph = chain(("a", lambda state: {"messages": AIMessage("x")}), state=MessagesState).compile()
    result = world.invoke(graph, {"messages": [given]})
    assert given.id is None
    assert result["messages"][0].id is not None
