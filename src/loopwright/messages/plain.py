"""Questions about plain data whose answers type checkers understand."""

from __future__ import annotations

from typing import Any, TypeGuard

__all__ = ["is_dict", "is_list"]


def is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether it is a dictionary; all of ours have strings for keys."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether it is a list."""
    return isinstance(value, list)
