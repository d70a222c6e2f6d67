"""What the program gives a tool, by type and not by name."""

import contextvars
import dataclasses
from typing import Annotated, Any

import pytest

from loopwright.errors import ToolDefinitionError, UsageError
from loopwright.scope import RunnableConfig, current_scope
from loopwright.tools import (
    BaseTool,
    InjectedState,
    InjectedStore,
    InjectedToolArg,
    InjectedToolCallId,
    ToolRuntime,
    call_tool,
    idempotency_key,
    tool,
)
from loopwright.tools.runtime import ambient_runtime
from tests.tools.worlds import answer, both_worlds, call, finish


def runtime(**values):
    return lambda: ToolRuntime(**{"tool_call_id": "c1", "state": {"user": "ann", "messages": []}, **values})


def names(one):
    return list(one.json_schema["properties"])


@both_worlds
def test_everything_at_once(world):
    @dataclasses.dataclass
    class Ctx:
        tenant: str

    @tool
    async def peek(q: str, runtime: ToolRuntime[Ctx, dict[str, Any]]) -> str:
        """Peek."""
        runtime.stream_writer({"seen": q})
        runtime.emit_output_delta("half")
        return f"{q} {runtime.context.tenant} {runtime.tool_call_id} {runtime.idempotency_key} {runtime.state['user']}"

    seen, deltas = [], []
    given = runtime(context=Ctx("acme"), stream_writer=seen.append, idempotency_key="k", on_output_delta=deltas.append)
    assert answer(peek, {"q": "me"}, world, runtime=given).content == "me acme c1 k ann"
    assert (seen, deltas, names(peek)) == ([{"seen": "me"}], ["half"], ["q"])


def test_each_mark():
    store = object()

    @tool
    def f(
        q: str,
        state: Annotated[dict, InjectedState],
        user: Annotated[str, InjectedState("user")],
        store: Annotated[Any, InjectedStore()],
        call_id: Annotated[str, InjectedToolCallId()],
        config: RunnableConfig | None = None,
        run: ToolRuntime | None = None,
    ) -> list:
        """F."""
        return [q, state["user"], user, store, call_id, config, run and run.tool_call_id]

    seen = f.plan
    assert names(f) == ["q"]
    assert [injection.kind for _, injection, _ in seen.injected] == [
        "state", "state", "store", "call_id", "config", "runtime",
    ]  # fmt: skip
    got = f.invoke(
        {"q": "x", "state": {"user": "bob"}, "user": "ann", "store": store, "call_id": "c"}, {"run_name": "r"}
    )
    assert got == [
        "x",
        "bob",
        "ann",
        store,
        "c",
        {"tags": [], "metadata": {}, "configurable": {}, "run_name": "r"},
        None,
    ]


@both_worlds
def test_injected_value_wins_over_the_models(world):
    @tool
    def who(user: Annotated[str, InjectedState("user")], runtime: ToolRuntime) -> str:
        """Who."""
        return f"user {user}"

    assert answer(who, {"user": "mallory", "runtime": "x"}, world, runtime=runtime()).content == "user ann"


def test_state_may_be_an_object():
    @dataclasses.dataclass
    class State:
        user: str

    @tool
    def who(user: Annotated[str, InjectedState("user")]) -> str:
        """Who."""
        return user

    assert answer(who, {}, runtime=runtime(state=State("ann"))).content == "ann"


# --- values of the program's own ----------------------------------------------


@tool
def pay(amount: int, account: Annotated[str, InjectedToolArg]) -> str:
    """Pay."""
    return f"{amount} from {account}"


def test_a_hook_gives_the_value():
    asked = call("pay", {"amount": 1})
    hooked = {**asked, "args": {"amount": 1, "account": "mine"}}
    assert finish(lambda port: call_tool(pay, hooked, port, asked=asked)).content == "1 from mine"


def test_the_models_own_value_is_dropped():
    """Also when a hook has changed something else, or handed on the call as it is."""
    asked = call("pay", {"amount": 1, "account": "theirs"})
    hooked = {**asked, "args": {**asked["args"], "amount": 2}}
    for one, original in ((asked, None), (asked, asked), (hooked, asked)):
        with pytest.raises(UsageError, match="'account' is marked InjectedToolArg and nobody gave it"):
            finish(lambda port, one=one, original=original: call_tool(pay, one, port, asked=original))
    replaced = {**asked, "args": {"amount": 2, "account": "mine"}}
    assert finish(lambda port: call_tool(pay, replaced, port, asked=asked)).content == "2 from mine"


def test_by_hand_injected_values_stand_among_the_arguments():
    assert pay.invoke({"amount": 1, "account": "mine"}) == "1 from mine"
    assert pay.invoke(call("pay", {"amount": 1, "account": "mine"})).content == "1 from mine"


# --- what is missing ----------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Annotated[dict, InjectedState], "there is no state here"),
        (Annotated[str, InjectedState("nokey")], "no state's key 'nokey' here"),
        (Annotated[Any, InjectedStore], "there is no store; give the agent one"),
        (Annotated[str, InjectedToolCallId], "invoke the tool with a whole call"),
        (Annotated[str, InjectedToolArg], "put it into the call's args in a wrap_tool_call hook"),
    ],
)
def test_what_the_program_does_not_have_raises(annotation, words):
    """It is no failure of the tool, and nothing that a model could mend; a default takes its place."""

    def f(x):
        """F."""
        return "ran"

    def g(x="default"):
        """G."""
        return x

    f.__annotations__ = g.__annotations__ = {"x": annotation}
    nothing = lambda: ToolRuntime(state=None if "here" not in words or "key" not in words else {})
    with pytest.raises(UsageError, match=words):
        answer(f, runtime=nothing)
    assert answer(g, runtime=nothing).content == "default"
    with pytest.raises(UsageError):
        tool(f).invoke({})


# --- by type, not by name -----------------------------------------------------


@both_worlds
def test_B87_names_mean_nothing(world):
    """A user's own parameters of these names are the model's to fill, and arrive."""

    @tool
    def f(config: dict, run_manager: str, callbacks: list[str], runtime: int, state: str, store: str) -> str:
        """F."""
        return f"{config} {run_manager} {callbacks} {runtime} {state} {store}"

    args = {
        "config": {"a": 1}, "run_manager": "m", "callbacks": ["c"], "runtime": 3, "state": "s", "store": "t",
    }  # fmt: skip
    assert names(f) == list(args)
    assert answer(f, args, world, runtime=runtime()).content == "{'a': 1} m ['c'] 3 s t"
    assert f.invoke(args) == "{'a': 1} m ['c'] 3 s t"


def test_B87_an_injected_type_under_any_name():
    @tool
    def f(everything: ToolRuntime, settings: RunnableConfig) -> str:
        """F."""
        return f"{everything.tool_call_id} {settings}"

    assert names(f) == []
    assert answer(f, {"everything": 1}, runtime=runtime(config={"tags": []})).content == "c1 {'tags': []}"


@pytest.mark.parametrize("name", ["runtime", "config", "state", "store"])
def test_names_without_a_type_are_refused(name):
    """Nobody can tell what is meant."""
    with pytest.raises(ToolDefinitionError, match=f"parameter '{name}' has no type.*runtime: ToolRuntime"):
        tool("f", description="F.")(eval(f"lambda {name}: 1"))


def test_managers_of_another_library_are_left_out():
    class CallbackManagerForToolRun:
        pass

    class Search(BaseTool):
        name: str = "search"
        description: str = "Search."

        def _run(self, q: str, run_manager: CallbackManagerForToolRun | None = None, callbacks=None) -> str:
            return f"{q} {run_manager} {callbacks}"

        async def _arun(self, q: str) -> str:
            return q

    @tool
    def f(q: str, run_manager: CallbackManagerForToolRun) -> str:
        """F."""
        return f"{q} {run_manager}"

    assert names(Search()) == names(f) == ["q"]
    assert Search().invoke("a") == "a None None"
    assert answer(Search(), {"q": "a"}, "aio").content == "a"
    assert f.invoke("a") == "a None"


def test_unions_of_more_are_the_models():
    @tool
    def f(x: int | str | None = None, y: int | None = None) -> str:
        """F."""
        return ""

    assert names(f) == ["x", "y"]


def test_B89_asking_for_the_arguments():
    """No crash and no runtime in any of the three."""

    @tool
    def f(q: str, runtime: ToolRuntime) -> str:
        """F."""
        return q

    assert list(f.args) == ["q"]
    models: list[Any] = [f.tool_call_schema, f.get_input_schema()]
    assert [list(model.model_json_schema()["properties"]) for model in models] == [["q"], ["q"]]


# --- in a run -----------------------------------------------------------------


class Run:
    """What a tool invoked inside of a run finds."""

    config: RunnableConfig = {"tags": ["t"]}

    def __init__(self):
        self.written: list[Any] = []
        self.runtime = ToolRuntime(context="ctx", store="store", budget="budget")

    @property
    def writer(self):
        return self.written.append


@pytest.mark.parametrize("config", [None, {}, {"tags": []}])
def test_a_config_has_what_tools_look_into(config):
    @tool
    def look(config: RunnableConfig) -> str:
        """Look."""
        given: Any = config
        return f"{given['tags']} {given['metadata'].get('m')} {given['configurable'].get('user')}"

    assert look.invoke({}, config) == "[] None None"


def test_a_tool_invoked_inside_of_a_run_belongs_to_it():
    @tool
    def inner(runtime: ToolRuntime) -> str:
        """Inner."""
        runtime.stream_writer("here")
        given: Any = runtime.config
        return f"{runtime.context} {runtime.store} {runtime.budget} {given['tags']}"

    run: Any = Run()
    context = contextvars.copy_context()
    context.run(current_scope.set, run)
    assert context.run(inner.invoke, {}) == "ctx store budget ['t']"
    own: Any = context.run(ambient_runtime, {"tags": ["own"]}, None).config
    assert own["tags"] == ["own"]
    assert run.written == ["here"]


def test_nobody_reads():
    """Outside of a run the writers write nowhere."""
    lonely = ToolRuntime()
    lonely.stream_writer(1)
    lonely.emit_output_delta(1)
    assert repr(lonely) == "ToolRuntime(tool_call_id=None, context=None, store=None)"


def test_marks_say_what_they_are():
    assert [repr(mark) for mark in (InjectedState(), InjectedState("a"), InjectedStore(), InjectedToolCallId())] == [
        "InjectedState()",
        "InjectedState('a')",
        "InjectedStore()",
        "InjectedToolCallId()",
    ]


def test_idempotency_keys():
    """The same for the same call; parts do not run into each other."""
    keys = [idempotency_key("t", "m", "c1"), idempotency_key("t", "m", "c1"), idempotency_key("t", "mc", "1")]
    assert keys[0] == keys[1] != keys[2]
    assert len(keys[0]) == 32
    assert idempotency_key("t", None) == idempotency_key("t", "")
