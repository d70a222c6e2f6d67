"""Lists of messages by runs of numbers, and rows among them that are no messages."""

from __future__ import annotations

import pytest

from loopwright.checkpoint.codec import Codec
from loopwright.checkpoint.conformance.records import loaded, record
from loopwright.checkpoint.layout import Ranges
from loopwright.checkpoint.registry import Registry
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.errors import StoredDataError


def test_a_place_is_found_in_whichever_run_it_is():
    ranges = Ranges([0, 2, 5, 3])
    assert [ranges.at(place) for place in range(5)] == list(ranges) == [0, 1, 5, 6, 7]
    with pytest.raises(IndexError):
        ranges.at(5)


def test_a_row_that_holds_a_number_is_damaged():
    """Numbers stand between the messages where many are read in one go: one in the place of a message is none."""
    with pytest.raises(StoredDataError):
        Codec(Registry()).decode_messages([b"\x01v\x05", b"\x01v\x05"], "messages", [])


def test_a_thread_that_was_claimed_and_never_saved_is_none(tmp_path):
    with SqliteSaver(tmp_path / "threads.sqlite") as saver:
        saver.save(record("c1"))
        saver.claim("other", None, "a run that has died")
        assert saver.size_report("nobody") == {"bytes": 0, "threads": 0, "checkpoints": 0}
        saver.copy_thread("t", "other")
        copied = saver.load("other")
        assert copied is not None
        assert copied.id == loaded(saver).id
