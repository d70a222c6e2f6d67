"""Scenarios of agents, drawn from a seed: tools, hooks, limits, answers of the model, turns, and what may go wrong.

Everything the model says is a function of the history it is given, so that a run that was broken off and went on is to
end as one that was not. What tools do is kept in a `Ledger`, by call and by idempotency key.
"""

from __future__ import annotations

import asyncio
import operator
from random import Random
from typing import Annotated, Any, NamedTuple, cast

from loopwright.agents import Limits, create_agent
from loopwright.agents.middleware import (
    AgentState,
    after_agent,
    after_model,
    before_agent,
    before_model,
    wrap_model_call,
    wrap_tool_call,
)
from loopwright.agents.structured_output import ToolStrategy
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from loopwright.scope import current_scope
from loopwright.testing import Faults, InjectedError, ScriptedModel, Simulation, call, say, use
from loopwright.tools import ToolRuntime, tool
from loopwright.types import Command, interrupt

__all__ = ["Act", "Attempt", "Ledger", "Scenario"]


class State(AgentState[Any]):
    """What an agent keeps beside its messages."""

    seen: Annotated[list[str], operator.add]


class Act(NamedTuple):
    """One effect that a tool had outside."""

    attempt: int
    call_id: str
    key: str


class Ledger:
    """The world outside: what was done to it."""

    def __init__(self, scenario: Scenario, simulation: Simulation | None) -> None:
        self.scenario, self.simulation = scenario, simulation
        self.acts: list[Act] = []
        self.attempts = 0

    def begin(self) -> Attempt:
        self.attempts += 1
        return Attempt(self, self.attempts)


class Attempt:
    """One call of the agent, as its tools see it."""

    def __init__(self, ledger: Ledger, number: int) -> None:
        self.ledger, self.number = ledger, number
        self.asked = 0
        """How often a model was."""
        self.inner = ledger.scenario.inner

    def act(self, runtime: Any) -> None:
        self.ledger.acts.append(Act(self.number, runtime.tool_call_id, runtime.idempotency_key))

    def sleep(self, seconds: float) -> None:
        if self.ledger.simulation is not None:
            self.ledger.simulation.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        if self.ledger.simulation is not None:
            await self.ledger.simulation.asleep(seconds)
        else:
            await asyncio.sleep(0)


# -- tools ----------------------------------------------------------------------------------------------------------

_Runtime = ToolRuntime[Any, Any]


@tool
def note(text: str, runtime: _Runtime) -> str:
    """Note something."""
    runtime.context.act(runtime)
    return f"noted {text}"


@tool
async def anote(text: str, runtime: _Runtime) -> str:
    """Note something after a while."""
    await runtime.context.asleep(1)
    runtime.context.act(runtime)
    await runtime.context.asleep(1)
    return f"noted {text}"


@tool(timeout_s=5)
def slow(text: str, runtime: _Runtime) -> str:
    """Note something slowly."""
    runtime.context.sleep(2)
    runtime.context.act(runtime)
    return f"slowly {text}"


@tool(timeout_s=5)
async def aslow(text: str, runtime: _Runtime) -> str:
    """Note something slowly."""
    await runtime.context.asleep(3)
    runtime.context.act(runtime)
    return f"slowly {text}"


@tool(max_concurrency=1)
async def narrow(text: str, runtime: _Runtime) -> str:
    """Note something, one at a time."""
    await runtime.context.asleep(2)
    runtime.context.act(runtime)
    return f"narrowly {text}"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fails(text: str, runtime: _Runtime) -> str:
    """Fail."""
    runtime.context.act(runtime)
    raise ValueError(f"cannot {text}")


@tool(return_direct=True)
def direct(text: str, runtime: _Runtime) -> str:
    """Answer at once."""
    runtime.context.act(runtime)
    return f"direct {text}"


@tool
def sets(text: str, runtime: _Runtime) -> Any:
    """Change the state."""
    runtime.context.act(runtime)
    return Command(update={"seen": [text], "messages": [ToolMessage("set", tool_call_id=runtime.tool_call_id or "")]})


@tool
def ask(text: str, runtime: _Runtime) -> str:
    """Ask somebody else."""
    result = runtime.context.inner.invoke({"messages": text})
    runtime.context.act(runtime)
    return str(result.text)


@tool
async def aask(text: str, runtime: _Runtime) -> str:
    """Ask somebody else and wait."""
    result = await runtime.context.inner.ainvoke({"messages": text})
    runtime.context.act(runtime)
    return str(result.text)


@tool
def confirms(text: str, runtime: _Runtime) -> str:
    """Do it if somebody agrees."""
    answer = interrupt({"may I": text})
    runtime.context.act(runtime)
    return f"{answer}: {text}"


@tool
async def asks_twice(text: str, runtime: _Runtime) -> str:
    """Do it if somebody agrees twice."""
    first = interrupt({"may I": text})
    await runtime.context.asleep(1)
    second = interrupt({"really": text})
    runtime.context.act(runtime)
    return f"{first}, {second}: {text}"


TOOLS = [note, anote, slow, aslow, narrow, add, fails, direct, sets, ask, aask, confirms, asks_twice]
INNER_TOOLS = [note, anote, aslow, fails, confirms]


# -- hooks ----------------------------------------------------------------------------------------------------------


@before_agent
def begins(state: Any, runtime: Any) -> Any:
    return {"seen": [f"begin {len(state['messages'])}"]}


@before_model
def looks(state: Any, runtime: Any) -> Any:
    return {"seen": ["look"]} if len(state["messages"]) % 3 == 0 else None


@after_model
async def reads(state: Any, runtime: Any) -> Any:
    await runtime.context.asleep(1)
    return {"seen": [f"read {len(state['messages'])}"]}


@after_model(can_jump_to=["end"])
def jumps(state: Any, runtime: Any) -> Any:
    return {"jump_to": "end"} if len(state["messages"]) % 7 == 6 else None


@after_agent
async def ends(state: Any, runtime: Any) -> Any:
    return {"seen": [f"end {len(state['messages'])}"]}


@wrap_model_call
def tries_again(request: Any, handler: Any) -> Any:
    try:
        return handler(request)
    except InjectedError:
        return handler(request)


@wrap_model_call
async def atries_again(request: Any, handler: Any) -> Any:
    try:
        return await handler(request)
    except InjectedError:
        await request.runtime.context.asleep(1)
        return await handler(request)


@wrap_tool_call
def calls_again(request: Any, handler: Any) -> Any:
    try:
        return handler(request)
    except InjectedError:
        return handler(request)


@wrap_tool_call
async def acalls_again(request: Any, handler: Any) -> Any:
    try:
        return await handler(request)
    except InjectedError:
        return await handler(request)


HOOKS = [begins, looks, reads, jumps, ends, tries_again, atries_again, calls_again, acalls_again]


# -- the model ------------------------------------------------------------------------------------------------------


class Planned(ScriptedModel):
    """Says what a plan says of the history. Asking it is an effect, at which accidents happen."""

    async def answer(self, port: Any, messages: list[BaseMessage], **more: Any) -> Any:
        cast("Any", current_scope.get()).run.context.asked += 1
        await port.call(_ask_provider, is_async=False)
        return await super().answer(port, messages, **more)


def _ask_provider() -> None:
    """Where a real model would go out on the network."""


class Plan:
    """What a model says, by the number of its replies so far."""

    def __init__(self, seed: str, tools: list[Any], *, stubborn: bool, structured: bool, words: float) -> None:
        self.seed, self.tools = seed, tools
        self.stubborn, self.structured, self.words = stubborn, structured, words

    def __call__(self, messages: list[BaseMessage]) -> Any:
        asked = next((m.text for m in reversed(messages) if isinstance(m, HumanMessage)), "")
        number = sum(isinstance(message, AIMessage) for message in messages)
        since = 0
        for message in reversed(messages):
            if isinstance(message, HumanMessage):
                break
            since += isinstance(message, AIMessage)
        random = Random(f"{self.seed}/{asked}/{0 if self.stubborn else number}")
        place = f"{self.seed}.{asked}.{number}"
        if not self.stubborn and (since >= 3 or random.random() < self.words):
            if self.structured:
                return use(call("Verdict", {"good": True, "number": number}, id=f"{place}.v"))
            return self._words(random, number)
        return self._calls(random, place)

    def _words(self, random: Random, number: int) -> Any:
        lot = random.random()
        if lot < 0.05:
            return say("")
        if lot < 0.1:
            return AIMessage("", response_metadata={"finish_reason": "error"})
        return say(f"word {number} and more", usage=(10 + number, 5), delay_s=random.choice([0, 1]))

    def _calls(self, random: Random, place: str) -> Any:
        calls: list[Any] = []
        invalid: list[Any] = []
        for index in range(random.choice([1, 1, 1, 2, 2, 3, 4])):
            lot, call_id = random.random(), f"{place}.{index}"
            if lot < 0.04:
                calls.append(call("nobody", id=call_id))
            elif lot < 0.08:
                calls.append(call("add", {"a": "x"}, id=call_id))
            elif lot < 0.11:
                invalid.append({"type": "invalid_tool_call", "name": "add", "args": "{", "id": call_id, "error": "bad"})
            else:
                chosen = random.choice(self.tools)
                args = {"a": 1, "b": index} if chosen is add else {"text": "same" if self.stubborn else call_id}
                calls.append(call(chosen.name, args, id=call_id))
        return use(*calls, invalid=invalid, text=random.choice(["", "let me see"]), usage=(10, 5))


VERDICT = {
    "title": "Verdict",
    "description": "What it amounts to.",
    "type": "object",
    "properties": {"good": {"type": "boolean"}, "number": {"type": "integer"}},
    "required": ["good", "number"],
}


SPENDING = ("model_calls", "tool_calls", "tokens", "seconds")

# -- the whole ------------------------------------------------------------------------------------------------------

PROFILES = {
    "crash": Faults(crash=0.03),
    "saver": Faults(error=0.06, crash=0.02, at=("saver",)),
    "cancel": Faults(cancel=0.02),
    "slow": Faults(slow=0.06, error=0.06, at=("call", "sleep")),
    "all": Faults(error=0.02, slow=0.02, cancel=0.005, crash=0.02, most=6),
}


class Scenario:
    """One agent, what it is asked, and what goes wrong."""

    def __init__(self, seed: int) -> None:
        random = Random(f"scenario {seed}")
        self.seed = seed
        self.turns = [f"q{number}" for number in range(random.choice([1, 1, 1, 1, 2, 3]))]
        self.asynchronous = random.random() < 0.5
        self.reading = random.random() < 0.4
        self.subgraphs = random.random() < 0.5
        self.durability = random.choice(["sync", "sync", "async", "exit"])
        self.profile = random.choice([*PROFILES, "crash", "all"])
        self.faults = PROFILES[self.profile]
        tools = random.sample(TOOLS, random.randint(1, 4))
        structured = random.random() < 0.15
        self.stubborn = random.random() < 0.08
        plan = Plan(str(seed), tools, stubborn=self.stubborn, structured=structured, words=0.35)
        self._agent: dict[str, Any] = {
            "tools": tools,
            "middleware": random.sample(HOOKS, random.choice([0, 0, 1, 2, 3])),
            "response_format": ToolStrategy(VERDICT) if structured else None,
            "limits": self._limits(random),
            "on_limit": random.choice(["stop", "stop", "answer"]),
            "state_schema": State,
        }
        self._plan = plan
        inner_tools = random.sample(INNER_TOOLS, 2)
        inner_plan = Plan(f"{seed}i", inner_tools, stubborn=False, structured=False, words=0.5)
        self.inner = create_agent(_model(inner_plan), inner_tools, name="inner")

    def agent(self) -> Any:
        """A new agent with a saver of its own."""
        return create_agent(_model(self._plan), checkpointer=InMemorySaver(), **self._agent)

    @property
    def order_matters(self) -> bool:
        """Whether what ends first decides: several agents that spend from one account at the same time."""
        return self.spends_little and self.asks_others

    @property
    def spends_little(self) -> bool:
        """Whether what is spent may end a run."""
        return any(getattr(self.limits, name) != getattr(Limits(), name) for name in SPENDING)

    @property
    def asks_others(self) -> bool:
        """Whether tools call an agent."""
        return any(one in (ask, aask) for one in self._agent["tools"])

    @property
    def leaves_no_trace(self) -> bool:
        """Whether a run that went on ends as if nothing had gone wrong: after crashes, and errors of the saver.

        Where the saver of a run below fails, the call that has begun that run fails, and the model is told. What a try
        that was lost has spent is spent.
        """
        if self.order_matters or (self.spends_little and self.profile != "crash"):
            return False
        return self.profile == "crash" or (self.profile == "saver" and not self.asks_others)

    @property
    def limits(self) -> Limits:
        return self._agent["limits"]

    @property
    def on_limit(self) -> str:
        return self._agent["on_limit"]

    def _limits(self, random: Random) -> Limits:
        chosen: dict[str, Any] = {}
        for name, figures in (
            ("model_calls", (1, 2, 4)),
            ("tool_calls", (0, 2, 5)),
            ("tokens", (20, 60)),
            ("seconds", (100,)),
            ("repeats", (2, 3)),
            ("failures", (1, 2)),
        ):
            if random.random() < 0.12:
                chosen[name] = random.choice(figures)
        return Limits(**chosen)


def _model(plan: Plan) -> Planned:
    return Planned(plan, loop=True, check_tools=False)  # pyright: ignore[reportCallIssue]
