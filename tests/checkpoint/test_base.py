from __future__ import annotations

import asyncio
import threading
from typing import ClassVar

import pytest

from loopwright.checkpoint.conformance.records import ids, record
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.errors import UsageError


class Slow(InMemorySaver):
    """Keeps in mind on which threads it was called."""

    instant: ClassVar[bool] = False

    def __init__(self):
        super().__init__()
        self.called_on: set[threading.Thread] = set()

    def save(self, record, changed=None, claim=None):
        self.called_on.add(threading.current_thread())
        super().save(record, changed, claim)

    def walk(self, *args, **kwargs):
        for found in super().walk(*args, **kwargs):
            self.called_on.add(threading.current_thread())
            yield found


class Quick(Slow):
    instant: ClassVar[bool] = True


async def walked_and_saved(saver) -> list[str]:
    await saver.asave(record("c1"))
    await saver.asave(record("c2", "c1"))
    return [found.id async for found in saver.awalk("t")]


@pytest.mark.parametrize(("kind", "on_loop"), [(Slow, False), (Quick, True)])
def test_async_methods_of_a_saver_that_waits_run_beside_the_loop(kind, on_loop):
    saver = kind()

    assert asyncio.run(walked_and_saved(saver)) == ["c2", "c1"]
    assert (threading.current_thread() in saver.called_on) is on_loop
    assert saver.called_on != set()


def test_without_a_loop_there_is_none_to_hold_up():
    saver = Slow()
    saving = saver.asave(record("c1"))
    with pytest.raises(StopIteration):
        saving.send(None)

    assert ids(saver.walk("t")) == ["c1"]


# --- what is no thread's id -----------------------------------------------------


CONFIG = {"configurable": {"thread_id": "ann"}}


@pytest.fixture(params=[InMemorySaver, lambda: SqliteSaver(":memory:")], ids=["memory", "sqlite"])
def saver(request):
    with request.param() as made:
        made.save(record("c1"))
        yield made


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda saver: saver.delete_thread(CONFIG), r"delete_thread takes the id of .* write delete_thread\('ann'\)"),
        (lambda saver: saver.delete_thread(5), r"delete_thread\(5\): a thread id is a str, not of type int: write '5'"),
        (lambda saver: saver.delete_thread(None), r"delete_thread\(None\): a thread id is a str, not of type NoneType"),
        (lambda saver: saver.delete_thread({}), r"write delete_thread\('1'\)"),
        (lambda saver: saver.copy_thread("t", CONFIG), r"copy_thread takes the id of a thread, not a config"),
        (lambda saver: saver.copy_thread(1, "u"), r"copy_thread\(1\): a thread id is a str"),
        (lambda saver: saver.prune(CONFIG), r'prune takes a list of thread ids, prune\(\["1"\]\); got dict'),
        (lambda saver: saver.prune(None), r"prune takes a list of thread ids.* got NoneType"),
        (lambda saver: saver.prune(["t", 5]), r"prune\(5\): a thread id is a str"),
        (lambda saver: saver.size_report(CONFIG), r"size_report takes the id of a thread"),
        (lambda saver: saver.load(CONFIG), r"load takes the id of a thread"),
        (lambda saver: next(saver.walk(CONFIG)), r"walk takes the id of a thread"),
        (lambda saver: asyncio.run(saver.adelete_thread(CONFIG)), r"delete_thread takes the id of a thread"),
        (lambda saver: asyncio.run(anext(saver.awalk(5))), r"walk\(5\): a thread id is a str"),
        (lambda saver: saver.get_tuple({}), r'Write get_tuple\(\{"configurable": \{"thread_id": "1"\}\}\)'),
    ],
)
def test_what_is_no_thread_id_is_told_so(saver, call, words):
    with pytest.raises(UsageError, match=words):
        call(saver)
    assert ids(saver.walk("t")) == ["c1"]


def test_ids_to_prune_may_come_one_by_one(saver):
    saver.save(record("c2", "c1"))

    assert saver.prune(iter(["t"])) == 1
