"""Random lives of threads: whatever is saved, forked, copied, pruned and deleted, each checkpoint stays what it was."""

from __future__ import annotations

import copy
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from loopwright.checkpoint.base import BaseCheckpointSaver, Record
from loopwright.checkpoint.conformance.records import loaded
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import ThreadConflictError
from loopwright.messages import HumanMessage, RemoveMessage
from loopwright.messages.history import History, add_messages

THREADS = ("ann", "bob")
values = st.recursive(st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3), max_leaves=5)


class Threads(RuleBasedStateMachine):
    """`model` holds, for each thread, its checkpoints in the order of saving, by id."""

    def make_saver(self) -> BaseCheckpointSaver:
        return InMemorySaver()

    def __init__(self):
        super().__init__()
        self.saver = self.make_saver()
        self.ids = count()
        self.model: dict[str, dict[str, dict]] = {}
        self.heads: dict[str, str] = {}

    def save(self, thread: str, parent: str | None, history: list, log: list, note: object, changed: set[str] | None):
        id = f"c{next(self.ids)}"
        shown = {"messages": history, "log": log, "note": note}
        self.saver.save(Record(id=id, thread_id=thread, parent_id=parent, values=shown), changed)
        entry = {
            "parent": parent,
            "messages": list(history),
            "log": list(log),
            "note": copy.deepcopy(note),
            "writes": {},
        }
        self.model.setdefault(thread, {})[id] = entry
        self.heads[thread] = id

    def base(self, thread: str, data) -> tuple[str | None, dict]:
        """The head, or any other checkpoint, as the saver shows it."""
        known = self.model.get(thread)
        if not known:
            return None, {"messages": History(), "log": [], "note": None}
        id = data.draw(st.sampled_from([self.heads[thread], *known]))
        return id, loaded(self.saver, thread, id).values

    @rule(thread=st.sampled_from(THREADS), texts=st.lists(st.text(max_size=3), max_size=3), data=st.data())
    def talk(self, thread, texts, data):
        """Add messages and log lines to the head, or to an older checkpoint."""
        parent, shown = self.base(thread, data)
        history = add_messages(shown["messages"], [HumanMessage(text) for text in texts])
        log = [*shown["log"], *texts]
        changed = {"messages", "log"} if parent else None
        self.save(thread, parent, history, log, shown["note"], changed)

    @rule(thread=st.sampled_from(THREADS), note=values, data=st.data())
    def note(self, thread, note, data):
        """Overwrite a value; nothing else changed."""
        parent, shown = self.base(thread, data)
        self.save(thread, parent, shown["messages"], shown["log"], note, {"note"} if parent else None)

    @rule(thread=st.sampled_from(THREADS), data=st.data())
    def forget_a_message(self, thread, data):
        parent, shown = self.base(thread, data)
        if shown["messages"]:
            gone = data.draw(st.sampled_from(list(shown["messages"])))
            history = add_messages(shown["messages"], [RemoveMessage(id=gone.id)])
            self.save(thread, parent, history, shown["log"][1:], shown["note"], {"messages", "log"})

    @precondition(lambda self: self.model)
    @rule(data=st.data(), task=st.sampled_from("xy"), value=values)
    def write(self, data, task, value):
        thread = data.draw(st.sampled_from(sorted(self.model)))
        id = data.draw(st.sampled_from(list(self.model[thread])))
        self.saver.save_writes(thread, "", id, task, [("note", value)])
        self.model[thread][id]["writes"][task] = copy.deepcopy(value)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def spoil(self, data):
        """A caller who writes into what it loaded spoils its own copy only."""
        thread = data.draw(st.sampled_from(sorted(self.model)))
        id = data.draw(st.sampled_from(list(self.model[thread])))
        found = loaded(self.saver, thread, id)
        found.values["messages"].append(HumanMessage("spoilt"))
        found.values["log"].append("spoilt")
        if isinstance(found.values["note"], list):
            found.values["note"].append("spoilt")
        for _, _, value in found.writes:
            if isinstance(value, list):
                value.append("spoilt")

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def late_writer(self, data):
        """Of two runs that saw the same, one is told; a third one that saw the claim takes over."""
        thread = data.draw(st.sampled_from(sorted(self.model)))
        seen = self.saver.load(thread)
        first = self.saver.claim(thread, seen, "first")
        for attempt in (
            lambda: self.saver.claim(thread, seen, "second"),
            lambda: self.saver.save(Record(id="late", thread_id=thread), None, first - 1),
        ):
            try:
                attempt()
            except ThreadConflictError:
                continue
            raise AssertionError("nobody was told")
        self.saver.claim(thread, self.saver.load(thread), "third")

    @rule(thread=st.sampled_from(THREADS))
    def delete(self, thread):
        self.saver.delete_thread(thread)
        self.model.pop(thread, None)
        self.heads.pop(thread, None)

    @rule(source=st.sampled_from(THREADS), copied=st.sampled_from(THREADS))
    def copy_over(self, source, copied):
        if source != copied and source in self.model:
            self.saver.delete_thread(copied)
            self.saver.copy_thread(source, copied)
            self.model[copied] = copy.deepcopy(self.model[source])
            self.heads[copied] = self.heads[source]

    @rule(thread=st.sampled_from(THREADS), keep=st.integers(1, 3))
    def prune(self, thread, keep):
        known = self.model.get(thread, {})
        stay = {*list(known)[-keep:], self.heads.get(thread)}
        removed = self.saver.prune([thread], keep=keep)
        gone = {id: known.pop(id) for id in list(known) if id not in stay}
        for entry in known.values():
            while entry["parent"] in gone:
                entry["parent"] = gone[entry["parent"]]["parent"]
        assert removed == len(gone)

    @invariant()
    def every_checkpoint_is_what_it_was(self):
        for thread in THREADS:
            known = self.model.get(thread, {})
            found = list(self.saver.walk(thread))
            assert [record.id for record in found] == list(known)[::-1]
            head = self.saver.load(thread)
            assert (head.id if head else None) == self.heads.get(thread)
            for record in found:
                entry = known[record.id]
                assert record.parent_id == entry["parent"]
                assert record.values == {key: entry[key] for key in ("messages", "log", "note")}
                assert type(record.values["messages"]) is History
                assert {task: value for task, _, value in record.writes} == entry["writes"]

    @invariant()
    def the_report_counts_what_there_is(self):
        report = self.saver.size_report()
        assert report["threads"] == len(self.model)
        assert report["checkpoints"] == sum(map(len, self.model.values()))


TestThreads = Threads.TestCase
TestThreads.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
