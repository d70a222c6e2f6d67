"""What Claude sent goes back unchanged in the next turn: given back at once, summed from chunks, stored, in v1 form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright import errors
from loopwright.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from loopwright.models.anthropic.request import wire_messages
from loopwright.models.anthropic.stream import MessageStream
from tests.models.test_anthropic_recordings import PEER, RECORDS, STREAMS, check, parse, pytestmark

__all__ = ["pytestmark"]

ANSWERED = [name for name, record in RECORDS.items() if record["oracle"]["error"] is None]
DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def events(body: str) -> list[dict[str, Any]]:
    lines = body.replace("\r\n", "\n").split("\n")
    return [json.loads(line[5:]) for line in lines if line.startswith("data:")]


def recorded_blocks(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks of an answer by a reading of their own, without what is empty or null in texts."""
    body = record["response"]["body"]
    if "stream" not in record["tags"]:
        blocks = json.loads(body)["content"]
    else:
        blocks = []
        inputs: dict[int, str] = {}
        for event in events(body):
            if event["type"] == "content_block_start":
                blocks.append(event["content_block"])
            elif event["type"] == "content_block_delta":
                block, delta = blocks[event["index"]], event["delta"]
                if delta["type"] in DELTAS:
                    block[DELTAS[delta["type"]]] += delta[DELTAS[delta["type"]]]
                elif delta["type"] == "citations_delta":
                    block["citations"] = [*(block.get("citations") or []), delta["citation"]]
                else:
                    inputs[event["index"]] = inputs.get(event["index"], "") + delta["partial_json"]
        for index, text in inputs.items():
            blocks[index]["input"] = json.loads(text or "{}")
    kept = [{k: v for k, v in b.items() if v or b["type"] != "text"} for b in blocks]
    return [block for block in kept if block["type"] != "text" or block.get("text")]


def answer(record: dict[str, Any]) -> AIMessage:
    return parse(record, [record["response"]["body"].encode()])


def sent_back(message: AIMessage) -> list[dict[str, Any]]:
    """The blocks of the answer's turn when the conversation goes on."""
    results = [ToolMessage("ok", tool_call_id=call["id"] or "") for call in message.tool_calls]
    _, turns = wire_messages([HumanMessage("hi"), message, *results, HumanMessage("go on")])
    content = turns[1]["content"] if turns[1]["role"] == "assistant" else []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


@pytest.mark.parametrize("name", ANSWERED)
def test_unchanged(name: str):
    message = answer(RECORDS[name])
    wanted = recorded_blocks(RECORDS[name])
    [stored] = messages_from_dict(json.loads(json.dumps(messages_to_dict([message]))))
    assert isinstance(stored, AIMessage)
    assert stored == message
    assert wanted == sent_back(message)
    assert wanted == sent_back(stored)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ANSWERED)
def test_unchanged_in_the_standard_form(name: str):
    """Only a null beside a citation is lost."""
    message = answer(RECORDS[name])
    blocks: list[Any] = list(message.content_blocks)
    standard = message.model_copy(update={"content": blocks})
    wanted = recorded_blocks(RECORDS[name])
    assert without_nulls(wanted) == without_nulls(sent_back(standard))


@pytest.mark.parametrize("name", ANSWERED)
def test_elsewhere_only_what_can_be_read(name: str):
    """As the answer of another provider: its words and its calls."""
    message = answer(RECORDS[name])
    foreign = message.model_copy(update={"response_metadata": {"provider": "acme"}})
    wanted = [block for block in recorded_blocks(RECORDS[name]) if block["type"] in ("text", "tool_use")]
    for block in wanted:
        block.pop("citations", None)
    assert wanted == sent_back(foreign)


# -- a stream that was damaged on its way ---------------------------------------------------------------------------


def read(body: bytes) -> AIMessage:
    return parse({"response": {"status": 200}, "tags": ["stream"]}, [body])


@given(name=st.sampled_from(STREAMS or [""]), part=st.floats(0, 1, exclude_max=True))
@settings(deadline=None, max_examples=200)
def test_a_stream_that_is_cut_short_is_no_answer(name: str, part: float):
    """It is an error, unless all that was cut off is the goodbye."""
    body = RECORDS[name]["response"]["body"].encode()
    try:
        message = read(body[: int(len(body) * part)])
    except (errors.ModelConnectionError, errors.InvalidResponseError):
        return
    check(RECORDS[name], message)


@given(name=st.sampled_from(STREAMS or [""]), part=st.floats(0, 1, exclude_max=True))
@settings(deadline=None, max_examples=100)
def test_an_error_in_the_middle_is_told(name: str, part: float):
    line = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    found = RECORDS[name]["response"]["body"].encode().replace(b"\r\n", b"\n").split(b"\n\n")[:-1]
    at = int((len(found) - 1) * part)
    damaged = b"".join([*(event + b"\n\n" for event in found[:at]), line, *(event + b"\n\n" for event in found[at:])])
    with pytest.raises(errors.StreamError, match="Overloaded") as caught:
        read(damaged)
    assert caught.value.code == "overloaded_error"
    assert caught.value.retryable


CALLING = [name for name in STREAMS if any(call["args"] for call in RECORDS[name]["oracle"]["tool_calls"][-1:])]


@pytest.mark.parametrize("name", CALLING)
def test_arguments_that_break_off_make_an_invalid_call(name: str):
    """As when the limit of tokens is reached inside a call: what came is kept, and nobody takes it for a call."""
    found = events(RECORDS[name]["response"]["body"])
    starts = [e for e in found if e["type"] == "content_block_start" and e["content_block"]["type"] == "tool_use"]
    last = starts[-1]["index"]
    pieces = [e for e in found if e["type"] == "content_block_delta" and e["index"] == last]
    said = "".join(piece["delta"]["partial_json"] for piece in pieces)
    kept = [event for event in found if event not in pieces]
    at = kept.index(starts[-1]) + 1
    kept.insert(at, {**pieces[0], "delta": {"type": "input_json_delta", "partial_json": said[:-1]}})
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in kept)
    message = read(body.encode())
    [broken] = message.invalid_tool_calls
    assert broken["args"] == said[:-1]
    assert broken["name"] == starts[-1]["content_block"]["name"]
    assert len(message.tool_calls) == len(starts) - 1


def test_a_body_that_ends_before_it_began():
    for body in (b"", b"\n\n", b": keep-alive\n\n"):
        stream = MessageStream(PEER)
        stream.feed(body)
        with pytest.raises(errors.InvalidResponseError, match="no stream of a message"):
            stream.close()


# -- a conversation that grows --------------------------------------------------------------------------------------


def test_each_of_ten_turns_begins_with_the_bytes_of_the_one_before():
    """What the provider's cache goes by. The answers are recorded ones of every kind."""
    history: list[Any] = [SystemMessage("Be brief.")]
    before = b""
    for name in ANSWERED[:10]:
        history.append(HumanMessage(f"And {name}?"))
        prompt, turns = wire_messages(history)
        assert prompt == "Be brief."
        now = json.dumps(turns).encode()[:-1]
        assert now.startswith(before)
        before = now
        message = answer(RECORDS[name])
        history.append(message)
        history += [ToolMessage("ok", tool_call_id=call["id"] or "") for call in message.tool_calls]
        if message.tool_calls:
            history.append(AIMessage("Done."))
