from __future__ import annotations

from typing import Any

import pytest

from loopwright.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    filter_messages,
    merge_message_runs,
)

S = SystemMessage("s", id="s", name="sys")
H = HumanMessage("h", id="h", name="bob")
CALLS = AIMessage(
    [{"type": "text", "text": "t"}, {"type": "tool_use", "id": "1", "name": "f", "input": {}}],
    id="c",
    tool_calls=[{"name": "f", "args": {}, "id": "1"}, {"name": "f", "args": {}, "id": "2"}],
)
R1, R2 = ToolMessage("1", tool_call_id="1", id="r1"), ToolMessage("2", tool_call_id="2", id="r2")
A = AIMessage("a", id="a")
TALK: list[BaseMessage] = [S, H, CALLS, R1, R2, A]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, TALK),
        ({"include_types": "human"}, [H]),
        ({"include_types": [HumanMessage, "system"]}, [S, H]),
        ({"exclude_types": ["tool", AIMessage]}, [S, H]),
        ({"include_names": ["bob"]}, [H]),
        ({"exclude_names": ["bob", "sys"]}, [CALLS, R1, R2, A]),
        ({"include_ids": ["a"], "include_names": ["bob"]}, [H, A]),
        ({"exclude_ids": ["a", "s"]}, [H, CALLS, R1, R2]),
        ({"include_types": "human", "exclude_names": ["bob"]}, []),
        ({"exclude_tool_calls": True}, [S, H, A]),
        ({"exclude_tool_calls": ["1", "2"]}, [S, H, A]),
        ({"exclude_tool_calls": ["other"]}, TALK),
    ],
)
def test_filter(options: dict[str, Any], kept: list[BaseMessage]) -> None:
    assert filter_messages(TALK, **options) == kept
    assert filter_messages(**options)(TALK) == kept


def test_one_call_of_two_is_left_out() -> None:
    """With its result and its block; the message given stays whole."""
    left = filter_messages([CALLS, R1, R2], exclude_tool_calls=["1"])
    assert left == [
        CALLS.model_copy(update={"tool_calls": CALLS.tool_calls[1:], "content": [{"type": "text", "text": "t"}]}),
        R2,
    ]
    assert len(CALLS.tool_calls) == 2
    [plain] = filter_messages([CALLS.model_copy(update={"content": "t"})], exclude_tool_calls=["1"])
    assert plain.content == "t"


def test_a_chunk_is_of_the_type_of_its_message() -> None:
    chunk = AIMessageChunk("a")
    assert filter_messages([chunk], include_types="ai") == [chunk]
    assert filter_messages([chunk], include_types="AIMessageChunk") == [chunk]


def test_runs_are_merged() -> None:
    merged = merge_message_runs([("user", "a"), ("user", "b"), ("ai", "c"), ("user", "d")])
    assert merged == [HumanMessage("a\nb"), AIMessage("c"), HumanMessage("d")]
    assert merge_message_runs(chunk_separator=" ").invoke([("user", "a"), ("user", "b")]) == [HumanMessage("a b")]


def test_results_and_names_stay_apart() -> None:
    talk = [R1, R2, HumanMessage("a", name="x"), HumanMessage("b", name="y")]
    assert merge_message_runs(talk) == talk
    assert merge_message_runs([AIMessage("a"), AIMessageChunk("b")]) == [AIMessage("a"), AIMessageChunk("b")]


def test_what_messages_carry_is_merged_too() -> None:
    usage: Any = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    call = {"name": "f", "args": {}, "id": "1", "type": "tool_call"}
    left = AIMessage("a", id="1", usage_metadata=usage, response_metadata={"x": 1})
    right = AIMessage([{"type": "text", "text": "b"}], id="2", usage_metadata=usage, tool_calls=[call], foo=1)
    assert merge_message_runs([left, right]) == [
        AIMessage(
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            id="1",
            usage_metadata={"input_tokens": 2, "output_tokens": 2, "total_tokens": 4},
            response_metadata={"x": 1},
            tool_calls=[call],
            foo=1,
        )
    ]
    assert merge_message_runs([HumanMessage(""), HumanMessage("b")]) == [HumanMessage("b")]
    assert merge_message_runs([HumanMessage(""), HumanMessage(["b"])]) == [HumanMessage(["b"])]
