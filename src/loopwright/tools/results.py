"""What a tool returned, as what the model reads.

- text is handed on as it is, a list of content blocks as blocks, a `ToolMessage` as the message it is;
- everything else becomes JSON: dates in ISO form, decimals and UUIDs as text, enums as their values, bytes as text or base64,
  pydantic models, dataclasses and messages as objects; what has no JSON form as its `str()`;
- `Command`s, alone or in a list, pass through, if together they hold exactly one `ToolMessage` that answers the call.
  A dictionary of role `tool` counts, in an `update` that is a dictionary, a list of pairs or a list of messages;
- what is longer than the tool's `max_result_chars` is cut, with a note of how much.

A result that cannot be used raises `InvalidUpdateError`, whose words say what to return instead.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast

import msgspec

from loopwright.errors import InvalidUpdateError
from loopwright.messages import REMOVE_ALL_MESSAGES, BaseMessage, RemoveMessage, ToolMessage, convert_to_messages

if TYPE_CHECKING:
    from loopwright.messages.base import MessageContent
    from loopwright.port import Port
    from loopwright.tools.base import BaseTool

__all__ = ["ToolEffect", "content_of", "cut", "shape", "tool_message", "without_surrogates"]


class ToolEffect(Protocol):
    """What passes through to the graph: a `Command`. Recognised by its attributes; this room is below the graph's."""

    graph: Any
    update: Any
    goto: Any


def is_effect(value: Any) -> bool:
    """Whether a value is a `Command`."""
    return hasattr(value, "goto") and hasattr(value, "update") and hasattr(value, "graph")


_new: Final[Any] = msgspec.StructMeta.__call__  # the constructor without the checks: what is passed is known to be right


def tool_message(
    content: MessageContent,
    call_id: str | None,
    name: str | None,
    port: Port,
    *,
    artifact: Any = None,
    status: Literal["success", "error"] = "success",
) -> ToolMessage:
    """The result of one call."""
    return _new(
        ToolMessage, content, {}, {}, name, port.new_id(), {}, tool_call_id=call_id or "", artifact=artifact, status=status
    )


def shape(value: Any, tool: BaseTool, call_id: str | None, port: Port) -> Any:
    """A `ToolMessage`, a `Command`, or a list of these. Raises `InvalidUpdateError`."""
    artifact: Any = None
    if tool.response_format == "content_and_artifact" and not _is_final(value):
        if not isinstance(value, tuple) or len(cast("tuple[Any, ...]", value)) != 2:
            raise InvalidUpdateError(
                f'Tool {tool.name!r} has response_format="content_and_artifact" and must return a tuple of two, '
                f"(content, artifact); it returned {type(value).__name__}."
            )
        value, artifact = cast("tuple[Any, Any]", value)
    if isinstance(value, ToolMessage):
        return _own_message(value, tool, call_id, port)
    if is_effect(value):
        return _checked([value], tool, call_id, port)[0]
    if isinstance(value, (list, tuple)) and any(map(_is_final, cast("Sequence[Any]", value))):
        return _checked(list(cast("Sequence[Any]", value)), tool, call_id, port)
    content = cut(content_of(value), tool.max_result_chars)
    return tool_message(content, call_id, tool.name, port, artifact=artifact)


def _is_final(value: Any) -> bool:
    return isinstance(value, ToolMessage) or is_effect(value)


# -- messages and commands ------------------------------------------------------------------------------------------


def _own_message(message: ToolMessage, tool: BaseTool, call_id: str | None, port: Port) -> ToolMessage:
    wanted = call_id or ""
    if message.tool_call_id not in ("", wanted):
        raise InvalidUpdateError(
            f"Tool {tool.name!r} answered call {message.tool_call_id!r} and was asked by call {wanted!r}. Return the text alone, "
            "or take the id from a parameter `runtime: ToolRuntime`: ToolMessage(..., tool_call_id=runtime.tool_call_id)."
        )
    content = cut(message.content, tool.max_result_chars)
    if message.id and message.name and message.tool_call_id == wanted and content is message.content:
        return message
    return _filled(message, content, tool, wanted, port)


def _filled(message: ToolMessage, content: Any, tool: BaseTool, call_id: str, port: Port) -> ToolMessage:
    return message.model_copy(
        update={
            "content": content,
            "tool_call_id": call_id,
            "name": message.name or tool.name,
            "id": message.id or port.new_id(),
        }
    )


def _checked(parts: list[Any], tool: BaseTool, call_id: str | None, port: Port) -> list[Any]:
    """Commands and messages with the one answer among them made complete."""
    made: list[Any] = []
    closers = 0
    needed = False
    for part in parts:
        if isinstance(part, ToolMessage):
            made.append(_own_message(part, tool, call_id, port))
            closers += 1
        elif is_effect(part):
            effect, found, clears = _checked_effect(part, tool, call_id or "", port)
            made.append(effect)
            closers += found
            needed = needed or (part.graph is None and not clears)
        else:
            raise InvalidUpdateError(
                f"Tool {tool.name!r} returned a list of commands with {type(part).__name__} in it. "
                "Such a list may hold Command objects and ToolMessages."
            )
    if closers > 1 or (closers == 0 and needed):
        count = "no ToolMessage" if closers == 0 else f"{closers} ToolMessages"
        raise InvalidUpdateError(
            f"Tool {tool.name!r} returned a Command whose update has {count} for call {call_id!r}; it needs exactly one: "
            'Command(update={..., "messages": [ToolMessage("done", tool_call_id=runtime.tool_call_id)]}).'
        )
    return made


def _checked_effect(effect: Any, tool: BaseTool, call_id: str, port: Port) -> tuple[Any, int, bool]:
    """(the command with its answer completed, how many answers it has, whether it clears the history)."""
    update = effect.update
    if isinstance(update, Mapping):
        update = cast("Mapping[str, Any]", update)
        messages, rebuild = update.get("messages"), lambda new: {**update, "messages": new}
    elif isinstance(update, (list, tuple)):
        pairs = list(cast("Sequence[Any]", update))
        place = next((place for place, pair in enumerate(pairs) if _is_messages_pair(pair)), None)
        if place is not None:
            messages = pairs[place][1]

            def rebuild(new: list[Any]) -> Any:
                return [*pairs[:place], ("messages", new), *pairs[place + 1 :]]

        elif any(_is_message(item) for item in pairs):
            messages, rebuild = pairs, lambda new: {"messages": new}
        else:
            return effect, 0, False
    else:
        return effect, 0, False
    if messages is None:
        return effect, 0, False
    items = list(cast("Iterable[Any]", messages)) if isinstance(messages, (list, tuple)) else [messages]
    closers, clears = 0, False
    for position, item in enumerate(items):
        clears = clears or (isinstance(item, RemoveMessage) and item.id == REMOVE_ALL_MESSAGES)
        closer = _closer(item, call_id)
        if closer is not None:
            closers += 1
            items[position] = _filled(closer, cut(closer.content, tool.max_result_chars), tool, call_id, port)
    return (_with_update(effect, rebuild(items)) if closers else effect), closers, clears


def _is_messages_pair(pair: Any) -> bool:
    return isinstance(pair, (list, tuple)) and len(cast("Sequence[Any]", pair)) == 2 and pair[0] == "messages"


def _is_message(item: Any) -> bool:
    return isinstance(item, BaseMessage) or (isinstance(item, Mapping) and ("role" in item or "type" in item))


def _closer(item: Any, call_id: str) -> ToolMessage | None:
    """The message, if it answers this call. An id left out means this one."""
    if isinstance(item, Mapping):
        item = cast("Mapping[str, Any]", item)
        if "tool" not in (item.get("role"), item.get("type")):
            return None
        item = convert_to_messages([{**item, "tool_call_id": item.get("tool_call_id") or call_id}])[0]
    return item if isinstance(item, ToolMessage) and item.tool_call_id in ("", call_id) else None


def _with_update(effect: Any, update: Any) -> Any:
    if isinstance(effect, msgspec.Struct):
        return msgspec.structs.replace(effect, update=update)
    from copy import copy

    changed = copy(effect)
    object.__setattr__(changed, "update", update)  # a frozen dataclass of another library
    return changed


# -- content --------------------------------------------------------------------------------------------------------

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
        return without_surrogates(str.__str__(value))
    if isinstance(value, (list, tuple)) and value:
        items = cast("Sequence[Any]", value)
        if all(isinstance(item, str) or _is_block(item) for item in items) and not all(
            isinstance(item, str) for item in items
        ):
            return list(items)
    elif _is_block(value) and value["type"] != "text":
        return [value]
    elif isinstance(value, BaseMessage):
        return value.content
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
    return without_surrogates(text)


def _is_block(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    needs = _BLOCKS.get(cast("dict[str, Any]", value).get("type", ""), None) if _has_name(value) else None
    return needs is not None and any(key in value for key in needs)


def _has_name(value: Any) -> bool:
    return isinstance(value.get("type"), str)


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
            return {key: item for key, item in vars(value).items() if not key.startswith("_")}
    fields: Any = getattr(kind, "__dataclass_fields__", None)
    if fields is not None:
        return {name: getattr(value, name) for name in fields if hasattr(value, name)}
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    if isinstance(value, BaseException):
        return f"{kind.__name__}: {value}"
    if hasattr(value, "tolist") and hasattr(value, "dtype"):  # numpy: an array or one number
        return value.tolist()
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
    plain = _plain(key) if not isinstance(key, tuple) else key
    return plain if isinstance(plain, str) else str(cast(Any, key) if plain is key else plain)


def without_surrogates(text: str) -> str:
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


