"""A thousand agents in worlds of accidents: what holds of each, and the seed of one of which it does not.

`LOOPWRIGHT_SIMULATIONS`, or `--simulations`, says how many; `--simulation-seed` plays one.
"""

from __future__ import annotations

import pytest

from tests.testing.invariants import check

PARTS = 20


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_goes_wrong(part: int, simulation_seeds: range) -> None:
    """Every call is paired, limits are kept, no finished call is made again, modes, facts and worlds agree."""
    for seed in simulation_seeds[part::PARTS]:
        try:
            check(seed)
        except Exception as error:
            again = f'make test ARGS="tests/testing/test_simulation.py --simulation-seed={seed}"'
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n{again}") from error
