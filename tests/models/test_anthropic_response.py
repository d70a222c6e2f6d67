"""Whole answers of Anthropic's format: what the recordings do not show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright import errors
from loopwright.messages import AIMessage
from loopwright.models.anthropic.response import parse_response
from loopwright.models.wire_errors import Peer

PEER = Peer("anthropic", "https://api.anthropic.com", secrets=("sk-secret",))


def parse(**answer: Any) -> AIMessage:
    answer = {"content": [], "stop_reason": "end_turn", **answer}
    return parse_response(json.dumps(answer).encode(), PEER)[0]


def said(*blocks: dict[str, Any], **answer: Any) -> AIMessage:
    return parse(content=list(blocks), **answer)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(args: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": "f", "input": args, **more}


def test_one_text_is_a_string():
    assert said(text("hi")).content == "hi"
    assert said(text(""), text("hi")).content == "hi"
    assert said(text("hi"), call({})).content == "hi"
    assert said().content == ""


def test_more_than_one_text_stays_as_it_came():
    assert said(text("a"), text("b")).content == [text("a"), text("b")]
    assert said(text("a"), text("b")).text == "ab"


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "other"),
        ("a_new_one", "other"),
        (None, "other"),
    ],
)
def test_one_vocabulary(raw: str | None, word: str):
    metadata = said(text("hi"), stop_reason=raw).response_metadata
    assert (metadata["finish_reason"], metadata["raw_finish_reason"]) == (word, raw)


@pytest.mark.shows("anthropic", "refusals")
def test_what_is_said_about_the_answer():
    message = said(
        text("no"),
        id="msg_1",
        model="claude-x",
        stop_reason="refusal",
        stop_details={"type": "refusal", "category": "cyber"},
        stop_sequence=None,
    )
    assert message.response_metadata == {
        "finish_reason": "refusal",
        "raw_finish_reason": "refusal",
        "token_usage": None,
        "model_name": "claude-x",
        "id": "msg_1",
        "provider": "anthropic",
        "stop_details": {"type": "refusal", "category": "cyber"},
    }
    assert message.usage_metadata is None


@pytest.mark.shows("anthropic", "usage details")
def test_usage_counts_the_cache():
    usage = {
        "input_tokens": 5,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    message = said(text("hi"), usage=usage)
    assert message.usage_metadata == {
        "input_tokens": 125,
        "output_tokens": 7,
        "total_tokens": 132,
        "input_token_details": {"cache_creation": 20, "cache_read": 100},
        "output_token_details": {"reasoning": 3},
    }
    assert message.response_metadata["token_usage"] == usage


@pytest.mark.parametrize("nothing", [{}, None, "", "{}"])
def test_no_arguments(nothing: Any):
    assert said(call(nothing)).tool_calls[0]["args"] == {}


@pytest.mark.parametrize("raw", ['{"a":', "[1]", "7"])
def test_arguments_that_are_no_object_make_an_invalid_call(raw: str):
    message = said(call(raw))
    assert message.tool_calls == []
    assert [(bad["id"], bad["args"]) for bad in message.invalid_tool_calls] == [("toolu_1", raw)]


def test_a_call_without_an_id_gets_one():
    message = said({"type": "tool_use", "name": "f", "input": {"a": 1}})
    assert str(message.tool_calls[0]["id"]).startswith("toolu_")


@pytest.mark.shows("anthropic", "server tools")
def test_tools_of_the_provider_are_no_calls():
    blocks = [
        {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "ask", "server_name": "wiki", "input": {"q": "x"}},
        {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": True, "content": []},
    ]
    message = said(*blocks)
    assert message.content == blocks
    assert message.tool_calls == []
    called, result = message.content_blocks
    assert called == {
        "type": "server_tool_call",
        "id": "mcptoolu_1",
        "name": "ask",
        "args": {"q": "x"},
        "extras": {"server_name": "wiki"},
    }
    assert (result.get("type"), result.get("status")) == ("server_tool_result", "error")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"7", b"{}", b'{"content": "hi"}', b'{"choices": [{}]}'])
def test_what_is_no_message(body: bytes):
    with pytest.raises(errors.InvalidResponseError, match=r"Is base_url right\? It was asked at https://api.anth"):
        parse_response(body, PEER)


def test_a_long_body_is_shown_in_short_and_without_the_key():
    with pytest.raises(errors.InvalidResponseError) as caught:
        parse_response(b"sk-secret " + b"x" * 5000, PEER)
    assert len(str(caught.value)) < 500
    assert "sk-secret" not in f"{caught.value} {caught.value.body}"


def test_an_error_in_a_200():
    with pytest.raises(errors.BadRequestError, match="too bad"):
        parse(error={"type": "invalid_request_error", "message": "too bad"})
