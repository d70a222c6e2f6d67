from __future__ import annotations

import tempfile

import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from loopwright.checkpoint.sqlite import SqliteSaver
from tests.checkpoint.contract import SaverContract
from tests.checkpoint.test_threads_as_machine import Threads


class TestSqliteSaver(SaverContract):
    @pytest.fixture
    def saver(self, tmp_path):
        with SqliteSaver(tmp_path / "threads.sqlite") as saver:
            yield saver


class TestSqliteSaverInMemory(SaverContract):
    @pytest.fixture
    def saver(self):
        with SqliteSaver(":memory:") as saver:
            yield saver


class ThreadsOnDisk(Threads):
    """Random lives of threads; two savers take turns, as two processes would, and one forgets all now and then."""

    def make_saver(self):
        self.folder = tempfile.TemporaryDirectory()
        self.pair = [SqliteSaver(f"{self.folder.name}/threads.sqlite") for _ in range(2)]
        return self.pair[0]

    @rule()
    def the_other_one_goes_on(self):
        self.saver = self.pair[self.saver is self.pair[0]]

    @rule()
    def begin_without_memory(self):
        at = self.pair.index(self.saver)
        self.saver.close()
        self.saver = self.pair[at] = SqliteSaver(f"{self.folder.name}/threads.sqlite")

    def teardown(self):
        for saver in self.pair:
            saver.close()
        self.folder.cleanup()


TestThreadsOnDisk = ThreadsOnDisk.TestCase
TestThreadsOnDisk.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
