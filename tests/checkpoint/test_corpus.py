"""What some version has stored is read by every later one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from loopwright.checkpoint.base import Record
from loopwright.checkpoint.codec import VERSION, Codec
from loopwright.checkpoint.kinds import Unreadable
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.checkpoint.registry import Registry
from loopwright.checkpoint.sql import SCHEMA_VERSION
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.messages import HumanMessage
from loopwright.messages.history import add_messages
from tests.checkpoint.corpus.threads import live, shown
from tests.checkpoint.corpus.values import CLASSES, VALUES

CORPUS = Path(__file__).parent / "corpus"
STORED = [
    (path.stem, name, bytes.fromhex(data))
    for path in sorted(CORPUS.glob("values-*.json"))
    for name, data in json.loads(path.read_text(encoding="ascii")).items()
]


def types_in(value: Any) -> Any:
    """The types of a value and of what is right inside it."""
    return type(value), [type(item) for item in value] if isinstance(value, (list, tuple, set)) else []


@pytest.mark.parametrize(("version", "name", "data"), STORED, ids=[f"{version}-{name}" for version, name, _ in STORED])
def test_what_was_stored_is_read(version, name, data):
    lost: list[Unreadable] = []
    found = Codec(Registry(CLASSES)).decode(data, name, lost)

    assert lost == []
    assert found == VALUES[name]
    assert types_in(found) == types_in(VALUES[name])


def test_this_version_writes_what_it_has_written():
    """Else `python scripts/write_corpus.py`, or a new version of the codec."""
    written = {name: data for version, name, data in STORED if version == f"values-{VERSION}"}
    encode = Codec(Registry(CLASSES)).encode

    assert {name: encode(value, name) for name, value in VALUES.items()} == written


@pytest.mark.parametrize("file", sorted(CORPUS.glob("threads-*.sqlite")), ids=lambda file: file.stem)
def test_threads_that_were_stored_are_read_and_go_on(file, tmp_path):
    """As the saver in memory shows them after the same life."""
    expected = InMemorySaver()
    live(expected)
    shutil.copy(file, tmp_path / file.name)
    with SqliteSaver(tmp_path / file.name) as saver:
        assert shown(saver) == shown(expected)
        for each in (saver, expected):
            head = each.load("ann")
            assert head is not None
            history = add_messages(head.values["messages"], [HumanMessage("And now?", id="m10")])
            each.save(Record(id="next", thread_id="ann", parent_id=head.id, values={"messages": history}), {"messages"})
        assert shown(saver) == shown(expected)


def test_there_are_threads_of_this_version():
    """Else `python scripts/write_corpus.py`."""
    assert (CORPUS / f"threads-{SCHEMA_VERSION}.sqlite").exists()
