"""Measure scenarios of one adapter, inside that adapter's own interpreter.

    python worker.py ADAPTER SCENARIO[,SCENARIO...]

The last line of standard output is a JSON object of one flat object per scenario. Times
are CPU times of the whole process (all threads) unless their key says `wall`.
"""

import asyncio
import gc
import importlib
import importlib.metadata
import json
import logging
import os
import statistics
import sys
import tempfile
import threading
import time
import tracemalloc
import warnings
from functools import partial
from pathlib import Path

import tools
import tools_async
from fake import USER_TEXT, Script

BATCHES = 9
BATCH_SECONDS = 0.02
ROUNDS = (1, 5, 50)
PARALLEL_CALLS = 10
CHUNKS = 2000
WIRE_BATCHES = 7
CONCURRENT_RUNS = 1000
CONCURRENT_ROUNDS = 5
LATENCY = 0.05
TURNS = 200
EDGE_TURNS = 10
MESSAGES = 1000
EDGE_STEPS = 50
LOADS = 20
SPEAKERS = 8
SPEECHES = 25


# --- timing -----------------------------------------------------------------


def cpu_seconds(function, repeat=BATCHES, runner=None):
    """CPU seconds of one call of a function or coroutine function, in the best of `repeat` short batches.

    Other load on the machine takes no CPU time from this process, yet empties its caches, so it can
    only make a batch slower.
    """
    if runner is None:
        with asyncio.Runner() as own:
            return cpu_seconds(function, repeat, own)
    is_async = asyncio.iscoroutinefunction(function)

    async def await_all(count):
        start = time.process_time()
        for _ in range(count):
            await function()
        return (time.process_time() - start) / count

    def call_all(count):
        start = time.process_time()
        for _ in range(count):
            function()
        return (time.process_time() - start) / count

    def batch(count):
        gc.collect()
        return runner.run(await_all(count)) if is_async else call_all(count)

    batch(1)
    count = max(1, min(2000, int(BATCH_SECONDS / max(batch(1), 1e-7))))
    return min(batch(count) for _ in range(repeat))


def resident_mb(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


# --- one call of a peer, in each of its modes --------------------------------


def callers(peer, script):
    """The ways to run one agent to its answer: (label, function)."""
    if "sync" in peer.MODES:
        agent = peer.build(script, peer.prepare_tools(tools.ALL))
        yield "sync", partial(peer.run, agent, USER_TEXT)
    if "async" in peer.MODES:
        for label, functions in ("async", tools_async.ALL), ("async+sync tools", tools.ALL):
            agent = peer.build(script, peer.prepare_tools(functions))
            yield label, partial(peer.arun, agent, USER_TEXT)


def streamers(peer, script):
    if "sync" in peer.STREAMS:
        agent = peer.build(script, peer.prepare_tools(tools.ALL))

        def consume():
            return list(peer.stream(agent, USER_TEXT))

        yield "sync", consume
    if "async" in peer.STREAMS:
        async_agent = peer.build(script, peer.prepare_tools(tools_async.ALL))

        async def aconsume():
            return [chunk async for chunk in peer.astream(async_agent, USER_TEXT)]

        yield "async", aconsume


def _call(function):
    return asyncio.run(function()) if asyncio.iscoroutinefunction(function) else function()


# --- scenarios ---------------------------------------------------------------


def check(peer):
    """Prove that the peer does the scripted work, no more and no less."""
    result = {}
    for rounds, width in (1, 1), (5, 1), (50, 1), (1, PARALLEL_CALLS):
        script = Script(rounds=rounds, width=width)
        for label, call in callers(peer, script):
            tools.executed = tools_async.executed = script.model_calls = script.longest_history = 0
            answer = _call(call)
            executed = tools.executed + tools_async.executed
            assert answer == script.answer, (label, answer)
            assert script.model_calls == rounds + 1, (label, script.model_calls)
            assert executed == rounds * width, (label, executed)
            result[f"history of {rounds}x{width} {label}"] = script.longest_history
    script = Script(rounds=0, words=CHUNKS)
    for label, consume in streamers(peer, script):
        chunks = [chunk for chunk in _call(consume) if chunk]
        assert chunks == script.chunks, (label, len(chunks))
        result[f"chunks {label}"] = len(chunks)
    with asyncio.Runner() as runner:
        for label, read in wire_readers(peer):
            count = runner.run(read()) if asyncio.iscoroutinefunction(read) else read()
            assert count >= CHUNKS, (label, count)
            result[f"items of {label}"] = count
    return result


def construct(peer):
    script = Script()
    ready = peer.prepare_tools(tools.ALL)

    def fresh():
        return peer.build(script, peer.raw_tools(tools.ALL))

    def reused():
        return peer.build(script, ready)

    result = {
        "raw functions us": cpu_seconds(fresh) * 1e6,
        "prebuilt tools us": cpu_seconds(reused) * 1e6,
    }
    if "async" in peer.MODES:
        async_ready = peer.prepare_tools(tools_async.ALL)

        async def once():
            await peer.arun(peer.build(script, async_ready), USER_TEXT)

        result["prebuilt tools + one K=1 async run us"] = cpu_seconds(once) * 1e6
    return result


def construct_memory(peer):
    """Bytes that stay allocated per agent, once everything shared between agents is there."""
    result = {}
    script = Script()
    ready = peer.prepare_tools(tools.ALL)
    for label, make in (
        ("raw functions", lambda: peer.build(script, peer.raw_tools(tools.ALL))),
        ("prebuilt tools", lambda: peer.build(script, ready)),
    ):
        make(), make()
        count = 20
        gc.collect()
        tracemalloc.start()
        agents = [make() for _ in range(count)]
        gc.collect()
        result[f"{label} KB"] = tracemalloc.get_traced_memory()[0] / count / 1024
        tracemalloc.stop()
        del agents
    return result


def loop(peer):
    result = {}
    for rounds in ROUNDS:
        for label, call in callers(peer, Script(rounds=rounds)):
            result[f"{label} K={rounds} us/run"] = cpu_seconds(call) * 1e6
    for label in {key.split(" K=")[0] for key in result}:
        per_run = [result[f"{label} K={rounds} us/run"] for rounds in ROUNDS]
        for rounds, value in zip(ROUNDS, per_run, strict=True):
            result[f"{label} K={rounds} us/round"] = value / rounds
        result[f"{label} slope us/round"] = (per_run[-1] - per_run[0]) / (ROUNDS[-1] - ROUNDS[0])
    return result


def parallel(peer):
    script = Script(rounds=1, width=PARALLEL_CALLS)
    return {f"{label} us/run": cpu_seconds(call) * 1e6 for label, call in callers(peer, script)}


def stream(peer):
    script = Script(rounds=0, words=CHUNKS)
    result = {}
    for label, consume in streamers(peer, script):
        start = time.process_time()
        _call(consume)
        slow = time.process_time() - start > 2
        seconds = cpu_seconds(consume, repeat=1 if slow else BATCHES)
        result[f"{label} us/chunk"] = seconds / CHUNKS * 1e6
    return result


def concurrency(peer):
    if "async" not in peer.MODES:
        return {}
    script = Script(rounds=CONCURRENT_ROUNDS, delay=LATENCY)
    ready = peer.prepare_tools(tools_async.ALL)
    shared = peer.build(script, ready)

    async def one():
        return await peer.arun(shared if peer.SHARED_AGENT else peer.build(script, ready), USER_TEXT)

    async def main():
        await one()
        gc.collect()
        before = resident_mb("VmRSS")
        wall, cpu = time.perf_counter(), time.process_time()
        answers = await asyncio.gather(*(one() for _ in range(CONCURRENT_RUNS)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        assert answers == [script.answer] * CONCURRENT_RUNS
        peak = resident_mb("VmHWM")
        return {"wall s": wall, "cpu s": cpu, "peak RSS MB": peak, "growth MB": peak - before}

    return asyncio.run(main())


def wire(peer):
    """One answer of `CHUNKS` chunks, in each format, from the parent's server on loopback to the peer's stream.

    One event loop for all of it, since a peer may keep its connections from one model to the next.
    """
    with asyncio.Runner() as runner:
        readers = wire_readers(peer)
        return {f"{label} us/chunk": _wire_seconds(read, runner) / CHUNKS * 1e6 for label, read in readers}


def _wire_seconds(read, runner):
    def checked(count):
        assert count >= CHUNKS, count

    if not asyncio.iscoroutinefunction(read):
        return cpu_seconds(lambda: checked(read()), WIRE_BATCHES, runner)

    async def aread():
        checked(await read())

    return cpu_seconds(aread, WIRE_BATCHES, runner)


def wire_readers(peer):
    """(label, function that reads one answer and returns how many items came): maybe a few more than words."""
    return peer.wire(os.environ["BENCH_WIRE_ADDRESS"]) if hasattr(peer, "wire") else ()


def thread(peer):
    result = {}
    for kind in peer.STORES:
        script = Script()
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, "store"))
            conversation = peer.Thread(kind, path, script, peer.prepare_tools(tools.ALL))
            result |= turns(conversation, script, kind)
            if kind == "memory":
                stored = conversation.stored_bytes()
            conversation.close()
            if kind != "memory":
                stored = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        result[f"{kind}: stored KB"] = stored / 1024
    return result


def writes(peer):
    """A saver alone, on disk: a step (what its task wrote, then the checkpoint) on a short and on a long thread."""
    if not hasattr(peer, "Store"):
        return {}
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "store"))
        store = peer.Store(path)
        cpu, wall = [], []
        for _ in range(MESSAGES):
            wall_start, cpu_start = time.perf_counter(), time.process_time()
            store.step()
            cpu.append(time.process_time() - cpu_start)
            wall.append(time.perf_counter() - wall_start)
        for unit, values in ("cpu", cpu), ("wall", wall):
            result[f"first steps {unit} us"] = statistics.median(values[1:EDGE_STEPS]) * 1e6
            result[f"last steps {unit} us"] = statistics.median(values[-EDGE_STEPS:]) * 1e6
        store.close()
        result["stored KB"] = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / 1024

        def load():
            """CPU seconds of loading alone."""
            store = peer.Store(path)
            start = time.process_time()
            found = store.load()
            spent = time.process_time() - start
            store.close()
            assert found == MESSAGES, found
            return spent

        def loads():
            gc.collect()
            return statistics.fmean(load() for _ in range(LOADS))

        result[f"load of {MESSAGES} messages cpu us"] = min(loads() for _ in range(BATCHES)) * 1e6
        result["open, load and close cpu us"] = cpu_seconds(load) * 1e6
    return result


def turns(conversation, script, kind):
    """200 turns of one conversation."""
    result, cpu, wall = {}, [], []
    for _ in range(TURNS):
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        answer = conversation.turn(USER_TEXT)
        cpu.append(time.process_time() - cpu_start)
        wall.append(time.perf_counter() - wall_start)
        assert answer == script.answer
    assert script.model_calls == 2 * TURNS
    messages = conversation.messages()
    edge = EDGE_TURNS
    for unit, values in ("cpu", cpu), ("wall", wall):
        first = statistics.median(values[1 : edge + 1])
        last = statistics.median(values[-edge:])
        result[f"{kind}: first turns {unit} ms"] = first * 1e3
        result[f"{kind}: last turns {unit} ms"] = last * 1e3
        result[f"{kind}: total {unit} s"] = sum(values)
    result[f"{kind}: messages KB"] = len(json.dumps(messages, default=str)) / 1024
    result[f"{kind}: messages"] = len(messages)
    result[f"{kind}: longest history"] = script.longest_history
    return result


def postgres(peer):
    """The same on the PostgreSQL server that the parent has started, and eight conversations at once."""
    if "postgres" not in getattr(peer, "SERVERS", ()):
        return {}
    import psycopg

    url, kind = os.environ["BENCH_POSTGRES_URL"], os.environ["BENCH_POSTGRES_KIND"]

    def conversation(name, script):
        made = peer.Thread("postgres", url, script, peer.prepare_tools(tools.ALL))
        made.config["configurable"]["thread_id"] = name
        return made

    script = Script()
    alone = conversation("alone", script)
    result = turns(alone, script, kind)
    alone.close()
    with psycopg.connect(url) as connection:
        tables = "FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        stored = connection.execute(f"SELECT sum(pg_total_relation_size(oid)) {tables}").fetchone()[0]
    result[f"{kind}: stored KB"] = int(stored) / 1024

    together = [conversation(f"together {number}", Script()) for number in range(SPEAKERS)]
    for each in together:
        each.turn(USER_TEXT)
    speakers = [threading.Thread(target=lambda each=each: speak(each)) for each in together]
    start = time.perf_counter()
    for speaker in speakers:
        speaker.start()
    for speaker in speakers:
        speaker.join()
    result[f"{kind}: turns a second, {SPEAKERS} threads"] = SPEAKERS * SPEECHES / (time.perf_counter() - start)
    for each in together:
        each.close()
    return result


def speak(conversation):
    for _ in range(SPEECHES):
        conversation.turn(USER_TEXT)


def versions(peer):
    return {name: importlib.metadata.version(name) for name in peer.PACKAGES}


SCENARIOS = (
    check,
    construct,
    construct_memory,
    loop,
    parallel,
    stream,
    wire,
    concurrency,
    thread,
    writes,
    postgres,
    versions,
)


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for variable in "LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "OPENAI_API_KEY":
        os.environ.pop(variable, None)
    name, scenarios = sys.argv[1:]
    peer = importlib.import_module(f"adapters.{name}")
    known = {function.__name__: function for function in SCENARIOS}
    result = {scenario: known[scenario](peer) for scenario in scenarios.split(",")}
    print()  # a peer may have left an unfinished line
    print(json.dumps(result))


if __name__ == "__main__":
    main()
