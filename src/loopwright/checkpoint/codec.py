"""Values as bytes and back: msgpack, exact to the last type, and loading runs no code.

Every blob begins with two bytes: the version, and how the rest is laid out. Rules:

- what msgpack gives back as it is (None, bool, float, bytes, numbers of 64 bits, text, lists, dicts with text for
  keys) is written as it is; all else is an extension, so a dict that looks like an object of ours stays a dict;
- a list, a dict and a history are written without a count in front (it stands at the end), so that what grows only
  grows at its end, in bytes too;
- an object is its class's name and its parts. The name is looked up in the registry, never imported; the object is
  made without `__init__`, `__post_init__` or a validator (`kinds.py`); an enum's member is found by its name;
- what cannot be made into an object (a class that is not registered, a member that is gone, an extension of a later
  version) becomes an `Unreadable` in its place, which is written again as the very same bytes;
- bytes that are no such blob raise `StoredDataError`.

A message has a path of its own, straight through msgspec where it holds nothing but plain data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from enum import Enum
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

import msgspec
from msgspec import UNSET
from msgspec.msgpack import Ext

from loopwright.checkpoint.kinds import (
    LEAVES,
    Refused,
    Unreadable,
    enum_member,
    enum_word,
    form_of,
    leaf_from,
    leaf_of,
    reason,
    short,
    undeclared,
)
from loopwright.checkpoint.registry import Registry
from loopwright.checkpoint.room import DEEPEST, TOO_DEEP, unstorable, with_room
from loopwright.errors import StoredDataError
from loopwright.messages.base import BaseMessage
from loopwright.messages.codec import (
    BIG_INT,
    PLAIN_DEPTH,
    SURROGATES,
    decode_marked_list,
    decode_straight,
    is_plain,
    message_of,
    read_number_or_text,
)
from loopwright.messages.history import History
from loopwright.messages.meta import stored_fields, tag_of

__all__ = ["VERSION", "Codec"]

VERSION: Final = 1

_VALUE, _LIST, _DICT, _HISTORY = b"\x01v", b"\x01l", b"\x01d", b"\x01h"
"""The first two bytes."""
_ARRAY_32: Final = b"\xdd"
"""In msgpack a list, and its count in four bytes."""

_TUPLE: Final = 0x01
_ODD_DICT: Final = 0x02
"""A dict with other keys than text: keys and values in turn."""
_SET: Final = 0x03
_FROZENSET: Final = 0x04
_DEQUE: Final = 0x05
_BYTEARRAY: Final = 0x06
_COMPLEX: Final = 0x07
_NO_VALUE: Final = 0x08
_MESSAGE: Final = 0x10
_OBJECT: Final = 0x11
_ENUM: Final = 0x12

_encode: Final = msgspec.msgpack.Encoder().encode
_type = cast(Callable[[Any], type[Any]], type)  # the builtin, without `type[Unknown]`


class Codec:
    """Writes and reads the values of one saver."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def encode(self, value: Any, path: str = "state") -> bytes:
        """The value as bytes. Raises `UnstorableError`, which names the place: `state["cart"][1].lock`."""
        try:
            return with_room(self._encode, value)
        except Refused as refused:
            raise unstorable(path, refused) from None

    def _encode(self, value: Any) -> bytes:
        kind = _type(value)
        packed = _pack(value, self.registry, 0)
        if kind is list:
            return _counted(_LIST, packed)
        if kind is History:
            return _counted(_HISTORY, packed)
        return _counted(_DICT, packed) if type(packed) is dict else _VALUE + _encode(packed)

    def decode(self, data: bytes | memoryview, path: str = "state", lost: list[Unreadable] | None = None) -> Any:
        """The value again. What could not be read stands as `Unreadable` in it, and is added to `lost`.

        Raises `StoredDataError` for bytes that `encode` has not written, and never anything else.
        """
        try:
            value, found = with_room(self._decode, data, path)
        except _BROKEN as error:
            raise _damaged(data, path, error) from None
        if lost is not None:
            lost += found
        return value

    def _decode(self, data: bytes | memoryview, path: str) -> tuple[Any, list[Unreadable]]:
        reader = _Reader(self.registry)
        value = reader.read(data)
        if reader.lost:
            _place(value, path)
        return value, reader.lost

    def encode_message(self, message: BaseMessage, path: str = "message") -> bytes:
        """One message as bytes. Raises `UnstorableError`."""
        try:
            return with_room(self._encode_message, message)
        except Refused as refused:
            raise unstorable(path, refused) from None

    def _encode_message(self, message: BaseMessage) -> bytes:
        return _VALUE + _encode(message if is_plain(message) else _message_map(message, self.registry, 1))

    def decode_message(
        self, data: bytes | memoryview, path: str = "message", lost: list[Unreadable] | None = None
    ) -> BaseMessage:
        """What `encode_message` has written. Raises `StoredDataError`."""
        if data[:2] == _VALUE:
            try:
                return decode_straight(memoryview(data)[2:])
            except _BROKEN:  # it is broken, or holds what only the careful way reads
                pass
        try:
            message, found = with_room(self._decode_message, data, path)
        except _BROKEN as error:
            raise _damaged(data, path, error) from None
        if lost is not None:
            lost += found
        return message

    def _decode_message(self, data: bytes | memoryview, path: str) -> tuple[BaseMessage, list[Unreadable]]:
        if data[:2] != _VALUE:
            raise msgspec.DecodeError("it does not begin as a message does")
        reader = _Reader(self.registry)
        message = reader.message(memoryview(data)[2:])
        if reader.lost:
            _place(message, path)
        return message, reader.lost

    def decode_messages(
        self, blobs: Sequence[bytes], path: str, lost: list[Unreadable], at: int = 0
    ) -> list[BaseMessage]:
        """Many of them, in one go where all are plain; the first is the message `at` of the list in `path`."""
        # The two bytes before each are numbers in msgpack, so all of it together is a list of three times as many.
        count = len(blobs)
        try:
            marked = decode_marked_list(b"".join((_ARRAY_32, (3 * count).to_bytes(4, "big"), *blobs)))
            messages = marked[2::3]
            if marked[::3].count(_VALUE[0]) == marked[1::3].count(_VALUE[1]) == count and int not in map(
                type, messages
            ):
                return messages
        except _BROKEN:  # one of them is: the slow way tells which
            pass
        return [self.decode_message(blob, f"{path}[{index}]", lost) for index, blob in enumerate(blobs, at)]


# --- writing --------------------------------------------------------------------

_Pack = Callable[[Any, Container[type], int], Any]
"""From a value to what the encoder writes exactly. Raises `Refused`."""


def _counted(start: bytes, packed: Any) -> bytes:
    """Items without the count in front, which is written at the end."""
    count = len(packed)
    body = memoryview(_encode(packed))[1 if count < 16 else 3 if count < 65536 else 5 :]
    return b"".join((start, body, count.to_bytes(4, "big")))


def _pack(value: Any, known: Container[type], depth: int) -> Any:
    kind = _type(value)
    pack = _BUILTINS.get(kind, _pack)
    if pack is None:
        return value
    if depth >= DEEPEST and kind not in _FLAT:
        raise Refused(TOO_DEEP)
    if pack is _pack:
        pack = _pack_of(kind)
    return pack(value, known, depth + 1)


def _text(value: str, known: Container[type], depth: int) -> Any:
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return Ext(SURROGATES, value.encode("utf-8", "surrogatepass"))
    return value


def _number(value: int, known: Container[type], depth: int) -> Any:
    if -(2**63) <= value < 2**64:
        return value
    return Ext(BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


def _list(value: Any, known: Container[type], depth: int) -> list[Any]:
    packed: list[Any] = []
    try:
        for item in value:
            packed.append(_pack(item, known, depth))  # noqa: PERF401 - its length is the index that failed
    except Refused as refused:
        refused.trail.append(f"[{len(packed)}]")
        raise
    return packed


def _dict(value: dict[Any, Any], known: Container[type], depth: int) -> Any:
    packed: dict[str, Any] = {}
    for key, item in value.items():
        if type(key) is not str or _text(key, known, depth) is not key:
            return _odd_dict(value, known, depth)
        try:
            packed[key] = _pack(item, known, depth)
        except Refused as refused:
            refused.trail.append(f"[{short(key)}]")
            raise
    return packed


def _odd_dict(value: dict[Any, Any], known: Container[type], depth: int) -> Ext:
    packed: list[Any] = []
    for entry in value.items():
        for part, step in zip(entry, (" (the key)", ""), strict=True):
            try:
                packed.append(_pack(part, known, depth))
            except Refused as refused:
                refused.trail += [step, f"[{short(entry[0])}]"]
                raise
    return Ext(_ODD_DICT, _encode(packed))


def _tuple(value: tuple[Any, ...], known: Container[type], depth: int) -> Ext:
    return Ext(_TUPLE, _encode(_list(value, known, depth)))


def _set(value: set[Any] | frozenset[Any], known: Container[type], depth: int) -> Ext:
    """In the order of the items' bytes: the same set is the same bytes in every process."""
    items = sorted(map(_encode, _list(value, known, depth)))
    code = _SET if type(value) is set else _FROZENSET
    return Ext(code, _encode(list(map(msgspec.Raw, items))))


def _deque(value: deque[Any], known: Container[type], depth: int) -> Ext:
    return Ext(_DEQUE, _encode([value.maxlen, *_list(value, known, depth)]))


def _buffer(value: bytearray, known: Container[type], depth: int) -> Ext:
    return Ext(_BYTEARRAY, bytes(value))


def _complex(value: complex, known: Container[type], depth: int) -> Ext:
    return Ext(_COMPLEX, _encode([value.real, value.imag]))


def _unset(value: Any, known: Container[type], depth: int) -> Ext:
    return Ext(_NO_VALUE, b"")


def _unreadable(value: Unreadable, known: Container[type], depth: int) -> Ext:
    cast(Registry, known).placeholders += 1
    return Ext(value.code, value.raw)


def _message(value: BaseMessage, known: Container[type], depth: int) -> Ext:
    is_shallow = depth <= DEEPEST - PLAIN_DEPTH and is_plain(value)
    return Ext(_MESSAGE, _encode(value if is_shallow else _message_map(value, known, depth)))


def _message_map(value: BaseMessage, known: Container[type], depth: int) -> dict[str, Any]:
    fields = stored_fields(value)
    extra: dict[str, Any] = fields.pop("extra", {})
    stored: dict[str, Any] = {"type": tag_of(value)}
    if isinstance(fields.get("content"), str):
        fields["content"] = str.__str__(fields["content"])  # a chunk is made of its fields as they are
    for section in (fields, extra):
        for name, item in section.items():
            if name == "type":
                continue
            try:
                stored[name] = _pack(item, known, depth)
            except Refused as refused:
                refused.trail += [f".{name}"] if section is fields else [f"[{short(name)}]", ".extra"]
                raise
    return stored


_BUILTINS: Final[dict[type, _Pack | None]] = {
    type(None): None,
    bool: None,
    float: None,
    bytes: None,
    str: _text,
    int: _number,
    list: _list,
    History: _list,
    dict: _dict,
    tuple: _tuple,
    set: _set,
    frozenset: _set,
    deque: _deque,
    bytearray: _buffer,
    complex: _complex,
    type(UNSET): _unset,
    Unreadable: _unreadable,
}

_FLAT: Final = frozenset({str, int, complex, type(UNSET), Unreadable})
"""Of those that are not written as they are: what has nothing inside."""

_packs: WeakKeyDictionary[type, _Pack] = WeakKeyDictionary()


def _pack_of(kind: type[Any]) -> _Pack:
    """How to write instances of a class that is no builtin; worked out once for each class, which it must not hold."""
    pack = _packs.get(kind)
    if pack is None:
        pack = _packs[kind] = _classify(kind)
    return pack


def _classify(kind: type[Any]) -> _Pack:
    if issubclass(kind, BaseMessage):
        return _message
    leaf = leaf_of(kind)
    if leaf is not None:
        return lambda value, known, depth: Ext(leaf.code, _encode(_pack(leaf.apart(value), known, depth)))
    if issubclass(kind, Enum):
        return lambda value, known, depth: Ext(_ENUM, _encode([_named(_type(value), known), enum_word(value)]))
    form = form_of(kind)
    if form is None:
        words = reason(kind)

        def refuse(value: Any, known: Container[type], depth: int) -> Any:
            raise Refused(words)

        return refuse
    apart = form.apart

    def pack(value: Any, known: Container[type], depth: int) -> Ext:
        name = _named(_type(value), known)
        return Ext(_OBJECT, _encode([name, *(section and _section(section, known, depth) for section in apart(value))]))

    return pack


def _named(kind: type, known: Container[type]) -> str:
    if kind not in known:
        raise Refused(undeclared(kind))
    return cast(Registry, known).name_of(kind)


def _section(section: dict[str, Any], known: Container[type], depth: int) -> dict[str, Any]:
    packed: dict[str, Any] = {}
    for name, item in section.items():
        try:
            packed[name] = _pack(item, known, depth)
        except Refused as refused:
            refused.trail.append(f".{name}")
            raise
    return packed


# --- reading --------------------------------------------------------------------

_BROKEN: Final = (msgspec.MsgspecError, RecursionError, TypeError, ValueError, OverflowError)
"""What reading bytes that are no blob of ours may raise."""


def _damaged(data: bytes | memoryview, path: str, error: BaseException) -> StoredDataError:
    start = bytes(data[:1])
    if start > bytes((VERSION,)) and start < b"\x20":
        return StoredDataError(
            f"{path} was stored by a later version of Loopwright (format {start[0]}; this one reads up to {VERSION}). "
            "Upgrade Loopwright here."
        )
    return StoredDataError(f"What is stored for {path} cannot be read; it is damaged: {error}")


class _Lost(Exception):
    """An extension that names what is not there."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason


class _Reader:
    """Reads one blob, and remembers what could not be made into an object."""

    __slots__ = ("lost", "registry")

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.lost: list[Unreadable] = []

    def read(self, data: bytes | memoryview) -> Any:
        start, body = bytes(data[:2]), memoryview(data)[2:]
        if start == _VALUE:
            return self.parts(body)
        head = _HEADS.get(start)
        if head is None:
            raise msgspec.DecodeError("it does not begin as a value does")
        value = self.parts(b"".join((head, body[-4:], body[:-4])))
        return History(value) if start == _HISTORY else value

    def parts(self, data: bytes | memoryview) -> Any:
        return msgspec.msgpack.decode(data, ext_hook=self.revive)

    def message(self, data: memoryview) -> BaseMessage:
        try:
            return decode_straight(data)
        except msgspec.ValidationError:
            fields: Any = self.parts(data)
            if _type(fields) is not dict or _type(fields.get("type")) is not str:
                raise msgspec.DecodeError("a message is a map with a type") from None
            return message_of(fields)

    def revive(self, code: int, data: memoryview) -> Any:
        """What an extension stands for."""
        before = len(self.lost)
        try:
            make = _READERS.get(code)
            if make is not None:
                return make(self, data)
            if code in LEAVES:
                return leaf_from(code, self.parts(data))
            raise _Lost(f"extension {code}", "a later version of Loopwright has stored it")
        except (msgspec.DecodeError, RecursionError, MemoryError):
            raise
        except _Lost as lost:
            name, words = lost.name, lost.reason
        except Exception as error:  # noqa: BLE001 - what a class does not take, and a zone that this machine lacks
            leaf = LEAVES.get(code)
            name, words = leaf.name if leaf else f"extension {code}", f"{type(error).__name__}: {error}"
        del self.lost[before:]  # what is inside goes with it
        placeholder = Unreadable(name, code, bytes(data), words)
        self.lost.append(placeholder)
        return placeholder

    def message_in(self, data: memoryview) -> Any:
        return self.message(data)

    def tuple_in(self, data: memoryview) -> Any:
        return tuple(self.parts(data))

    def odd_dict(self, data: memoryview) -> Any:
        parts = iter(self.parts(data))
        return dict(zip(parts, parts, strict=True))

    def set_in(self, data: memoryview) -> Any:
        return set(self.parts(data))

    def frozenset_in(self, data: memoryview) -> Any:
        return frozenset(self.parts(data))

    def deque_in(self, data: memoryview) -> Any:
        longest, *items = self.parts(data)
        return deque(items, longest)

    def buffer_in(self, data: memoryview) -> Any:
        return bytearray(data)

    def complex_in(self, data: memoryview) -> Any:
        return complex(*self.parts(data))

    def no_value(self, data: memoryview) -> Any:
        return UNSET

    def odd_text(self, data: memoryview) -> Any:
        return read_number_or_text(SURROGATES, data)

    def big_number(self, data: memoryview) -> Any:
        return read_number_or_text(BIG_INT, data)

    def object_in(self, data: memoryview) -> Any:
        name, *sections = self.parts(data)
        kind = self.class_of(name)
        form = form_of(kind)
        if form is None:
            raise _Lost(name, "the class is of another sort now")
        try:
            return form.together(kind, sections)
        except RecursionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the rest of the state stays readable
            raise _Lost(name, f"what is stored does not fit the class: {error}") from None

    def enum_in(self, data: memoryview) -> Any:
        name, word = self.parts(data)
        kind = self.class_of(name)
        try:
            return enum_member(kind, word)
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001 - the same
            raise _Lost(name, f"the enum has no {word!r}") from None

    def class_of(self, name: Any) -> type[Any]:
        kind = self.registry.type_of(name)
        if kind is None:
            raise _Lost(name, "the class is not registered")
        return kind


_HEADS: Final = {_LIST: _ARRAY_32, _HISTORY: _ARRAY_32, _DICT: b"\xdf"}
"""What stands before the count."""

_READERS: Final[dict[int, Callable[[_Reader, memoryview], Any]]] = {
    _TUPLE: _Reader.tuple_in,
    _ODD_DICT: _Reader.odd_dict,
    _SET: _Reader.set_in,
    _FROZENSET: _Reader.frozenset_in,
    _DEQUE: _Reader.deque_in,
    _BYTEARRAY: _Reader.buffer_in,
    _COMPLEX: _Reader.complex_in,
    _NO_VALUE: _Reader.no_value,
    _MESSAGE: _Reader.message_in,
    _OBJECT: _Reader.object_in,
    _ENUM: _Reader.enum_in,
    SURROGATES: _Reader.odd_text,
    BIG_INT: _Reader.big_number,
}


def _place(value: Any, path: str) -> None:
    """Tell placeholders where they are. Only walked when there are some."""
    kind = _type(value)
    if kind is Unreadable:
        value.path = path
    elif isinstance(value, dict):
        for key, item in cast("dict[Any, Any]", value).items():
            _place(key, f"{path} (a key)")
            _place(item, f"{path}[{short(key)}]")
    elif kind in (list, History, tuple, deque, set, frozenset):
        for index, item in enumerate(value):
            _place(item, f"{path}[{index}]")
    elif isinstance(value, BaseMessage):
        for name, item in stored_fields(value).items():
            _place(item, f"{path}.{name}")
    else:
        form = form_of(kind)
        for section in form.apart(value) if form else ():
            for name, item in (section or {}).items():
                _place(item, f"{path}.{name}")
