"""Output items and content blocks: the same things in two forms, and how each becomes the other.

An answer is a list of items (`message`, `reasoning`, `function_call`, `web_search_call`, ...). Rules:

- an item becomes one block or several, each under a key that stays the same while the item streams;
- what has no standard place is kept in `extras` of the item's first block (of each call and result of a server tool),
  so that the blocks can be sent back as the very item that came. Nulls of messages and reasoning are not kept;
- empty text is a block only where it has an id: the provider wants to see the item again;
- reasoning is the summary, one block for each part; where there is none, the reasoning's own text. `extras` have
  `summary` in that case only;
- a call to the caller's function is a block that says which item it was, and no more: name and arguments are in the
  message's `tool_calls`;
- an item that no row knows, or that the caller has to carry out himself, is `non_standard`, whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from loopwright.messages.calls import parse_arguments
from loopwright.models.openai_chat.response import new_call_id
from loopwright.models.wire_json import dumps_text, has_surrogates, mend_surrogates

__all__ = [
    "CALLS",
    "Block",
    "Key",
    "is_raw_item",
    "item_blocks",
    "item_call",
    "message_item",
    "reasoning_item",
    "server_item",
    "with_call_id",
]

Block = dict[str, Any]
Key = tuple[str, int]
"""Which part of an item a block is."""

CALLS: Final = ("function_call", "custom_tool_call")
"""Items that call a function of the caller's."""


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """How an item of a tool that the provider runs is read."""

    name: str = ""
    """The tool; empty if the item has a name."""
    args: str = ""
    """The field that holds the arguments as an object or as JSON."""
    fields: tuple[str, ...] = ()
    """The fields that are arguments, where none holds them all."""
    output: str = ""
    """The field that holds the result."""
    inner: str = ""
    """The same, of a field inside the arguments."""


_SERVER: Final = {
    "web_search_call": _Row(name="web_search", args="action", inner="sources"),
    "file_search_call": _Row(name="file_search", fields=("queries",), output="results"),
    "code_interpreter_call": _Row(name="code_interpreter", fields=("code",), output="outputs"),
    "mcp_call": _Row(args="arguments", output="output"),
    "mcp_list_tools": _Row(name="mcp_list_tools", output="tools"),
    "image_generation_call": _Row(name="image_generation", output="result"),
    "tool_search_call": _Row(name="tool_search", args="arguments"),
}
_RAW: Final = frozenset({
    *_SERVER, *CALLS, "message", "tool_search_output", "function_call_output", "custom_tool_call_output",
    "computer_call", "computer_call_output", "local_shell_call", "local_shell_call_output", "shell_call",
    "shell_call_output", "apply_patch_call", "apply_patch_call_output", "mcp_approval_request",
    "mcp_approval_response", "item_reference", "compaction", "additional_tools",
})  # fmt: skip


def is_raw_item(block: Mapping[str, Any]) -> bool:
    """Whether a block is an item of this API as it is, and not a content block."""
    kind = str(block.get("type"))
    return kind in _RAW or (kind == "reasoning" and isinstance(block.get("summary"), list))


# -- item to blocks -------------------------------------------------------------------------------------------------


def item_blocks(item: Mapping[str, Any], shown: str = "") -> list[tuple[Key, Block]]:
    """The blocks of an item, in order. Blocks without `id` are those of a server that gave none.

    `shown` is the part of reasoning that has been shown already, `summary` or `content`: the other is kept aside.
    """
    kind = str(item.get("type"))
    if kind == "message":
        return _message_blocks(item)
    if kind == "reasoning":
        return _reasoning_blocks(item, shown)
    if kind in CALLS:
        return [(("call", 0), _call_block(item))]
    if kind in _SERVER and item.get("execution") != "client":
        return _server_blocks(item, _SERVER[kind])
    if kind == "tool_search_output" and item.get("execution") != "client":
        return [(("result", 0), _found_tools(item))]
    return [(("whole", 0), {"type": "non_standard", "value": dict(item)})]


def with_call_id(item: dict[str, Any]) -> dict[str, Any]:
    """The item; a call that came without any id has one now, because its result has to name it."""
    if item.get("type") not in CALLS or (isinstance(item.get("call_id"), str) and item["call_id"]):
        return item
    item_id = item.get("id")
    return {**item, "call_id": item_id if isinstance(item_id, str) and item_id else new_call_id()}


def item_call(item: Mapping[str, Any]) -> dict[str, Any]:
    """A call to the caller's function in OpenAI's older form, which all of our messages can read."""
    if item.get("type") == "custom_tool_call":  # a tool of free text, not of arguments
        arguments: Any = {"input": item.get("input") or ""}
    else:
        arguments = item.get("arguments")
    return {"id": item.get("call_id"), "function": {"name": item.get("name"), "arguments": arguments}}


def _message_blocks(item: Mapping[str, Any]) -> list[tuple[Key, Block]]:
    content: Any = item.get("content")
    parts = [{"type": "output_text", "text": content}] if isinstance(content, str) else _dicts(content)
    extras = {"phase": item.get("phase"), "status": item.get("status") if item.get("status") != "completed" else None}
    extras = {key: value for key, value in extras.items() if value is not None}
    made: list[tuple[Key, Block]] = []
    for place, part in enumerate(parts):
        block = _part_block(part)
        if item.get("id") or len(block) > 2 or block.get(block["type"]) != "":
            if item.get("id"):
                block["id"] = item["id"]
            if extras and not made:
                block["extras"] = extras
            made.append((("content", place), block))
    return made


def _part_block(part: Mapping[str, Any]) -> Block:
    kind = part.get("type")
    if kind in ("output_text", "text"):
        marks = _dicts(part.get("annotations"))
        block: Block = {"type": "text", "text": _words(part.get("text"))}
        if marks:
            block["annotations"] = [_citation(mark) for mark in marks]
        return block
    if kind == "refusal":
        return {"type": "refusal", "refusal": _words(part.get("refusal"))}
    return {"type": "non_standard", "value": dict(part)}


def _reasoning_blocks(item: Mapping[str, Any], shown: str) -> list[tuple[Key, Block]]:
    if not shown:
        shown = "content" if not _texts(item.get("summary")) and _texts(item.get("content")) else "summary"
    extras = {key: value for key, value in item.items() if key not in ("type", "id", shown) and value is not None}
    if shown == "content":
        extras.setdefault("summary", [])
    blocks: list[tuple[Key, Block]] = [
        ((shown, place), {"type": "reasoning", "reasoning": _words(part.get("text"))})
        for place, part in enumerate(_dicts(item.get(shown)))
    ]
    blocks = blocks or [((shown, 0), {"type": "reasoning", "reasoning": ""})]
    for _, block in blocks:
        if item.get("id"):
            block["id"] = item["id"]
    if extras:
        blocks[0][1]["extras"] = extras
    return blocks


def _words(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    return mend_surrogates(text) if has_surrogates(text) else text


def _texts(parts: Any) -> str:
    return "".join(str(part.get("text") or "") for part in _dicts(parts))


def _call_block(item: Mapping[str, Any]) -> Block:
    block: Block = {"type": "function_call", "call_id": item.get("call_id"), "name": item.get("name")}
    if item.get("id"):
        block["id"] = item["id"]
    if item.get("namespace"):
        block["namespace"] = item["namespace"]
    if item.get("status") not in (None, "completed"):
        block["status"] = item["status"]
    if item["type"] != "function_call":
        block["item_type"] = item["type"]
    return block


def _server_blocks(item: Mapping[str, Any], row: _Row) -> list[tuple[Key, Block]]:
    used = {"type", "id", *row.fields, row.args, row.output, "" if row.name else "name"}
    extras: Block = {"item_type": item["type"], **{key: value for key, value in item.items() if key not in used}}
    args: Block = {key: item[key] for key in row.fields if key in item}
    if row.args in item:
        raw = item[row.args]
        parsed = parse_arguments(raw)
        args = {} if isinstance(parsed, str) else dict(parsed)
        if not args or (not isinstance(raw, dict) and dumps_text(args) != raw):  # to be sent back letter by letter
            extras[row.args] = raw
    output = args.pop(row.inner, None) if row.inner else item.get(row.output)
    if output is None and row.output in item:
        extras[row.output] = None
    call_id = item.get("id")
    call: Block = {
        "type": "server_tool_call", "id": call_id, "name": row.name or item.get("name"), "args": args, "extras": extras
    }  # fmt: skip
    made: list[tuple[Key, Block]] = [(("call", 0), call)]
    failed = bool(item.get("error")) or item.get("status") in ("failed", "incomplete")
    if item["type"] == "image_generation_call" and isinstance(output, str):
        mime = f"image/{item.get('output_format') or 'png'}"
        made.append((("result", 0), {"type": "image", "id": call_id, "base64": output, "mime_type": mime}))
    elif output is not None or failed or item.get("status") == "completed":
        result: Block = {
            "type": "server_tool_result",
            "tool_call_id": call_id,
            "status": "error" if failed else "success",
        }
        if output is not None:
            result["output"] = output
        made.append((("result", 0), result))
    return made


def _found_tools(item: Mapping[str, Any]) -> Block:
    """What a search for tools found. It names its search only where the caller gave that an id."""
    rest = {key: value for key, value in item.items() if key not in ("type", "id", "tools")}
    return {
        "type": "server_tool_result",
        "id": item.get("id"),
        "tool_call_id": item.get("call_id") or item.get("id"),
        "status": "error" if item.get("status") in ("failed", "incomplete") else "success",
        "output": item.get("tools"),
        "extras": {"item_type": item["type"], **rest},
    }


# -- blocks to item -------------------------------------------------------------------------------------------------


def message_item(blocks: Iterable[Block], *, with_id: bool) -> dict[str, Any]:
    """The message that text and refusals of one id were."""
    blocks = list(blocks)
    extras: Mapping[str, Any] = blocks[0].get("extras") or {}
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if block["type"] == "refusal":
            parts.append({"type": "refusal", "refusal": block.get("refusal") or ""})
        else:
            marks = [_mark(mark) for mark in _dicts(block.get("annotations"))]
            parts.append({"type": "output_text", "text": block.get("text") or "", "annotations": marks})
    item: dict[str, Any] = {"type": "message", "role": "assistant", "content": parts}
    if with_id:
        item |= {"id": blocks[0]["id"], "status": extras.get("status") or "completed"}
    if extras.get("phase"):
        item["phase"] = extras["phase"]
    return item


def reasoning_item(blocks: Iterable[Block]) -> dict[str, Any]:
    """The reasoning that blocks of one id were."""
    blocks = list(blocks)
    extras: Mapping[str, Any] = blocks[0].get("extras") or {}
    shown, kind = ("content", "reasoning_text") if "summary" in extras else ("summary", "summary_text")
    texts = [str(block.get("reasoning") or "") for block in blocks]
    parts = [{"type": kind, "text": text} for text in texts if text or len(texts) > 1]
    return {"type": "reasoning", "id": blocks[0]["id"], **extras, shown: parts}


def server_item(block: Block, others: Iterable[Block]) -> dict[str, Any] | None:
    """The item that a server tool's call was, with its result among `others`; None if it was no item of this API.

    A result that was an item of its own is that item.
    """
    rest = dict(block.get("extras") or {})
    kind = rest.pop("item_type", None)
    if kind == "tool_search_output":
        return {"type": kind, "id": block.get("id"), "tools": block.get("output"), **rest}
    row = _SERVER.get(str(kind))
    if row is None or block.get("type") != "server_tool_call":
        return None
    item: dict[str, Any] = {"type": kind, "id": block["id"]}
    if not row.name:
        item["name"] = block.get("name")
    args: Block = dict(block.get("args") or {})
    output = _output_of(block["id"], others)
    if row.inner and output is not None:
        args[row.inner] = output
    if not row.args:
        item.update(args)
    elif args:
        item[row.args] = dumps_text(args) if kind == "mcp_call" else args
    if row.output and output is not None:
        item[row.output] = output
    return {**item, **rest}


def _output_of(call_id: Any, blocks: Iterable[Block]) -> Any:
    for block in blocks:
        if block.get("type") == "server_tool_result" and block.get("tool_call_id") == call_id:
            return block.get("output")
        if block.get("type") == "image" and block.get("id") == call_id:
            return block.get("base64")
    return None


# -- citations ------------------------------------------------------------------------------------------------------

_CITATIONS: Final = {"url_citation": "title", "file_citation": "filename", "container_file_citation": "filename"}
"""Annotations that say where text comes from, and which field of theirs is the title."""


def _citation(mark: Mapping[str, Any]) -> Block:
    kind = str(mark.get("type"))
    if kind not in _CITATIONS:
        return {"type": "non_standard_annotation", "value": dict(mark)}
    made: Block = {"type": "citation"}
    extras: Block = {} if kind == "url_citation" else {"type": kind}
    for key, value in mark.items():
        name = "title" if key == _CITATIONS[kind] else key
        if name in ("url", "title", "start_index", "end_index"):
            made[name] = value
        elif key != "type":
            extras[key] = value
    return {**made, "extras": extras} if extras else made


def _mark(citation: Mapping[str, Any]) -> dict[str, Any]:
    if citation.get("type") != "citation":
        value = citation.get("value")
        return dict(cast("Mapping[str, Any]", value if isinstance(value, dict) else citation))
    extras: Mapping[str, Any] = citation.get("extras") or {}
    kind = str(extras.get("type") or "url_citation")
    mark: dict[str, Any] = {"type": kind}
    for key, value in citation.items():
        if key not in ("type", "extras", "id", "cited_text"):
            mark[_CITATIONS.get(kind, "title") if key == "title" else key] = value
    return {**mark, **extras}


def _dicts(value: Any) -> list[dict[str, Any]]:
    found = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in found if isinstance(item, dict)]
