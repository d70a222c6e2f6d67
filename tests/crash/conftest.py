"""Processes to kill, and places for their threads."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import services
from tests.crash.program import SAVERS, Life
from tests.crash.zygote import Zygote

__all__ = ["a_life", "zygote"]


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    with Zygote() as zygote:
        yield zygote


@pytest.fixture(params=SAVERS)
def a_life(request: pytest.FixtureRequest, tmp_path: Path) -> Life:
    """An undisturbed one, of plain calls; tests change what they are about. Each saver that outlives a process."""
    place = str(tmp_path / "threads.sqlite")
    if request.param == "postgres":
        if importlib.util.find_spec("psycopg") is None:
            services.missing("psycopg is not installed (pip install 'loopwright[postgres]').")
        place = request.getfixturevalue("postgres_url")
    return Life(request.param, place, "undisturbed", str(tmp_path / "ledger"), False, False, "sync")
