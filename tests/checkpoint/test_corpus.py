"""What some version has stored is read by every later one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopwright.checkpoint.codec import VERSION, Codec
from loopwright.checkpoint.kinds import Unreadable
from loopwright.checkpoint.registry import Registry
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
