"""Requests, responses, decorators, and what an agent makes of its list of middlewares."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any, Generic, TypedDict, TypeVar, get_type_hints

import pytest

from loopwright.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    HumanInTheLoopMiddleware,
    ModelRequest,
    ModelResponse,
    OmitFromInput,
    PrivateStateAttr,
    Runtime,
    ToolCallRequest,
    after_agent,
    after_model,
    before_agent,
    before_model,
    dynamic_prompt,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)
from loopwright.agents.middleware.checks import is_async_callable
from loopwright.agents.middleware.decorators import with_prompt
from loopwright.agents.middleware.hooks import (
    HOOK_KINDS,
    check_tool_result,
    collect_hooks,
    jump_target,
    normalize_model_result,
)
from loopwright.errors import UsageError
from loopwright.graph.runtime import get_runtime
from loopwright.graph.state import channels_of
from loopwright.graph.types import Command
from loopwright.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, add_messages
from loopwright.scope import current_scope

CALL: Any = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}


def request(**more: Any) -> ModelRequest:
    return ModelRequest(**{"model": "m", "messages": [HumanMessage("hi")], **more})


def run(coroutine: Any) -> Any:
    """The result of a coroutine that waits for nothing."""
    with pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    return stop.value.value


# -- requests and responses -----------------------------------------------------------------------------------------


def test_a_request_has_defaults():
    made = request()
    assert (made.tools, made.state, made.model_settings, made.tool_choice, made.runtime) == ([], {}, {}, None, None)
    assert (made.system_message, made.system_prompt, made.response_format) == (None, None, None)


def test_the_prompt_has_two_spellings():
    assert request(system_prompt="be brief").system_message.text == "be brief"  # pyright: ignore[reportOptionalMemberAccess]
    assert request(system_message=SystemMessage("be brief")).system_prompt == "be brief"
    with pytest.raises(UsageError, match="not both"):
        request(system_prompt="a", system_message=SystemMessage("b"))


def test_override_makes_a_changed_copy():
    first = request(tools=["a", "b"], system_prompt="long", model_settings={"temperature": 1})
    second = first.override(tools=("a",), system_prompt="short", model_settings={"temperature": 0})
    assert (first.tools, first.system_prompt, first.model_settings) == (["a", "b"], "long", {"temperature": 1})
    assert (second.tools, second.system_prompt, second.model_settings) == (["a"], "short", {"temperature": 0})
    assert (second.messages, second.model) == (first.messages, "m")
    assert second.override(system_prompt=None).system_message is None


def test_override_knows_its_names():
    with pytest.raises(TypeError, match="a ModelRequest has no 'prompt'; override one of model, messages"):
        request().override(prompt="x")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="not both"):
        request().override(system_prompt="a", system_message=None)


def test_attributes_of_a_request_may_be_set():
    made = request()
    made.system_prompt = "now"
    made.model_settings = {"temperature": 0}
    assert (made.system_message, "messages=" in repr(made)) == (SystemMessage("now"), True)
    with pytest.raises(AttributeError):
        made.promt = "x"  # type: ignore[attr-defined]


def test_requests_may_be_written_with_parameters():
    assert ModelRequest[dict] is not None
    assert ModelResponse[str] is not None
    assert (AgentMiddleware[AgentState] is AgentMiddleware, AgentState[int] is not None) == (True, True)


def test_responses_are_values():
    message = AIMessage("ok", id="1")
    assert ModelResponse(result=[message]) == ModelResponse((message,))
    assert ModelResponse([message], structured_response=1) != ModelResponse([message])
    assert ModelResponse([message]) != [message]
    assert "structured_response=None" in repr(ModelResponse([message]))
    assert "command=None" in repr(ExtendedModelResponse(ModelResponse([message])))


def test_a_tool_request_makes_changed_copies():
    first = ToolCallRequest(CALL, None, {}, None)
    second = first.override(tool="tool", tool_call={**CALL, "args": {"x": 1}})  # pyright: ignore[reportArgumentType]
    assert (first.tool, second.tool, first.tool_call["args"], second.tool_call["args"]) == (None, "tool", {}, {"x": 1})
    with pytest.raises(TypeError, match="a ToolCallRequest has no 'args'"):
        first.override(args={})  # type: ignore[call-arg]
    assert "look" in repr(first)


def test_the_state_says_what_each_key_is():
    hints = get_type_hints(AgentState, include_extras=True)
    assert add_messages in hints["messages"].__args__[0].__metadata__
    assert PrivateStateAttr in hints["jump_to"].__args__[0].__metadata__
    assert OmitFromInput in hints["structured_response"].__args__[0].__metadata__
    channels = channels_of(AgentState)
    assert {name: (each.in_input, each.in_output, each.ephemeral) for name, each in channels.items()} == {
        "messages": (True, True, False),
        "jump_to": (False, False, True),
        "structured_response": (False, True, False),
    }

    class Mine(AgentState):
        n: int

    assert sorted(get_type_hints(Mine)) == ["jump_to", "messages", "n", "structured_response"]


# -- the runtime ----------------------------------------------------------------------------------------------------


def test_a_runtime_has_defaults_and_copies():
    first: Runtime[str] = Runtime(context="ann")
    second = first.override(context="bob", previous=1)
    assert (first.context, second.context, second.previous, second.store) == ("ann", "bob", 1, None)
    assert (first.stream_writer("nobody reads"), first.heartbeat()) == (None, None)
    assert "context='ann'" in repr(first)
    with pytest.raises(TypeError, match="a Runtime has no 'user'; it has budget, context"):
        first.override(user=1)


def test_get_runtime_finds_the_running_one():
    class Inside:
        runtime = Runtime(context=3)

    with pytest.raises(RuntimeError, match="outside of a run"):
        get_runtime()
    token = current_scope.set(Inside())  # type: ignore[arg-type]
    try:
        assert get_runtime(int).context == 3
    finally:
        current_scope.reset(token)


# -- a class of one's own -------------------------------------------------------------------------------------------


class Tracer(AgentMiddleware):
    def before_model(self, state, runtime):
        return {"seen": True}


def test_only_overridden_hooks_are_found():
    hooks = collect_hooks([Tracer()])
    assert {kind: [hook.name for hook in getattr(hooks, kind)] for kind in HOOK_KINDS} == {
        "before_agent": [],
        "before_model": ["Tracer.before_model"],
        "after_model": [],
        "after_agent": [],
        "wrap_model_call": [],
        "wrap_tool_call": [],
    }
    assert repr(hooks.before_model[0]) == "<Hook Tracer.before_model>"
    assert hooks.before_model[0].pick(False)[0]({}, None) == {"seen": True}


def test_an_inherited_override_counts():
    class Child(Tracer):
        pass

    assert [hook.name for hook in collect_hooks([Child()]).before_model] == ["Child.before_model"]


def test_hooks_come_in_the_order_in_which_they_run():
    def all_six(name: str) -> AgentMiddleware:
        body = {kind: lambda self, one, two: None for kind in HOOK_KINDS}
        return type(name, (AgentMiddleware,), body)()

    hooks = collect_hooks([all_six("A"), all_six("B")])
    assert {kind: [hook.middleware.name for hook in getattr(hooks, kind)] for kind in HOOK_KINDS} == {
        "before_agent": ["A", "B"],
        "before_model": ["A", "B"],
        "after_model": ["B", "A"],
        "after_agent": ["B", "A"],
        "wrap_model_call": ["A", "B"],
        "wrap_tool_call": ["A", "B"],
    }


def test_names():
    class Named(Tracer):
        name = "own"  # type: ignore[assignment]

    class Computed(AgentMiddleware):
        @property
        def name(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
            return "computed"

    changed = Tracer()
    changed.name = "changed"
    assert [each.name for each in (Tracer(), Named(), Computed(), changed)] == ["Tracer", "own", "computed", "changed"]


def test_type_parameters_of_any_number_are_taken():
    S = TypeVar("S")

    class Context(TypedDict):
        user: str

    class One(AgentMiddleware[AgentState]):
        pass

    class Three(AgentMiddleware[AgentState, Context, int]):
        pass

    class Open(AgentMiddleware[S, Context], Generic[S]):  # pyright: ignore[reportInvalidTypeArguments]
        pass

    assert [each.name for each in (One(), Three(), Open[AgentState]())] == ["One", "Three", "Open"]


def test_the_base_hooks_do_nothing():
    base = AgentMiddleware()
    assert [getattr(base, kind)({}, None) for kind in HOOK_KINDS[:4]] == [None] * 4
    assert [run(getattr(base, f"a{kind}")({}, None)) for kind in HOOK_KINDS[:4]] == [None] * 4

    async def answer(given: Any) -> Any:
        return ("got", given)

    assert (base.wrap_model_call(1, lambda given: given), base.wrap_tool_call(2, lambda given: given)) == (1, 2)  # type: ignore[arg-type]
    assert run(base.awrap_model_call(1, answer)) == ("got", 1)  # type: ignore[arg-type]
    assert run(base.awrap_tool_call(2, answer)) == ("got", 2)  # type: ignore[arg-type]
    assert (list(base.tools), base.state_schema) == ([], AgentState)


# -- both worlds ----------------------------------------------------------------------------------------------------


class Plain(AgentMiddleware):
    def wrap_model_call(self, request, handler):
        return handler(request)


class Async(AgentMiddleware):
    async def wrap_model_call(self, request, handler):
        return await handler(request)


class Prefixed(AgentMiddleware):
    async def awrap_model_call(self, request, handler):
        return await handler(request)


class Both(Plain):
    async def awrap_model_call(self, request, handler):
        return await handler(request)


class BothAsync(Async):
    async def awrap_model_call(self, request, handler):
        return await handler(request)


@pytest.mark.parametrize(
    ("made", "blocking", "asynchronous"),
    [
        (Plain(), ("wrap_model_call", False), ("wrap_model_call", False)),
        (Async(), ("wrap_model_call", True), ("wrap_model_call", True)),
        (Prefixed(), ("awrap_model_call", True), ("awrap_model_call", True)),
        (Both(), ("wrap_model_call", False), ("awrap_model_call", True)),
        (BothAsync(), ("awrap_model_call", True), ("awrap_model_call", True)),
    ],
)
def test_each_world_takes_its_own_and_else_the_only_one(made, blocking, asynchronous):
    [hook] = collect_hooks([made]).wrap_model_call
    picked = [(function.__name__, is_async) for function, is_async in (hook.pick(False), hook.pick(True))]
    assert picked == [blocking, asynchronous]


async def coro(one: Any, two: Any) -> None:
    """An async function."""


class Callable:
    async def __call__(self, one: Any, two: Any) -> None:
        """An object with an async call."""


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (coro, True),
        (functools.partial(coro, 1), True),
        (functools.partial(functools.partial(coro, 1), 2), True),
        (Prefixed().awrap_model_call, True),
        (Callable(), True),
        (Callable, False),
        (lambda one, two: None, False),
        (Plain().wrap_model_call, False),
        (print, False),
    ],
)
def test_async_is_seen_without_calling(function, expected):
    assert is_async_callable(function) is expected


# -- refused --------------------------------------------------------------------------------------------------------


def plain_function(state: Any, runtime: Any) -> None:
    """A function without a decorator."""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Tracer(), r"middleware= takes a list"),
        (Tracer, r"middleware= takes a list"),
        ([HumanInTheLoopMiddleware], r"give an instance: middleware=\[HumanInTheLoopMiddleware\(interrupt_on\)\]"),
        ([Tracer], r"middleware=\[Tracer\] gives the class; give an instance: middleware=\[Tracer\(\)\]"),
        ([plain_function], "@before_model or @wrap_model_call above `def plain_function`"),
        (["summarise"], "'summarise' is no middleware"),
    ],
)
def test_what_is_no_list_of_middlewares(given, words):
    with pytest.raises(UsageError, match=words):
        collect_hooks(given)


def test_two_of_one_name_are_refused_and_both_are_named():
    with pytest.raises(UsageError, match=r"two middlewares are named 'Tracer': .*\.Tracer and .*\.Tracer\. Give one"):
        collect_hooks([Tracer(), Tracer()])

    def look(state, runtime):
        """A hook."""

    with pytest.raises(UsageError, match=r'named \'look\': .*look and .*look.*`name="..."` to the decorator'):
        collect_hooks([before_model(look), after_model(look)])
    assert len(collect_hooks([before_model(look), after_model(name="other")(look)]).middleware) == 2


def test_the_same_one_twice_is_refused():
    one = Tracer()
    with pytest.raises(UsageError, match="is in the list twice"):
        collect_hooks([one, one])


def test_a_name_is_a_string():
    nameless = Tracer()
    nameless.name = ""
    with pytest.raises(UsageError, match="must be a non-empty string"):
        collect_hooks([nameless])


def hooked(**body: Any) -> AgentMiddleware:
    return type("Mine", (AgentMiddleware,), body)()


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: hooked(before_model=lambda self, state: None), r"Mine\.before_model\(state\) cannot be called"),
        (lambda: hooked(before_model=lambda self: None), r"cannot be called with \(state, runtime\)"),
        (lambda: hooked(wrap_tool_call=lambda self, call: None), r"\(self, request, handler\)"),
        (lambda: hooked(wrap_model_call=lambda self, a, b, c: None), r"Mine\.wrap_model_call\(a, b, c\)"),
        (lambda: hooked(after_agent=lambda self, a, b, *, c: None), r"\*, c"),
        (lambda: hooked(awrap_model_call=lambda self, a, b: None), "must be `async def`"),
        (lambda: hooked(before_model=3), r"Mine\.before_model is 3 \(int\)"),
    ],
)
def test_hooks_that_cannot_be_called(made, words):
    with pytest.raises(UsageError, match=words):
        collect_hooks([made()])


@pytest.mark.parametrize(
    "function",
    [
        lambda self, state, runtime: None,
        lambda self, state, runtime, more=1: None,
        lambda self, *args: None,
        lambda self, *args, more=1: None,
        staticmethod(lambda state, runtime: None),
        functools.partialmethod(lambda self, more, state, runtime: None, 1),
    ],
)
def test_hooks_that_can_be_called(function):
    assert len(collect_hooks([hooked(before_model=function)]).before_model) == 1


def test_jump_targets_are_checked_where_they_are_written():
    with pytest.raises(UsageError, match=r"cannot jump to 'nowhere'; targets are 'tools', 'model', 'end'"):
        hook_config(can_jump_to=["nowhere"])(plain_function)  # type: ignore[list-item]
    with pytest.raises(UsageError, match=r'takes a list: can_jump_to=\["end"\]'):
        before_model(can_jump_to="end")(plain_function)  # type: ignore[arg-type]


# -- decorators -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decorator", "kind"),
    [
        (before_agent, "before_agent"),
        (before_model, "before_model"),
        (after_model, "after_model"),
        (after_agent, "after_agent"),
        (wrap_model_call, "wrap_model_call"),
        (wrap_tool_call, "wrap_tool_call"),
    ],
)
def test_every_decorator_bare_and_with_options(decorator, kind):
    def look(one, two):
        return "looked"

    class Wider(AgentState):
        n: int

    bare, named = decorator(look), decorator(name="seer", tools=["t"], state_schema=Wider)(look)
    assert (bare.name, list(bare.tools), bare.state_schema) == ("look", [], AgentState)
    assert (named.name, list(named.tools), named.state_schema) == ("seer", ["t"], Wider)
    [hook, other] = getattr(collect_hooks([bare, named]), kind)
    names = [hook.name, other.name]
    assert sorted(names) == [f"look.{kind}", f"seer.{kind}"]
    assert (hook.pick(True)[0](1, 2), hook.pick(True)[1], hook.prompt) == ("looked", False, None)
    assert "look" in repr(bare)


def test_an_async_function():
    [hook] = collect_hooks([wrap_tool_call(coro)]).wrap_tool_call  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert (hook.pick(False), hook.pick(True)) == ((coro, True), (coro, True))


def test_jumps_are_declared_at_the_decorator_or_at_the_function():
    @hook_config(can_jump_to=["end"])
    def stop(state, runtime):
        """A hook."""

    at_function = before_model(stop)
    at_decorator = before_model(can_jump_to=["model", "tools"], name="other")(stop)
    hooks = collect_hooks([at_function, at_decorator]).before_model
    assert [hook.can_jump_to for hook in hooks] == [("end",), ("model", "tools", "end")]

    class Mine(AgentMiddleware):
        @hook_config(can_jump_to=["end"])
        def after_model(self, state, runtime):
            """A hook."""

        @hook_config(can_jump_to=("end", "model"))
        async def aafter_model(self, state, runtime):
            """A hook."""

    [hook] = collect_hooks([Mine()]).after_model
    assert hook.can_jump_to == ("end", "model")


def test_what_a_decorator_cannot_stand_above():
    with pytest.raises(UsageError, match=r"@before_model stands above a function, not 'x' \(str\)"):
        before_model("x")  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="has no name: give it one with name="):
        wrap_tool_call(functools.partial(plain_function))  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(UsageError, match=r"write `def look\(request, handler\)`"):

        @wrap_model_call  # type: ignore[arg-type]
        def look(request):  # pyright: ignore[reportRedeclaration]
            """A hook."""

    with pytest.raises(UsageError, match=r"write `async def look\(state, runtime\)`"):

        @before_agent  # type: ignore[arg-type]
        async def look(state):
            """A hook."""


# -- dynamic_prompt -------------------------------------------------------------------------------------------------


def test_a_dynamic_prompt_is_a_wrap_hook():
    @dynamic_prompt
    def prompt(request: ModelRequest) -> str:
        return f"{len(request.messages)} messages"

    [hook] = collect_hooks([prompt]).wrap_model_call
    assert (hook.name, hook.prompt(request())) == ("prompt.wrap_model_call", "1 messages")  # type: ignore[misc]
    sent = prompt.wrap_model_call(request(system_prompt="old"), lambda changed: changed)
    assert sent.system_prompt == "1 messages"  # type: ignore[union-attr]


def test_an_async_dynamic_prompt():
    @dynamic_prompt(name="other")
    async def prompt(request: ModelRequest) -> SystemMessage:
        return SystemMessage("now")

    async def answer(given: ModelRequest) -> Any:
        return given

    [hook] = collect_hooks([prompt]).wrap_model_call
    function, is_async = hook.pick(False)
    assert (hook.name, is_async) == ("other.wrap_model_call", True)
    assert run(function(request(), answer)).system_prompt == "now"


def test_a_prompt_is_a_text():
    assert with_prompt(request(), SystemMessage("x"), "p").system_prompt == "x"
    with pytest.raises(UsageError, match="p returned None: a dynamic_prompt returns a string"):
        with_prompt(request(), None, "p")
    with pytest.raises(UsageError, match=r"with \(request\)"):
        dynamic_prompt(lambda: "x")  # type: ignore[call-overload]


# -- what hooks return ----------------------------------------------------------------------------------------------


def test_model_results_of_three_kinds():
    message, update = AIMessage("ok"), Command(update={"n": 1})
    response = ModelResponse([message])
    assert normalize_model_result(response, "h") == (response, None)
    assert normalize_model_result(message, "h") == (response, None)
    assert normalize_model_result(ExtendedModelResponse(response, update), "h") == (response, update)
    assert normalize_model_result(ExtendedModelResponse(message), "h") == (response, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, r"tag\.wrap_model_call returned None \(is a `return` missing\?\)\. A wrap_model_call hook returns"),
        ("text", r"returned 'text' \(str\)"),
        ("x" * 200, r"xxx\.\.\. \(str\)"),
        (ModelResponse([]), r"a ModelResponse of nothing: write ModelResponse\(result=\[AIMessage"),
        (ModelResponse(["text"]), r"a ModelResponse of 'text' \(str\)"),  # type: ignore[list-item]
        (ExtendedModelResponse(ModelResponse([AIMessage("")]), Command(goto="end")), "use an after_model hook"),
    ],
)
def test_model_results_that_are_none(value, words):
    with pytest.raises(UsageError, match=words):
        normalize_model_result(value, "tag.wrap_model_call")


def test_tool_results():
    good, command = ToolMessage("ok", tool_call_id="c1"), Command(update={})
    assert [check_tool_result(value, "h", CALL) for value in (good, command, [command])] == [good, command, [command]]
    with pytest.raises(UsageError, match=r"h returned None \(is a `return` missing\?\)"):
        check_tool_result(None, "h", CALL)
    with pytest.raises(UsageError, match=r"h returned \[\] \(list\)"):
        check_tool_result([], "h", CALL)


def test_B97_a_result_for_another_call_names_both():
    with pytest.raises(UsageError, match="the result of call 'c2', but was asked for 'c1'"):
        check_tool_result(ToolMessage("ok", tool_call_id="c2"), "h", CALL)


def test_jumps():
    [hook] = collect_hooks([before_model(can_jump_to=["end"])(plain_function)]).before_model
    updates = [{"jump_to": "end"}, {"jump_to": "model"}, {"jump_to": None}, {}, None]
    assert [jump_target(hook, update) for update in updates] == ["end", None, None, None, None]
    with pytest.raises(UsageError, match=r"plain_function\.before_model returned jump_to='nowhere'"):
        jump_target(hook, {"jump_to": "nowhere"})


# -- weight ---------------------------------------------------------------------------------------------------------


def test_the_parts_of_an_agent_import_neither_pydantic_nor_httpx2():
    program = (
        "import sys, loopwright.agents.middleware, loopwright.agents.answers, loopwright.agents.limits, "
        "loopwright.agents.result; print([name for name in ('pydantic', 'httpx2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
