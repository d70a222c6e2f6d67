"""The table in docs/providers/README.md is what the tests say, and their marks say only what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shown import FEATURES, PAGE, PROVIDERS, shown, table


def test_the_table_is_what_the_tests_say():
    assert table() in PAGE.read_text(encoding="utf-8"), "write it anew: python scripts/providers_table.py"


def test_marks_name_providers_and_features():
    known = {*PROVIDERS, *FEATURES}
    assert {one.test: one.names - known for one in shown() if one.names - known} == {}
    halves = (PROVIDERS.keys(), set(FEATURES))
    assert [one.test for one in shown() if any(half.isdisjoint(one.names) for half in halves)] == []


def test_no_name_is_a_provider_and_a_feature():
    assert PROVIDERS.keys() & set(FEATURES) == set()


def test_each_provider_and_each_feature_is_shown():
    names = {name for one in shown() for name in one.names}
    assert {*PROVIDERS, *FEATURES} - names == set()


def test_marks_are_read_as_pytest_reads_them(request: pytest.FixtureRequest):
    """Of the tests that run now. What stands for a whole file shows nothing without a test's own mark."""
    read: dict[tuple[Path, str], set[str]] = {}
    for one in shown():
        read.setdefault((one.path, one.test), set()).update(one.names)
    for item in request.session.items:
        names = {name for mark in item.iter_markers("shows") for name in mark.args}
        test = item.nodeid.split("::")[1].split("[")[0]
        if names - PROVIDERS.keys():
            assert (test, read.get((item.path, test))) == (test, names)
