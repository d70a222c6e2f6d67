"""Adding up the pieces of a streamed message, all at once and in linear time.

`merge_chunks` is associative: merging any split of a stream, part by part, gives what merging the whole gives.
Rules:

- text joins; as soon as one piece has blocks, the words between are text blocks;
- blocks join by `index` (with the latest of that index and type); without one, text joins the text before it and
  reasoning the reasoning before it, unless they carry different ids;
- inside a block and in `additional_kwargs` running text (`_RUNNING`) and lists join; of every other value the last
  wins;
- tool call pieces join by id and index (`fragments.py`); usage adds up; of `response_metadata` the last wins key
  by key, log probabilities are gathered; the first id and the first name are kept;
- there is no verdict on a call before `message_chunk_to_message`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from loopwright.errors import UsageError
from loopwright.messages.base import AIMessage, AIMessageChunk, BaseMessage, BaseMessageChunk
from loopwright.messages.fragments import final_calls, merge_fragments
from loopwright.messages.meta import make, message_classes, plain_content, stored_fields
from loopwright.messages.plain import is_dict, is_list
from loopwright.messages.usage import add_usage

if TYPE_CHECKING:
    from loopwright.messages.blocks import UsageMetadata

__all__ = ["add_chunks", "merge_chunks", "merge_contents", "merge_running", "message_chunk_to_message"]

_RUNNING: Final = frozenset(
    (
        "text",
        "reasoning",
        "reasoning_content",
        "thinking",
        "refusal",
        "signature",
        "args",
        "arguments",
        "partial_json",
        "input",
        "code",
        "base64",
        "data",
        "transcript",
    )
)
"""Keys whose text comes in pieces."""

_WORDS: Final = frozenset(("text", "summary_text", "reasoning", "thinking", "refusal"))
"""Blocks that go on without an index."""


def merge_chunks(chunks: Iterable[AIMessageChunk]) -> AIMessageChunk:
    """One chunk that says what all of them say; an empty one if there are none."""
    chunks = list(chunks)
    if len(chunks) == 1:
        return chunks[0]
    contents = [chunk.content for chunk in chunks if chunk.content]
    first_id = next((chunk.id for chunk in chunks if chunk.id is not None), None)
    # Compared in C: asking each field for what it holds costs twice as much.
    rest = [chunk for chunk in chunks if replace(chunk, content="", id=None) != _EMPTY]
    merged = AIMessageChunk(merge_contents(contents), id=first_id)
    return _with_rest(merged, rest) if rest else merged


_EMPTY: Final = AIMessageChunk()


def _with_rest(merged: AIMessageChunk, chunks: list[AIMessageChunk]) -> AIMessageChunk:
    """Add what few chunks of a stream carry beside text."""
    fragments: list[Any] = []
    calls: list[Any] = []
    invalid: list[Any] = []
    usage: UsageMetadata | None = None
    more: list[dict[str, Any]] = []
    metadata: list[dict[str, Any]] = []
    extra: dict[str, Any] = {}
    name = position = None
    for chunk in chunks:
        stored = stored_fields(chunk)
        fragments += chunk.tool_call_chunks
        calls += stored.get("tool_calls", ())
        invalid += stored.get("invalid_tool_calls", ())
        usage = add_usage(usage, chunk.usage_metadata)
        if chunk.additional_kwargs:
            more.append(chunk.additional_kwargs)
        if chunk.response_metadata:
            metadata.append(chunk.response_metadata)
        if chunk.extra:
            extra = {**extra, **chunk.extra}
        name = name or chunk.name
        position = position or chunk.chunk_position
    return replace(
        merged,
        tool_call_chunks=merge_fragments(fragments) if fragments else [],
        tool_calls=calls,
        invalid_tool_calls=invalid,
        usage_metadata=usage,
        additional_kwargs=merge_running(more),
        response_metadata=_merge_metadata(metadata),
        extra=extra,
        name=name,
        chunk_position=position,
    )


def add_chunks(left: BaseMessage, right: Any) -> Any:
    """`left + right`. A list on the right is several chunks. Raises `TypeError` for no chunk of the same kind."""
    others: list[Any] = cast("list[Any]", right) if isinstance(right, list) else [right]
    for other in others:
        if not isinstance(other, BaseMessageChunk) or cast(Any, other).type != left.type:
            raise TypeError(f"{type(left).__name__} + {type(other).__name__}: only chunks of one kind add up")
    if isinstance(left, AIMessageChunk):
        return merge_chunks([left, *others])
    parts: list[BaseMessage] = [left, *others]
    fields: dict[str, Any] = {}
    for part in reversed(parts):
        fields.update(stored_fields(part))
    fields["content"] = merge_contents([part.content for part in parts if part.content])
    fields["additional_kwargs"] = merge_running(part.additional_kwargs for part in parts)
    fields["response_metadata"] = _merge_metadata(part.response_metadata for part in parts)
    if any(getattr(part, "status", "") == "error" for part in parts):
        fields["status"] = "error"
    return make(type(left), fields)


def merge_contents(contents: list[Any]) -> Any:
    """Contents that are not empty, joined: a string if all are strings, else a list of blocks."""
    try:
        return "".join(contents)
    except TypeError:
        pass
    blocks: list[Any] = []
    latest: dict[Any, int] = {}
    for content in contents:
        if not isinstance(content, (str, list)):
            raise UsageError(f"the content of a chunk is a string or a list of blocks, not {type(content).__name__}")
        for item in [content] if isinstance(content, str) else cast("list[Any]", content):
            if not isinstance(item, str) and not is_dict(item):
                raise UsageError(f"a block in the content of a chunk is a dictionary, not {type(item).__name__}")
            if item:
                _add_block(blocks, latest, {"type": "text", "text": item} if isinstance(item, str) else item)
    # The texts of one block were gathered in lists, to stay linear.
    return [_joined(block) for block in blocks] or ""


def _add_block(blocks: list[Any], latest: dict[Any, int], block: dict[str, Any]) -> None:
    index = block.get("index")
    kind = block.get("type")
    at = latest.get(index) if index is not None else len(blocks) - 1
    if at is not None and at >= 0:
        known = blocks[at]
        if _continues(known, block, kind, index):
            for key, value in block.items():
                if key != "type":
                    _put(known, key, value)
            return
    if index is not None:
        latest[index] = len(blocks)
    fresh: dict[str, Any] = {}
    for key, value in block.items():
        _put(fresh, key, value)
    blocks.append(fresh)


def _continues(known: dict[str, Any], block: dict[str, Any], kind: Any, index: Any) -> bool:
    """Whether `block` is a later piece of `known`."""
    if index is None and (known.get("index") is not None or kind not in _WORDS):
        return False
    if known.get("type") != kind and not (index is not None and (kind is None or str(kind).endswith("_delta"))):
        return False
    return block.get("id") is None or block["id"] == known.get("id")


class _Pieces(list[str]):
    """Running text that is still being gathered."""


class _Summaries(list[Any]):
    """Lists of summary parts that are still being gathered."""


def _put(block: dict[str, Any], key: str, value: Any) -> None:
    known = block.get(key)
    if value is None:
        block.setdefault(key, None)
    elif key in _RUNNING and isinstance(value, str):
        if isinstance(known, _Pieces):
            known.append(value)
        else:
            block[key] = _Pieces((value,))
    elif isinstance(known, _Pieces):
        return  # text has begun: the empty object that some providers open a call with does not undo it
    elif key == "summary" and is_list(value) and not is_dict(known):
        block[key] = known if isinstance(known, _Summaries) else _Summaries()
        block[key].append([_summary_part(part) for part in value])
    elif is_list(value) and is_list(known):
        block[key] = _merge_lists(known, value)
    elif is_dict(value) and is_dict(known):
        block[key] = merge_running((known, value))
    elif _weight(value) >= _weight(known):
        block[key] = value


def _weight(value: Any) -> int:
    """What may replace what: where kinds of values alternate, only the heaviest kind counts, whatever the split."""
    return 2 if isinstance(value, dict) else 1 if isinstance(value, list) else 0


def _summary_part(part: Any) -> Any:
    return {"type": "text", **part} if is_dict(part) else part


def _joined(block: dict[str, Any]) -> dict[str, Any]:
    for key, value in block.items():
        if isinstance(value, _Pieces):
            block[key] = "".join(value)
        elif isinstance(value, _Summaries):
            block[key] = merge_contents(value) or []
    return block


def merge_running(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Dictionaries that came one after the other: running text and lists join, of other values the last wins."""
    merged: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            _put(merged, key, value)
    return _joined(merged)


def _merge_lists(left: list[Any], right: list[Any]) -> list[Any]:
    """One after the other; items with an index join the one that has it."""
    merged = list(left)
    places: dict[Any, int] = {}
    for at, item in enumerate(merged):
        if is_dict(item) and "index" in item:
            places[item["index"]] = at
    for item in right:
        indexed = is_dict(item) and "index" in item
        at = places.get(item["index"]) if indexed else None
        if at is not None:
            merged[at] = merge_running((merged[at], item))
            continue
        if indexed:
            places[item["index"]] = len(merged)
        merged.append(item)
    return merged


def _merge_metadata(parts: Iterable[Mapping[str, Any]], gather: bool = False) -> dict[str, Any]:
    """What is known about the call: the last wins, key by key; the lists below `logprobs` are gathered."""
    merged: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            known = merged.get(key)
            if value is None:
                merged.setdefault(key, None)
            elif is_dict(known) and is_dict(value):
                merged[key] = _merge_metadata((known, value), gather or key == "logprobs")
            elif gather and is_list(known) and is_list(value):
                merged[key] = [*known, *value]
            elif _weight(value) >= _weight(known):
                merged[key] = value
    return merged


def message_chunk_to_message(chunk: BaseMessage) -> BaseMessage:
    """The finished message of a merged chunk; a message that is none is returned as it is.

    Here it is decided which calls are valid, calls that came twice are dropped, and `index` leaves the blocks.
    """
    if not isinstance(chunk, BaseMessageChunk):
        return chunk
    chunk = cast("BaseMessage", chunk)
    fields = stored_fields(chunk)
    parent = message_classes[_PARENTS[chunk.type]]
    content = fields.get("content")
    if isinstance(content, list):
        fields["content"] = [_without_index(item) for item in plain_content(parent, content)]
    elif content is not None and content.__class__ is not str:
        fields["content"] = plain_content(parent, content)
    if issubclass(parent, AIMessage):
        fields.pop("chunk_position", None)
        calls, invalid = final_calls(fields.get("tool_calls", ()), fields.pop("tool_call_chunks", ()))
        fields["tool_calls"] = calls
        fields["invalid_tool_calls"] = [*fields.get("invalid_tool_calls", ()), *invalid]
    return make(parent, fields)


def _without_index(item: Any) -> Any:
    if is_dict(item) and "index" in item:
        return {key: value for key, value in item.items() if key != "index"}
    return item


_PARENTS: Final = {
    "AIMessageChunk": "ai",
    "HumanMessageChunk": "human",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
}
