r"""Any value as the content of a message: text, or a list of content blocks.

- text is handed on as it is, a list of content blocks as blocks;
- everything else becomes JSON that a model can read: dates in ISO form, decimals and UUIDs as text, enums as their
  values, bytes as text or base64, pydantic models and dataclasses as objects, sets in a fixed order, no `\u` escapes;
- what has no JSON form becomes its `str()`, inside of other values too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from loopwright.messages import BaseMessage

if TYPE_CHECKING:
    from loopwright.messages.base import MessageContent

__all__ = ["content_of", "cut"]

_BLOCKS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text",),
    "text-plain": ("text", "url", "base64", "file_id"),
    "image_url": ("image_url",),
    "image": ("url", "base64", "file_id", "source", "data"),
    "audio": ("url", "base64", "file_id", "data"),
    "video": ("url", "base64", "file_id", "data"),
    "file": ("url", "base64", "file_id", "file", "data"),
    "document": ("source",),
    "search_result": ("source",),
    "input_text": ("text",),
    "input_image": ("image_url", "file_id"),
    "input_file": ("file_id", "file_data", "file_url"),
}
"""Types of content blocks, and what each must have one of: a record that happens to have a `type` is data."""


def content_of(value: Any) -> MessageContent:
    """The content of a message: text, or a list of blocks."""
    if isinstance(value, str):
        return _sendable(str.__str__(value))
    if isinstance(value, BaseMessage):
        return value.content
    blocks = _blocks(value)
    if blocks is not None:
        return blocks
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError):
        # Keys that are no text, numbers that JSON has not, a structure that contains itself.
        try:
            text = json.dumps(_careful(value, ()), ensure_ascii=False, default=_plain)
        except (TypeError, ValueError, RecursionError):
            text = str(value)
    if text.startswith('"'):  # a date, a UUID, an enum: the words without quotes
        text = json.loads(text)
    return _sendable(text)


def _blocks(value: Any) -> list[str | dict[str, Any]] | None:
    """A list with blocks in it, and nothing else but strings; or one picture, file or sound."""
    if isinstance(value, (list, tuple)):
        items = cast("list[Any]", value)
        only = all(isinstance(item, str) or _is_block(item) for item in items)
        return list(items) if only and any(isinstance(item, dict) for item in items) else None
    return [value] if _is_block(value) and value["type"] != "text" else None


def _is_block(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    block = cast("dict[str, Any]", value)
    kind = block.get("type")
    return isinstance(kind, str) and any(key in block for key in _BLOCKS.get(kind, ()))


def _plain(value: Any) -> Any:
    """One value that JSON does not know, as one that it does; containers may hold more such values."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes(bytes(cast("bytes", value)))
    if isinstance(value, (set, frozenset)):
        return _ordered(cast("set[Any]", value))
    kind = cast("type[Any]", type(value))
    dump: Any = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        try:
            return dump(mode="json")
        except Exception:  # noqa: BLE001 - a field without a JSON form, for one
            return {key: item for key, item in cast("dict[str, Any]", vars(value)).items() if key[:1] != "_"}
    fields: Any = getattr(kind, "__dataclass_fields__", None)
    if fields is not None:
        return {name: getattr(value, name) for name in fields if hasattr(value, name)}
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    if isinstance(value, BaseException):
        return f"{kind.__name__}: {value}"
    if hasattr(value, "tolist") and hasattr(value, "dtype"):  # numpy: an array or one number
        return cast(Any, value).tolist()
    if isinstance(value, _listed()):
        return list(cast("Iterable[Any]", value))
    if isinstance(value, Enum):
        return value.value
    try:
        return msgspec.to_builtins(value, enc_hook=str)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _listed() -> tuple[type, ...]:
    """Containers that say all they hold. Others may be views of something large, or be used up by reading."""
    from collections import deque
    from collections.abc import ItemsView, KeysView, ValuesView

    return (range, deque, KeysView, ValuesView, ItemsView)


def _bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        from base64 import b64encode

        return f"[{len(value)} bytes, base64] {b64encode(value).decode()}"


def _ordered(values: Iterable[Any]) -> list[Any]:
    """A set in an order that is the same in every process."""
    items = list(values)
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)


def _careful(value: Any, above: tuple[int, ...]) -> Any:
    """The same as containers that JSON takes: keys as text, no NaN, no circles."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    if id(value) in above:
        return "[circular]"
    above = (*above, id(value))
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {_key(key): _careful(item, above) for key, item in pairs}
    if isinstance(value, (list, tuple)):
        return [_careful(item, above) for item in cast("Sequence[Any]", value)]
    plain = _plain(value)
    return plain if isinstance(plain, str) else _careful(plain, above)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key)
    plain: Any = str(cast(Any, key)) if isinstance(key, tuple) else _plain(key)
    return plain if isinstance(plain, str) else str(plain)


def _sendable(text: str) -> str:
    """Text that can be sent: half of a pair of surrogates (a file name that is no Unicode) becomes `?`."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def cut(content: Any, limit: int | None) -> Any:
    """The content with its text cut to `limit` characters, and a note of what is missing."""
    if limit is None:
        return content
    if isinstance(content, str):
        return content if len(content) <= limit else _cut_text(content, limit)
    left, made, changed = limit, cast("list[Any]", []), False
    for block in cast("list[Any]", content):
        text = block if isinstance(block, str) else block.get("text") if _has_text(block) else None
        if text is None or len(text) <= left:
            made.append(block)
            left -= len(text or "")
            continue
        changed = True
        short = _cut_text(text, left)
        made.append(short if isinstance(block, str) else {**block, "text": short})
        left = 0
    return made if changed else content


def _has_text(block: Any) -> bool:
    return isinstance(block, dict) and isinstance(cast("dict[str, Any]", block).get("text"), str)


def _cut_text(text: str, limit: int) -> str:
    return f"{text[:limit]}\n[cut here: {len(text) - limit:,} of {len(text):,} characters are not shown]"
