"""Servers for the tests that ask for them, which simulated runs are played, and how often processes are killed."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest

from tests import services

__all__ = [
    "kills",
    "postgres_server",
    "postgres_url",
    "pytest_addoption",
    "pytest_collection_finish",
    "simulation_seeds",
]


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the suite in the background has it ignored, and so would the programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("loopwright's own tests")
    group.addoption("--simulations", type=int, help="play so many simulated runs (LOOPWRIGHT_SIMULATIONS, else 1000)")
    group.addoption("--kills", type=int, help="kill a process at every Nth effect (LOOPWRIGHT_KILLS, else 40)")
    group.addoption("--simulation-seed", type=int, help="play the simulated run of this seed alone")


def pytest_collection_finish() -> None:
    """What stays to the end, thousands of recorded answers among it, is no garbage: nobody need look at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def simulation_seeds(pytestconfig: pytest.Config) -> range:
    """The seeds of the simulated runs."""
    seed: int | None = pytestconfig.getoption("--simulation-seed")
    if seed is not None:
        return range(seed, seed + 1)
    return range(pytestconfig.getoption("--simulations") or int(os.environ.get("LOOPWRIGHT_SIMULATIONS", "1000")))


@pytest.fixture(scope="session")
def kills(pytestconfig: pytest.Config) -> int:
    """At every how many effects a process is killed."""
    return pytestconfig.getoption("--kills") or int(os.environ.get("LOOPWRIGHT_KILLS", "40"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The url of a PostgreSQL server. Tests share it: use `postgres_url` for tables."""
    yield from services.postgres_server()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The url of an empty place on it, for this test alone."""
    with services.empty_schema(postgres_server) as url:
        yield url
