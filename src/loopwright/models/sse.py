"""Server-sent events out of bytes, however the bytes are cut.

Rules (those of the WHATWG standard, where it matters to a model's stream):

- lines end in LF, CR LF or CR, and in nothing else: JSON may hold U+2028 and U+0085 unescaped;
- an event ends with a blank line; its `data:` lines are joined with LF; lines that begin with `:` are keep-alives;
- nothing is decoded here: a cut inside a UTF-8 character is a cut like any other;
- an event is handed on as soon as its blank line is there, never a byte later.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Event", "SseDecoder"]

Event = tuple[bytes, bytes]
"""(name, data) of one event; the name is empty where the server gave none."""

_BOM: Final = b"\xef\xbb\xbf"


class SseDecoder:
    """Feed it bytes as they arrive; it gives back the events that they complete."""

    __slots__ = ("_pending", "_seen", "_skip_lf", "_started")

    def __init__(self) -> None:
        self._pending = bytearray()
        self._seen = 0  # up to here `_pending` holds no end of an event
        self._skip_lf = False  # the last byte was CR: an LF that follows belongs to it
        self._started = False

    def feed(self, piece: bytes) -> list[Event]:
        """The events that end inside `piece`, in order."""
        if not piece:
            return []
        if self._skip_lf:
            self._skip_lf = False
            if piece[0] == 10:
                piece = piece[1:]
        if b"\r" in piece:
            self._skip_lf = piece[-1] == 13
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        pending = self._pending
        if pending or not self._started:
            pending += piece
            if not self._started and not self._begin():
                return []
            end = pending.rfind(b"\n\n", max(0, self._seen - 1))
            if end < 0:
                self._seen = len(pending)
                return []
            whole = bytes(pending[:end])
            del pending[: end + 2]
        else:
            end = piece.rfind(b"\n\n")
            if end < 0:
                pending += piece
                self._seen = len(pending)
                return []
            whole = piece[:end]
            pending += piece[end + 2 :]
        self._seen = len(pending)
        return _events(whole)

    def close(self) -> list[Event]:
        """What was left without a blank line when the stream ended: some servers forget it after the last event."""
        rest = bytes(self._pending)
        self._pending.clear()
        self._seen = 0
        return _events(rest.removeprefix(_BOM))

    def _begin(self) -> bool:
        """Drop a byte order mark; False while it may still be arriving."""
        pending = self._pending
        if len(pending) < 3 and _BOM.startswith(bytes(pending)):
            return False
        if pending.startswith(_BOM):
            del pending[:3]
        self._started = True
        return True


def _events(text: bytes) -> list[Event]:
    """Events of a run of lines without CR, split where lines are blank."""
    events: list[Event] = []
    for block in text.split(b"\n\n"):
        if block.startswith(b"data: ") and b"\n" not in block:  # nearly every event of every provider
            events.append((b"", block[6:]))
        elif block:
            event = _event(block)
            if event is not None:
                events.append(event)
    return events


def _event(block: bytes) -> Event | None:
    name = b""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return (name, b"\n".join(data)) if data else None
