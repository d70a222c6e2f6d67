"""A structured answer while it streams: the newest part of it that is sound.

What counts as sound:

- fields that have not come are left out, required or not, and no default stands in for them; rules between fields are
  not asked, as they hold for the whole;
- fields that have come are what the class makes of them, its validators asked; objects inside are dictionaries. One
  that does not fit makes the answer so far unsound, unless it is the last, which may still grow;
- of what still grows, texts are shown, and nothing else: not half a number, nor a word that an enumeration may yet
  prolong. A text with rules of its own (a pattern, a list of words) is shown when it is whole;
- a JSON schema is not enforced, here as elsewhere.

The reading is pydantic's. A text under `EAGER` letters is read with each of its pieces, a longer one when it has grown
by a sixty-fourth, so that reading stays linear in the answer's length.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final, Literal, cast

from loopwright import schema as schemas
from loopwright.messages import AIMessageChunk

__all__ = ["EAGER", "GrowingAnswer", "partial_answer"]

EAGER: Final = 4096
_MARK: Final = "\uffff"
"""Stands for the letters that may follow, so that only what takes any text takes this one. No text has it."""


class GrowingAnswer:
    """The answer in the pieces of one reply: the first call of an answer tool, or the text."""

    __slots__ = ("_call", "_due", "_length", "_name", "_over", "_parts", "_schemas", "_shown")

    def __init__(self, named: Mapping[str, Any], *, in_text: bool) -> None:
        """`named`: schemas by the name that the model sees. `in_text`: the answer is the text, and of the first."""
        self._schemas = named
        self._name: str | None = next(iter(named)) if in_text else None
        self._call: tuple[Any, Any] | None = None
        self._over = False
        self._parts: list[str] = []
        self._length = self._due = 0
        self._shown: Any = {}

    @property
    def name(self) -> str:
        """The schema that the answer is for. There is one when `take` has given something."""
        return self._name or ""

    def take(self, chunk: AIMessageChunk) -> dict[str, Any] | None:
        """What is known after this piece; None if that is nothing new."""
        if self._call is None and self._name is not None:
            self._add(chunk.text)
        else:
            for piece in chunk.tool_call_chunks:
                if self._is_of_the_call(piece):
                    self._add(piece.get("args"))
        if self._length <= self._due or self._over:
            return None
        text = "".join(self._parts)
        self._parts = [text]
        self._due = self._length if self._length < EAGER else self._length + self._length // 64
        value = partial_answer(self._schemas[self.name], text)
        if not value or value == self._shown:
            return None
        self._shown = value
        return value

    def _add(self, text: Any) -> None:
        if isinstance(text, str) and text:
            self._parts.append(text)
            self._length += len(text)

    def _is_of_the_call(self, piece: Mapping[str, Any]) -> bool:
        """Pieces join by id and index, as in the message that they add up to."""
        name, call_id, index = piece.get("name"), piece.get("id") or None, piece.get("index")
        if self._call is None:
            if name not in self._schemas:
                return False
            self._name, self._call = name, (call_id, index)
            return True
        another = self._call != (call_id, index) if call_id is not None else bool(name) and index is None
        if another:
            self._over = self._over or index == self._call[1]  # it has begun in this one's place
            return False
        return index == self._call[1] and not self._over


def partial_answer(schema: Any, text: str) -> Any:
    """The sound part of a JSON text that may be cut off anywhere; None if there is none. Never raises.

    A dictionary; of a schema that is no object, what its value is so far.
    """
    found = _partial(schema, text)
    return found if found is None or schemas.is_object(schema) else found.get(schemas.VALUE)


def _partial(schema: Any, text: str) -> dict[str, Any] | None:
    text = _without_open_number(_unfenced(text))
    data = _read(text, "trailing-strings")
    if not isinstance(data, dict):
        return None
    if isinstance(schema, Mapping):
        return cast("dict[str, Any]", data)
    check, settled = _checker(schema), _read(text, "on")
    if data == settled or not _marked(data):
        return check(settled)
    growing = check(data)
    return growing if growing is None or _unmark(growing) else check(settled)


def _read(text: str, partial: Literal["on", "trailing-strings"]) -> Any:
    """The data in a text that may be cut off, with or without a text at its end that is; None if it is no JSON."""
    from pydantic_core import from_json

    try:
        return from_json(text, allow_partial=partial)
    except ValueError:
        return None


def _unfenced(text: str) -> str:
    """Out of a code fence; pydantic reads to the end of the object and no further."""
    text = text.lstrip()
    return text.partition("\n")[2] if text.startswith("```") else text


# -- what is last ---------------------------------------------------------------------------------------------------


def _last(data: Any) -> tuple[Any, Any]:
    """The innermost dictionary or list that is still open, and the key of its last value; None without one."""
    holder = key = None
    while data and isinstance(data, (dict, list)):
        holder = cast("Any", data)
        key = next(reversed(holder)) if isinstance(data, dict) else -1
        data = holder[key]
    return holder, key


def _without_open_number(text: str) -> str:
    """A number at the very end may have more digits to come. Those of an open key or text mean nothing yet."""
    if not text.endswith(tuple("0123456789")):
        return text
    without = text.rstrip("0123456789+-.eE")
    return text if _read(without, "on") == _read(text, "on") else without


def _marked(data: Any) -> bool:
    """Mark the text that still grows, if it does."""
    holder, key = _last(data)
    if holder is None or not isinstance(holder[key], str):
        return False
    holder[key] += _MARK
    return True


def _unmark(value: Any) -> bool:
    """Take the mark away again. False if it is in no text, because it was dropped or became something else."""
    if isinstance(value, list):
        items = cast("list[Any]", value)
        places = [len(items) - 1] if items else []
        return any(_unmark_at(items, place) for place in places)
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        return any(_unmark_at(fields, key) for key in reversed(fields))
    return False


def _unmark_at(holder: Any, key: Any) -> bool:
    found = holder[key]
    if not isinstance(found, str):
        return _unmark(found)
    if not found.endswith(_MARK):
        return False
    holder[key] = found[:-1]
    return True


# -- the class, with all that may be missing ------------------------------------------------------------------------


@functools.cache
def _checker(schema: Any) -> Any:
    """A function that gives the sound part of data, or None; cached, because building it is slow."""
    from pydantic_core import SchemaValidator, to_json

    loose = _loose(schemas.core_schema(schema))
    if not schemas.is_object(schema):
        loose = _as_value(loose)
    validator, strict = SchemaValidator(loose), _is_strict(loose)

    def check(data: Any) -> Any:
        try:
            if strict:  # a strict date, say, may be a text in JSON only
                return validator.validate_json(to_json(data), allow_partial="trailing-strings")
            return validator.validate_python(data, allow_partial="trailing-strings")
        except Exception:  # noqa: BLE001 - a validator of the user's may raise anything
            return None

    return check


def _is_strict(node: Any) -> bool:
    """Whether anything in a schema of pydantic's is strict."""
    if isinstance(node, dict):
        known = cast("dict[str, Any]", node)
        return known.get("strict") is True or any(map(_is_strict, known.values()))
    return isinstance(node, (list, tuple)) and any(map(_is_strict, cast("list[Any]", node)))


def _as_value(loose: Any) -> Any:
    """The schema of an object that has this under the key of a value."""
    if loose["type"] == "definitions":
        return {**loose, "schema": _as_value(loose["schema"])}
    field = {"type": "typed-dict-field", "required": False, "schema": loose}
    return {"type": "typed-dict", "fields": {schemas.VALUE: field}}


_INSIDE: Final = (
    *("schema", "items_schema", "keys_schema", "values_schema", "extras_schema", "choices", "fields", "definitions"),
    *("steps", "lax_schema", "strict_schema", "json_schema", "python_schema"),
)
"""Where one of pydantic's schemas has others."""
_FUNCTIONS: Final = ("function-before", "function-after", "function-wrap")


def _loose(node: Any) -> Any:
    """pydantic's schema of a class as one of dictionaries in which nothing has to be there."""
    if isinstance(node, (list, tuple)):
        parts = cast("list[Any] | tuple[Any, ...]", node)
        return type(parts)(_loose(part) for part in parts)
    if not isinstance(node, dict):
        return node
    known = cast("dict[str, Any]", node)
    kind = known.get("type")
    if kind in ("model", "dataclass"):
        inner = _loose(known["schema"])
        return {**inner, **{key: known[key] for key in ("ref", "config") if key in known}}
    if kind in ("model-fields", "dataclass-args", "typed-dict"):
        return _loose_fields(known)
    loose = {key: _loose(value) if key in _INSIDE else value for key, value in known.items()}
    if kind in _FUNCTIONS and _has_objects(loose["schema"]):
        inner = loose["schema"]  # the function expects an instance
        return {**inner, "ref": known["ref"]} if "ref" in known else inner
    return loose


def _loose_fields(node: dict[str, Any]) -> dict[str, Any]:
    fields: Any = node["fields"]
    if isinstance(fields, list):
        fields = {field["name"]: field for field in cast("list[dict[str, Any]]", fields)}
    loose: dict[str, Any] = {"type": "typed-dict", "total": False, "fields": {}}
    for name, field in cast("dict[str, Any]", fields).items():
        inner = field["schema"]
        while inner["type"] == "default":
            inner = inner["schema"]
        made = loose["fields"][name] = {"type": "typed-dict-field", "required": False, "schema": _loose(inner)}
        if "validation_alias" in field:
            made["validation_alias"] = field["validation_alias"]
    return loose | {key: node[key] for key in ("ref", "config", "extra_behavior", "extras_schema") if key in node}


def _has_objects(node: Any) -> bool:
    if isinstance(node, dict):
        known = cast("dict[str, Any]", node)
        return known.get("type") in ("typed-dict", "definition-ref") or any(
            _has_objects(known[key]) for key in _INSIDE if key in known
        )
    return isinstance(node, (list, tuple)) and any(map(_has_objects, cast("list[Any]", node)))
