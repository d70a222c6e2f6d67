"""Tool calls that arrive in pieces: which piece belongs to which call, and what the pieces say.

Rules (they keep "merge some, then the rest" equal to "merge all", unless two ids take turns under one index):

- a piece with an id belongs to the call with that id and index; if there is none it begins a call, also under an
  index that is taken: the index is no identity. An id that comes again under another index (or none) is a call said
  again if it says the same, which is seen at the end;
- a piece without an id continues the latest call with its index. Without index and id, a piece that has a name is
  a call of its own;
- the first name wins: names are sent whole, and some servers repeat them in every piece;
- argument text is only joined here. What it means is decided once, at the end of the stream (`final_calls`); until
  then `streaming_calls` shows what can be read of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from loopwright.messages.calls import normal_calls, parse_arguments, partial_arguments
from loopwright.messages.plain import json_text

if TYPE_CHECKING:
    from loopwright.messages.blocks import InvalidToolCall, ToolCall, ToolCallChunk

__all__ = ["final_calls", "merge_fragments", "streaming_calls"]


def merge_fragments(fragments: Iterable[Mapping[str, Any]]) -> list[ToolCallChunk]:
    """One piece for each call, in order of first appearance."""
    calls: list[dict[str, Any]] = []
    texts: list[list[str]] = []
    by_id: dict[tuple[str, Any], int] = {}
    by_index: dict[Any, int] = {}
    for piece in fragments:
        name, call_id, index = piece.get("name") or None, piece.get("id") or None, piece.get("index")
        at: int | None = None
        if call_id is not None:
            at = by_id.get((call_id, index))
        elif index is not None or name is None:
            at = by_index.get(index)
        if at is None:
            at = by_index[index] = len(calls)
            calls.append({"name": name, "args": "", "id": call_id, "index": index, "type": "tool_call_chunk"})
            texts.append([])
            if call_id is not None:
                by_id[call_id, index] = at
        elif name is not None and calls[at]["name"] is None:
            calls[at]["name"] = name
        args = piece.get("args")
        if args:
            texts[at].append(args if isinstance(args, str) else json_text(args))
        if len(piece) > 4:
            call = calls[at]
            call.update((key, value) for key, value in piece.items() if key not in call)
    for call, text in zip(calls, texts, strict=True):
        call["args"] = "".join(text)
    return cast("list[ToolCallChunk]", calls)


def final_calls(
    whole: Sequence[ToolCall], fragments: Iterable[Mapping[str, Any]]
) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """The calls at the end of a stream, and those that cannot be read.

    `whole` are calls that came in one piece; of a call that came both ways, and of one that came twice, one is
    kept.
    """
    given, bad = normal_calls(whole)
    said_by_id: dict[Any, list[ToolCall]] = {}
    good = [call for call in given if not _said(call, said_by_id)]
    pieces = merge_fragments(fragments)
    done = {call["id"] for call in good if call["id"]}
    said = {(piece["id"], name) for piece in pieces if piece["args"] for name in (piece["name"], None)}
    for piece in pieces:
        name, text, call_id = piece["name"], piece["args"], piece["id"]
        nothing_new = not text and ((call_id, name) in said if call_id else not name)
        if call_id in done or nothing_new:
            continue
        args = "the call has no name" if not name else parse_arguments(text)
        if isinstance(args, str):
            bad.append({"name": name, "args": text, "id": call_id, "error": args, "type": "invalid_tool_call"})
            continue
        call = _as_call(piece, args)
        if not _said(call, said_by_id):
            good.append(call)
    return good, bad


def streaming_calls(whole: Sequence[ToolCall], fragments: Iterable[Mapping[str, Any]]) -> list[ToolCall]:
    """The calls that can be told so far, with as much of their arguments as can be read. No verdict on any."""
    calls = list(whole)
    whole_ids = {call.get("id") for call in calls if call.get("id")}
    calls += [
        _as_call(piece, partial_arguments(piece["args"]))
        for piece in merge_fragments(fragments)
        if piece["name"] and piece["id"] not in whole_ids
    ]
    return calls


def _as_call(piece: ToolCallChunk, args: dict[str, Any]) -> ToolCall:
    more = {key: value for key, value in piece.items() if key not in ("name", "args", "id", "index", "type")}
    return cast("ToolCall", {"name": piece["name"], "args": args, "id": piece["id"], "type": "tool_call", **more})


def _said(call: ToolCall, said: dict[Any, list[ToolCall]]) -> bool:
    """Whether this very call, by its id, is in `said`; now it is. Calls without an id are never the same."""
    if not call["id"]:
        return False
    others = said.setdefault(call["id"], [])
    if any(other["name"] == call["name"] and other["args"] == call["args"] for other in others):
        return True
    others.append(call)
    return False
