"""Streams of Anthropic's format, piece by piece: what the recordings do not show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright import errors
from loopwright.messages import AIMessage, AIMessageChunk, HumanMessage, merge_chunks, message_chunk_to_message
from loopwright.models.anthropic.request import wire_messages
from loopwright.models.anthropic.response import parse_response
from loopwright.models.anthropic.stream import MessageStream
from loopwright.models.wire_errors import Peer

PEER = Peer("anthropic", "https://api.anthropic.com")


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def start(index: int, kind: str, **fields: Any) -> bytes:
    return event("content_block_start", index=index, content_block={"type": kind, **fields})


def delta(index: int, kind: str, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **fields})


def stop(index: int) -> bytes:
    return event("content_block_stop", index=index)


BEGIN = event("message_start", message={"id": "msg_1", "model": "claude-x", "usage": {"input_tokens": 3}})
END = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}) + event("message_stop")


def read(*pieces: bytes) -> list[AIMessageChunk]:
    stream = MessageStream(PEER)
    return [chunk for piece in pieces for chunk in stream.feed(piece)] + stream.close()


def whole(*pieces: bytes) -> AIMessage:
    message = message_chunk_to_message(merge_chunks(read(BEGIN, *pieces, END)))
    assert isinstance(message, AIMessage)
    return message


def in_one_piece(*blocks: dict[str, Any]) -> AIMessage:
    answer = {
        "id": "msg_1",
        "model": "claude-x",
        "content": blocks,
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    return parse_response(json.dumps(answer).encode(), PEER)[0]


def same(streamed: AIMessage, plain: AIMessage) -> None:
    assert plain == streamed.model_copy(update={"id": plain.id})


def test_words_are_strings_and_there_at_once():
    stream = MessageStream(PEER)
    assert stream.feed(BEGIN + start(0, "text", text="")) == []
    [chunk] = stream.feed(delta(0, "text_delta", text="Hel"))
    assert chunk.content == "Hel"
    [chunk] = stream.feed(delta(0, "text_delta", text="lo"))
    assert chunk.content == "lo"
    assert stream.feed(stop(0)) == []
    [last] = stream.feed(END)
    assert last.chunk_position == "last"
    assert last.usage_metadata == {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    assert stream.close() == []


def test_a_text_and_a_call_after_it():
    pieces = [
        start(0, "text", text=""),
        delta(0, "text_delta", text="I look."),
        stop(0),
        start(1, "tool_use", id="toolu_1", name="f", input={}),
        delta(1, "input_json_delta", partial_json=""),
        delta(1, "input_json_delta", partial_json='{"a":'),
        delta(1, "input_json_delta", partial_json="1}"),
        stop(1),
    ]
    message = whole(*pieces)
    assert message.content == "I look."
    assert message.tool_calls == [{"name": "f", "args": {"a": 1}, "id": "toolu_1", "type": "tool_call"}]
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}
    same(message, in_one_piece({"type": "text", "text": "I look."}, call))
    fragments = [chunk.tool_call_chunks[0]["args"] for chunk in read(BEGIN, *pieces, END) if chunk.tool_call_chunks]
    assert fragments == ["", '{"a":', "1}"]


def test_a_call_keeps_its_place_before_words():
    """And what has called it (a program that Claude wrote)."""
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, "caller": caller}
    message = whole(
        start(0, "tool_use", id="toolu_1", name="f", input={}, caller=caller),
        start(1, "text", text=""),
        delta(1, "text_delta", text="Done."),
    )
    assert message.content == [
        {"type": "tool_use", "id": "toolu_1", "name": "f"},
        {"type": "text", "text": "Done."},
    ]
    assert message.tool_calls[0] == {"name": "f", "args": {}, "id": "toolu_1", "type": "tool_call", "caller": caller}
    same(message, in_one_piece(call, {"type": "text", "text": "Done."}))


@pytest.mark.shows("anthropic", "reasoning")
def test_thoughts_with_and_without_words():
    message = whole(
        start(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Let"),
        delta(0, "thinking_delta", thinking=" me"),
        delta(0, "signature_delta", signature="abc"),
        start(1, "thinking", thinking="", signature=""),
        delta(1, "signature_delta", signature="def"),
        start(2, "redacted_thinking", data="sealed"),
        start(3, "thinking", thinking="", signature=""),
        start(4, "text", text=""),
        delta(4, "text_delta", text="4"),
    )
    thoughts = [
        {"type": "thinking", "thinking": "Let me", "signature": "abc"},
        {"type": "thinking", "thinking": "", "signature": "def"},
        {"type": "redacted_thinking", "data": "sealed"},
    ]
    assert message.content == [*thoughts, {"type": "text", "text": "4"}]
    empty = {"type": "thinking", "thinking": "", "signature": ""}
    same(message, in_one_piece(*thoughts, empty, {"type": "text", "text": "4"}))


@pytest.mark.shows("anthropic", "citations")
def test_citations_join_the_text_they_stand_behind():
    marks = [{"type": "char_location", "cited_text": word, "start_char_index": 0} for word in ("a", "b")]
    message = whole(
        start(0, "text", text="", citations=[]),
        delta(0, "text_delta", text="said"),
        *(delta(0, "citations_delta", citation=mark) for mark in marks),
        start(1, "text", text=""),
        delta(1, "text_delta", text=" so"),
    )
    blocks = [{"type": "text", "text": "said", "citations": marks}, {"type": "text", "text": " so"}]
    assert message.content == blocks
    same(message, in_one_piece(*blocks))
    assert message.text == "said so"
    [cited, _] = message.content_blocks
    annotation = {"type": "citation", "cited_text": "a", "extras": {"start_char_index": 0}}
    assert cited.get("annotations", [])[0] == annotation


def test_a_tool_that_the_provider_runs_is_shown_when_it_begins():
    pieces = [
        start(0, "server_tool_use", id="srvtoolu_1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query": "x"}'),
        stop(0),
        start(1, "web_search_tool_result", tool_use_id="srvtoolu_1", content=[{"url": "u"}]),
        stop(1),
    ]
    first = read(BEGIN, *pieces, END)[0].content
    assert first == [{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}, "index": 0}]
    message = whole(*pieces)
    assert message.tool_calls == []
    called, found = message.content_blocks
    assert called == {"type": "server_tool_call", "id": "srvtoolu_1", "name": "web_search", "args": {"query": "x"}}
    assert (found.get("type"), found.get("output")) == ("server_tool_result", [{"url": "u"}])


def test_a_server_that_sends_the_input_with_the_beginning():
    message = whole(start(0, "tool_use", id="t1", name="f", input={"a": 1}), stop(0))
    assert message.tool_calls[0]["args"] == {"a": 1}


def test_an_input_that_is_no_json_is_kept_as_text():
    """A tool that the provider runs, cut off by the limit of tokens."""
    message = whole(
        start(0, "server_tool_use", id="srvtoolu_1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query": "x'),
    )
    [block] = message.content
    assert isinstance(block, dict)
    assert block["input"] == '{"query": "x'
    _, turns = wire_messages([HumanMessage("hi"), message, HumanMessage("go on")])
    assert [turn["role"] for turn in turns] == ["user"]


def test_blocks_that_nobody_began():
    message = whole(delta(0, "thinking_delta", thinking="hm"), delta(1, "text_delta", text="hi"))
    assert message.content == [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hi"}]


def test_kinds_that_nobody_knows_yet():
    """A new block is kept with what its pieces said, a new event passes by."""
    message = whole(
        event("weather"),
        start(0, "compaction", content=None),
        delta(0, "compaction_delta", content="so far"),
        start(1, "text", text="", citations=None),
        delta(1, "text_delta", text="hi"),
    )
    assert message.content == [{"type": "compaction", "content": "so far"}, {"type": "text", "text": "hi"}]


def test_the_last_numbers_count_and_others_stay():
    begin = event(
        "message_start",
        message={"id": "m", "model": "x", "usage": {"input_tokens": 9, "cache_read_input_tokens": 4}},
    )
    end = event("message_delta", delta={"stop_reason": "max_tokens"}, usage={"output_tokens": 7, "input_tokens": 10})
    last = read(begin, end)[-1]
    assert last.usage_metadata == {
        "input_tokens": 14,
        "output_tokens": 7,
        "total_tokens": 21,
        "input_token_details": {"cache_read": 4},
    }
    assert last.response_metadata["finish_reason"] == "length"
    assert last.response_metadata["raw_finish_reason"] == "max_tokens"


def test_an_event_without_its_type_goes_by_its_name():
    line = b'event: content_block_delta\ndata: {"index": 0, "delta": {"type": "text_delta", "text": "hi"}}\n\n'
    assert whole(line).content == "hi"


def test_openais_word_at_the_end():
    chunks = read(BEGIN, delta(0, "text_delta", text="hi"), END, b"data: [DONE]\n\n")
    assert [chunk.content for chunk in chunks] == ["hi", ""]
    with pytest.raises(errors.ModelConnectionError, match="before the answer did, after 2 events and 'hi'"):
        read(BEGIN, delta(0, "text_delta", text="hi"), b"data: [DONE]\n\n")


def test_halves_of_a_character():
    message = whole(delta(0, "text_delta", text="a\ud83d"), delta(0, "text_delta", text="\ude00b"))
    assert message.content == "a😀b"
    assert whole(delta(0, "text_delta", text="a\ud83d")).content == "a\ufffd"


def test_a_json_answer_to_a_request_for_a_stream():
    body = {"type": "message", "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"}
    text = json.dumps(body).encode()
    [chunk] = read(b"\n", text[:9], text[9:])
    assert (chunk.content, chunk.chunk_position) == ("hi", "last")
    with pytest.raises(errors.BadRequestError, match="no"):
        read(b'{"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}')


@pytest.mark.parametrize(
    "data",
    [b"data: 7\n\n", b"data: {\n\n", b'data: {"type": "content_block_start", "index": 0, "content_block": 3}\n\n'],
)
def test_what_is_no_event(data: bytes):
    with pytest.raises(errors.InvalidResponseError, match="no part of a streamed message"):
        read(BEGIN, data)


def test_errors_that_are_told_in_other_ways():
    for line in (b'data: {"error": {"message": "broken"}}\n\n', b"event: error\ndata: {}\n\n"):
        with pytest.raises(errors.StreamError):
            read(BEGIN, line)
