"""The body of an answer to a request for a stream: events as they come, or a whole JSON answer after all.

Rules:

- a body that begins with a brace or a bracket is JSON: no line of a stream begins with one. Some servers answer so,
  most of them with an error;
- the beginning is kept, to be shown where the body was neither.
"""

from __future__ import annotations

from loopwright.models.sse import Event, SseDecoder

__all__ = ["StreamBody"]

_HEAD = 400
"""So many bytes of the beginning are kept."""


class StreamBody:
    """Feed it bytes as they arrive; it gives back the events that they complete."""

    __slots__ = ("_begun", "_head", "_sse", "_whole")

    def __init__(self) -> None:
        self._sse = SseDecoder()
        self._begun = False  # something other than white space has come
        self._head = b""
        self._whole: bytearray | None = None

    def feed(self, piece: bytes) -> list[Event]:
        """The events that end inside `piece`; none where the body is JSON."""
        if self._whole is not None:
            self._whole += piece
            return []
        if len(self._head) < _HEAD:
            self._head += piece[:_HEAD]
        if not self._begun and self._is_json(piece):
            return []
        return self._sse.feed(piece)

    def close(self) -> list[Event]:
        """An event that no blank line ended."""
        return self._sse.close()

    @property
    def whole(self) -> bytes | None:
        """The body if it is JSON."""
        return None if self._whole is None else bytes(self._whole)

    @property
    def beginning(self) -> str:
        """The first words of the body, in one line."""
        return " ".join(self._head[:_HEAD].decode("utf-8", "replace").split())

    def _is_json(self, piece: bytes) -> bool:
        body = piece.lstrip(b"\xef\xbb\xbf \r\n\t")
        self._begun = bool(body)
        if body[:1] not in (b"{", b"["):
            return False
        self._whole = bytearray(body)
        return True
