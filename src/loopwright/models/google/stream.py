"""Stream in: bytes of an answer that comes in pieces become message chunks.

Rules:

- bytes go in, chunks come out; a cut anywhere changes nothing but when a chunk comes;
- server-sent events, a JSON array that grows, and one JSON object are told apart by their first byte;
- every piece of text, thought or call is a chunk at once (`answer.py`); the last chunk comes when the bytes have ended,
  because usage and citations may come after the reason for ending;
- of several candidates the first counts;
- an error inside the stream raises `StreamError`; a stream that ends without a finish reason raises
  `ModelConnectionError`: what came is not the answer.
"""

from __future__ import annotations

from loopwright.errors import InvalidResponseError
from loopwright.ids import new_id
from loopwright.messages import AIMessageChunk
from loopwright.models.google.answer import Gathered
from loopwright.models.google.array import ArrayDecoder
from loopwright.models.google.response import no_answer_of_ours, raw_part, read_event
from loopwright.models.google.wire import Candidate, Event
from loopwright.models.sse import SseDecoder
from loopwright.models.wire_errors import Peer, cut_off, error_in_stream, no_event
from loopwright.models.wire_json import loads

__all__ = ["GoogleStream"]


class GoogleStream:
    """Reads one streamed answer: `feed` each piece of bytes, then `close`."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._sse = SseDecoder()
        self._array: ArrayDecoder | None = None
        self._begun = False  # something other than white space has come
        self._head = b""  # the beginning, to show when it was no stream
        self._events = 0
        self._gathered = Gathered(peer.who, new_id())

    # -- bytes ------------------------------------------------------------------------------------------------------

    def feed(self, piece: bytes) -> list[AIMessageChunk]:
        """The chunks that `piece` completes."""
        if not self._begun:
            self._begin(piece)
        array = self._array
        chunks: list[AIMessageChunk] = []
        for name, data in self._sse.feed(piece) if array is None else ((b"", data) for data in array.feed(piece)):
            self._take(name, data, chunks)
        return chunks

    def close(self) -> list[AIMessageChunk]:
        """What is left when the bytes have ended. Raises where the answer is not complete."""
        chunks: list[AIMessageChunk] = []
        is_cut = self._array is not None and self._array.is_inside
        for name, data in self._sse.close() if self._array is None else ():
            try:
                self._take(name, data, chunks)
            except InvalidResponseError:
                is_cut = True  # in the middle of an event
        if not self._events and not is_cut and not self._head.lstrip().startswith(b"data:"):
            raise no_answer_of_ours(self._peer, self._head, 200)
        if is_cut or not self._gathered.is_finished:
            raise cut_off(self._peer, self._events, self._gathered.words)
        return chunks + self._gathered.end()

    def _begin(self, piece: bytes) -> None:
        """Look at the first bytes: no line of an event stream begins with a bracket or a brace."""
        self._head = (self._head + piece)[:4000]
        body = self._head.lstrip(b"\xef\xbb\xbf \r\n\t")
        if body:
            self._begun = True
            if body[:1] in (b"[", b"{"):
                self._array = ArrayDecoder()

    # -- one event --------------------------------------------------------------------------------------------------

    def _take(self, name: bytes, data: bytes, chunks: list[AIMessageChunk]) -> None:
        try:
            event = read_event(data)
        except ValueError:
            if data.strip() in (b"", b"[DONE]"):  # some gateways end as OpenAI does
                return
            if not self._events:
                raise no_answer_of_ours(self._peer, data, 200) from None
            raise no_event(self._peer, data, "an answer of generateContent") from None
        if event.error or name == b"error":
            raise error_in_stream(self._peer, loads(data))
        if not event.is_answer() and not self._events:
            raise no_answer_of_ours(self._peer, data, 200)
        self._events += 1
        number, candidate = _first(event)
        chunks += self._gathered.take(event, candidate, lambda part: raw_part(data, number, part))


def _first(event: Event) -> tuple[int, Candidate | None]:
    """The first candidate, wherever it stands in the list, and its place there."""
    for number, candidate in enumerate(event.candidates or ()):
        if not candidate.index:
            return number, candidate
    return 0, None
