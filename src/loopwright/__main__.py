"""`python -m loopwright` is the command `loopwright`."""

from __future__ import annotations

import sys

from loopwright.cli.main import main

sys.exit(main())
