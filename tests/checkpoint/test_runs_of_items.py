"""Lists of messages by runs of numbers, and rows among them that are no messages."""

from __future__ import annotations

import pytest

from loopwright.checkpoint.codec import Codec
from loopwright.checkpoint.layout import Ranges
from loopwright.checkpoint.registry import Registry
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
