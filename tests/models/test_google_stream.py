"""Answers in pieces and whole: what each kind of part becomes, and what a broken stream ends in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright import errors
from loopwright.messages import AIMessage, AIMessageChunk, HumanMessage, merge_chunks, message_chunk_to_message
from loopwright.models.google.array import ArrayDecoder
from loopwright.models.google.citations import citations_of
from loopwright.models.google.request import wire_contents
from loopwright.models.google.response import parse_response
from loopwright.models.google.stream import GoogleStream
from loopwright.models.google.wire import MADE, call_signature
from loopwright.models.wire_errors import Peer

PEER = Peer("google", "http://127.0.0.1/v1beta")
USAGE = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}


def event(*parts: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0, **more}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "usageMetadata": USAGE, "modelVersion": "m-1", "responseId": "r-1"}


def sse(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(one).encode() + b"\r\n\r\n" for one in events)


def read(body: bytes) -> list[AIMessageChunk]:
    stream = GoogleStream(PEER)
    return stream.feed(body) + stream.close()


def said(chunks: Iterable[AIMessageChunk]) -> AIMessage:
    message = message_chunk_to_message(merge_chunks(list(chunks)))
    assert isinstance(message, AIMessage)
    return message


def streamed(*parts: Any, **more: Any) -> AIMessage:
    """Each part in an event of its own, and the reason for ending in the last."""
    return said(read(sse(*(event(part) for part in parts), event(finish="STOP", **more))))


def whole(*parts: Any, **more: Any) -> AIMessage:
    [message] = parse_response(json.dumps(event(*parts, finish="STOP", **more)).encode(), PEER)
    return message


def back(message: AIMessage) -> list[dict[str, Any]]:
    return wire_contents([HumanMessage("hi"), message], "google", signed_calls=False)[1][1]["parts"]


# -- parts ----------------------------------------------------------------------------------------------------------

TEXT = {"text": "Hello"}
THOUGHT = {"text": "hm", "thought": True}
SEALED = {"text": "", "thoughtSignature": "c2ln"}
CALL = {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "Y2FsbA=="}
CALL_WITH_ID = {"functionCall": {"name": "g", "args": {}, "id": "g-1"}}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thoughtSignature": "aW1n"}
SKETCH = {"inlineData": {"mimeType": "image/png", "data": "BBBB"}, "thought": True}
CODE = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
CODE_WITH_ID = {"executableCode": {"language": "PYTHON", "code": "print(1)", "id": "c-1"}, "thoughtSignature": "Yw=="}
OUTPUT = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}}
FAILED = {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "id": "c-1"}}
SEARCH = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}, "id": "t-1"}}
FOUND = {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {"x": [1]}, "id": "t-1"}}
UNKNOWN = {"hologram": {"x": 1}, "thoughtSignature": "aG8="}
PARTS = st.sampled_from((
    TEXT, THOUGHT, SEALED, CALL, CALL_WITH_ID, IMAGE, SKETCH, CODE, CODE_WITH_ID, OUTPUT, FAILED, SEARCH, FOUND,
    UNKNOWN, {"text": "wörds", "thoughtSignature": "d28="},
    {"text": "deep", "thought": True, "thoughtSignature": "ZA=="},
    {"fileData": {"mimeType": "audio/mp3", "fileUri": "https://a.example/x"}}, {"thoughtSignature": "b25seQ=="},
))  # fmt: skip


def joined(parts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """As they should go back: neighbouring words of one kind are one part."""
    made: list[dict[str, Any]] = []
    for part in parts:
        last = made[-1] if made else {}
        if "thoughtSignature" not in part and "text" in part and part.keys() == last.keys():
            made[-1] = {**part, "text": last["text"] + part["text"]}
        else:
            made.append({"text": "", **part} if part.keys() == {"thoughtSignature"} else part)
    return made


@given(st.lists(PARTS, min_size=1, max_size=8))
def test_every_order_of_parts_goes_back_as_it_came(parts: list[dict[str, Any]]):
    """Whole, in one event or in many: the same message, and the same parts in the next request."""
    for number, part in enumerate(parts):
        if part is CALL_WITH_ID:  # one that came twice under an id is one call
            parts[number] = {"functionCall": {**part["functionCall"], "id": f"g-{number}"}}
    expected = joined(parts)
    one_event = said(read(sse(event(*parts, finish="STOP"))))
    for message in (whole(*parts), one_event, streamed(*parts)):
        assert back(message) == expected
        assert message.text == "".join(part.get("text", "") for part in parts if not part.get("thought"))
        assert len(message.tool_calls) == sum("functionCall" in part for part in parts)
        blocks: list[Any] = list(message.content_blocks)
        assert sum(block["type"] == "tool_call" for block in blocks) == len(message.tool_calls)


def test_plain_words_are_plain_text():
    assert whole(TEXT, {"text": " you"}).content == "Hello you"
    assert streamed(TEXT, {"text": ""}, {"text": " you"}).content == "Hello you"


def test_text_comes_as_text_until_something_else_comes():
    chunks = read(sse(event(TEXT), event(THOUGHT), event({"text": "!"}), event(finish="STOP")))
    assert [chunk.content for chunk in chunks] == [
        "Hello",
        [{"type": "reasoning", "reasoning": "hm", "index": 0}],
        [{"type": "text", "text": "!", "index": 1}],
        "",
    ]


def test_a_call_without_an_id_gets_one():
    for message in (whole(CALL, CALL), streamed(CALL, CALL)):
        first, second = message.tool_calls
        assert (first["name"], first["args"]) == ("f", {"a": 1})
        assert str(first["id"]).startswith(MADE)
        assert first["id"] != second["id"]
        assert call_signature(first) == "Y2FsbA=="
        assert message.response_metadata["finish_reason"] == "tool_calls"
        assert message.response_metadata["raw_finish_reason"] == "STOP"


@pytest.mark.parametrize("args", [None, {}])
def test_no_arguments(args: Any):
    assert whole({"functionCall": {"name": "f", "args": args}}).tool_calls[0]["args"] == {}
    assert streamed({"functionCall": {"name": "f"}}).tool_calls[0]["args"] == {}


@pytest.mark.parametrize(("args", "raw"), [([1], "[1]"), ("x", "x"), (7, "7")])
def test_arguments_that_are_no_object(args: Any, raw: str):
    for message in (
        whole({"functionCall": {"name": "f", "args": args}}),
        streamed({"functionCall": {"name": "f", "args": args}}),
    ):
        assert message.tool_calls == []
        [bad] = message.invalid_tool_calls
        assert (bad["name"], bad["args"]) == ("f", raw)


def test_a_call_without_a_name():
    [bad] = whole({"functionCall": {"args": {}}}).invalid_tool_calls
    assert bad["error"] == "the call has no name"


def pieces(*values: dict[str, Any], more: bool = True) -> dict[str, Any]:
    return {"functionCall": {"partialArgs": list(values), **({"willContinue": True} if more else {})}}


def test_a_call_that_comes_in_pieces():
    message = streamed(
        {"functionCall": {"name": "f", "id": "g-1", "willContinue": True}, "thoughtSignature": "cA=="},
        pieces({"jsonPath": "$.city", "stringValue": "New", "willContinue": True}),
        pieces({"jsonPath": "$.city", "stringValue": " Delhi"}, {"jsonPath": "$.days[1].n", "numberValue": 2}),
        pieces({"jsonPath": "$['a b'].ok", "boolValue": True}, {"jsonPath": '$["x"]', "nullValue": "NULL_VALUE"}),
        {"functionCall": {}},
        CALL,
    )
    first, second = message.tool_calls
    args = {"city": "New Delhi", "days": [None, {"n": 2}], "a b": {"ok": True}, "x": None}
    assert (first["name"], first["args"], first["id"]) == ("f", args, "g-1")
    assert call_signature(first) == "cA=="
    assert (second["name"], second["args"]) == ("f", {"a": 1})


def test_pieces_end_with_the_next_name():
    begun = {"functionCall": {"name": "f", "willContinue": True}}
    last = pieces({"jsonPath": "$.a", "numberValue": 1}, more=False)
    assert [call["args"] for call in streamed(begun, begun, last).tool_calls] == [{}, {"a": 1}]


@pytest.mark.parametrize("path", ["", "$", "city", "$.a..b", "$.n.x", "$[0]", "$.a[999999999]", "None"])
def test_pieces_without_a_place(path: str):
    begun = {"functionCall": {"name": "f", "args": {"n": 1}, "willContinue": True}}
    message = streamed(begun, pieces({"jsonPath": path, "stringValue": "x"}, more=False))
    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["name"] == "f"


def test_pieces_that_stop_are_no_call():
    begun = {"functionCall": {"name": "f", "willContinue": True}}
    message = streamed(begun, pieces({"jsonPath": "$.city", "stringValue": "Os", "willContinue": True}))
    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["args"] == '{"city":"Os"'


@pytest.mark.shows("google", "server tools")
def test_server_tools():
    blocks: list[Any] = list(streamed(CODE_WITH_ID, FAILED, CODE, OUTPUT, SEARCH, FOUND).content_blocks)
    assert [block["type"] for block in blocks] == ["server_tool_call", "server_tool_result"] * 3
    code, failed, _, output, search, found = blocks
    assert (code["id"], code["name"], code["args"]["code"]) == ("c-1", "code_execution", "print(1)")
    assert (failed["tool_call_id"], failed["status"]) == ("c-1", "error")
    assert (output["status"], output["output"]) == ("success", "1\n")
    assert output["tool_call_id"] == blocks[2]["id"]
    assert (search["name"], search["args"]) == ("GOOGLE_SEARCH_WEB", {"queries": ["x"]})
    assert (found["tool_call_id"], found["output"]) == ("t-1", {"x": [1]})


def test_media_out():
    sound = {"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "AAAA"}}
    blocks: list[Any] = list(streamed(sound, sound, IMAGE, SKETCH).content_blocks)
    assert [(block["type"], block["base64"]) for block in blocks] == [
        ("audio", "AAAA"), ("audio", "AAAA"), ("image", "AAAA"), ("image", "BBBB"),
    ]  # fmt: skip
    assert blocks[3]["extras"] == {"thought": True}


# -- facts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ("STOP", "stop"), ("MAX_TOKENS", "length"), ("SAFETY", "content_filter"), ("SPII", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "error"), ("LANGUAGE", "other"), ("SOMETHING_NEW", "other"),
    ],
)  # fmt: skip
def test_why_it_ended(raw: str, word: str):
    message = said(read(sse(event(TEXT, finish=raw, finishMessage="because"))))
    metadata = message.response_metadata
    assert (metadata["finish_reason"], metadata["raw_finish_reason"]) == (word, raw)
    assert metadata["finish_message"] == "because"


@pytest.mark.shows("google", "refusals")
def test_a_blocked_prompt():
    body = {"promptFeedback": {"blockReason": "OTHER"}, "usageMetadata": {"trafficType": "ON_DEMAND"}}
    [got] = parse_response(json.dumps(body).encode(), PEER)
    for message in (got, said(read(sse(body)))):
        assert message.content == ""
        assert message.usage_metadata is None
        assert message.response_metadata["finish_reason"] == "content_filter"
        assert message.response_metadata["raw_finish_reason"] == "OTHER"
        assert message.response_metadata["prompt_feedback"] == {"blockReason": "OTHER"}


@pytest.mark.shows("google", "usage details")
def test_usage():
    usage = {
        "promptTokenCount": 10, "toolUsePromptTokenCount": 5, "candidatesTokenCount": 4, "thoughtsTokenCount": 3,
        "totalTokenCount": 22, "cachedContentTokenCount": 2,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 4}, {"modality": "AUDIO", "tokenCount": 6}],
        "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 1}],
    }  # fmt: skip
    [message] = parse_response(json.dumps({**event(TEXT, finish="STOP"), "usageMetadata": usage}).encode(), PEER)
    assert message.usage_metadata == {
        "input_tokens": 15,
        "output_tokens": 7,
        "total_tokens": 22,
        "input_token_details": {"audio": 6, "cache_read": 2},
        "output_token_details": {"audio": 1, "reasoning": 3},
    }
    assert message.response_metadata["token_usage"] == usage


def test_the_last_usage_counts():
    last = {**event(finish="STOP"), "usageMetadata": {**USAGE, "candidatesTokenCount": 9, "totalTokenCount": 12}}
    assert said(read(sse(event(TEXT), last))).usage_metadata == {
        "input_tokens": 3,
        "output_tokens": 9,
        "total_tokens": 12,
    }


def test_log_probabilities_are_gathered():
    def chosen(token: str) -> dict[str, Any]:
        return {"logprobsResult": {"chosenCandidates": [{"token": token}], "logProbabilitySum": -1}}

    message = said(read(sse(event(TEXT, **chosen("a")), event(TEXT, finish="STOP", **chosen("b")))))
    assert message.response_metadata["logprobs"]["chosenCandidates"] == [{"token": "a"}, {"token": "b"}]


def test_many_candidates():
    other = {"content": {"parts": [{"text": "other"}]}, "index": 1, "finishReason": "MAX_TOKENS"}
    body = event(TEXT, finish="STOP")
    body["candidates"].append(other)
    first, second = parse_response(json.dumps(body).encode(), PEER)
    assert (first.text, second.text) == ("Hello", "other")
    assert second.response_metadata["finish_reason"] == "length"
    body["candidates"].reverse()
    lone = {**body, "candidates": [other]}
    assert said(read(sse(lone, body, lone))).text == "Hello"


# -- citations ------------------------------------------------------------------------------------------------------


def grounding(*supports: tuple[int, int, str, list[int]]) -> dict[str, Any]:
    return {
        "groundingChunks": [
            {"web": {"uri": "https://a.example", "title": "A"}},
            {"retrievedContext": {"text": "the source's words", "title": "B", "fileSearchStore": "s"}},
        ],
        "groundingSupports": [
            {"segment": {"startIndex": start, "endIndex": end, "text": words}, "groundingChunkIndices": chunks}
            for start, end, words, chunks in supports
        ],
    }


def test_bytes_become_characters():
    marks = citations_of(["Grüße! Ja."], grounding((0, 8, "Grüße!", [0]), (9, 12, "Ja.", [1])), None)
    assert marks == {
        0: [
            {"type": "citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 6},
            {
                "type": "citation", "title": "B", "cited_text": "the source's words", "start_index": 7, "end_index": 10,
                "extras": {"fileSearchStore": "s"},
            },
        ]
    }  # fmt: skip


def test_places_that_are_wrong_or_unknown():
    texts = ["Hello. ", "World."]
    found = citations_of(texts, grounding((7, 13, "World.", [0]), (90, 99, "Hello.", [0]), (0, 2, "no", [0, 9])), None)
    places = {
        number: [(mark.get("start_index"), mark.get("end_index")) for mark in marks] for number, marks in found.items()
    }
    assert places == {1: [(0, 6), (None, None)], 0: [(0, 6)]}
    assert citations_of([], grounding((0, 1, "x", [0])), None) == {}


def test_a_passage_over_two_texts_is_cited_in_both():
    """With a picture, or a call, between them. Google counts on through all text."""
    source = {"type": "citation", "url": "https://a.example", "title": "A"}
    found = citations_of(["Ü. One", " and two.", "three"], grounding((4, 11, "One and", [0])), None)
    assert found == {
        0: [{**source, "start_index": 3, "end_index": 6}],
        1: [{**source, "start_index": 0, "end_index": 4}],
    }


def test_recitation():
    sources = {"citationSources": [{"startIndex": 0, "endIndex": 5, "uri": "https://b.example", "license": "mit"}]}
    assert citations_of(["Hello"], None, sources) == {
        0: [
            {
                "type": "citation", "url": "https://b.example", "extras": {"license": "mit"}, "start_index": 0,
                "end_index": 5,
            }
        ]
    }  # fmt: skip


@pytest.mark.shows("google", "citations")
def test_citations_come_with_their_text():
    """Also after a signature on empty text, which waits for them; the text that is alone keeps its place."""
    marks = grounding((0, 5, "Hello", [0]))
    for message in (whole(TEXT, SEALED, groundingMetadata=marks), streamed(TEXT, SEALED, groundingMetadata=marks)):
        first, second = message.content_blocks
        assert first["annotations"][0]["end_index"] == 5  # type: ignore[typeddict-item]
        assert second["extras"] == {"signature": "c2ln"}  # type: ignore[typeddict-item]
        assert message.response_metadata["grounding_metadata"] == marks
        assert back(message) == [TEXT, SEALED]
    message = streamed(THOUGHT, TEXT, groundingMetadata=marks)
    assert message.content_blocks[1]["annotations"][0]["url"] == "https://a.example"  # type: ignore[typeddict-item]


def test_citations_of_text_that_blocks_have_followed():
    message = streamed(TEXT, CODE, OUTPUT, groundingMetadata=grounding((0, 5, "Hello", [0])))
    assert message.content_blocks[-1] == {
        "type": "text",
        "text": "",
        "annotations": [{"type": "citation", "url": "https://a.example", "title": "A"}],
    }
    assert back(message) == [TEXT, CODE, OUTPUT]


# -- bytes ----------------------------------------------------------------------------------------------------------


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


@given(st.lists(st.dictionaries(st.text(max_size=2), VALUES, max_size=2), max_size=3), st.data())
def test_any_array_cut_anywhere(items: list[dict[str, Any]], data: st.DataObject):
    body = json.dumps(
        items, ensure_ascii=data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 2]))
    ).encode()
    size = data.draw(st.integers(1, 9))
    decoder = ArrayDecoder()
    found = [one for at in range(0, len(body), size) for one in decoder.feed(body[at : at + size])]
    assert [json.loads(one) for one in found] == items
    assert not decoder.is_inside


def test_broken_characters_are_mended():
    body = sse(event({"text": "@"}, finish="STOP")).replace(b"@", b"a\\ud83d\\ude00b\\ud83d \xff")
    assert said(read(body)).text == "a\U0001f600b\ufffd \ufffd"


def test_a_whole_answer_in_place_of_a_stream():
    assert said(read(json.dumps(event(TEXT, finish="STOP"), indent=2).encode())).text == "Hello"


def test_gateways_that_end_as_openai_does():
    assert said(read(sse(event(TEXT, finish="STOP")) + b"data: [DONE]\n\n")).text == "Hello"
    assert said(read(b"\xef\xbb\xbf: keep-alive\n\n" + sse(event(TEXT, finish="STOP")))).text == "Hello"


@pytest.mark.parametrize("form", ["events", "array"])
def test_a_stream_that_was_cut(form: str):
    events = [event(TEXT), event({"text": " you"}), event(finish="STOP")]
    body = sse(*events) if form == "events" else json.dumps(events).encode()
    with pytest.raises(errors.ModelConnectionError, match="ended before the answer did") as caught:
        read(body[: body.index(b"finishReason")])
    assert (caught.value.code, caught.value.body, caught.value.retryable) == ("incomplete_stream", "Hello you", True)
    with pytest.raises(errors.ModelConnectionError):
        read(body[: body.index(b"finishReason") + 30])


def test_an_error_event():
    fault = {"error": {"code": 500, "message": "Oh no.", "status": "INTERNAL"}}
    for body in (sse(event(TEXT), fault), json.dumps([event(TEXT), fault]).encode(), json.dumps(fault).encode()):
        with pytest.raises(errors.StreamError, match="Oh no"):
            read(body)


def test_an_event_that_is_none():
    with pytest.raises(errors.InvalidResponseError, match="no part of an answer"):
        read(sse(event(TEXT)) + b'data: {"candidates": 3}\n\n')


def test_an_error_wrapped_in_a_list():
    with pytest.raises(errors.NotFoundError, match="gone"):
        parse_response(b'[{"error": {"code": 404, "message": "gone"}}]', PEER)
