"""A real server for the tests of this folder, started when the first of them asks for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loopwright.models.local.engine import find_model, missing_installs


class Server:
    """One running server."""

    def __init__(self) -> None:
        program = [sys.executable, str(Path(__file__).with_name("server.py")), find_model("")]
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url.startswith("http://"), "the server did not start"

    def kill(self) -> None:
        """As a machine does that goes away."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self._process.communicate()


@contextmanager
def serving() -> Iterator[Server]:
    missing = missing_installs()
    if missing:
        pytest.skip(f"the local model is not installed: {' && '.join(missing)}")
    server = Server()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with serving() as one:
        yield one


@pytest.fixture
def mortal() -> Iterator[Server]:
    """A server of its own, for a test that kills it."""
    with serving() as one:
        yield one
