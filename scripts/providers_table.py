"""Write into docs/providers/README.md what the tests show of each provider: `python scripts/providers_table.py`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.shown import PAGE, table

TABLE = re.compile(r"^\| \| .*\n(?:\|.*\n)+", re.MULTILINE)


def main() -> None:
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
