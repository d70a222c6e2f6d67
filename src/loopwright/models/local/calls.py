"""Calls that cannot be malformed: the schema the engine holds the model to, and the reader of what comes of it.

A call is written as `{"tool": name, "arguments": {...}}`. Rules:

- whether to call is the model's decision, read off its first token: the probability that it begins with `{`. Small
  models are undecided, so the bar is a number: lower before a result (`CALL_AT`), high after one (`CALL_AGAIN_AT`);
- a call is generated under a JSON schema that only real tools with arguments of their own types fit;
- an answer in words may not begin with the brace that was just decided against;
- pieces of a call are handed on as they come: name and id once the tool is known, then the arguments' own text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from loopwright.errors import UsageError
from loopwright.ids import new_id

__all__ = [
    "CALL_AGAIN_AT",
    "CALL_AT",
    "MOST_ROUNDS",
    "CallReader",
    "FirstToken",
    "call_schema",
    "choice_tokens",
    "chosen_tools",
    "functions_of",
]

CALL_AT: Final = 0.4
"""Probability of a call, from which on it is made. Chosen on prompts that bench/local_accuracy.py does not use."""
CALL_AGAIN_AT: Final = 0.9
"""The same where the model reads a result: it is to answer unless it is sure."""
MOST_ROUNDS: Final = 3
"""A model that needs examples answers after so many results in a row, whatever it would rather do."""

_CANDIDATES: Final = 20
"""How many of the likeliest first tokens are looked at."""


# -- which tools ------------------------------------------------------------------------------------------------------


def functions_of(tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The function objects in tools of OpenAI's form. Raises `UsageError` for another kind of tool."""
    functions: list[Mapping[str, Any]] = []
    for tool in tools:
        function = tool.get("function")
        if not isinstance(function, Mapping):
            raise UsageError(f"a local model can only be given functions, not the provider's own tool {dict(tool)!r}")
        functions.append(cast("Mapping[str, Any]", function))
    return functions


def chosen_tools(choice: Any, functions: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], str]:
    """The tools that may be called, and "auto", "required" or "none".

    `choice`: None, "auto", "none", "any", "required", True, a tool's name, or OpenAI's dictionary. Raises `UsageError`.
    """
    if isinstance(choice, Mapping):
        given = cast("Mapping[str, Any]", choice)
        named: Mapping[str, Any] = given.get("function") or given
        choice = named.get("name")
    if not functions or choice == "none":
        return [], "none"
    if choice is None or choice is False or choice == "auto":
        return list(functions), "auto"
    if choice is True or choice in ("any", "required"):
        return list(functions), "required"
    chosen = [function for function in functions if function["name"] == choice]
    if not chosen:
        names = ", ".join(repr(function["name"]) for function in functions)
        raise UsageError(f'tool_choice={choice!r} names no tool of this call: take {names}, "auto", "any" or "none"')
    return chosen, "required"


# -- the schema -------------------------------------------------------------------------------------------------------


def call_schema(functions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What one call of any of these functions looks like."""
    definitions: dict[str, Any] = {}
    calls = [_one_call(function, definitions) for function in functions]
    schema: dict[str, Any] = calls[0] if len(calls) == 1 else {"anyOf": calls}
    return {**schema, "$defs": definitions} if definitions else schema


def _one_call(function: Mapping[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    name = str(function["name"])
    given: Mapping[str, Any] = function.get("parameters") or {}
    prefix = f"{name}."
    parameters = dict(_plain(given, prefix))
    for key in ("$defs", "definitions"):
        for inner, part in parameters.pop(key, {}).items():
            definitions[prefix + inner] = part
    parameters.setdefault("type", "object")
    parameters.setdefault("properties", {})
    parameters.setdefault("additionalProperties", False)
    return {
        "type": "object",
        "properties": {"tool": {"const": name}, "arguments": parameters},
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }


_WORDS_ONLY = frozenset({"title", "description", "default", "examples", "$schema", "$comment"})


def _plain(part: Any, prefix: str) -> Any:
    """The schema without what only people read. References follow the definitions to the root, where each tool's are
    told apart by its name. Patterns that the engine would ignore with a warning are left out.
    """
    if isinstance(part, list):
        return [_plain(one, prefix) for one in cast("list[Any]", part)]
    if not isinstance(part, Mapping):
        return part
    made: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", part).items():
        if key in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, Mapping):
            inner = cast("Mapping[str, Any]", value)
            made[key] = {name: _plain(one, prefix) for name, one in inner.items()}
        elif key in ("enum", "const", "required"):
            made[key] = value
        elif key == "$ref" and isinstance(value, str):
            made[key] = re.sub(r"^#/(?:\$defs|definitions)/", f"#/$defs/{prefix}", value)
        elif key == "pattern" and isinstance(value, str) and not (value.startswith("^") and value.endswith("$")):
            continue
        elif key not in _WORDS_ONLY:
            made[key] = _plain(value, prefix)
    return made


# -- the decision -----------------------------------------------------------------------------------------------------


def choice_tokens(choice: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tokens of one event, with `token`, `logprob` and `top_logprobs`."""
    logprobs: dict[str, Any] = choice.get("logprobs") or {}
    return logprobs.get("content") or []


class FirstToken:
    """What the model would begin with: asked for with `request`, read from the events of the answer."""

    request: Final[dict[str, Any]] = {"max_tokens": 1, "logprobs": True, "top_logprobs": _CANDIDATES, "temperature": 0}

    def __init__(self) -> None:
        self.brace = 0.0
        """Probability of a call."""
        self._braces: list[int] = []

    def feed(self, choice: Mapping[str, Any]) -> None:
        for token in choice_tokens(choice):
            for candidate in token["top_logprobs"]:
                if candidate["token"].lstrip().startswith("{"):
                    self.brace += math.exp(candidate["logprob"])
                    self._braces.append(candidate["id"])

    def bans(self) -> list[list[Any]]:
        """For an answer in words: the tokens it may not have, where it would rather begin a call."""
        return [[token, False] for token in self._braces] if self.brace >= 0.05 else []


# -- what comes -------------------------------------------------------------------------------------------------------

_HEAD = re.compile(r'\s*\{\s*"tool"\s*:\s*"((?:[^"\\]|\\.)*)"\s*,\s*"arguments"\s*:\s*')


class CallReader:
    """Reads one call piece by piece and gives tool call chunks."""

    def __init__(self) -> None:
        self.begun = False
        """Whether the tool is known and was handed on."""
        self.waiting = ""
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._done = False

    def feed(self, text: str) -> list[dict[str, Any]]:
        """The chunks that `text` completes: at most one."""
        name = call_id = None
        if not self.begun:
            self.waiting += text
            found = _HEAD.match(self.waiting)
            if found is None:
                return []
            from json import loads

            self.begun = True
            name, call_id = loads(f'"{found[1]}"'), f"call_{new_id().replace('-', '')}"
            text, self.waiting = self.waiting[found.end() :], ""
        arguments = self._inside(text)
        if name is None and not arguments:
            return []
        return [{"name": name, "args": arguments, "id": call_id, "index": 0, "type": "tool_call_chunk"}]

    def _inside(self, text: str) -> str:
        """The part of `text` that belongs to the arguments, which end with the brace that they began with."""
        if self._done:
            return ""
        for position, char in enumerate(text):
            if self._in_string:
                if self._escaped:
                    self._escaped = False
                elif char == "\\":
                    self._escaped = True
                elif char == '"':
                    self._in_string = False
            elif char == '"':
                self._in_string = True
            elif char in "{[":
                self._depth += 1
            elif char in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self._done = True
                    return text[: position + 1]
        return text
