"""Stream in: bytes of an answer that comes in pieces become message chunks.

Rules:

- bytes go in, chunks come out; a cut anywhere changes nothing but when a chunk comes;
- every piece of text, reasoning or call is a chunk at once, empty ones are none; the last chunk is empty, has
  `chunk_position="last"`, usage and `response_metadata`, and is the only one of its kind. The sum of the chunks is the
  message that the same answer would have been in one piece;
- text is a string until the answer proves to be more than one text and calls after it; from then on pieces are
  blocks, which the provider's own index tells apart;
- a call of a tool that the provider runs itself is shown when it begins, and its input when that is whole;
- the numbers of the last usage count, and what it does not name stays as the first one said;
- an error inside the stream raises `StreamError`; a stream that ends before `message_stop` and before a stop reason
  raises `ModelConnectionError`: what came is not the answer;
- a whole JSON answer to a request for a stream is taken as one chunk.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from loopwright.messages import AIMessage, AIMessageChunk
from loopwright.models.anthropic.response import (
    call_mark,
    call_piece,
    kept,
    metadata_of,
    parse_response,
    says_something,
    usage_of,
)
from loopwright.models.streamed import StreamedAnswer
from loopwright.models.wire_errors import Peer, error_in_stream, no_event
from loopwright.models.wire_json import dumps_text, has_surrogates, loads, mend_surrogates

__all__ = ["MessageStream"]


class _Delta(msgspec.Struct, gc=False):
    type: Any = None
    text: Any = None
    partial_json: Any = None
    thinking: Any = None
    signature: Any = None
    citation: Any = None


class _Event(msgspec.Struct, gc=False):
    type: Any = None
    index: Any = None
    delta: _Delta | None = None


class _Rare(msgspec.Struct, gc=False):
    """The events that come once a message or a block, with all that they hold."""

    type: Any = None
    index: Any = None
    delta: dict[str, Any] | None = None
    content_block: dict[str, Any] | None = None
    message: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    context_management: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode
_decode_rare = msgspec.json.Decoder(_Rare).decode


class _Block:
    """A content block that has begun and not ended."""

    __slots__ = ("index", "input", "kind", "plain", "start")

    def __init__(self, index: Any, start: dict[str, Any], *, plain: bool) -> None:
        self.index = index
        self.start = start
        self.kind: Any = start.get("type")
        self.plain = plain
        """Its text is sent on as a string."""
        self.input: list[str] = []
        """The JSON of what it asks a tool, so far."""


class MessageStream(StreamedAnswer):
    """Chunks of one message."""

    what = "a message"

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        self._facts: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[Any, _Block] = {}
        self._as_list = False  # content comes as blocks from here on
        self._marks: list[dict[str, Any]] = []  # of calls, to be sent on if content becomes a list
        self._said: list[str] = []
        self._half = ""  # of a character

    def _parse(self, body: bytes) -> list[AIMessage]:
        return parse_response(body, self._peer)

    def _so_far(self) -> str:
        return "".join(self._said)

    def _end_early(self, chunks: list[AIMessageChunk]) -> bool:
        if not self._facts.get("stop_reason"):
            return False
        self._end(chunks)
        return True

    # -- one event --------------------------------------------------------------------------------------------------

    def _take(self, name: bytes, data: bytes, chunks: list[AIMessageChunk]) -> None:
        try:
            event = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if data.strip() in (b"", b"[DONE]"):  # some gateways end with OpenAI's word
                return
            event = self._odd(data)
        kind = event.type or name.decode("utf-8", "replace")
        if kind == "content_block_delta":
            block = self._blocks.get(event.index)
            if event.delta is not None and block is not None:
                self._events += 1
                self._add(block, event.delta, data, chunks)
                return
        self._take_rare(kind, data, chunks)

    def _take_rare(self, kind: str, data: bytes, chunks: list[AIMessageChunk]) -> None:
        event = self._rare(data)
        if event.error or kind == "error":
            raise error_in_stream(self._peer, loads(data))
        if kind == "message_start":
            self._note(event.message or {})
        elif kind == "content_block_start":
            self._start(event.index, event.content_block or {}, chunks)
        elif kind == "content_block_delta":  # of a block that nobody began
            delta = msgspec.convert(event.delta or {}, _Delta)
            self._start(event.index, {"type": _BEGUN_BY.get(str(delta.type), "text")}, chunks)
            self._add(self._blocks[event.index], delta, data, chunks)
        elif kind == "content_block_stop":
            self._stop(event.index, chunks)
        elif kind == "message_delta":
            self._note({"context_management": event.context_management, "usage": event.usage, **(event.delta or {})})
        elif kind == "message_stop":
            self._end(chunks)
        elif kind != "ping":
            return
        self._events += 1

    def _odd(self, data: bytes) -> _Event:
        """What the fast decoder refused: broken characters, or no event of this API."""
        try:
            return msgspec.convert(loads(data), _Event)
        except ValueError as exc:
            raise no_event(self._peer, data, "a streamed message") from exc

    def _rare(self, data: bytes) -> _Rare:
        try:
            return _decode_rare(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        try:
            return msgspec.convert(loads(data), _Rare)
        except ValueError as exc:
            raise no_event(self._peer, data, "a streamed message") from exc

    def _note(self, said: dict[str, Any]) -> None:
        """What is said about the whole answer."""
        for key, value in said.items():
            if value is not None and key not in ("usage", "content"):
                self._facts[key] = value
        usage: Any = said.get("usage")
        if isinstance(usage, dict):
            self._usage.update((k, v) for k, v in cast("dict[str, Any]", usage).items() if v is not None)

    # -- one block --------------------------------------------------------------------------------------------------

    def _start(self, index: Any, start: dict[str, Any], chunks: list[AIMessageChunk]) -> None:
        kind = start.get("type")
        plain = kind == "text" and not (self._as_list or self._said or self._marks)
        block = self._blocks[index] = _Block(index, start, plain=plain)
        if kind == "tool_use":
            self._start_call(block, chunks)
        elif kind == "text":
            self._add_text(block, start.get("text"), chunks)
            for citation in start.get("citations") or ():
                self._add_block(block, {"citations": [citation]}, chunks)
        elif says_something(start):
            self._add_block(block, start, chunks)

    def _start_call(self, block: _Block, chunks: list[AIMessageChunk]) -> None:
        piece = call_piece(block.start)
        block.start = {**block.start, "id": piece["id"]}
        mark = {**call_mark(piece), "index": block.index}
        content: list[Any] = []
        if self._as_list:
            content = [mark]
        else:
            self._marks.append(mark)
        call = {"args": "", "index": block.index, "type": "tool_call_chunk", **piece}
        chunks.append(AIMessageChunk(content or "", id=self._id, tool_call_chunks=cast("Any", [call])))

    def _add(self, block: _Block, delta: _Delta, data: bytes, chunks: list[AIMessageChunk]) -> None:
        kind = delta.type
        if kind == "text_delta":
            self._add_text(block, delta.text, chunks)
        elif kind == "input_json_delta":
            self._add_input(block, delta.partial_json, chunks)
        elif kind == "thinking_delta":
            if delta.thinking:
                self._add_block(block, {"thinking": delta.thinking}, chunks)
        elif kind == "signature_delta":
            if delta.signature:
                self._add_block(block, {"signature": delta.signature}, chunks)
        elif kind == "citations_delta":
            self._add_block(block, {"citations": [delta.citation]}, chunks)
        else:
            rest = (self._rare(data).delta or {}).items()
            self._add_block(block, {key: value for key, value in rest if key != "type"}, chunks)

    def _add_text(self, block: _Block, text: Any, chunks: list[AIMessageChunk]) -> None:
        if not text or not isinstance(text, str):
            return
        if self._half or has_surrogates(text):
            text = self._joined(text)
            if not text:
                return
        self._said.append(text)
        if block.plain:
            chunks.append(AIMessageChunk(text, id=self._id))
        else:
            self._add_block(block, {"text": text}, chunks)

    def _joined(self, text: str) -> str:
        """Halves of a character that came in different events, put together. An open half waits for the next event."""
        text, self._half = self._half + text, ""
        if "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return mend_surrogates(text)

    def _add_block(self, block: _Block, piece: dict[str, Any], chunks: list[AIMessageChunk]) -> None:
        """A piece of a block. A plain text goes on without an index, so that it joins the string before it."""
        marks: list[dict[str, Any]] = [] if block.plain else self._marks
        made = kept({"type": block.kind, **piece})
        if not block.plain:
            made["index"] = block.index
            self._as_list, self._marks = True, []
        chunks.append(AIMessageChunk(cast("Any", [*marks, made]), id=self._id))

    def _add_input(self, block: _Block, text: Any, chunks: list[AIMessageChunk]) -> None:
        if not text or not isinstance(text, str):
            return
        block.input.append(text)
        if block.kind == "tool_use":
            self._add_args(block, text, chunks)

    def _add_args(self, block: _Block, text: str, chunks: list[AIMessageChunk]) -> None:
        call = {"name": None, "args": text, "id": None, "index": block.index, "type": "tool_call_chunk"}
        chunks.append(AIMessageChunk(id=self._id, tool_call_chunks=cast("Any", [call])))

    def _stop(self, index: Any, chunks: list[AIMessageChunk]) -> None:
        """The input of a call is whole. It may have come with the block's beginning, or not at all."""
        block = self._blocks.get(index)
        if block is None:
            return
        if block.kind == "tool_use":
            given = block.start.get("input")
            if given and not block.input:
                self._add_args(block, given if isinstance(given, str) else dumps_text(given), chunks)
        elif block.input:
            self._add_block(block, {"input": _value_of("".join(block.input))}, chunks)
        block.input = []

    # -- the end ----------------------------------------------------------------------------------------------------

    def _end(self, chunks: list[AIMessageChunk]) -> None:
        """Inputs that nobody ended, and the empty chunk that says how the answer ended."""
        self._done = True
        for index in self._blocks:
            self._stop(index, chunks)
        usage = self._usage or None
        chunks.append(
            AIMessageChunk(
                "\ufffd" if self._half else "",
                response_metadata=metadata_of(self._facts, who=self._peer.who, usage=usage),
                id=self._id,
                usage_metadata=usage_of(usage),
                chunk_position="last",
            )
        )


_BEGUN_BY = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}


def _value_of(text: str) -> Any:
    """JSON text as its value; text that is none stays as it is."""
    try:
        return loads(text)
    except ValueError:
        return text
