"""Every recorded exchange of the format parses to what its oracle says: whole, cut anywhere, through a real socket."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright import errors
from loopwright.messages import (
    AIMessage,
    HumanMessage,
    merge_chunks,
    message_chunk_to_message,
    messages_from_dict,
    messages_to_dict,
)
from loopwright.models.google import ChatGoogleGenerativeAI
from loopwright.models.google.request import wire_contents
from loopwright.models.google.response import parse_response
from loopwright.models.google.stream import GoogleStream
from loopwright.models.google.wire import call_signature
from loopwright.models.wire_errors import Peer
from tests.models.recorded import Format, Proof


def model_at(url: str) -> ChatGoogleGenerativeAI:
    return ChatGoogleGenerativeAI(model="m", api_key="key-of-test", base_url=f"{url}/v1beta", max_retries=0)


def sealed(message: AIMessage) -> list[str]:
    """In the order of the parts: those of the content, with calls in their places, then those of the other calls."""
    by_id = {call["id"]: call_signature(call) for call in message.tool_calls}
    blocks: list[Any] = message.content if isinstance(message.content, list) else []
    found = [
        by_id.pop(block["id"], None) if block["type"] == "tool_call" else block.get("extras", {}).get("signature")
        for block in blocks
    ]
    return [text for text in [*found, *by_id.values()] if isinstance(text, str)]


def others(message: AIMessage) -> list[str]:
    blocks: list[Any] = list(message.content_blocks)
    kinds = {"executableCode", "codeExecutionResult", "toolCall", "toolResponse"}
    return [part for block in blocks if (part := block.get("extras", {}).get("part")) in kinds]


FORMAT = Format(
    "google-generate-content",
    Peer("google", "http://127.0.0.1/v1beta"),
    parse_response,
    GoogleStream,
    model_at,
    sealed,
    others=others,
    bytewise=float("inf"),
)
PEER, RECORDS, STREAMS = FORMAT.peer, FORMAT.records, FORMAT.streams
check, normal, parse = FORMAT.check, FORMAT.normal, FORMAT.parse
ANSWERS = [name for name, record in RECORDS.items() if record["oracle"]["error"] is None]

pytestmark = FORMAT.is_there


@pytest.mark.shows("google", "vertex", "recordings parsed", "reasoning", "usage details")
class TestRecordings(Proof):
    format = FORMAT
    counts = (99, 29)


def body_of(name: str) -> bytes:
    return RECORDS[name]["response"]["body"].encode()


def events_of(body: bytes) -> list[dict[str, Any]]:
    """What the body says, read with the standard library."""
    text = body.decode()
    if text.lstrip()[:1] in "[{":
        value = json.loads(text)
        return value if isinstance(value, list) else [value]
    return [json.loads(line[5:]) for line in text.replace("\r\n", "\n").split("\n") if line.startswith("data:")]


# -- streams --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STREAMS)
def test_each_fragment_is_there_with_its_bytes(name: str):
    """Text and calls of an event come with the bytes that complete it, in either form of stream."""
    events = events_of(body_of(name))
    as_array = [b"[" + json.dumps(events[0]).encode(), *(b",\n" + json.dumps(event).encode() for event in events[1:])]
    as_events = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
    for form in (as_array, as_events):
        stream = GoogleStream(PEER)
        for piece, event in zip(form, events, strict=True):
            chunks = stream.feed(piece)
            parts = event.get("candidates", [{}])[0].get("content", {}).get("parts", [])
            said = "".join(part.get("text", "") for part in parts if not part.get("thought"))
            assert "".join(chunk.text for chunk in chunks) == said
            calls = [piece["name"] for chunk in chunks for piece in chunk.tool_call_chunks]
            assert calls == [part["functionCall"]["name"] for part in parts if "functionCall" in part]


@pytest.mark.parametrize("name", STREAMS)
def test_the_other_forms_say_the_same(name: str):
    """One stream as events, as an array, and its events as one array without any white space."""
    events = events_of(body_of(name))
    forms = [
        b"".join(b"data: " + json.dumps(event).encode() + b"\r\n\r\n" for event in events),
        b"[" + b",\r\n".join(json.dumps(event, indent=2).encode() for event in events) + b"\n]\n",
        json.dumps(events, ensure_ascii=False, separators=(",", ":")).encode(),
    ]
    for form in forms:
        check(RECORDS[name], parse(RECORDS[name], [form]))
        check(RECORDS[name], parse(RECORDS[name], [form[at : at + 7] for at in range(0, len(form), 7)]))


@pytest.mark.parametrize("name", [name for name in ANSWERS if name not in STREAMS])
def test_a_whole_answer_as_a_stream_of_one_event(name: str):
    whole = parse(RECORDS[name], [body_of(name)])
    stream = GoogleStream(PEER)
    chunks = stream.feed(b"data: " + json.dumps(json.loads(body_of(name))).encode() + b"\n\n") + stream.close()
    got = message_chunk_to_message(merge_chunks(chunks))
    assert isinstance(got, AIMessage)
    assert sent_back(got) == sent_back(whole)
    assert normal(got)["other"] == normal(whole)["other"]
    assert normal(got)["reasoning"] == normal(whole)["reasoning"]
    assert got.response_metadata == whole.response_metadata
    assert got.usage_metadata == whole.usage_metadata


# -- what came goes back --------------------------------------------------------------------------------------------


def sent_back(message: AIMessage) -> list[dict[str, Any]]:
    """The parts of the model's turn in the next request; none if there was nothing to say."""
    _, contents = wire_contents([HumanMessage("hi"), message], "google", signed_calls=False)
    return contents[1]["parts"] if len(contents) > 1 else []


def came(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All parts of an answer, neighbouring texts of a stream joined, as Google asks for them."""
    parts: list[dict[str, Any]] = []
    for event in events:
        for part in event.get("candidates", [{}])[0].get("content", {}).get("parts", []):
            if part == {"text": ""}:
                continue
            last = parts[-1] if parts else {}
            plain = {"text", "thought"}
            if "text" in part and part.keys() <= plain and last.keys() == part.keys():
                parts[-1] = {**last, "text": last["text"] + part["text"]}
            else:
                parts.append(part)
    return parts


@pytest.mark.parametrize("name", ANSWERS)
def test_round_trip(name: str):
    """Signatures, thoughts, calls, the provider's own tools and their ids: part by part as they came.

    Also after the message was stored.
    """
    message = parse(RECORDS[name], [body_of(name)])
    assert sent_back(message) == came(events_of(body_of(name)))
    [stored] = messages_from_dict(json.loads(json.dumps(messages_to_dict([message]))))
    assert isinstance(stored, AIMessage)
    assert sent_back(stored) == came(events_of(body_of(name)))


@pytest.mark.parametrize("name", ANSWERS)
def test_sent_to_another_provider(name: str):
    """Nothing opaque of ours goes elsewhere, and nothing readable is lost."""
    message = parse(RECORDS[name], [body_of(name)])
    _, contents = wire_contents([HumanMessage("hi"), message], "elsewhere", signed_calls=False)
    sent = json.dumps(contents)
    assert "thoughtSignature" not in sent
    assert "executableCode" not in sent
    parts = contents[1]["parts"] if len(contents) > 1 else []
    assert "".join(part.get("text", "") for part in parts) == message.text


@pytest.mark.shows("google", "citations")
def test_citations_quote_what_they_cite():
    """Where Google counted right, the cited characters are the words that it quotes."""
    cited = 0
    for name, record in RECORDS.items():
        if "citations" not in record["tags"]:
            continue
        message = parse(record, [body_of(name)])
        quoted = {
            support["segment"]["text"]
            for support in message.response_metadata["grounding_metadata"]["groundingSupports"]
        }
        blocks: list[Any] = list(message.content_blocks)
        for block in blocks:
            for mark in block.get("annotations", []):
                assert mark["type"] == "citation"
                assert block["text"][mark["start_index"] : mark["end_index"]] in quoted
                assert mark.get("url") or mark.get("cited_text")
                cited += 1
    assert cited == 45


# -- broken streams -------------------------------------------------------------------------------------------------


@pytest.mark.shows("google", "cut mid-stream")
@given(st.data())
def test_a_stream_that_stops_anywhere_is_an_error(data: st.DataObject):
    name = data.draw(st.sampled_from(STREAMS))
    body = body_of(name)
    finish = max(body.rfind(b'"finishReason"'), body.rfind(b'"blockReason"'))
    at = data.draw(st.integers(0, finish))
    stream = GoogleStream(PEER)
    with pytest.raises((errors.ModelConnectionError, errors.InvalidResponseError)) as caught:
        stream.feed(body[:at])
        stream.close()
    if at > 6:
        assert isinstance(caught.value, errors.ModelConnectionError)
        assert caught.value.code == "incomplete_stream"


@given(st.data())
def test_an_error_in_the_middle(data: st.DataObject):
    name = data.draw(st.sampled_from(STREAMS))
    events = events_of(body_of(name))
    at = data.draw(st.integers(0, len(events) - 1))
    fault = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    events = [*events[:at], fault, *events[at:]]
    form = json.dumps(events).encode()
    if data.draw(st.booleans()):
        form = b"".join(b"data: " + json.dumps(event).encode() + b"\r\n\r\n" for event in events)
    with pytest.raises(errors.StreamError, match="The model is overloaded") as caught:
        GoogleStream(PEER).feed(form)
    assert caught.value.status_code == 503
    assert caught.value.retryable


@given(st.data())
def test_a_damaged_byte_never_gives_half_a_call(data: st.DataObject):
    """Whatever byte is lost: an answer whose calls are whole or invalid, or an error of ours."""
    name = data.draw(st.sampled_from([name for name in STREAMS if "tools" in RECORDS[name]["tags"]]))
    body = body_of(name)
    at = data.draw(st.integers(0, len(body) - 1))
    try:
        message = parse(RECORDS[name], [body[:at] + body[at + 1 :]])
    except errors.ModelError:
        return
    for call in message.tool_calls:
        assert isinstance(call["args"], dict)
    assert message.response_metadata["finish_reason"] is not None
