"""Where an answer's words come from: Google's grounding and recitation marks as citations of our text blocks.

Rules:

- Google counts in bytes of UTF-8, over all text of the answer, or within one part where it names the part; we count in
  characters of one block;
- a place is only taken if the words there are the words that Google quotes; else they are looked for, and a citation
  whose words are nowhere has no place;
- one citation for each source of a passage, and for each of the blocks that the passage runs over.
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
        indices = _list(support.get("groundingChunkIndices"))
        named = [sources[index] for index in indices if isinstance(index, int) and 0 <= index < len(sources)]
        for number, place in _places(texts, _dict(support.get("segment"))):
            for source in named:
                yield number, {"type": "citation", **source, **place}


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
        read: dict[str, Any] = {"type": "citation"}
        if mark.get("uri"):
            read["url"] = mark["uri"]
        if mark.get("title"):
            read["title"] = mark["title"]
        if mark.get("license"):
            read["extras"] = {"license": mark["license"]}
        for number, place in _places(texts, mark):
            yield number, {**read, **place}


def _places(texts: Sequence[str], segment: Mapping[str, Any]) -> list[_Span]:
    """Where a passage is: in one text, or a piece of it in each of several."""
    passage = _passage("".join(texts), segment)
    places: list[_Span] = []
    before = 0
    for number, text in enumerate(texts):
        start, end = max(passage.start - before, 0), min(passage.stop - before, len(text))
        if start < end:
            places.append((number, {"start_index": start, "end_index": end}))
        before += len(text)
    return places or [(len(texts) - 1, {})]


def _passage(text: str, segment: Mapping[str, Any]) -> range:
    """The characters of a passage; none if its words are nowhere."""
    words, first, last = segment.get("text"), segment.get("startIndex") or 0, segment.get("endIndex")
    if isinstance(first, int) and isinstance(last, int):
        data = text.encode("utf-8", "replace")
        start, end = (len(data[:at].decode("utf-8", "ignore")) for at in (first, last))
        if not words or text[start:end] == words:
            return range(start, end)
    if not isinstance(words, str) or not words or words not in text:
        return range(0)
    at = text.index(words)
    return range(at, at + len(words))


def _dict(value: Any) -> dict[str, Any]:
    return value if is_dict(value) else {}


def _list(value: Any) -> list[Any]:
    return value if is_list(value) else []
