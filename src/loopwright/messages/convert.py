"""Whatever callers use for messages, made into messages, and messages made into plain dictionaries and text.

Accepted: a message, a string (the user's), `(role, text)`, a dictionary with `role` (OpenAI's form, its
`tool_calls` with JSON text too) or `type` (ours), `{"type", "data"}` as `messages_to_dict` writes it, and a
message object of LangChain's; one of them or a sequence of them. Rules:

- nothing a caller gave is changed: a message is handed on as the same object, a list is not;
- keys that OpenAI's form has and ours does not go into `additional_kwargs`;
- an error says which position, what was found there and what could stand there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

import msgspec

from loopwright.errors import UsageError
from loopwright.messages.base import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from loopwright.messages.meta import class_of, message_classes, settle, tag_of
from loopwright.messages.plain import is_dict

__all__ = [
    "DEVELOPER_KEY",
    "MessageLikeRepresentation",
    "convert_to_messages",
    "get_buffer_string",
    "message_from",
    "message_to_dict",
    "messages_from_dict",
    "messages_to_dict",
    "validate",
]

MessageLikeRepresentation: TypeAlias = (
    BaseMessage | list[str] | tuple[str, str] | tuple[str, list[Any]] | str | dict[str, Any]
)
"""One message in any of the accepted forms."""

M = TypeVar("M", bound=BaseMessage)

_ROLES: Final[dict[str, type[BaseMessage]]] = {
    "user": HumanMessage,
    "human": HumanMessage,
    "assistant": AIMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "developer": SystemMessage,
    "tool": ToolMessage,
    "function": FunctionMessage,
    "remove": RemoveMessage,
}

_SHOWN_ROLES: Final = "'user' or 'human', 'assistant' or 'ai', 'system' or 'developer', 'tool'"

DEVELOPER_KEY: Final = "__openai_role__"
"""Key in a system message's `additional_kwargs` that keeps it a `developer` message for OpenAI."""


def convert_to_messages(messages: Any) -> list[BaseMessage]:
    """A new list of messages from one value or a sequence of values. Raises `UsageError` (a `ValueError`)."""
    if isinstance(messages, list):
        items: Sequence[Any] = cast("Sequence[Any]", messages)
    elif isinstance(messages, (BaseMessage, str, Mapping)):
        items = (cast(Any, messages),)
    elif hasattr(messages, "to_messages"):  # a prompt value
        items = cast("Sequence[Any]", messages.to_messages())
    elif _is_role_pair(messages):
        items = (messages,)
    elif isinstance(messages, Iterable):
        items = list(cast("Iterable[Any]", messages))
    else:
        items = (messages,)
    return [item if isinstance(item, BaseMessage) else _at(position, item) for position, item in enumerate(items)]


def _is_role_pair(value: Any) -> bool:
    if not isinstance(value, tuple):
        return False
    pair = cast("tuple[Any, ...]", value)
    return len(pair) == 2 and isinstance(pair[0], str) and pair[0] in _ROLES and isinstance(pair[1], (str, list))


def _at(position: int, item: Any) -> BaseMessage:
    try:
        return message_from(item)
    except UsageError as error:
        raise UsageError(f"messages[{position}]: {error}") from None


def message_from(value: Any) -> BaseMessage:
    """One message from one value. Raises `UsageError`."""
    if isinstance(value, BaseMessage):
        return value
    if isinstance(value, str):
        return HumanMessage(value)
    if isinstance(value, Mapping):
        return _from_dict(cast("Mapping[str, Any]", value))
    if isinstance(value, (tuple, list)):
        pair = cast("Sequence[Any]", value)
        if len(pair) == 2 and isinstance(pair[0], str):
            return _from_role(pair[0], {"content": pair[1]})
        raise UsageError(f'a {type(pair).__name__} of {len(pair)} is no message: write ("user", "text")')
    foreign = _from_foreign(value)
    if foreign is not None:
        return foreign
    raise UsageError(
        f"{type(value).__name__} is no message: write a string, a message object, "
        '("user", "text") or {"role": "user", "content": "text"}'
    )


def _from_foreign(value: Any) -> BaseMessage | None:
    """A message object of another library with the same fields. What is in them is handed on, not copied."""
    kind: Any = getattr(value, "type", None)
    cls = message_classes.get(kind) if isinstance(kind, str) else None
    if cls is None or not hasattr(value, "content"):
        return None
    names: Any = getattr(cast(Any, type(value)), "model_fields", None)
    if not names:
        dump: Any = getattr(value, "model_dump", None)
        return _build(cls, cast("Mapping[str, Any]", dump())) if callable(dump) else None
    fields = {name: getattr(value, name) for name in names}
    fields.update(getattr(value, "model_extra", None) or {})
    if fields.get("tool_call_chunks"):  # calls are read from their pieces; a piece has them in both forms there
        for name in ("tool_calls", "invalid_tool_calls"):
            fields.pop(name, None)
    return _build(cls, fields)


def _build(cls: type[M], fields: Mapping[str, Any]) -> M:
    rest = dict(fields)
    rest.pop("type", None)
    return settle(cls, rest, rest.pop("content_blocks", None))


def _from_dict(value: Mapping[str, Any]) -> BaseMessage:
    fields = dict(value)
    role, kind = fields.get("role"), fields.pop("type", None)
    if role is not None and kind != "chat":
        del fields["role"]
        return _from_role(role, fields)
    if kind is None:
        raise UsageError(
            f"a dictionary without role or type is no message (its keys: {', '.join(map(str, value))}): "
            f"add role, one of {_SHOWN_ROLES}"
        )
    data = fields.get("data")
    if is_dict(data) and "content" not in fields:
        fields = {**data}
        fields.pop("type", None)
    cls = class_of(kind) if isinstance(kind, str) else None
    if cls is None or cls is BaseMessage:
        return _from_role(kind, fields)
    if cls.__struct_config__.tag != kind:
        fields["extra"] = {**fields.get("extra", {}), "type": kind}  # so that it is written as what it was
    return _build(cls, fields)


def _from_role(role: Any, fields: dict[str, Any]) -> BaseMessage:
    cls = _ROLES.get(role) if isinstance(role, str) else None
    if cls is None:
        raise UsageError(f"{role!r} is not a role or type of a message: use {_SHOWN_ROLES}")
    if "content" not in fields and cls is not AIMessage and cls is not RemoveMessage and "content_blocks" not in fields:
        raise UsageError(f"a message of role {role!r} needs content")
    names = cls.__struct_fields__
    known: dict[str, Any] = {}
    more: dict[str, Any] = dict(fields.pop("additional_kwargs", None) or {})
    for key, item in fields.items():
        if key in names or key == "content_blocks":
            known[key] = item
        elif item is not None:
            more[key] = item
    if role == "developer":
        more[DEVELOPER_KEY] = "developer"
    return _build(cls, {**known, "additional_kwargs": more})


def validate(cls: type[M], value: Any) -> M:
    """`value` as a message of class `cls`; a message of another class is not one."""
    if isinstance(value, cls):
        return value
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        if (
            cls is not BaseMessage
            and "role" not in fields
            and "data" not in fields
            and fields.get("type") in (None, cls.type)
        ):
            return _build(cls, fields)
        value = _from_dict(fields)
        if isinstance(value, cls):
            return value
    raise UsageError(f"{type(value).__name__} is not a {cls.__name__}")


def message_to_dict(message: BaseMessage) -> dict[str, Any]:
    """`{"type", "data"}`: what `messages_from_dict` reads."""
    from loopwright.messages.dump import dump

    return {"type": tag_of(message), "data": dump(message)}


def messages_to_dict(messages: Iterable[BaseMessage]) -> list[dict[str, Any]]:
    """`message_to_dict` of each."""
    return [message_to_dict(message) for message in messages]


def messages_from_dict(messages: Iterable[Mapping[str, Any]]) -> list[BaseMessage]:
    """The messages again, equal to those that were written."""
    return [_at(position, item) for position, item in enumerate(messages)]


def get_buffer_string(
    messages: Iterable[Any],
    human_prefix: str = "Human",
    ai_prefix: str = "AI",
    *,
    system_prefix: str = "System",
    function_prefix: str = "Function",
    tool_prefix: str = "Tool",
    message_separator: str = "\n",
    format: Literal["prefix", "xml"] = "prefix",
) -> str:
    """The conversation as one text, for a prompt: `Human: hi`, or `<message type="human">hi</message>`.

    Tool calls are shown after the text; media only by their type.
    """
    prefixes = {
        "human": human_prefix,
        "ai": ai_prefix,
        "system": system_prefix,
        "function": function_prefix,
        "tool": tool_prefix,
    }
    if format not in ("prefix", "xml"):
        raise UsageError(f'get_buffer_string format is "prefix" or "xml", not {format!r}')
    lines: list[str] = []
    for message in convert_to_messages(messages if isinstance(messages, (str, Mapping)) else list(messages)):
        kind = message.type.removesuffix("MessageChunk").lower()
        role = message.role if isinstance(message, ChatMessage) else prefixes.get(kind, kind)
        words = _spoken(message)
        lines.append(
            f"{role}: {words}" if format == "prefix" else f'<message type="{_escape(kind)}">{_escape(words)}</message>'
        )
    return message_separator.join(lines)


def _spoken(message: BaseMessage) -> str:
    parts: list[str] = []
    for block in cast("list[dict[str, Any]]", message.content_blocks):
        kind = block["type"]
        if kind in ("text", "text-plain"):
            parts.append(str(block.get("text", "")))
        elif kind == "refusal":
            parts.append(str(block["refusal"]))
        elif kind == "tool_call":
            args = msgspec.json.encode(block["args"], enc_hook=str).decode()
            parts.append(f"[calls {block['name']}({args})]")
        elif kind not in ("reasoning", "tool_call_chunk"):
            parts.append(f"[{kind}]")
    return " ".join(part for part in parts if part)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
