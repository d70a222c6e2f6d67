"""What every saver promises to those who come later or at the same time: other processes, other loops, odd names."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any

import pytest
from pydantic import BaseModel

from loopwright.checkpoint.base import BaseCheckpointSaver, Pending, Record
from loopwright.checkpoint.conformance.records import Saver, ids, loaded, record, refused, said
from loopwright.errors import LoopwrightError, ThreadConflictError, UnstorableError
from loopwright.messages import AIMessage, HumanMessage, ToolMessage
from loopwright.messages.history import add_messages

__all__ = ["DurableConformance"]


class _Colour(Enum):
    """Declared by nobody until a test registers it."""

    RED = 1


class _Word(StrEnum):
    """The same."""

    A = "a"


@dataclass
class _Item:
    """The same."""

    name: str
    colour: _Colour | None = None


class _Model(BaseModel):
    """The same."""

    item: _Item
    words: list[_Word] = []


_VALUES: dict[str, Any] = {
    "none": None,
    "numbers": [True, 0, -1, 2**63, 2**200, -(2**200), 0.1, float("inf")],
    "words": ["", "a'b\"c`d;--", "日本 ☃ 🎈", "\u202eabc", "\0", "\ud800", "é", "e\u0301", "x" * 100_000],
    "bytes": [b"", b"\x00\xff", bytearray(b"a")],
    "groups": [(), (1, (2,)), {1, "a"}, frozenset({(1,)}), {}, {1: "a", None: "b", (1, 2): "c"}],
    "times": [datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 1), Decimal("1.10")],
    "looks": {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"type": "ai", "content": "x"}},
    "messages": add_messages([], [HumanMessage("\ud800", id="1"), AIMessage("x", id="2", extra_word=(1,))]),
    "objects": [_Item("a", _Colour.RED), _Model(item=_Item("b"), words=[_Word.A]), _Colour.RED, _Word.A, "a"],
}

_ODD_NAMES = [
    " ",
    "\t\n",
    "..",
    "0",
    "None",
    "A",
    "a",
    "é",
    "e\u0301",
    "日本/☃ 🎈",
    "\u202eabc",
    "a'b\"c`d\\e",
    "'; drop table checkpoints; --",
    "%",
    "_",
    "a|b:c",
    "x" * 10_000,
    "x" * 9_999 + "y",
]
"""No two of them are one."""
_REFUSABLE_NAMES = ["\0", "a\0b", "\ud800"]
"""A store that cannot hold them says so."""


def _shown(saver: Saver) -> list[tuple[Any, ...]]:
    """All that a saver holds, in a form that compares."""
    return [
        (
            found.thread_id,
            found.ns,
            found.id,
            found.parent_id,
            found.metadata,
            found.values,
            found.pending,
            found.writes,
        )
        for found in saver.walk(None, None)
    ]


class DurableConformance:
    """Kept whatever happens next, under any name, for whoever asks."""

    many = 10_000
    """Checkpoints on one thread, in the test of many."""

    def reopen(self, saver: Any) -> BaseCheckpointSaver:
        raise NotImplementedError

    # --- exactly ----------------------------------------------------------------

    @pytest.mark.parametrize("key", list(_VALUES))
    def test_what_is_stored_comes_back_as_it_was(self, saver: Saver, key: str) -> None:
        """Equal, and of the same types; as a value, in an argument, and in a write."""
        saver.register(_Item, _Model, _Word, _Colour)
        value = _VALUES[key]
        saver.save(record("c1", values={"x": value, "deep": [(value,)]}, pending=(Pending("1", "n", (), value),)))
        saver.save_writes("t", "", "c1", "1", [("x", value)])
        found = loaded(saver)

        for again in (
            found.values["x"],
            found.values["deep"][0][0],
            found.pending[0].arg,
            found.writes[0][2],
        ):
            assert again == value
            assert list(map(type, again or ())) == list(map(type, value or ()))

    def test_a_class_that_nobody_declared_is_refused(self, saver: Saver) -> None:
        with refused(UnstorableError, 'state["x"][0]'):
            saver.save(record("c1", values={"x": [_Item("a")]}))
        assert saver.load("t") is None
        saver.register(_Item)
        saver.save(record("c1", values={"x": [_Item("a")]}))
        assert loaded(saver).values["x"] == [_Item("a")]

    def test_a_class_that_is_not_known_leaves_the_rest_readable(self, plain: Saver) -> None:  # B117
        plain.register(_Item)
        artifact = ToolMessage("found", tool_call_id="1", artifact=_Item("b"), id="1")
        values = {"x": [1, _Item("a")], "n": 7, "messages": add_messages([], [artifact])}
        plain.save(record("c1", values=values))
        again = self.reopen(plain)
        if again is plain:
            pytest.skip("this saver keeps its threads in the process")

        found = loaded(again)
        assert found.values["n"] == 7
        assert found.values["x"][0] == 1
        assert said(found.values["messages"]) == ["found"]
        assert sorted(lost.path for lost in found.unreadable) == ['state["messages"][0].artifact', 'state["x"][1]']
        again.save(record("c2", "c1", values={**found.values, "n": 8}), {"n"})
        again.save(record("c3", "c2", values=dict(loaded(again).values)))
        again.register(_Item)
        assert loaded(again).values == {**values, "n": 8}
        assert loaded(again).unreadable in ((), [])
        again.close()

    # --- after a crash ----------------------------------------------------------

    def test_each_kind_of_write_is_there_for_the_next_process(self, plain: Saver) -> None:
        """The process that wrote is not closed: it may as well have died there."""
        history = add_messages([], [HumanMessage("hi", id="1")])
        longer = add_messages(history, [AIMessage("yes", id="2")])
        pending = (Pending("7", "a", ("push", 0), {"x": (1,)}), Pending("8", "b"))
        claim = plain.claim("t", None, "r")
        steps: list[Any] = [
            lambda: plain.save(record("c1", values={"messages": history, "n": 1}, pending=pending), None, claim),
            lambda: plain.save_writes("t", "", "c1", "7", [("messages", [longer[1]]), ("n", {2})], claim),
            lambda: plain.save_writes("t", "", "c1", "8", [("__error__", "boom")], claim),
            lambda: plain.save_writes("t", "", "c1", "8", [("n", 3)], claim),
            lambda: plain.save(record("d1", ns="a:7", values={"inner": 1}), None, claim),
            lambda: plain.save(record("c2", "c1", values={"messages": longer, "n": 2}), {"messages", "n"}, claim),
            lambda: plain.save(record("c3", "c1", values={"messages": history, "n": 9}), {"n"}, claim),
            lambda: plain.copy_thread("t", "u"),
            lambda: plain.prune(["t"], keep=2),
            lambda: plain.delete_thread("u"),
        ]
        for step in steps:
            step()
            again = self.reopen(plain)
            assert _shown(again) == _shown(plain)
            assert again.size_report() == plain.size_report()
            if again is not plain:
                again.close()

    def test_what_was_refused_is_not_there_for_the_next_process(self, plain: Saver) -> None:
        plain.save(record("c1", values={"n": 1}))
        for attempt in (
            lambda: plain.save(record("c2", "c1", values={"n": 2, "f": print})),
            lambda: plain.save_writes("t", "", "c1", "1", [("n", 2), ("f", print)]),
        ):
            with refused(UnstorableError):
                attempt()
        again = self.reopen(plain)
        assert ids(again.walk("t")) == ["c1"]
        assert loaded(again).writes == []

    # --- two writers ------------------------------------------------------------

    def test_of_two_processes_that_read_the_same_state_one_is_told(self, plain: Saver) -> None:
        plain.save(record("c1"))
        other = self.reopen(plain)
        seen, seen_by_other = plain.load("t"), other.load("t")
        claim = other.claim("t", seen_by_other, "other")
        with refused(ThreadConflictError, "t", "other"):
            plain.claim("t", seen, "late")
        other.save(record("c2", "c1"), None, claim)
        assert ids(plain.walk("t")) == ["c2", "c1"]

    def test_a_process_that_wakes_late_is_told_and_changes_nothing(self, plain: Saver) -> None:
        plain.save(record("c1", values={"messages": add_messages([], ["hi"])}))
        old = plain.claim("t", plain.load("t"), "sleeper")
        other = self.reopen(plain)
        new = other.claim("t", other.load("t"), "waker")
        history = add_messages(loaded(other).values["messages"], ["new"])
        other.save(record("c2", "c1", values={"messages": history}), {"messages"}, new)

        stale = add_messages(loaded(plain, id="c1").values["messages"], ["stale"])
        for attempt in (
            lambda: plain.save(record("c3", "c1", values={"messages": stale}), {"messages"}, old),
            lambda: plain.save_writes("t", "", "c1", "1", [("n", 1)], old),
        ):
            with refused(ThreadConflictError, "t", "waker"):
                attempt()
        assert said(loaded(plain).values["messages"]) == ["hi", "new"]
        assert ids(self.reopen(plain).walk("t")) == ["c2", "c1"]

    def test_two_processes_take_turns(self, plain: Saver) -> None:
        """Neither trusts what it remembers once the other has written."""
        other = self.reopen(plain)
        parent = None
        for turn in range(6):
            writer = (plain, other)[turn % 2]
            seen = writer.load("t")
            claim = writer.claim("t", seen, str(turn))
            history = add_messages(seen.values["messages"] if seen else [], [HumanMessage(str(turn), id=str(turn))])
            log: list[int] = [*(seen.values["log"] if seen else []), turn]
            writer.save(record(f"c{turn}", parent, values={"messages": history, "log": log}), None, claim)
            writer.save_writes("t", "", f"c{turn}", "1", [("messages", [AIMessage("x", id=f"x{turn}")])], claim)
            parent = f"c{turn}"
        for reader in (plain, other):
            assert said(loaded(reader).values["messages"]) == ["0", "1", "2", "3", "4", "5"]
            assert loaded(reader).values["log"] == [0, 1, 2, 3, 4, 5]
            assert said(loaded(reader, id="c2").values["messages"]) == ["0", "1", "2"]

    # --- names ------------------------------------------------------------------

    def test_odd_names_are_names(self, saver: Saver) -> None:
        """Of threads, namespaces, checkpoints, tasks, channels and metadata: each is itself and no other."""
        for name in _ODD_NAMES:
            values, metadata = {name: name}, {name: name}
            saver.save(record(name, None, name, ns=name, values=values, metadata=metadata))
            saver.save_writes(name, name, name, name, [(name, name)])
        for name in _ODD_NAMES:
            found: Record = saver.load(name, name, name)
            assert (found.thread_id, found.ns, found.id) == (name, name, name)
            assert (found.values, found.metadata) == ({name: name}, {name: name})
            assert found.writes == [(name, name, name)]
            assert ids(saver.walk(name, name, filter={name: name})) == [name]
        assert len(list(saver.walk(None, None))) == len(_ODD_NAMES)
        for name in _ODD_NAMES:
            saver.delete_thread(name)
        assert saver.size_report() == {"bytes": 0, "threads": 0, "checkpoints": 0}

    @pytest.mark.parametrize("name", _REFUSABLE_NAMES, ids=ascii)
    def test_names_that_a_store_may_not_hold_are_kept_or_refused(self, saver: Saver, name: str) -> None:
        """Never cut short, never taken for another."""
        saver.save(record("c1", None, "a", values={"n": 1}))
        try:
            saver.save(record("c1", None, name, values={"n": 2}))
        except LoopwrightError:
            assert saver.size_report()["threads"] == 1
            return
        assert saver.load(name).values == {"n": 2}
        assert saver.load("a").values == {"n": 1}
        assert saver.load("") is None
        assert [found.thread_id for found in saver.walk(None)] == [name, "a"]

    # --- many -------------------------------------------------------------------

    def test_a_thread_of_many_checkpoints(self, plain: Saver) -> None:
        parent = None
        for number in range(self.many):
            plain.save(record(f"c{number}", parent, values={"n": number, "same": "x"}), {"n"})
            parent = f"c{number}"

        last = self.many - 1
        assert loaded(plain).values == {"n": last, "same": "x"}
        assert loaded(plain, id="c5").values == {"n": 5, "same": "x"}
        assert ids(plain.walk("t", limit=3)) == [f"c{last}", f"c{last - 1}", f"c{last - 2}"]
        assert ids(plain.walk("t", before="c2")) == ["c1", "c0"]
        assert sum(1 for _ in plain.walk("t")) == self.many
        assert plain.prune(["t"], keep=10) == self.many - 10
        assert len(ids(plain.walk("t"))) == 10
        plain.delete_thread("t")
        assert plain.size_report() == {"bytes": 0, "threads": 0, "checkpoints": 0}

    # --- loops ------------------------------------------------------------------

    def test_a_plain_call_on_a_running_loop_does_not_hang(self, plain: Saver) -> None:  # B131
        """It works or says that it cannot; also on a loop that the saver's async methods have served."""
        told: list[Any] = []

        async def main() -> None:
            await plain.asave(record("c1", values={"n": 1}))
            for ask in (
                lambda: plain.load("t").values,
                lambda: plain.save(record("c2", "c1", values={"n": 2})),
                lambda: ids(plain.walk("t")),
                lambda: plain.get_tuple({"configurable": {"thread_id": "t"}}).checkpoint["id"],
            ):
                try:
                    told.append(ask())
                except (LoopwrightError, RuntimeError) as error:
                    told.append(error)
            told.append((await plain.aload("t")).id)

        thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
        thread.start()
        thread.join(30)

        assert not thread.is_alive(), "a plain call on a running loop hangs"
        expected = ({"n": 1}, None, ["c2", "c1"], "c2", "c2")
        assert [
            answer
            for answer, right in zip(told[:4], expected, strict=False)
            if answer != right and not isinstance(answer, Exception)
        ] == []
        assert len(told) == 5

    def test_several_loops_one_after_the_other(self, plain: Saver) -> None:
        """What a saver has opened on a loop that is closed does not stop it on the next."""
        for number in range(3):
            asyncio.run(plain.asave(record(f"c{number}", values={"n": number})))
        assert loaded(plain).values == {"n": 2}

    def test_tasks_at_once_on_one_loop(self, plain: Saver) -> None:
        async def run(thread: str) -> list[str]:
            parent = None
            for step in range(10):
                claim = await plain.aclaim(thread, await plain.aload(thread), "r")
                await plain.asave(record(f"c{step}", parent, thread, values={"n": step}), None, claim)
                parent = f"c{step}"
            return [found.id async for found in plain.awalk(thread)]

        async def main() -> list[list[str]]:
            return await asyncio.gather(*(run(f"t{number}") for number in range(20)))

        assert asyncio.run(main()) == [[f"c{step}" for step in range(9, -1, -1)]] * 20
