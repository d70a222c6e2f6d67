"""What every saver promises about what it keeps."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import pytest

from loopwright.checkpoint.base import NO_ARG, Pending
from loopwright.checkpoint.conformance.records import Saver, ids, record, refused, said
from loopwright.checkpoint.record import Send
from loopwright.errors import UnstorableError, UsageError
from loopwright.messages import AIMessage, HumanMessage, ToolMessage
from loopwright.messages.history import History, add_messages

__all__ = ["ValuesConformance"]


class ValuesConformance:
    """Stored once, given back as it was, apart from the caller, or refused."""

    # --- loading and saving -----------------------------------------------------

    def test_what_was_saved_is_loaded(self, saver: Saver) -> None:
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

    def test_what_does_not_exist_is_none(self, saver: Saver) -> None:
        saver.save(record("c1"))

        assert saver.load("other") is None
        assert saver.load("t", "ns") is None
        assert saver.load("t", "", "c9") is None

    def test_the_head_is_what_was_saved_last_and_older_ones_stay(self, saver: Saver) -> None:
        saver.save(record("c1", values={"n": 1}))
        saver.save(record("c2", "c1", values={"n": 2}))

        assert saver.load("t").id == "c2"
        assert saver.load("t", "", "c1").values == {"n": 1}

    def test_a_fork_moves_the_head(self, saver: Saver) -> None:
        saver.save(record("c1", values={"n": 1}))
        saver.save(record("c2", "c1", values={"n": 2}))
        saver.save(record("c3", "c1", source="fork", values={"n": 3}))

        head = saver.load("t")
        assert (head.id, head.parent_id, head.values) == ("c3", "c1", {"n": 3})
        assert saver.load("t", "", "c2").values == {"n": 2}

    def test_only_changed_channels_are_taken_from_the_record(self, saver: Saver) -> None:
        """What did not change is the parent's, also if the record shows something else."""
        saver.save(record("c1", values={"a": 1, "b": 1, "gone": 1}))
        saver.save(record("c2", "c1", values={"a": 2, "b": 2}), {"a", "gone"})

        assert saver.load("t").values == {"a": 2, "b": 1}

    def test_all_channels_are_stored_when_the_parent_is_not(self, saver: Saver) -> None:
        saver.save(record("c2", "c1", values={"a": 2, "b": 2}), {"a"})

        assert saver.load("t").values == {"a": 2, "b": 2}

    def test_saving_an_id_again_replaces_it_and_keeps_its_writes(self, saver: Saver) -> None:
        saver.save(record("c1", values={"a": 1}))
        saver.save_writes("t", "", "c1", "task", [("a", 5)])
        saver.save(record("c2", "c1", values={"a": 2}))
        saver.save(record("c1", values={"a": 9}))

        assert saver.load("t").values == {"a": 9}
        assert saver.load("t").writes == [("task", "a", 5)]
        assert ids(saver.walk("t")) == ["c2", "c1"]

    def test_namespaces_have_heads_of_their_own(self, saver: Saver) -> None:
        saver.save(record("c1", values={"n": "outer"}))
        saver.save(record("d1", ns="tools:7", values={"n": "inner"}))

        assert saver.load("t").values == {"n": "outer"}
        assert saver.load("t", "tools:7").values == {"n": "inner"}

    def test_versions_grow_where_a_channel_changes(self, saver: Saver) -> None:
        saver.save(record("c1", values={"a": 1, "b": 1}))
        saver.save(record("c2", "c1", values={"a": 2, "b": 1}), {"a"})

        first, second = saver.load("t", "", "c1").versions, saver.load("t").versions
        assert first["a"] < second["a"]
        assert first["b"] == second["b"]

    # --- histories --------------------------------------------------------------

    def test_a_history_is_a_history_again(self, saver: Saver) -> None:
        history = add_messages([], [HumanMessage("hi", id="1")])
        saver.save(record("c1", values={"messages": history}))
        longer = add_messages(history, [AIMessage("yes", id="2")])
        saver.save(record("c2", "c1", values={"messages": longer}), {"messages"})

        found = saver.load("t").values["messages"]
        assert type(found) is History
        assert found == longer
        assert said(saver.load("t", "", "c1").values["messages"]) == ["hi"]

    def test_two_branches_of_a_history_do_not_mix(self, saver: Saver) -> None:
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

    def test_plain_lists_that_grow_and_branch(self, saver: Saver) -> None:
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
    def test_a_store_grows_with_what_was_said(self, saver: Saver, words: Any) -> None:  # B127
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

    @pytest.mark.parametrize("returns", ["messages", "copies of messages", "a list of dicts"])
    def test_what_a_task_returns_whole_is_stored_once(self, saver: Saver, returns: str) -> None:  # B127
        """Twice the turns take about twice the bytes, though each task returns all that there was before."""
        sizes: dict[int, int] = {}
        parent, value = None, History()
        items: list[dict[str, Any]] = []
        for turn in range(1, 121):
            if returns == "a list of dicts":
                items = [*items, {"turn": turn, "said": "some words of it"}]
                whole: Any = items
            else:
                value = add_messages(value, [AIMessage("some words of it", id=f"m{turn}")])
                copies = [message.model_copy() for message in value]
                whole = copies if returns == "copies of messages" else list(value)
            if parent is not None:
                saver.save_writes("t", "", parent, "task", [("x", whole)])
            shown = items if returns == "a list of dicts" else value
            saver.save(record(f"c{turn}", parent, values={"x": shown}), {"x"})
            parent = f"c{turn}"
            if turn in (30, 60, 120):
                sizes[turn] = saver.size_report()["bytes"]

        assert sizes[60] / sizes[30] < 2.3
        assert sizes[120] / sizes[60] < 2.3
        written = saver.load("t", "", "c7").writes[0][2]
        assert list(written) == list(saver.load("t", "", "c8").values["x"])
        assert saver.prune(["t"], keep=2) == 118
        assert list(saver.load("t", "", "c119").writes[0][2]) == list(saver.load("t").values["x"])

    def test_a_history_that_is_handed_to_a_graph_inside_is_not_stored_again(self, saver: Saver) -> None:
        history = add_messages([], [HumanMessage("x" * 1000, id="1")])
        saver.save(record("c1", values={"messages": history}))
        for number in range(5):
            longer = add_messages(history, [AIMessage("y", id=str(number + 2))])
            saver.save(record(f"d{number}", ns=f"inner:{number}", values={"messages": longer}))

        assert saver.size_report()["bytes"] < 3000
        assert said(saver.load("t", "inner:3").values["messages"]) == ["x" * 1000, "y"]

    def test_a_list_whose_items_changed_is_another_list(self, saver: Saver) -> None:
        """Also where the new items are equal to the old ones, and not the same."""
        log: list[Any] = [{"n": 1}, {"n": (1, 2)}]
        saver.save(record("c1", values={"log": log}))
        saver.save(record("c2", "c1", values={"log": [{"n": True}, {"n": (1, 2)}, 3]}), {"log"})
        log[0]["n"] = 7
        saver.save(record("c3", "c2", values={"log": [*log, {"n": 4}]}), {"log"})

        assert saver.load("t", "", "c1").values["log"] == [{"n": 1}, {"n": (1, 2)}]
        assert saver.load("t", "", "c2").values["log"][0]["n"] is True
        assert saver.load("t").values["log"] == [{"n": 7}, {"n": (1, 2)}, {"n": 4}]

    def test_a_message_is_counted_once(self, saver: Saver) -> None:
        history = add_messages([], [HumanMessage("x" * 1000)])
        saver.save(record("c1", values={"messages": history}))
        for number in range(2, 12):
            saver.save(record(f"c{number}", f"c{number - 1}", values={"messages": history, "n": number}), {"n"})

        report = saver.size_report()
        assert report["threads"] == 1
        assert report["checkpoints"] == 11
        assert 1000 < report["bytes"] < 3000

    # --- isolation --------------------------------------------------------------

    def test_what_the_caller_does_to_its_objects_reaches_no_checkpoint(self, saver: Saver) -> None:
        values: dict[str, Any] = {
            "cart": [{"name": "tea"}],
            "tags": {"a"},
            "messages": History([HumanMessage("hi", id="1")]),
        }
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

    def test_threads_do_not_see_each_other(self, saver: Saver) -> None:
        for thread in ("a", "b", "ä/☃", "a|b", "%", "'; drop table"):
            saver.save(record("c1", None, thread, values={"who": thread}))

        for thread in ("a", "b", "ä/☃", "a|b", "%", "'; drop table"):
            assert saver.load(thread).values == {"who": thread}
            assert ids(saver.walk(thread)) == ["c1"]

    # --- writes -----------------------------------------------------------------

    def test_the_writes_of_a_task_replace_what_it_wrote_before(self, saver: Saver) -> None:
        saver.save(record("c1"))
        saver.save_writes("t", "", "c1", "one", [("__error__", "boom")])
        saver.save_writes("t", "", "c1", "two", [("n", 2)])
        for _ in range(2):
            saver.save_writes("t", "", "c1", "one", [("n", 1), ("n", 3)])

        assert sorted(saver.load("t").writes) == [("one", "n", 1), ("one", "n", 3), ("two", "n", 2)]

    def test_a_task_that_wrote_nothing_is_known_to_have_finished_by_the_engines_own_word(self, saver: Saver) -> None:
        saver.save(record("c1"))
        saver.save_writes("t", "", "c1", "one", [("__return__", None)])

        assert saver.load("t").writes == [("one", "__return__", None)]

    def test_writes_of_a_checkpoint_that_is_not_there_are_refused(self, saver: Saver) -> None:
        saver.save(record("c1"))

        with refused(UsageError, "t", "c2"):
            saver.save_writes("t", "", "c2", "one", [("n", 1)])
        with refused(UsageError, "other", "c1"):
            saver.save_writes("other", "", "c1", "one", [("n", 1)])
        assert saver.load("other") is None

    # --- what cannot be stored --------------------------------------------------

    @pytest.mark.parametrize(
        ("fields", "path"),
        [
            ({"values": {"cart": [1, {"f": print}]}}, 'state["cart"][1]["f"]'),
            ({"values": {"n": [1, print]}}, 'state["n"][1]'),
            ({"metadata": {"db": object()}}, 'metadata["db"]'),
            ({"pending": (Pending("1", "tools", (), {"f": print}),)}, '["f"]'),
            ({"writes": [("1", "__interrupt__", [print])]}, "[0]"),
            ({"writes": [("1", "n", [print])]}, 'state["n"][0]'),
            (
                {
                    "values": {
                        "messages": History([ToolMessage("x", tool_call_id="1", artifact={"f": threading.Lock()})])
                    }
                },
                'state["messages"][0].artifact["f"]',
            ),
        ],
    )
    def test_what_cannot_be_stored_is_refused_with_its_path_and_leaves_nothing(
        self, saver: Saver, fields: Any, path: Any
    ) -> None:
        saver.save(record("c1", values={"n": [1], "messages": History()}))

        with refused(UnstorableError, path):
            saver.save(record("c2", "c1", **fields))
        assert ids(saver.walk("t")) == ["c1"]
        saver.save(record("c3", "c1", values={"n": [1, 2], "messages": History([HumanMessage("ok")])}))
        assert saver.load("t").values["n"] == [1, 2]

    @pytest.mark.parametrize("kind", ["list", "dict", "tuple", "odd dict", "message"])
    @pytest.mark.parametrize("room", [0, 900])
    def test_what_is_nested_too_deep_is_refused_at_the_same_depth_by_all(
        self, plain: Saver, kind: str, room: int
    ) -> None:
        """However deep the caller is in its own stack; and what is taken can be read there, too."""

        def nested(depth: int) -> Any:
            value: Any = 1
            for _ in range(depth):
                if kind == "message":
                    value = ToolMessage("", tool_call_id="1", artifact=value)
                else:
                    value = {"list": [value], "dict": {"a": value}, "tuple": (value,), "odd dict": {1: value}}[kind]
            return value

        def called(levels: int, work: Any) -> Any:
            return work() if levels == 0 else called(levels - 1, work)

        left = max(room - len(inspect.stack(0)), 0)
        called(left, lambda: plain.save(record("c1", values={"x": nested(100)})))
        assert called(left, lambda: plain.load("t").unreadable) in ((), [])
        for depth in (101, 260, 2000):
            with pytest.raises(UnstorableError, match=r'state\["x"\].* nested more than 100 deep'):
                called(left, lambda depth=depth: plain.save(record("c2", values={"x": nested(depth)})))
        assert ids(plain.walk("t")) == ["c1"]

    def test_writes_that_cannot_be_stored_are_refused(self, saver: Saver) -> None:
        saver.save(record("c1"))

        with refused(UnstorableError, 'state["n"]'):
            saver.save_writes("t", "", "c1", "task", [("ok", 1), ("n", print)])
        assert saver.load("t").writes == []
