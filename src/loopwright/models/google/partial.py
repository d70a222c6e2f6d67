"""A function call whose arguments come in pieces, each with a place and a value, or with more of a text.

Vertex AI sends calls so where `streamFunctionCallArguments` is asked for. Rules:

- a place is a JSON path (`$.a.b[0]['c d']`); the objects and lists on the way to it are made;
- texts of one place join, of other values the last counts;
- the call is whole with the piece that does not say `willContinue`; until then, and after a place that cannot be read,
  its arguments are no JSON, so that no half of a call is taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from loopwright.messages.plain import is_dict, is_list
from loopwright.models.wire_json import dumps_text

__all__ = ["PartialCall"]

_STEP: Final = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_LONGEST_LIST: Final = 100_000
_VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue")


class PartialCall:
    """What has come of one call."""

    __slots__ = ("_args", "_broken", "_known", "signature")

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._args: dict[str, Any] = {}
        self._broken = False
        self.signature: Any = None

    def add(self, found: Mapping[str, Any], signature: Any) -> None:
        """Take one piece."""
        self.signature = self.signature or signature
        for key in ("id", "name"):
            if found.get(key):
                self._known.setdefault(key, found[key])
        if is_dict(found.get("args")):
            self._args.update(found["args"])
        pieces = found.get("partialArgs")
        for piece in pieces if is_list(pieces) else ():
            kind = next((key for key in _VALUES if is_dict(piece) and key in piece), None)
            if kind is None:
                continue  # it only says that more will come
            value = None if kind == "nullValue" else piece[kind]
            self._broken |= not _put(self._args, str(piece.get("jsonPath")), value)

    def call(self, *, is_whole: bool) -> dict[str, Any]:
        """The call as it comes in one piece; its arguments are text that cannot be read if it is not whole."""
        if is_whole and not self._broken:
            return {**self._known, "args": self._args}
        return {**self._known, "args": dumps_text(self._args)[:-1]}


def _put(args: dict[str, Any], path: str, value: Any) -> bool:
    """Put a value in its place. False where there is no such place."""
    steps = [int(step[2]) if step[2] else step[1] or step[3] or step[4] or "" for step in _STEP.finditer(path)]
    if not steps or "$" + "".join(step[0] for step in _STEP.finditer(path)) != path:
        return False
    place: Any = args
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        container, inner = place, value
        if isinstance(step, int):
            if not is_list(place) or step > _LONGEST_LIST:
                return False
            place.extend([None] * (step + 1 - len(place)))
            known = place[step]
        else:
            if not is_dict(place):
                return False
            known = place.get(step)
        if following is not None:
            fresh: Any = [] if isinstance(following, int) else {}
            inner = fresh if known is None else known
        elif isinstance(known, str) and isinstance(value, str):
            inner = known + value
        container[step] = place = inner
    return True
