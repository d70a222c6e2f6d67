"""The suite finds what is wrong with savers that break one promise each."""

from __future__ import annotations

import copy

import pytest
from msgspec import structs

from loopwright.checkpoint.conformance import SaverConformance
from loopwright.errors import ThreadConflictError
from tests.checkpoint.bytes_saver import BytesSaver


class LetsAnyoneClaim(BytesSaver):
    def claim(self, thread_id, seen, run_id):
        return super().claim(thread_id, self.load(thread_id), run_id)


class SaysNothing(BytesSaver):
    """The right error, which names neither thread nor run."""

    def claim(self, thread_id, seen, run_id):
        try:
            return super().claim(thread_id, seen, run_id)
        except ThreadConflictError:
            raise ThreadConflictError(self.words(thread_id)) from None

    def words(self, thread_id) -> str:
        return "not that thread, and not that run"


class SaysItInOtherWords(SaysNothing):
    def words(self, thread_id):
        return f"{self._threads[thread_id].runner} was first on {thread_id}"


class LetsAnyoneWrite(BytesSaver):
    def save(self, record, changed=None, claim=None):
        try:
            super().save(record, changed, claim)
        except ThreadConflictError:
            super().save(record, changed)


class HandsOutWhatItHolds(BytesSaver):
    def load(self, thread_id, ns="", checkpoint_id=None):
        key = (thread_id, ns, checkpoint_id)
        held = self.__dict__.setdefault("held", {})  # pyright: ignore[reportAttributeAccessIssue]
        return held.setdefault(key, super().load(*key))


class KeepsNested(BytesSaver):
    def delete_thread(self, thread_id):
        kept = copy.copy(self._threads.get(thread_id))
        super().delete_thread(thread_id)
        if kept is not None and "tools:1" in kept.spaces:
            self._threads[thread_id] = kept


class OverlooksWhatItCannotFilterBy(BytesSaver):
    def walk(self, thread_id, ns="", *, before=None, filter=None, limit=None):
        known = {key: value for key, value in (filter or {}).items() if key in ("source", "secret")}
        return super().walk(thread_id, ns, before=before, filter=known, limit=limit)


class ForgetsWrites(BytesSaver):
    def prune(self, thread_ids, **options):
        for thread_id in thread_ids:
            for record in list(self.walk(thread_id, None)):
                for task, _, _ in record.writes:
                    self.save_writes(thread_id, record.ns, record.id, task, [])
        return super().prune(thread_ids, **options)


class MixesCase(BytesSaver):
    def load(self, thread_id, ns="", checkpoint_id=None):
        return super().load(thread_id.lower(), ns, checkpoint_id)


class MakesTuplesLists(BytesSaver):
    def load(self, thread_id, ns="", checkpoint_id=None):
        found = super().load(thread_id, ns, checkpoint_id)
        return found and structs.replace(found, values={key: flat(value) for key, value in found.values.items()})


def flat(value):
    return [list(item) if type(item) is tuple else item for item in value]


@pytest.mark.parametrize(
    ("broken", "test", "arguments"),
    [
        (LetsAnyoneClaim, "test_of_two_processes_that_read_the_same_state_one_is_told", ()),
        (LetsAnyoneClaim, "test_of_two_runs_that_read_the_same_state_one_is_told", ()),
        (SaysNothing, "test_of_two_runs_that_read_the_same_state_one_is_told", ()),
        (LetsAnyoneWrite, "test_a_process_that_wakes_late_is_told_and_changes_nothing", ()),
        (HandsOutWhatItHolds, "test_what_the_caller_does_to_its_objects_reaches_no_checkpoint", ()),
        (HandsOutWhatItHolds, "test_two_processes_take_turns", ()),
        (KeepsNested, "test_deleting_a_thread_leaves_nothing", ()),
        (OverlooksWhatItCannotFilterBy, "test_a_hostile_filter_matches_nothing", ("a.b",)),
        (ForgetsWrites, "test_prune_is_safe_while_a_run_is_paused", ()),
        (MixesCase, "test_odd_names_are_names", ()),
        (MakesTuplesLists, "test_what_is_stored_comes_back_as_it_was", ("groups",)),
    ],
)
def test_the_suite_finds_it(broken, test, arguments):
    class Suite(SaverConformance):
        def reopen(self, saver):
            other = type(saver)()
            other._threads, other._numbers, other._lock = saver._threads, saver._numbers, saver._lock
            return other

    with pytest.raises((Exception, pytest.fail.Exception)):
        getattr(Suite(), test)(broken(), *arguments)
    getattr(Suite(), test)(BytesSaver(), *arguments)


def test_a_saver_may_have_words_of_its_own():
    SaverConformance().test_of_two_runs_that_read_the_same_state_one_is_told(SaysItInOtherWords())
