"""From messages to the prompt of a model whose chat template knows no tools.

Rules:

- one system message at the top: the caller's words, then the tools and how to ask for one; none where both are empty;
- examples follow, then the conversation. Calls are shown as the model is to write them, results as the user's words;
- turns of one role that follow each other are joined, because many templates allow only alternating ones;
- text only: a picture, sound or file is an error that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from loopwright.errors import UsageError
from loopwright.messages import AIMessage, BaseMessage, ChatMessage, SystemMessage, ToolMessage
from loopwright.models.local.shots import RESULT, Shot, call_text, shot_messages

__all__ = ["chat_messages", "opening_turns", "refuse_media", "rounds_so_far"]

_HOW = 'To use one, reply only with {"tool": name, "arguments": {...}}.'
_MEDIA = ("image", "image_url", "audio", "input_audio", "video", "file")


def chat_messages(
    messages: Sequence[BaseMessage],
    tools: Sequence[Mapping[str, Any]],
    *,
    shots: Sequence[Shot] | None,
    answer_schema: Mapping[str, Any] | None,
) -> list[dict[str, str]]:
    """`role` and `content` of each turn. `shots` None: no examples at all. Raises `UsageError` for media."""
    refuse_media(messages)
    turns = opening_turns(messages, tools, shots=shots, answer_schema=answer_schema)
    for message in messages:
        if not isinstance(message, SystemMessage):
            _add(turns, *_turn(message))
    if not turns or turns[-1]["role"] == "system":
        turns.append({"role": "user", "content": ""})
    return turns


def opening_turns(
    messages: Sequence[BaseMessage],
    tools: Sequence[Mapping[str, Any]],
    *,
    shots: Sequence[Shot] | None,
    answer_schema: Mapping[str, Any] | None,
) -> list[dict[str, str]]:
    """What stands before the conversation: the system message and the examples."""
    system = [message.text for message in messages if isinstance(message, SystemMessage)]
    if tools:
        system.append("\n".join(["You help with these tools:", *map(_tool_line, tools), _HOW]))
    if answer_schema is not None:
        system.append(_answer_line(answer_schema))
    turns: list[dict[str, str]] = []
    if any(system):
        turns.append({"role": "system", "content": "\n\n".join(filter(None, system))})
    if tools and shots is not None:
        turns += shot_messages(tools, shots)
    return turns


def rounds_so_far(messages: Sequence[BaseMessage]) -> int:
    """How many times in a row the model has called tools and now reads what they gave."""
    rounds, reading = 0, False
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            reading = True
        elif isinstance(message, AIMessage) and reading:
            rounds, reading = rounds + 1, False
        else:
            break
    return rounds


def refuse_media(messages: Iterable[BaseMessage]) -> None:
    """Raises `UsageError` for a message with more than text in it."""
    for message in messages:
        for block in message.content if isinstance(message.content, list) else ():
            kind = block.get("type") if isinstance(block, dict) else None
            if kind in _MEDIA:
                raise UsageError(f"ChatLocal reads text only, and a {type(message).__name__} holds a block {kind!r}")


def _tool_line(tool: Mapping[str, Any]) -> str:
    parameters: Mapping[str, Any] = tool.get("parameters") or {}
    names = ", ".join(parameters.get("properties") or {}) or "none"
    description = " ".join(str(tool.get("description") or "").split())
    return f"- {tool['name']}: {description} Arguments: {names}."


def _answer_line(schema: Mapping[str, Any]) -> str:
    fields = cast("Mapping[str, Any]", schema.get("properties") or {})
    named = ", ".join(_field(name, part) for name, part in fields.items())
    return f"Answer in JSON with these fields: {named}." if named else "Answer in JSON."


def _field(name: str, part: Any) -> str:
    described = cast("Mapping[str, Any]", part).get("description") if isinstance(part, Mapping) else None
    return f"{name} ({described})" if described else name


def _turn(message: BaseMessage) -> tuple[str, str]:
    if isinstance(message, AIMessage):
        calls = [call_text(call["name"], call["args"]) for call in message.tool_calls]
        calls += [f"{broken.get('name') or ''} {broken.get('args') or ''}" for broken in message.invalid_tool_calls]
        return "assistant", "\n".join(filter(None, [message.text, *calls]))
    if isinstance(message, ToolMessage):
        return "user", RESULT + message.text
    if isinstance(message, ChatMessage) and message.role == "assistant":
        return "assistant", message.text
    return "user", message.text


def _add(turns: list[dict[str, str]], role: str, content: str) -> None:
    if turns and turns[-1]["role"] == role:
        joined = f"{turns[-1]['content']}\n{content}" if turns[-1]["content"] else content
        turns[-1] = {"role": role, "content": joined}
    else:
        turns.append({"role": role, "content": content})
