from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loopwright.models.sse import SseDecoder


def decode(*pieces: bytes) -> list[tuple[bytes, bytes]]:
    decoder = SseDecoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.close()


def test_one_event():
    assert decode(b"data: one\n\n") == [(b"", b"one")]


def test_names_and_several_data_lines():
    body = b"event: error\ndata: a\ndata:b\ndata:  c\nid: 7\nretry: 5\n\n"
    assert decode(body) == [(b"error", b"a\nb\n c")]


def test_comments_and_unknown_fields_are_no_events():
    assert decode(b": keep-alive\n\n:\n\nfoo: bar\n\ndata: x\n\n") == [(b"", b"x")]


def test_an_event_without_data_is_none():
    assert decode(b"event: ping\n\ndata: x\n\n") == [(b"", b"x")]


def test_a_data_field_may_be_empty():
    assert decode(b"data\n\ndata:\n\n") == [(b"", b""), (b"", b"")]


def test_all_three_line_ends():
    for end in (b"\n", b"\r\n", b"\r"):
        body = end.join([b"data: a", b"data: b", b"", b": c", b"", b"data: d", b"", b""])
        assert decode(body) == [(b"", b"a\nb"), (b"", b"d")]


def test_no_other_line_ends():
    """U+2028, U+2029, U+0085 and form feeds may stand in JSON as they are."""
    data = '{"a": "\u2028\u2029\u0085\x0c\x0b\x1c"}'.encode()
    assert decode(b"data: " + data + b"\n\n") == [(b"", data)]


def test_a_byte_order_mark_is_dropped_also_in_pieces():
    body = b"\xef\xbb\xbfdata: x\n\n"
    assert decode(body) == decode(*(body[i : i + 1] for i in range(len(body)))) == [(b"", b"x")]


def test_an_event_comes_with_its_blank_line_and_not_later():
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\r\n\r") == [(b"", b"a")]
    assert decoder.feed(b"\ndata: b\n") == []
    assert decoder.feed(b"\n") == [(b"", b"b")]


def test_the_last_event_may_lack_its_blank_line():
    assert decode(b"data: a\n\ndata: b") == [(b"", b"a"), (b"", b"b")]
    assert decode(b"data: a\n\ndata: b\n") == [(b"", b"a"), (b"", b"b")]
    assert decode(b"\xef\xbb") == []


def test_nothing_is_nothing():
    assert decode() == decode(b"") == decode(b"\n\n\n") == []


def test_a_long_event_in_many_pieces_is_not_looked_through_again_and_again():
    """A picture may be one event of megabytes: what was seen is not searched twice."""
    decoder = SseDecoder()
    for _ in range(20_000):
        assert decoder.feed(b"data: x" + b"y" * 93) == []
    assert len(decoder.feed(b"\n\n")) == 1


lines = st.sampled_from(
    [b"data: a", b"data:b", "data: \u00e9\u2028😀".encode(), b"event: x", b": c", b"", b"", b"other", b"data"]
)


@given(st.lists(lines), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.data())
def test_cutting_changes_nothing(parts: list[bytes], end: bytes, data: st.DataObject):
    body = end.join([*parts, b"", b""])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)))))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert decode(*pieces) == decode(body) == decode(*(body[i : i + 1] for i in range(len(body))))
