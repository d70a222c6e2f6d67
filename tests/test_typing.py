"""The files in `tests/typing` are programs whose `assert_type` lines both checkers must agree with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CHECKERS = {
    "mypy": ["-m", "mypy"],
    "pyright": ["-m", "pyright", "--pythonpath", sys.executable],
}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_checkers_agree(checker: str) -> None:
    files = [str(path) for path in sorted((ROOT / "tests/typing").glob("*.py"))]
    process = subprocess.run(
        [sys.executable, *CHECKERS[checker], *files], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stdout + process.stderr
