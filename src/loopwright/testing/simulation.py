"""Runs in a world of accidents: a seed decides in what order things happen, and what goes wrong.

    simulation = Simulation(7, Faults(error=0.05, crash=0.02))
    result = simulation.finish(agent, {"messages": "hi"}, config)

The same coroutines that run in the two real worlds run here through `SimulationPort`, single-threaded, with a clock
that nobody waits for. Rules:

- each way out of the core is an *effect*, and at each a fault may be drawn: see `Faults`;
- the same seed and the same agent give the same run, whatever the machine does;
- agents that tools and hooks call are in the simulation too, with all that is below them;
- a crash is a process killed on the spot: nothing more is saved, what runs is dropped, and the next call finds what the
  saver had by then;
- functions under test that wait do so with `simulation.sleep` or `await simulation.asleep`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from typing import Any, Self

from loopwright.graph.compiled import CompiledStateGraph
from loopwright.port import world_around
from loopwright.scope import ConfigLike
from loopwright.testing.crashing import crashing
from loopwright.testing.faults import Faults, Injected, InjectedError, SimulatedCrash
from loopwright.testing.process import Process
from loopwright.testing.simulated import SimulatedWorld

__all__ = ["Simulation"]


class Simulation:
    """One simulated world. It outlives a crash: the next call is the restarted process."""

    def __init__(self, seed: int | str, faults: Faults | None = None, *, start: float = 1_000_000_000.0) -> None:
        """`start` is where its clock begins, in seconds since the epoch."""
        self.seed = seed
        self._process = Process(seed, Faults() if faults is None else faults, start)
        self._world = SimulatedWorld(self._process)

    @property
    def injected(self) -> list[Injected]:
        """The faults so far, in the order they were drawn."""
        return self._process.injected

    @property
    def time(self) -> float:
        """Seconds since the epoch, as far as runs are concerned."""
        return self._process.time

    def sleep(self, seconds: float) -> None:
        """What a plain function under test calls instead of `time.sleep`. Others go on meanwhile."""
        self._process.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        """What a coroutine under test awaits instead of `asyncio.sleep`."""
        await self._process.asleep(seconds)

    def close(self) -> None:
        """Drop what is left: functions that have outlived a timeout, say. Done too when nobody has it any more."""
        self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    # -- calls ------------------------------------------------------------------------------------------------------

    def invoke(
        self,
        agent: CompiledStateGraph,
        input: Any,
        config: ConfigLike | None = None,
        *,
        asynchronous: bool = False,
        **options: Any,
    ) -> Any:
        """`agent.invoke`, or `agent.ainvoke` if `asynchronous`, in this world; `options` are those of that call.

        Raises what the run raises, `InjectedError` and `SimulatedCrash` among it. Whoever cancels is told by what
        cancels in the world that is played: `RunCancelled`, `KeyboardInterrupt`, `asyncio.CancelledError`.
        """
        twin, context = self._inside(agent), self._context()
        if not asynchronous:
            return context.run(twin.invoke, input, config, **options)
        return self._process.to_the_end(context.run(twin.ainvoke, input, config, **options), context)

    def stream(
        self,
        agent: CompiledStateGraph,
        input: Any,
        config: ConfigLike | None = None,
        *,
        asynchronous: bool = False,
        **options: Any,
    ) -> Iterator[Any]:
        """`agent.stream`, or `agent.astream` if `asynchronous`, in this world: the same chunks.

        Raises what `invoke` does.
        """
        twin, context = self._inside(agent), self._context()
        if not asynchronous:
            return context.run(twin.stream, input, config, **options)
        chunks = context.run(twin.astream, input, config, **options)
        shown: deque[Any] = deque()

        async def read() -> None:
            try:
                async for chunk in chunks:
                    shown.append(chunk)
            finally:
                await chunks.aclose()

        return self._process.shown(read, shown, context)

    def finish(self, agent: CompiledStateGraph, input: Any, config: ConfigLike, **options: Any) -> Any:
        """Run to the end in spite of crashes and injected errors, as a program that is restarted would.

        After each it goes on with `invoke(None, config)`, or with the input again where nothing of it had been saved.
        The agent needs a checkpointer; `options` are those of `invoke`. Raises what else ends a run.
        """
        head, given = _head(agent, config), input
        while True:
            try:
                return self.invoke(agent, given, config, **options)
            except (SimulatedCrash, InjectedError):
                given = input if _head(agent, config) == head else None

    # -- within -----------------------------------------------------------------------------------------------------

    def _context(self) -> Context:
        """Where a call begins."""
        context = copy_context()
        context.run(world_around.set, self._world)
        return context

    def _inside(self, agent: CompiledStateGraph) -> Any:
        """The agent with a saver that takes part in the accidents."""
        if agent.checkpointer is None:
            return agent
        twin = agent.with_config()
        instant = self._process.random.random() < 0.5
        twin.checkpointer = crashing(agent.checkpointer, self._draw_for_saver, instant=instant)
        return twin

    def _draw_for_saver(self, what: str) -> Callable[[], None] | None:
        accident = self._process.draw("saver", what)
        return None if accident is None else accident.strike


def _head(agent: CompiledStateGraph, config: ConfigLike) -> Any:
    """The id of a thread's newest checkpoint."""
    place: Any = agent.get_state(config).config.get("configurable") or {}
    return place.get("checkpoint_id")
