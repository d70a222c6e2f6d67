"""A streamed answer of the Responses API: what is handed on when, and what becomes of streams that go wrong."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright import errors
from loopwright.messages import AIMessage, AIMessageChunk, merge_chunks, message_chunk_to_message
from loopwright.models.openai_responses.request import input_items
from loopwright.models.openai_responses.response import parse_response
from loopwright.models.openai_responses.stream import ResponsesStream
from loopwright.models.wire_errors import Peer
from tests.models.test_openai_responses_recordings import RECORDS, STREAMS

PEER = Peer("openai", "http://127.0.0.1/v1", secrets=["sk-secret-key"])


def event(kind: str, **fields: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), json.dumps({"type": kind, **fields}).encode())


def answer(*items: dict[str, Any], status: str = "completed", **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    return {"id": "resp_1", "model": "m-1", "status": status, "output": list(items), "usage": usage, **fields}


def text_item(text: str, **fields: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part], **fields}


def call_item(arguments: str = '{"a":1}', **fields: Any) -> dict[str, Any]:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": arguments}
    return {**call, "status": "completed", **fields}


CREATED = event("response.created", response=answer(status="in_progress", usage=None))


def added(item: dict[str, Any], place: int = 0) -> bytes:
    return event("response.output_item.added", output_index=place, item=item)


def done(item: dict[str, Any], place: int = 0) -> bytes:
    return event("response.output_item.done", output_index=place, item=item)


def delta(kind: str, text: str, place: int = 0, **fields: Any) -> bytes:
    return event(f"response.{kind}.delta", output_index=place, content_index=0, item_id="msg_1", delta=text, **fields)


def completed(*items: dict[str, Any], **fields: Any) -> bytes:
    return event("response.completed", response=answer(*items, **fields))


def read(*pieces: bytes) -> list[AIMessageChunk]:
    stream = ResponsesStream(PEER)
    return [chunk for piece in pieces for chunk in stream.feed(piece)] + stream.close()


def message(*pieces: bytes) -> AIMessage:
    made = message_chunk_to_message(merge_chunks(read(*pieces)))
    assert isinstance(made, AIMessage)
    return made


def same_as_whole(*pieces: bytes, whole: dict[str, Any]) -> AIMessage:
    """The sum of the pieces, which is what the answer in one piece is."""
    made = message(*pieces)
    [other] = parse_response(json.dumps(whole).encode(), PEER)
    assert made.model_copy(update={"id": other.id}) == other
    return made


# -- what is handed on, and when ------------------------------------------------------------------------------------


def test_every_piece_is_a_chunk_at_once():
    stream = ResponsesStream(PEER)
    assert stream.feed(CREATED) == []
    assert stream.feed(added({**text_item(""), "content": [], "status": "in_progress"})) == []
    assert [chunk.text for chunk in stream.feed(delta("output_text", "Hel"))] == ["Hel"]
    assert [chunk.text for chunk in stream.feed(delta("output_text", "lo"))] == ["lo"]
    assert stream.feed(done(text_item("Hello"))) == []
    [last] = stream.feed(completed(text_item("Hello")))
    assert (last.chunk_position, last.content, last.usage_metadata) == (
        "last",
        "",
        {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    )
    assert last.response_metadata["finish_reason"] == "stop"
    assert stream.close() == []


def test_a_call_says_at_once_what_is_called():
    stream = ResponsesStream(PEER)
    stream.feed(CREATED)
    [begun] = stream.feed(added(call_item("", status="in_progress")))
    assert begun.tool_call_chunks[0]["name"] == "f"
    [piece] = stream.feed(delta("function_call_arguments", '{"a"'))
    assert piece.tool_call_chunks[0]["args"] == '{"a"'


def test_what_pieces_did_not_say_comes_when_the_item_is_done():
    """Servers that send no pieces, half of them, or nothing but the last event."""
    item = text_item("Hello", phase="final_answer")
    for pieces in ([done(item)], [delta("output_text", "He"), done(item)], []):
        made = same_as_whole(CREATED, *pieces, completed(item), whole=answer(item))
        assert made.content == [{"type": "text", "text": "Hello", "id": "msg_1", "extras": {"phase": "final_answer"}}]
    call = call_item()
    for pieces in ([done(call)], [added(call_item("")), delta("function_call_arguments", '{"a'), done(call)], []):
        made = same_as_whole(CREATED, *pieces, completed(call), whole=answer(call))
        assert made.tool_calls == [{"name": "f", "args": {"a": 1}, "id": "call_1", "type": "tool_call"}]
        assert made.response_metadata["finish_reason"] == "tool_calls"


@pytest.mark.shows("openai-responses", "reasoning")
def test_reasoning_in_parts_and_its_seal():
    parts = [{"type": "summary_text", "text": text} for text in ("One.", "Two.")]
    item = {"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": "gAAAA"}
    pieces = [
        added({"type": "reasoning", "id": "rs_1", "summary": []}),
        delta("reasoning_summary_text", "One.", summary_index=0),
        delta("reasoning_summary_text", "Two.", summary_index=1),
        done(item),
    ]
    made = same_as_whole(CREATED, *pieces, completed(item), whole=answer(item))
    assert made.content == [
        {"type": "reasoning", "reasoning": "One.", "id": "rs_1", "extras": {"encrypted_content": "gAAAA"}},
        {"type": "reasoning", "reasoning": "Two.", "id": "rs_1"},
    ]


def test_reasoning_that_is_said_twice_is_shown_once():
    """At length and summed up: in a stream what came first counts, and the other is kept to go back."""
    item = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Short."}]}
    item["content"] = [{"type": "reasoning_text", "text": "At length."}]
    pieces = [added({**item, "summary": [], "content": []}), delta("reasoning_text", "At length.")]
    pieces += [delta("reasoning_summary_text", "Short.", summary_index=0), done(item), done(text_item("Hi"), 1)]
    made = message(CREATED, *pieces, completed(item, text_item("Hi")))
    assert "".join(block.get("reasoning", "") for block in made.content_blocks) == "At length."
    assert input_items([made], "openai")[0] == item
    [whole] = parse_response(json.dumps(answer(item)).encode(), PEER)
    assert whole.content_blocks[0]["reasoning"] == "Short."  # type: ignore[typeddict-item]


def test_free_text_for_a_tool_becomes_an_argument():
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "run", "input": 'a "b"\nc'}
    pieces = [added({**item, "input": ""}), *(delta("custom_tool_call_input", text) for text in ('a "', 'b"\nc'))]
    made = message(CREATED, *pieces, done(item), completed(item))
    assert made.tool_calls == [{"name": "run", "args": {"input": 'a "b"\nc'}, "id": "call_1", "type": "tool_call"}]
    assert made.invalid_tool_calls == []


def test_code_of_the_provider_is_seen_while_it_is_written():
    item: dict[str, Any] = {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "container_id": "c",
        "code": "1+1",
        "status": "completed",
    }
    item["outputs"] = [{"type": "logs", "logs": "2"}]
    begun = {**item, "code": "", "outputs": None, "status": "in_progress"}
    pieces = [added(begun), delta("code_interpreter_call_code", "1+"), delta("code_interpreter_call_code", "1")]
    chunks = read(CREATED, *pieces, done(item), completed(item))
    shown: list[Any] = [block for chunk in chunks for block in chunk.content]
    assert [block["args"] for block in shown if "args" in block] == [{}, {"code": "1+"}, {"code": "1"}]
    made = same_as_whole(CREATED, *pieces, done(item), completed(item), whole=answer(item))
    assert made.content_blocks[1] == {
        "type": "server_tool_result",
        "tool_call_id": "ci_1",
        "status": "success",
        "output": [{"type": "logs", "logs": "2"}],
    }


@pytest.mark.shows("openai-responses", "citations")
def test_citations_come_when_they_are_made():
    mark = {"type": "url_citation", "url": "https://a.test", "title": "A", "start_index": 0, "end_index": 2}
    later = {"type": "file_citation", "file_id": "file-1", "filename": "a.pdf", "index": 2}
    item = text_item("Hi")
    item["content"][0]["annotations"] = [mark, later]
    note = event("response.output_text.annotation.added", output_index=0, content_index=0, item_id="x", annotation=mark)
    pieces = [added({**item, "content": []}), delta("output_text", "Hi"), note]
    made = same_as_whole(CREATED, *pieces, done(item), completed(item), whole=answer(item))
    assert made.content_blocks[0]["annotations"] == [  # type: ignore[typeddict-item]
        {"type": "citation", "url": "https://a.test", "title": "A", "start_index": 0, "end_index": 2},
        {"type": "citation", "title": "a.pdf", "extras": {"type": "file_citation", "file_id": "file-1", "index": 2}},
    ]


def test_a_character_in_two_halves():
    halves = [
        rb'data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"\ud83d"}' + b"\n\n",
        rb'data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"\ude00"}' + b"\n\n",
    ]
    assert message(CREATED, *halves, completed()).text == "\U0001f600"


def test_a_whole_answer_in_place_of_a_stream():
    [chunk] = read(json.dumps(answer(text_item("Hello"), call_item())).encode())
    assert (chunk.text, chunk.chunk_position, chunk.tool_calls[0]["id"]) == ("Hello", "last", "call_1")


def test_log_probabilities():
    item = text_item("Hi")
    item["content"][0]["logprobs"] = [{"token": "Hi", "logprob": -0.1}]
    made = message(CREATED, delta("output_text", "Hi"), done(item), completed(item))
    assert made.response_metadata["logprobs"] == {"content": [{"token": "Hi", "logprob": -0.1}]}


# -- how it can end -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "word"), [("max_output_tokens", "length"), ("content_filter", "content_filter"), (None, "other")]
)
def test_incomplete(reason: str | None, word: str):
    details = {"reason": reason} if reason else None
    ending = event("response.incomplete", response=answer(status="incomplete", incomplete_details=details))
    made = message(CREATED, delta("output_text", "Hi"), ending)
    assert made.response_metadata["finish_reason"] == word
    assert made.response_metadata["raw_finish_reason"] == (reason or "incomplete")


def test_arguments_that_break_off_are_an_invalid_call():
    item = call_item('{"a": ', status="incomplete")
    ending = event(
        "response.incomplete",
        response=answer(item, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
    )
    made = message(CREATED, added(call_item("")), delta("function_call_arguments", '{"a": '), ending)
    assert made.tool_calls == []
    assert [(call["id"], call["args"]) for call in made.invalid_tool_calls] == [("call_1", '{"a": ')]


@pytest.mark.parametrize(
    "failing",
    [
        event("error", code="server_error", message="The server had an error"),
        event("error", error={"code": "server_error", "message": "The server had an error"}),
        event(
            "response.failed",
            response=answer(status="failed", error={"code": "server_error", "message": "The server had an error"}),
        ),
    ],
)
def test_an_error_inside_the_stream(failing: bytes):
    stream = ResponsesStream(PEER)
    assert len(stream.feed(CREATED + delta("output_text", "Hi"))) == 1
    with pytest.raises(errors.StreamError, match="The server had an error") as caught:
        stream.feed(failing)
    assert caught.value.code == "server_error"


def test_a_failure_without_a_reason():
    with pytest.raises(errors.StreamError, match="without a reason"):
        read(CREATED, event("response.failed", response=answer(status="failed")))


@pytest.mark.parametrize("end", [b"", b"data: [DONE]\n\n", b'event: response.completed\ndata: {"type":"respo'])
def test_a_stream_without_an_end(end: bytes):
    with pytest.raises(errors.ModelConnectionError, match="ended before the answer did, after 2 events and 'Hello'"):
        read(CREATED, delta("output_text", "Hello"), end)


def test_no_stream_at_all():
    with pytest.raises(errors.InvalidResponseError, match=r"no stream of a response: <html>.*Is base_url right"):
        read(b"<html>sk-secret-key</html>")
    with pytest.raises(errors.InvalidResponseError, match=r"no stream of a response: \(nothing\)"):
        read(b"")
    with pytest.raises(errors.InvalidResponseError, match="an event that is no part of a response: 'nonsense'"):
        read(CREATED, b"data: nonsense\n\n")


def test_no_key_in_an_error():
    with pytest.raises(errors.StreamError) as caught:
        read(CREATED, event("error", message="bad key sk-secret-key"))
    assert "sk-secret" not in str(caught.value) + str(caught.value.body)


# -- recorded streams that go wrong ---------------------------------------------------------------------------------


@pytest.mark.shows("openai-responses", "cut mid-stream")
@pytest.mark.skipif(not STREAMS, reason="the recorded exchanges are not there")
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_recorded_stream_that_is_cut_off_is_an_error(data: st.DataObject):
    """Anywhere before the event that ends it. Never half an answer."""
    body = RECORDS[data.draw(st.sampled_from(STREAMS))]["response"]["body"].encode()
    end = max(body.rfind(b'"type":"response.completed"'), body.rfind(b'"type":"response.incomplete"'))
    end = end if end > 0 else max(body.rfind(b"event: response.completed"), body.rfind(b"event: response.incomplete"))
    cut = data.draw(st.integers(0, end))
    with pytest.raises((errors.ModelConnectionError, errors.InvalidResponseError)):
        read(body[:cut])


@pytest.mark.skipif(not STREAMS, reason="the recorded exchanges are not there")
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_an_error_event_in_a_recorded_stream_is_an_error(data: st.DataObject):
    body = RECORDS[data.draw(st.sampled_from(STREAMS))]["response"]["body"].replace("\r\n", "\n").encode()
    events = body.split(b"\n\n")
    end = next(at for at, one in enumerate(events) if b"response.completed" in one or b"response.incomplete" in one)
    place = data.draw(st.integers(0, end))
    events.insert(place, event("error", code="server_error", message="It broke").rstrip())
    with pytest.raises(errors.StreamError, match="It broke"):
        read(b"\n\n".join(events))


@pytest.mark.skipif(not STREAMS, reason="the recorded exchanges are not there")
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_arguments_cut_short_in_a_recorded_stream_are_invalid(data: st.DataObject):
    """The last brace of every call's arguments is lost, in pieces and wholes alike."""
    names = [name for name in STREAMS if RECORDS[name]["oracle"]["tool_calls"]]
    body = RECORDS[data.draw(st.sampled_from(names))]["response"]["body"].replace("\r\n", "\n")
    kept: list[bytes] = []
    for one in body.split("\n\n"):
        name, _, text = one.rpartition("data:")
        found = json.loads(text) if text.strip().startswith("{") else {}
        if found.get("type") == "response.function_call_arguments.delta" and found["delta"].endswith("}"):
            found["delta"] = found["delta"].rstrip("}")
        for item in [found.get("item"), *(found.get("response") or {}).get("output", ())]:
            if item and item["type"] == "function_call" and item["arguments"]:
                item["arguments"] = item["arguments"].rstrip("}")
        kept.append(f"{name}data: {json.dumps(found)}\n\n".encode() if found else one.encode() + b"\n\n")
    made = message(*kept)
    assert made.tool_calls == []
    assert made.invalid_tool_calls


JUNK = st.sampled_from([None, 5, "x", [], {}, [1], {"a": 1}, True])


@pytest.mark.skipif(not STREAMS, reason="the recorded exchanges are not there")
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_recorded_stream_with_a_wrong_value_is_read_or_refused(data: st.DataObject):
    """Any value of any event may be another. What comes of it is a message or a `ModelError`."""
    body = RECORDS[data.draw(st.sampled_from(STREAMS))]["response"]["body"].replace("\r\n", "\n")
    events = body.split("\n\n")
    at = data.draw(st.integers(0, len(events) - 1))
    name, _, text = events[at].rpartition("data:")
    if text.strip().startswith("{"):
        found = json.loads(text)
        inner = found
        while True:
            key = data.draw(st.sampled_from(sorted(inner)))
            if not isinstance(inner[key], dict) or not inner[key] or data.draw(st.booleans()):
                break
            inner = inner[key]
        inner[key] = data.draw(JUNK)
        events[at] = f"{name}data: {json.dumps(found)}"
    with contextlib.suppress(errors.ModelError):
        message("\n\n".join(events).encode())
