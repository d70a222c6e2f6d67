"""Loopwright: agent = model + tools + a loop that asks "go on?"."""

__all__ = ["__version__"]

__version__ = "0.1.0"
