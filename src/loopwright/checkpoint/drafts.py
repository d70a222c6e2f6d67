"""Values on their way to rows: encoded by whoever saves them, before a transaction begins.

So what cannot be stored is refused before anything is written, a caller may go on changing what it gave, and a list
of messages is encoded only where it is new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgspec

from loopwright.checkpoint.codec import Codec
from loopwright.checkpoint.known import Known, Lines
from loopwright.checkpoint.layout import HISTORY, LIST, Due, Ranges, content_of, id_of, pulled
from loopwright.checkpoint.record import NO_ARG, Pending
from loopwright.messages.base import BaseMessage
from loopwright.messages.history import Buffer, History

__all__ = [
    "CELL",
    "MESSAGE",
    "VALUE",
    "Draft",
    "Drafts",
    "Key",
    "Messages",
    "Written",
    "argument_path",
    "entries_from",
    "entries_of",
    "written_path",
]

Key: TypeAlias = tuple[str, str, str]
"""Thread id, namespace, channel."""

VALUE: Final = "v"
"""Kind of a written entry: a value as the codec writes it."""
MESSAGE: Final = "m"
"""Kind of a written entry: one message. Lists of them are of the kinds `h` and `l`."""
CELL: Final = "c"
"""Kind of a written entry: a value that differs little from what the channel holds, as the number of a cell.

Mostly the next checkpoint shows the same cell."""


class Messages(NamedTuple):
    """A list of messages: the numbers of those that are stored, the bytes of those that are not."""

    kind: bytes
    items: list[BaseMessage]
    """The first `length` of these; a `History` shares them with its later versions."""
    length: int
    buffer: Buffer | None
    lines: Lines | None
    """Where the numbers are from."""
    ranges: Ranges
    """Numbers of the first messages."""
    rest: list[int | bytes]
    """Number or bytes of each further one."""
    whole: bool
    """`Lines.whole`."""


Draft: TypeAlias = bytes | Messages
"""The content of a cell, or messages that have yet to get their numbers."""

Written: TypeAlias = tuple[str, str, bytes | Messages]
"""One entry that a task has written: channel, kind, bytes or messages."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode_entries: Final = msgspec.msgpack.Decoder(list[tuple[str | int, str, Any]]).decode

_NAMES: Final = ("messages", "__account__", "__goto__", "__error__", "__interrupt__", "__resume__", "__return__")
"""Channels that nearly all rows name: there by their place in this. More may be added at the end, none taken away."""
_PLACES: Final = {name: place for place, name in enumerate(_NAMES)}


def entries_of(entries: list[tuple[str, str, Any]]) -> bytes:
    """What a task has written, as a row holds it: messages by number."""
    return _encode([(_PLACES.get(channel, channel), kind, payload) for channel, kind, payload in entries])


def entries_from(blob: Any) -> list[tuple[str, str, Any]]:
    """Channel, kind, and bytes, a number of a message or a cell, or the pairs of ranges."""
    return [
        (channel if isinstance(channel, str) else _NAMES[channel], kind, payload)
        for channel, kind, payload in _decode_entries(blob)
    ]


class Drafts:
    """Encodes what is to be stored. Raises `UnstorableError` with the path to what cannot be."""

    def __init__(self, codec: Codec, known: Known) -> None:
        self._codec: Final = codec
        self._known: Final = known

    def of(self, value: Any, path: str, key: Key) -> Draft:
        """The value of a channel."""
        if type(value) is History:
            buffer = value.buffer
            draft = self._messages(HISTORY, buffer.items, len(value), buffer, path, key)
        elif _are_messages(value):
            items = list(cast("list[BaseMessage]", value))
            draft = self._messages(LIST, items, len(items), None, path, key)
        else:
            draft = None
        return content_of(self._codec.encode(value, path)) if draft is None else draft

    def anew(self, draft: Messages) -> Messages:
        """The same messages, with nothing known of them."""
        before = self._codec.registry.placeholders
        rest: list[int | bytes] = [self._codec.encode_message(message) for message in draft.items[: draft.length]]
        whole = self._codec.registry.placeholders == before
        return draft._replace(lines=None, ranges=Ranges(), rest=rest, whole=whole)

    def _messages(
        self, kind: bytes, items: list[BaseMessage], length: int, buffer: Buffer | None, path: str, key: Key
    ) -> Messages | None:
        """None if not all of them are messages."""
        lines = self._seen(buffer, key)
        before = self._codec.registry.placeholders
        ranges = Ranges()
        numbers: Mapping[int, int] = {}
        if lines is not None:
            if buffer is not None and lines.buffer is buffer:
                ranges = lines.ranges.first(length)
            else:
                numbers = _numbers_of(lines, items[:length])
        rest: list[int | bytes] = []
        for index, message in enumerate(items[ranges.length : length], ranges.length):
            number = numbers.get(id(message))
            if number is not None:
                rest.append(number)
            elif isinstance(cast(Any, message), BaseMessage):
                rest.append(self._again(message, lines) or self._codec.encode_message(message, f"{path}[{index}]"))
            else:
                return None
        whole = self._codec.registry.placeholders == before and (lines is None or lines.whole)
        return Messages(kind, items, length, buffer, lines, ranges, rest, whole)

    def _seen(self, buffer: Buffer | None, key: Key) -> Lines | None:
        """Where messages have numbers from: the same list, or what a graph around this one has under the same name."""
        thread_id, ns, channel = key
        nearest: Lines | None = None
        while True:
            lines = self._known.lines.get((thread_id, ns, channel))
            if lines is not None and buffer is not None and lines.buffer is buffer:
                return lines
            nearest = nearest or lines
            if not ns:
                return nearest
            ns = ns.rpartition("|")[0]

    def _again(self, message: BaseMessage, lines: Lines | None) -> int | None:
        """The number of a message that is stored already, as another object."""
        if lines is None or lines.buffer is None:
            return None
        position = lines.buffer.index.get(message.id)
        if position is None or position >= lines.ranges.length:
            return None
        encode = self._codec.encode_message
        return lines.ranges.at(position) if encode(lines.items[position]) == encode(message) else None

    def written(self, channel: str, value: Any, at: tuple[str, str]) -> Written:
        """One entry that a task in the thread and namespace `at` has written.

        A message without an id will be another one in the state.
        """
        path = written_path(channel)
        if isinstance(value, BaseMessage) and value.id is not None:
            return channel, MESSAGE, self._codec.encode_message(value, path)
        if _are_messages(value) and all(message.id is not None for message in cast("list[BaseMessage]", value)):
            if type(value) is History:
                draft = self._messages(HISTORY, value.buffer.items, len(value), value.buffer, path, (*at, channel))
            else:
                items = list(cast("list[BaseMessage]", value))
                draft = self._messages(LIST, items, len(items), None, path, (*at, channel))
            if draft is not None:
                return channel, draft.kind.decode(), draft
        return channel, VALUE, self._codec.encode(value, path)

    def due(self, pending: Sequence[Pending]) -> list[Due]:
        """Pending tasks."""
        encode = self._codec.encode
        return [
            Due(
                id_of(task.id),
                task.name,
                task.path == pulled(task.name) or (encode(task.path, "path") if task.path else None),
                None if task.arg is NO_ARG else encode(task.arg, argument_path(task.name)),
            )
            for task in pending
        ]

    def plain(self, value: Any, path: str) -> bytes:
        """What is stored beside the values."""
        return self._codec.encode(value, path)


def written_path(channel: str) -> str:
    """Where an entry that a task has written is, in errors."""
    return channel.strip("_") if channel.startswith("__") else f'state["{channel}"]'


def argument_path(name: str) -> str:
    """Where the argument of a pending task is, in errors."""
    return f'the argument of Send("{name}", ...)'


def _are_messages(value: Any) -> bool:
    """Whether it is a list of messages and nothing else, and has any."""
    if type(value) is not list and type(value) is not History:
        return False
    items = cast("list[Any]", value)
    return bool(items) and isinstance(items[0], BaseMessage) and all(isinstance(item, BaseMessage) for item in items)


def _numbers_of(lines: Lines, messages: list[BaseMessage]) -> dict[int, int]:
    """Numbers by `id` of an object, if any of the messages is one of these: a task mostly writes new ones only."""
    if lines.buffer is not None:
        index, items, length = lines.buffer.index, lines.items, lines.ranges.length
        positions = (index.get(message.id, length) for message in messages)
        if not any(at < length and items[at] is message for at, message in zip(positions, messages, strict=True)):
            return {}
    return dict(zip(map(id, lines.items), lines.ranges, strict=False))
