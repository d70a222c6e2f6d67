"""Tool calls: one shape whatever they came in, and the verdict on arguments that are text.

Rules:

- a call is `{"name", "args", "id", "type": "tool_call"}` with an object for `args`; keys a provider adds are kept;
- argument text that is empty, blank or `null` means "no arguments";
- text that is a JSON string of an object is decoded once more (some models encode twice), and an object that is
  repeated word for word (a stream that says a call again in its last chunk) counts once;
- everything else that is not an object is an invalid call: the raw text and the reason are kept for the model to
  see;
- nothing is guessed: arguments that break off are invalid. `partial_arguments` guesses, for showing only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from loopwright.errors import UsageError
from loopwright.messages.plain import is_dict

if TYPE_CHECKING:
    from loopwright.messages.blocks import InvalidToolCall, ToolCall

__all__ = ["Arguments", "normal_calls", "parse_arguments", "partial_arguments"]

Arguments = dict[str, Any]

_strict: Final = msgspec.json.Decoder()


def parse_arguments(raw: Any) -> Arguments | str:
    """The arguments as an object, or a sentence that says why they are none."""
    if is_dict(raw):
        return raw
    if raw is None:
        return {}
    if not isinstance(raw, str):
        return f"the arguments must be a JSON object, not {_json_kind(raw)}"
    text = raw.strip()
    if not text:
        return {}
    try:
        value = _decode(text)
    except ValueError as error:
        return f"the arguments are not valid JSON: {error}"
    if isinstance(value, str):
        try:
            inner = _decode(value.strip())
        except ValueError:
            inner = None
        if is_dict(inner):
            return inner
    if value is None:
        return {}
    return value if is_dict(value) else f"the arguments must be a JSON object, not {_json_kind(value)}"


def _decode(text: str) -> Any:
    """JSON that models write: raw line breaks inside strings pass, an object said twice counts once."""
    try:
        return _strict.decode(text)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        pass
    read = _lenient().raw_decode
    try:
        value, end = read(text)
        rest = text[end:].strip()
        while rest:
            again, end = read(rest)
            if again != value or not is_dict(again):
                raise ValueError("more follows after the first value")
            rest = rest[end:].strip()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _lenient() -> Any:
    from json import JSONDecoder

    return JSONDecoder(strict=False)


def _json_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, (list, tuple)) else type(value).__name__


def normal_calls(calls: Iterable[Any]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """Bring calls in our shape or OpenAI's (`{"id", "function": {"name", "arguments"}}`) to ours.

    Calls that are normal already are kept as they are, not copied. Raises `UsageError` for what is no call at all.
    """
    good: list[ToolCall] = []
    bad: list[InvalidToolCall] = []
    call: Any
    for position, call in enumerate(calls):
        if call.__class__ is not dict and not _is_mapping(call):
            raise UsageError(
                f"tool_calls[{position}] is {type(call).__name__}, not a tool call: "
                'write {"name": "search", "args": {"q": "x"}, "id": "call_1"}'
            )
        if call.get("type") == "tool_call" and call.__class__ is dict and "id" in call and _is_plain(call):
            good.append(call)
            continue
        if call.__class__ is dict and len(call) == 3 and "id" in call and _is_plain(call):  # ours, but for its type
            good.append({"name": call["name"], "args": call["args"], "id": call["id"], "type": "tool_call"})
            continue
        _normalise(call, good, bad)
    return good, bad


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_plain(call: Mapping[str, Any]) -> bool:
    return call.get("args").__class__ is dict and call.get("name").__class__ is str


def _normalise(call: Mapping[str, Any], good: list[ToolCall], bad: list[InvalidToolCall]) -> None:
    fields = dict(call)
    function = fields.pop("function", None)
    if isinstance(function, Mapping):
        function = cast(Mapping[str, Any], function)
        fields.setdefault("name", function.get("name"))
        fields.setdefault("args", function.get("arguments"))
    name = fields.pop("name", None)
    raw = fields.pop("args", None)
    call_id = fields.pop("id", None)
    fields.pop("type", None)
    args = parse_arguments(raw)
    if isinstance(args, str):
        text = raw if isinstance(raw, str) else msgspec.json.encode(raw, enc_hook=str).decode()
        bad.append({"name": name, "args": text, "id": call_id, "error": args, "type": "invalid_tool_call"})
    else:
        call = {"name": name or "", "args": args, "id": call_id, "type": "tool_call", **fields}
        good.append(cast("ToolCall", call))


def partial_arguments(text: str | None) -> Arguments:
    """What can be read of arguments still arriving: complete members, and the last string as far as it goes."""
    if not text:
        return {}
    end, closers, safe = _scan(text)
    read = _lenient().decode
    for candidate in (end + closers, safe):
        try:
            value = read(candidate)
        except (ValueError, RecursionError):
            continue
        return value if is_dict(value) else {}
    return {}


def _scan(text: str) -> tuple[str, str, str]:
    """(text without a broken escape, what would close it, the longest prefix that closes well, closed)."""
    stack: list[str] = []
    in_string = escaped = False
    unicode_left = 0
    escape_start = safe_end = 0
    safe_closers = ""
    for position, char in enumerate(text):
        if in_string:
            if unicode_left:
                unicode_left -= 1
            elif escaped:
                escaped = False
                unicode_left = 4 if char == "u" else 0
            elif char == "\\":
                escaped, escape_start = True, position
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "{[":
            stack.append("}" if char == "{" else "]")
            safe_end, safe_closers = position + 1, "".join(reversed(stack))
        elif char in "}]":
            if stack:
                stack.pop()
            safe_end, safe_closers = position + 1, "".join(reversed(stack))
        elif char == ",":
            safe_end, safe_closers = position, "".join(reversed(stack))
    if escaped or unicode_left:
        text = text[:escape_start]
    closers = ('"' if in_string else "") + "".join(reversed(stack))
    return text, closers, text[:safe_end] + safe_closers
