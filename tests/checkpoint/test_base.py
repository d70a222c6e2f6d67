from __future__ import annotations

import asyncio
import threading
from typing import ClassVar

import pytest

from loopwright.checkpoint.conformance.records import ids, record
from loopwright.checkpoint.memory import InMemorySaver


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
