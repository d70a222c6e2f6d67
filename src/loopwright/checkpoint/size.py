"""How many bytes stored values take, as encoded, each counted once."""

from __future__ import annotations

from typing import Any, cast

import msgspec

__all__ = ["Scale"]


class Scale:
    """Adds up encoded sizes. Holds on to what it has counted, so that no id is used twice meanwhile."""

    def __init__(self) -> None:
        self._total = 0
        self._seen: dict[int, Any] = {}
        self._lists: dict[int, tuple[list[Any], int]] = {}

    def bytes(self) -> int:
        """All that was added. Items of lists are looked at here: a list that a thousand checkpoints show, once."""
        for items, length in self._lists.values():
            for item in items[:length]:
                if id(item) not in self._seen:
                    self._seen[id(item)] = item
                    self.add(item)
        self._lists.clear()
        return self._total

    def add(self, value: Any) -> None:
        self._total += _encoded_size(value)

    def add_once(self, key: object, value: Any) -> None:
        """Count `value`, unless this very `key` was counted before; of a list, each item."""
        if id(key) in self._seen:
            return
        self._seen[id(key)] = key
        if type(value) is list:
            items = cast("list[Any]", value)
            self.add_items(items, len(items))
        else:
            self.add(value)

    def add_items(self, items: list[Any], length: int) -> None:
        """Count the first `length` items, each once however many lists it is in."""
        longest = max(length, self._lists.get(id(items), (items, 0))[1])
        self._lists[id(items)] = items, longest


def _encoded_size(value: Any) -> int:
    """Bytes of `value` in msgpack; of its text where msgpack has no form for it."""
    try:
        return len(_encoder.encode(value))
    except (msgspec.MsgspecError, OverflowError, RecursionError, TypeError, ValueError):
        return len(repr(value).encode("utf-8", "replace"))


def _hook(value: Any) -> Any:
    """What msgpack cannot write: an object by its attributes, else by its text."""
    state: dict[str, Any] = getattr(value, "__dict__", {})
    return state or str(value)


_encoder = msgspec.msgpack.Encoder(enc_hook=_hook)
