"""Tests with a real model are skipped where it is not installed, and say so."""

import pytest

from loopwright.models.local.engine import missing_installs


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = missing_installs()
    if missing:
        reason = f"the local model is not installed: {' && '.join(missing)}"
        for item in items:
            if item.get_closest_marker("local"):
                item.add_marker(pytest.mark.skip(reason=reason))
