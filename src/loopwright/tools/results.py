"""What a tool returned, as what the model reads.

- a `ToolMessage` is the message it is, with its call's id, its name and an id filled in;
- every other value becomes the content of one (`content.py`);
- `Command`s, alone or in a list, pass through, if together they hold exactly one `ToolMessage` that answers the call.
  A dictionary of role `tool` counts, in an `update` that is a dictionary, a list of pairs or a list of messages;
- what is longer than the tool's `max_result_chars` is cut, with a note of how much.

A result that cannot be used raises `InvalidUpdateError`, whose words say what to return instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast

import msgspec

from loopwright.errors import InvalidUpdateError
from loopwright.messages import REMOVE_ALL_MESSAGES, BaseMessage, RemoveMessage, ToolMessage, convert_to_messages
from loopwright.tools.content import content_of, cut

if TYPE_CHECKING:
    from loopwright.messages.base import MessageContent
    from loopwright.port import Port
    from loopwright.tools.base import BaseTool

__all__ = ["ToolEffect", "is_effect", "pair_of", "shape", "tool_message"]


class ToolEffect(Protocol):
    """What passes through to the graph: a `Command`. Recognised by its attributes; this room is below the graph's."""

    graph: Any
    update: Any
    goto: Any


def is_effect(value: Any) -> bool:
    """Whether a value is a `Command`."""
    return hasattr(value, "goto") and hasattr(value, "update") and hasattr(value, "graph")


_new: Final[Any] = (
    msgspec.StructMeta.__call__
)  # the constructor without the checks: what is passed is known to be right


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
        ToolMessage,
        content,
        {},
        {},
        name,
        port.new_id(),
        {},
        tool_call_id=call_id or "",
        artifact=artifact,
        status=status,
    )


def shape(value: Any, tool: BaseTool, call_id: str | None, port: Port) -> Any:
    """A `ToolMessage`, a `Command`, or a list of these. Raises `InvalidUpdateError`."""
    artifact: Any = None
    if tool.response_format == "content_and_artifact" and not _is_final(value):
        value, artifact = pair_of(value, tool)
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


def pair_of(value: Any, tool: BaseTool) -> tuple[Any, Any]:
    """(content, artifact) of a tool that returns both. Raises `InvalidUpdateError`."""
    pair = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
    if len(pair) == 2:
        return pair[0], pair[1]
    raise InvalidUpdateError(
        f'Tool {tool.name!r} has response_format="content_and_artifact" and must return a tuple of two, '
        f"(content, artifact); it returned {type(cast(Any, value)).__name__}."
    )


# -- messages and commands ------------------------------------------------------------------------------------------


def _own_message(message: ToolMessage, tool: BaseTool, call_id: str | None, port: Port) -> ToolMessage:
    wanted = call_id or ""
    if message.tool_call_id not in ("", wanted):
        raise InvalidUpdateError(
            f"Tool {tool.name!r} answered call {message.tool_call_id!r} and was asked by call {wanted!r}. "
            "Return the text alone, or take the id from `runtime: ToolRuntime`: "
            "ToolMessage(..., tool_call_id=runtime.tool_call_id)."
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
            f"Tool {tool.name!r} returned a Command whose update has {count} for call {call_id!r}; it needs exactly "
            'one: Command(update={..., "messages": [ToolMessage("done", tool_call_id=runtime.tool_call_id)]}).'
        )
    return made


def _checked_effect(effect: Any, tool: BaseTool, call_id: str, port: Port) -> tuple[Any, int, bool]:
    """(the command with its answer completed, how many answers it has, whether it clears the history)."""
    messages, rebuild = _messages_in(effect.update)
    items = list(cast("Sequence[Any]", messages)) if isinstance(messages, (list, tuple)) else [messages]
    closers, clears = 0, False
    for position, item in enumerate(items):
        clears = clears or (isinstance(item, RemoveMessage) and item.id == REMOVE_ALL_MESSAGES)
        closer = _closer(item, call_id)
        if closer is not None:
            closers += 1
            items[position] = _filled(closer, cut(closer.content, tool.max_result_chars), tool, call_id, port)
    return (_with_update(effect, rebuild(items)) if closers else effect), closers, clears


def _messages_in(update: Any) -> tuple[Any, Callable[[list[Any]], Any]]:
    """The messages of an update in any of its forms, and how to make the update with others in their place."""
    unchanged: Any = update
    if isinstance(update, Mapping):
        whole = cast("Mapping[str, Any]", update)
        return whole.get("messages", ()), lambda new: {**whole, "messages": new}
    if isinstance(update, (list, tuple)):
        parts = list(cast("Sequence[Any]", update))
        place = next((place for place, part in enumerate(parts) if _is_messages_pair(part)), None)
        if place is not None:
            return parts[place][1], lambda new: [*parts[:place], ("messages", new), *parts[place + 1 :]]
        if any(_is_message(part) for part in parts):
            return parts, lambda new: {"messages": new}
    return (), lambda _: unchanged


def _is_messages_pair(part: Any) -> bool:
    pair = cast("Sequence[Any]", part) if isinstance(part, (list, tuple)) else ()
    return len(pair) == 2 and isinstance(pair[0], str) and pair[0] == "messages"


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
