"""Shows a local model while it loads, whoever asked for it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from loopwright.cli.screen import Screen

if TYPE_CHECKING:
    from loopwright.models.local import Loading

__all__ = ["show_loading"]


@contextmanager
def show_loading(screen: Screen) -> Generator[None, None, None]:
    """For as long as the block runs."""
    from loopwright.models.local.engine import watch_loading

    def show(news: Loading) -> None:
        name = f"{Path(news.path).stem} ({news.size / 1e6:.0f} MB)"
        if news.done:
            screen.line(f"loaded {name} in {news.seconds:.1f} s", "dim")
            screen.busy("reads")
        else:
            screen.busy(f"loading {name}")

    stop = watch_loading(show)
    try:
        yield
    finally:
        stop()
