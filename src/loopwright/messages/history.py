"""The history of a conversation: a list that grows, and the rules by which it changes.

`add_messages` is the reducer. Rules:

- a message without an id gets one, on a copy; nothing a caller gave is changed;
- a message whose id is known replaces the one that has it, in its place, also inside one update;
- `RemoveMessage(id=...)` takes one out; an id that nobody has is an error. `RemoveMessage(id=REMOVE_ALL_MESSAGES)`
  empties the history, and removing after it asks for nothing more;
- chunks become finished messages.

`History` is a plain list to everybody who reads it. Its versions share a `Buffer`: all messages, once, only ever
appended to. A version is the first `len(version)` of them, so appending to the newest version looks at nothing but
what is new, and a saver knows by `(buffer, length)` what it has stored already. Appending to an older version,
replacing and removing begin a new buffer. Whoever changes a `History` in place only cuts it off from its buffer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from operator import is_
from typing import Any, Final, Literal, Self, SupportsIndex, cast, overload

from loopwright.errors import InvalidUpdateError, UsageError
from loopwright.ids import new_id
from loopwright.messages.base import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    with_id,
)
from loopwright.messages.chunks import message_chunk_to_message
from loopwright.messages.convert import convert_to_messages

__all__ = ["REMOVE_ALL_MESSAGES", "Buffer", "History", "add_messages", "messages_with_ids"]

REMOVE_ALL_MESSAGES: Final = "__remove_all__"
"""The id that a `RemoveMessage` has to empty the history."""

_append: Final = cast(Any, list).append  # the list's own: ours would cut off from the buffer
_extend: Final = cast(Any, list).extend
_growing = threading.RLock()  # two runs may go on from the same version at once: only one of them appends to its buffer


class Buffer:
    """Messages that only grow in number, and where each id is."""

    __slots__ = ("__weakref__", "checked", "index", "items")

    items: list[BaseMessage]
    index: dict[Any, int]
    """Position by id. Made when somebody asks first: most threads that are read are only looked at."""
    checked: int
    """How many of the first messages are known to be in order. Kept by `repair_history`."""

    def __init__(self, items: list[BaseMessage]) -> None:
        self.items = items
        self.checked = 0

    def __getattr__(self, name: str) -> Any:
        """`index`, as long as it is not there: a property would be called at every look."""
        if name != "index":
            raise AttributeError(f"a Buffer has no attribute {name!r}")
        with _growing:  # nobody appends meanwhile, or makes it at the same time
            try:
                return object.__getattribute__(self, name)
            except AttributeError:
                self.index = {message.id: position for position, message in enumerate(self.items)}
                return self.index


class History(list[BaseMessage]):
    """A list of messages that knows what it shares with its earlier versions."""

    buffer: Buffer
    """What this version shares with others: it is the first `len(self)` of `buffer.items`. Made when it is missing."""

    def __getattr__(self, name: str) -> Any:
        if name != "buffer":
            raise AttributeError(f"a History has no attribute {name!r}")
        self.buffer = Buffer(list(self))
        return self.buffer

    def _cut_off(self) -> None:
        self.__dict__.pop("buffer", None)

    @classmethod
    def of(cls, buffer: Buffer, length: int) -> History:
        """The version that is the first `length` messages of a buffer."""
        history = cls(buffer.items if length == len(buffer.items) else buffer.items[:length])
        history.buffer = buffer
        return history

    def __reduce__(self) -> tuple[Any, ...]:
        return History, (list(self),)

    def copy(self) -> History:
        """The same version again."""
        other = History(self)
        other.__dict__.update(self.__dict__)
        return other

    __copy__ = copy

    def append(self, value: BaseMessage, /) -> None:
        self._cut_off()
        super().append(value)

    def extend(self, values: Iterable[BaseMessage], /) -> None:
        self._cut_off()
        super().extend(values)

    def insert(self, index: SupportsIndex, value: BaseMessage, /) -> None:
        self._cut_off()
        super().insert(index, value)

    def pop(self, index: SupportsIndex = -1, /) -> BaseMessage:
        self._cut_off()
        return super().pop(index)

    def remove(self, value: BaseMessage, /) -> None:
        self._cut_off()
        super().remove(value)

    def clear(self) -> None:
        self._cut_off()
        super().clear()

    def reverse(self) -> None:
        self._cut_off()
        super().reverse()

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        self._cut_off()
        super().sort(key=key, reverse=reverse)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._cut_off()
        super().__setitem__(key, value)

    def __delitem__(self, key: SupportsIndex | slice) -> None:
        self._cut_off()
        super().__delitem__(key)

    def __iadd__(self, values: Iterable[BaseMessage], /) -> Self:  # type: ignore[override]
        self._cut_off()
        super().__iadd__(values)
        return self

    def __imul__(self, count: SupportsIndex, /) -> Self:
        self._cut_off()
        super().__imul__(count)
        return self


_FINISHED: Final = frozenset({AIMessage, HumanMessage, ToolMessage})
"""Classes whose messages may be added as they are, once they have an id."""

_Format = Literal["langchain-openai"] | None

_missing: Any = object()


@overload
def add_messages(left: Any, right: Any, *, format: _Format = None) -> History: ...
@overload
def add_messages(*, format: _Format = None) -> Callable[[Any, Any], History]: ...
def add_messages(left: Any = _missing, right: Any = _missing, *, format: _Format = None) -> Any:
    """`left` with the messages of `right` added, as a new `History`.

    Both may be anything `convert_to_messages` takes, or None for nothing. `format="langchain-openai"` brings
    contents to OpenAI's block form. Without `left` and `right` it returns the reducer with that format, for an
    annotation. Raises `InvalidUpdateError` (a `ValueError`) when a message to remove is not there.
    """
    if left is _missing or right is _missing:
        if left is not right:
            raise UsageError("add_messages needs both lists: write add_messages(left, right)")
        return partial(add_messages, format=format)
    history = left if left.__class__ is History and "buffer" in left.__dict__ else _first_version(left)
    if right.__class__ is list and len(right) == 1 and right[0].__class__ in _FINISHED and right[0].id is not None:
        merged = _add_one(history, history.buffer, len(history), right[0])  # what nearly every step does
    else:
        merged = _add(history, messages_with_ids(right))
    if format is None:
        return merged
    if format != "langchain-openai":
        raise UsageError(f'add_messages format is "langchain-openai" or None, not {format!r}')
    from loopwright.messages.openai_form import in_openai_blocks

    return _first_version([in_openai_blocks(message) for message in merged])


def _first_version(messages: Any) -> History:
    """A history with a buffer of its own, from what is none yet."""
    history = History(messages_with_ids(messages))
    history.buffer = Buffer(list(history))
    return history


def messages_with_ids(messages: Any) -> list[BaseMessage]:
    """Messages with ids, from anything."""
    if messages.__class__ is list and len(messages) == 1 and isinstance(messages[0], BaseMessage):  # nearly every step
        only: BaseMessage = messages[0]
        return [only if only.id is not None and not isinstance(only, BaseMessageChunk) else _settled(only)]
    if messages is None:
        return []
    return [
        message if message.id is not None and not isinstance(message, BaseMessageChunk) else _settled(message)
        for message in ([messages] if isinstance(messages, BaseMessage) else convert_to_messages(messages))
    ]


def _settled(message: BaseMessage) -> BaseMessage:
    message = message_chunk_to_message(message)
    return message if message.id is not None else with_id(message, new_id())


def _add(history: History, news: list[BaseMessage]) -> History:
    buffer = history.buffer
    length = len(history)
    index = buffer.index
    if len(news) == 1:
        return _add_one(history, buffer, length, news[0])
    fresh: dict[str, int] = {}
    for message in news:
        id: Any = message.id
        # An id that this buffer has beyond this version is unknown here; the plain way below sorts that out.
        if id in index or id in fresh or message.type == "remove":
            return _rebuild(history, news)
        fresh[id] = length + len(fresh)
    with _growing:
        if length != len(buffer.items):
            buffer = Buffer(list(history))
        buffer.items += news
        buffer.index.update(fresh)
    version = History(history)
    _extend(version, news)
    version.buffer = buffer
    return version


def _add_one(history: History, buffer: Buffer, length: int, message: BaseMessage) -> History:
    """What nearly every step does."""
    id: Any = message.id
    index = buffer.index
    if id in index or message.__class__ is RemoveMessage:
        return _rebuild(history, [message])
    with _growing:
        if length != len(buffer.items):
            buffer = Buffer(list(history))
            index = buffer.index
        buffer.items.append(message)
        index[id] = length
    version = History(history)
    _append(version, message)
    version.buffer = buffer
    return version


def _rebuild(history: History, news: list[BaseMessage]) -> History:
    """Replace and remove, one after the other as they come."""
    known = len(history)
    if 0 < known <= len(news) and all(map(is_, history, news)):  # all again: from a node that returns its whole state
        return _add(history, news[known:]) if len(news) > known else history
    slots: list[BaseMessage | None] = list(history)
    index: dict[str, int] = {cast(str, message.id): position for position, message in enumerate(history)}
    emptied = False
    for message in news:
        id = cast(str, message.id)
        if not isinstance(message, RemoveMessage):
            at = index.get(id)
            if at is None:
                index[id] = len(slots)
                slots.append(message)
            else:
                slots[at] = message
        elif id == REMOVE_ALL_MESSAGES:
            slots, index, emptied = [], {}, True
        elif id in index:
            slots[index[id]] = None
        elif not emptied:
            raise InvalidUpdateError(f"RemoveMessage(id={id!r}): no message has this id ({_some(index)})")
    version = History(message for message in slots if message is not None)
    version.buffer = Buffer(list(version))
    return version


def _some(index: dict[str, int]) -> str:
    ids = list(index)
    if not ids:
        return "the history is empty"
    shown = ", ".join(map(repr, ids[-5:]))
    return f"the last are {shown}" if len(ids) > 5 else f"there are {shown}"
