"""Every recorded exchange of the format parses to what its oracle says: whole, cut anywhere, through a real socket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright.messages import AIMessage, HumanMessage, ToolMessage, messages_from_dict, messages_to_dict
from loopwright.models.openai_chat import ChatOpenAI
from loopwright.models.openai_responses.request import input_items
from loopwright.models.openai_responses.response import parse_response
from loopwright.models.openai_responses.stream import ResponsesStream
from loopwright.models.wire_errors import Peer
from tests.models.recorded import Format, Proof


def model_at(url: str) -> ChatOpenAI:
    return ChatOpenAI(model="m", api_key="sk-test", base_url=f"{url}/v1", max_retries=0, use_responses_api=True)


def sealed(message: AIMessage) -> list[str]:
    extras: list[Any] = [block.get("extras", {}) for block in message.content_blocks]
    return [each["encrypted_content"] for each in extras if "encrypted_content" in each]


FORMAT = Format(
    "openai-responses", Peer("recorded", "http://127.0.0.1/v1"), parse_response, ResponsesStream, model_at, sealed
)
PEER, RECORDS, STREAMS, check, parse = FORMAT.peer, FORMAT.records, FORMAT.streams, FORMAT.check, FORMAT.parse

pytestmark = FORMAT.is_there


@pytest.mark.shows("openai-responses", "azure", "bedrock", "openai-compatible", "recordings parsed")
@pytest.mark.shows("openai-responses", "usage details")
class TestRecordings(Proof):
    format = FORMAT
    counts = (253, 78)


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
