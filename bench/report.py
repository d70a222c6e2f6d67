"""Results as Markdown: what was aimed at beside what was measured, then every number of every peer.

`docs/benchmarks.md` keeps its own words; only what stands between the two marks is replaced.
"""

from pathlib import Path
from typing import NamedTuple

__all__ = ["text", "write"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- measured: written by bench/run.py -->", "<!-- end of measured -->"

OURS, BARE = "loopwright", "bare"
WELL_KNOWN = ("langchain", "langchain_wire")  # whichever of them is measured
NO_PEERS = (OURS, BARE, "langchain_rawbind", "langchain_delta", "openai_sdk", "anthropic_sdk", "google_sdk")
FORMATS = ("openai-chat", "openai-responses", "anthropic", "google")
PROVIDERS = (*FORMATS, "azure", "bedrock")


class Target(NamedTuple):
    """A row of the first table. `at_most` is a factor of what `of` names, or a plain bound when `of` is empty."""

    what: str
    scenario: str
    metric: str
    at_most: float
    of: str = ""


BEST = "best peer"
TARGETS = (
    Target("one tool round, sync (µs)", "loop", "sync slope us/round", 10, BARE),
    Target("one tool round, async (µs)", "loop", "async slope us/round", 10, BARE),
    Target("one streamed token, sync (µs)", "stream", "sync us/chunk", 0.25, BEST),
    Target("one streamed token, async (µs)", "stream", "async us/chunk", 0.25, BEST),
    *(
        Target(
            f"one {format} chunk, socket to agent's stream, {world} (µs)",
            "wire",
            f"{format} agent {world} us/chunk",
            4,
            BARE,
        )
        for format in FORMATS
        for world in ("sync", "async")
    ),
    Target("1,000 concurrent runs, wall (s)", "concurrency", "wall s", 0.8),
    Target("1,000 concurrent runs, growth (MB)", "concurrency", "growth MB", 30),
    Target("import to create an agent, CPU (ms)", "import", "agent cpu ms", 1 / 3, BEST),
    Target("the same, peak memory (MB)", "import", "agent RSS MB", 35),
    Target("import with a provider, CPU (ms)", "import", "with provider cpu ms", 1 / 3, BEST),
    Target("the same, peak memory (MB)", "import", "with provider RSS MB", 45),
    *(
        Target(f"importing {name} after BaseChatModel, CPU (ms)", "import", f"{name} after BaseChatModel cpu ms", 30)
        for name in PROVIDERS
    ),
    Target("a fresh process that runs one round, wall (ms)", "fresh", "wall ms", 0.5, BEST),
    Target("a fresh process that runs one round, CPU (ms)", "fresh", "cpu ms", 0.5, BEST),
    Target("a step saved on a thread of 1,000 messages, CPU (µs)", "writes", "last steps cpu us", 0.5, BEST),
    Target("loading it, CPU (µs)", "writes", "load of 1000 messages cpu us", 0.1, BEST),
    Target("install with a provider, distributions", "install", "with provider: distributions", 15),
    Target("install with a provider (MB)", "install", "with provider: MB", 20),
    Target("an agent of five functions (µs)", "construct", "raw functions us", 1200),
    Target("an agent of five ready tools (µs)", "construct", "prebuilt tools us", 50),
)


def shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def value_of(summaries, scenario, metric, peer):
    return summaries.get(scenario, {}).get(peer, {}).get(metric)


def best_peer(summaries, scenario, metric):
    """(name, value) of the smallest among the other frameworks; for `construct` those that really build schemas."""
    lazy = {"agno"} if scenario == "construct" else set()
    found = [
        (values[metric], peer)
        for peer, values in summaries.get(scenario, {}).items()
        if peer not in NO_PEERS and peer not in lazy and values.get(metric) is not None
    ]
    value, name = min(found, default=(None, ""))
    return name, value


def target_row(summaries, target):
    ours, bare, *known = (value_of(summaries, target.scenario, target.metric, p) for p in (OURS, BARE, *WELL_KNOWN))
    known = next((value for value in known if value is not None), None)
    name, best = best_peer(summaries, target.scenario, target.metric)
    base = {BARE: bare, BEST: best, "": 1.0}[target.of]
    aim = f"≤ {shown(target.at_most)}" if not target.of else f"≤ {shown(target.at_most)}× {target.of}"
    ratio, met = "-", "-"
    if ours is not None and base:
        ratio = f"{shown(ours / base)}×" if target.of else shown(ours)
        met = "yes" if ours <= target.at_most * base else "**no**"
    beside = f"{name} {shown(best)}" if name else "-"
    return f"| {target.what} | {shown(bare)} | {beside} | {shown(known)} | {shown(ours)} | {aim} | {ratio} | {met} |"


def targets_table(summaries):
    rows = [target_row(summaries, target) for target in TARGETS if target.scenario in summaries]
    head = ["what", "bare loop", "best peer", "LangChain", "Loopwright", "aim", "reached", "met"]
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *rows] if rows else []


def scenario_table(scenario, peers):
    """A cell is the value, and its ratio to ours."""
    metrics = list(dict.fromkeys(metric for values in peers.values() for metric in values))
    lines = [f"\n### {scenario}\n", "| metric | " + " | ".join(peers) + " |", "|---" * (len(peers) + 1) + "|"]
    for metric in metrics:
        base = peers.get(OURS, {}).get(metric)
        cells = []
        for peer, values in peers.items():
            value = values.get(metric)
            ratio = f" ({shown(value / base)}×)" if value is not None and base and peer != OURS else ""
            cells.append(shown(value) + ratio)
        lines.append(f"| {metric} | " + " | ".join(cells) + " |")
    return lines


def facts(about):
    versions = [
        f"{peer} ({', '.join(f'{name} {version}' for name, version in found.items())})"
        for peer, found in about["versions"].items()
        if found
    ]
    machine = f"Python {about['python']}, {about['cpus']} CPUs"
    load = f"load {about['load'][0]:.1f} before and {about['load after'][0]:.1f} after"
    how = f"{about['statistic']} of {about['reps']} interleaved repetitions"
    return [
        f"Measured {about['date']} at commit {about['commit']}, {machine}, {load}; {how}.",
        f"Versions: {'; '.join(versions)}.",
    ]


def text(data) -> str:
    summaries = {scenario: peers for scenario, peers in data["summaries"].items() if peers}
    lines = [*facts(data["about"]), "", *targets_table(summaries), "", "In the tables below, ratios are to Loopwright."]
    for scenario, peers in summaries.items():
        lines += scenario_table(scenario, peers)
    return "\n".join(lines)


def write(data) -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{text(data)}\n\n{END}{after}", encoding="utf-8")
