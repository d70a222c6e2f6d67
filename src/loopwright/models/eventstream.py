"""AWS's event streams out of bytes, however the bytes are cut.

A message is its length and that of its headers (four bytes each, highest first), a checksum of those, the headers, the
payload, and a checksum of it all. Rules:

- a message is handed on as soon as its last byte is there;
- a wrong checksum raises `ValueError`: what follows could not be told apart any more;
- of the headers only those with a text for a value are kept, which all that matter here have.
"""

from __future__ import annotations

from typing import Final

__all__ = ["EventStreamDecoder", "Frame"]

Frame = tuple[dict[str, str], bytes]
"""(headers, payload) of one message."""

_HEAD: Final = 12
_LONGEST: Final = 25 * 1024 * 1024
_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""How long the value of a header is, by its type; types 6 and 7 say it themselves."""
_TEXT: Final = 7


class EventStreamDecoder:
    """Feed it bytes as they arrive; it gives back the messages that they complete."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, piece: bytes) -> list[Frame]:
        """The messages that end inside `piece`, in order. Raises `ValueError` for what is no event stream."""
        from zlib import crc32

        pending = self._pending
        pending += piece
        frames: list[Frame] = []
        while len(pending) >= _HEAD:
            total, headers = _number(pending[0:4]), _number(pending[4:8])
            if crc32(pending[:8]) != _number(pending[8:12]) or not _HEAD + headers + 4 <= total <= _LONGEST:
                raise ValueError("it begins with no sound head of a message")
            if len(pending) < total:
                break
            if crc32(pending[: total - 4]) != _number(pending[total - 4 : total]):
                raise ValueError("the checksum of a message does not fit")
            end = _HEAD + headers
            frames.append((_headers(bytes(pending[_HEAD:end])), bytes(pending[end : total - 4])))
            del pending[:total]
        return frames

    @property
    def is_between_messages(self) -> bool:
        """Whether no message has begun that has not ended."""
        return not self._pending


def _number(data: bytes | bytearray) -> int:
    return int.from_bytes(data, "big")


def _headers(data: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while at < len(data):
        named = at + 1 + data[at]
        name, kind = data[at + 1 : named].decode("utf-8", "replace"), data[named]
        at = named + 1
        if kind in (6, _TEXT):
            size = _number(data[at : at + 2])
            at += 2
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise ValueError(f"the header {name!r} has a value of no known type")
        if kind == _TEXT:
            found[name] = data[at : at + size].decode("utf-8", "replace")
        at += size
    return found
