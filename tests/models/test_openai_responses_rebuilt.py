"""Every recorded request is rebuilt out of our messages, tools and schemas, and compared field by field.

Answers of earlier turns in a request are read as an answer and sent back, so this is the round trip as well. What is
compared: everything but how JSON of arguments is spaced, nulls and empty lists that say nothing, and what our
requests always say (`type` of a message, `status` of an item with an id, `strict`, `detail`).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from loopwright.models.openai_chat import ChatOpenAI
from loopwright.models.openai_responses.response import parse_response
from loopwright.models.wire_errors import Peer
from loopwright.models.wire_json import dumps
from tests.models.test_openai_responses_recordings import FOLDER, RECORDS

PEER = Peer("openai", "http://127.0.0.1/v1")

pytestmark = pytest.mark.skipif(not RECORDS, reason=f"the recorded exchanges are not there: {FOLDER}")

NO_BODY = "a GET has no body"
NOT_OURS: dict[str, str] = {}
"""Records whose request our objects cannot say, and why."""

ITEMS = ("function_call_output", "additional_tools", "mcp_approval_response")
"""Items that are not the model's."""


# -- from the wire to our objects -----------------------------------------------------------------------------------


def messages_of(items: Any) -> list[BaseMessage]:
    made: list[BaseMessage] = []
    answer: list[dict[str, Any]] = []
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        if item.get("type", "message") != "message" and item["type"] not in ITEMS or item.get("id"):
            answer.append(item)
            continue
        if answer:
            made.append(answer_of(answer))
            answer = []
        made.append(message_of(item))
    return [*made, answer_of(answer)] if answer else made


def answer_of(items: list[dict[str, Any]]) -> AIMessage:
    """The model's turn, as it was parsed, stored and loaded."""
    message = parse_response(json.dumps({"status": "completed", "output": items}).encode(), PEER)[0]
    [loaded] = messages_from_dict(json.loads(json.dumps(messages_to_dict([message]))))
    assert isinstance(loaded, AIMessage)
    return loaded


def message_of(item: dict[str, Any]) -> BaseMessage:
    if item.get("type") == "function_call_output":
        return ToolMessage(blocks_of(item["output"]), tool_call_id=item["call_id"])
    if item.get("type") == "additional_tools":
        return HumanMessage([item])
    content: Any = blocks_of(item["content"])
    if item["role"] == "assistant":
        if "phase" in item:
            content = [{"type": "text", "text": content, "extras": {"phase": item["phase"]}}]
        return AIMessage(content)
    if item["role"] == "user":
        return HumanMessage(content)
    role = {"__openai_role__": item["role"]} if item["role"] != "system" else {}
    return SystemMessage(content, additional_kwargs=role)


def blocks_of(content: Any) -> Any:
    return content if isinstance(content, str) else [block_of(part) for part in content]


def block_of(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] in ("input_text", "output_text"):
        return {"type": "text", "text": part["text"]}
    kind = {"input_image": "image", "input_file": "file"}[part["type"]]
    where = part.get("image_url") or part.get("file_url") or part.get("file_data")
    if "file_id" in part:
        return {"type": kind, "file_id": part["file_id"]}
    extras = {key: part[key] for key in ("detail", "filename") if key in part}
    if where.startswith("data:"):
        mime, _, data = where[5:].partition(";base64,")
        return {"type": kind, "base64": data, "mime_type": mime, "extras": extras}
    return {"type": kind, "url": where, "extras": extras}


def call_of(body: dict[str, Any]) -> tuple[ChatOpenAI, list[BaseMessage], dict[str, Any]]:
    """The model, the messages and the arguments that say what a recorded body says."""
    said = {key: value for key, value in body.items() if key not in ("model", "input", "stream")}
    tools = [
        {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}
        if tool["type"] == "function"
        else tool
        for tool in said.pop("tools", ())
    ]
    choice = said.pop("tool_choice", None)
    if isinstance(choice, dict):
        choice = choice["name"] if choice["type"] == "function" else choice
    text = dict(said.pop("text", None) or {})
    if "format" in text:
        form = text.pop("format")
        inner = {key: value for key, value in form.items() if key != "type"}
        said["response_format"] = {"type": form["type"], "json_schema": inner} if inner else form
    if "verbosity" in text:
        said["verbosity"] = text["verbosity"]
    names = ("temperature", "top_p", "store", "include", "reasoning", "parallel_tool_calls", "service_tier")
    fields: dict[str, Any] = {name: said.pop(name) for name in names if name in said}
    if "max_output_tokens" in said:
        fields["max_tokens"] = said.pop("max_output_tokens")
    model = ChatOpenAI(model=body["model"], api_key="sk-test", use_responses_api=True, **fields)
    if tools:
        said |= {"tools": tools, "tool_choice": "any" if choice == "required" else choice}
    elif choice is not None:
        said["tool_choice"] = choice
    return model, messages_of(body["input"]), said


# -- what is the same -----------------------------------------------------------------------------------------------


def same(value: Any) -> Any:
    """A value without the differences that mean nothing."""
    if isinstance(value, list):
        return [same(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: same(item) for key, item in value.items() if item is not None}
    if isinstance(made.get("arguments"), str):
        made["arguments"] = json.loads(made["arguments"])
    if "role" in made:
        made.setdefault("type", "message")
    if made.get("status") == "completed":
        del made["status"]
    if made.get("type") == "output_text":
        made = {key: item for key, item in made.items() if item or key == "text"}
    if made.get("type") == "function" and "parameters" in made:
        made.setdefault("strict", False)
    if made.get("type") == "input_image":
        made.setdefault("detail", "auto")
    if made.get("role") == "assistant" and isinstance(made["content"], list) and "id" not in made:
        made["content"] = "".join(part["text"] for part in made["content"])
    if isinstance(made.get("input"), str):
        made["input"] = [{"role": "user", "content": made["input"], "type": "message"}]
    if isinstance(made.get("content"), list) and [part.get("type") for part in made["content"]] == ["input_text"]:
        made["content"] = made["content"][0]["text"]
    return made


@pytest.mark.parametrize("name", RECORDS)
def test_request(name: str):
    body = RECORDS[name]["request"]["body"]
    if body is None or name in NOT_OURS:
        pytest.skip(NOT_OURS.get(name, NO_BODY))
    model, messages, said = call_of(body)
    sent = json.loads(model._request(messages, None, said, streamed=bool(body.get("stream"))).body)
    want = same(body)
    want.pop("stream", None)
    sent = same(sent)
    sent.pop("stream", None)
    assert want == sent


def test_how_many_are_rebuilt():
    assert len([name for name, record in RECORDS.items() if record["request"]["body"] and name not in NOT_OURS]) == 251


def test_what_is_sent_is_json():
    assert dumps({"a": 1}) == b'{"a":1}'
