from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import UsageError
from loopwright.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    SystemMessageChunk,
    ToolMessageChunk,
    merge_chunks,
    message_chunk_to_message,
)
from tests.messages import strategies


def tcc(name: str | None, args: str | None, id: str | None, index: int | None) -> AIMessageChunk:
    return AIMessageChunk("", tool_call_chunks=[{"name": name, "args": args, "id": id, "index": index}])


def call(name: str, args: dict[str, Any], id: str | None) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def finished(*chunks: AIMessageChunk) -> AIMessage:
    message = message_chunk_to_message(merge_chunks(chunks))
    assert type(message) is AIMessage
    return message


# --- laws ---------------------------------------------------------------------


@given(strategies.streams(), st.data())
def test_merging_any_split_is_merging_the_whole(chunks: list[AIMessageChunk], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(chunks)))
    left, right = chunks[:at], chunks[at:]
    parts = [merge_chunks(part) for part in (left, right) if part]
    assert merge_chunks([*chunks, AIMessageChunk()]) == merge_chunks([*parts, AIMessageChunk()])


@given(strategies.streams())
def test_the_empty_chunk_changes_nothing(chunks: list[AIMessageChunk]) -> None:
    whole = merge_chunks([*chunks, AIMessageChunk()])
    assert merge_chunks([AIMessageChunk(), whole]) == whole
    assert merge_chunks([whole, AIMessageChunk()]) == whole


@given(strategies.streams())
def test_merging_leaves_its_chunks_alone(chunks: list[AIMessageChunk]) -> None:
    before = repr([chunk.model_dump() for chunk in chunks])
    merge_chunks(chunks)
    assert repr([chunk.model_dump() for chunk in chunks]) == before


@given(strategies.streamed_calls())
def test_streamed_calls_are_the_calls(streamed: tuple[list[dict[str, Any]], list[AIMessageChunk]]) -> None:
    calls, stream = streamed
    message = finished(*stream)
    assert sorted(message.tool_calls, key=lambda call: str(call["id"])) == calls  # they come as they began
    assert message.invalid_tool_calls == []


@given(strategies.streamed_calls())
def test_what_a_stream_shows_of_a_call_is_in_the_call(
    streamed: tuple[list[dict[str, Any]], list[AIMessageChunk]],
) -> None:
    """At every moment: known names and ids, arguments that are a part of the final ones, no verdict."""
    calls, stream = streamed
    by_id = {call["id"]: call for call in calls}
    for length in range(len(stream) + 1):
        so_far = merge_chunks(stream[:length])
        assert so_far.invalid_tool_calls == []
        for shown in so_far.tool_calls:
            whole = by_id[shown["id"]]
            assert shown["name"] == whole["name"]
            assert set(shown["args"]) <= set(whole["args"])


@given(st.text(), st.data())
def test_text_is_the_text(text: str, data: st.DataObject) -> None:
    parts = data.draw(strategies.cut(text))
    assert merge_chunks([AIMessageChunk(part) for part in parts]).content == text


# --- text and blocks ----------------------------------------------------------


def test_plus_is_merge() -> None:
    assert AIMessageChunk("a", id="1") + AIMessageChunk("b") == AIMessageChunk("ab", id="1")
    more = [AIMessageChunk("b"), AIMessageChunk("c")]
    assert AIMessageChunk("a").__add__(more) == AIMessageChunk("abc")


def test_nothing_merges_to_the_empty_chunk() -> None:
    assert merge_chunks([]) == AIMessageChunk()


def test_one_chunk_is_itself() -> None:
    chunk = AIMessageChunk("a")
    assert merge_chunks([chunk]) is chunk


@pytest.mark.parametrize("other", [AIMessage("b"), HumanMessageChunk("b"), "b", None])
def test_only_chunks_of_one_kind_add_up(other: Any) -> None:
    with pytest.raises(TypeError, match="only chunks of one kind"):
        _ = AIMessageChunk("a") + other


def test_words_between_blocks_are_text_blocks() -> None:
    merged = merge_chunks(
        [AIMessageChunk("a"), AIMessageChunk("b"), AIMessageChunk([{"type": "x"}]), AIMessageChunk("c")]
    )
    assert merged.content == [{"type": "text", "text": "ab"}, {"type": "x"}, {"type": "text", "text": "c"}]


def test_blocks_join_by_index() -> None:
    merged = merge_chunks(
        [
            AIMessageChunk([{"type": "text", "text": "a", "index": 0}]),
            AIMessageChunk([{"type": "reasoning", "reasoning": "x", "index": 1}]),
            AIMessageChunk([{"type": "text", "text": "b", "index": 0}]),
            AIMessageChunk([{"type": "reasoning", "reasoning": "y", "index": 1, "extras": {"signature": "s"}}]),
        ]
    )
    assert merged.content == [
        {"type": "text", "text": "ab", "index": 0},
        {"type": "reasoning", "reasoning": "xy", "index": 1, "extras": {"signature": "s"}},
    ]


def test_the_index_is_gone_from_the_message() -> None:
    message = finished(AIMessageChunk([{"type": "text", "text": "a", "index": 0}, "b"]), AIMessageChunk())
    assert message.content == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


def test_a_block_of_another_type_under_the_same_index_is_another_block() -> None:
    merged = merge_chunks(
        [
            AIMessageChunk([{"type": "text", "text": "a", "index": 0}]),
            AIMessageChunk([{"type": "image", "url": "u", "index": 0}]),
        ]
    )
    assert [block.get("type") for block in merged.content_blocks] == ["text", "image"]


def test_deltas_join_the_block_they_belong_to() -> None:
    merged = merge_chunks(
        [
            AIMessageChunk([{"type": "tool_use", "id": "c1", "name": "f", "input": {}, "index": 1}]),
            AIMessageChunk([{"type": "input_json_delta", "partial_json": '{"a":', "index": 1}]),
            AIMessageChunk([{"type": "input_json_delta", "partial_json": " 1}", "index": 1}]),
        ]
    )
    assert merged.content == [
        {"type": "tool_use", "id": "c1", "name": "f", "input": {}, "index": 1, "partial_json": '{"a": 1}'}
    ]


def test_text_beats_the_empty_object_it_began_with() -> None:
    begun = AIMessageChunk([{"type": "tool_use", "input": {}, "index": 1}])
    text = AIMessageChunk([{"type": "tool_use", "input": '{"a"', "index": 1}])
    assert merge_chunks([begun, text, begun]).content == [{"type": "tool_use", "input": '{"a"', "index": 1}]


def test_reasoning_with_ids_of_its_own_stays_apart() -> None:
    merged = merge_chunks(
        [
            AIMessageChunk([{"type": "reasoning", "reasoning": "a", "id": "r1"}]),
            AIMessageChunk([{"type": "reasoning", "reasoning": "b"}]),
            AIMessageChunk([{"type": "reasoning", "reasoning": "c", "id": "r2"}]),
        ]
    )
    assert merged.content == [
        {"type": "reasoning", "reasoning": "ab", "id": "r1"},
        {"type": "reasoning", "reasoning": "c", "id": "r2"},
    ]


def test_B61_reasoning_without_index_is_one_block() -> None:
    merged = merge_chunks(
        [
            AIMessageChunk([{"type": "reasoning", "summary": [{"text": "The"}]}]),
            AIMessageChunk([{"type": "reasoning", "summary": [{"text": " message"}]}]),
            AIMessageChunk("plain text"),
        ]
    )
    assert merged.content == [
        {"type": "reasoning", "summary": [{"type": "text", "text": "The message"}]},
        {"type": "text", "text": "plain text"},
    ]
    assert merged.content_blocks == [
        {"type": "reasoning", "reasoning": "The message"},
        {"type": "text", "text": "plain text"},
    ]


def test_annotations_are_gathered() -> None:
    merged = merge_chunks(
        [
            AIMessageChunk([{"type": "text", "text": "a", "annotations": [{"type": "citation", "url": "1"}]}]),
            AIMessageChunk([{"type": "text", "text": "b", "annotations": [{"type": "citation", "url": "2"}]}]),
        ]
    )
    assert merged.content == [
        {
            "type": "text",
            "text": "ab",
            "annotations": [{"type": "citation", "url": "1"}, {"type": "citation", "url": "2"}],
        }
    ]


# --- the rest of a chunk ------------------------------------------------------


def test_usage_adds_up() -> None:
    merged = merge_chunks(
        [
            AIMessageChunk("", usage_metadata={"input_tokens": 5, "output_tokens": 0, "total_tokens": 5}),
            AIMessageChunk("a"),
            AIMessageChunk("", usage_metadata={"input_tokens": 0, "output_tokens": 2, "total_tokens": 2}),
        ]
    )
    assert merged.usage_metadata == {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}


def test_metadata_is_not_joined_like_text() -> None:
    merged = merge_chunks(
        [
            AIMessageChunk("", response_metadata={"model_name": "m", "finish_reason": None, "token_usage": {"a": 1}}),
            AIMessageChunk("", response_metadata={"model_name": "m", "finish_reason": "stop", "token_usage": {"b": 2}}),
        ]
    )
    assert merged.response_metadata == {"model_name": "m", "finish_reason": "stop", "token_usage": {"a": 1, "b": 2}}


def test_log_probabilities_are_gathered() -> None:
    parts = [AIMessageChunk("", response_metadata={"logprobs": {"content": [n]}, "seen": [n]}) for n in (1, 2)]
    assert merge_chunks(parts).response_metadata == {"logprobs": {"content": [1, 2]}, "seen": [2]}


def test_running_text_beside_the_content_is_joined() -> None:
    parts = [AIMessageChunk("", additional_kwargs={"reasoning_content": t, "model": "m"}) for t in ("a", "b")]
    assert merge_chunks(parts).additional_kwargs == {"reasoning_content": "ab", "model": "m"}


def test_first_id_and_name_and_the_last_position_are_kept() -> None:
    merged = merge_chunks(
        [
            AIMessageChunk("a", name="bob"),
            AIMessageChunk("b", id="1"),
            AIMessageChunk("c", id="2", chunk_position="last"),
            AIMessageChunk("d"),
        ]
    )
    assert merged == AIMessageChunk("abcd", id="1", name="bob", chunk_position="last")


def test_other_chunks_add_up_too() -> None:
    assert HumanMessageChunk("a", id="1") + HumanMessageChunk("b", id="2") == HumanMessageChunk("ab", id="1")
    assert SystemMessageChunk("a", response_metadata={"x": 1}) + SystemMessageChunk(
        "b", response_metadata={"y": 2}, additional_kwargs={"text": "t"}
    ) == SystemMessageChunk("ab", response_metadata={"x": 1, "y": 2}, additional_kwargs={"text": "t"})
    assert ToolMessageChunk("a", tool_call_id="1") + ToolMessageChunk(
        "b", tool_call_id="1", status="error"
    ) == ToolMessageChunk("ab", tool_call_id="1", status="error")


def test_chunks_become_messages_of_their_kind() -> None:
    assert message_chunk_to_message(HumanMessageChunk("a", id="1")) == HumanMessage("a", id="1")
    message = HumanMessage("a")
    assert message_chunk_to_message(message) is message


# --- calls in pieces ----------------------------------------------------------


def test_B52_one_index_and_two_ids_are_two_calls() -> None:
    message = finished(tcc("a", "{}", "id1", 0), tcc("b", "", "id2", 0), tcc(None, '{"x": 1}', None, 0))
    assert message.tool_calls == [call("a", {}, "id1"), call("b", {"x": 1}, "id2")]


def test_B54_an_empty_header_waits_for_the_end() -> None:
    late = [tcc("f", "", "c1", 0), tcc(None, '{"x":1}', None, 0)]
    bare = [tcc("g", "", "c1", 1), tcc(None, "", None, 1)]
    assert finished(*late).tool_calls == [call("f", {"x": 1}, "c1")]
    assert finished(*bare).tool_calls == [call("g", {}, "c1")]
    assert finished(*late, *bare).tool_calls == [call("f", {"x": 1}, "c1"), call("g", {}, "c1")]


@pytest.mark.parametrize("reverse", [False, True])
def test_B56_finished_calls_in_a_chunk_are_kept(reverse: bool) -> None:
    calls = [call("w", {"city": "SF"}, "1"), call("w", {"city": "Boston"}, "2")]
    chunks = [AIMessageChunk("text"), AIMessageChunk("", tool_calls=calls)]
    merged = merge_chunks(chunks[::-1] if reverse else chunks)
    assert merged.tool_calls == calls
    assert finished(merged) == AIMessage("text", tool_calls=calls)


def test_B57_pieces_are_no_calls_and_never_invalid_before_the_end() -> None:
    pieces = [tcc("f", "", "c1", 0), tcc(None, '{"a', None, 0), tcc(None, '": 1', None, 0), tcc(None, "}", None, 0)]
    assert [piece.tool_calls for piece in pieces] == [[call("f", {}, "c1")], [], [], []]
    assert [piece.invalid_tool_calls for piece in pieces] == [[], [], [], []]
    shown = [merge_chunks(pieces[: length + 1]).tool_calls for length in range(4)]
    assert shown == [[call("f", {}, "c1")], [call("f", {}, "c1")], *[[call("f", {"a": 1}, "c1")]] * 2]


def test_B59_arguments_missing_in_the_first_piece() -> None:
    first = AIMessageChunk("", tool_call_chunks=[{"name": "f", "id": "c1", "index": 0}])
    assert finished(first, tcc(None, "{}", None, 0)).tool_calls == [call("f", {}, "c1")]


@pytest.mark.parametrize(
    "again",
    [
        tcc("f", '{"x": 1}', "c1", 0),
        tcc("f", '{"x": 1}', "c1", None),
        tcc("f", '{"x": 1}', "c1", 5),
        AIMessageChunk("", tool_calls=[call("f", {"x": 1}, "c1")]),
    ],
    ids=["same index", "no index", "other index", "finished"],
)
def test_B62_a_call_said_twice_counts_once(again: AIMessageChunk) -> None:
    stream = [tcc("f", '{"x":', "c1", 0), tcc(None, " 1}", None, 0), again]
    assert finished(*stream).tool_calls == [call("f", {"x": 1}, "c1")]
    assert finished(*stream).invalid_tool_calls == []


def test_B62_finished_calls_said_twice_count_once() -> None:
    chunk = AIMessageChunk("", tool_calls=[call("f", {"x": 1}, "c1")])
    assert finished(chunk, chunk).tool_calls == [call("f", {"x": 1}, "c1")]


def test_one_id_with_other_arguments_is_another_call() -> None:
    message = finished(tcc("f", '{"x": 1}', "c1", 0), tcc("f", '{"x": 2}', "c1", 1))
    assert message.tool_calls == [call("f", {"x": 1}, "c1"), call("f", {"x": 2}, "c1")]


def test_calls_without_ids_are_calls() -> None:
    message = finished(tcc("f", "{}", None, None), tcc("f", "{}", None, None))
    assert message.tool_calls == [call("f", {}, None), call("f", {}, None)]


def test_pieces_without_index_continue_what_has_none() -> None:
    message = finished(tcc("f", '{"x"', "c1", None), tcc(None, ": 1}", None, None))
    assert message.tool_calls == [call("f", {"x": 1}, "c1")]


def test_a_name_repeated_in_every_piece_is_one_name() -> None:
    message = finished(tcc("f", '{"x"', "c1", 0), tcc("f", ": 1}", "c1", 0))
    assert message.tool_calls == [call("f", {"x": 1}, "c1")]


def test_a_name_that_comes_late_is_taken() -> None:
    assert finished(tcc(None, "", "c1", 0), tcc("f", "{}", None, 0)).tool_calls == [call("f", {}, "c1")]


def test_arguments_given_as_an_object_are_an_object() -> None:
    chunk = AIMessageChunk("", tool_call_chunks=[{"name": "f", "args": {"x": 1}, "id": "c1", "index": 0}])  # type: ignore
    assert finished(chunk, AIMessageChunk()).tool_calls == [call("f", {"x": 1}, "c1")]


def test_what_a_provider_adds_to_a_call_is_kept() -> None:
    piece: Any = {"name": "f", "args": "{}", "id": "c1", "index": 0, "extras": {"thought_signature": "s"}}
    message = finished(AIMessageChunk("", tool_call_chunks=[piece]), tcc(None, "", None, 0))
    assert message.tool_calls == [{**call("f", {}, "c1"), "extras": {"thought_signature": "s"}}]


def test_calls_that_break_off_are_invalid_at_the_end() -> None:
    message = finished(tcc("f", '{"x": "abc', "c1", 0))
    assert message.tool_calls == []
    [bad] = message.invalid_tool_calls
    assert {**bad, "error": ""} == {
        "name": "f",
        "args": '{"x": "abc',
        "id": "c1",
        "error": "",
        "type": "invalid_tool_call",
    }
    assert "not valid JSON" in str(bad["error"])


def test_a_call_without_a_name_is_invalid_at_the_end() -> None:
    [bad] = finished(tcc(None, "{}", "c1", 0)).invalid_tool_calls
    assert bad["error"] == "the call has no name"
    assert finished(tcc(None, "", None, 0)).invalid_tool_calls == []


def test_the_last_chunk_brings_the_verdict() -> None:
    last = AIMessageChunk("", chunk_position="last")
    merged = merge_chunks([tcc("f", "{}", "c1", 0), tcc("g", "{", "c2", 1), last])
    assert merged.tool_calls == [call("f", {}, "c1")]
    assert [bad["name"] for bad in merged.invalid_tool_calls] == ["g"]
    assert last.invalid_tool_calls == []


def test_B21_streamed_and_whole_histories_are_equal() -> None:
    """Pieces of a call before the words of the same turn are one message."""
    message = finished(
        tcc("get_weather", "{}", "call_abc", 0), AIMessageChunk("Let me check", id="m"), AIMessageChunk(" the weather.")
    )
    assert message == AIMessage("Let me check the weather.", id="m", tool_calls=[call("get_weather", {}, "call_abc")])


def test_a_chunk_shows_its_pieces_as_blocks() -> None:
    assert tcc("f", "{", "c1", 0).content_blocks == [
        {"type": "tool_call_chunk", "name": "f", "args": "{", "id": "c1", "index": 0}
    ]


def test_a_last_piece_that_only_repeats_the_id_says_nothing_new() -> None:
    stream = [tcc("f", '{"x": 1}', "c1", 0), tcc("f", "", "c1", None), tcc(None, None, "c1", 3)]
    assert finished(*stream) == AIMessage("", tool_calls=[call("f", {"x": 1}, "c1")])


@pytest.mark.parametrize("content", [5, 5.5, b"x", {"a": 1}, [5], [None]], ids=repr)
def test_content_that_is_none_is_refused_in_words(content: Any) -> None:
    """A chunk is made unchecked, for speed; what it holds is looked at when chunks are added up, and at the end."""
    with pytest.raises(UsageError, match=r"content.*is|content .* must be"):
        merge_chunks([AIMessageChunk("a"), AIMessageChunk(content), AIMessageChunk("b")])
    with pytest.raises(UsageError, match=r"content"):
        message_chunk_to_message(AIMessageChunk(content))


def test_whole_calls_of_a_chunk_without_all_their_keys() -> None:
    chunk = AIMessageChunk("", tool_calls=[{"name": "f"}, {"name": "g", "args": {}, "id": 7}])
    expected = [call("f", {}, None), call("g", {}, "7")]
    assert cast(Any, message_chunk_to_message(chunk)).tool_calls == expected
    assert cast(Any, message_chunk_to_message(merge_chunks([AIMessageChunk("a"), chunk]))).tool_calls == expected
