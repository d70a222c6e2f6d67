"""The pieces of one streamed answer: given out as they come, put together at the end.

Rules: all pieces of an answer have one id, the first piece's own if it has one; what a model yields is copied before
it is given an id; the last piece says so (`chunk_position="last"`), in an empty piece of its own if need be; merging
happens once. The function that takes a piece is a closure over a handful of names, because it runs for every token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from msgspec.structs import replace

from loopwright.errors import InvalidResponseError
from loopwright.messages import AIMessage, AIMessageChunk, merge_chunks, message_chunk_to_message
from loopwright.models.outputs import ChatGenerationChunk
from loopwright.models.protocol import chunk_of

__all__ = ["assembling"]


def assembling(
    new_id: Callable[[], str], on_chunk: Callable[[AIMessageChunk], object] | None
) -> tuple[Callable[[Any], AIMessageChunk], Callable[[], AIMessage]]:
    """Two functions: take a piece (and give it to `on_chunk`), and make the whole message.

    The second raises `InvalidResponseError` if there was no piece.
    """
    pieces: list[AIMessageChunk] = []
    add = pieces.append
    message_id: str | None = None

    def take(item: Any) -> AIMessageChunk:
        nonlocal message_id
        kind = item.__class__
        piece: AIMessageChunk
        if kind is AIMessageChunk:
            piece = item
        elif kind is ChatGenerationChunk and item.generation_info is None and item.message.__class__ is AIMessageChunk:
            piece = item.message
        else:
            piece = chunk_of(item)
        own_id = piece.id
        if own_id is None or own_id != message_id:
            if message_id is None:
                message_id = own_id or new_id()
            if own_id != message_id:
                piece = replace(piece, id=message_id)
        add(piece)
        if on_chunk is not None:
            on_chunk(piece)
        return piece

    def finish() -> AIMessage:
        if not pieces:
            raise InvalidResponseError("the model's stream ended before it had begun", retryable=True)
        if pieces[-1].chunk_position != "last":
            take(AIMessageChunk(id=message_id, chunk_position="last"))
        return cast(AIMessage, message_chunk_to_message(merge_chunks(pieces)))

    return take, finish
