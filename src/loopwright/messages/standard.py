"""Content in any provider's form, read as standard blocks.

A row of `_READERS` says how one foreign block type is read; what no row knows becomes `non_standard`, whole, so
that nothing is lost. Rules:

- an AI message's `tool_calls` are the truth about its calls: a call block in the content shows what `tool_calls`
  says under that id (a person may have edited it), one that is not there any more is left out, and calls without a
  block come last;
- keys of a foreign block that have no standard place go into `extras`;
- nothing in the message is changed; blocks that are standard already are handed on as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from loopwright.messages.calls import parse_arguments
from loopwright.messages.plain import is_dict, is_list

if TYPE_CHECKING:
    from loopwright.messages.blocks import ContentBlock

__all__ = ["STANDARD_TYPES", "standard_block", "standard_blocks"]

_Block = dict[str, Any]

STANDARD_TYPES: Final = frozenset(
    (
        "text",
        "reasoning",
        "refusal",
        "image",
        "audio",
        "video",
        "file",
        "text-plain",
        "tool_call",
        "tool_call_chunk",
        "invalid_tool_call",
        "server_tool_call",
        "server_tool_call_chunk",
        "server_tool_result",
        "non_standard",
    )
)


def standard_blocks(
    content: Any,
    calls: Sequence[Mapping[str, Any]] | None = None,
    more: Mapping[str, Any] | None = None,
    pieces: Sequence[Any] = (),
) -> list[ContentBlock]:
    """Read content; `calls` and `more` (`additional_kwargs`) are an AI message's, `pieces` its tool call chunks."""
    blocks: list[_Block] = []
    if more:
        blocks += _kept_aside(more, content)
    shown: set[Any] = set()
    for item in [content] if isinstance(content, str) else cast("list[Any]", content or []):
        block = standard_block(item)
        if block is None:
            continue
        if calls is not None and block["type"] == "tool_call":
            call = next((call for call in calls if call.get("id") == block.get("id")), None)
            if call is None or block.get("id") in shown:
                continue
            shown.add(block.get("id"))
            block = _call_block(call)
        blocks.append(block)
    blocks += [_call_block(call) for call in calls or () if call.get("id") is None or call["id"] not in shown]
    blocks += [{**piece, "type": "tool_call_chunk"} for piece in pieces]
    return cast("list[ContentBlock]", blocks)


def standard_block(item: Any) -> _Block | None:
    """One item of a content list as a standard block; None for an empty string."""
    if isinstance(item, str):
        return {"type": "text", "text": item} if item else None
    if not isinstance(item, dict):
        return {"type": "non_standard", "value": {"type": type(item).__name__, "value": item}}
    block = cast(_Block, item)
    kind = block.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else _UNTYPED.get(next(iter(block), ""))
    if reader is None and isinstance(kind, str) and kind.endswith("_tool_result") and kind not in STANDARD_TYPES:
        reader = _server_result
    if reader is not None:
        read = reader(block)
        if read is not None:
            return read
    elif kind in STANDARD_TYPES:
        return block
    return {"type": "non_standard", "value": block}


def _call_block(call: Mapping[str, Any]) -> _Block:
    return {**call, "type": "tool_call"}


def _kept_aside(more: Mapping[str, Any], content: Any) -> Iterator[_Block]:
    """Reasoning and refusals that some integrations keep beside the content."""
    blocks = [block for block in content if is_dict(block)] if is_list(content) else []
    present = {block.get("type") for block in blocks}
    reasoning = more.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning and not present & {"reasoning", "thinking"}:
        yield {"type": "reasoning", "reasoning": reasoning}
    refusal = more.get("refusal")
    if isinstance(refusal, str) and refusal and "refusal" not in present:
        yield {"type": "refusal", "refusal": refusal}


def _with_rest(read: _Block, block: _Block, used: Sequence[str]) -> _Block:
    """Carry over the standard marks (`id`, `index`), and all other keys as `extras`."""
    extras: _Block = dict(block.get("extras") or {})
    for key, value in block.items():
        if key in ("id", "index"):
            read.setdefault(key, value)
        elif key not in used and key not in ("type", "extras") and value is not None:
            extras[key] = value
    if extras:
        read["extras"] = {**read.get("extras", {}), **extras}
    return read


def _from_url(url: str) -> _Block:
    """`data:` URLs become `base64` and `mime_type`, others stay `url`."""
    if url.startswith("data:") and "," in url:
        head, _, data = url.partition(",")
        mime, *flags = head[5:].split(";")
        if "base64" in flags:
            return {"base64": data, **({"mime_type": mime} if mime else {})}
    return {"url": url}


def _text(block: _Block) -> _Block | None:
    text = block.get("text")
    if not isinstance(text, str):
        return None
    known = ("text", "annotations", "citations")
    if block["type"] == "text" and not block.keys() - {"type", "text", "id", "index", "extras"}:
        return block
    read: _Block = {"type": "text", "text": text}
    marks = [*(block.get("annotations") or ()), *(block.get("citations") or ())]
    if marks:
        read["annotations"] = [_annotation(mark) for mark in marks]
    return _with_rest(read, block, known)


def _untyped_text(block: _Block) -> _Block | None:
    return _text({"type": "text", **block}) if isinstance(block.get("text"), str) else None


def _annotation(mark: Any) -> _Block:
    if not isinstance(mark, dict):
        return {"type": "non_standard_annotation", "value": {"value": mark}}
    mark = cast(_Block, mark)
    kind = mark.get("type")
    if kind in ("citation", "non_standard_annotation"):
        return mark
    if kind == "url_citation" or "cited_text" in mark:
        mark = cast(_Block, mark["url_citation"]) if isinstance(mark.get("url_citation"), dict) else mark
        names = {"document_title": "title"}
        standard = ("url", "title", "cited_text", "start_index", "end_index")
        read: _Block = {"type": "citation"}
        extras: _Block = {}
        for key, value in mark.items():
            name = names.get(key, key)
            if name in standard:
                if value is not None:
                    read[name] = value
            elif key != "type":
                extras[key] = value
        return {**read, "extras": extras} if extras else read
    return {"type": "non_standard_annotation", "value": mark}


def _reasoning(block: _Block) -> _Block:
    summary = block.get("summary")
    if not isinstance(summary, list):
        return block
    texts = [cast(_Block, part).get("text") for part in cast("list[Any]", summary) if isinstance(part, dict)]
    words = "\n\n".join(text for text in texts if isinstance(text, str))
    read: _Block = {"type": "reasoning", "reasoning": block.get("reasoning") or words}
    return _with_rest(read, block, ("summary", "reasoning"))


def _thinking(block: _Block) -> _Block:
    return _with_rest({"type": "reasoning", "reasoning": block.get("thinking") or ""}, block, ("thinking",))


def _image_url(block: _Block) -> _Block | None:
    image = block.get("image_url")
    nested = cast(_Block, image) if isinstance(image, dict) else {"url": image}
    url = nested.get("url")
    if not isinstance(url, str):
        return None
    read: _Block = {"type": "image", **_from_url(url)}
    rest = {**block, **{key: value for key, value in nested.items() if key != "url"}}
    return _with_rest(read, rest, ("image_url",))


def _input_image(block: _Block) -> _Block | None:
    if isinstance(block.get("file_id"), str):
        return _with_rest({"type": "image", "file_id": block["file_id"]}, block, ("file_id", "image_url"))
    return _image_url(block)


def _input_audio(block: _Block) -> _Block | None:
    audio = block.get("input_audio")
    if not isinstance(audio, dict) or "data" not in audio:
        return None
    audio = cast(_Block, audio)
    mime = f"audio/{audio.get('format') or 'wav'}"
    return _with_rest({"type": "audio", "base64": audio["data"], "mime_type": mime}, block, ("input_audio",))


def _file(block: _Block) -> _Block | None:
    nested = block.get("file")
    if isinstance(nested, dict):
        return _openai_file({**{k: v for k, v in block.items() if k != "file"}, **cast(_Block, nested)})
    return _media(block)


def _openai_file(block: _Block) -> _Block | None:
    read: _Block = {"type": "file"}
    if isinstance(block.get("file_data"), str):
        read |= _from_url(block["file_data"])
        if "url" in read:  # bare base64
            read["base64"] = read.pop("url")
    elif isinstance(block.get("file_id"), str):
        read["file_id"] = block["file_id"]
    elif isinstance(block.get("file_url"), str):
        read["url"] = block["file_url"]
    else:
        return None
    return _with_rest(read, block, ("file_data", "file_id", "file_url"))


def _media(block: _Block) -> _Block | None:
    """Anthropic's `source`, the older `source_type` form, or the standard itself."""
    source = block.get("source")
    kind = block["type"]
    if isinstance(source, dict):
        read = _from_source(cast(_Block, source))
        if read is None:
            return None
        target = "file" if kind == "document" else kind
        if "text" in read:
            target = "text-plain"
            if isinstance(block.get("title"), str):
                read["title"] = block["title"]
        return _with_rest({"type": target, **read}, block, ("source", *(("title",) if "title" in read else ())))
    form = block.get("source_type")
    if form is None:
        return block if kind in STANDARD_TYPES else None
    name = {"base64": "base64", "url": "url", "id": "file_id", "text": "text"}.get(form)
    if name is None:
        return None
    value = next((block[key] for key in ("data", "url", "id", "text") if isinstance(block.get(key), str)), None)
    if value is None:
        return None
    if name == "text":
        kind = "text-plain"
    read = {"type": kind, name: value}
    if isinstance(block.get("mime_type"), str):
        read["mime_type"] = block["mime_type"]
    used = ("source_type", "data", "url", "text", "mime_type", "metadata")
    rest = {key: value for key, value in block.items() if key != "id" or name != "file_id"}
    rest.update(cast(_Block, block.get("metadata") or {}))
    return _with_rest(read, rest, used)


def _from_source(source: _Block) -> _Block | None:
    kind = source.get("type")
    mime: _Block = {"mime_type": source["media_type"]} if isinstance(source.get("media_type"), str) else {}
    if kind == "base64" and isinstance(source.get("data"), str):
        return {"base64": source["data"], **mime}
    if kind == "text" and isinstance(source.get("data"), str):
        return {"text": source["data"], **mime}
    if kind == "url" and isinstance(source.get("url"), str):
        return {"url": source["url"]}
    if kind == "file" and isinstance(source.get("file_id"), str):
        return {"file_id": source["file_id"]}
    return None


def _google_media(block: _Block) -> _Block | None:
    mime = block.get("mime_type")
    kind = str(mime).partition("/")[0]
    read: _Block = {"type": kind if kind in ("image", "audio", "video") else "file"}
    if isinstance(block.get("file_uri"), str):
        read["url"] = block["file_uri"]
    elif isinstance(block.get("data"), str):
        read["base64"] = block["data"]
    else:
        return None
    if mime:
        read["mime_type"] = mime
    return _with_rest(read, block, ("mime_type", "file_uri", "data"))


def _tool_use(block: _Block) -> _Block:
    raw = block.get("input")
    args = parse_arguments(raw if raw or "partial_json" not in block else block["partial_json"])
    read: _Block = {"type": "tool_call", "id": block.get("id"), "name": block.get("name")}
    read["args"] = {} if isinstance(args, str) else args
    return _with_rest(read, block, ("id", "name", "input", "partial_json", "caller"))


def _function_call(block: _Block) -> _Block:
    args = parse_arguments(block.get("arguments"))
    read: _Block = {"type": "tool_call", "id": block.get("call_id"), "name": block.get("name")}
    read["args"] = {} if isinstance(args, str) else args
    return _with_rest(read, {k: v for k, v in block.items() if k != "id"}, ("call_id", "name", "arguments"))


def _server_call(block: _Block) -> _Block:
    args = parse_arguments(block.get("input"))
    read: _Block = {"type": "server_tool_call", "id": block.get("id"), "name": block.get("name")}
    read["args"] = {} if isinstance(args, str) else args
    return _with_rest(read, block, ("id", "name", "input", "partial_json"))


def _server_result(block: _Block) -> _Block | None:
    if not isinstance(block.get("tool_use_id"), str):
        return None
    output = block.get("content")
    failed = block.get("is_error") or (
        isinstance(output, dict) and str(cast(_Block, output).get("type")).endswith("_error")
    )
    read: _Block = {
        "type": "server_tool_result",
        "tool_call_id": block["tool_use_id"],
        "status": "error" if failed else "success",
        "output": output,
    }
    return _with_rest({**read, "extras": {"block_type": block["type"]}}, block, ("tool_use_id", "content", "is_error"))


_READERS: Final[dict[str, Callable[[_Block], _Block | None]]] = {
    # words
    "text": _text,
    "input_text": _text,
    "output_text": _text,
    # thought
    "reasoning": _reasoning,
    "thinking": _thinking,
    # OpenAI's media
    "image_url": _image_url,
    "input_image": _input_image,
    "input_audio": _input_audio,
    "input_file": _openai_file,
    "file": _file,
    # Anthropic's, and the standard ones under the same names
    "image": _media,
    "audio": _media,
    "video": _media,
    "document": _media,
    # Gemini's
    "media": _google_media,
    # calls
    "tool_use": _tool_use,
    "function_call": _function_call,
    "server_tool_use": _server_call,
    "mcp_tool_use": _server_call,
}

_UNTYPED: Final[dict[str, Callable[[_Block], _Block | None]]] = {"text": _untyped_text, "image_url": _image_url}
"""Blocks without `type`, by their first key."""
