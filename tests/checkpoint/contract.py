"""What every saver promises, as tests: derive a class `Test...` and give it a `saver` fixture."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from loopwright.checkpoint.base import NO_ARG, BaseCheckpointSaver, Pending, Record
from loopwright.errors import ThreadConflictError, UnstorableError, UsageError
from loopwright.graph.types import Send
from loopwright.messages import AIMessage, HumanMessage, ToolMessage
from loopwright.messages.history import History, add_messages

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def record(id: str, parent: str | None = None, thread: str = "t", /, **fields) -> Record:
    """A checkpoint whose time of creation grows with the digits of its id."""
    digits = int("".join(letter for letter in id if letter.isdigit()) or 0)
    fields.setdefault("created_at", (MOMENT + timedelta(seconds=digits)).isoformat())
    return Record(id=id, parent_id=parent, thread_id=thread, **fields)


def said(history: list | None) -> list[str]:
    return [message.text for message in history or []]


def ids(records) -> list[str]:
    return [found.id for found in records]


class SaverContract:
    """Tests that hold for each saver."""

    @pytest.fixture
    def saver(self) -> BaseCheckpointSaver:
        raise AssertionError("a class that derives from SaverContract has a fixture `saver`")

    # --- loading and saving -----------------------------------------------------

    def test_what_was_saved_is_loaded(self, saver):
        pending = (Pending("7", "tools", ("push", 0), {"city": "Oslo"}), Pending("8", "model"))
        saver.save(
            record(
                "c1",
                step=3,
                source="input",
                metadata={"run_id": "r", "parents": {"": "p"}},
                values={"n": 1, "items": [1, {"a": (2,)}]},
                pending=pending,
                writes=[("7", "n", 2), ("7", "__goto__", [Send("x", {"y": 1})])],
            )
        )

        found = saver.load("t")

        assert (found.id, found.thread_id, found.ns, found.parent_id) == ("c1", "t", "", None)
        assert (found.step, found.source, found.created_at) == (3, "input", "2026-01-01T00:00:01+00:00")
        assert found.metadata == {"run_id": "r", "parents": {"": "p"}}
        assert found.describe() == {"source": "input", "step": 3, "run_id": "r", "parents": {"": "p"}}
        assert found.values == {"n": 1, "items": [1, {"a": (2,)}]}
        assert found.pending == pending
        assert found.pending[1].arg is NO_ARG
        assert found.writes == [("7", "n", 2), ("7", "__goto__", [Send("x", {"y": 1})])]

    def test_what_does_not_exist_is_none(self, saver):
        saver.save(record("c1"))

        assert saver.load("other") is None
        assert saver.load("t", "ns") is None
        assert saver.load("t", "", "c9") is None

    def test_the_head_is_what_was_saved_last_and_older_ones_stay(self, saver):
        saver.save(record("c1", values={"n": 1}))
        saver.save(record("c2", "c1", values={"n": 2}))

        assert saver.load("t").id == "c2"
        assert saver.load("t", "", "c1").values == {"n": 1}

    def test_a_fork_moves_the_head(self, saver):
        saver.save(record("c1", values={"n": 1}))
        saver.save(record("c2", "c1", values={"n": 2}))
        saver.save(record("c3", "c1", source="fork", values={"n": 3}))

        head = saver.load("t")
        assert (head.id, head.parent_id, head.values) == ("c3", "c1", {"n": 3})
        assert saver.load("t", "", "c2").values == {"n": 2}

    def test_only_changed_channels_are_taken_from_the_record(self, saver):
        """What did not change is the parent's, also if the record shows something else."""
        saver.save(record("c1", values={"a": 1, "b": 1, "gone": 1}))
        saver.save(record("c2", "c1", values={"a": 2, "b": 2}), {"a", "gone"})

        assert saver.load("t").values == {"a": 2, "b": 1}

    def test_all_channels_are_stored_when_the_parent_is_not(self, saver):
        saver.save(record("c2", "c1", values={"a": 2, "b": 2}), {"a"})

        assert saver.load("t").values == {"a": 2, "b": 2}

    def test_saving_an_id_again_replaces_it_and_keeps_its_writes(self, saver):
        saver.save(record("c1", values={"a": 1}))
        saver.save_writes("t", "", "c1", "task", [("a", 5)])
        saver.save(record("c2", "c1", values={"a": 2}))
        saver.save(record("c1", values={"a": 9}))

        assert saver.load("t").values == {"a": 9}
        assert saver.load("t").writes == [("task", "a", 5)]
        assert ids(saver.walk("t")) == ["c2", "c1"]

    def test_namespaces_have_heads_of_their_own(self, saver):
        saver.save(record("c1", values={"n": "outer"}))
        saver.save(record("d1", ns="tools:7", values={"n": "inner"}))

        assert saver.load("t").values == {"n": "outer"}
        assert saver.load("t", "tools:7").values == {"n": "inner"}

    def test_versions_grow_where_a_channel_changes(self, saver):
        saver.save(record("c1", values={"a": 1, "b": 1}))
        saver.save(record("c2", "c1", values={"a": 2, "b": 1}), {"a"})

        first, second = saver.load("t", "", "c1").versions, saver.load("t").versions
        assert first["a"] < second["a"]
        assert first["b"] == second["b"]

    # --- histories --------------------------------------------------------------

    def test_a_history_is_a_history_again(self, saver):
        history = add_messages([], [HumanMessage("hi", id="1")])
        saver.save(record("c1", values={"messages": history}))
        longer = add_messages(history, [AIMessage("yes", id="2")])
        saver.save(record("c2", "c1", values={"messages": longer}), {"messages"})

        found = saver.load("t").values["messages"]
        assert type(found) is History
        assert found == longer
        assert said(saver.load("t", "", "c1").values["messages"]) == ["hi"]

    def test_two_branches_of_a_history_do_not_mix(self, saver):
        """Both grow from the same version, and both stay readable whatever grows later."""
        root = add_messages([], [HumanMessage("root", id="0")])
        saver.save(record("c1", values={"messages": root}))
        for branch in ("left", "right"):
            grown = add_messages(saver.load("t", "", "c1").values["messages"], [AIMessage(branch, id=branch)])
            saver.save(record(branch, "c1", values={"messages": grown}), {"messages"})
            deeper = add_messages(saver.load("t").values["messages"], [AIMessage("more", id=f"{branch}2")])
            saver.save(record(f"{branch}2", branch, values={"messages": deeper}), {"messages"})

        assert said(saver.load("t", "", "left2").values["messages"]) == ["root", "left", "more"]
        assert said(saver.load("t", "", "right2").values["messages"]) == ["root", "right", "more"]
        assert said(saver.load("t", "", "left").values["messages"]) == ["root", "left"]

    def test_plain_lists_that_grow_and_branch(self, saver):
        saver.save(record("c1", values={"log": ["a"]}))
        saver.save(record("c2", "c1", values={"log": ["a", "b"]}), {"log"})
        saver.save(record("c3", "c1", values={"log": ["a", "c"]}), {"log"})
        saver.save(record("c4", "c2", values={"log": ["a", "b", "d", {"e": 1}]}), {"log"})
        saver.save(record("c5", "c4", values={"log": ["x"]}), {"log"})
        saver.save(record("c6", "c5", values={"log": ["x", "y"]}), {"log"})

        logs = {id: saver.load("t", "", id).values["log"] for id in ("c1", "c2", "c3", "c4", "c5", "c6")}
        assert logs == {
            "c1": ["a"],
            "c2": ["a", "b"],
            "c3": ["a", "c"],
            "c4": ["a", "b", "d", {"e": 1}],
            "c5": ["x"],
            "c6": ["x", "y"],
        }
        assert type(logs["c2"]) is list

    @pytest.mark.parametrize("words", [10, 200])
    def test_B127_a_store_grows_with_what_was_said(self, saver, words):
        """Twice the turns take about twice the bytes, not four times."""
        sizes = {}
        parent, history = None, History()
        for turn in range(1, 201):
            for step, message in enumerate((HumanMessage("word " * words), AIMessage("answer " * words))):
                history = add_messages(history, [message])
                found = record(f"c{turn}-{step}", parent, values={"messages": history, "turn": turn})
                saver.save(found, {"messages", "turn"})
                saver.save_writes("t", "", found.id, "task", [("messages", [message])])
                parent = found.id
            if turn in (50, 100, 200):
                sizes[turn] = saver.size_report()["bytes"]

        assert sizes[100] / sizes[50] < 2.5
        assert sizes[200] / sizes[100] < 2.5

    def test_a_message_is_counted_once(self, saver):
        history = add_messages([], [HumanMessage("x" * 1000)])
        saver.save(record("c1", values={"messages": history}))
        for number in range(2, 12):
            saver.save(record(f"c{number}", f"c{number - 1}", values={"messages": history, "n": number}), {"n"})

        report = saver.size_report()
        assert report["threads"] == 1
        assert report["checkpoints"] == 11
        assert 1000 < report["bytes"] < 3000

    # --- isolation --------------------------------------------------------------

    def test_what_the_caller_does_to_its_objects_reaches_no_checkpoint(self, saver):
        values = {"cart": [{"name": "tea"}], "tags": {"a"}, "messages": History([HumanMessage("hi", id="1")])}
        writes = [("cart", [{"name": "milk"}])]
        saver.save(record("c1", values=values, metadata={"tags": ["x"]}, pending=(Pending("1", "n", (), [1]),)))
        saver.save_writes("t", "", "c1", "task", writes)

        values["cart"][0]["name"] = "gone"
        values["tags"].add("b")
        values["messages"].append(AIMessage("no"))
        writes[0][1][0]["name"] = "gone"
        first = saver.load("t")
        first.values["cart"].clear()
        first.values["tags"].clear()
        first.values["messages"].clear()
        first.metadata["tags"].append("y")
        first.pending[0].arg.append(2)
        first.writes[0][2].clear()

        found = saver.load("t")
        assert found.values["cart"] == [{"name": "tea"}]
        assert found.values["tags"] == {"a"}
        assert said(found.values["messages"]) == ["hi"]
        assert found.metadata == {"tags": ["x"]}
        assert found.pending[0].arg == [1]
        assert found.writes == [("task", "cart", [{"name": "milk"}])]

    def test_threads_do_not_see_each_other(self, saver):
        for thread in ("a", "b", "ä/☃", "a|b", "%", "'; drop table"):
            saver.save(record("c1", None, thread, values={"who": thread}))

        for thread in ("a", "b", "ä/☃", "a|b", "%", "'; drop table"):
            assert saver.load(thread).values == {"who": thread}
            assert ids(saver.walk(thread)) == ["c1"]

    # --- writes -----------------------------------------------------------------

    def test_the_writes_of_a_task_replace_what_it_wrote_before(self, saver):
        saver.save(record("c1"))
        saver.save_writes("t", "", "c1", "one", [("__error__", "boom")])
        saver.save_writes("t", "", "c1", "two", [("n", 2)])
        for _ in range(2):
            saver.save_writes("t", "", "c1", "one", [("n", 1), ("n", 3)])

        assert sorted(saver.load("t").writes) == [("one", "n", 1), ("one", "n", 3), ("two", "n", 2)]

    def test_a_task_that_wrote_nothing_is_known_to_have_finished_by_the_engines_own_word(self, saver):
        saver.save(record("c1"))
        saver.save_writes("t", "", "c1", "one", [("__return__", None)])

        assert saver.load("t").writes == [("one", "__return__", None)]

    def test_writes_of_a_checkpoint_that_is_not_there_are_refused(self, saver):
        saver.save(record("c1"))

        with pytest.raises(UsageError, match="no checkpoint 'c2'"):
            saver.save_writes("t", "", "c2", "one", [("n", 1)])
        with pytest.raises(UsageError, match="no checkpoint 'c1'"):
            saver.save_writes("other", "", "c1", "one", [("n", 1)])
        assert saver.load("other") is None

    # --- claims -----------------------------------------------------------------

    def test_of_two_runs_that_read_the_same_state_one_is_told(self, saver):
        saver.save(record("c1"))
        seen_by_a, seen_by_b = saver.load("t"), saver.load("t")

        claim = saver.claim("t", seen_by_a, "run-a")
        with pytest.raises(ThreadConflictError, match=r"'t' was changed by another run \(run-a\).* has run nothing"):
            saver.claim("t", seen_by_b, "run-b")

        saver.save(record("c2", "c1"), None, claim)
        saver.save_writes("t", "", "c2", "task", [("n", 1)], claim)
        assert saver.load("t").id == "c2"

    def test_a_thread_that_has_moved_on_cannot_be_claimed_from_where_it_was(self, saver):
        saver.save(record("c1"))
        seen = saver.load("t")
        claim = saver.claim("t", seen, "a")
        seen = saver.load("t")
        saver.save_writes("t", "", "c1", "task", [("n", 1)], claim)

        with pytest.raises(ThreadConflictError):
            saver.claim("t", seen, "b")

    def test_a_writer_that_wakes_late_is_told_and_changes_nothing(self, saver):
        """After a crash nobody gives a claim back: the next run takes it, the old one is fenced off."""
        saver.save(record("c1"))
        old = saver.claim("t", saver.load("t"), "sleeper")
        new = saver.claim("t", saver.load("t"), "waker")
        saver.save(record("c2", "c1"), None, new)

        with pytest.raises(ThreadConflictError, match=r"taken over by another run \(waker\)"):
            saver.save(record("c3", "c1"), None, old)
        with pytest.raises(ThreadConflictError):
            saver.save_writes("t", "", "c2", "task", [("n", 1)], old)

        assert ids(saver.walk("t")) == ["c2", "c1"]
        assert saver.load("t").writes == []

    def test_on_a_fresh_thread_the_later_claim_counts(self, saver):
        """A run that died before its first checkpoint blocks nobody."""
        first = saver.claim("t", None, "a")
        second = saver.claim("t", None, "b")

        with pytest.raises(ThreadConflictError):
            saver.save(record("c1"), None, first)
        saver.save(record("c2"), None, second)
        with pytest.raises(ThreadConflictError):
            saver.claim("t", None, "c")
        assert ids(saver.walk("t")) == ["c2"]

    def test_a_write_without_a_claim_takes_the_thread_over(self, saver):
        saver.save(record("c1"))
        claim = saver.claim("t", saver.load("t"), "a")
        saver.save(record("c2", "c1"))

        with pytest.raises(ThreadConflictError):
            saver.save(record("c3", "c1"), None, claim)

    def test_a_claim_on_a_deleted_thread_counts_no_more(self, saver):
        saver.save(record("c1"))
        seen = saver.load("t")
        claim = saver.claim("t", seen, "a")
        saver.delete_thread("t")

        with pytest.raises(ThreadConflictError):
            saver.save(record("c2", "c1"), None, claim)
        with pytest.raises(ThreadConflictError):
            saver.claim("t", seen, "b")
        assert saver.load("t") is None

    def test_nested_graphs_write_under_the_claim_of_their_run(self, saver):
        saver.save(record("c1"))
        claim = saver.claim("t", saver.load("t"), "a")
        saver.save(record("d1", ns="tools:1"), None, claim)
        saver.save(record("c2", "c1"), None, claim)

        assert saver.load("t", "tools:1").id == "d1"

    def test_many_claim_at_once_and_one_wins(self, saver):
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

    def test_eight_threads_write_to_eight_threads(self, saver):
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

    def test_walk_goes_newest_first_over_all_branches(self, saver):
        saver.save(record("c1"))
        saver.save(record("c2", "c1"))
        saver.save(record("c3", "c1"))

        assert ids(saver.walk("t")) == ["c3", "c2", "c1"]
        assert ids(saver.walk("t", limit=2)) == ["c3", "c2"]
        assert ids(saver.walk("t", limit=0)) == []
        assert ids(saver.walk("t", before="c2")) == ["c1"]
        assert ids(saver.walk("t", before="unknown")) == []
        assert ids(saver.walk("nobody")) == []

    def test_walk_filters_by_what_metadata_says(self, saver):
        saver.save(record("c1", source="input", step=-1, metadata={"user": "ann"}))
        saver.save(record("c2", "c1", source="loop", step=0, metadata={"user": "ann", "none": None}))
        saver.save(record("c3", "c2", source="loop", step=1, metadata={"user": "bob"}))

        assert ids(saver.walk("t", filter={"source": "input"})) == ["c1"]
        assert ids(saver.walk("t", filter={"source": "loop", "user": "ann"})) == ["c2"]
        assert ids(saver.walk("t", filter={"user": "ann"}, limit=1)) == ["c2"]
        assert ids(saver.walk("t", filter={"none": None})) == ["c2"]
        assert ids(saver.walk("t", filter={"user": "ann"}, before="c2")) == ["c1"]

    @pytest.mark.parametrize("key", ["x') OR '1'='1", "a.b", "$.x", '"', "\\", "", "source; --", "日本"])
    def test_B124_a_hostile_filter_matches_nothing(self, saver, key):
        saver.save(record("c1", None, "ann", metadata={"secret": "d"}))
        saver.save(record("c1", None, "bob", metadata={"secret": "d"}))

        assert ids(saver.walk(None, None, filter={key: "d"})) == []
        assert ids(saver.walk("ann", filter={"secret": "d' OR '1'='1"})) == []

    def test_walk_can_go_over_all_threads_and_namespaces(self, saver):
        saver.save(record("c1", None, "a"))
        saver.save(record("d1", None, "a", ns="tools:1"))
        saver.save(record("c2", None, "b"))

        assert ids(saver.walk(None, None)) == ["c2", "d1", "c1"]
        assert ids(saver.walk(None)) == ["c2", "c1"]
        assert ids(saver.walk("a", None)) == ["d1", "c1"]
        assert ids(saver.walk("a", "tools:1")) == ["d1"]

    def test_B132_a_paused_walk_blocks_nobody(self, saver):
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

    def test_deleting_a_thread_leaves_nothing(self, saver):
        saver.save(record("c1", values={"messages": add_messages([], ["hi"])}))
        saver.save(record("d1", ns="tools:1", values={"n": 1}))
        saver.save_writes("t", "", "c1", "task", [("n", 1)])
        saver.delete_thread("t")
        saver.delete_thread("t")

        assert saver.load("t") is None
        assert saver.load("t", "tools:1") is None
        assert ids(saver.walk(None, None)) == []
        assert saver.size_report() == {"bytes": 0, "threads": 0, "checkpoints": 0}

    def test_a_copy_of_a_thread_goes_its_own_way(self, saver):
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

    def test_copying_from_nowhere_or_onto_something_is_refused(self, saver):
        saver.save(record("c1"))
        saver.save(record("c1", None, "u"))

        with pytest.raises(UsageError, match="no thread 'x'"):
            saver.copy_thread("x", "y")
        with pytest.raises(UsageError, match="'u' exists"):
            saver.copy_thread("t", "u")

    def test_prune_keeps_the_latest(self, saver):
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

    def test_prune_keeps_the_head_even_if_others_are_newer(self, saver):
        saver.save(record("c1"))
        saver.save(record("c2", "c1"))
        saver.save(record("c1"))

        assert saver.prune(["t"]) == 0
        assert saver.load("t").id == "c1"

    def test_prune_by_age(self, saver):
        for number in range(1, 6):
            saver.save(record(f"c{number}", f"c{number - 1}" if number > 1 else None))
        saver.save(record("x", "c5", created_at="once"))
        saver.save(record("c7", "x"))

        assert saver.prune(["t"], older_than=MOMENT + timedelta(seconds=3)) == 2
        assert ids(saver.walk("t")) == ["c7", "x", "c5", "c4", "c3"]

    def test_prune_can_delete_threads_by_age(self, saver):
        saver.save(record("c1"))
        saver.save(record("c5", "c1"))
        saver.save(record("c1", None, "u"))

        assert saver.prune(["t", "u"], strategy="delete", older_than=MOMENT + timedelta(seconds=3)) == 2
        assert ids(saver.walk(None)) == ["c5"]
        assert saver.prune(["t"], strategy="delete") == 1
        assert saver.load("t") is None

    def test_prune_by_age_may_take_the_head_of_a_fork(self, saver):
        saver.save(record("c5"))
        saver.save(record("c1"))

        assert saver.prune(["t"], strategy="delete", older_than=MOMENT + timedelta(seconds=3)) == 1
        assert saver.load("t").id == "c5"

    def test_B129_prune_is_safe_while_a_run_is_paused(self, saver):
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

    def test_a_run_goes_on_after_a_prune(self, saver):
        """Its parent may be gone: the record has all that is needed."""
        saver.save(record("c1", values={"a": 1}))
        claim = saver.claim("t", saver.load("t"), "r")
        saver.save(record("c2", "c1", values={"a": 1, "b": 1}), {"b"}, claim)
        saver.prune(["t"])
        saver.save(record("c3", "c1", values={"a": 1, "b": 2}), {"b"}, claim)

        assert saver.load("t").values == {"a": 1, "b": 2}

    @pytest.mark.parametrize(
        ("threads", "options", "words"),
        [
            (["t"], {"strategy": "all"}, "keep_latest"),
            (["t"], {"keep": 0}, "strategy="),
            ("t", {}, r"\['t'\]"),
            (["t"], {"older_than": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001
        ],
    )
    def test_prune_refuses_what_it_cannot_mean(self, saver, threads, options, words):
        saver.save(record("c1"))

        with pytest.raises(UsageError, match=words):
            saver.prune(threads, **options)
        assert saver.load("t").id == "c1"

    def test_size_report_of_one_thread(self, saver):
        saver.save(record("c1", values={"a": [1, 2]}))
        saver.save(record("c1", None, "u", values={"a": [1, 2] * 100}))

        one, both = saver.size_report("t"), saver.size_report()
        assert (one["threads"], one["checkpoints"]) == (1, 1)
        assert (both["threads"], both["checkpoints"]) == (2, 2)
        assert 0 < one["bytes"] < both["bytes"]

    # --- what cannot be stored --------------------------------------------------

    @pytest.mark.parametrize(
        ("fields", "path"),
        [
            ({"values": {"cart": [1, {"f": print}]}}, r'state\["cart"\]\[1\]\["f"\]'),
            ({"values": {"n": [1, print]}}, r'state\["n"\]\[1\]'),
            ({"metadata": {"db": object()}}, r'metadata\["db"\]'),
            ({"pending": (Pending("1", "tools", (), {"f": print}),)}, r'Send\("tools", ...\)\["f"\]'),
            ({"writes": [("1", "__interrupt__", [print])]}, r"interrupt\[0\]"),
            ({"writes": [("1", "n", [print])]}, r'state\["n"\]\[0\]'),
            (
                {
                    "values": {
                        "messages": History([ToolMessage("x", tool_call_id="1", artifact={"f": threading.Lock()})])
                    }
                },
                r'state\["messages"\]\[0\].artifact\["f"\]',
            ),
        ],
    )
    def test_what_cannot_be_stored_is_refused_with_its_path_and_leaves_nothing(self, saver, fields, path):
        saver.save(record("c1", values={"n": [1], "messages": History()}))

        with pytest.raises(UnstorableError, match=f"{path} cannot be stored: it is "):
            saver.save(record("c2", "c1", **fields))
        assert ids(saver.walk("t")) == ["c1"]
        saver.save(record("c3", "c1", values={"n": [1, 2], "messages": History([HumanMessage("ok")])}))
        assert saver.load("t").values["n"] == [1, 2]

    def test_writes_that_cannot_be_stored_are_refused(self, saver):
        saver.save(record("c1"))

        with pytest.raises(UnstorableError, match=r'state\["n"\] cannot be stored: it is a function'):
            saver.save_writes("t", "", "c1", "task", [("ok", 1), ("n", print)])
        assert saver.load("t").writes == []

    # --- what LangGraph's users call --------------------------------------------

    def test_get_tuple_has_the_known_shape(self, saver):
        saver.save(record("c1", values={"n": 1}))
        saver.save(record("c2", "c1", step=1, metadata={"user": "ann"}, values={"n": 2}, pending=(Pending("7", "a"),)))
        saver.save_writes("t", "", "c2", "7", [("n", 3)])
        config = {"configurable": {"thread_id": "t"}}

        found = saver.get_tuple(config)

        at = {"thread_id": "t", "checkpoint_ns": ""}
        assert found.config == {"configurable": {**at, "checkpoint_id": "c2"}}
        assert found.parent_config == {"configurable": {**at, "checkpoint_id": "c1"}}
        assert found.metadata == {"source": "loop", "step": 1, "parents": {}, "user": "ann"}
        assert found.pending_writes == [("7", "n", 3)]
        assert found.checkpoint["id"] == "c2"
        assert found.checkpoint["ts"] == "2026-01-01T00:00:02+00:00"
        assert found.checkpoint["channel_values"] == {"n": 2}
        assert saver.get(config) == found.checkpoint
        assert saver.get_tuple(found.parent_config).checkpoint["channel_values"] == {"n": 1}
        assert saver.get_tuple(found.parent_config).parent_config is None
        assert saver.get_tuple({"configurable": {"thread_id": "u"}}) is None
        assert saver.get({"configurable": {"thread_id": "u"}}) is None

    def test_list_goes_by_config(self, saver):
        saver.save(record("c1", source="input"))
        saver.save(record("c2", "c1"))
        saver.save(record("d1", ns="tools:1"))
        saver.save(record("c1", None, "u"))

        def listed(config, **options):
            return [found.checkpoint["id"] for found in saver.list(config, **options)]

        t = {"configurable": {"thread_id": "t"}}
        root = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        assert listed(None) == ["c1", "d1", "c2", "c1"]
        assert listed(t) == ["d1", "c2", "c1"]
        assert listed(root) == ["c2", "c1"]
        assert listed(root, limit=1) == ["c2"]
        assert listed(root, filter={"source": "input"}) == ["c1"]
        assert listed(root, before={"configurable": {"checkpoint_id": "c2"}}) == ["c1"]
        assert listed({"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c1"}}) == ["c1"]

    def test_a_checkpoint_that_is_put_comes_back(self, saver):
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        checkpoint = {
            "v": 4,
            "id": "1ef4f797-8335-6428-8001-8a1503f9b875",
            "ts": "2026-01-01T00:00:00+00:00",
            "channel_values": {"n": 1, "messages": [HumanMessage("hi", id="1")]},
            "channel_versions": {"n": 2, "messages": 3},
            "versions_seen": {"a": {"n": 1}},
        }

        at = saver.put(config, checkpoint, {"source": "input", "step": -1, "who": "me"}, {"n": 2})
        saver.put_writes(at, [("n", 5)], "task", "~path")
        found = saver.get_tuple(config)

        assert at == {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}
        assert found.config == at
        assert found.metadata == {"source": "input", "step": -1, "who": "me", "parents": {}}
        assert found.pending_writes == [("task", "n", 5)]
        assert {key: found.checkpoint[key] for key in checkpoint} == checkpoint

    def test_a_checkpoint_can_be_put_into_another_thread_and_goes_on_there(self, saver):
        pending = (Pending("7", "tools", ("a",), {"x": 1}), Pending("8", "model"))
        saver.save(record("c1", values={"n": 1}, pending=pending))
        found = saver.get_tuple({"configurable": {"thread_id": "t"}})

        saver.put({"configurable": {"thread_id": "u"}}, found.checkpoint, found.metadata, {})

        assert saver.load("u").pending == pending
        assert saver.load("u").values == {"n": 1}

    def test_a_put_checkpoint_may_have_no_more_than_an_id(self, saver):
        saver.put({"configurable": {"thread_id": "t", "checkpoint_id": "c0"}}, {"id": "c1"}, {}, {})

        found = saver.load("t")
        assert (found.id, found.parent_id, found.source, found.step) == ("c1", "c0", "update", -1)
        assert datetime.fromisoformat(found.created_at).tzinfo is not None

    def test_put_writes_needs_a_checkpoint(self, saver):
        with pytest.raises(UsageError, match="names the checkpoint"):
            saver.put_writes({"configurable": {"thread_id": "t"}}, [("n", 1)], "task")

    @pytest.mark.parametrize("config", [{}, {"configurable": {}}, {"configurable": {"thread_id": ""}}])
    def test_the_thread_must_be_named(self, saver, config):
        with pytest.raises(UsageError, match="thread_id"):
            saver.get_tuple(config)
        with pytest.raises(UsageError, match="thread_id"):
            list(saver.list(config))

    def test_get_next_version(self, saver):
        assert saver.get_next_version(None) == 1
        assert saver.get_next_version(1, None) == 2
        assert saver.get_next_version("00000002.0.123") == 3

    # --- the same for asyncio ---------------------------------------------------

    async def test_the_async_methods_do_the_same(self, saver):
        claim = await saver.aclaim("t", None, "r")
        await saver.asave(record("c1", values={"n": 1}), None, claim)
        await saver.asave_writes("t", "", "c1", "task", [("n", 2)], claim)
        config = {"configurable": {"thread_id": "t"}}

        assert (await saver.aload("t")).writes == [("task", "n", 2)]
        assert [found.id async for found in saver.awalk("t")] == ["c1"]
        assert await saver.aget(config) == saver.get(config)
        assert await saver.aget({"configurable": {"thread_id": "u"}}) is None
        assert await saver.aget_tuple(config) == saver.get_tuple(config)
        assert [found async for found in saver.alist(config)] == list(saver.list(config))
        other = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c9"}}
        assert [found async for found in saver.alist(other)] == []
        at = await saver.aput({"configurable": {"thread_id": "u"}}, {"id": "c1"}, {}, {})
        await saver.aput_writes(at, [("n", 1)], "task")
        assert saver.load("u").writes == [("task", "n", 1)]
        await saver.acopy_thread("t", "v")
        assert await saver.aprune(["t"]) == 0
        assert await saver.asize_report("v") == saver.size_report("v")
        await saver.adelete_thread("t")
        assert saver.load("t") is None

    async def test_it_is_a_context_manager(self, saver):
        async with saver as same:
            assert same is saver
        with saver as same:
            assert same is saver
