"""What every saver promises, as tests: derive a class `Test...` and give it a `saver` fixture."""

from __future__ import annotations

import pytest

from loopwright.checkpoint.base import BaseCheckpointSaver
from tests.checkpoint.contract_known import KnownContract
from tests.checkpoint.contract_threads import ThreadsContract
from tests.checkpoint.contract_values import ValuesContract


class SaverContract(ValuesContract, ThreadsContract, KnownContract):
    """All of it."""

    @pytest.fixture
    def saver(self) -> BaseCheckpointSaver:
        raise AssertionError("a class that derives from SaverContract has a fixture `saver`")
