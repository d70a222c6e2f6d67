"""Hooks while a run goes on: what they know of it, what is streamed meanwhile, and signals that pass through them."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from loopwright.agents import Limits, create_agent
from loopwright.agents.middleware import (
    Runtime,
    after_agent,
    after_model,
    before_agent,
    before_model,
    dynamic_prompt,
    wrap_model_call,
    wrap_tool_call,
)
from loopwright.config import get_stream_writer
from loopwright.messages import AIMessage, HumanMessage, ToolMessage
from loopwright.runtime import get_runtime
from loopwright.testing import ScriptedModel, call, say
from tests.agents.worlds import both_worlds, invoke, shown, stream

NODE_HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
WRAP_HOOKS = ("wrap_model_call", "wrap_tool_call")
DECORATORS: dict[str, Any] = {
    "before_agent": before_agent,
    "before_model": before_model,
    "after_model": after_model,
    "after_agent": after_agent,
    "wrap_model_call": wrap_model_call,
    "wrap_tool_call": wrap_tool_call,
}


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


def one_round() -> ScriptedModel:
    return ScriptedModel(call("look", city="Oslo"), "ok")


TIMES = {
    "before_agent": 1,
    "before_model": 2,
    "after_model": 2,
    "after_agent": 1,
    "wrap_model_call": 2,
    "wrap_tool_call": 1,
}
"""How often each hook runs when there is one tool round."""


# -- the runtime ----------------------------------------------------------------------------------------------------


@dataclass
class User:
    name: str


@both_worlds
@pytest.mark.parametrize("kind", NODE_HOOKS)
@pytest.mark.parametrize("way", ["def", "async def"])
def test_a_hook_knows_its_run(world, kind, way):
    seen: list[Any] = []

    def note(runtime: Runtime[User]) -> None:
        found = get_runtime(User)
        seen.append((runtime.context.name, found.context, runtime.budget.remaining().model_calls is not None))

    def plain(state: Any, runtime: Any) -> None:
        note(runtime)

    async def coro(state: Any, runtime: Any) -> None:
        note(runtime)

    hook = DECORATORS[kind](plain if way == "def" else coro)
    agent = create_agent(one_round(), [look], middleware=[hook], context_schema=User)
    invoke(agent, world, context=User("ann"))
    assert seen == [("ann", User("ann"), True)] * TIMES[kind]


@both_worlds
def test_context_variables_of_the_caller_are_seen_in_hooks(world):
    from contextvars import ContextVar

    user: ContextVar[str] = ContextVar("user")
    seen: list[str] = []

    @before_model
    def plain(state: Any, runtime: Any) -> None:
        seen.append(user.get())

    @before_model
    async def coro(state: Any, runtime: Any) -> None:
        seen.append(user.get())

    @wrap_model_call
    def around(request: Any, handler: Any) -> Any:
        seen.append(user.get())
        return handler(request)

    user.set("ann")
    invoke(create_agent(ScriptedModel("ok"), middleware=[plain, coro, around]), world)
    assert seen == ["ann"] * 3


@both_worlds
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_what_a_hook_sets_is_seen_by_what_it_calls(world, kind):
    """A tracing span that a hook opens is the parent of the model's own."""
    from contextvars import ContextVar

    span: ContextVar[str] = ContextVar("span", default="none")
    seen: list[str] = []

    @wrap_model_call
    def around(request: Any, handler: Any) -> Any:
        span.set("outer")
        return handler(request)

    @wrap_model_call
    async def aaround(request: Any, handler: Any) -> Any:
        span.set("outer")
        return await handler(request)

    def answer(messages: Any) -> Any:
        seen.append(span.get())
        return "ok"

    hook = around if kind == "def" else aaround
    invoke(create_agent(ScriptedModel(answer), middleware=[hook]), world)
    assert (seen, span.get()) == (["outer"], "none")


# -- streams --------------------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("limits", [None, Limits(seconds=60)], ids=["", "with a deadline"])
def test_tokens_stream_while_a_wrap_hook_waits(world, kind, depth, limits):
    """Each token reaches the reader before the next one is made, with the hook still inside of `handler(...)`."""
    made: list[str] = []
    inside: list[str] = []

    def hook(name: str) -> Any:
        @wrap_model_call(name=name)
        def around(request: Any, handler: Any) -> Any:
            inside.append(name)
            response = handler(request)
            inside.remove(name)
            return response

        @wrap_model_call(name=name)
        async def aaround(request: Any, handler: Any) -> Any:
            inside.append(name)
            response = await handler(request)
            inside.remove(name)
            return response

        return around if kind == "def" else aaround

    class Slow(ScriptedModel):
        async def answer(self, port: Any, messages: Any, **more: Any) -> Any:
            take = more.pop("take")

            def note(piece: Any) -> Any:
                made.append(piece if isinstance(piece, str) else piece.text)
                return take(piece)

            return await super().answer(port, messages, take=take and note, **more)

    hooks = [hook(f"h{n}") for n in range(depth)]
    agent = create_agent(Slow(say(chunks=["a", "b", "c"])), middleware=hooks, limits=limits)  # pyright: ignore[reportCallIssue]

    def look_at(chunk: Any) -> tuple[str, list[str], int]:
        return chunk[0].text, list(made), len(inside)

    seen: list[Any] = []
    given = {"messages": "hi"}
    if world == "sync":
        seen.extend(look_at(chunk) for chunk in agent.stream(given, stream_mode="messages") if chunk[0].text)
    else:

        async def read() -> None:
            async for chunk in agent.astream(given, stream_mode="messages"):
                seen.extend([look_at(chunk)] if chunk[0].text else [])

        asyncio.run(read())
    assert seen == [("a", ["a"], depth), ("b", ["a", "b"], depth), ("c", ["a", "b", "c"], depth)]
    assert inside == []


@both_worlds
@pytest.mark.parametrize("kind", NODE_HOOKS)
def test_a_hook_writes_to_the_stream(world, kind):
    @DECORATORS[kind]
    def write(state: Any, runtime: Any) -> None:
        runtime.stream_writer("by the runtime")
        get_stream_writer()("by the door")

    agent = create_agent(one_round(), [look], middleware=[write])
    assert stream(agent, world, stream_mode="custom") == ["by the runtime", "by the door"] * TIMES[kind]


@both_worlds
def test_messages_that_hooks_add_are_streamed(world):
    @before_model
    def remind(state: Any, runtime: Any) -> Any:
        return {"messages": [HumanMessage("be brief")]}

    tokens = stream(create_agent(ScriptedModel("ok"), middleware=[remind]), world, stream_mode="messages")
    assert [(chunk.text, meta["langgraph_node"]) for chunk, meta in tokens if chunk.text] == [
        ("be brief", "remind.before_model"),
        ("ok", "model"),
    ]


@both_worlds
def test_a_hook_calls_a_model_of_its_own(world):
    """Its tokens are the run's: they are streamed and charged."""
    side = ScriptedModel(say("summary", usage=(5, 1)))

    @before_model
    def summarise(state: Any, runtime: Any) -> None:
        side.invoke("summarise")

    agent = create_agent(ScriptedModel(say("ok", usage=(1, 1))), middleware=[summarise])
    tokens = stream(agent, world, stream_mode="messages")
    assert [(c.text, meta["langgraph_node"]) for c, meta in tokens if c.text] == [
        ("summary", "summarise.before_model"),
        ("ok", "model"),
    ]
    side = ScriptedModel(say("summary", usage=(5, 1)))
    agent = create_agent(ScriptedModel(say("ok", usage=(1, 1))), middleware=[summarise])
    assert invoke(agent, world).usage["total_tokens"] == 8


def test_a_plain_hook_does_not_stop_the_event_loop():
    """Under asyncio a `def` hook waits on a thread, and others go on meanwhile."""
    others = threading.Event()

    @before_model
    def wait(state: Any, runtime: Any) -> None:
        assert others.wait(timeout=20)

    async def main() -> str:
        agent = create_agent(ScriptedModel("ok"), middleware=[wait])
        run = asyncio.create_task(agent.ainvoke({"messages": "hi"}))
        while not run.done():
            others.set()
            await asyncio.sleep(0)
        return (await run).text

    assert asyncio.run(main()) == "ok"


# -- wrap hooks and control flow ------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_except_exception_in_a_hook_swallows_no_control_flow(world, kind):
    """A retry hook that catches every `Exception` must not catch a cancellation."""
    from loopwright.errors import GraphBubbleUp

    class Pause(GraphBubbleUp):
        pass

    tries: list[int] = []

    @wrap_model_call
    def retry(request: Any, handler: Any) -> Any:
        for _ in range(3):
            tries.append(1)
            try:
                return handler(request)
            except Exception:  # noqa: BLE001 - what is tested
                continue
        return AIMessage("failed")

    @wrap_model_call
    async def aretry(request: Any, handler: Any) -> Any:
        for _ in range(3):
            tries.append(1)
            try:
                return await handler(request)
            except Exception:  # noqa: BLE001 - what is tested
                continue
        return AIMessage("failed")

    agent = create_agent(ScriptedModel(Pause()), middleware=[retry if kind == "def" else aretry])
    with pytest.raises(Pause):
        invoke(agent, world)
    assert len(tries) == 1


@both_worlds
def test_all_kinds_of_hooks_together(world):
    """Prompt, model and tool hooks in one agent, as real agents have them."""

    @dynamic_prompt
    def prompt(request: Any) -> str:
        return "You are kind."

    @wrap_model_call
    def warm(request: Any, handler: Any) -> Any:
        return handler(request.override(model_settings={"temperature": 1}))

    @wrap_tool_call
    def quick(request: Any, handler: Any) -> Any:
        return ToolMessage("cached", tool_call_id=request.tool_call["id"])

    model = one_round()
    result = invoke(create_agent(model, [look], middleware=[prompt, warm, quick]), world)
    assert shown(result["messages"])[2:] == [("tool", "cached"), ("ai", "ok")]
    assert [(r.messages[0].text, r.kwargs["temperature"]) for r in model.requests] == [("You are kind.", 1)] * 2


@both_worlds
@pytest.mark.parametrize("form", ["message", "list", "dict"])
def test_calls_that_a_hook_adds_without_ids_get_them(world, form):
    """Or nobody could tell which call a result belongs to."""
    asked: list[Any] = []

    @after_model
    def add(state: Any, runtime: Any) -> dict[str, Any] | None:
        if asked:
            return None
        asked.append(True)
        calls: Any = [call("look", n=1), call("look", n=2)]
        whole: Any = {"role": "assistant", "content": "", "tool_calls": calls}
        message = AIMessage("", tool_calls=calls)
        return {"messages": {"message": message, "list": [message], "dict": [whole]}[form]}

    def look(n: int) -> str:
        """Look."""
        return f"seen {n}"

    result = invoke(create_agent(ScriptedModel("first", "done"), [look], middleware=[add]), world)
    assert shown(result["messages"]) == [
        ("human", "hi"),
        ("ai", "first"),
        ("ai", ""),
        ("tool", "seen 1"),
        ("tool", "seen 2"),
        ("ai", "done"),
    ]
