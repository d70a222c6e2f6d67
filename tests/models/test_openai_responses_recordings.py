"""Every recorded exchange of the format parses to what its oracle says: whole, cut anywhere, through a real socket."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopwright import errors
from loopwright.messages import (
    AIMessage,
    HumanMessage,
    ToolMessage,
    merge_chunks,
    message_chunk_to_message,
    messages_from_dict,
    messages_to_dict,
)
from loopwright.models.openai_chat import ChatOpenAI
from loopwright.models.openai_responses.request import input_items
from loopwright.models.openai_responses.response import parse_response
from loopwright.models.openai_responses.stream import ResponsesStream
from loopwright.models.wire_errors import Peer, from_response
from tests.models.loopback import Answer, Loopback, Request

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "recordings"
PEER = Peer("recorded", "http://127.0.0.1/v1")


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


RECORDS = {
    record["id"]: record
    for path in sorted(FOLDER.glob("*.jsonl"))
    if path.name != "fuzz_splits.jsonl"
    for record in lines(path)
    if record["api"] == "openai-responses"
}
STREAMS = [name for name, record in RECORDS.items() if "stream" in record["tags"]]
CUTS = {line["id"]: line["cases"] for line in lines(FOLDER / "fuzz_splits.jsonl")} if RECORDS else {}

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


# -- our answer in the oracle's terms -------------------------------------------------------------------------------


def normal(message: AIMessage) -> dict[str, Any]:
    blocks: list[Any] = list(message.content_blocks)
    usage = message.usage_metadata
    sealed = [
        block["extras"]["encrypted_content"] for block in blocks if "encrypted_content" in block.get("extras", {})
    ]
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
        "signatures": [hashlib.sha256(text.encode()).hexdigest()[:16] for text in sealed],
    }


def wanted(record: dict[str, Any], got: dict[str, Any]) -> dict[str, Any]:
    """The oracle, with what it leaves open taken from `got`: ids that were not sent, and values that are as good."""
    oracle = record["oracle"]
    want = {name: oracle.get(name) for name in got}
    want["signatures"] = oracle.get("signatures", [])
    want["finish_reason"] = oracle["finish_reason"] or None
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


def check_error(record: dict[str, Any], error: errors.ModelError) -> None:
    oracle = record["oracle"]["error"]
    assert oracle is not None, error
    kind = next(kind for cls, kind in KINDS.items() if isinstance(error, cls))
    if oracle["kind"] == "provider_error":  # an error inside a 200: by its own words a refused request
        assert (kind, error.status_code) == ("bad_request", 400)
    else:
        assert (kind, error.status_code) == (oracle["kind"], oracle["status"])
    assert " ".join((oracle["message"] or "").split()) in " ".join(str(error).split())


def parse(record: dict[str, Any], pieces: list[bytes]) -> AIMessage:
    response = record["response"]
    if response["status"] >= 300:
        raise from_response(PEER, response["status"], {}, b"".join(pieces))
    if "stream" not in record["tags"]:
        return parse_response(b"".join(pieces), PEER)[0]
    stream = ResponsesStream(PEER)
    chunks = [chunk for piece in pieces for chunk in stream.feed(piece)] + stream.close()
    assert [chunk.chunk_position for chunk in chunks] == [None] * (len(chunks) - 1) + ["last"]
    message = message_chunk_to_message(merge_chunks(chunks))
    assert isinstance(message, AIMessage)
    return message


# -- the proof ------------------------------------------------------------------------------------------------------


def test_all_of_them_are_here():
    assert len(RECORDS) == 253
    assert len(STREAMS) == 78


@pytest.mark.parametrize("name", RECORDS)
def test_whole(name: str):
    record = RECORDS[name]
    try:
        message = parse(record, [record["response"]["body"].encode()])
    except errors.ModelError as error:
        check_error(record, error)
    else:
        check(record, message)


@pytest.mark.parametrize("name", STREAMS)
def test_cut(name: str):
    """At the places where decoders break, and after every byte."""
    record = RECORDS[name]
    body = record["response"]["body"].encode()
    cuttings = [case["cuts"] for case in CUTS[name]]
    if len(body) <= 32_768:
        cuttings.append(range(1, len(body)))
    for cuts in cuttings:
        pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
        check(record, parse(record, pieces))


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("missing", ["output_index", "type"])
def test_events_that_say_less(name: str, missing: str):
    """Servers that leave out where in the output an event belongs, or say what it is in its name only."""
    record = RECORDS[name]
    body = record["response"]["body"].replace("\r\n", "\n")
    if "odd:no-event-name" in record["tags"]:
        pytest.skip("its events have no names, and another id each time")
    kept: list[str] = []
    for line in body.split("\n"):
        found = json.loads(line[5:]) if line.startswith("data: {") else {}
        found.pop(missing, None)
        kept.append(f"data: {json.dumps(found)}" if found else line)
    check(record, parse(record, ["\n".join(kept).encode()]))


def events_of(body: str) -> list[dict[str, Any]]:
    data = [line[5:] for line in body.replace("\r\n", "\n").split("\n") if line.startswith("data:")]
    return [json.loads(text) for text in data if text.strip() != "[DONE]"]


def items_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The items of an answer, of a streamed one as they were when each was done."""
    body = record["response"]["body"]
    if "stream" not in record["tags"]:
        return json.loads(body)["output"]
    done = [event for event in events_of(body) if event["type"] == "response.output_item.done"]
    return [event["item"] for event in sorted(done, key=lambda event: event["output_index"])]


def without_seals(content: Any) -> Any:
    """Without what the same answer says differently in its last event: sealed reasoning, made-up ids, null results."""
    blocks = [{key: value for key, value in block.items() if key != "id"} for block in content]
    for block in blocks:
        extras = {key: value for key, value in block.pop("extras", {}).items() if key != "encrypted_content"}
        block["extras"] = extras
    return blocks


@pytest.mark.parametrize("name", STREAMS)
def test_the_sum_of_the_chunks_is_the_whole_answer(name: str):
    record = RECORDS[name]
    answer = events_of(record["response"]["body"])[-1]["response"]
    [whole] = parse_response(json.dumps(answer).encode(), PEER)
    summed = parse(record, [record["response"]["body"].encode()])
    assert without_seals(whole.content) == without_seals(summed.content)
    for field in ("tool_calls", "invalid_tool_calls", "usage_metadata", "response_metadata"):
        assert getattr(whole, field) == getattr(summed, field)


@pytest.mark.parametrize("name", RECORDS)
def test_what_came_goes_back_unchanged(name: str):
    """Item for item, also after the answer was summed from chunks, stored and loaded."""
    record = RECORDS[name]
    if record["oracle"]["error"]:
        pytest.skip("an error has no items")
    items = items_of(record)
    message = parse(record, [record["response"]["body"].encode()])
    [loaded] = messages_from_dict(json.loads(json.dumps(messages_to_dict([message]))))
    results = [ToolMessage("done", tool_call_id=str(call["id"])) for call in message.tool_calls]
    sent = input_items([loaded, *results, HumanMessage("go on")], PEER.provider)
    assert [same(item) for item in items] == [same(item) for item in sent[: len(items)]]
    assert len(sent) == len(items) + len(results) + 1


def same(item: dict[str, Any]) -> dict[str, Any]:
    """An item without log probabilities, which need not go back, and the nulls of messages and reasoning."""
    made = json.loads(json.dumps(item))
    for part in made.get("content") or []:
        part.pop("logprobs", None)
    if made["type"] in ("message", "reasoning", "function_call"):
        made = {key: value for key, value in made.items() if value is not None}
    if made["type"] == "function_call":
        made["arguments"] = json.loads(made["arguments"])
    return made


def serve(request: Request) -> Answer:
    """The record that the path begins with; a stream comes in pieces of 1,000 bytes."""
    record = RECORDS[request.path.split("/")[1]]
    response = record["response"]
    body = response["body"].encode()
    pieces = [body[at : at + 1000] for at in range(0, len(body), 1000)] if "stream" in record["tags"] else None
    return Answer(response["status"], body, {"content-type": response["content_type"]}, pieces)


def model_for(server: Loopback, name: str) -> ChatOpenAI:
    url = f"http://127.0.0.1:{server.port}/{name}/v1"
    return ChatOpenAI(model="m", api_key="sk-test", base_url=url, max_retries=0, use_responses_api=True)


async def ask(model: ChatOpenAI, streamed: bool) -> AIMessage:
    if not streamed:
        return await model.ainvoke([HumanMessage("hi")])
    message = message_chunk_to_message(merge_chunks([chunk async for chunk in model.astream([HumanMessage("hi")])]))
    assert isinstance(message, AIMessage)
    return message


def ask_blocking(model: ChatOpenAI, streamed: bool) -> AIMessage:
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
