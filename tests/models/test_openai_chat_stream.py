from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright import errors
from loopwright.messages import AIMessage, AIMessageChunk, merge_chunks, message_chunk_to_message
from loopwright.models.openai_chat.response import parse_response
from loopwright.models.openai_chat.stream import ChatStream
from loopwright.models.wire_errors import Peer
from tests.models.loopback import chat_answer, chat_event, chat_stream

PEER = Peer("acme", "https://api.acme.test/v1")
DONE = b"data: [DONE]\n\n"


def read(*pieces: bytes) -> list[AIMessageChunk]:
    stream = ChatStream(PEER)
    chunks = [chunk for piece in pieces for chunk in stream.feed(piece)] + stream.close()
    assert [chunk.chunk_position for chunk in chunks] == [None] * (len(chunks) - 1) + ["last"]
    assert len({chunk.id for chunk in chunks}) == 1
    return chunks


def whole(*pieces: bytes) -> AIMessage:
    message = message_chunk_to_message(merge_chunks(read(*pieces)))
    assert isinstance(message, AIMessage)
    return message


def tool(index: Any = 0, call_id: Any = None, name: Any = None, arguments: Any = None, **more: Any) -> dict[str, Any]:
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}, **more}


def calls(*deltas: list[dict[str, Any]]) -> AIMessage:
    return whole(*(chat_event(tool_calls=delta) for delta in deltas), chat_event(finish="tool_calls"), DONE)


# -- text -----------------------------------------------------------------------------------------------------------


def test_words():
    chunks = read(*chat_stream("Hello", " wor", "ld"))
    assert [chunk.content for chunk in chunks] == ["Hello", " wor", "ld", ""]
    last = chunks[-1]
    assert last.usage_metadata == {"input_tokens": 3, "output_tokens": 3, "total_tokens": 6}
    assert last.response_metadata == {
        "finish_reason": "stop",
        "raw_finish_reason": "stop",
        "token_usage": {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6},
        "model_name": "m-1",
        "id": "chatcmpl-1",
        "provider": "acme",
    }
    assert all(chunk.response_metadata == {} and chunk.usage_metadata is None for chunk in chunks[:-1])


def test_a_chunk_comes_with_its_event_and_the_last_with_the_end():
    stream = ChatStream(PEER)
    assert [chunk.content for chunk in stream.feed(chat_event(content="a"))] == ["a"]
    assert stream.feed(chat_event(finish="stop")) == []
    assert [chunk.chunk_position for chunk in stream.feed(DONE)] == ["last"]
    assert stream.feed(chat_event(content="after the end")) == []
    assert stream.close() == []


def test_usage_in_any_place():
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    wanted = {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
    word, end = chat_event(content="a"), chat_event(finish="stop")
    for events in (
        [word, end, chat_event(usage=usage)],
        [word, chat_event(finish="stop", usage=usage)],
        [word, chat_event(finish="stop", usage=usage), chat_event(content="", usage=None)],
        [chat_event(content="a", usage={"prompt_tokens": 3, "completion_tokens": 0}), end, chat_event(usage=usage)],
        [word, end, b'data: {"x_groq": {"usage": ' + json.dumps(usage).encode() + b"}}\n\n"],
    ):
        assert whole(*events, DONE).usage_metadata == wanted
        assert whole(*events).usage_metadata == wanted
    assert whole(word, end, DONE).usage_metadata is None


def test_the_first_model_and_id_that_are_not_empty_count():
    events = [
        b'data: {"id": "", "model": "", "choices": []}\n\n',
        b'data: {"id": "1", "model": "", "choices": [{"delta": {"content": "a"}}]}\n\n',
        b'data: {"id": "2", "model": "m", "choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n',
    ]
    metadata = whole(*events).response_metadata
    assert (metadata["id"], metadata["model_name"]) == ("1", "m")


def test_only_the_first_choice():
    def event(index: int, text: str) -> bytes:
        choice = {"index": index, "delta": {"content": text}, "finish_reason": None}
        return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"

    both = b'data: {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "b"}}]}\n\n'
    assert whole(event(0, "a"), event(1, "no"), both, DONE).text == "ab"


def test_odd_deltas_add_nothing():
    events = [
        b'data: {"choices": [{"index": 0, "delta": null}]}\n\n',
        b'data: {"choices": [{"index": 0}]}\n\n',
        b'data: {"choices": null}\n\n',
        b"data:\n\n",
        b": ping\n\n",
        chat_event(content=None, tool_calls=[], reasoning_content="", refusal=None, function_call=None),
        chat_event(content={"odd": 1}, tool_calls={"odd": 1}, refusal=7, audio=1, images=1, annotations=1),
        chat_event(content="a"),
    ]
    assert [chunk.content for chunk in read(*events, DONE)] == ["a", ""]


def test_a_server_that_sends_the_message_in_place_of_a_delta():
    event = b'data: {"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}]}\n\n'
    assert whole(event).text == "a"


def test_log_probabilities_are_gathered():
    def event(token: str) -> bytes:
        choice = {"delta": {"content": token}, "logprobs": {"content": [{"token": token}], "refusal": None}}
        return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"

    metadata = whole(event("a"), event("b"), DONE).response_metadata
    assert metadata["logprobs"] == {"content": [{"token": "a"}, {"token": "b"}]}


def test_half_a_character_waits_for_its_other_half():
    """Gateways written in JavaScript cut between the halves of a surrogate pair."""
    events = [
        b'data: {"choices": [{"delta": {"content": "a\\ud83d"}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": "\\ude00b"}}]}\n\n',
    ]
    assert [chunk.content for chunk in read(*events, DONE)] == ["a", "😀b", ""]
    only_half = b'data: {"choices": [{"delta": {"content": "\\ud83d"}}]}\n\n'
    assert whole(only_half, DONE).text == "\ufffd"
    assert whole(b'data: {"choices": [{"delta": {"content": "\\ude00"}}]}\n\n', DONE).text == "\ufffd"


# -- reasoning and other blocks -------------------------------------------------------------------------------------


def test_reasoning_then_text():
    events = [
        chat_event(reasoning_content="2 and"),
        chat_event(reasoning_content=" 2"),
        chat_event(content="It is"),
        chat_event(content=" 4"),
    ]
    assert [chunk.content for chunk in read(*events, DONE)] == [
        [{"type": "reasoning", "reasoning": "2 and", "index": 0}],
        [{"type": "reasoning", "reasoning": " 2", "index": 0}],
        [{"type": "text", "text": "It is", "index": 1}],
        [{"type": "text", "text": " 4", "index": 1}],
        "",
    ]
    message = whole(*events, DONE)
    assert message.content == [{"type": "reasoning", "reasoning": "2 and 2"}, {"type": "text", "text": "It is 4"}]


def test_thoughts_between_words():
    kinds = [("content", "a"), ("reasoning", "b"), ("content", "c"), ("reasoning", "d")]
    message = whole(*(chat_event(**{kind: text}) for kind, text in kinds), DONE)
    blocks: list[Any] = list(message.content_blocks)
    assert [(block["type"], block.get("text") or block.get("reasoning")) for block in blocks] == [
        ("text", "a"),
        ("reasoning", "b"),
        ("text", "c"),
        ("reasoning", "d"),
    ]


def test_reasoning_that_is_said_twice_counts_once_and_its_signature_is_put_together():
    def detail(**fields: Any) -> list[Any]:
        return [{"type": "reasoning.text", "index": 0, "format": "f", **fields}, "odd"]

    events = [
        chat_event(reasoning="2 ", reasoning_details=detail(text="2 ", signature=None)),
        chat_event(reasoning="and 2", reasoning_details=detail(text="and 2")),
        chat_event(reasoning_details=detail(signature="si")),
        chat_event(reasoning_details=detail(signature="g")),
        chat_event(reasoning_details=[{"type": "reasoning.encrypted", "data": "xyz"}]),
        chat_event(content="4"),
    ]
    message = whole(*events, DONE)
    assert message.content == [{"type": "reasoning", "reasoning": "2 and 2"}, {"type": "text", "text": "4"}]
    assert message.additional_kwargs["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "format": "f", "text": "2 and 2", "signature": "sig"},
        {"type": "reasoning.encrypted", "data": "xyz"},
    ]


def test_content_in_parts():
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "signature": "s"}]
    events = [
        chat_event(content=parts),
        chat_event(content=[{"type": "text", "text": "a"}, "b", {"type": "image_url", "image_url": "https://i.test"}]),
        chat_event(content=[{"type": "refusal", "refusal": "no"}]),
    ]
    message = whole(*events, DONE)
    assert message.content == [
        {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "s"}},
        {"type": "text", "text": "ab"},
        {"type": "image", "url": "https://i.test"},
        {"type": "refusal", "refusal": "no"},
    ]
    assert message.response_metadata["finish_reason"] == "refusal"


def test_a_refusal():
    message = whole(chat_event(refusal="I "), chat_event(refusal="can't."), chat_event(finish="stop"))
    assert message.content == [{"type": "refusal", "refusal": "I can't."}]
    assert message.response_metadata["finish_reason"] == "refusal"


def test_pictures_sound_and_citations():
    events = [
        chat_event(content="see"),
        chat_event(images=[{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]),
        chat_event(audio={"id": "a1", "transcript": "se"}),
        chat_event(audio={"transcript": "e", "data": "Ukl", "expires_at": 9}),
        chat_event(audio={"data": "G"}),
        chat_event(annotations=[{"n": 1}]),
        chat_event(annotations=[{"n": 2}]),
    ]
    message = whole(*events, DONE)
    assert message.content == [
        {"type": "text", "text": "see"},
        {"type": "image", "base64": "AA", "mime_type": "image/png"},
        {"type": "audio", "id": "a1", "base64": "UklG", "extras": {"transcript": "see", "expires_at": 9}},
    ]
    assert message.additional_kwargs == {"annotations": [{"n": 1}, {"n": 2}]}


# -- calls ----------------------------------------------------------------------------------------------------------


def test_a_call_in_pieces():
    pieces = [tool(0, "c1", "f", ""), tool(0, arguments='{"q": '), tool(0, arguments='"é😀"}')]
    message = calls(*([piece] for piece in pieces))
    assert message.tool_calls == [{"name": "f", "args": {"q": "é😀"}, "id": "c1", "type": "tool_call"}]
    assert message.response_metadata["finish_reason"] == "tool_calls"
    assert message.content == ""


def test_parallel_calls():
    message = calls(
        [tool(0, "c1", "f", "{}"), tool(1, "c2", "g", "")],
        [tool(1, arguments='{"a"')],
        [tool(1, arguments=": 1}")],
    )
    assert [(one["id"], one["name"], one["args"]) for one in message.tool_calls] == [
        ("c1", "f", {}),
        ("c2", "g", {"a": 1}),
    ]


def test_B52_one_index_two_ids_are_two_calls():
    message = calls([tool(0, "id1", "a", "{}")], [tool(0, "id2", "b", "{")], [tool(0, arguments="}")])
    assert [(one["id"], one["name"]) for one in message.tool_calls] == [("id1", "a"), ("id2", "b")]


def test_B54_empty_arguments_are_decided_at_the_end():
    assert calls([tool(0, "c1", "f", "")], [tool(0, arguments='{"x":1}')]).tool_calls[0]["args"] == {"x": 1}
    assert calls([tool(1, "c1", "g", "")], [tool(1, arguments="")]).tool_calls[0]["args"] == {}


def test_B59_arguments_missing_in_the_first_piece():
    first = {"index": 0, "id": "c1", "function": {"name": "f"}}
    assert calls([first], [tool(0, arguments="{}")]).tool_calls[0]["args"] == {}
    assert calls([first]).tool_calls[0]["args"] == {}


def test_B62_a_call_that_is_repeated_is_made_once():
    again = tool(0, "c1", "f", '{"x": 1}')
    assert len(calls([again], [again]).tool_calls) == 1


def test_a_server_that_repeats_id_and_name_in_every_piece():
    message = calls([tool(0, "c1", "f", '{"x"')], [tool(0, "c1", "f", ": 1}")])
    assert [(one["name"], one["args"]) for one in message.tool_calls] == [("f", {"x": 1})]


def test_calls_without_ids():
    """Each gets one, with its first piece; two whole calls under one index are two."""
    message = calls([tool(0, None, "f", '{"x": 1}')], [tool(0, None, "f", '{"x": 2}')])
    assert [one["args"] for one in message.tool_calls] == [{"x": 1}, {"x": 2}]
    assert len({one["id"] for one in message.tool_calls}) == 2
    message = calls([tool(0, None, "f", '{"x"')], [tool(0, None, None, ": 1}")], [tool(0, "late", None, "")])
    assert [one["args"] for one in message.tool_calls] == [{"x": 1}]
    message = calls([tool(None, "", "f", "{}"), tool(None, "", "g", "{}")])
    assert [one["name"] for one in message.tool_calls] == ["f", "g"]


def test_arguments_as_an_object():
    assert calls([tool(0, "c1", "f", {"x": 1})]).tool_calls[0]["args"] == {"x": 1}


def test_arguments_that_break_off():
    message = calls([tool(0, "c1", "f", '{"x": ')])
    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["args"] == '{"x": '


def test_odd_pieces_of_calls():
    assert calls(["odd", {"index": 0}, tool()], [tool(0, "c1", "f", "{}")]).tool_calls[0]["id"] == "c1"  # type: ignore[list-item]


def test_the_form_before_tool_calls_and_free_text():
    events = [chat_event(function_call={"name": "f", "arguments": "{"}), chat_event(function_call={"arguments": "}"})]
    assert [one["name"] for one in whole(*events, DONE).tool_calls] == ["f"]
    custom = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "sql", "input": '{"input": 1}'}}
    assert calls([custom]).tool_calls[0]["name"] == "sql"


def test_the_signature_of_a_call_is_kept():
    more = {"google": {"thought_signature": "sig"}}
    [one] = calls([tool(0, "c1", "f", "{}", extra_content=more)]).tool_calls
    assert dict(one)["extra_content"] == more


def test_B57_pieces_can_be_told_apart_and_nothing_is_called_invalid_early():
    events = [chat_event(tool_calls=[tool(0, "c1", "f", "")]), chat_event(tool_calls=[tool(0, arguments='{"x"')])]
    chunks = read(*events, chat_event(tool_calls=[tool(0, arguments=": 1}")]), DONE)
    assert [piece["index"] for chunk in chunks for piece in chunk.tool_call_chunks] == [0, 0, 0]
    assert all(not chunk.invalid_tool_calls for chunk in chunks)


def test_B21_calls_before_text_make_the_same_message_as_an_answer_in_one_piece():
    call = {"id": "call_abc", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    answer = chat_answer("Let me check the weather.", finish="tool_calls", tool_calls=[call])
    usage = answer["usage"]
    events = [
        chat_event(tool_calls=[{"index": 0, **call}]),
        chat_event(content="Let me check"),
        chat_event(content=" the weather."),
        chat_event(finish="tool_calls"),
        chat_event(usage=usage),
    ]
    streamed = whole(*events, DONE)
    [plain] = parse_response(json.dumps(answer).encode(), PEER)
    assert streamed.model_copy(update={"id": None}) == plain


@given(
    st.lists(st.text(min_size=1, max_size=5), max_size=4),
    st.lists(st.text(min_size=1, max_size=5), max_size=4),
    st.lists(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=3), max_size=3),
    st.data(),
)
def test_a_stream_and_an_answer_in_one_piece_make_the_same_message(
    thoughts: list[str], words: list[str], arguments: list[dict[str, Any]], data: st.DataObject
):
    """However the bytes are cut."""
    made = [
        {"id": f"c{at}", "type": "function", "function": {"name": f"f{at}", "arguments": json.dumps(args)}}
        for at, args in enumerate(arguments)
    ]
    answer = chat_answer("".join(words) or None, reasoning_content="".join(thoughts) or None, tool_calls=made or None)
    pieces: list[dict[str, Any]] = [{"reasoning_content": thought} for thought in thoughts]
    pieces += [{"content": word} for word in words]
    for at, call in enumerate(made):
        text = call["function"]["arguments"]
        cut = data.draw(st.integers(0, len(text)))
        pieces.append({"tool_calls": [tool(at, call["id"], call["function"]["name"], text[:cut])]})
        pieces.append({"tool_calls": [tool(at, arguments=text[cut:])]})
    body = b"".join(
        [*(chat_event(**piece) for piece in pieces), chat_event(finish="stop", usage=answer["usage"]), DONE]
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    streamed = whole(*(body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)))
    [plain] = parse_response(json.dumps(answer).encode(), PEER)
    assert streamed.model_copy(update={"id": None}) == plain


# -- streams that are none, or break --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"error": {"message": "overloaded", "code": 503}}\n\n',
        b'event: error\ndata: {"message": "overloaded", "code": 503}\n\n',
        b'data: {"object": "error", "message": "overloaded", "code": 503}\n\n',
        b'data: {"error": {"message": "overloaded", "code": 503}, "choices": [{"finish_reason": "error"}]}\n\n',
        b'data: {"error": {"message": "overloaded", "code": 503, "x": NaN}}\n\n',
    ],
)
def test_an_error_inside_the_stream(event: bytes):
    stream = ChatStream(PEER)
    assert [chunk.content for chunk in stream.feed(chat_event(content="a"))] == ["a"]
    with pytest.raises(errors.StreamError, match="overloaded") as caught:
        stream.feed(event)
    assert (caught.value.status_code, caught.value.retryable) == (503, True)


def test_a_stream_that_ends_before_the_answer():
    stream = ChatStream(PEER)
    stream.feed(chat_event(content="The answer is"))
    with pytest.raises(errors.ModelConnectionError, match="after 1 events and 'The answer is'") as caught:
        stream.close()
    error = caught.value
    assert (error.code, error.retryable, error.body) == ("incomplete_stream", True, "The answer is")


def test_a_stream_that_ends_in_the_middle_of_an_event():
    stream = ChatStream(PEER)
    stream.feed(chat_event(content="a") + chat_event(content="b")[:-20])
    with pytest.raises(errors.ModelConnectionError, match="ended before the answer did"):
        stream.close()


def test_a_finish_reason_is_an_end_without_done():
    assert whole(chat_event(content="a"), chat_event(finish="stop")).text == "a"
    assert whole(chat_event(content="a"), chat_event(finish="stop").rstrip()).text == "a"


def test_done_is_an_end_without_a_finish_reason():
    message = whole(chat_event(content="a"), DONE)
    assert message.response_metadata["raw_finish_reason"] is None
    assert message.response_metadata["finish_reason"] == "stop"


@pytest.mark.parametrize("body", [b"", b"\n\n", b"<html>no</html>", b": ping\n\n", b"event: x\n\n"])
def test_what_is_no_stream(body: bytes):
    stream = ChatStream(PEER)
    assert stream.feed(body) == []
    with pytest.raises(errors.InvalidResponseError, match="no stream of a chat completion") as caught:
        stream.close()
    assert "https://api.acme.test/v1" in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"nonsense", b"[1]", b'{"choices": 7}', b'{"choices": [7]}', b'{"choices": [{"delta": 7}]}']
)
def test_an_event_of_another_kind(data: bytes):
    with pytest.raises(errors.InvalidResponseError, match="no part of a chat completion"):
        ChatStream(PEER).feed(b"data: " + data + b"\n\n")


def test_a_whole_answer_to_a_request_for_a_stream():
    """Also after the blank lines that some servers keep the connection alive with."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    body = json.dumps(chat_answer("hi", reasoning_content="hm", tool_calls=[call])).encode()
    for pieces in ([body], [b"\r\n", b"\n ", body[:7], body[7:]], [b"\xef\xbb", b"\xbf" + body]):
        [chunk] = read(*pieces)
        message = message_chunk_to_message(chunk)
        assert message == parse_response(body, PEER)[0]


def test_an_error_in_place_of_a_stream():
    stream = ChatStream(PEER)
    assert stream.feed(b'{"error": {"message": "slow down", "code": 429}}') == []
    with pytest.raises(errors.RateLimitError, match="slow down"):
        stream.close()


def test_an_event_that_is_nested_too_deeply_is_no_part_of_an_answer():
    deep = b'data: {"choices": ' + b"[" * 5_000 + b"]" * 5_000 + b"}\n\n"
    with pytest.raises(errors.InvalidResponseError, match="no part of a chat completion"):
        ChatStream(PEER).feed(deep)
