"""The command line: `loopwright demo` and `loopwright chat`. An agent or model never imports it."""

from __future__ import annotations

__all__: list[str] = []
