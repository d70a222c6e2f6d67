from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests import services

if importlib.util.find_spec("psycopg") is None and not services.REQUIRED:
    collect_ignore_glob = ["test_*.py"]  # pip install 'loopwright[postgres]'


@pytest.fixture(scope="session")
def own_cluster() -> Iterator[services.Cluster]:
    """A server that tests may stop and start; it runs when a test begins."""
    cluster = services.own_cluster()
    try:
        yield cluster
    finally:
        cluster.remove()
