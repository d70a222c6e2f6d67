"""The beginning of each request is that of the one before, byte for byte, so that a provider's prompt cache holds.

Ten turns on one thread, each of a tool round and an answer, over real HTTP; the agent is made anew for each turn and
the thread is read from its file.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from loopwright.agents import create_agent
from loopwright.agents.middleware import (
    AgentMiddleware,
    after_model,
    before_model,
    dynamic_prompt,
    wrap_model_call,
    wrap_tool_call,
)
from loopwright.agents.structured_output import ToolStrategy
from loopwright.chat_models import ChatOpenAI
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.messages import HumanMessage
from tests.agents.worlds import both_worlds, invoke, stream, thread
from tests.models.loopback import Answer, Loopback, Request, chat_answer, chat_event

TURNS = 10


def look(city: str, unit: Literal["C", "F"] = "C", days: dict[str, int] | None = None) -> str:
    """Look at a city."""
    return f"sunny in {city}, ü"


def count(words: list[str]) -> int:
    """Count words."""
    return len(words)


class Verdict(BaseModel):
    """The last word."""

    good: bool
    why: str = ""


class Notes(AgentMiddleware):
    """Brings a tool along, looks on at every step, and changes nothing."""

    def __init__(self) -> None:
        def note(text: str) -> str:
            """Keep a note."""
            return "kept"

        from loopwright.tools import tool

        self.tools = [tool(note)]

    def before_agent(self, state: Any, runtime: Any) -> None:
        return None


@before_model
def looks_on(state: Any, runtime: Any) -> None:
    return None


@after_model
def listens(state: Any, runtime: Any) -> None:
    return None


@wrap_tool_call
def passes_on(request: Any, handler: Any) -> Any:
    return handler(request)


@dynamic_prompt
def same_words(request: Any) -> str:
    return f"You are terse. Your tools are {', '.join(tool.name for tool in request.tools)}."


@wrap_model_call
def says_the_time(request: Any, handler: Any) -> Any:
    """What changes with every call, at the end of what is sent and not in the thread."""
    time = HumanMessage(f"It is {len(request.messages)} o'clock.")
    return handler(request.override(messages=[*request.messages, time]))


def answer(request: Request) -> Answer:
    """A call after each question, with arguments as a model writes them, and an answer after its result."""
    sent = request.json["messages"]
    last = next(one for one in reversed(sent) if "o'clock" not in str(one["content"]))
    calls = [
        {
            "id": f"call_{len(sent)}",
            "type": "function",
            "function": {"name": "look", "arguments": '{ "unit":"C",  "city": "Osl\\u00f8", "days": {"b": 1, "a": 2}}'},
        }
    ]
    whole = chat_answer("Fine.") if last["role"] == "tool" else chat_answer(None, finish="tool_calls", tool_calls=calls)
    if not request.json.get("stream"):
        return Answer(body=whole)
    message = {key: value for key, value in whole["choices"][0]["message"].items() if value is not None}
    for number, one in enumerate(message.get("tool_calls", ())):
        one["index"] = number
    pieces = [chat_event(**message), chat_event(finish=whole["choices"][0]["finish_reason"]), b"data: [DONE]\n\n"]
    return Answer(headers={"content-type": "text/event-stream"}, pieces=pieces)


def ten_turns(world: Any, folder: Path, *, streamed: bool = False, **options: Any) -> list[bytes]:
    """The requests of ten turns."""
    with Loopback(answer) as server:
        for turn in range(TURNS):
            model = ChatOpenAI(model="m-1", base_url=server.url, api_key="k", temperature=0, max_retries=0)
            with SqliteSaver.from_conn_string(str(folder / "threads.db")) as saver:
                agent = create_agent(model, [look, count], checkpointer=saver, **options)
                if streamed:
                    stream(agent, world, f"Question {turn}", thread(), stream_mode="messages")
                else:
                    invoke(agent, world, f"Question {turn}", thread())
        return [request.body for request in server.requests]


def grows(before: bytes, after: bytes) -> bool:
    """Whether a request begins with all of the one before: its messages come last."""
    return before.endswith(b"]}") and after.startswith(before.removesuffix(b"]}"))


def shared(before: bytes, after: bytes) -> bytes:
    """What both begin with."""
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    return before[: sum(1 for _ in same)]


@both_worlds
def test_each_request_begins_with_the_one_before(world: Any, tmp_path: Path) -> None:
    bodies = ten_turns(
        world,
        tmp_path,
        system_prompt="You are terse.",
        middleware=[Notes(), looks_on, listens, passes_on, same_words],
    )
    assert len(bodies) == 2 * TURNS
    assert all(itertools.starmap(grows, itertools.pairwise(bodies)))
    last = json.loads(bodies[-1])
    assert [tool["function"]["name"] for tool in last["tools"]] == ["note", "look", "count"]
    assert [one["role"] for one in last["messages"]] == ["system"] + ["user", "assistant", "tool", "assistant"] * 9 + [
        "user",
        "assistant",
        "tool",
    ]


@both_worlds
def test_streamed_turns_too(world: Any, tmp_path: Path) -> None:
    bodies = ten_turns(world, tmp_path, streamed=True, system_prompt="You are terse.", middleware=[passes_on])
    assert len(bodies) == 2 * TURNS
    assert all(itertools.starmap(grows, itertools.pairwise(bodies)))


def test_answer_tools_come_after_the_agents_own(tmp_path: Path) -> None:
    """The words of the model are no answer, so each turn has a reminder more; nothing before it changes."""
    with Loopback(lambda request: Answer(body=chat_answer('{"good": true}'))) as server:
        model = ChatOpenAI(model="m-1", base_url=server.url, api_key="k")
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
            agent = create_agent(model, [look], response_format=ToolStrategy(Verdict), checkpointer=saver)
            for turn in range(TURNS):
                invoke(agent, "sync", f"Question {turn}", thread())
        bodies = [request.body for request in server.requests]
    assert [tool["function"]["name"] for tool in json.loads(bodies[0])["tools"]] == ["look", "Verdict"]
    assert all(itertools.starmap(grows, itertools.pairwise(bodies)))


def test_what_changes_with_each_call_costs_only_itself(tmp_path: Path) -> None:
    """A hook that adds a message for one call leaves everything before that message as it was."""
    bodies = ten_turns("sync", tmp_path, system_prompt="You are terse.", middleware=[says_the_time])
    for before, after in itertools.pairwise(bodies):
        common = shared(before, after)
        assert before[len(common) :].count(b'"role"') <= 1


def test_a_prompt_that_changes_at_its_end_keeps_the_tools_and_its_beginning(tmp_path: Path) -> None:
    numbers = itertools.count(10)

    @dynamic_prompt
    def changing(request: Any) -> str:
        return f"You are terse. Request {next(numbers)}"

    bodies = ten_turns("sync", tmp_path, middleware=[changing])
    for before, after in itertools.pairwise(bodies):
        common = shared(before, after)
        assert b'"tools"' in common
        assert common.rstrip(b"0123456789").endswith(b"You are terse. Request ")


PROGRAM = """
from tests.agents.test_prefix import *
import sys, pathlib, hashlib
bodies = ten_turns("sync", pathlib.Path(sys.argv[1]), system_prompt="You are terse.", middleware=[Notes(), same_words])
print(hashlib.sha256(b"".join(bodies)).hexdigest())
"""


def test_another_process_sends_the_same_bytes(tmp_path: Path) -> None:
    """Nothing depends on hashes, addresses, ids or the time: a cache is shared by all workers."""
    sent: set[str] = set()
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])}
        command = [sys.executable, "-c", PROGRAM, str(folder)]
        sent.add(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)
    assert len(sent) == 1
