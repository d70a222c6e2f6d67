"""How checkpoints become bytes: differences, ranges, ids and times come back as they were, and take little."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.checkpoint.layout import (
    HISTORY,
    LIST,
    Body,
    Due,
    Ranges,
    body_from,
    body_of,
    cell_after,
    content_of,
    id_from,
    id_of,
    ranges_in,
    resolve,
    time_from,
    time_of,
)

numbers = st.lists(st.integers(1, 60) | st.integers(1, 2**31), max_size=40)


@given(st.lists(st.binary(max_size=200) | st.text("ab", max_size=200).map(str.encode), min_size=1, max_size=30))
def test_a_chain_of_differences_says_what_was_said(contents):
    rows, before = [], None
    for number, data in enumerate(contents, 1):
        cell, before = cell_after(data, before, number - 1)
        rows.append((number, cell))

    known = resolve(rows, {})
    assert [known[number].data for number, _ in rows] == contents
    assert known[len(contents)] == before


def test_what_is_appended_is_all_that_is_stored():
    """And the whole again only now and then: the sum grows with what was said, not with its square."""
    stored, before, data, whole = [], None, b"x" * 1000, 0
    for number in range(1000):
        data += b"%06d" % number
        cell, before = cell_after(data, before, number)
        stored.append(len(cell.blob))
        whole += cell.base is None

    assert whole < 5
    assert sum(stored) < 3.5 * len(data)
    assert before is not None
    assert before.since <= 4 * before.whole


def test_a_change_in_the_middle_is_a_difference_too():
    _, before = cell_after(b"a" * 500 + b"1" + b"b" * 500, None, None)
    cell, _ = cell_after(b"a" * 500 + b"22" + b"b" * 500, before, 7)

    assert cell == (7, 500, 500, b"22")


@given(numbers, numbers, st.integers(0, 50))
def test_ranges_are_lists_of_numbers(one, two, length):
    first = Ranges().then(one)
    both = first.then(two)

    assert list(both) == one + two
    assert both.length == len(one + two)
    assert list(both.first(length)) == (one + two)[:length]
    assert list(both.from_(length)) == (one + two)[length:]
    assert both.first(len(one)).pairs == first.pairs
    for kind in (HISTORY, LIST):
        found = ranges_in(both.content(kind))
        assert found is not None
        assert (found.pairs, found.length) == (both.pairs, both.length)


@given(numbers, numbers)
def test_ranges_know_what_they_have_in_common(one, two):
    expected = next((index for index, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]), None)
    if expected is None:
        expected = min(len(one), len(two))

    assert Ranges().then(one).common(Ranges().then(two)) == expected


def test_a_long_conversation_is_a_short_content():
    assert len(Ranges().then(range(1, 10_001)).content(HISTORY)) < 12
    assert ranges_in(content_of(b"\x01vx")) is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0190a8f0-7b5c-7d3e-8a4b-1c2d3e4f5a6b", 17),
        ("0190A8F0-7b5c-7d3e-8a4b-1c2d3e4f5a6b", 37),
        ("0190a8f07-b5c-7d3e-8a4b-1c2d3e4f5a6b", 37),
        ("zzzzzzzz-7b5c-7d3e-8a4b-1c2d3e4f5a6b", 37),
        ("c1", 3),
        ("", 1),
        ("\ud800", 4),
        ("u" * 17, 18),
    ],
)
def test_ids_come_back(text, size):
    assert id_from(id_of(text)) == text
    assert len(id_of(text)) == size


@given(st.text(max_size=40) | st.uuids().map(str))
def test_any_id_comes_back(text):
    assert id_from(memoryview(id_of(text))) == text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2026-01-01T00:00:02+00:00", int),
        ("2026-01-01T00:00:02.000001+00:00", int),
        ("1969-12-31T23:59:59.999999+00:00", int),
        ("9999-12-31T23:59:59.999999+00:00", int),
        ("2026-01-01T00:00:02Z", str),
        ("2026-01-01T00:00:02", str),
        ("2026-01-01T00:00:02+01:00", str),
        ("2026-01-01T00:00:02.5+00:00", str),
        ("once", str),
        ("", str),
    ],
)
def test_times_come_back_as_they_were_written(text, kind):
    assert time_from(time_of(text)) == text
    assert type(time_of(text)) is kind


@given(st.datetimes(timezones=st.just(None)).map(lambda moment: moment.isoformat() + "+00:00"))
def test_any_time_comes_back(text):
    assert time_from(time_of(text)) == text


def test_a_body_may_have_fields_that_this_version_does_not_know():
    """A later version adds to its end; what it adds is not understood, and all before it is."""
    numbers = count(1)
    body = Body(1, "loop", 5, {"a": next(numbers), "b": (next(numbers), b"v")}, [Due(b"tx", "node")], b"m")
    data = body_of(body)

    assert body_from(data) == body
    assert body_from(bytes([data[0] + 1]) + data[1:] + b"\xa3new") == body
