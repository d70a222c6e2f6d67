"""What every saver promises about threads: who may write, in what order one reads, what is forgotten."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest

from loopwright.checkpoint.base import Pending
from loopwright.checkpoint.conformance.records import MOMENT, Saver, ids, record, refused, said
from loopwright.errors import ThreadConflictError, UsageError
from loopwright.messages import AIMessage, HumanMessage
from loopwright.messages.history import add_messages

__all__ = ["ThreadsConformance"]


class ThreadsConformance:
    """Fenced, newest first, forgotten without a rest."""

    # --- claims -----------------------------------------------------------------

    def test_of_two_runs_that_read_the_same_state_one_is_told(self, saver: Saver) -> None:
        saver.save(record("c1"))
        seen_by_a, seen_by_b = saver.load("t"), saver.load("t")

        claim = saver.claim("t", seen_by_a, "run-a")
        with refused(ThreadConflictError, "t", "run-a"):
            saver.claim("t", seen_by_b, "run-b")

        saver.save(record("c2", "c1"), None, claim)
        saver.save_writes("t", "", "c2", "task", [("n", 1)], claim)
        assert saver.load("t").id == "c2"

    def test_a_thread_that_has_moved_on_cannot_be_claimed_from_where_it_was(self, saver: Saver) -> None:
        saver.save(record("c1"))
        seen = saver.load("t")
        claim = saver.claim("t", seen, "a")
        seen = saver.load("t")
        saver.save_writes("t", "", "c1", "task", [("n", 1)], claim)

        with refused(ThreadConflictError):
            saver.claim("t", seen, "b")

    def test_a_writer_that_wakes_late_is_told_and_changes_nothing(self, saver: Saver) -> None:
        """After a crash nobody gives a claim back: the next run takes it, the old one is fenced off."""
        saver.save(record("c1"))
        old = saver.claim("t", saver.load("t"), "sleeper")
        new = saver.claim("t", saver.load("t"), "waker")
        saver.save(record("c2", "c1"), None, new)

        with refused(ThreadConflictError, "t", "waker"):
            saver.save(record("c3", "c1"), None, old)
        with refused(ThreadConflictError):
            saver.save_writes("t", "", "c2", "task", [("n", 1)], old)

        assert ids(saver.walk("t")) == ["c2", "c1"]
        assert saver.load("t").writes == []

    def test_on_a_fresh_thread_the_later_claim_counts(self, saver: Saver) -> None:
        """A run that died before its first checkpoint blocks nobody."""
        first = saver.claim("t", None, "a")
        second = saver.claim("t", None, "b")

        with refused(ThreadConflictError):
            saver.save(record("c1"), None, first)
        saver.save(record("c2"), None, second)
        with refused(ThreadConflictError):
            saver.claim("t", None, "c")
        assert ids(saver.walk("t")) == ["c2"]

    def test_what_only_runs_below_have_saved_blocks_nobody(self, saver: Saver) -> None:
        """With durability="exit" a run below saves when it ends; the process may die before the run above has."""
        claim = saver.claim("t", None, "a")
        saver.save(record("c1", ns="tools:1"), None, claim)

        again = saver.claim("t", saver.load("t"), "b")
        saver.save(record("c2"), None, again)
        assert saver.load("t").id == "c2"

    def test_a_write_without_a_claim_takes_the_thread_over(self, saver: Saver) -> None:
        saver.save(record("c1"))
        claim = saver.claim("t", saver.load("t"), "a")
        saver.save(record("c2", "c1"))

        with refused(ThreadConflictError):
            saver.save(record("c3", "c1"), None, claim)

    def test_a_claim_on_a_deleted_thread_counts_no_more(self, saver: Saver) -> None:
        saver.save(record("c1"))
        seen = saver.load("t")
        claim = saver.claim("t", seen, "a")
        saver.delete_thread("t")

        with refused(ThreadConflictError):
            saver.save(record("c2", "c1"), None, claim)
        with refused(ThreadConflictError):
            saver.claim("t", seen, "b")
        assert saver.load("t") is None

    def test_nested_graphs_write_under_the_claim_of_their_run(self, saver: Saver) -> None:
        saver.save(record("c1"))
        claim = saver.claim("t", saver.load("t"), "a")
        saver.save(record("d1", ns="tools:1"), None, claim)
        saver.save(record("c2", "c1"), None, claim)

        assert saver.load("t", "tools:1").id == "d1"

    def test_many_claim_at_once_and_one_wins(self, saver: Saver) -> None:
        saver.save(record("c1"))
        seen = saver.load("t")
        start = threading.Barrier(8)
        won: list[int] = []

        def run(number: int) -> None:
            start.wait(10)
            try:
                claim = saver.claim("t", seen, f"run-{number}")
            except ThreadConflictError:
                return
            won.append(number)
            saver.save(record(f"w{number}", "c1", values={"winner": number}), None, claim)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)

        assert [saver.load("t").values["winner"]] == won

    def test_eight_threads_write_to_eight_threads(self, saver: Saver) -> None:
        def run(number: int) -> None:
            thread, parent = f"t{number}", None
            for step in range(20):
                seen = saver.load(thread)
                claim = saver.claim(thread, seen, "r")
                history = add_messages(seen.values["messages"] if seen else [], [HumanMessage(f"{number}-{step}")])
                saver.save(record(f"c{step}", parent, thread, values={"messages": history}), {"messages"}, claim)
                parent = f"c{step}"

        threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

        for number in range(8):
            expected = [f"{number}-{step}" for step in range(20)]
            assert said(saver.load(f"t{number}").values["messages"]) == expected
            assert len(ids(saver.walk(f"t{number}"))) == 20

    # --- walking ----------------------------------------------------------------

    def test_walk_goes_newest_first_over_all_branches(self, saver: Saver) -> None:
        saver.save(record("c1"))
        saver.save(record("c2", "c1"))
        saver.save(record("c3", "c1"))

        assert ids(saver.walk("t")) == ["c3", "c2", "c1"]
        assert ids(saver.walk("t", limit=2)) == ["c3", "c2"]
        assert ids(saver.walk("t", limit=0)) == []
        assert ids(saver.walk("t", before="c2")) == ["c1"]
        assert ids(saver.walk("t", before="unknown")) == []
        assert ids(saver.walk("nobody")) == []

    def test_walk_filters_by_what_metadata_says(self, saver: Saver) -> None:
        saver.save(record("c1", source="input", step=-1, metadata={"user": "ann"}))
        saver.save(record("c2", "c1", source="loop", step=0, metadata={"user": "ann", "none": None}))
        saver.save(record("c3", "c2", source="loop", step=1, metadata={"user": "bob"}))

        assert ids(saver.walk("t", filter={"source": "input"})) == ["c1"]
        assert ids(saver.walk("t", filter={"source": "loop", "user": "ann"})) == ["c2"]
        assert ids(saver.walk("t", filter={"user": "ann"}, limit=1)) == ["c2"]
        assert ids(saver.walk("t", filter={"none": None})) == ["c2"]
        assert ids(saver.walk("t", filter={"user": "ann"}, before="c2")) == ["c1"]

    @pytest.mark.parametrize("key", ["x') OR '1'='1", "a.b", "$.x", '"', "\\", "", "source; --", "日本"])
    def test_a_hostile_filter_matches_nothing(self, saver: Saver, key: Any) -> None:  # B124
        saver.save(record("c1", None, "ann", metadata={"secret": "d"}))
        saver.save(record("c1", None, "bob", metadata={"secret": "d"}))

        assert ids(saver.walk(None, None, filter={key: "d"})) == []
        assert ids(saver.walk("ann", filter={"secret": "d' OR '1'='1"})) == []

    def test_walk_can_go_over_all_threads_and_namespaces(self, saver: Saver) -> None:
        saver.save(record("c1", None, "a"))
        saver.save(record("d1", None, "a", ns="tools:1"))
        saver.save(record("c2", None, "b"))

        assert ids(saver.walk(None, None)) == ["c2", "d1", "c1"]
        assert ids(saver.walk(None)) == ["c2", "c1"]
        assert ids(saver.walk("a", None)) == ["d1", "c1"]
        assert ids(saver.walk("a", "tools:1")) == ["d1"]

    def test_a_paused_walk_blocks_nobody(self, saver: Saver) -> None:  # B132
        """Its reader may save and delete meanwhile, from any thread."""
        for number in range(1, 4):
            saver.save(record(f"c{number}"))
        walk = saver.walk("t")
        assert next(walk).id == "c3"

        writer = threading.Thread(target=saver.save, args=(record("c4", "c3"),))
        writer.start()
        writer.join(10)
        assert not writer.is_alive()
        assert next(walk).id == "c2"
        saver.delete_thread("t")
        assert list(walk) == []

    # --- whole threads ----------------------------------------------------------

    def test_deleting_a_thread_leaves_nothing(self, saver: Saver) -> None:
        saver.save(record("c1", values={"messages": add_messages([], ["hi"])}))
        saver.save(record("d1", ns="tools:1", values={"n": 1}))
        saver.save_writes("t", "", "c1", "task", [("n", 1)])
        saver.delete_thread("t")
        saver.delete_thread("t")

        assert saver.load("t") is None
        assert saver.load("t", "tools:1") is None
        assert ids(saver.walk(None, None)) == []
        assert saver.size_report() == {"bytes": 0, "threads": 0, "checkpoints": 0}

    def test_a_copy_of_a_thread_goes_its_own_way(self, saver: Saver) -> None:
        history = add_messages([], [HumanMessage("hi", id="1")])
        saver.save(record("c1", values={"messages": history}))
        saver.save_writes("t", "", "c1", "task", [("n", 1)])
        saver.save(record("d1", ns="tools:1"))
        saver.copy_thread("t", "u")
        for thread in ("t", "u"):
            grown = add_messages(saver.load(thread).values["messages"], [AIMessage(thread, id=thread)])
            saver.save(record("c2", "c1", thread, values={"messages": grown}), {"messages"})
        saver.save_writes("u", "", "c1", "other", [("n", 2)])

        assert said(saver.load("t").values["messages"]) == ["hi", "t"]
        assert said(saver.load("u").values["messages"]) == ["hi", "u"]
        assert saver.load("u").parent_id == "c1"
        assert saver.load("u").thread_id == "u"
        assert saver.load("t", "", "c1").writes == [("task", "n", 1)]
        assert saver.load("u", "", "c1").writes == [("task", "n", 1), ("other", "n", 2)]
        assert saver.load("u", "tools:1").id == "d1"

    def test_copying_from_nowhere_or_onto_something_is_refused(self, saver: Saver) -> None:
        saver.save(record("c1"))
        saver.save(record("c1", None, "u"))

        with refused(UsageError, "x"):
            saver.copy_thread("x", "y")
        with refused(UsageError, "u"):
            saver.copy_thread("t", "u")

    def test_prune_keeps_the_latest(self, saver: Saver) -> None:
        for thread in ("t", "u"):
            for number in range(1, 5):
                parent = f"c{number - 1}" if number > 1 else None
                saver.save(record(f"c{number}", parent, thread, values={"a": 1, "n": number}), {"n"})

        assert saver.prune(["t", "nobody"]) == 3
        assert ids(saver.walk("t")) == ["c4"]
        assert saver.load("t").values == {"a": 1, "n": 4}
        assert saver.load("t").parent_id is None
        assert saver.prune(["u"], keep=2) == 2
        assert ids(saver.walk("u")) == ["c4", "c3"]
        assert saver.load("u").parent_id == "c3"
        assert saver.prune(["u"], keep=2) == 0

    def test_prune_keeps_the_head_even_if_others_are_newer(self, saver: Saver) -> None:
        saver.save(record("c1"))
        saver.save(record("c2", "c1"))
        saver.save(record("c1"))

        assert saver.prune(["t"]) == 0
        assert saver.load("t").id == "c1"

    def test_prune_by_age(self, saver: Saver) -> None:
        for number in range(1, 6):
            saver.save(record(f"c{number}", f"c{number - 1}" if number > 1 else None))
        saver.save(record("x", "c5", created_at="once"))
        saver.save(record("c7", "x"))

        assert saver.prune(["t"], older_than=MOMENT + timedelta(seconds=3)) == 2
        assert ids(saver.walk("t")) == ["c7", "x", "c5", "c4", "c3"]

    def test_prune_can_delete_threads_by_age(self, saver: Saver) -> None:
        saver.save(record("c1"))
        saver.save(record("c5", "c1"))
        saver.save(record("c1", None, "u"))

        assert saver.prune(["t", "u"], strategy="delete", older_than=MOMENT + timedelta(seconds=3)) == 2
        assert ids(saver.walk(None)) == ["c5"]
        assert saver.prune(["t"], strategy="delete") == 1
        assert saver.load("t") is None

    def test_prune_by_age_may_take_the_head_of_a_fork(self, saver: Saver) -> None:
        saver.save(record("c5"))
        saver.save(record("c1"))

        assert saver.prune(["t"], strategy="delete", older_than=MOMENT + timedelta(seconds=3)) == 1
        assert saver.load("t").id == "c5"

    def test_prune_is_safe_while_a_run_is_paused(self, saver: Saver) -> None:  # B129
        """What finished tasks wrote, and what nested graphs wait for, stays as long as the thread waits."""
        saver.save(record("c1"))
        saver.save(record("c2", "c1", pending=(Pending("7", "tools"), Pending("8", "tools"))))
        saver.save_writes("t", "", "c2", "7", [("n", 1)])
        saver.save(record("d1", ns="tools:8"))
        saver.save(record("d2", "d1", ns="tools:8"))
        saver.save(record("e1", ns="memory"))

        assert saver.prune(["t"]) == 2
        assert saver.load("t").writes == [("7", "n", 1)]
        assert saver.load("t", "tools:8").id == "d2"

        saver.save(record("c3", "c2"))
        assert saver.prune(["t"]) == 2
        assert saver.load("t", "tools:8") is None
        assert saver.load("t", "memory").id == "e1"

    def test_a_run_goes_on_after_a_prune(self, saver: Saver) -> None:
        """Its parent may be gone: the record has all that is needed."""
        saver.save(record("c1", values={"a": 1}))
        claim = saver.claim("t", saver.load("t"), "r")
        saver.save(record("c2", "c1", values={"a": 1, "b": 1}), {"b"}, claim)
        saver.prune(["t"])
        saver.save(record("c3", "c1", values={"a": 1, "b": 2}), {"b"}, claim)

        assert saver.load("t").values == {"a": 1, "b": 2}

    @pytest.mark.parametrize(
        ("threads", "options"),
        [
            (["t"], {"strategy": "all"}),
            (["t"], {"keep": 0}),
            ("t", {}),
            (["t"], {"older_than": datetime(2026, 1, 1)}),  # noqa: DTZ001
        ],
    )
    def test_prune_refuses_what_it_cannot_mean(self, saver: Saver, threads: Any, options: Any) -> None:
        saver.save(record("c1"))

        with refused(UsageError):
            saver.prune(threads, **options)
        assert saver.load("t").id == "c1"

    def test_size_report_of_one_thread(self, saver: Saver) -> None:
        saver.save(record("c1", values={"a": [1, 2]}))
        saver.save(record("c1", None, "u", values={"a": [1, 2] * 100}))

        one, both = saver.size_report("t"), saver.size_report()
        assert (one["threads"], one["checkpoints"]) == (1, 1)
        assert (both["threads"], both["checkpoints"]) == (2, 2)
        assert 0 < one["bytes"] < both["bytes"]
