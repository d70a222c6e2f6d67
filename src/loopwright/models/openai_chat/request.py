"""Request out: messages, tools and settings become the JSON that is posted.

Rules:

- nothing of the caller's is changed, and what the caller gives in `model_kwargs` and `extra_body` has the last word;
- text goes as text: a list of blocks is only sent where there is more than text in it;
- every call in the history has a name and an id that the provider accepts, and arguments that are a JSON object, also
  where the model wrote something else;
- a tool's result may hold only text: pictures, sound and files in it follow in a user message after the results;
- reasoning goes back to where it came from and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from loopwright.errors import UsageError
from loopwright.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from loopwright.messages.calls import shown_arguments, sound_name
from loopwright.models.openai_chat.dialect import Dialect
from loopwright.models.openai_chat.parts import media_parts, text_of, user_content
from loopwright.models.wire_json import dumps_text

__all__ = [
    "offered_tools",
    "response_format",
    "strict_schema",
    "wire_broken_call",
    "wire_call",
    "wire_messages",
    "wire_tool_choice",
    "wire_tools",
]

_LONGEST_NAME: Final = 64


# -- messages -------------------------------------------------------------------------------------------------------


def wire_messages(messages: Sequence[BaseMessage], dialect: Dialect, provider: str) -> list[dict[str, Any]]:
    """The conversation in OpenAI's form, oldest first. Raises `UsageError` for what cannot be sent."""
    answered: frozenset[str] | None = None
    sent: list[dict[str, Any]] = []
    media: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            parts = media_parts(message.content, dialect)
            if parts:
                media += [
                    {"type": "text", "text": f"Belongs to the result of {message.name or message.tool_call_id}:"},
                    *parts,
                ]
            sent.append(_tool(message, has_media=bool(parts)))
            continue
        if media:
            sent.append({"role": "user", "content": media})
            media = []
        if isinstance(message, AIMessage):
            if message.invalid_tool_calls and answered is None:
                answered = frozenset(m.tool_call_id for m in messages if isinstance(m, ToolMessage))
            sent.append(_assistant(message, dialect, provider, answered or frozenset()))
        else:
            sent.append(_other(message, dialect))
    if media:
        sent.append({"role": "user", "content": media})
    if dialect.short_ids:
        _shorten_ids(sent)
    return sent


def _shorten_ids(sent: list[dict[str, Any]]) -> None:
    """Ids from other providers as nine letters and digits, the same for a call and its result."""
    for message in sent:
        for call in message.get("tool_calls", ()):
            call["id"] = _short_id(call["id"])
        if "tool_call_id" in message:
            message["tool_call_id"] = _short_id(message["tool_call_id"])


def _short_id(call_id: str) -> str:
    if len(call_id) == 9 and call_id.isascii() and call_id.isalnum():
        return call_id
    from hashlib import sha256

    return sha256(call_id.encode("utf-8", "replace")).hexdigest()[:9]


def _other(message: BaseMessage, dialect: Dialect) -> dict[str, Any]:
    if isinstance(message, HumanMessage):
        wire: dict[str, Any] = {"role": "user"}
    elif isinstance(message, SystemMessage):
        wire = {"role": str(message.additional_kwargs.get("__openai_role__") or "system")}
    elif isinstance(message, ChatMessage):
        wire = {"role": message.role}
    elif isinstance(message, FunctionMessage):
        return {"role": "function", "name": message.name, "content": text_of(message.content, "\n")}
    else:
        raise UsageError(
            f"a {type(message).__name__} cannot be sent to a model: send HumanMessage, AIMessage, SystemMessage "
            "or ToolMessage"
        )
    wire["content"] = user_content(message.content, dialect)
    _add_name(wire, message, dialect)
    return wire


def _tool(message: ToolMessage, *, has_media: bool) -> dict[str, Any]:
    text = text_of(message.content, "\n")
    if has_media and not text:
        text = "(the result follows in the next message)"
    return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}


def _assistant(message: AIMessage, dialect: Dialect, provider: str, answered: frozenset[str]) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "assistant"}
    calls = [wire_call(call) for call in message.tool_calls]
    calls += [wire_broken_call(call) for call in message.invalid_tool_calls if call.get("id") in answered]
    content: Any = message.content if isinstance(message.content, str) else _assistant_text(message.content)
    if not content and calls and dialect.null_content:
        content = None
    wire["content"] = content
    if calls:
        wire["tool_calls"] = calls
    if message.response_metadata.get("provider", provider) == provider:
        _add_thoughts(wire, message, dialect)
    if calls and dialect.send_back_always and dialect.send_back == "reasoning_content":
        wire.setdefault("reasoning_content", "")
    for key in ("prefix", "partial"):  # "go on from here" with DeepSeek, Mistral, Kimi
        if key in message.additional_kwargs:
            wire[key] = message.additional_kwargs[key]
    _add_name(wire, message, dialect)
    return wire


def _assistant_text(content: Iterable[Any]) -> str:
    """What the model said; where it only refused, its refusal."""
    text = text_of(content, "")
    if text:
        return text
    blocks = (cast("dict[str, Any]", block) for block in content if isinstance(block, dict))
    return "".join(str(block.get("refusal") or "") for block in blocks if block.get("type") == "refusal")


def _add_thoughts(wire: dict[str, Any], message: AIMessage, dialect: Dialect) -> None:
    """What only the provider that said it understands."""
    details = message.additional_kwargs.get("reasoning_details")
    content = message.content if isinstance(message.content, list) else []
    blocks = [block for block in content if isinstance(block, dict)]
    audio = next((block.get("id") for block in blocks if block.get("type") == "audio"), None)
    if audio:
        wire["audio"] = {"id": audio}
        wire["content"] = wire["content"] or None
    thoughts = [block for block in blocks if block.get("type") == "reasoning"]
    text = "".join(str(block.get("reasoning") or "") for block in thoughts)
    if dialect.send_back == "thinking" and thoughts:
        said = [{"type": "text", "text": wire["content"]}] if wire["content"] else []
        wire["content"] = [*map(_thinking, thoughts), *said]
    elif dialect.send_back == "reasoning_content":
        # Without calls it is not needed: DeepSeek and Kimi ignore it, so its tokens are saved.
        if text and (not dialect.send_back_always or wire.get("tool_calls")):
            wire["reasoning_content"] = text
    elif details:
        wire["reasoning_details"] = details
    elif dialect.send_back == "reasoning_details" and text:
        wire["reasoning"] = text


def _thinking(block: Mapping[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = {
        "type": "thinking",
        "thinking": [{"type": "text", "text": str(block.get("reasoning") or "")}],
    }
    extras: Any = block.get("extras") or {}
    if extras.get("signature"):
        part["signature"] = extras["signature"]
    return part


def wire_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call in OpenAI's form."""
    function = {"name": sound_name(call.get("name"), _LONGEST_NAME), "arguments": dumps_text(call.get("args") or {})}
    wire: dict[str, Any] = {"id": call.get("id") or "", "type": "function", "function": function}
    if call.get("extra_content"):  # Gemini's signature of the thought behind the call
        wire["extra_content"] = call["extra_content"]
    return wire


def wire_broken_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call whose arguments were no object, with one that shows them."""
    return wire_call({"id": call.get("id"), "name": call.get("name"), "args": shown_arguments(call.get("args"))})


def _add_name(wire: dict[str, Any], message: BaseMessage, dialect: Dialect) -> None:
    if message.name and dialect.names:
        wire["name"] = "".join("_" if char.isspace() or char in "<|\\/>" else char for char in message.name)[:64]


# -- tools ----------------------------------------------------------------------------------------------------------


def offered_tools(tools: Sequence[Any]) -> Sequence[Mapping[str, Any]]:
    """Tools as dictionaries: those that are none yet in OpenAI's form."""
    if all(isinstance(tool, Mapping) for tool in tools):
        return tools
    from loopwright.tools import convert_to_openai_tool

    return [convert_to_openai_tool(tool) for tool in tools]


def wire_tools(tools: Iterable[Mapping[str, Any]], dialect: Dialect, *, strict: bool | None) -> list[dict[str, Any]]:
    """Tools in OpenAI's form, made strict where that was asked for and is possible. The given ones are not changed."""
    made: list[dict[str, Any]] = []
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, Mapping):
            changed = dict(cast("Mapping[str, Any]", function))
            wanted = changed.pop("strict", None) if strict is None else strict
            if wanted is not None and dialect.strict:
                changed["strict"] = wanted
                if wanted:
                    changed["parameters"] = strict_schema(
                        changed.get("parameters") or {"type": "object", "properties": {}}
                    )
            made.append({**tool, "function": changed})
        else:
            made.append(dict(tool))
    return made


def wire_tool_choice(choice: Any, tools: Sequence[Mapping[str, Any]], dialect: Dialect) -> Any:
    """`auto`, `none`, `any`/`required`/True, a tool's name, or the provider's own dictionary. None leaves it out."""
    if choice is None or choice is False or isinstance(choice, Mapping):
        return cast("Any", choice) or None
    if choice is True or choice in ("any", "required"):
        return dialect.required or "auto"
    if choice in ("auto", "none"):
        return choice
    name = choice if isinstance(choice, str) else getattr(choice, "name", None) or getattr(choice, "__name__", None)
    names = [tool["function"]["name"] for tool in tools if isinstance(tool.get("function"), Mapping)]
    if name not in names:
        raise UsageError(
            f"tool_choice={choice!r} names no tool of this call: take one of "
            f'{", ".join(map(repr, names)) or "(no tools given)"}, "auto", "any" or "none"'
        )
    return {"type": "function", "function": {"name": name}}


# -- structured output ----------------------------------------------------------------------------------------------


def response_format(wanted: Any, dialect: Dialect, provider: str, *, strict: bool | None = None) -> dict[str, Any]:
    """`response_format` from a schema, or from the provider's own dictionary.

    A JSON schema that does not say is made strict where strict mode can express it; `"strict": False` keeps it as it
    is.
    """
    given: dict[str, Any] = dict(cast("Mapping[str, Any]", wanted)) if isinstance(wanted, Mapping) else {}
    kind = given.get("type")
    if isinstance(kind, str) and kind not in ("object", "json_schema"):
        return given
    if not dialect.json_schema:
        raise UsageError(
            f"{provider} holds no model to a JSON schema: take "
            'with_structured_output(schema, method="function_calling") or ToolStrategy(schema)'
        )
    if kind == "json_schema":
        inner: dict[str, Any] = dict(given.get("json_schema") or {})
    else:
        from loopwright.schema import json_schema, schema_description, schema_name

        inner = {"name": schema_name(wanted), "schema": json_schema(wanted)}
        if description := schema_description(wanted):
            inner["description"] = description
    inner["name"] = sound_name(inner.get("name") or "answer", _LONGEST_NAME)
    strict = inner.pop("strict", strict)
    if strict is not False and dialect.strict:
        try:
            inner.update(schema=strict_schema(inner.get("schema") or {}), strict=True)
        except UsageError:
            if strict:
                raise
    return {"type": "json_schema", "json_schema": inner}


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema under strict mode's rules: every object closed, every field required, no defaults.

    Raises `UsageError` for an object with free keys, which strict mode cannot express. A new dictionary.
    """
    made = _strict(schema, "")
    made.setdefault("type", "object")
    if made["type"] == "object":
        made.setdefault("properties", {})
        made.setdefault("required", list(made["properties"]))
        made["additionalProperties"] = False
    return made


def _strict(part: Any, place: str) -> Any:
    if isinstance(part, list):
        return [_strict(item, f"{place}[{index}]") for index, item in enumerate(cast("list[Any]", part))]
    if not isinstance(part, Mapping):
        return part
    node = cast("Mapping[str, Any]", part)
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key == "default":
            continue
        if key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            fields = cast("Mapping[str, Any]", value)
            made[key] = {name: _strict(inner, f"{place}.{name}" if place else name) for name, inner in fields.items()}
        elif key == "oneOf":
            made["anyOf"] = _strict(value, place)
        elif key in ("enum", "const", "required", "additionalProperties", "examples"):
            made[key] = value
        else:
            made[key] = _strict(value, place)
    single = made.get("allOf")
    if isinstance(single, list) and len(cast("list[Any]", single)) == 1:
        del made["allOf"]
        made = {**single[0], **made}
    if "properties" in made or made.get("type") == "object":
        if made.get("additionalProperties") not in (None, False):
            raise UsageError(
                f"{place or 'the schema'} takes any key, which strict mode cannot express: leave strict out"
            )
        if not made.get("properties") and place:
            raise UsageError(f"{place} is an object without fields, which strict mode cannot express: leave strict out")
        made["additionalProperties"] = False
        made["required"] = list(made.get("properties", {}))
    return made
