"""Every recorded request is rebuilt out of our messages, tools and schemas, and compared field by field.

Answers of earlier turns in a request are read as an answer and sent back, so this is the round trip as well. What is
compared: everything but what makes no difference (`same` lists it).
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
from tests.models.recorded import FOLDER
from tests.models.test_openai_responses_recordings import RECORDS

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
        if (item.get("type", "message") != "message" and item["type"] not in ITEMS) or item.get("id"):
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
    where: Any = part.get("image_url") or part.get("file_url") or part.get("file_data")
    extras = {key: part[key] for key in ("detail", "filename") if key in part}
    if "file_id" in part:
        return {"type": kind, "file_id": part["file_id"], "extras": extras}
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


def same(value: Any, *, strict: bool = False) -> Any:
    """A value without the differences that mean nothing: nulls and empty lists, the order of `required`, the spacing
    of arguments, a message without words and without an id; what our requests always say and others imply (`type` of a
    message, `status` of an item, `strict`, `detail`); and defaults in a strict schema, which we leave out because
    strict mode has none.
    """
    if isinstance(value, list):
        return [made for item in value if (made := same(item, strict=strict)) != NOTHING]
    if not isinstance(value, dict):
        return value
    strict = strict or value.get("strict") is True
    made: dict[str, Any] = {key: same(item, strict=strict) for key, item in value.items() if item is not None}
    made = {key: item for key, item in made.items() if item != [] or key not in ("tools", "annotations", "logprobs")}
    kind = made.get("type")
    if kind in ("function_call", "mcp_call"):
        made["arguments"] = json.loads(made["arguments"])
    if "role" in made:
        made = {"type": "message", **made}
    if made.get("status") == "completed":
        del made["status"]
    if kind == "function":
        made = {"strict": False, **made}
    if kind == "input_image":
        made = {"detail": "auto", **made}
    if strict:
        made.pop("default", None)
    if isinstance(made.get("required"), list):
        made["required"] = sorted(made["required"])
    if made.get("role") == "assistant" and isinstance(made["content"], list) and "id" not in made:
        made["content"] = "".join(part["text"] for part in made["content"])
    if isinstance(made.get("input"), str):
        made["input"] = [{"role": "user", "content": made["input"], "type": "message"}]
    parts: Any = made.get("content")
    if isinstance(parts, list) and [part.get("type") for part in parts] == ["input_text"]:
        made["content"] = parts[0]["text"]
    return made


NOTHING = {"type": "message", "role": "assistant", "content": ""}


@pytest.mark.shows("openai-responses", "requests rebuilt")
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
