"""Every recorded request of the format, rebuilt from our own messages, tools and settings, field by field.

A recorded body is read into what a user of the library would have written; the model makes a body of that; the two
must be the same but for what means the same (`even`). What cannot be written with our objects has a reason (`WHY_NOT`).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from loopwright.models.anthropic import ChatAnthropic
from tests.models.test_anthropic_recordings import RECORDS, pytestmark

__all__ = ["pytestmark"]

WHY_NOT: dict[str, str] = {}
"""Records that our objects cannot express, and why."""
FIELDS = frozenset({
    "model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "thinking", "temperature", "top_p",
    "top_k", "stop_sequences", "output_config", "output_format", "cache_control", "container", "mcp_servers",
    "anthropic_version",
})  # fmt: skip
SETTINGS = ("thinking", "temperature", "top_p", "top_k", "container", "mcp_servers", "max_tokens")


def listed(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


# -- a recorded body, as our objects --------------------------------------------------------------------------------


def standard(block: dict[str, Any]) -> dict[str, Any]:
    """A block of the user's in the standard form, where there is one."""
    if block["type"] in ("image", "document"):
        source = block["source"]
        kind = {"image": "image", "document": "file"}[block["type"]]
        if source["type"] == "base64":
            return {"type": kind, "base64": source["data"], "mime_type": source["media_type"]}
        return {"type": kind, source["type"]: source[source["type"]]}
    return block


def human(blocks: list[dict[str, Any]]) -> list[BaseMessage]:
    results = [block for block in blocks if block["type"] == "tool_result"]
    said = [standard(block) for block in blocks if block["type"] != "tool_result"]
    messages: list[BaseMessage] = []
    for block in results:
        content = listed(block["content"])
        if "cache_control" in block:
            content = [*content[:-1], {**content[-1], "cache_control": block["cache_control"]}]
        status: Any = "error" if block.get("is_error") else "success"
        messages.append(ToolMessage(content, tool_call_id=block["tool_use_id"], status=status))
    return [*messages, HumanMessage(said)] if said else messages


def assistant(blocks: list[dict[str, Any]]) -> AIMessage:
    calls = [block for block in blocks if block["type"] == "tool_use"]
    return AIMessage(
        [{"type": "tool_use", "id": block["id"]} if block in calls else block for block in blocks],
        tool_calls=[{"name": call["name"], "args": call["input"], "id": call["id"]} for call in calls],
        response_metadata={"provider": "anthropic"},
    )


def conversation(body: dict[str, Any]) -> list[BaseMessage]:
    messages: list[BaseMessage] = [SystemMessage(body["system"])] if body.get("system") else []
    for turn in body["messages"]:
        blocks = listed(turn["content"])
        if turn["role"] == "user":
            messages += human(blocks)
        else:
            messages.append(assistant(blocks) if turn["role"] == "assistant" else SystemMessage(blocks))
    return messages


def offered(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool of the caller's in OpenAI's form, as a function or a class becomes one; Anthropic's own as it is."""
    if "input_schema" not in tool:
        return tool
    about = {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
    if "strict" in tool:
        about["strict"] = tool["strict"]
    beside = {key: tool[key] for key in ("cache_control", "defer_loading") if key in tool}
    return {"type": "function", "function": about, "extras": beside}


def chosen(body: dict[str, Any]) -> dict[str, Any]:
    choice = dict(body["tool_choice"])
    kwargs: dict[str, Any] = {"parallel_tool_calls": False} if choice.pop("disable_parallel_tool_use", False) else {}
    return {"tool_choice": choice.get("name") or choice["type"], **kwargs}


def rebuilt(record: dict[str, Any]) -> dict[str, Any]:
    body = record["request"]["body"]
    fields = {name: body[name] for name in SETTINGS if name in body}
    kwargs: dict[str, Any] = {}
    output = dict(body.get("output_config") or {})
    if "effort" in output:
        fields["effort"] = output.pop("effort")
    if "format" in output:
        schema = {"name": "answer", "schema": output.pop("format")["schema"]}
        kwargs["response_format"] = {"type": "json_schema", "json_schema": schema}
    if output:
        fields["output_config"] = output
    if "tools" in body:
        kwargs["tools"] = [offered(tool) for tool in body["tools"]]
    if "tool_choice" in body:
        kwargs |= chosen(body)
    for name in ("output_format", "cache_control"):
        if name in body:
            kwargs[name] = body[name]
    name = body.get("model") or record["request"]["path"].split("/")[2]
    model = ChatAnthropic(model=name, api_key="k", **fields)
    stop = body.get("stop_sequences")
    request = model._request(conversation(body), stop, kwargs, streamed=bool(body.get("stream")))
    made = json.loads(request.body)
    if "anthropic_version" in body:  # Bedrock has the model in the path
        del made["model"]
    return made


# -- what means the same --------------------------------------------------------------------------------------------


def even(body: dict[str, Any]) -> dict[str, Any]:
    """Text as one block, no nulls, nothing said that is the default anyway."""
    made = {key: value for key, value in body.items() if key != "anthropic_version" and value is not None}
    if not made.get("stream"):
        made.pop("stream", None)
    if "system" in made:
        made["system"] = listed(made["system"])
    if "tools" in made:
        made["tools"] = [{k: v for k, v in tool.items() if (k, v) != ("description", "")} for tool in made["tools"]]
    made["messages"] = [{**turn, "content": even_blocks(turn["content"])} for turn in body["messages"]]
    return made


def even_blocks(content: Any) -> list[Any]:
    blocks: list[Any] = []
    for block in listed(content):
        kept = {key: value for key, value in block.items() if value is not None}
        if kept["type"] == "tool_result":
            kept["content"] = even_blocks(kept["content"])
            if not kept.get("is_error"):
                kept.pop("is_error", None)
        blocks.append(kept)
    return blocks


@pytest.mark.shows("anthropic", "bedrock", "requests rebuilt")
@pytest.mark.parametrize("name", [name for name in RECORDS if name not in WHY_NOT])
def test_rebuilt(name: str):
    body = RECORDS[name]["request"]["body"]
    assert set(body) <= FIELDS
    assert even(body) == even(rebuilt(RECORDS[name]))
