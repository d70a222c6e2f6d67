"""Fixtures for tests of agents; pytest finds them when loopwright is installed.

`model_recording` records model calls to a file beside the test and replays them; `manual_clock` lets time pass
without waiting. Nothing of loopwright is imported before a test asks for one of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from loopwright.testing.clock import ManualClock

__all__ = ["manual_clock", "model_recording", "pytest_addoption"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--record-models`."""
    parser.getgroup("loopwright").addoption(
        "--record-models",
        action="store_true",
        help="call the real models and record what they answer, instead of replaying",
    )


@pytest.fixture
def model_recording(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Wraps the model of a test: call it with a model or with its name, "openai:gpt-4o-mini" say.

    With `--record-models` the model is called, and what it answers is kept in `recordings/<file>.<test>.json` beside
    the test. Without, the answers come from that file.
    """
    from loopwright.testing.recording import Tape

    name = re.sub(r"[^\w.-]+", "_", request.node.name).strip("_")
    path = request.path.parent / "recordings" / f"{request.path.stem}.{name}.json"
    tape = Tape(path, record=bool(request.config.getoption("--record-models")))
    yield tape.wrap
    tape.save()


@pytest.fixture
def manual_clock() -> Iterator[ManualClock]:
    """A `ManualClock` that runs for the length of the test."""
    from loopwright.testing.clock import ManualClock

    with ManualClock() as clock:
        yield clock
