"""One streamed answer, read event by event: what is the same in every format of server-sent events.

Rules:

- bytes go in, chunks come out; a cut anywhere changes nothing but when a chunk comes;
- what comes after the answer's last event is not read;
- a whole JSON answer to a request for a stream is taken as one chunk: a body that begins with a brace or a bracket is
  one, as no line of a stream begins so. Some servers answer like that, most of them with an error;
- bytes that end in the middle of an event, or before it is known how the answer ended, are no answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, cast

from loopwright.errors import InvalidResponseError
from loopwright.ids import new_id
from loopwright.messages import AIMessage, AIMessageChunk
from loopwright.models.sse import Event, SseDecoder
from loopwright.models.wire_errors import IS_BASE_URL_RIGHT, Peer, cut_off, no_stream

__all__ = ["StreamBody", "StreamedAnswer"]


_HEAD = 400
"""So many bytes of the beginning are kept."""


class StreamBody:
    """Feed it bytes as they arrive; it gives back the events that they complete."""

    __slots__ = ("_begun", "_head", "_sse", "_whole")

    def __init__(self) -> None:
        self._sse = SseDecoder()
        self._begun = False  # something other than white space has come
        self._head = b""
        self._whole: bytearray | None = None

    def feed(self, piece: bytes) -> list[Event]:
        """The events that end inside `piece`; none where the body is JSON."""
        if self._whole is not None:
            self._whole += piece
            return []
        if len(self._head) < _HEAD:
            self._head += piece[:_HEAD]
        if not self._begun and self._is_json(piece):
            return []
        return self._sse.feed(piece)

    def close(self) -> list[Event]:
        """An event that no blank line ended."""
        return self._sse.close()

    @property
    def whole(self) -> bytes | None:
        """The body if it is JSON."""
        return None if self._whole is None else bytes(self._whole)

    @property
    def beginning(self) -> str:
        """The first words of the body, in one line."""
        return " ".join(self._head[:_HEAD].decode("utf-8", "replace").split())

    def _is_json(self, piece: bytes) -> bool:
        body = piece.lstrip(b"\xef\xbb\xbf \r\n\t")
        self._begun = bool(body)
        if body[:1] not in (b"{", b"["):
            return False
        self._whole = bytearray(body)
        return True


class StreamedAnswer(ABC):
    """Reads one answer: `feed` each piece of bytes, then `close`. A subclass knows the events of its format."""

    what: ClassVar[str]
    """What a stream is of, for errors: "a chat completion"."""
    question: ClassVar[str] = IS_BASE_URL_RIGHT
    """What to ask oneself where a server has sent no stream at all."""

    def __init__(self, peer: Peer) -> None:
        self._id = new_id()  # all chunks of a message have one id; giving it here spares a copy of each
        self._peer = peer
        self._body = StreamBody()
        self._events = 0
        """Those that were part of the answer."""
        self._done = False
        """Whether the last chunk was given out."""

    def feed(self, piece: bytes) -> list[AIMessageChunk]:
        """The chunks that `piece` completes."""
        chunks: list[AIMessageChunk] = []
        for name, data in self._body.feed(piece):
            if not self._done:
                self._take(name, data, chunks)
        return chunks

    def close(self) -> list[AIMessageChunk]:
        """What is left when the bytes have ended. Raises where the answer is not complete."""
        whole = self._body.whole
        if whole is not None:
            return [_as_chunk(self._parse(whole)[0])]
        chunks: list[AIMessageChunk] = []
        for name, data in self._body.close():
            if not self._done:
                try:
                    self._take(name, data, chunks)
                except InvalidResponseError:
                    break  # cut off in the middle of an event
        if self._done:
            return chunks
        if not self._events:
            raise no_stream(self._peer, self._body.beginning, self.what, question=self.question)
        if not self._end_early(chunks):
            raise cut_off(self._peer, self._events, self._so_far())
        return chunks

    @abstractmethod
    def _take(self, name: bytes, data: bytes, chunks: list[AIMessageChunk]) -> None:
        """Read one event; its chunks are added to `chunks`."""

    @abstractmethod
    def _parse(self, body: bytes) -> Sequence[AIMessage]:
        """The answers in a body that is no stream after all."""

    @abstractmethod
    def _so_far(self) -> str:
        """The words that have come."""

    def _end_early(self, chunks: list[AIMessageChunk]) -> bool:
        """End without the last event, where it is known how the answer ended; else False."""
        return False


def _as_chunk(message: AIMessage) -> AIMessageChunk:
    """A whole answer as the only chunk of a stream."""
    return AIMessageChunk(
        cast("str", message.content),
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        tool_calls=message.tool_calls,
        invalid_tool_calls=message.invalid_tool_calls,
        usage_metadata=message.usage_metadata,
        chunk_position="last",
    )
