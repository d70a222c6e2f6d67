"""A body that was asked for as a stream, and may be JSON."""

from __future__ import annotations

import pytest

from loopwright.models.streamed import StreamBody


def fed(*pieces: bytes) -> tuple[StreamBody, list[tuple[bytes, bytes]]]:
    body = StreamBody()
    return body, [event for piece in pieces for event in body.feed(piece)]


def test_events():
    body, events = fed(b"\r\n", b"event: a\nda", b"ta: 1\n\ndata: {", b"}\n\ndata: 3")
    assert (events, body.whole) == ([(b"a", b"1"), (b"", b"{}")], None)
    assert body.close() == [(b"", b"3")]


@pytest.mark.parametrize("pieces", [(b'{"a": ', b"1}"), (b"\n ", b'{"a": 1}'), (b'\xef\xbb\xbf{"a": 1}',)])
def test_json(pieces: tuple[bytes, ...]):
    body, events = fed(*pieces)
    assert (events, body.whole) == ([], b'{"a": 1}')


def test_the_beginning_is_kept():
    body, _ = fed(b"<html>\n", b"<body>no", b" such page" * 100)
    assert body.beginning.startswith("<html> <body>no such page")
    assert len(body.beginning) <= 400
