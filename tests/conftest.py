"""How many simulated runs are played, and which."""

from __future__ import annotations

import os

import pytest

__all__ = ["pytest_addoption", "simulation_seeds"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("loopwright's own tests")
    group.addoption("--simulations", type=int, help="play so many simulated runs (LOOPWRIGHT_SIMULATIONS, else 1000)")
    group.addoption("--simulation-seed", type=int, help="play the simulated run of this seed alone")


@pytest.fixture(scope="session")
def simulation_seeds(pytestconfig: pytest.Config) -> range:
    """The seeds of the simulated runs."""
    seed: int | None = pytestconfig.getoption("--simulation-seed")
    if seed is not None:
        return range(seed, seed + 1)
    return range(pytestconfig.getoption("--simulations") or int(os.environ.get("LOOPWRIGHT_SIMULATIONS", "1000")))
