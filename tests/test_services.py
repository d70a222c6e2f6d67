from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import services

psycopg = pytest.importorskip("psycopg", reason="pip install 'loopwright[postgres]'")


def test_each_test_has_tables_of_its_own(postgres_server):
    with services.empty_schema(postgres_server) as one, services.empty_schema(postgres_server) as two:
        with psycopg.connect(one) as connection:
            connection.execute("CREATE TABLE things (number int)")
        with psycopg.connect(two) as connection:
            found = connection.execute("SELECT to_regclass('things')").fetchone()
    assert found == (None,)


@pytest.mark.parametrize("end", ["", "import os; os.kill(os.getpid(), 9)"])
def test_a_server_goes_with_the_tests_that_made_it(end):
    """Also when they are killed."""
    if services.postgres_programs() is None:
        services.missing("PostgreSQL is not installed.")
    program = f"from tests import services; print(services.own_cluster().home, flush=True); {end}"
    tests = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=Path(services.__file__).parent.parent
    )
    printed, _ = tests.communicate(timeout=60)  # to the end of what the guard, too, holds open
    assert printed.startswith("/")
    assert not Path(printed.strip()).exists()
