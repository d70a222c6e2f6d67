"""Where an answer's words come from: Google's grounding and recitation marks as citations of our text blocks.

Rules:

- Google counts in bytes of UTF-8, over all text of the answer, or within one part where it names the part; we count in
  characters of one block;
- a place is only taken if the words there are the words that Google quotes; else they are looked for, and a citation
  whose words are nowhere has no place;
- one citation for each source of a passage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loopwright.messages.plain import is_dict, is_list

__all__ = ["citations_of"]

_Span = tuple[int, dict[str, int]]
"""Number of the text, and `start_index` and `end_index` in it, if they are known."""


def citations_of(texts: Sequence[str], grounding: Any, recitation: Any) -> dict[int, list[dict[str, Any]]]:
    """Citations by the number of the text they belong to; `texts` are the answer's text blocks in order."""
    found: dict[int, list[dict[str, Any]]] = {}
    if not texts:
        return found
    for number, citation in (*_grounded(texts, _dict(grounding)), *_recited(texts, _dict(recitation))):
        found.setdefault(number, []).append(citation)
    return found


def _grounded(texts: Sequence[str], grounding: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    sources = [_source(_dict(chunk)) for chunk in _list(grounding.get("groundingChunks"))]
    for support in map(_dict, _list(grounding.get("groundingSupports"))):
        number, place = _locate(texts, _dict(support.get("segment")))
        for index in _list(support.get("groundingChunkIndices")):
            if isinstance(index, int) and 0 <= index < len(sources):
                yield number, {"type": "citation", **sources[index], **place}


def _source(chunk: Mapping[str, Any]) -> dict[str, Any]:
    """A source as the keys of a citation. `text` is there where the source was the user's own file."""
    kind = next((key for key in ("web", "retrievedContext", "maps", "image") if key in chunk), "")
    about = dict(_dict(chunk.get(kind)))
    read: dict[str, Any] = {}
    for name, key in (("url", "uri"), ("title", "title"), ("cited_text", "text")):
        value = about.pop(key, None)
        if value:
            read[name] = value
    if about:
        read["extras"] = about
    return read


def _recited(texts: Sequence[str], recitation: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """`citations` at Vertex, `citationSources` at the Gemini API."""
    marks = recitation.get("citations") or recitation.get("citationSources")
    for mark in map(_dict, _list(marks)):
        number, place = _locate(texts, mark)
        read: dict[str, Any] = {"type": "citation"}
        if mark.get("uri"):
            read["url"] = mark["uri"]
        if mark.get("title"):
            read["title"] = mark["title"]
        if mark.get("license"):
            read["extras"] = {"license": mark["license"]}
        yield number, {**read, **place}


def _locate(texts: Sequence[str], segment: Mapping[str, Any]) -> _Span:
    words, end = segment.get("text"), segment.get("endIndex")
    start = segment.get("startIndex") or 0
    if isinstance(end, int) and isinstance(start, int):
        span = _at_bytes(texts, start, end)
        if span is not None and (not words or texts[span[0]][span[1] : span[2]] == words):
            return _span(*span)
    if isinstance(words, str) and words:
        for number, text in enumerate(texts):
            at = text.find(words)
            if at >= 0:
                return _span(number, at, at + len(words))
    return len(texts) - 1, {}


def _span(number: int, start: int, end: int) -> _Span:
    return number, {"start_index": start, "end_index": end}


def _at_bytes(texts: Sequence[str], start: int, end: int) -> tuple[int, int, int] | None:
    """(text, first character, end) of bytes counted over all texts."""
    before = 0
    for number, text in enumerate(texts):
        data = text.encode("utf-8", "replace")
        if start < before + len(data):
            first = len(data[: start - before].decode("utf-8", "ignore"))
            return number, first, len(data[: end - before].decode("utf-8", "ignore"))
        before += len(data)
    return None


def _dict(value: Any) -> dict[str, Any]:
    return value if is_dict(value) else {}


def _list(value: Any) -> list[Any]:
    return value if is_list(value) else []
