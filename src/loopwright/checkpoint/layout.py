"""How a checkpoint becomes bytes: cells, differences between cells, ranges of items, bodies.

- The content of a cell is one byte, its kind, and then the value as the codec writes it, or the numbers of items.
  Neither has a count in front, so what was appended is only another end of the same bytes.
- A cell is stored as its difference from the one before it: so many bytes from its beginning, new bytes, so many from
  its end. When the differences since the last cell that is stored whole take more than four times its size, the next
  is stored whole again: what is read stays near what is needed, and what is stored grows with what was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

__all__ = [
    "HISTORY",
    "INLINE",
    "LIST",
    "NUMBER_BITS",
    "SHORT",
    "TASK_BITS",
    "Body",
    "Cell",
    "Content",
    "Due",
    "Ranges",
    "body_from",
    "body_of",
    "cell_after",
    "content_of",
    "encoded_in",
    "id_from",
    "id_of",
    "is_near",
    "pulled",
    "ranges_in",
    "resolve",
    "time_from",
    "time_of",
]

NUMBER_BITS: Final = 32
"""Bits of a place that number a thread's items and cells; the bits above them number the thread."""

TASK_BITS: Final = 20
"""Bits of the place of a task's writes that number it among those of its checkpoint."""

INLINE: Final = 20
"""A content of so many bytes stands in the checkpoint itself: a row would take more."""

SHORT: Final = 64
"""A written value of so many bytes stands among what its task has written, whatever the channel held before."""

_VALUE: Final = b"v"
HISTORY: Final = b"h"
"""Kind of a content: a `History`, by the numbers of its items."""
LIST: Final = b"l"
"""Kind of a content: a plain list of messages, by the numbers of its items."""

_ARRAY_32: Final = b"\xdd"  # msgpack: a list, and its count in four bytes
_DIFFERENCES: Final = 4
_ROW_BYTES: Final = 16
"""What a row costs beside its bytes, about."""


# --- contents -------------------------------------------------------------------


def content_of(encoded: bytes) -> bytes:
    """The content of a cell for a value as the codec has written it."""
    return _VALUE + encoded


def encoded_in(content: bytes) -> memoryview:
    """The way back."""
    return memoryview(content)[1:]


# --- ranges ---------------------------------------------------------------------


class Ranges:
    """Numbers of items, in the order of a list: `pairs` is start, count, start, count. Never changed once made."""

    __slots__ = ("length", "pairs")

    def __init__(self, pairs: list[int] | None = None, length: int | None = None) -> None:
        self.pairs: list[int] = pairs or []
        self.length = sum(self.pairs[1::2]) if length is None else length

    def __iter__(self) -> Iterator[int]:
        for start, count in self.runs():
            yield from range(start, start + count)

    def runs(self) -> Iterator[tuple[int, int]]:
        return zip(self.pairs[::2], self.pairs[1::2], strict=True)

    def at(self, position: int) -> int:
        """The number at a place of the list."""
        for start, count in self.runs():
            if position < count:
                return start + position
            position -= count
        raise IndexError(position)

    def then(self, numbers: Iterable[int]) -> Ranges:
        """These, and `numbers` after them."""
        pairs = list(self.pairs)
        length = self.length
        for number in numbers:
            length += 1
            if pairs and pairs[-2] + pairs[-1] == number:
                pairs[-1] += 1
            else:
                pairs += (number, 1)
        return Ranges(pairs, length)

    def first(self, length: int) -> Ranges:
        """The first `length` of them."""
        if length >= self.length:
            return self
        pairs: list[int] = []
        left = length
        for start, count in self.runs():
            if left <= 0:
                break
            pairs += (start, min(count, left))
            left -= count
        return Ranges(pairs, length)

    def from_(self, length: int) -> Ranges:
        """All but the first `length` of them."""
        pairs: list[int] = []
        skip = length
        for start, count in self.runs():
            if skip < count:
                pairs += (start + max(skip, 0), count - max(skip, 0))
            skip -= count
        return Ranges(pairs, max(self.length - length, 0))

    def common(self, other: Ranges) -> int:
        """How many of the first are the same in both."""
        same = 0
        for (start, count), (other_start, other_count) in zip(self.runs(), other.runs(), strict=False):
            if start != other_start:
                break
            same += min(count, other_count)
            if count != other_count:
                break
        return same

    def content(self, kind: bytes) -> bytes:
        """The content of a cell that shows these items."""
        count = len(self.pairs)
        numbers = _encode(self.pairs)[1 if count < 16 else 3 if count < 65536 else 5 :]
        return b"".join((kind, numbers, count.to_bytes(4, "big")))


def ranges_in(content: bytes) -> Ranges | None:
    """The items that a content shows; None if it is of another kind."""
    if content[:1] not in (HISTORY, LIST):
        return None
    return Ranges(_decode_pairs(b"".join((_ARRAY_32, content[-4:], content[1:-4]))))


# --- cells ----------------------------------------------------------------------


class Content(NamedTuple):
    """What a cell says, and what it took to say it."""

    data: bytes
    whole: int
    """Bytes of the last cell before it, or itself, that is stored whole."""
    since: int
    """Bytes of the differences since."""


class Cell(NamedTuple):
    """A row: whole without a `base`, else `prefix` bytes of the base's content, `blob`, and its last `suffix` bytes."""

    base: int | None
    prefix: int | None
    suffix: int | None
    blob: bytes


def cell_after(data: bytes, before: Content | None, number: int | None) -> tuple[Cell, Content]:
    """How to store `data` after the cell `number` that says `before`."""
    if before is not None:
        prefix, suffix = _common(before.data, data)
        middle = data[prefix : len(data) - suffix]
        since = before.since + len(middle) + _ROW_BYTES
        if len(middle) + _ROW_BYTES < len(data) and since <= _DIFFERENCES * before.whole:
            return Cell(number, prefix, suffix, middle), Content(data, before.whole, since)
    return Cell(None, None, None, data), Content(data, len(data), 0)


def is_near(data: bytes, before: Content) -> bool:
    """Whether half of a content, or more, stands in the one before it."""
    prefix, suffix = _common(before.data, data)
    return (len(data) - prefix - suffix + _ROW_BYTES) * 2 <= len(data)


def resolve(rows: Iterable[tuple[int, Cell]], known: dict[int, Content]) -> dict[int, Content]:
    """The contents of cells, given oldest first, each after its base; added to `known`."""
    for number, (base, prefix, suffix, blob) in rows:
        if base is None:
            known[number] = Content(blob, len(blob), 0)
        else:
            data, whole, since = known[base]
            end = data[len(data) - (suffix or 0) :]
            known[number] = Content(data[:prefix] + blob + end, whole, since + len(blob) + _ROW_BYTES)
    return known


def _common(one: bytes, two: bytes) -> tuple[int, int]:
    """How many bytes two contents have in common at the beginning, and then at the end."""
    prefix = _common_beginning(one, two)
    return prefix, _common_beginning(one[prefix:][::-1], two[prefix:][::-1])


def _common_beginning(one: bytes, two: bytes) -> int:
    low, high = 0, min(len(one), len(two))
    if one[:high] == two[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle
    return low


# --- bodies ---------------------------------------------------------------------


class Due(msgspec.Struct, array_like=True):
    """A pending task."""

    id: bytes
    name: str
    path: bytes | bool | None = None
    """As the codec writes it; None for the empty one, True for `pulled(name)`."""
    arg: bytes | None = None
    """As the codec writes it; None if there is none."""


def pulled(name: str) -> tuple[str, str]:
    """The path of a task that an edge led to: that of nearly all."""
    return "__pregel_pull", name


class Body(msgspec.Struct, array_like=True):
    """What of a checkpoint is asked for only together. New fields go to the end, with a default."""

    step: int
    source: str
    created_at: int | str
    cells: dict[str, int | tuple[int, bytes]]
    """The number of the cell of each channel; with it its content, if that is so short that it has no row."""
    pending: list[Due] = []
    metadata: bytes | None = None
    versions: bytes | None = None
    """Of channels whose version is somebody's own; that of the others is the number of their cell."""
    versions_seen: bytes | None = None
    account: bytes | None = None


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_pairs: Final = msgspec.msgpack.Decoder(list[int]).decode
_decode_body: Final = msgspec.msgpack.Decoder(Body).decode


def body_of(body: Body) -> bytes:
    return _encode(body)


def body_from(data: Any) -> Body:
    return _decode_body(data)


# --- ids and times --------------------------------------------------------------


def id_of(text: str) -> bytes:
    """An id as it is stored: a UUID, which nearly all are, takes 17 bytes in place of 36."""
    if len(text) == 36:
        try:
            packed = bytes.fromhex(text.replace("-", ""))
        except ValueError:
            packed = b""
        if _uuid_text(packed) == text:
            return b"u" + packed
    return b"t" + text.encode("utf-8", "surrogatepass")


def id_from(data: Any) -> str:
    """The way back. Raises `ValueError` or `TypeError` for what is no id."""
    data = bytes(memoryview(data))
    if data[:1] == b"u" and len(data) == 17:
        return _uuid_text(data[1:])
    if data[:1] != b"t":
        raise ValueError(f"{data[:20]!r} is no id")
    return data[1:].decode("utf-8", "surrogatepass")


def _uuid_text(data: bytes) -> str:
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def time_of(text: str) -> int | str:
    """A moment as it is stored: in microseconds since 1970, if it is written the way we do."""
    try:
        moment = datetime.fromisoformat(text)
        stored = (moment - _EPOCH) // _MICROSECOND
    except (ValueError, TypeError):
        return text
    return stored if time_from(stored) == text else text


def time_from(stored: int | str) -> str:
    """The way back."""
    return stored if isinstance(stored, str) else (_EPOCH + stored * _MICROSECOND).isoformat()


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
