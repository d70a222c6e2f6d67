"""The elements of a JSON array out of bytes, each as soon as it is complete, however the bytes are cut.

Gemini streams so when it is not asked for server-sent events. Nothing is decoded here: an element begins with the first
brace, ends with the brace that closes it, and what stands between two elements is skipped. Only quotes, backslashes,
braces and brackets matter, so a cut inside a character is a cut like any other.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["ArrayDecoder"]

_OUTSIDE: Final = re.compile(rb'[{}]|"(?:[^"\\]*")?')
"""A brace, a string without escapes, or the quote that begins any other."""
_INSIDE: Final = re.compile(rb'["\\]')


class ArrayDecoder:
    """Feed it bytes as they arrive; it gives back the objects that they complete."""

    __slots__ = ("_at", "_depth", "_in_string", "_pending")

    def __init__(self) -> None:
        self._pending = bytearray()
        self._at: int = 0  # up to here `_pending` has been looked at
        self._depth = 0
        self._in_string = False

    @property
    def is_inside(self) -> bool:
        """Whether an object has begun and not ended."""
        return self._depth > 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The objects that end inside `piece`, in order."""
        pending = self._pending
        pending += piece
        found: list[bytes] = []
        begin, at = 0, self._at
        while True:
            mark = (_INSIDE if self._in_string else _OUTSIDE).search(pending, at)
            if mark is None:
                at = len(pending)
                break
            at = mark.end()
            if at - mark.start() > 1:
                continue
            char = pending[at - 1]
            if char == 92:  # a backslash: whatever it escapes is no end of the string
                if at == len(pending):
                    at -= 1
                    break
                at += 1
            elif char == 34:
                self._in_string = not self._in_string
            elif char == 123:
                if not self._depth:
                    begin = at - 1
                self._depth += 1
            elif self._depth:
                self._depth -= 1
                if not self._depth:
                    found.append(bytes(pending[begin:at]))
                    begin = at
        del mark  # it holds on to the buffer, which is cut now
        self._at = at - begin
        del pending[:begin]
        return found
