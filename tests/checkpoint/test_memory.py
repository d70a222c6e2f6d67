from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from loopwright.checkpoint.base import require_thread_id
from loopwright.checkpoint.conformance import SaverConformance
from loopwright.checkpoint.conformance.records import loaded, record
from loopwright.checkpoint.memory import InMemorySaver, MemorySaver
from loopwright.errors import UsageError
from loopwright.messages.history import add_messages


class TestInMemorySaver(SaverConformance):
    def make_saver(self, folder):
        return InMemorySaver()


def test_both_names_are_one_class():
    assert MemorySaver is InMemorySaver


def test_repr_counts_threads():
    saver = InMemorySaver()
    saver.save(record("c1"))

    assert repr(saver) == "InMemorySaver(1 threads)"


def test_a_loaded_history_shares_what_is_stored():
    """A turn on a long thread looks at its own messages only: the buffer goes on where it was."""
    saver = InMemorySaver()
    history = add_messages([], ["one"])
    saver.save(record("c1", values={"messages": history}))

    found = loaded(saver).values["messages"]
    assert found.buffer is history.buffer
    grown = add_messages(found, ["two"])
    saver.save(record("c2", "c1", values={"messages": grown}), {"messages"})
    assert loaded(saver).values["messages"].buffer is history.buffer


def test_plain_lists_share_what_they_begin_with():
    saver = InMemorySaver()
    log = [f"line {number}" * 20 for number in range(100)]
    saver.save(record("c1", values={"log": log}))
    alone = saver.size_report()["bytes"]
    for number in range(2, 10):
        log = [*log, str(number)]
        saver.save(record(f"c{number}", f"c{number - 1}", values={"log": log}), {"log"})

    assert saver.size_report()["bytes"] < alone * 1.2
    assert loaded(saver).values["log"] == log


def test_the_report_measures_what_msgpack_cannot_write():
    """By attributes, else by text: it is a size, not a store."""
    saver = InMemorySaver(types=[Answer])
    saver.save(
        record("c1", values={"model": Answer(text="x" * 100), "path": Path("y" * 100), "big": 2**100, "odd": "\ud800"})
    )

    assert 250 < saver.size_report()["bytes"] < 600


class Answer(BaseModel):
    text: str


class Saver:
    pass


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (None, "the config names none"),
        ({}, "the config names none"),
        ({"configurable": None}, "the config names none"),
        ({"configurable": {"thread_id": None}}, "the config names none"),
        ({"configurable": {"thread_id": ""}}, "thread_id is empty"),
        ({"configurable": {"thread_id": 7}}, r"of type int \(7\); it must be a str"),
    ],
)
def test_B126_a_missing_thread_id_is_told_with_the_right_call(config, words):
    with pytest.raises(UsageError, match=words) as caught:
        require_thread_id(config, Saver())

    assert '{"configurable": {"thread_id": "1"}}' in str(caught.value)


def test_the_saver_is_named_where_it_is_known():
    with pytest.raises(UsageError, match=r"^With Saver each run"):
        require_thread_id({}, Saver())
    with pytest.raises(UsageError, match=r"^With a checkpointer each run"):
        require_thread_id({})


def test_a_thread_id_that_is_one():
    assert require_thread_id({"configurable": {"thread_id": "7"}}) == "7"
