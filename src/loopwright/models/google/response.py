"""Response in: the JSON of a whole answer becomes a message.

It is read as a stream of one event (`answer.py`); what is particular here is what the body may be instead of an answer.
A prompt that was blocked, and a candidate without content or parts, are answers: empty ones, whose `finish_reason` says
why.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from loopwright.errors import InvalidResponseError
from loopwright.messages import AIMessage, merge_chunks, message_chunk_to_message
from loopwright.models.google.answer import Gathered
from loopwright.models.google.wire import Event
from loopwright.models.wire_errors import Peer, error_in_answer, no_answer
from loopwright.models.wire_json import dumps, loads

__all__ = ["no_answer_of_ours", "parse_response", "raw_part", "read_event"]

_decode = msgspec.json.Decoder(Event).decode


def parse_response(body: bytes, peer: Peer, status: int = 200) -> list[AIMessage]:
    """One message for each candidate, first candidate first.

    Raises the provider's own error where the body holds one, and `InvalidResponseError` where it is no answer.
    """
    try:
        event = read_event(body)
    except ValueError:
        raise no_answer_of_ours(peer, body, status) from None
    if event.error:
        value: Any = loads(body)
        error = error_in_answer(peer, value[0] if isinstance(value, list) else value, status)
        if error is not None:
            raise error
    if not event.is_answer():
        raise no_answer_of_ours(peer, body, status)
    return [_message(event, number, body, peer) for number in range(len(event.candidates or ()) or 1)]


def _message(event: Event, number: int, body: bytes, peer: Peer) -> AIMessage:
    candidate = event.candidates[number] if event.candidates else None
    gathered = Gathered(peer.who, None)
    chunks = gathered.take(event, candidate, lambda part: raw_part(body, number, part))
    return cast("AIMessage", message_chunk_to_message(merge_chunks([*chunks, *gathered.end()])))


def read_event(data: bytes) -> Event:
    """An event from its JSON, also where that has broken characters. Raises `ValueError` where it is none."""
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value = loads(data)
    if isinstance(value, list) and value:  # Google wraps an error in a list
        value = cast("list[Any]", value)[0]
    try:
        return _decode(dumps(value))
    except msgspec.MsgspecError as exc:
        raise ValueError(str(exc)) from None


def raw_part(data: bytes, candidate: int, part: int) -> Any:
    """A part as it was sent, with all that `Part` does not know; None if it is empty."""
    value = loads(data)
    if isinstance(value, list):
        value = cast("list[Any]", value)[0]
    return value["candidates"][candidate]["content"]["parts"][part] or None


def no_answer_of_ours(peer: Peer, body: bytes, status: int) -> InvalidResponseError:
    """The error for a body that belongs to another API, or to none."""
    return no_answer(peer, body[:4000], "what is no answer of generateContent", status=status)
