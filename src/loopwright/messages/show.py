"""Messages as people read them: a short `repr`, and the title and text that tutorials print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from loopwright.messages.base import BaseMessage

__all__ = ["pretty", "short_repr", "title_line"]

_WIDTH: Final = 80
_SHORT: Final = 100  # characters of any one value in a repr

_TITLES: Final = {
    "human": "Human",
    "ai": "Ai",
    "AIMessageChunk": "Ai",
    "system": "System",
    "tool": "Tool",
    "remove": "Remove",
    "chat": "Chat",
    "function": "Function",
}


def short_repr(message: BaseMessage) -> str:
    """Class, content and what is set besides, each cut to 100 characters."""
    from loopwright.messages.meta import stored_fields

    fields = stored_fields(message)
    content = fields.pop("content", "")
    if fields.get("status") == "success":
        del fields["status"]
    parts = [_cut(repr(content))]
    parts += [f"{name}={_cut(repr(value))}" for name, value in fields.items()]
    return f"{type(message).__name__}({', '.join(parts)})"


def _cut(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 10]}… ({len(text)} characters)"


def title_line(title: str, bold: bool = False) -> str:
    """A title in the middle of a line of 80 equals signs."""
    line = f" {title} ".center(_WIDTH, "=")
    return line.replace(title, f"\033[1m{title}\033[0m") if bold else line


def pretty(message: BaseMessage, html: bool = False) -> str:
    """The title line, the name, the text (or the blocks), and an AI message's calls."""
    kind = message.type
    title = f"{_TITLES.get(kind) or kind.removesuffix('MessageChunk').capitalize()} Message"
    lines = [title_line(title, html)]
    if message.name is not None:
        lines.append(f"Name: {message.name}")
    lines += ["", _words(message)]
    calls: list[Any] = getattr(message, "tool_calls", [])
    if calls:
        lines.append("Tool Calls:")
        for call in calls:
            lines += [f"  {call.get('name')} ({call.get('id')})", f" Call ID: {call.get('id')}", "  Args:"]
            lines += [f"    {key}: {value}" for key, value in call["args"].items()]
    invalid: list[Any] = getattr(message, "invalid_tool_calls", [])
    if invalid:
        lines.append("Invalid Tool Calls:")
        for call in invalid:
            lines += [f"  {call.get('name')} ({call.get('id')})", f" Call ID: {call.get('id')}"]
            lines += [f"  Error: {call.get('error')}", "  Args:", f"    {call.get('args')}"]
    return "\n".join(lines)


def _words(message: BaseMessage) -> str:
    content = message.content
    if isinstance(content, str):
        return content
    from loopwright.messages.standard import standard_block

    blocks = [standard_block(item) for item in content]
    return "\n".join(_line(block) for block in blocks if block is not None and block["type"] != "tool_call")


def _line(block: dict[str, Any]) -> str:
    """A block on a line of its own, without the megabytes it may hold."""
    kind = block["type"]
    if kind == "text":
        return block["text"]
    if kind == "reasoning":
        return f"[reasoning] {block.get('reasoning', '')}"
    if "base64" in block:
        return f"[{kind} {block.get('mime_type', '')}, {len(block['base64']):,} characters]"
    place = block.get("url") or block.get("file_id")
    if place:
        return f"[{kind} {place}]"
    return repr(block["value"] if kind == "non_standard" else block)
