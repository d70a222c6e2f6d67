"""Identifiers: unique across threads and processes, and in order where that is promised."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid

import pytest

from loopwright.ids import new_id, new_ordered_id


def test_ids_have_the_form_of_uuids():
    for made in (new_id(), new_ordered_id()):
        assert str(uuid.UUID(made)) == made
    assert uuid.UUID(new_ordered_id()).version == 7


def test_ids_are_unique_across_threads():
    made: list[str] = []

    def make() -> None:
        made.extend(new_id() for _ in range(500))
        made.extend(new_ordered_id() for _ in range(500))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == len(made) == 4000


def test_ordered_ids_sort_by_when_they_were_made():
    made = [new_ordered_id() for _ in range(5000)]
    assert made == sorted(made)


FORK = """
import os
from loopwright.ids import new_id
if os.fork() == 0:
    print(new_id(), flush=True)
    os._exit(0)
os.wait()
print(new_id())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_never_repeats_its_parents_ids():
    """It has the parent's counter and a random part of its own."""
    ran = subprocess.run([sys.executable, "-c", FORK], check=True, capture_output=True, text=True)
    child, parent = ran.stdout.split()
    assert child[24:] == parent[24:]
    assert child[:24] != parent[:24]
