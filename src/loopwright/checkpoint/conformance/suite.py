"""The whole suite, and how it gets its saver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopwright.checkpoint.base import BaseCheckpointSaver
from loopwright.checkpoint.conformance.awaited import Awaited
from loopwright.checkpoint.conformance.durable import DurableConformance
from loopwright.checkpoint.conformance.known import KnownConformance
from loopwright.checkpoint.conformance.records import Saver
from loopwright.checkpoint.conformance.threads import ThreadsConformance
from loopwright.checkpoint.conformance.values import ValuesConformance

__all__ = ["SaverConformance"]


class SaverConformance(ValuesConformance, ThreadsConformance, KnownConformance, DurableConformance):
    """All of it. Each test runs twice: once with the plain methods, once with those that begin with `a`."""

    def make_saver(self, folder: Path) -> BaseCheckpointSaver:
        """A saver that holds nothing. Called once for each test; `folder` is an empty one for this test alone."""
        raise NotImplementedError(
            f"{type(self).__name__} needs make_saver(self, folder), which makes the saver to test"
        )

    def reopen(self, saver: Any) -> BaseCheckpointSaver:
        """Another saver of the same threads, as another process would open it, while `saver` is still open.

        A saver that keeps its threads in the process returns itself.
        """
        return saver

    @pytest.fixture
    def plain(self, tmp_path: Path) -> Iterator[Saver]:
        """The saver as it is, for tests that do not go both ways."""
        saver = self.make_saver(tmp_path)
        yield saver
        saver.close()

    @pytest.fixture(params=["plain", "async"])
    def saver(self, request: pytest.FixtureRequest, plain: Saver) -> Iterator[Saver]:
        """The saver, or the same with each plain method replaced by its async twin on an event loop."""
        if request.param == "plain":
            yield plain
            return
        awaited = Awaited(plain)
        yield awaited
        awaited.stop()
