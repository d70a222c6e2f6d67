from __future__ import annotations

import json
from typing import Any

import pytest
from inline_snapshot import snapshot

from loopwright import errors
from loopwright.messages import AIMessage
from loopwright.models.openai_chat.response import parse_response, usage_of
from loopwright.models.wire_errors import Peer, from_response
from tests.models.loopback import chat_answer

PEER = Peer("acme", "https://api.acme.test/v1")


def parse(answer: Any) -> AIMessage:
    return parse_response(json.dumps(answer).encode(), PEER)[0]


def said(text: Any = "hi", *, finish: Any = "stop", **message: Any) -> AIMessage:
    return parse(chat_answer(text, finish=finish, **message))


def test_a_plain_answer():
    message = said("hi")
    assert message.content == "hi"
    assert message.usage_metadata == {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    assert message.response_metadata == snapshot(
        {
            "finish_reason": "stop",
            "raw_finish_reason": "stop",
            "token_usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
            "model_name": "m-1",
            "id": "chatcmpl-1",
            "provider": "acme",
        }
    )
    assert message.additional_kwargs == {}


def test_what_else_is_said_about_the_answer_is_kept():
    answer = {**chat_answer(), "system_fingerprint": "fp", "service_tier": "flex", "citations": ["https://a.test"]}
    answer["choices"][0]["logprobs"] = {"content": [{"token": "hi", "logprob": -1.5}], "refusal": None}
    metadata = parse(answer).response_metadata
    assert (metadata["system_fingerprint"], metadata["service_tier"]) == ("fp", "flex")
    assert metadata["citations"] == ["https://a.test"]
    assert metadata["logprobs"] == {"content": [{"token": "hi", "logprob": -1.5}], "refusal": None}


def test_logprobs_without_any_are_none():
    answer = chat_answer()
    answer["choices"][0]["logprobs"] = {"content": None, "refusal": None}
    assert "logprobs" not in parse(answer).response_metadata


# -- why it ended ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("end_turn", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("model_length", "length"),
        ("content_filter", "content_filter"),
        ("sensitive", "content_filter"),
        ("SAFETY", "content_filter"),
        ("refusal", "refusal"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("error", "error"),
        ("insufficient_system_resource", "error"),
        ("network_error", "error"),
        ("MALFORMED_FUNCTION_CALL", "error"),
        ("something new", "other"),
        (None, "stop"),
        ("", "stop"),
    ],
)
def test_one_vocabulary(raw: str | None, word: str):
    metadata = said("hi", finish=raw).response_metadata
    assert (metadata["finish_reason"], metadata["raw_finish_reason"]) == (word, raw or None)


def test_the_word_says_what_the_answer_is():
    """Some providers say `stop`, or nothing, after a call or a refusal."""
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert said(None, tool_calls=[call]).response_metadata["finish_reason"] == "tool_calls"
    assert said(None, finish=None, tool_calls=[call]).response_metadata["finish_reason"] == "tool_calls"
    assert said(None, refusal="no").response_metadata["finish_reason"] == "refusal"
    assert said(None, finish="length", tool_calls=[call]).response_metadata["finish_reason"] == "length"
    assert said("", finish=None).response_metadata["finish_reason"] == "other"


# -- reasoning, refusal, media --------------------------------------------------------------------------------------


@pytest.mark.shows("openai-compatible", "reasoning")
def test_reasoning_is_a_block_before_the_text():
    message = said("4", reasoning_content="2 and 2")
    assert message.content == [{"type": "reasoning", "reasoning": "2 and 2"}, {"type": "text", "text": "4"}]
    assert message.text == "4"
    assert said("4", reasoning="2 and 2") == message
    assert said(None, reasoning="hm").content == [{"type": "reasoning", "reasoning": "hm"}]


@pytest.mark.parametrize("nothing", [None, "", [], {}])
def test_no_reasoning(nothing: Any):
    message = said("4", reasoning_content=nothing, reasoning=nothing, refusal=nothing, tool_calls=nothing)
    assert message.content == "4"


def test_reasoning_that_is_said_twice_counts_once():
    details = [{"type": "reasoning.text", "text": "2 and 2", "signature": "sig", "index": 0}]
    message = said("4", reasoning="2 and 2", reasoning_details=details)
    assert message.content == [{"type": "reasoning", "reasoning": "2 and 2"}, {"type": "text", "text": "4"}]
    assert message.additional_kwargs == {"reasoning_details": details}


def test_reasoning_only_in_its_details():
    details = [
        {"type": "reasoning.summary", "summary": "I think. "},
        {"type": "reasoning.text", "text": "2 and 2"},
        {"type": "reasoning.encrypted", "data": "xyz"},
        "odd",
    ]
    message = said("4", reasoning_details=details)
    assert message.content_blocks[0] == {"type": "reasoning", "reasoning": "I think. 2 and 2"}
    assert message.additional_kwargs["reasoning_details"] == details


def test_encrypted_reasoning_is_kept_though_there_is_nothing_to_read():
    details = [{"type": "reasoning.encrypted", "data": "xyz"}]
    message = said("4", reasoning_details=details)
    assert (message.content, message.additional_kwargs) == ("4", {"reasoning_details": details})


def test_content_that_is_a_list():
    parts = [
        {
            "type": "thinking",
            "thinking": [{"type": "text", "text": "hm"}, {"type": "text", "text": "m"}],
            "closed": True,
        },
        {"type": "thinking", "thinking": "again", "signature": "sig"},
        "plain",
        {"type": "text", "text": " words"},
        {"type": "text", "text": ""},
        {"type": "reference", "reference_ids": [1]},
        {"type": "refusal", "refusal": "no"},
        7,
    ]
    assert said(parts).content == snapshot(
        [
            {"type": "reasoning", "reasoning": "hmm"},
            {"type": "reasoning", "reasoning": "again", "extras": {"signature": "sig"}},
            {"type": "text", "text": "plain"},
            {"type": "text", "text": " words"},
            {"type": "non_standard", "value": {"type": "reference", "reference_ids": [1]}},
            {"type": "refusal", "refusal": "no"},
        ]
    )


def test_content_that_is_a_list_of_text_is_text():
    assert said([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]).content == "ab"


@pytest.mark.shows("openai-chat", "openai-compatible", "refusals")
def test_a_refusal():
    message = said(None, refusal="I can't.")
    assert message.content == [{"type": "refusal", "refusal": "I can't."}]
    assert message.text == ""


def test_pictures_and_sound():
    message = said(
        "here",
        images=[
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "image_url", "image_url": {"url": "https://i.test/x.png"}},
            {"type": "image_url"},
        ],
        audio={"id": "audio_1", "data": "UklG", "transcript": "here", "expires_at": 0},
    )
    assert message.content == snapshot(
        [
            {"type": "text", "text": "here"},
            {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
            {"type": "image", "url": "https://i.test/x.png"},
            {"type": "non_standard", "value": {"type": "image_url"}},
            {"type": "audio", "id": "audio_1", "base64": "UklG", "extras": {"transcript": "here"}},
        ]
    )
    empty = {"id": "", "data": "", "transcript": "", "expires_at": 0}
    assert said("x", audio=empty, images=None).content == "x"
    assert said([{"type": "image_url", "image_url": "https://i.test/x.png"}]).content == [
        {"type": "image", "url": "https://i.test/x.png"}
    ]


def test_citations_are_kept():
    marks = [{"type": "url_citation", "url_citation": {"url": "https://a.test", "title": "A"}}]
    assert said("x", annotations=marks).additional_kwargs == {"annotations": marks}


# -- calls ----------------------------------------------------------------------------------------------------------


def call(arguments: Any, name: str = "f", call_id: Any = "c1", **more: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


@pytest.mark.parametrize(
    ("arguments", "args"),
    [
        ('{"q": "é"}', {"q": "é"}),
        ({"q": 1}, {"q": 1}),
        ("", {}),
        (None, {}),
        ("null", {}),
        ("{}", {}),
        ('"{\\"location\\": \\"Paris\\", \\"celsius\\": true}"', {"location": "Paris", "celsius": True}),
    ],
)
def test_B14_arguments(arguments: Any, args: dict[str, Any]):
    message = said(None, tool_calls=[call(arguments)])
    assert message.tool_calls == [{"name": "f", "args": args, "id": "c1", "type": "tool_call"}]
    assert message.content == ""


@pytest.mark.parametrize("arguments", ['{"q": ', "[]", '"x"', "3", "true", "nonsense"])
def test_B07_arguments_that_are_no_object_make_an_invalid_call(arguments: str):
    message = said(None, tool_calls=[call(arguments), call('{"ok": 1}', call_id="c2")])
    [bad] = message.invalid_tool_calls
    assert (bad["name"], bad["args"], bad["id"]) == ("f", arguments, "c1")
    assert bad["error"]
    assert [one["id"] for one in message.tool_calls] == ["c2"]


def test_a_call_without_an_id_gets_one():
    message = said(None, tool_calls=[call("{}", call_id=None), call("{}", call_id="")])
    first, second = (one["id"] for one in message.tool_calls)
    assert first != second
    assert first
    assert second


def test_a_call_in_the_form_before_tool_calls():
    message = said(None, function_call={"name": "f", "arguments": '{"q": 1}'})
    assert [(one["name"], one["args"]) for one in message.tool_calls] == [("f", {"q": 1})]
    assert said("x", function_call={"name": "", "arguments": ""}).tool_calls == []
    assert said("x", function_call=None).tool_calls == []


def test_a_tool_of_free_text():
    message = said(None, tool_calls=[{"id": "c1", "type": "custom", "custom": {"name": "f", "input": "SELECT 1"}}])
    assert message.tool_calls == [{"name": "f", "args": {"input": "SELECT 1"}, "id": "c1", "type": "tool_call"}]


def test_odd_calls_are_no_calls():
    assert said("x", tool_calls=["odd", {"id": "c1"}, {"id": "c2", "function": None}]).tool_calls == []


def test_the_signature_of_a_call_is_kept():
    """Gemini wants the thought behind a call back, unread."""
    more = {"google": {"thought_signature": "sig"}}
    [one] = said(None, tool_calls=[call("{}", extra_content=more)]).tool_calls
    assert dict(one)["extra_content"] == more


# -- usage ----------------------------------------------------------------------------------------------------------


@pytest.mark.shows("openai-chat", "openai-compatible", "usage details")
@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        (None, None),
        ({}, None),
        ("odd", None),
        (
            {"prompt_tokens": 10, "completion_tokens": 4},
            {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14},
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": None, "total_tokens": 10.0},
            {"input_tokens": 10, "output_tokens": 0, "total_tokens": 10},
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 4,
                "total_tokens": 14,
                "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 1, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 3, "audio_tokens": 2},
            },
            {
                "input_tokens": 10,
                "output_tokens": 4,
                "total_tokens": 14,
                "input_token_details": {"cache_creation": 1, "cache_read": 8},
                "output_token_details": {"audio": 2, "reasoning": 3},
            },
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 4, "prompt_cache_hit_tokens": 6, "prompt_tokens_details": None},
            {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14, "input_token_details": {"cache_read": 6}},
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 4, "num_cached_tokens": 0},
            {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14, "input_token_details": {"cache_read": 0}},
        ),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "cached_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 0},
            },
            {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13, "input_token_details": {"cache_read": 5}},
        ),
    ],
)
def test_usage(usage: Any, wanted: Any):
    assert usage_of(usage) == wanted


def test_no_usage():
    message = parse({**chat_answer(), "usage": None})
    assert (message.usage_metadata, message.response_metadata["token_usage"]) == (None, None)


# -- what is no answer ----------------------------------------------------------------------------------------------


def test_several_choices():
    answer = chat_answer("one")
    answer["choices"].append({"index": 1, "message": {"content": "two"}, "finish_reason": "length"})
    messages = parse_response(json.dumps(answer).encode(), PEER)
    assert [message.text for message in messages] == ["one", "two"]
    assert messages[1].response_metadata["finish_reason"] == "length"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{}",
        b"[]",
        b'"x"',
        b"7",
        b'{"choices": []}',
        b'{"choices": {}}',
        b'{"choices": [1]}',
        b'{"choices": null}',
    ],
)
def test_what_is_no_chat_completion(body: bytes):
    with pytest.raises(errors.InvalidResponseError, match="no chat completion") as caught:
        parse_response(body, PEER)
    assert "https://api.acme.test/v1" in str(caught.value)
    assert caught.value.status_code == 200


def test_a_long_body_is_shown_in_short():
    with pytest.raises(errors.InvalidResponseError) as caught:
        parse_response(b"x" * 3000, PEER)
    assert len(str(caught.value)) < 500


def test_an_error_in_a_200():
    with pytest.raises(errors.BadRequestError, match="filtered"):
        parse({"error": {"message": "filtered", "code": "content_filter"}})
    with pytest.raises(errors.ServerError, match="down"):
        parse([{"error": {"message": "down", "code": 503}}])


def test_a_choice_without_a_message():
    assert parse({"choices": [{"index": 0, "finish_reason": "stop"}]}).content == ""


def test_broken_characters():
    """A lone surrogate, NaN and bytes that are no UTF-8 must not cost the answer."""
    message = parse_response(b'{"choices": [{"message": {"content": "a\\ud83d b\xff"}}], "x": NaN}', PEER)[0]
    assert message.text == "a\ud83d b\ufffd"


@pytest.mark.parametrize("depth", [5_000, 200_000])
def test_json_that_is_nested_too_deeply_is_no_answer(depth):
    with pytest.raises(errors.InvalidResponseError, match="no chat completion"):
        parse_response(b'{"choices": ' + b"[" * depth + b"]" * depth + b"}", PEER)
    error = from_response(PEER, 500, {}, b'{"error": ' + b"[" * depth + b"]" * depth + b"}")
    assert isinstance(error, errors.ServerError)
