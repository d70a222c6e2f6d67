"""The fixtures of our own pytest plugin, whether or not the package is installed; and each record of a proof."""

import pytest

from loopwright.testing.pytest_plugin import manual_clock
from tests.models.recorded import Format

__all__ = ["manual_clock", "pytest_generate_tests"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`record` and `streamed` of a `Proof`."""
    played: Format | None = getattr(metafunc.cls, "format", None)
    if played is None:
        return
    for name, ids in (("record", [*played.records]), ("streamed", played.streams)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, [played.records[id] for id in ids], ids=ids)
