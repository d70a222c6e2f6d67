"""The fixtures of our own pytest plugin, whether or not the package is installed."""

from loopwright.testing.pytest_plugin import manual_clock

__all__ = ["manual_clock"]
