from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from loopwright.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from loopwright.messages.standard import STANDARD_TYPES
from tests.messages import strategies

CALL = {"type": "tool_call", "id": "1", "name": "f", "args": {"q": 1}}


def read(block: Any) -> Any:
    [standard] = HumanMessage([block]).content_blocks
    return standard


@given(strategies.messages)
def test_every_block_has_a_standard_type(message: BaseMessage) -> None:
    before = repr(message.model_dump())
    assert {block.get("type") for block in message.content_blocks} <= STANDARD_TYPES
    assert repr(message.model_dump()) == before


def test_a_string_is_a_text_block() -> None:
    assert AIMessage("a").content_blocks == [{"type": "text", "text": "a"}]
    assert HumanMessage(["a", "", "b"]).content_blocks == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert AIMessage("").content_blocks == []


def test_calls_come_after_the_words() -> None:
    assert AIMessage("a", tool_calls=[CALL]).content_blocks == [{"type": "text", "text": "a"}, CALL]


def test_tool_calls_are_the_truth_about_calls() -> None:
    """A person has changed the arguments of the first call and taken out the second."""
    content = [
        {"type": "tool_use", "id": "1", "name": "f", "input": {"q": "old"}},
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "2", "name": "f", "input": {}},
        {"type": "tool_use", "id": "1", "name": "f", "input": {"q": "old"}},
    ]
    assert AIMessage(content, tool_calls=[CALL]).content_blocks == [CALL, {"type": "text", "text": "a"}]


def test_B35_calls_in_blocks_without_tool_calls_are_no_calls() -> None:
    assert AIMessage([{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}]).content_blocks == []


def test_calls_in_other_messages_are_read_as_they_are() -> None:
    assert read({"type": "tool_use", "id": "1", "name": "f", "input": {"q": 1}}) == CALL
    assert read({"type": "tool_use", "id": "1", "name": "f", "input": {}, "partial_json": '{"q": 1}'}) == CALL
    assert read({"type": "tool_use", "id": "1", "name": "f", "input": "{"})["args"] == {}
    assert read({"type": "function_call", "id": "x", "call_id": "1", "name": "f", "arguments": '{"q": 1}'}) == CALL


def test_what_is_kept_beside_the_content_is_shown() -> None:
    more = {"reasoning_content": "r", "refusal": "no"}
    assert AIMessage("a", additional_kwargs=more).content_blocks == [
        {"type": "reasoning", "reasoning": "r"},
        {"type": "refusal", "refusal": "no"},
        {"type": "text", "text": "a"},
    ]
    shown = [{"type": "reasoning", "reasoning": "r"}, {"type": "refusal", "refusal": "no"}]
    assert AIMessage(shown, additional_kwargs=more).content_blocks == shown


STANDARD: list[dict[str, Any]] = [
    {"type": "text", "text": "a", "id": "1", "index": 0, "extras": {"x": 1}},
    {"type": "reasoning", "reasoning": "a", "extras": {"signature": "s"}},
    {"type": "refusal", "refusal": "a"},
    {"type": "image", "url": "u"},
    {"type": "audio", "base64": "AA==", "mime_type": "audio/wav"},
    {"type": "video", "file_id": "f"},
    {"type": "file", "url": "u"},
    {"type": "text-plain", "text": "a"},
    {"type": "server_tool_call", "id": "1", "name": "web_search", "args": {}},
    {"type": "server_tool_result", "tool_call_id": "1", "status": "success"},
    {"type": "non_standard", "value": {}},
]


@pytest.mark.parametrize("block", STANDARD, ids=[block["type"] for block in STANDARD])
def test_standard_blocks_are_handed_on(block: dict[str, Any]) -> None:
    assert read(block) is block


@pytest.mark.parametrize(
    ("block", "standard"),
    [
        # words
        ({"type": "output_text", "text": "a", "annotations": [], "logprobs": [1]},
         {"type": "text", "text": "a", "extras": {"logprobs": [1]}}),
        ({"type": "input_text", "text": "a"}, {"type": "text", "text": "a"}),
        ({"text": "a"}, {"type": "text", "text": "a"}),
        ({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
         {"type": "text", "text": "a", "extras": {"cache_control": {"type": "ephemeral"}}}),
        # citations
        ({"type": "text", "text": "a", "annotations": [
            {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}]},
         {"type": "text", "text": "a", "annotations": [
             {"type": "citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}]}),
        ({"type": "text", "text": "a", "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}]},
         {"type": "text", "text": "a", "annotations": [{"type": "citation", "url": "u"}]}),
        ({"type": "text", "text": "a", "citations": [
            {"type": "char_location", "cited_text": "c", "document_title": "t", "document_index": 0, "title": None}]},
         {"type": "text", "text": "a", "annotations": [
             {"type": "citation", "cited_text": "c", "title": "t", "extras": {"document_index": 0}}]}),
        ({"type": "text", "text": "a", "annotations": [{"type": "file_path", "file_id": "f"}, "odd",
                                                       {"type": "citation", "url": "u"}]},
         {"type": "text", "text": "a", "annotations": [
             {"type": "non_standard_annotation", "value": {"type": "file_path", "file_id": "f"}},
             {"type": "non_standard_annotation", "value": {"value": "odd"}}, {"type": "citation", "url": "u"}]}),
        # thought
        ({"type": "thinking", "thinking": "t", "signature": "s", "index": 1},
         {"type": "reasoning", "reasoning": "t", "index": 1, "extras": {"signature": "s"}}),
        ({"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "a"}, {"text": "b"}],
          "encrypted_content": "e"},
         {"type": "reasoning", "reasoning": "a\n\nb", "id": "r", "extras": {"encrypted_content": "e"}}),
        ({"type": "redacted_thinking", "data": "d"},
         {"type": "non_standard", "value": {"type": "redacted_thinking", "data": "d"}}),
        # OpenAI's media
        ({"type": "image_url", "image_url": {"url": "http://i", "detail": "low"}},
         {"type": "image", "url": "http://i", "extras": {"detail": "low"}}),
        ({"type": "image_url", "image_url": "data:image/png;base64,AA=="},
         {"type": "image", "base64": "AA==", "mime_type": "image/png"}),
        ({"image_url": "http://i"}, {"type": "image", "url": "http://i"}),
        ({"type": "image_url", "image_url": {"url": "data:;base64,AA=="}}, {"type": "image", "base64": "AA=="}),
        ({"type": "image_url", "image_url": {"url": "data:text/plain,hi"}},
         {"type": "image", "url": "data:text/plain,hi"}),
        ({"type": "input_image", "image_url": "http://i", "detail": "auto"},
         {"type": "image", "url": "http://i", "extras": {"detail": "auto"}}),
        ({"type": "input_image", "file_id": "f"}, {"type": "image", "file_id": "f"}),
        ({"type": "input_audio", "input_audio": {"data": "AA==", "format": "mp3"}},
         {"type": "audio", "base64": "AA==", "mime_type": "audio/mp3"}),
        ({"type": "input_audio", "input_audio": {"data": "AA=="}},
         {"type": "audio", "base64": "AA==", "mime_type": "audio/wav"}),
        ({"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
         {"type": "file", "base64": "AA==", "mime_type": "application/pdf", "extras": {"filename": "a.pdf"}}),
        ({"type": "file", "file": {"file_data": "AA=="}}, {"type": "file", "base64": "AA=="}),
        ({"type": "file", "file": {"file_id": "f"}}, {"type": "file", "file_id": "f"}),
        ({"type": "input_file", "file_url": "u"}, {"type": "file", "url": "u"}),
        # Anthropic's media
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
         {"type": "image", "base64": "AA==", "mime_type": "image/png"}),
        ({"type": "image", "source": {"type": "url", "url": "u"}}, {"type": "image", "url": "u"}),
        ({"type": "document", "source": {"type": "file", "file_id": "f"}, "title": "t"},
         {"type": "file", "file_id": "f", "extras": {"title": "t"}}),
        ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}, "title": "t"},
         {"type": "text-plain", "text": "a", "mime_type": "text/plain", "title": "t"}),
        ({"type": "document", "source": {"type": "text", "data": "a"}}, {"type": "text-plain", "text": "a"}),
        # the older form with source_type
        ({"type": "image", "source_type": "base64", "data": "AA==", "mime_type": "image/png"},
         {"type": "image", "base64": "AA==", "mime_type": "image/png"}),
        ({"type": "file", "source_type": "id", "id": "f"}, {"type": "file", "file_id": "f"}),
        ({"type": "image", "source_type": "url", "url": "u", "metadata": {"x": 1}},
         {"type": "image", "url": "u", "extras": {"x": 1}}),
        ({"type": "file", "source_type": "text", "text": "a"}, {"type": "text-plain", "text": "a"}),
        # Gemini's media
        ({"type": "media", "mime_type": "video/mp4", "file_uri": "u"},
         {"type": "video", "url": "u", "mime_type": "video/mp4"}),
        ({"type": "media", "mime_type": "application/pdf", "data": "AA=="},
         {"type": "file", "base64": "AA==", "mime_type": "application/pdf"}),
        ({"type": "media", "data": "AA=="}, {"type": "file", "base64": "AA=="}),
        # tools of the provider
        ({"type": "server_tool_use", "id": "1", "name": "web_search", "input": {"q": 1}},
         {"type": "server_tool_call", "id": "1", "name": "web_search", "args": {"q": 1}}),
        ({"type": "server_tool_use", "id": "1", "name": "web_search", "input": "{"},
         {"type": "server_tool_call", "id": "1", "name": "web_search", "args": {}}),
        ({"type": "web_search_tool_result", "tool_use_id": "1", "content": [{"url": "u"}]},
         {"type": "server_tool_result", "tool_call_id": "1", "status": "success", "output": [{"url": "u"}],
          "extras": {"block_type": "web_search_tool_result"}}),
        ({"type": "x_tool_result", "tool_use_id": "1", "content": {"type": "x_tool_result_error"}},
         {"type": "server_tool_result", "tool_call_id": "1", "status": "error",
          "output": {"type": "x_tool_result_error"}, "extras": {"block_type": "x_tool_result"}}),
    ],
)  # fmt: skip
def test_foreign_blocks_are_read(block: dict[str, Any], standard: dict[str, Any]) -> None:
    assert read(block) == standard


@pytest.mark.parametrize(
    "block",
    [
        {"type": "weird", "z": 1},
        {"z": 1},
        {},
        {"type": None},
        {"type": "text", "text": 3},
        {"text": 3},
        {"type": "image_url", "image_url": {"url": None}},
        {"type": "image_url"},
        {"type": "input_audio", "input_audio": "a"},
        {"type": "file", "file": {}},
        {"type": "document"},
        {"type": "image", "source": {"type": "base64"}},
        {"type": "image", "source_type": "magic", "data": "a"},
        {"type": "image", "source_type": "base64"},
        {"type": "media", "mime_type": "image/png"},
        {"type": "web_search_tool_result"},
    ],
    ids=str,
)
def test_what_nobody_knows_is_kept_whole(block: dict[str, Any]) -> None:
    assert read(block) == {"type": "non_standard", "value": block}


def test_B99_the_picture_is_still_there() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}]
    assert ToolMessage(content, tool_call_id="1").content_blocks == [
        {"type": "text", "text": "a"},
        {"type": "image", "url": "u"},
    ]


def test_things_that_slipped_in_do_not_break_it() -> None:
    """`model_copy` and C constructors do not look inside."""
    from msgspec.structs import replace

    odd = replace(HumanMessage("a"), content=[3])
    assert odd.content_blocks == [{"type": "non_standard", "value": {"type": "int", "value": 3}}]
    assert odd.text == ""
