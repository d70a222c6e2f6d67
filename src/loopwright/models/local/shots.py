"""Examples that show a small model how a tool is asked for, made from the tools themselves.

A model of 135M parameters that is only told of tools hardly ever asks for one; shown two examples of each it mostly
does. So the examples are part of the prompt, before the conversation. Rules:

- they are made from what a tool's schema says (name, description, parameters, `examples`, `enum`, `default`), so they
  work for any tool; examples that the user gives for a tool (`ChatLocal(shots=...)`) take their place;
- some show what follows a call: its result, and an answer in words. Without them a small model calls for ever;
- some show words that need no tool;
- the same tools give the same text, so that the engine reads it once and keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from loopwright.errors import UsageError

__all__ = ["RESULT", "Shot", "call_text", "read_shots", "shot_messages"]

RESULT = "Tool result: "
"""How a result begins in the prompt."""

_FEW_TOOLS = 6
"""Up to so many tools each gets two examples; beyond, one, and the rest of them none."""
_MOST_TOOLS = 12

_RESULTS = (
    ("17 kilos and heavy", "The result is: 17 kilos and heavy."),
    ("nothing was found for it", "The result is: nothing was found for it."),
)
"""Of several words each: after a bare number, only the numbers are taken from a result. Two, because after one a small
model still calls again."""
_SMALL_TALK = (("Hello!", "Hello! How can I help you?"), ("Thank you.", "You are welcome!"))

_NUMBERS = (4, 11, 31, 56, 3, 20)
_WORDS = ("apple", "silver", "garden", "river", "music", "winter")
_KNOWN: dict[str, tuple[str, ...]] = {
    "city": ("Madrid", "Oslo", "Berlin"),
    "country": ("Spain", "Norway", "Japan"),
    "currency": ("EUR", "USD", "JPY"),
    "date": ("2024-05-01", "2024-11-20", "2024-08-15"),
    "email": ("maria@example.com", "john@example.com", "li@example.com"),
    "language": ("Spanish", "German", "Japanese"),
    "location": ("Madrid", "Oslo", "Berlin"),
    "name": ("Maria", "John", "Li"),
    "path": ("notes.txt", "report.md", "data.csv"),
    "person": ("Maria", "John", "Li"),
    "place": ("Madrid", "Oslo", "Berlin"),
    "recipient": ("Maria", "John", "Li"),
    "time": ("08:15", "19:40", "12:00"),
    "url": ("https://example.com", "https://example.org", "https://example.net"),
}


class Shot(NamedTuple):
    """One example: what somebody asks, and the call or the words that answer it."""

    request: str
    tool: str | None
    arguments: Mapping[str, Any]
    answer: str = ""
    """Words, where `tool` is None."""


def read_shots(given: Sequence[Any]) -> tuple[Shot, ...]:
    """`(request, tool, arguments)` is a call, `(request, words)` an answer. Raises `UsageError` for anything else."""
    shots: list[Shot] = []
    for index, one in enumerate(given):
        parts: list[Any] = list(cast("Sequence[Any]", one)) if isinstance(one, (list, tuple)) else []
        kinds: list[type] = [type(part) for part in parts[:2]]
        if isinstance(one, Shot):
            shots.append(one)
        elif len(parts) == 3 and kinds == [str, str] and isinstance(parts[2], Mapping):
            shots.append(Shot(*parts))
        elif len(parts) == 2 and kinds == [str, str]:
            shots.append(Shot(parts[0], None, {}, parts[1]))
        else:
            raise UsageError(
                f"shots[{index}] is {one!r}: an example is (request, tool name, arguments) or (request, answer), "
                'for instance ("What is 4 plus 11?", "add", {"a": 4, "b": 11})'
            )
    return tuple(shots)


def call_text(name: str, arguments: Any) -> str:
    """A call as the model writes it."""
    return json.dumps({"tool": name, "arguments": arguments}, ensure_ascii=False, separators=(",", ":"))


def shot_messages(tools: Sequence[Mapping[str, Any]], given: Sequence[Shot]) -> list[dict[str, str]]:
    """The examples as turns of a conversation. `tools` are function objects: name, description, parameters."""
    names = {tool["name"] for tool in tools}
    own = [shot for shot in given if shot.tool is None or shot.tool in names]
    covered = {shot.tool for shot in own}
    calls = [shot for shot in own if shot.tool is not None]
    calls += _made([tool for tool in tools if tool["name"] not in covered])
    words = [shot for shot in own if shot.tool is None] or [Shot(asked, None, {}, said) for asked, said in _SMALL_TALK]
    turns: list[dict[str, str]] = []
    for index, shot in enumerate(calls):
        turns += _turn(shot.request, call_text(shot.tool or "", dict(shot.arguments)))
        if index < len(_RESULTS):
            result, answer = _RESULTS[index]
            turns += _turn(RESULT + result, answer)
        if index == 0:
            for word in words:
                turns += _turn(word.request, word.answer)
    return turns


def _turn(asked: str, said: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]


# -- examples from a schema -------------------------------------------------------------------------------------------


def _made(tools: Sequence[Mapping[str, Any]]) -> Iterator[Shot]:
    rounds = 2 if len(tools) <= _FEW_TOOLS else 1
    count = 0
    for turn in range(rounds):
        for tool in tools[:_MOST_TOOLS]:
            schema: Mapping[str, Any] = tool.get("parameters") or {}
            arguments: dict[str, Any] = {}
            for name, part in _shown_parameters(schema):
                arguments[name] = _value(name, part, schema, count)
                count += 1
            yield Shot(_request(tool, arguments, turn), tool["name"], arguments)


def _request(tool: Mapping[str, Any], arguments: Mapping[str, Any], turn: int) -> str:
    """What somebody might say to get this call: the tool's own words and the values."""
    does = _first_sentence(str(tool.get("description") or tool["name"].replace("_", " ")))
    values = " and ".join(value if isinstance(value, str) else _compact(value) for value in arguments.values())
    if not values:
        return f"{does}." if turn == 0 else f"I need this: {does[0].lower()}{does[1:]}."
    return f"{does}: {values}." if turn == 0 else f"I need this for {values}: {does[0].lower()}{does[1:]}."


def _first_sentence(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line.partition(". ")[0].rstrip(".:!? ") or "Use it"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shown_parameters(schema: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The parameters that a call must have; where none is required, the first."""
    parts: Mapping[str, Any] = schema.get("properties") or {}
    required = [name for name in schema.get("required") or () if name in parts] or list(parts)[:1]
    return [(name, parts[name]) for name in parts if name in required]


def _value(name: str, part: Any, root: Mapping[str, Any], turn: int, depth: int = 0) -> Any:
    """A plausible value; another one for another `turn`."""
    schema = _resolved(part, root)
    for key in ("examples", "enum"):
        choices = schema.get(key)
        if isinstance(choices, list) and choices:
            found = cast("list[Any]", choices)
            return found[turn % len(found)]
    for key in ("const", "default"):
        if schema.get(key) is not None:
            return schema[key]
    kind: Any = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in cast("list[Any]", kind) if one != "null"), "null")
    match kind:
        case "integer" | "number":
            return _number(schema, turn)
        case "boolean":
            return turn % 2 == 0
        case "null":
            return None
        case "array":
            return [_value(name, schema.get("items") or {}, root, turn, depth + 1)] if depth < 3 else []
        case "object":
            inner = _shown_parameters(schema) if depth < 3 else []
            return {key: _value(key, value, root, turn, depth + 1) for key, value in inner}
        case _:
            return _word(name, turn)


def _resolved(part: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema behind references and choices: the first alternative that is not null."""
    for _ in range(8):
        schema = _mapping(part)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            part = root
            for step in reference.removeprefix("#/").split("/"):
                part = _mapping(part).get(step)
            continue
        choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if not isinstance(choices, list) or "type" in schema:
            return schema
        part = next((one for one in cast("list[Any]", choices) if one != {"type": "null"}), None)
    return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _number(schema: Mapping[str, Any], turn: int) -> int | float:
    low, high = schema.get("minimum"), schema.get("maximum")
    value: int | float = _NUMBERS[turn % len(_NUMBERS)]
    if isinstance(low, (int, float)):
        value = max(value, low)
    if isinstance(high, (int, float)):
        value = min(value, high)
    return value


def _word(name: str, turn: int) -> str:
    key = name.lower()
    known = _KNOWN.get(key) or next((words for word, words in _KNOWN.items() if key.endswith(f"_{word}")), _WORDS)
    return known[turn % len(known)]
