"""Request out: messages become `systemInstruction` and `contents`.

Rules:

- system messages at the beginning are the instruction; a later one is sent where it stands, as the user's words,
  because moving it to the front would change what came before and empty the provider's cache;
- all results of one model turn are one content, in the order of the turn's calls, as Gemini demands; what a result has
  beyond words follows in a content of the user's;
- a result is an object: the tool's own if it gave one as JSON, else its words under `output`, or `error` if it failed;
- an id goes back if the provider gave it, and not if it was made here; then name and order tell the results apart;
- models from Gemini 3 on refuse a turn whose first call has no signature: one that was called elsewhere gets the word
  that Google has for that;
- a turn in which nothing can be sent is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

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
from loopwright.messages.calls import shown_arguments
from loopwright.messages.plain import is_dict
from loopwright.messages.standard import standard_block
from loopwright.models.google.parts import media_parts, model_part, text_of, user_parts
from loopwright.models.google.wire import call_signature, is_made
from loopwright.models.wire_json import loads

__all__ = ["wire_contents"]

_Part = dict[str, Any]
_UNSIGNED: Final = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""What Google asks for in place of a signature that never was: "skip_thought_signature_validator" in base64."""
_MODEL_ROLES: Final = ("model", "assistant", "ai")
_SYSTEM_ROLES: Final = ("system", "developer")


def wire_contents(
    messages: Sequence[BaseMessage], provider: str, *, signed_calls: bool
) -> tuple[list[_Part], list[dict[str, Any]]]:
    """(parts of the instruction, contents, oldest first). `signed_calls`: the model refuses calls without a signature.

    Raises `UsageError` for what cannot be sent.
    """
    instruction: list[_Part] = []
    start = 0
    while start < len(messages) and _is_system(messages[start]):
        instruction += user_parts(messages[start].content)
        start += 1
    answered = frozenset(message.tool_call_id for message in messages if isinstance(message, ToolMessage))
    contents: list[dict[str, Any]] = []
    results: list[ToolMessage] = []
    order: dict[Any, int] = {}
    names: dict[Any, Any] = {}
    for message in messages[start:]:
        if isinstance(message, ToolMessage):
            results.append(message)
            continue
        contents += _results(results, order, names)
        results = []
        if isinstance(message, AIMessage):
            calls = [*message.tool_calls, *message.invalid_tool_calls]
            order = {call.get("id"): place for place, call in enumerate(calls)}
            names.update((call.get("id"), call.get("name")) for call in calls)
            parts = _model_turn(message, provider, answered)
            if signed_calls:
                _sign(parts)
            contents += [{"role": "model", "parts": parts}] if parts else []
        else:
            contents += _other(message)
    contents += _results(results, order, names)
    if not contents:  # Gemini asks for something to answer, be it empty
        contents.append({"role": "user", "parts": [{"text": ""}]})
    return instruction, contents


def _is_system(message: BaseMessage) -> bool:
    return isinstance(message, SystemMessage) or (isinstance(message, ChatMessage) and message.role in _SYSTEM_ROLES)


def _other(message: BaseMessage) -> Iterator[dict[str, Any]]:
    if isinstance(message, FunctionMessage):
        response = {"name": message.name, "response": _response(message.content, failed=False)}
        yield {"role": "user", "parts": [{"functionResponse": response}]}
        return
    if not isinstance(message, (HumanMessage, SystemMessage, ChatMessage)):
        raise UsageError(
            f"a {type(message).__name__} cannot be sent to a model: send HumanMessage, AIMessage, SystemMessage "
            "or ToolMessage"
        )
    role = "model" if isinstance(message, ChatMessage) and message.role in _MODEL_ROLES else "user"
    parts = user_parts(message.content)
    if parts:
        yield {"role": role, "parts": parts}


# -- the model's turns ----------------------------------------------------------------------------------------------


def _model_turn(message: AIMessage, provider: str, answered: frozenset[str]) -> list[_Part]:
    """The parts of an answer in the order in which they came: calls stand where the content marks their place, or last.

    Calls that could not be read are sent if they have a result, their words under a name of ours.
    """
    own = message.response_metadata.get("provider", provider) == provider
    calls: list[tuple[Any, _Part]] = [(call.get("id"), _call(call, own)) for call in message.tool_calls]
    calls += [
        (broken.get("id"), _call({**broken, "args": shown_arguments(broken.get("args"))}, own))
        for broken in message.invalid_tool_calls
        if broken.get("id") in answered
    ]
    parts: list[_Part] = []
    content: Any = message.content
    for item in [content] if isinstance(content, str) else content:
        block = standard_block(item)
        if block is None:
            continue
        if block["type"] == "tool_call":
            at = next((at for at, (call_id, _) in enumerate(calls) if call_id == block.get("id")), None)
            if at is not None:
                parts.append(calls.pop(at)[1])
            continue
        part = model_part(block, own=own)
        if part is not None:
            parts.append(part)
    return [*parts, *(part for _, part in calls)]


def _call(call: Mapping[str, Any], own: bool) -> _Part:
    function: dict[str, Any] = {"name": _name(call.get("name")), "args": call.get("args") or {}}
    if not is_made(call.get("id")):
        function["id"] = call["id"]
    part: _Part = {"functionCall": function}
    signature = call_signature(call) if own else None
    if signature:
        part["thoughtSignature"] = signature
    return part


def _name(name: Any) -> str:
    """A name as Gemini takes it back. The model may have made up any other."""
    text = str(name or "")
    if text.isascii() and text.isidentifier() and len(text) <= 64:
        return text
    clean = "".join(char if char.isascii() and (char.isalnum() or char in "_-.:") else "_" for char in text)[:64]
    return clean if clean[:1].isalpha() or clean[:1] == "_" else f"_{clean}"[:64]


def _sign(parts: list[_Part]) -> None:
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None:
        first.setdefault("thoughtSignature", _UNSIGNED)


# -- results --------------------------------------------------------------------------------------------------------


def _results(
    results: Sequence[ToolMessage], order: Mapping[Any, int], names: Mapping[Any, Any]
) -> Iterator[dict[str, Any]]:
    if not results:
        return
    ordered = sorted(results, key=lambda message: order.get(message.tool_call_id, len(order)))
    parts: list[_Part] = []
    media: list[_Part] = []
    for message in ordered:
        call_id = message.tool_call_id
        name = names.get(call_id) or message.name
        function: dict[str, Any] = {"name": _name(name or call_id)}
        function["response"] = _response(message.content, failed=message.status == "error")
        if not is_made(call_id):
            function["id"] = call_id
        parts.append({"functionResponse": function})
        more = media_parts(message.content)
        if more:
            media += [{"text": f"Belongs to the result of {name or call_id}:"}, *more]
    yield {"role": "user", "parts": parts}
    if media:
        yield {"role": "user", "parts": media}


def _response(content: Any, *, failed: bool) -> dict[str, Any]:
    text = text_of(content)
    if text[:1] == "{":
        try:
            value = loads(text)
        except ValueError:
            value = None
        if is_dict(value):
            return value
    if not text and not isinstance(content, str):
        text = "(the result follows)"
    return {"error" if failed else "output": text}
