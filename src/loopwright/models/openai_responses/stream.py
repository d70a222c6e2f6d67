"""Stream in: bytes of an answer that comes in pieces become message chunks.

Rules:

- bytes go in, chunks come out; a cut anywhere changes nothing but when a chunk comes;
- every piece of text, reasoning, refusal, code or call is a chunk at once. What an item says beyond its pieces comes
  when the item is done, and only what has not been said yet, so the sum of the chunks is the message that the same
  answer would have been in one piece, also where a server sends no pieces at all;
- an item is known by its place in the output: some servers give it another id in every event. Where a server does not
  say the place, it is known by its id;
- the last chunk is empty, has `chunk_position="last"`, usage and `response_metadata`, and is the only one of its kind.
  What comes after the event that ends the answer is not read;
- an answer that fails inside the stream raises `StreamError`; a stream that ends without saying how the answer ended
  raises `ModelConnectionError`: what came is not the answer;
- a whole JSON answer to a request for a stream is taken as one chunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from loopwright.messages import AIMessage, AIMessageChunk
from loopwright.models.openai_chat.response import raw_arguments
from loopwright.models.openai_responses.items import CALLS, Block, Key, item_blocks, item_call, with_call_id
from loopwright.models.openai_responses.response import (
    ending,
    logprobs_of,
    output_items,
    parse_response,
    usage_of_responses,
)
from loopwright.models.streamed import StreamedAnswer
from loopwright.models.wire_errors import Peer, error_in_stream, no_event
from loopwright.models.wire_json import dumps_text, has_surrogates, loads, mend_surrogates

__all__ = ["ResponsesStream"]


class _Event(msgspec.Struct, gc=False):
    type: str | None = None
    delta: Any = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item_id: str | None = None
    item: dict[str, Any] | None = None
    annotation: Any = None
    response: dict[str, Any] | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode

_WORDS: Final = {
    "response.output_text.delta": ("message", "content", "text", "text"),
    "response.refusal.delta": ("message", "content", "refusal", "refusal"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary", "reasoning", "reasoning"),
    "response.reasoning_text.delta": ("reasoning", "content", "reasoning", "reasoning"),
}
"""Events that bring words: the item they belong to, the part of it, the block's type and the key of its words."""
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.done", "response.cancelled"})


class _Piece:
    """What has been handed on of one block."""

    __slots__ = ("block", "half", "index", "said")

    def __init__(self, index: int) -> None:
        self.index = index
        self.said: list[str] = []  # its running text
        self.half = ""  # of a character that came in two events
        self.block: Block = {}  # the rest, except `type`


class _Item:
    """What has been handed on of one item."""

    __slots__ = ("args", "call_id", "done", "kind", "pieces", "source")

    def __init__(self, item: Mapping[str, Any]) -> None:
        self.kind: Any = item.get("type")
        self.source: Mapping[str, Any] = item
        self.pieces: dict[Key, _Piece] = {}
        self.args: list[str] = []
        self.call_id: Any = None  # of a call that was handed on
        self.done = False

    def shown(self) -> str:
        """The part of reasoning that has been handed on, `summary` or `content`."""
        return next((part for part, _ in self.pieces), "")


class ResponsesStream(StreamedAnswer):
    """Chunks of one response."""

    what = "a response"
    question = "Is base_url right, and does the server have the Responses API?"

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        self._answer: dict[str, Any] = {}  # what the events say about the whole answer
        self._items: dict[Any, _Item] = {}
        self._blocks = 0  # so many have begun
        self._last_words: tuple[Any, ...] = ()  # the block that the last words belonged to, and how it is told
        self._last_piece = _Piece(0)
        self._refused = False
        self._logprobs: list[Any] = []

    def _parse(self, body: bytes) -> list[AIMessage]:
        return parse_response(body, self._peer)

    def _so_far(self) -> str:
        pieces = [piece for item in self._items.values() if item.kind == "message" for piece in item.pieces.values()]
        return "".join(word for piece in pieces for word in piece.said)

    # -- one event --------------------------------------------------------------------------------------------------

    def _take(self, name: bytes, data: bytes, chunks: list[AIMessageChunk]) -> None:
        try:
            event = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if data.strip() in (b"[DONE]", b""):
                return
            event = self._odd(data)
        kind = event.type or name.decode("utf-8", "replace")
        if event.error or kind == "error" or name == b"error":
            raise error_in_stream(self._peer, loads(data))
        self._events += 1
        words = _WORDS.get(kind)
        if words is not None:
            self._add_words(words, event, chunks)
        elif kind == "response.output_item.done":
            self._finish_item(event, chunks)
        elif kind == "response.output_item.added":
            self._begin_item(event, chunks)
        elif kind in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
            self._add_arguments(event, kind, chunks)
        elif kind == "response.code_interpreter_call_code.delta":
            self._add_code(event, chunks)
        elif kind == "response.output_text.annotation.added":
            self._add_annotation(event, chunks)
        elif event.response is not None:
            self._note(kind, event.response, chunks)

    def _odd(self, data: bytes) -> _Event:
        """What the fast decoder refused: broken characters, or no event of this API."""
        try:
            value = loads(data)
            if isinstance(value, dict) and "error" in value:
                return _Event(error=value["error"])
            return msgspec.convert(value, _Event, strict=False)
        except (ValueError, msgspec.MsgspecError) as exc:
            raise no_event(self._peer, data, self.what) from exc

    def _note(self, kind: Any, answer: dict[str, Any], chunks: list[AIMessageChunk]) -> None:
        """An event about the whole answer: it has begun, or this is how it ended."""
        status = answer.get("status")
        if kind == "response.failed" or status == "failed" or answer.get("error"):
            reason = answer.get("error") or {"message": "the answer failed, without a reason"}
            raise error_in_stream(self._peer, {"error": reason})
        self._answer.update({key: value for key, value in answer.items() if value is not None and key != "output"})
        if kind not in _ENDS:
            return
        items = output_items(answer)
        for place, item in enumerate(items):
            known = self._items.get(place) or self._items.get(str(item.get("id"))) or self._item_at(place, item)
            if not known.done:
                self._complete(known, item, chunks)
        chunks.append(self._last())

    # -- words ------------------------------------------------------------------------------------------------------

    def _add_words(self, words: tuple[str, str, str, str], event: _Event, chunks: list[AIMessageChunk]) -> None:
        delta = event.delta
        if not delta or delta.__class__ is not str:
            return
        item_kind, part, block_kind, name = words
        last = self._last_words
        place = event.summary_index if part == "summary" else event.content_index
        here = (_place(event), place, part, block_kind)
        block: Block = {"type": block_kind, name: delta}
        if last == here:
            piece = self._last_piece
        else:
            item = self._item_at(_place(event), {"type": item_kind, "id": event.item_id})
            if item.shown() not in ("", part):
                return  # the same thoughts, summed up or at length
            piece = self._piece_of(item, (part, place or 0), block)
            self._last_words, self._last_piece = here, piece
        if piece.half or has_surrogates(delta):
            block[name] = delta = _joined(piece, delta)
            if not delta:
                return
        piece.said.append(delta)
        block["index"] = piece.index
        chunks.append(AIMessageChunk(cast("Any", [block]), id=self._id))

    def _add_annotation(self, event: _Event, chunks: list[AIMessageChunk]) -> None:
        item = self._item_at(_place(event), {"type": "message", "id": event.item_id})
        part = {"type": "output_text", "text": "", "annotations": [event.annotation]}
        found = item_blocks({"type": "message", "content": [part]})
        if found:
            block = found[0][1]
            piece = self._piece_of(item, ("content", event.content_index or 0), block)
            piece.block["annotations"] = [*piece.block.get("annotations", ()), *block["annotations"]]
            del block["text"]
            chunks.append(AIMessageChunk(cast("Any", [{**block, "index": piece.index}]), id=self._id))

    # -- calls ------------------------------------------------------------------------------------------------------

    def _add_arguments(self, event: _Event, event_kind: str, chunks: list[AIMessageChunk]) -> None:
        kind = "custom_tool_call" if "custom" in event_kind else "function_call"
        place = _place(event)
        item = self._item_at(place, {"type": kind, "id": event.item_id})
        delta = raw_arguments(event.delta)
        if not delta or item.call_id is None:
            return  # the call has not begun: its arguments come when it is done
        if item.kind == "custom_tool_call":
            delta = ("" if item.args else '{"input":"') + dumps_text(delta)[1:-1]
        item.args.append(delta)
        self._said_call(place, {"args": delta}, chunks)

    def _said_call(self, place: Any, part: dict[str, Any], chunks: list[AIMessageChunk], content: Any = "") -> None:
        piece = {"name": None, "args": "", "id": None, "index": place, "type": "tool_call_chunk", **part}
        chunks.append(AIMessageChunk(content, id=self._id, tool_call_chunks=cast("Any", [piece])))

    def _add_code(self, event: _Event, chunks: list[AIMessageChunk]) -> None:
        item = self._items.get(_place(event))
        piece = item.pieces.get(("call", 0)) if item is not None else None
        if piece is None or not isinstance(event.delta, str) or not event.delta:
            return
        piece.said.append(event.delta)
        block = {"type": "server_tool_call", "args": {"code": event.delta}, "index": piece.index}
        chunks.append(AIMessageChunk(cast("Any", [block]), id=self._id))

    # -- items ------------------------------------------------------------------------------------------------------

    def _item_at(self, place: Any, item: Mapping[str, Any]) -> _Item:
        known = self._items.get(place)
        if known is None:
            known = self._items[place] = _Item(item)
        return known

    def _piece_of(self, item: _Item, key: Key, block: Block) -> _Piece:
        """The block of an item. Where it begins here, `block` gets what only its first piece has."""
        piece = item.pieces.get(key)
        if piece is None:
            piece = item.pieces[key] = _Piece(self._blocks)
            self._blocks += 1
            self._refused = self._refused or block["type"] == "refusal"
            if item.source.get("id") and item.kind in ("message", "reasoning"):
                block["id"] = piece.block["id"] = item.source["id"]
        return piece

    def _begin_item(self, event: _Event, chunks: list[AIMessageChunk]) -> None:
        """An item has begun: a call says at once what is called."""
        if event.item is None:
            return
        source = with_call_id(event.item)
        place = _place(event)
        item = self._item_at(place, source)
        if item.kind in CALLS and item.call_id is None and source.get("name"):
            self._begin_call(place, item, source, chunks)
        elif source.get("id") and str(item.kind).endswith("_call"):
            key, block = item_blocks(source)[0]
            if block["type"] == "server_tool_call" and block["name"]:
                begun = {name: block[name] for name in ("type", "id", "name")}
                self._hand_on(item, key, {**begun, "args": {}}, chunks)

    def _begin_call(self, place: Any, item: _Item, source: Mapping[str, Any], chunks: list[AIMessageChunk]) -> None:
        item.call_id = source["call_id"]
        [(key, block)] = item_blocks(source)
        block.pop("status", None)
        piece = self._piece_of(item, key, block)
        piece.block = block
        content = [{**block, "index": piece.index}]
        self._said_call(place, {"name": source.get("name"), "id": item.call_id}, chunks, content)

    def _finish_item(self, event: _Event, chunks: list[AIMessageChunk]) -> None:
        if event.item is not None:
            source = with_call_id(event.item)
            self._complete(self._item_at(_place(event), source), source, chunks)

    def _complete(self, item: _Item, source: dict[str, Any], chunks: list[AIMessageChunk]) -> None:
        """Hand on what the finished item says and its pieces did not."""
        item.done = True
        self._logprobs += logprobs_of([source])
        if source.get("type") in CALLS:
            self._complete_call(item, source, chunks)
            return
        for key, block in item_blocks(source, item.shown()):
            self._hand_on(item, key, block, chunks)

    def _complete_call(self, item: _Item, source: dict[str, Any], chunks: list[AIMessageChunk]) -> None:
        place = next(place for place, known in self._items.items() if known is item)
        if item.call_id is None:
            self._begin_call(place, item, source, chunks)
        arguments = raw_arguments(item_call(source)["function"]["arguments"])
        before = "".join(item.args)
        if arguments.startswith(before) and len(arguments) > len(before):
            item.args.append(arguments[len(before) :])
            self._said_call(place, {"args": arguments[len(before) :]}, chunks)
        self._hand_on(item, ("call", 0), {**item_blocks(source)[0][1], "call_id": item.call_id}, chunks)

    def _hand_on(self, item: _Item, key: Key, block: Block, chunks: list[AIMessageChunk]) -> None:
        """A block as far as it is known now: a chunk of what is new in it, if anything is."""
        begun = key in item.pieces
        news: Block = {"type": block["type"]}
        piece = self._piece_of(item, key, news)
        for name, value in block.items():
            if name == "id" and begun and "id" in piece.block:
                continue  # a block keeps the id it began with
            new = _news(piece, name, value)
            if new is not None:
                news[name] = new
        if len(news) > 1 or not begun:
            chunks.append(AIMessageChunk(cast("Any", [{**news, "index": piece.index}]), id=self._id))

    # -- the end ----------------------------------------------------------------------------------------------------

    def _last(self) -> AIMessageChunk:
        """The empty chunk that says how the answer ended."""
        self._done = True
        usage = self._answer.get("usage")
        metadata = ending(
            self._answer,
            self._peer,
            calls=any(item.call_id is not None for item in self._items.values()),
            refused=self._refused,
            said=bool(self._blocks),
            logprobs=self._logprobs,
        )
        return AIMessageChunk(
            id=self._id,
            response_metadata=metadata,
            usage_metadata=usage_of_responses(usage),
            chunk_position="last",
        )


def _place(event: _Event) -> Any:
    """Where in the output an event belongs, or the id of its item where the server does not say."""
    if event.output_index is not None:
        return event.output_index
    return event.item_id or str((event.item or {}).get("id"))


def _joined(piece: _Piece, text: str) -> str:
    """Halves of a character that came in different events, put together. An open half waits for the next event."""
    text, piece.half = piece.half + text, ""
    if "\ud800" <= text[-1] <= "\udbff":
        text, piece.half = text[:-1], text[-1]
    return mend_surrogates(text)


def _news(piece: _Piece, name: str, value: Any) -> Any:
    """What a value adds to what was handed on under its name; None if nothing. From now on it counts as handed on."""
    if name in ("text", "reasoning", "refusal"):
        before = "".join(piece.said)
        if not value.startswith(before) or len(value) == len(before):
            return None if before or value else value
        piece.said.append(value[len(before) :])
        return value[len(before) :]
    known = piece.block.get(name)
    if value == known or name in ("type", "index"):
        return None
    if name == "args" and known == {}:
        piece.block[name] = value
        before = "".join(piece.said)
        code = str(value.get("code") or "")
        if before and code.startswith(before):  # the code came in pieces
            value = {key: item for key, item in value.items() if key != "code"}
            if len(code) > len(before):
                value["code"] = code[len(before) :]
        return value or None
    if name == "annotations":
        value = value[len(known or ()) :]
        piece.block[name] = [*(known or ()), *value]
        return value or None
    piece.block[name] = value
    return value
