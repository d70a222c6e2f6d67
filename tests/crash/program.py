"""A program that dies: one agent, one thread, and an operator that takes it up again wherever it was.

It is run in processes of its own, forked by `zygote.py`. Every call of the saver, of a model and of a tool, before and
after, and every token, is an effect with a number; the process kills itself at the effect it was told of. What tools
do, and what was reported saved, is appended to a ledger that outlives it.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import BaseModel

from loopwright.agents import create_agent
from loopwright.agents.structured_output import ToolStrategy
from loopwright.checkpoint.base import BaseCheckpointSaver
from loopwright.errors import ThreadConflictError
from loopwright.graph.events import RunFinished
from loopwright.messages import AIMessage, HumanMessage, ToolMessage, find_broken_pair
from loopwright.testing import ScriptedModel, call
from loopwright.tools import ToolRuntime, tool
from loopwright.types import Command, interrupt

__all__ = ["SAVERS", "Life", "outer", "play", "saver_class"]

SAVERS = {
    "sqlite": "loopwright.checkpoint.sqlite:SqliteSaver",
    "postgres": "loopwright.checkpoint.postgres:PostgresSaver",
}
"""Savers that outlive a process, each opened by where its threads are: `SqliteSaver(path)`."""


class Life(NamedTuple):
    """What one process is to do."""

    kind: str
    """Of the saver; a key of `SAVERS`."""
    place: str
    thread: str
    ledger: str
    asynchronous: bool
    reading: bool
    """Whether somebody reads a stream."""
    durability: str
    dies_at: int | str = 0
    """The effect at which it is killed: its number, from 1, or its name; 0: it lives."""
    gate: str = ""
    """The effect at which it waits, once, until the others have come as far."""

    @property
    def config(self) -> Any:
        return {"configurable": {"thread_id": self.thread}}


# --- the world outside, and death ------------------------------------------------


class World:
    """What is done to the world: effects are counted, the ledger is written, and the process may die of it."""

    def __init__(self, life: Life, wait: Callable[[], None]) -> None:
        self.life, self.wait = life, wait
        self.effects = 0
        self.waited = False
        self.lock = threading.Lock()
        self.ledger = os.open(life.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, what: str, **more: Any) -> None:
        os.write(self.ledger, (json.dumps({"what": what, **more}) + "\n").encode())

    def effect(self, name: str) -> None:
        if name == self.life.gate and not self.waited:
            self.waited = True
            self.wait()
        with self.lock:
            self.effects += 1
            if self.life.dies_at in (self.effects, name):
                self.note("killed", at=name)
                os.kill(os.getpid(), signal.SIGKILL)


WORLD: World


def saver_class(kind: str) -> Any:
    module, _, name = SAVERS[kind].partition(":")
    return getattr(importlib.import_module(module), name)


def watched(saver: type) -> type:
    """A saver whose calls are effects."""
    members: dict[str, Any] = {}
    for name in ("load", "claim", "save", "save_writes"):
        members[name] = _watched(name, getattr(saver, name))
        members["a" + name] = _awatched(name, getattr(saver, "a" + name))
    return type("Watched", (saver,), members)


def _watched(name: str, method: Any) -> Any:
    def around(*args: Any, **kwargs: Any) -> Any:
        WORLD.effect(f"before {name}")
        answer = method(*args, **kwargs)
        _told_saved(name, args)
        WORLD.effect(f"after {name}")
        return answer

    return around


def _awatched(name: str, method: Any) -> Any:
    async def around(*args: Any, **kwargs: Any) -> Any:
        WORLD.effect(f"before {name}")
        answer = await method(*args, **kwargs)
        _told_saved(name, args)
        WORLD.effect(f"after {name}")
        return answer

    return around


def _told_saved(name: str, args: tuple[Any, ...]) -> None:
    """What was reported saved is in the ledger, so that it can be asked for after the end."""
    if name == "save_writes":
        written = [message for key, value in args[5] if key == "messages" for message in _list(value)]
        WORLD.note("saved", calls=[message.tool_call_id for message in written if isinstance(message, ToolMessage)])


# --- the agent -------------------------------------------------------------------


@tool
def note(text: str, runtime: ToolRuntime) -> str:
    """Note."""
    return _act(text, runtime)


@tool
async def anote(text: str, runtime: ToolRuntime) -> str:
    """Note."""
    return _act(text, runtime)


@tool
def confirm(text: str, runtime: ToolRuntime) -> str:
    """Do it if somebody agrees."""
    answer = interrupt({"may I": text})
    return f"{answer}: {_act(text, runtime)}"


def _act(text: str, runtime: Any) -> str:
    call_id, key = runtime.tool_call_id, runtime.idempotency_key
    WORLD.note("begun", call=call_id, key=key)
    WORLD.effect(f"in {call_id}")
    WORLD.note("done", call=call_id, key=key)
    WORLD.effect(f"behind {call_id}")
    return f"noted {text}"


@tool
def expert(question: str) -> str:
    """Ask an expert."""
    return inner().invoke({"messages": question}).text


@tool
async def aexpert(question: str) -> str:
    """Ask an expert."""
    return (await inner().ainvoke({"messages": question})).text


class Verdict(BaseModel):
    """What it amounts to."""

    good: bool


class Speaker(ScriptedModel):
    """Says what a plan says of the history, so that a process that comes later says the same."""

    async def answer(self, port: Any, messages: list[Any], *, take: Any, **more: Any) -> Any:
        place = _place(messages)
        WORLD.note("asked", place=place)
        WORLD.effect(f"asking {place}")
        answer = await super().answer(port, messages, take=take and _counting(take, place), **more)
        WORLD.effect(f"answered {place}")
        return answer


def _counting(take: Any, place: str) -> Any:
    def taking(piece: Any) -> None:
        WORLD.effect(f"token of {place}")
        take(piece)

    return taking


def _place(messages: list[Any]) -> str:
    """Whose turn it is, and which: what was asked, and the number of replies since."""
    asked = next(message.text for message in reversed(messages) if isinstance(message, HumanMessage))
    return f"{asked}.{sum(isinstance(message, AIMessage) for message in messages)}"


PLAN: dict[str, list[Any]] = {
    "all.0": ["Let me see.", ("note", "a"), ("anote", "b"), ("expert", "owls")],
    "all.1": ["And now.", ("confirm", "pay"), ("anote", "c"), ("aexpert", "bats")],
    "all.2": ["", ("Verdict", True)],
    "owls.0": ["", ("note", "owls-1"), ("anote", "owls-2")],
    "owls.1": ["Owls hoot."],
    "bats.0": ["", ("confirm", "bats-1"), ("note", "bats-2")],
    "bats.1": ["Bats squeak."],
}
ARGUMENT = {"expert": "question", "aexpert": "question", "Verdict": "good"}


def _say(messages: list[Any]) -> AIMessage:
    place = _place(messages)
    words, *calls = PLAN[place]
    return AIMessage(
        words,
        tool_calls=[call(name, {ARGUMENT.get(name, "text"): value}, id=f"{place}.{value}") for name, value in calls],
        usage_metadata={"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
        response_metadata={"place": place},
    )


def speaker() -> Speaker:
    return Speaker(_say, loop=True)  # pyright: ignore[reportCallIssue]


def inner() -> Any:
    return create_agent(speaker(), [note, anote, confirm], name="inner")


def outer(saver: BaseCheckpointSaver) -> Any:
    return create_agent(
        speaker(),
        [note, anote, confirm, expert, aexpert],
        response_format=ToolStrategy(Verdict),
        checkpointer=saver,
    )


# --- the operator ----------------------------------------------------------------


def play(life: Life, wait: Callable[[], None]) -> dict[str, Any]:
    """Bring the thread to its end, from wherever it is; returns what was seen on the way and what was left."""
    global WORLD
    WORLD = World(life, wait)
    kind = saver_class(life.kind)
    with kind(life.place) as plain:
        WORLD.note("found", **on_record(plain, life.thread))
    seen: dict[str, Any] = {"usage": None, "texts": [], "nodes": [], "conflict": None}
    with watched(kind)(life.place) as saver:
        drive(outer(saver), life, seen)
    with kind(life.place) as plain:
        return {
            "seen": seen,
            "state": shown(outer(plain).get_state(life.config).values),
            "problems": problems(plain, life),
            "effects": WORLD.effects,
        }


def drive(agent: Any, life: Life, seen: dict[str, Any]) -> None:
    """What a program does that is started again: look where the thread is, and go on from there."""
    run = asyncio.Runner().run if life.asynchronous else None
    for _ in range(9):
        state = run(agent.aget_state(life.config)) if run else agent.get_state(life.config)
        if state.created_at is None:
            given: Any = {"messages": "all"}
        elif state.interrupts:
            given = Command(resume={asked.id: "yes" for asked in state.interrupts})
        elif state.next:
            given = None
        else:
            return
        try:
            if run:
                run(_acall(agent, life, given, seen))
            else:
                _call(agent, life, given, seen)
        except ThreadConflictError as error:
            seen["conflict"] = str(error)
            return
    raise AssertionError("it comes to no end")


MODES: Any = ["updates", "messages", "events"]


def _call(agent: Any, life: Life, given: Any, seen: dict[str, Any]) -> None:
    if not life.reading:
        seen["usage"] = agent.invoke(given, life.config, durability=life.durability).usage["total_tokens"]
        return
    for mode, chunk in agent.stream(given, life.config, durability=life.durability, stream_mode=MODES):
        _see(mode, chunk, seen)


async def _acall(agent: Any, life: Life, given: Any, seen: dict[str, Any]) -> None:
    if not life.reading:
        result = await agent.ainvoke(given, life.config, durability=life.durability)
        seen["usage"] = result.usage["total_tokens"]
        return
    async for mode, chunk in agent.astream(given, life.config, durability=life.durability, stream_mode=MODES):
        _see(mode, chunk, seen)


def _see(mode: str, chunk: Any, seen: dict[str, Any]) -> None:
    if mode == "messages":
        seen["texts"].append(chunk[0].text)
    elif mode == "updates":
        seen["nodes"] += chunk
    elif isinstance(chunk, RunFinished) and chunk.path == () and chunk.usage:
        seen["usage"] = chunk.usage["total_tokens"]


# --- what a thread has on record -------------------------------------------------


def on_record(saver: BaseCheckpointSaver, thread: str) -> dict[str, list[str]]:
    """The calls that have a result, and the turns that the model has had, runs below among them."""
    messages: list[Any] = []
    for record in saver.walk(thread, None):
        messages += record.values.get("messages", ())
        for _, key, value in record.writes:
            if key == "messages":
                messages += _list(value)
    return {
        "calls": sorted({each.tool_call_id for each in messages if isinstance(each, ToolMessage)}),
        "turns": sorted({each.response_metadata["place"] for each in messages if isinstance(each, AIMessage)}),
    }


def problems(saver: BaseCheckpointSaver, life: Life) -> list[str]:
    """What is wrong with any checkpoint of the thread."""
    found: list[str] = []
    records = list(saver.walk(life.thread, None))
    ids = {record.id for record in records}
    for record in records:
        messages = record.values.get("messages", [])
        broken = find_broken_pair(messages, open_end=True)
        if broken is not None:
            found.append(f"{record.ns}/{record.step}: {broken}")
        if len({message.id for message in messages}) != len(messages):
            found.append(f"{record.ns}/{record.step}: a message stands twice")
        if record.parent_id is not None and record.parent_id not in ids:
            found.append(f"{record.ns}/{record.step}: its parent is not there")
    shown = [len(state.values.get("messages", ())) for state in outer(saver).get_state_history(life.config)]
    if shown != sorted(shown, reverse=True):
        found.append(f"the history grows unevenly: {shown}")
    return found


def shown(values: Any) -> dict[str, Any]:
    """A state without what differs from run to run, which is the ids of messages."""
    answer = values.get("structured_response")
    return {
        "answer": answer and answer.model_dump(),
        "messages": [
            [
                message.type,
                message.text,
                [one["id"] for one in getattr(message, "tool_calls", ())],
                getattr(message, "tool_call_id", None),
                getattr(message, "status", None),
            ]
            for message in values.get("messages", ())
        ],
    }


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]
