"""Write what this version stores of the values and threads in tests/checkpoint/corpus, for later versions to read.

    python scripts/write_corpus.py

Adds what is new to the file of the codec's version. What stands there has been stored by somebody and never changes:
if the codec writes it in another way now, this says so and writes nothing. A file of threads is written once for each
version of the tables.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from loopwright.checkpoint.codec import VERSION, Codec  # noqa: E402 - the tests are found by the path above
from loopwright.checkpoint.registry import Registry  # noqa: E402
from loopwright.checkpoint.sql import SCHEMA_VERSION  # noqa: E402
from loopwright.checkpoint.sqlite import SqliteSaver  # noqa: E402
from tests.checkpoint.corpus.threads import live  # noqa: E402
from tests.checkpoint.corpus.values import CLASSES, VALUES  # noqa: E402


def main() -> int:
    path = ROOT / "tests" / "checkpoint" / "corpus" / f"values-{VERSION}.json"
    written: dict[str, str] = json.loads(path.read_text(encoding="ascii")) if path.exists() else {}
    encode = Codec(Registry(CLASSES)).encode
    now = {name: encode(value, name).hex() for name, value in VALUES.items()}
    changed = [name for name, data in written.items() if now.get(name) != data]
    if changed:
        print(f"{path.name} says otherwise: {', '.join(changed)}. A new form needs a new VERSION of the codec.")
        return 1
    path.write_text(json.dumps(now, indent=1) + "\n", encoding="ascii")
    print(f"{path.name}: {len(now)} values, {len(now) - len(written)} of them new")
    threads = path.with_name(f"threads-{SCHEMA_VERSION}.sqlite")
    if not threads.exists():
        with SqliteSaver(threads) as saver:
            live(saver)
        print(f"{threads.name}: new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
