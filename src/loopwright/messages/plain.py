"""Questions about plain data whose answers type checkers understand."""

from __future__ import annotations

from typing import Any, TypeGuard

import msgspec

__all__ = ["is_dict", "is_list", "json_text"]


def is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether it is a dictionary; all of ours have strings for keys."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether it is a list."""
    return isinstance(value, list)


def json_text(value: Any) -> str:
    """`value` as JSON text; half of a surrogate pair, which no UTF-8 can hold, is written as an escape."""
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except UnicodeEncodeError:
        import json

        return json.dumps(value, default=str)
