"""Measure the overhead of agent frameworks side by side.

    python bench/run.py [--peers bare,loopwright,langchain] [--scenarios loop,stream] [--reps 3]

Every measurement runs in a fresh process of the peer's own interpreter. Repetitions are interleaved, all peers
once and then all peers again, so that a slow spell of the machine falls on everybody, and the medians are
compared. A run of all peers and scenarios rewrites the tables of docs/benchmarks.md. See README.md.
"""

import argparse
import atexit
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

import environments
import report
from environments import HERE, PEERS, python_of
from worker import CHUNKS

sys.path.append(str(HERE.parent))
from tests import services

# Each group is measured in one process. Those that look at memory need one to themselves.
GROUPS = (
    ("import",),
    ("fresh",),
    ("construct", "loop", "parallel", "stream"),
    ("construct_memory",),
    ("wire",),
    ("concurrency",),
    ("thread",),
    ("writes",),
    ("postgres",),
    ("install",),
)
SCENARIOS = tuple(scenario for group in GROUPS for scenario in group)
MAX_REPS = {"thread": 2, "writes": 2, "postgres": 2, "concurrency": 2, "construct_memory": 1, "install": 1}
TIMEOUT = 1800  # seconds for one process

CPU = "from time import process_time as cpu"
# Printed by the measured process itself: a parent cannot tell a child's peak from its own.
PEAK = "print(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')))"

COUNT_INSTALLED = """
import importlib.metadata as m, pathlib, sysconfig
skip = ("pip", "setuptools", "pkg_resources", "_distutils", "distutils-")
print(len({d.name.lower() for d in m.distributions()} - {"pip", "setuptools"}))
root = pathlib.Path(sysconfig.get_paths()["purelib"])
own = [p for p in root.rglob("*") if p.is_file() and not p.relative_to(root).parts[0].startswith(skip)]
print(sum(p.stat().st_blocks * 512 for p in own) / 2**20)
print(sum(p.stat().st_blocks * 512 for p in own if p.suffix != ".pyc") / 2**20)
"""


def timed(command, where):
    """Wall seconds of a fresh process, and its last two words: what it says of its CPU seconds and its peak KB."""
    start = time.perf_counter()
    process = subprocess.run(command, capture_output=True, text=True, check=True, cwd=where, timeout=TIMEOUT)
    wall = time.perf_counter() - start
    cpu, peak = process.stdout.split()[-2:]
    return {"wall ms": wall * 1e3, "cpu ms": float(cpu) * 1e3, "RSS MB": int(peak) / 1024}


def run_import(peer):
    """Fresh processes that only import: what a user needs to create an agent, and what each provider adds to it."""
    result = {}
    for label, statement in ("agent", PEERS[peer].imports), ("with provider", PEERS[peer].provider_imports):
        program = f"{statement}\n{CPU}\nprint(cpu())\n{PEAK}"
        values = timed([python_of(peer), "-c", program], HERE)
        result |= {f"{label} {metric}": value for metric, value in values.items()}
    for provider, statement in PEERS[peer].providers:
        result |= {f"{provider} {part} cpu ms": value for part, value in provider_import(peer, statement).items()}
    return {"import": result}


def provider_import(peer, statement):
    """Milliseconds that a provider adds to creating an agent, and those of them that are not a model's base class."""
    steps = PEERS[peer].imports, PEERS[peer].model_imports, statement
    program = "\nprint(cpu())\n".join([CPU, *steps, ""])
    output = subprocess.run([python_of(peer), "-c", program], capture_output=True, text=True, check=True, cwd=HERE)
    _, created, based, provided = map(float, output.stdout.split())
    return {"after create_agent": (provided - created) * 1e3, "after BaseChatModel": (provided - based) * 1e3}


def run_fresh(peer):
    """A fresh process that imports, makes an agent with one typed tool and runs one round."""
    return {"fresh": timed([python_of(peer), "fresh.py", peer], HERE)}


def run_install(peer):
    """Distributions beyond pip and setuptools, and megabytes, of fresh environments."""
    result = {}
    for label, packages in ("agent", PEERS[peer].packages), ("with provider", PEERS[peer].provider_packages):
        if not packages:
            continue
        with tempfile.TemporaryDirectory() as folder:
            environments.install(Path(folder), packages)
            python = str(Path(folder, "bin", "python"))
            output = subprocess.run([python, "-c", COUNT_INSTALLED], check=True, capture_output=True, text=True).stdout
        for metric, value in zip(("distributions", "MB", "MB without bytecode"), output.split(), strict=True):
            result[f"{label}: {metric}"] = float(value)
    return {"install": result} if result else {}


def run_postgres(peer):
    """Conversations on a server that is made for it, with and without waiting for the disk at each commit."""
    programs = services.postgres_programs()
    if programs is None:
        print("postgres: there is no PostgreSQL on this machine (initdb)", file=sys.stderr)
        return {}
    result = {}
    for fsync in "off", "on":
        cluster = services.Cluster(programs, fsync=fsync)
        try:
            kind = f"postgres, fsync {fsync}"
            found = run_worker(peer, ["postgres"], BENCH_POSTGRES_URL=cluster.url, BENCH_POSTGRES_KIND=kind)
        finally:
            cluster.remove()
        if not found:
            return {}
        result |= found["postgres"]
    return {"postgres": result}


@cache
def wire_address():
    """Where the server listens that answers all peers of this run. It ends when its standard input does."""
    command = [sys.executable, "wire/server.py", str(CHUNKS)]
    server = subprocess.Popen(command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)
    return f"http://127.0.0.1:{int(server.stdout.readline())}"


def run_over_wire(scenario, peer):
    return run_worker(peer, [scenario], BENCH_WIRE_ADDRESS=wire_address())


def run_worker(peer, scenarios, **variables):
    command = [python_of(peer), "worker.py", peer, ",".join(scenarios)]
    process = subprocess.run(
        command, capture_output=True, text=True, cwd=HERE, timeout=TIMEOUT, check=True, env=os.environ | variables
    )
    return {name: result for name, result in json.loads(process.stdout.splitlines()[-1]).items() if result}


ALONE = {
    "check": partial(run_over_wire, "check"),
    "import": run_import,
    "fresh": run_fresh,
    "wire": partial(run_over_wire, "wire"),
    "postgres": run_postgres,
    "install": run_install,
}


def measure(peer, scenarios):
    """{scenario: {metric: value}}; nothing from a peer that fails, and a word about why."""
    try:
        return ALONE[scenarios[0]](peer) if scenarios[0] in ALONE else run_worker(peer, scenarios)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"{peer} {scenarios} failed: {error}\n{error.stderr}", file=sys.stderr)
        return {}


def measure_all(peers, wanted, reps):
    """{scenario: {peer: {metric: [values]}}}, with the repetitions of all peers interleaved."""
    values = {scenario: defaultdict(lambda: defaultdict(list)) for scenario in wanted}
    for group in GROUPS:
        for rep in range(min(reps, MAX_REPS.get(group[0], reps)) + (group[0] in ("import", "fresh"))):
            for peer in peers:
                scenarios = [s for s in group if s in wanted and s in (PEERS[peer].scenarios or SCENARIOS)]
                if not scenarios:
                    continue
                results = measure(peer, scenarios)
                print(f"{rep}: {peer} {json.dumps(results)}", file=sys.stderr, flush=True)
                if rep == 0 and group[0] in ("import", "fresh"):
                    continue  # filled the page cache and the bytecode caches
                for scenario, result in results.items():
                    for metric, value in result.items():
                        values[scenario][peer][metric].append(value)
    return values


def about(peers):
    """The machine and the versions that the numbers belong to."""
    commit = ["git", "describe", "--always", "--dirty"]
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": subprocess.run(commit, cwd=HERE, capture_output=True, text=True, check=False).stdout.strip(),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "versions": {peer: measure(peer, ["versions"]).get("versions", {}) for peer in peers if not PEERS[peer].of},
    }


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--best", action="store_true", help="take the best repetition, not the median (busy machine)")
    parser.add_argument("--check", action="store_true", help="only check that every peer does the scripted work")
    parser.add_argument("--write", action="store_true", help="write the results even of a part")
    parser.add_argument("--from", dest="source", help="make the report anew from a results file; measure nothing")
    chosen = parser.parse_args()
    chosen.peers, chosen.scenarios = chosen.peers.split(","), chosen.scenarios.split(",")
    if unknown := [*({*chosen.peers} - {*PEERS}), *({*chosen.scenarios} - {*SCENARIOS})]:
        parser.error(f"unknown: {', '.join(unknown)}; peers: {', '.join(PEERS)}; scenarios: {', '.join(SCENARIOS)}")
    return chosen


def main():
    # Peers were compiled when pip installed them, and our own source is run from where it is: unless Python may keep
    # its bytecode, each of our processes compiles all of it again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    chosen = options()
    if chosen.source:
        report.write(json.loads(Path(chosen.source).read_text()))
        return 0
    environments.ensure(chosen.peers)
    if chosen.check:
        checked = {peer: measure(peer, ["check"]) for peer in chosen.peers}
        print(json.dumps(checked, indent=1))
        return 0 if all(checked.values()) else 1
    facts = about(chosen.peers)
    values = measure_all(chosen.peers, chosen.scenarios, chosen.reps)
    summary = min if chosen.best else statistics.median
    summaries = {
        scenario: {peer: {metric: summary(found) for metric, found in metrics.items()} for peer, metrics in by.items()}
        for scenario, by in values.items()
    }
    facts |= {"load after": os.getloadavg(), "reps": chosen.reps, "statistic": summary.__name__}
    data = {"about": facts, "summaries": summaries, "values": values}
    print(report.text(data))
    if chosen.write or (chosen.peers == list(PEERS) and chosen.scenarios == list(SCENARIOS)):
        folder = HERE / "results"
        folder.mkdir(exist_ok=True)
        file = folder / f"{facts['date'][:10]}-{facts['commit'] or 'none'}.json"
        file.write_text(json.dumps(data, indent=1) + "\n")
        report.write(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
