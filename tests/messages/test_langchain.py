"""Messages on their way to LangChain and back."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="langchain-core is not installed")

from hypothesis import HealthCheck, given, settings

from loopwright.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from loopwright.messages.langchain import ended_by, is_langchain, messages_in, to_langchain
from tests.messages.strategies import messages

OURS: list[BaseMessage] = [
    SystemMessage("s", id="1"),
    HumanMessage([{"type": "text", "text": "see"}, {"type": "image", "url": "https://x.test/a.png"}], name="ann"),
    AIMessage("calls", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1"}], response_metadata={"x": 1}),
    AIMessage("", invalid_tool_calls=[{"name": "add", "args": "{", "id": "c2", "error": "cut"}]),
    ToolMessage("5", tool_call_id="c1", artifact={1, 2}, status="error", mood="kept"),
    AIMessage(
        "counted",
        usage_metadata={
            "input_tokens": 9,
            "output_tokens": 1,
            "total_tokens": 10,
            "input_token_details": {"cache_read": 4, "cache_creation": 2},
            "output_token_details": {"reasoning": 1},
        },
    ),
    ChatMessage("c", role="critic"),
    RemoveMessage(id="7"),
]


@pytest.mark.parametrize("message", OURS, ids=lambda message: message.type)
def test_messages_there_and_back(message: BaseMessage) -> None:
    assert convert_to_messages(to_langchain([message])) == [message]


def test_blocks_of_other_providers_are_sent_in_standard_form() -> None:
    """What one of our own models said, for a LangChain model to go on with: any provider's class reads `v1`."""
    said = AIMessage([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "so"}])
    sent = to_langchain([said])[0]
    assert (sent.response_metadata["output_version"], sent.text) == ("v1", "so")
    assert sent.content_blocks[0]["reasoning"] == "hm"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(messages)
def test_any_message_there_and_back(message: BaseMessage) -> None:
    """But for an answer in blocks: what a model of ours said is sent in standard form."""
    if isinstance(message, AIMessage) and isinstance(message.content, list):
        return
    assert convert_to_messages(to_langchain([message])) == [message]


def test_a_piece_keeps_its_pieces_of_calls() -> None:
    piece: Any = {"type": "tool_call_chunk", "name": "add", "args": '{"a": ', "id": "c1", "index": 0}
    chunk = AIMessageChunk("x", id="1", tool_call_chunks=[piece], chunk_position="last")
    assert convert_to_messages(to_langchain([chunk])) == [chunk]


def test_a_state_has_its_messages_in_their_classes() -> None:
    state = {"messages": [HumanMessage("a")], "count": 1, "names": ["a"], "none": []}
    seen = messages_in(state)
    assert is_langchain(seen["messages"][0], "HumanMessage")
    assert {**seen, "messages": state["messages"]} == state
    assert messages_in(None) is None


@pytest.mark.parametrize(
    ("metadata", "word"),
    [
        ({"finish_reason": "stop"}, "stop"),
        ({"stop_reason": "end_turn"}, "end_turn"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "max_output_tokens"),
        ({"status": "completed", "incomplete_details": None}, "completed"),
        ({}, None),
    ],
)
def test_how_an_answer_ended(metadata: dict[str, Any], word: str | None) -> None:
    assert ended_by(metadata) == word
