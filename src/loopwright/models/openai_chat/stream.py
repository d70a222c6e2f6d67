"""Stream in: bytes of an answer that comes in pieces become message chunks.

Rules:

- bytes go in, chunks come out; a cut anywhere changes nothing but when a chunk comes;
- every piece of text, reasoning or call is a chunk at once, empty ones are none; the last chunk is empty, has
  `chunk_position="last"`, usage and `response_metadata`, and is the only one of its kind. The sum of the chunks is the
  message that the same answer would have been in one piece;
- the first choice counts; the first non-empty id and model; the last usage that is not null;
- what comes beside the text and must be kept whole (signatures, encrypted reasoning, citations, sound) is put together
  here and comes with the last chunk;
- an error inside the stream raises `StreamError`; a stream that ends before `[DONE]` and before a finish reason raises
  `ModelConnectionError`: what came is not the answer;
- a whole JSON answer to a request for a stream is taken as one chunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from loopwright.messages import AIMessage, AIMessageChunk
from loopwright.messages.calls import parse_arguments
from loopwright.models.openai_chat.response import (
    detail_texts,
    finish_word,
    media_blocks,
    metadata_of,
    new_call_id,
    parse_response,
    part_blocks,
    raw_arguments,
    usage_of,
)
from loopwright.models.streamed import StreamedAnswer
from loopwright.models.wire_errors import Peer, error_in_stream, no_event
from loopwright.models.wire_json import has_surrogates, loads, mend_surrogates

__all__ = ["ChatStream"]


class _Delta(msgspec.Struct, gc=False):
    content: Any = None
    tool_calls: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    function_call: Any = None
    annotations: Any = None
    audio: Any = None
    images: Any = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: Any = None
    index: int | None = 0
    logprobs: Any = None
    message: _Delta | None = None  # a few servers send the whole message in place of a delta


class _Event(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    id: Any = None
    model: Any = None
    usage: Any = None
    error: Any = None
    object: Any = None
    system_fingerprint: Any = None
    service_tier: Any = None
    citations: Any = None
    search_results: Any = None
    x_groq: Any = None


_decode = msgspec.json.Decoder(_Event).decode


class ChatStream(StreamedAnswer):
    """Chunks of one choice."""

    what = "a chat completion"

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        self._facts: dict[str, Any] = {}
        self._finish: str | None = None
        self._said: list[str] = []
        self._blocks = False  # content comes as blocks from here on
        self._index = -1  # of the block that is being added to
        self._kind = ""
        self._details: list[dict[str, Any]] = []
        self._logprobs: dict[str, list[Any]] = {}
        self._annotations: list[Any] = []
        self._audio: dict[str, Any] = {}
        self._calls: dict[Any, _Call] = {}
        self._refused = False
        self._half = ""

    def _parse(self, body: bytes) -> list[AIMessage]:
        return parse_response(body, self._peer)

    def _so_far(self) -> str:
        return "".join(self._said)

    def _end_early(self, chunks: list[AIMessageChunk]) -> bool:
        if self._finish is None:
            return False
        chunks.append(self._last())
        return True

    # -- one event --------------------------------------------------------------------------------------------------

    def _take(self, name: bytes, data: bytes, chunks: list[AIMessageChunk]) -> None:
        try:
            event = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            word = data.strip()
            if word == b"[DONE]":
                chunks.append(self._last())
            if word in (b"[DONE]", b""):
                return
            event = self._odd(data)
        if event.error or name == b"error" or event.object == "error":
            raise error_in_stream(self._peer, loads(data))
        self._events += 1
        choices = event.choices
        if choices:
            choice = choices[0]
            if choice.index:
                choice = next((other for other in choices if not other.index), None)
            if choice is not None:
                delta = choice.delta
                if delta is None:
                    delta = choice.message
                if delta is not None:
                    self._add(delta, chunks)
                if choice.finish_reason:
                    self._finish = str(choice.finish_reason)
                if choice.logprobs:
                    self._add_logprobs(choice.logprobs)
        facts = self._facts
        if "model" not in facts or "id" not in facts or event.usage or event.x_groq or event.citations:
            self._note(event)

    def _odd(self, data: bytes) -> _Event:
        """What the fast decoder refused: broken characters, or no event of this API."""
        try:
            value = loads(data)
            if isinstance(value, dict) and "error" in value:
                return _Event(error=value["error"])
            return msgspec.convert(value, _Event, strict=False)
        except ValueError as exc:
            raise no_event(self._peer, data, self.what) from exc

    def _note(self, event: _Event) -> None:
        """What is said about the whole answer. The first non-empty word on each counts, and the last usage."""
        facts = self._facts
        for key in ("id", "model", "system_fingerprint", "service_tier", "citations", "search_results"):
            value = getattr(event, key)
            if value and key not in facts:
                facts[key] = value
        usage = event.usage
        groq: Any = event.x_groq
        if not usage and isinstance(groq, dict):
            usage = cast("dict[str, Any]", groq).get("usage")
        if usage:
            facts["usage"] = usage

    # -- one delta --------------------------------------------------------------------------------------------------

    def _add(self, delta: _Delta, chunks: list[AIMessageChunk]) -> None:
        thought = delta.reasoning_content or delta.reasoning
        if thought or delta.reasoning_details:
            self._add_thought(thought, delta.reasoning_details, chunks)
        content = delta.content
        if content:
            if content.__class__ is str:
                self._add_text(content, chunks)
            elif isinstance(content, list):
                self._add_parts(part_blocks(cast("list[Any]", content)), chunks)
        if delta.tool_calls:
            self._add_calls(delta.tool_calls, chunks)
        if delta.refusal and isinstance(delta.refusal, str):
            self._refused = True
            self._add_block("refusal", delta.refusal, chunks)
        if delta.function_call or delta.audio or delta.images or delta.annotations:
            self._add_rare(delta, chunks)

    def _add_text(self, text: str, chunks: list[AIMessageChunk]) -> None:
        if self._half or has_surrogates(text):
            text = self._joined(text)
            if not text:
                return
        self._said.append(text)
        if self._blocks:
            self._add_block("text", text, chunks)
        else:
            chunks.append(AIMessageChunk(text, id=self._id))

    def _joined(self, text: str) -> str:
        """Halves of a character that came in different events, put together. An open half waits for the next event."""
        text, self._half = self._half + text, ""
        if "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return mend_surrogates(text)

    def _add_block(self, kind: str, text: str, chunks: list[AIMessageChunk]) -> None:
        """A piece of a block of text. Blocks are told apart by their index, which counts up when the kind changes."""
        if not self._blocks:
            self._blocks = True
            if self._said and kind != "text":
                self._index, self._kind = 0, "text"
        if kind != self._kind:
            self._kind = kind
            self._index += 1
        key = "text" if kind == "text" else kind
        chunks.append(AIMessageChunk(cast("Any", [{"type": kind, key: text, "index": self._index}]), id=self._id))

    def _add_thought(self, thought: Any, details: Any, chunks: list[AIMessageChunk]) -> None:
        found = cast("list[Any]", details) if isinstance(details, list) else []
        text = thought if isinstance(thought, str) and thought else detail_texts(found)
        for detail in found:
            if isinstance(detail, dict):
                _add_detail(self._details, cast("dict[str, Any]", detail))
        if text:
            self._add_block("reasoning", text, chunks)

    def _add_parts(self, blocks: list[dict[str, Any]], chunks: list[AIMessageChunk]) -> None:
        for block in blocks:
            kind = block["type"]
            if kind == "text":
                self._add_text(block["text"], chunks)
            elif kind in ("reasoning", "refusal"):
                self._refused = self._refused or kind == "refusal"
                self._add_block(kind, block[kind], chunks)
                if "extras" in block:
                    chunks[-1].content[0]["extras"] = block["extras"]  # type: ignore[index]
            else:
                self._add_whole(block, chunks)

    def _add_whole(self, block: dict[str, Any], chunks: list[AIMessageChunk]) -> None:
        """A block that comes in one piece."""
        self._blocks = True
        self._index = max(self._index, 0 if self._said else -1) + 1
        self._kind = ""
        chunks.append(AIMessageChunk(cast("Any", [{**block, "index": self._index}]), id=self._id))

    def _add_rare(self, delta: _Delta, chunks: list[AIMessageChunk]) -> None:
        legacy = delta.function_call
        if isinstance(legacy, dict):
            self._add_calls([{"index": "function_call", "function": legacy}], chunks)
        annotations: Any = delta.annotations
        if isinstance(annotations, list):
            self._annotations += cast("list[Any]", annotations)
        audio: Any = delta.audio
        if isinstance(audio, dict):
            for key, value in cast("dict[str, Any]", audio).items():
                known = self._audio.get(key)
                running = key in ("data", "transcript") and isinstance(known, str) and isinstance(value, str)
                self._audio[key] = f"{known}{value}" if running else value
        for block in media_blocks({"images": delta.images}) if delta.images else ():
            self._add_whole(block, chunks)

    def _add_logprobs(self, logprobs: Any) -> None:
        if isinstance(logprobs, dict):
            for key, values in cast("dict[str, Any]", logprobs).items():
                if isinstance(values, list):
                    self._logprobs.setdefault(key, []).extend(cast("list[Any]", values))

    # -- calls ------------------------------------------------------------------------------------------------------

    def _add_calls(self, found: Any, chunks: list[AIMessageChunk]) -> None:
        pieces: list[dict[str, Any]] = []
        for item in cast("list[Any]", found) if isinstance(found, list) else []:
            if isinstance(item, dict):
                piece = self._call_piece(cast("dict[str, Any]", item))
                if piece is not None:
                    pieces.append(piece)
        if pieces:
            chunks.append(AIMessageChunk(id=self._id, tool_call_chunks=cast("Any", pieces)))

    def _call_piece(self, item: Mapping[str, Any]) -> dict[str, Any] | None:
        function = item.get("function")
        custom = item.get("custom")
        if isinstance(function, dict):
            inner = cast("dict[str, Any]", function)
            args = raw_arguments(inner.get("arguments"))
        else:
            inner = cast("dict[str, Any]", custom) if isinstance(custom, dict) else {}
            args = raw_arguments(inner.get("input"))
        index, call_id, name = item.get("index"), item.get("id") or None, inner.get("name") or None
        call = self._calls.get(index)
        if call is None or (call_id is None and name and call.is_complete()):
            if not (name or call_id or args):
                return None
            call = self._calls[index] = _Call(made_id=call_id is None)
            call_id = call_id or new_call_id()
        elif call.made_id:
            call_id = None  # it has one already, which has been handed on
        call.args += args
        piece: dict[str, Any] = {"name": name, "args": args, "id": call_id, "index": index, "type": "tool_call_chunk"}
        if item.get("extra_content"):
            piece["extra_content"] = item["extra_content"]
        return piece

    # -- the end ----------------------------------------------------------------------------------------------------

    def _last(self) -> AIMessageChunk:
        """The empty chunk that says how the answer ended."""
        self._done = True
        content: str | list[dict[str, Any]] = "\ufffd" if self._half else ""
        if self._audio:
            content = [{**block, "index": self._index + 1} for block in media_blocks({"audio": self._audio})]
        usage = self._facts.pop("usage", None)
        metadata = metadata_of(
            self._facts,
            {"logprobs": self._logprobs},
            who=self._peer.who,
            word=finish_word(
                self._finish, calls=bool(self._calls), refused=self._refused, said=bool(self._said or self._kind)
            ),
            raw=self._finish,
            usage=usage,
        )
        more = {"reasoning_details": self._details, "annotations": self._annotations}
        return AIMessageChunk(
            cast("Any", content),
            additional_kwargs={key: value for key, value in more.items() if value},
            response_metadata=metadata,
            id=self._id,
            usage_metadata=usage_of(usage),
            chunk_position="last",
        )


class _Call:
    """What has come of one call."""

    __slots__ = ("args", "made_id")

    def __init__(self, *, made_id: bool) -> None:
        self.made_id = made_id
        self.args = ""

    def is_complete(self) -> bool:
        """Whether another name under its index is another call: servers without ids and indexes send calls whole."""
        return self.made_id and bool(self.args) and isinstance(parse_arguments(self.args), dict)


def _add_detail(details: list[dict[str, Any]], detail: dict[str, Any]) -> None:
    """Add a piece of `reasoning_details`: pieces of one index and type are one entry, whose texts are joined."""
    for known in details:
        if known.get("index") == detail.get("index") and known.get("type") == detail.get("type") and "index" in detail:
            for key, value in detail.items():
                before = known.get(key)
                if (
                    key in ("text", "summary", "data", "signature")
                    and isinstance(before, str)
                    and isinstance(value, str)
                ):
                    known[key] = before + value
                elif value is not None:
                    known[key] = value
            return
    details.append(dict(detail))
