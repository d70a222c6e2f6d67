"""What every saver promises, as tests that a saver's author runs: derive a class from `SaverConformance`.

    class TestMySaver(SaverConformance):
        def make_saver(self, folder):
            return MySaver(folder / "threads.db")

        def reopen(self, saver):
            return MySaver(saver.path)

Needs pytest, and nothing else that Loopwright does not bring. Each promise is told in `checkpoint/base.py`; of errors
the class counts, and that they name what they must. A number beside a test (`# B117`) is that of a public fault report.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in ("durable", "known", "threads", "values")))

from loopwright.checkpoint.conformance.suite import SaverConformance  # noqa: E402 - its asserts are to be rewritten

__all__ = ["SaverConformance"]
