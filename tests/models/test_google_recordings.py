"""Every recorded exchange of the format parses to what its oracle says: whole, cut anywhere, through a real socket."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
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
from loopwright.models.wire_errors import Peer, from_response
from tests.models.loopback import Answer, Loopback, Request

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "recordings"
PEER = Peer("google", "http://127.0.0.1/v1beta")


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


RECORDS = {
    record["id"]: record
    for path in sorted(FOLDER.glob("*.jsonl"))
    if path.name != "fuzz_splits.jsonl"
    for record in lines(path)
    if record["api"] == "google-generate-content"
}
STREAMS = [name for name, record in RECORDS.items() if "stream" in record["tags"]]
CUTS = {line["id"]: line["cases"] for line in lines(FOLDER / "fuzz_splits.jsonl")} if RECORDS else {}
ANSWERS = [name for name, record in RECORDS.items() if record["oracle"]["error"] is None]

pytestmark = pytest.mark.skipif(not RECORDS, reason=f"the recorded exchanges are not there: {FOLDER}")

KINDS = {
    errors.AuthenticationError: "authentication",
    errors.PermissionDeniedError: "permission",
    errors.NotFoundError: "not_found",
    errors.RateLimitError: "rate_limit",
    errors.ServerError: "server",
    errors.StreamError: "stream_error",
    errors.InvalidResponseError: "invalid_response",
    errors.BadRequestError: "bad_request",
}
OTHER = {"executableCode", "codeExecutionResult", "toolCall", "toolResponse"}


# -- our answer in the oracle's terms -------------------------------------------------------------------------------


def signatures(message: AIMessage) -> list[str]:
    """In the order of the parts: those of the content, with calls in their places, then those of the other calls."""
    by_id = {call["id"]: call_signature(call) for call in message.tool_calls}
    blocks: list[Any] = message.content if isinstance(message.content, list) else []
    found = [
        by_id.pop(block["id"], None) if block["type"] == "tool_call" else block.get("extras", {}).get("signature")
        for block in blocks
    ]
    return [
        hashlib.sha256(text.encode()).hexdigest()[:16] for text in [*found, *by_id.values()] if isinstance(text, str)
    ]


def normal(message: AIMessage) -> dict[str, Any]:
    blocks: list[Any] = list(message.content_blocks)
    usage = message.usage_metadata
    return {
        "text": message.text,
        "reasoning": "".join(block.get("reasoning", "") for block in blocks if block["type"] == "reasoning"),
        "refusal": "".join(block["refusal"] for block in blocks if block["type"] == "refusal") or None,
        "tool_calls": [{key: call[key] for key in ("id", "name", "args")} for call in message.tool_calls],
        "invalid_tool_calls": [
            {key: call[key] for key in ("id", "name", "args")} for call in message.invalid_tool_calls
        ],
        "finish_reason": message.response_metadata["raw_finish_reason"],
        "usage": usage
        and {
            **{key: usage[key] for key in ("input_tokens", "output_tokens", "total_tokens")},
            "cache_read": usage.get("input_token_details", {}).get("cache_read", 0),
            "cache_creation": usage.get("input_token_details", {}).get("cache_creation", 0),
            "reasoning": usage.get("output_token_details", {}).get("reasoning", 0),
        },
        "model": message.response_metadata["model_name"],
        "response_id": message.response_metadata["id"],
        "signatures": signatures(message),
        "other": [part for block in blocks if (part := block.get("extras", {}).get("part")) in OTHER],
    }


def wanted(record: dict[str, Any], got: dict[str, Any]) -> dict[str, Any]:
    """The oracle, with what it leaves open taken from `got`: ids that were not sent, and values that are as good."""
    oracle = record["oracle"]
    want = {name: oracle.get(name) for name in got}
    want["signatures"] = oracle.get("signatures", [])
    want["other"] = oracle.get("other", [])
    for name in ("model", "response_id"):
        want[name] = oracle[name] or got[name]
    for name in ("tool_calls", "invalid_tool_calls"):
        ids = [call["id"] for call in got[name]]
        calls = [{key: call[key] for key in ("id", "name", "args")} for call in oracle[name]]
        want[name] = [{**call, "id": call["id"] or own} for call, own in zip(calls, ids, strict=True)]
    if oracle["usage"] is not None:
        want["usage"] = {key: value or 0 for key, value in oracle["usage"].items()}
    for name, others in oracle.get("accept", {}).items():
        if got.get(name) in others:
            want[name] = got[name]
    return want


def check(record: dict[str, Any], message: AIMessage) -> None:
    got = normal(message)
    assert wanted(record, got) == got
    assert all(call["id"] for call in message.tool_calls)


def check_error(record: dict[str, Any], error: errors.ModelError) -> None:
    oracle = record["oracle"]["error"]
    assert oracle is not None, error
    kind = next(kind for cls, kind in KINDS.items() if isinstance(error, cls))
    assert (kind, error.status_code) == (oracle["kind"], oracle["status"])
    assert " ".join((oracle["message"] or "").split()) in " ".join(str(error).split())


def parse(record: dict[str, Any], pieces: list[bytes]) -> AIMessage:
    response = record["response"]
    if response["status"] >= 300:
        raise from_response(PEER, response["status"], {}, b"".join(pieces))
    if "stream" not in record["tags"]:
        return parse_response(b"".join(pieces), PEER)[0]
    stream = GoogleStream(PEER)
    chunks = [chunk for piece in pieces for chunk in stream.feed(piece)] + stream.close()
    assert [chunk.chunk_position for chunk in chunks] == [None] * (len(chunks) - 1) + ["last"]
    message = message_chunk_to_message(merge_chunks(chunks))
    assert isinstance(message, AIMessage)
    return message


def body_of(name: str) -> bytes:
    return RECORDS[name]["response"]["body"].encode()


def events_of(body: bytes) -> list[dict[str, Any]]:
    """What the body says, read with the standard library."""
    text = body.decode()
    if text.lstrip()[:1] in "[{":
        value = json.loads(text)
        return value if isinstance(value, list) else [value]
    return [json.loads(line[5:]) for line in text.replace("\r\n", "\n").split("\n") if line.startswith("data:")]


# -- the proof ------------------------------------------------------------------------------------------------------


def test_all_of_them_are_here():
    assert len(RECORDS) == 99
    assert len(STREAMS) == 29


@pytest.mark.parametrize("name", RECORDS)
def test_whole(name: str):
    record = RECORDS[name]
    try:
        message = parse(record, [body_of(name)])
    except errors.ModelError as error:
        check_error(record, error)
    else:
        check(record, message)


@pytest.mark.parametrize("name", STREAMS)
def test_cut(name: str):
    """At the places where decoders break, and after every byte."""
    body = body_of(name)
    cuttings = [case["cuts"] for case in CUTS[name]]
    cuttings.append(range(1, len(body)))
    for cuts in cuttings:
        pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
        check(RECORDS[name], parse(RECORDS[name], pieces))


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


# -- through a socket -----------------------------------------------------------------------------------------------


def serve(request: Request) -> Answer:
    """The record that the path begins with; a stream comes in pieces of 1,000 bytes."""
    record = RECORDS[request.path.split("/")[1]]
    response = record["response"]
    body = response["body"].encode()
    pieces = [body[at : at + 1000] for at in range(0, len(body), 1000)] if "stream" in record["tags"] else None
    return Answer(response["status"], body, {"content-type": response["content_type"]}, pieces)


def model_for(server: Loopback, name: str) -> ChatGoogleGenerativeAI:
    url = f"http://127.0.0.1:{server.port}/{name}/v1beta"
    return ChatGoogleGenerativeAI(model="m", api_key="key-of-test", base_url=url, max_retries=0)


async def ask(model: ChatGoogleGenerativeAI, streamed: bool) -> AIMessage:
    if not streamed:
        return await model.ainvoke([HumanMessage("hi")])
    message = message_chunk_to_message(merge_chunks([chunk async for chunk in model.astream([HumanMessage("hi")])]))
    assert isinstance(message, AIMessage)
    return message


def ask_blocking(model: ChatGoogleGenerativeAI, streamed: bool) -> AIMessage:
    if not streamed:
        return model.invoke([HumanMessage("hi")])
    message = message_chunk_to_message(merge_chunks(list(model.stream([HumanMessage("hi")]))))
    assert isinstance(message, AIMessage)
    return message


def test_through_a_socket_blocking():
    with Loopback(serve) as server:
        for name, record in RECORDS.items():
            model = model_for(server, name)
            try:
                message = ask_blocking(model, "stream" in record["tags"])
            except errors.ModelError as error:
                check_error(record, error)
            else:
                check(record, message)
            model.close()


def test_through_a_socket_on_a_loop():
    async def all_at_once(server: Loopback) -> list[Any]:
        asked = (ask(model_for(server, name), "stream" in record["tags"]) for name, record in RECORDS.items())
        return await asyncio.gather(*asked, return_exceptions=True)

    with Loopback(serve) as server:
        outcomes = asyncio.run(all_at_once(server))
    for record, outcome in zip(RECORDS.values(), outcomes, strict=True):
        if isinstance(outcome, errors.ModelError):
            check_error(record, outcome)
        else:
            check(record, outcome)
