"""Messages as bytes and back: msgpack, and nothing is lost or made up.

`decode_messages(encode_messages(messages)) == messages`, or encoding raises an error that names the place. Rules:

- a message is a map of `type` (its tag) and the fields that differ from their defaults; keys of `extra` stand
  among them;
- unknown keys come back in `extra`, unknown types as `UnknownMessage` (an unknown subclass as its parent), and
  both are written again as they were: an older program hands on what a newer one has stored;
- loading runs no code: tags are looked up among the classes that are defined already (`register_message_class` only
  makes sure of that), never imported;
- what msgpack would silently turn into something else (tuples, sets, dates, dataclasses, enums) is handed to
  `default`, which may return something plain or a `msgspec.msgpack.Ext`; without one it is an error. Integers
  beyond 64 bits and text with lone surrogates, which models do produce, are stored as extensions of our own.

The straight way through msgspec (0.1 µs a message in, 0.3 out) is taken by all messages of our own classes that are
plain; any other goes the careful way alone. So do users' classes: msgspec would bring a stored value to the type that
a field of theirs is annotated with, and 1 would come back as 1.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar, Union, cast

import msgspec
from msgspec import structs

from loopwright.errors import UsageError
from loopwright.messages.base import BaseMessage, UnknownMessage
from loopwright.messages.meta import class_of, make, message_classes, stored_fields, tag_of

__all__ = [
    "BIG_INT",
    "PLAIN_DEPTH",
    "SURROGATES",
    "decode_marked_list",
    "decode_messages",
    "decode_straight",
    "decode_straight_list",
    "encode_messages",
    "is_plain",
    "message_of",
    "read_number_or_text",
    "register_message_class",
]

C = TypeVar("C", bound=type[BaseMessage])

_Default = Callable[[Any], Any]
_ExtHook = Callable[[int, Any], Any]

BIG_INT: Final = 0x6D
"""The extension of an integer beyond 64 bits: two's complement, the low byte first."""
SURROGATES: Final = 0x6E
"""The extension of text with lone surrogates: UTF-8 that lets them pass."""
PLAIN_DEPTH: Final = 64
"""Levels of lists and dicts in what `is_plain` calls plain; what is nested deeper is left to the careful way."""

_NATIVE: Final = frozenset((type(None), bool, float, bytes))

_encoder: Final = msgspec.msgpack.Encoder()
_raws: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
_ours: Final = frozenset(cls for tag, cls in message_classes.items() if "/" not in tag and cls is not UnknownMessage)


def register_message_class(cls: C) -> C:
    """Say that a subclass may be stored; usable as a decorator. Defining the class has done it already.

    Raises `UsageError` if another class has taken its tag since.
    """
    if message_classes.get(tag_of(cls)) is not cls:
        owner = message_classes[tag_of(cls)]
        raise UsageError(f'the tag {tag_of(cls)!r} belongs to {owner!r}: give one of them tag="..." of its own')
    return cls


def encode_messages(messages: Sequence[BaseMessage], *, default: _Default | None = None) -> bytes:
    """The messages as msgpack: an array of maps. Raises `UsageError` naming the place of what cannot be stored."""
    items: list[Any] = []
    for position, message in enumerate(messages):
        if is_plain(message):
            items.append(message)
        else:
            items.append(_careful(message, f"messages[{position}]", default))
    return _encoder.encode(items)


def decode_messages(data: bytes | memoryview, *, ext_hook: _ExtHook | None = None) -> list[BaseMessage]:
    """The messages again. `ext_hook(code, data)` revives what `default` made an extension."""
    try:
        return decode_straight_list(data)
    except msgspec.ValidationError:
        pass
    messages: list[BaseMessage] = []
    for raw in _raws.decode(data):
        try:
            messages.append(decode_straight(raw))
        except msgspec.ValidationError:
            messages.append(_revive(raw, ext_hook))
    return messages


def _refuse(code: int, data: Any) -> Any:
    raise msgspec.ValidationError("an extension: the careful way reads it")


_union: Any = Union[tuple(_ours)]  # noqa: UP007 - made of a set
decode_straight_list: Final[Callable[[Any], list[BaseMessage]]] = msgspec.msgpack.Decoder(
    cast(Any, list)[_union], ext_hook=_refuse
).decode
"""A list of messages of ours that are plain. Raises `msgspec.ValidationError` if there is any other."""
decode_marked_list: Final[Callable[[Any], list[Any]]] = msgspec.msgpack.Decoder(
    cast(Any, list)[int | _union], ext_hook=_refuse
).decode
"""The same, with small integers between them."""
decode_straight: Final[Callable[[Any], BaseMessage]] = msgspec.msgpack.Decoder(_union, ext_hook=_refuse).decode
"""One message of ours that is plain. Raises `msgspec.ValidationError` for any other."""


def _revive(raw: Any, ext_hook: _ExtHook | None) -> BaseMessage:
    def read(code: int, data: memoryview) -> Any:
        if code in (BIG_INT, SURROGATES):
            return read_number_or_text(code, data)
        return ext_hook(code, data) if ext_hook is not None else msgspec.msgpack.Ext(code, bytes(data))

    return message_of(msgspec.msgpack.Decoder(ext_hook=read).decode(raw))


def read_number_or_text(code: int, data: memoryview) -> Any:
    """What is stored under `BIG_INT` and `SURROGATES`."""
    if code == BIG_INT:
        return int.from_bytes(data, "little", signed=True)
    return str(data, "utf-8", "surrogatepass")


def message_of(fields: dict[str, Any]) -> BaseMessage:
    """A message of what is stored of it; its class is looked up among those that are defined.

    One of a subclass that is not there, or that wants a field now which is not stored, is read as its parent.
    """
    tag = fields.pop("type", "")
    cls = class_of(tag) or UnknownMessage
    if cls.__struct_config__.tag == tag:
        try:
            return make(cls, fields)
        except TypeError:
            cls = message_classes[tag.partition("/")[0]]
    names = set(cls.__struct_fields__)
    extra = {key: value for key, value in fields.items() if key not in names}
    known = {key: value for key, value in fields.items() if key in names}
    return make(cls, {**known, "extra": {"type": tag, **extra}})


def is_plain(message: BaseMessage) -> bool:
    """Whether msgspec may write the message itself."""
    return message.__class__ in _ours and not message.extra and _all_plain(structs.astuple(message))


def _all_plain(values: Iterable[Any], depth: int = PLAIN_DEPTH) -> bool:
    """Whether msgpack gives these values back as they are."""
    if not depth:
        return False
    for value in values:
        kind = value.__class__
        if kind is str:
            if not value.isascii() and _has_surrogates(value):
                return False
        elif kind is dict:
            if value:
                for key in value:
                    if key.__class__ is not str or (not key.isascii() and _has_surrogates(key)):
                        return False
                if not _all_plain(value.values(), depth - 1):
                    return False
        elif kind is list:
            if value and not _all_plain(value, depth - 1):
                return False
        elif kind is int:
            if not -(2**63) <= value < 2**64:
                return False
        elif kind not in _NATIVE:
            return False
    return True


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _careful(message: BaseMessage, path: str, default: _Default | None) -> dict[str, Any]:
    """A message as a map of plain values."""
    fields = stored_fields(message)
    extra: Mapping[str, Any] = fields.pop("extra", {})
    stored = {"type": tag_of(message)}
    if isinstance(fields.get("content"), str):
        fields["content"] = str.__str__(fields["content"])  # a chunk is made of its fields as they are
    for source, place in ((fields, path), (extra, f"{path}.extra")):
        for name, value in source.items():
            if name != "type":
                stored[name] = _storable(value, f"{place}.{name}", default)
    return stored


def _storable(value: Any, path: str, default: _Default | None) -> Any:
    if _all_plain((value,)):
        return value
    kind = value.__class__
    if kind is str:
        return msgspec.msgpack.Ext(SURROGATES, value.encode("utf-8", "surrogatepass"))
    if kind is int:
        return msgspec.msgpack.Ext(BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
    if kind is dict and all(key.__class__ is str for key in value) and _all_plain(value):
        return {key: _storable(item, f"{path}[{key!r}]", default) for key, item in value.items()}
    if kind is list:
        return [_storable(item, f"{path}[{at}]", default) for at, item in enumerate(value)]
    if default is not None:
        return default(value)
    shown = "a dictionary with keys that are no strings" if kind is dict else kind.__qualname__
    raise UsageError(f"{path} is {shown}, which cannot be stored: keep plain data there, or register its class")
