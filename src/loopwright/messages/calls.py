"""Tool calls: one shape whatever they came in, and the verdict on arguments that are text.

Rules:

- a call is `{"name", "args", "id", "type": "tool_call"}` with an object for `args`; keys a provider adds are kept;
- argument text that is empty, blank or `null` means "no arguments";
- text that is a JSON string of an object is decoded once more (some models encode twice), and an object that is
  repeated word for word (a stream that says a call again in its last chunk) counts once;
- the id of a call is text; a number becomes text, and None stands for an id that was not given (a history draws one);
- everything else that is not an object, and an object nested deeper than `MAX_DEPTH`, is an invalid call: the raw
  text and the reason are kept for the model to see;
- nothing is guessed: arguments that break off are invalid. `partial_arguments` guesses, for showing only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from loopwright.errors import UsageError
from loopwright.messages.plain import is_dict, is_list

if TYPE_CHECKING:
    from loopwright.messages.blocks import InvalidToolCall, ToolCall

__all__ = [
    "MAX_DEPTH",
    "Arguments",
    "invalid_calls",
    "normal_calls",
    "parse_arguments",
    "partial_arguments",
    "shown_arguments",
    "sound_name",
]

Arguments = dict[str, Any]

MAX_DEPTH: Final = 90
"""Levels of objects and lists in arguments. What is deeper can be neither checked, stored nor sent in good order."""

_strict: Final = msgspec.json.Decoder()
_TOO_DEEP: Final = f"the arguments are nested deeper than {MAX_DEPTH} levels"


def parse_arguments(raw: Any) -> Arguments | str:
    """The arguments as an object, or a sentence that says why they are none."""
    if is_dict(raw):
        return _TOO_DEEP if _is_too_deep(raw) else raw
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
    if text.count("{") + text.count("[") > MAX_DEPTH and _is_too_deep(value):
        return _TOO_DEEP
    return value if is_dict(value) else f"the arguments must be a JSON object, not {_json_kind(value)}"


def shown_arguments(raw: Any) -> Arguments:
    """An object for arguments that were none. Servers that read the history want one; the words stay readable."""
    text = raw or ""
    try:
        value = _decode(text)
    except ValueError:
        value = None
    return value if is_dict(value) else {"invalid_arguments": text}


def sound_name(name: Any, longest: int) -> str:
    """A name of letters, digits, `_` and `-`, which is what providers take back. The model may have made it up."""
    text = str(name or "")
    clean = "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in text)
    return clean[:longest] or "unnamed"


def _is_too_deep(value: Any) -> bool:
    """Whether there are more than `MAX_DEPTH` levels. Each container is looked at once a level, however shared."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner: dict[int, Any] = {}
        for container in level:
            items: Iterable[Any] = container.values() if is_dict(container) else container
            for item in items:
                if isinstance(item, (dict, list, tuple)):
                    inner[id(cast("Any", item))] = item
        if not inner:
            return False
        level = list(inner.values())
    return True


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

    Calls that are normal already are kept as they are, not copied. Raises `UsageError` for what is no call at all, and
    for an id that is neither text nor a number.
    """
    if calls.__class__ is not list:
        _check_list(calls, "tool_calls")
    good: list[ToolCall] = []
    bad: list[InvalidToolCall] = []
    call: Any
    for position, call in enumerate(calls):
        if call.__class__ is not dict and not _is_mapping(call):
            raise _no_call(call, f"tool_calls[{position}]")
        if call.get("type") == "tool_call" and call.__class__ is dict and _is_plain(call):
            good.append(call)
            continue
        if call.__class__ is dict and len(call) == 3 and _is_plain(call):  # ours, but for its type
            good.append({"name": call["name"], "args": call["args"], "id": call["id"], "type": "tool_call"})
            continue
        _normalise(call, good, bad, f"tool_calls[{position}]")
    return good, bad


def invalid_calls(calls: Iterable[Any]) -> list[InvalidToolCall]:
    """Calls that could not be read, each with all its keys. Raises `UsageError` for what is none."""
    _check_list(calls, "invalid_tool_calls")
    return [_invalid(call, f"invalid_tool_calls[{position}]") for position, call in enumerate(calls)]


def _invalid(call: Any, place: str) -> InvalidToolCall:
    if not isinstance(call, Mapping):
        raise _no_call(call, place)
    fields = {"name": None, "args": None, "error": None, **cast("Mapping[str, Any]", call), "type": "invalid_tool_call"}
    fields["id"] = _id_of(fields.get("id"), place)
    return cast("InvalidToolCall", fields)


def _check_list(calls: Any, place: str) -> None:
    if isinstance(calls, (str, Mapping)) or not isinstance(calls, Iterable):
        raise _no_call(cast("Any", calls), place, "a list of calls", "[{}]")


def _no_call(found: Any, place: str, wanted: str = "a tool call", form: str = "{}") -> UsageError:
    example = form.replace("{}", '{"name": "search", "args": {"q": "x"}, "id": "call_1"}')
    return UsageError(f"{place} is {type(found).__name__}, not {wanted}: write {example}")


def _id_of(given: Any, place: str) -> str | None:
    """The id of a call as text; None where none was given."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, int):
        return str(given)
    raise UsageError(f'{place} has the id {given!r:.60}; an id is text: write "id": "call_1", or leave it out')


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_plain(call: Mapping[str, Any]) -> bool:
    args: Any = call.get("args")
    call_id = call.get("id", 0)
    if (call_id.__class__ is not str and call_id is not None) or call.get("name").__class__ is not str:
        return False
    if args.__class__ is not dict:
        return False
    for value in args.values():
        if value.__class__ is dict or value.__class__ is list:
            return not _is_too_deep(args)
    return True


def _normalise(call: Mapping[str, Any], good: list[ToolCall], bad: list[InvalidToolCall], place: str) -> None:
    fields = dict(call)
    function = fields.pop("function", None)
    if isinstance(function, Mapping):
        function = cast(Mapping[str, Any], function)
        fields.setdefault("name", function.get("name"))
        fields.setdefault("args", function.get("arguments"))
    name = fields.pop("name", None)
    name = name if name is None or isinstance(name, str) else str(name)
    raw = fields.pop("args", None)
    call_id = _id_of(fields.pop("id", None), place)
    fields.pop("type", None)
    args = parse_arguments(raw)
    if isinstance(args, str):
        text = raw if isinstance(raw, str) else _as_text(raw)
        bad.append({"name": name, "args": text, "id": call_id, "error": args, "type": "invalid_tool_call"})
    else:
        call = {"name": name or "", "args": args, "id": call_id, "type": "tool_call", **fields}
        good.append(cast("ToolCall", call))


_MOST_PARTS: Final = 100_000


def _as_text(raw: Any) -> str:
    """Arguments that were given as an object, in JSON; empty where that cannot be, or would be endless."""
    parts: list[Any] = [raw]
    for count, part in enumerate(parts):  # grows on the way; shared parts count each time, as JSON repeats them
        if count > _MOST_PARTS:
            return ""
        if is_dict(part):
            parts += part.values()
        elif is_list(part):
            parts += part
    try:
        return msgspec.json.encode(raw, enc_hook=str).decode()
    except (RecursionError, TypeError, ValueError):
        return ""


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
            safe_end = position + 1
        elif char in "}]":
            if stack:
                stack.pop()
            safe_end = position + 1
        elif char == ",":
            safe_end = position
    if escaped or unicode_left:
        text = text[:escape_start]
    closers = "".join(reversed(stack))  # nothing opens or closes after `safe_end`
    return text, ('"' if in_string else "") + closers, text[:safe_end] + closers
