from __future__ import annotations

from loopwright.checkpoint.conformance import SaverConformance
from tests.checkpoint.bytes_saver import BytesSaver


class TestBytesSaver(SaverConformance):
    """The conformance suite itself, on a saver that another process could open."""

    many = 500
    test_a_store_grows_with_what_was_said = None  # it keeps each value in full  # pyright: ignore[reportAssignmentType]
    test_what_a_task_returns_whole_is_stored_once = None  # the same  # pyright: ignore[reportAssignmentType]
    test_a_history_that_is_handed_to_a_graph_inside_is_not_stored_again = None  # the same  # pyright: ignore[reportAssignmentType]
    test_a_message_is_counted_once = None  # the same  # pyright: ignore[reportAssignmentType]

    def make_saver(self, folder):
        return BytesSaver()

    def reopen(self, saver):
        return saver.reopened()
