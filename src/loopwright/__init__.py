"""Loopwright: agent = model + tools + a loop that asks "go on?"."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopwright.agents.factory import create_agent

__all__ = ["__version__", "create_agent"]

__version__ = "0.1.0"

_LAZY = {"create_agent": "agents.factory"}
"""Name -> module. Imported when it is asked for: every import of ours comes through here."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    from loopwright.errors import no_such_name

    raise no_such_name(__name__, name)
