"""Request out: messages become the turns that are posted, and the system prompt beside them.

Rules:

- nothing of the caller's is changed, and a message that an answer has followed is always sent in the same way: each
  request of a conversation begins with the bytes of the one before, which is what the provider's cache goes by;
- system messages before all others are the prompt. A later one stands at the end of the user's turn beside it where the
  model takes that, else it joins the prompt;
- messages of one role that follow each other are one turn; the results of calls come first in theirs;
- what Claude sent goes back unchanged: thoughts with their signatures, encrypted ones, the calls and results of
  Anthropic's own tools. What another provider sealed stays out, and so does a thought without a signature, which would
  be refused; what was said, calls and results stay;
- the id of a call is made acceptable where another provider's is not, the same for the call and its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from loopwright.errors import UsageError
from loopwright.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from loopwright.messages.calls import shown_arguments, sound_name
from loopwright.models.anthropic.parts import content_parts

__all__ = ["PROVIDERS", "wire_messages"]

PROVIDERS: Final = frozenset({"anthropic", "bedrock", "anthropic-bedrock"})
"""Whose answers are Claude's: their signatures are good at each other's."""
_LONGEST_NAME: Final = 128
_SERVER_IDS: Final = ("srvtoolu_", "mcptoolu_")
"""How the ids of calls begin that Anthropic runs itself."""
_ROLES: Final = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "system": "system"}

_Block = dict[str, Any]


class _Turn:
    """What one side says until the other does."""

    __slots__ = ("blocks", "results", "role", "system")

    def __init__(self, role: str) -> None:
        self.role = role
        self.results: list[_Block] = []
        self.blocks: list[_Block] = []
        self.system: list[_Block] = []
        """Instructions that came beside it."""

    def wire(self) -> dict[str, Any]:
        return {"role": self.role, "content": _short([*self.results, *self.blocks])}


def wire_messages(
    messages: Sequence[BaseMessage], *, late_system: bool = False
) -> tuple[str | list[_Block], list[dict[str, Any]]]:
    """The system prompt, and the turns, oldest first. Raises `UsageError` for what cannot be sent.

    `late_system`: the model takes instructions between turns.
    """
    prompt: list[_Block] = []
    turns: list[_Turn] = []
    answered = frozenset(message.tool_call_id for message in messages if isinstance(message, ToolMessage))
    for message in messages:
        role = _role(message)
        if role == "system":
            if turns and late_system and turns[-1].role != "user":
                turns.append(_Turn("user"))  # the one that it comes before, if there will be one
            (turns[-1].system if turns and late_system else prompt).extend(content_parts(message.content))
            continue
        if not turns or turns[-1].role != role:
            turns.append(_Turn(role))
        if isinstance(message, ToolMessage):
            turns[-1].results.append(_result(message))
        elif isinstance(message, AIMessage):
            turns[-1].blocks += _assistant(message, answered)
        else:
            turns[-1].blocks += content_parts(message.content)
    lonely = [turn for turn in turns if turn.system and not (turn.results or turn.blocks)]
    prompt += [block for turn in lonely for block in turn.system]
    return _short(prompt), _sent([turn for turn in turns if turn not in lonely])


def _role(message: BaseMessage) -> str:
    if isinstance(message, (HumanMessage, ToolMessage)):
        return "user"
    if isinstance(message, AIMessage):
        return "assistant"
    if isinstance(message, SystemMessage):
        return "system"
    role = _ROLES.get(message.role) if isinstance(message, ChatMessage) else None
    if role is None:
        what = f"ChatMessage of role {message.role!r}" if isinstance(message, ChatMessage) else type(message).__name__
        raise UsageError(
            f"a {what} cannot be sent to Claude: send HumanMessage, AIMessage, SystemMessage or ToolMessage"
        )
    return role


def _sent(turns: list[_Turn]) -> list[dict[str, Any]]:
    """The turns that say something. The last may be an answer to go on from, which must not end in white space."""
    sent: list[dict[str, Any]] = []
    for turn in turns:
        wire = turn.wire()
        if turn.role == "assistant" and not wire["content"]:
            continue
        if sent and sent[-1]["role"] == turn.role:  # what stood between them said nothing
            wire = {"role": turn.role, "content": [*_listed(sent.pop()["content"]), *_listed(wire["content"])]}
        sent.append(wire)
        if turn.system:
            sent.append({"role": "system", "content": turn.system})
    if sent and sent[-1]["role"] == "assistant":
        sent[-1]["content"] = _trimmed(sent[-1]["content"])
    return sent


def _short(blocks: list[_Block]) -> str | list[_Block]:
    """A text alone as a string."""
    if not blocks:
        return ""
    only = blocks[0]
    return only["text"] if len(blocks) == 1 and only.get("type") == "text" and len(only) == 2 else blocks


def _listed(content: str | list[_Block]) -> list[_Block]:
    return ([{"type": "text", "text": content}] if content else []) if isinstance(content, str) else content


def _trimmed(content: str | list[_Block]) -> str | list[_Block]:
    if isinstance(content, str):
        return content.rstrip()
    last = content[-1]
    return [*content[:-1], {**last, "text": last["text"].rstrip()}] if last.get("type") == "text" else content


def _result(message: ToolMessage) -> _Block:
    parts = content_parts(message.content)
    wire: _Block = {"type": "tool_result", "tool_use_id": _sound_id(message.tool_call_id), "content": _short(parts)}
    if message.status == "error":
        wire["is_error"] = True
    if parts and "cache_control" in parts[-1]:  # the mark belongs to the result as a whole
        wire["cache_control"] = parts[-1]["cache_control"]
        last = {key: value for key, value in parts[-1].items() if key != "cache_control"}
        wire["content"] = _short([*parts[:-1], last])
    return wire


# -- the model's own turn -------------------------------------------------------------------------------------------


def _assistant(message: AIMessage, answered: frozenset[str]) -> list[_Block]:
    provider = message.response_metadata.get("provider") or message.response_metadata.get("model_provider")
    calls: dict[Any, _Block] = {call.get("id") or at: _call(call) for at, call in enumerate(message.tool_calls)}
    calls.update(
        (call["id"], _call({**call, "args": shown_arguments(call.get("args"))}))
        for call in message.invalid_tool_calls
        if call["id"] in answered
    )
    blocks: list[_Block] = []
    for item in [message.content] if isinstance(message.content, str) else message.content:
        block: _Block = {"type": "text", "text": item} if isinstance(item, str) else item
        if block.get("type") in ("tool_call", "tool_use"):
            made = calls.pop(block.get("id"), None)
            if made is None and block.get("id") in answered and isinstance(block.get("input"), dict):
                made = _call({**block, "args": block["input"]})  # a message that somebody wrote in Anthropic's form
        else:
            made = _said(block, provider)
        if made is not None:
            blocks.append(made)
    return [*blocks, *calls.values()]


def _said(block: _Block, provider: str | None) -> _Block | None:
    """One block of an answer, as it goes back; None if it does not. `provider`: who gave the answer, if it is known."""
    kind = block.get("type")
    ours = provider is None or provider in PROVIDERS
    if kind in (None, "text", "output_text", "refusal"):
        text = block.get("refusal") if kind == "refusal" else block.get("text")
        if not isinstance(text, str) or not text.strip():
            return None
        marks = {"cache_control": block["cache_control"]} if block.get("cache_control") else {}
        citations = _citations(block) if ours else []
        return {"type": "text", "text": text, **({"citations": citations} if citations else {}), **marks}
    if not ours or kind in ("input_json_delta", "tool_call_chunk", "invalid_tool_call", "server_tool_call_chunk"):
        return None
    if kind == "non_standard":
        value = block.get("value")
        return _said(cast("_Block", value), provider) if isinstance(value, dict) else None
    extras: dict[str, Any] = block.get("extras") or {}
    if kind == "reasoning":
        kind, block = "thinking", {"thinking": block.get("reasoning"), **extras}
    if kind == "thinking":
        signature = block.get("signature")
        thought = {"type": "thinking", "thinking": block.get("thinking") or "", "signature": signature}
        return thought if signature else None
    if kind == "server_tool_call":
        if provider is None and not str(block.get("id")).startswith(_SERVER_IDS):
            return None
        kind = "mcp_tool_use" if "server_name" in extras else "server_tool_use"
        return {"type": kind, "id": block.get("id"), "name": block.get("name"), "input": block.get("args"), **extras}
    if kind == "server_tool_result":
        return _server_result(block, extras)
    if provider is None and not _is_claudes(str(kind)):
        return None
    if str(kind).endswith("_tool_use") and not isinstance(block.get("input"), dict):
        return None  # cut off by the limit of tokens, and so without a result
    return {key: value for key, value in block.items() if key != "index"}


def _is_claudes(kind: str) -> bool:
    sealed = ("redacted_thinking", "container_upload", "compaction")
    return kind in sealed or kind.endswith(("_tool_use", "_tool_result"))


def _server_result(block: _Block, extras: dict[str, Any]) -> _Block | None:
    rest = {key: value for key, value in extras.items() if key != "block_type"}
    kind = extras.get("block_type")
    if kind is None:
        return None
    failed = {"is_error": block.get("status") == "error"} if kind == "mcp_tool_result" else {}
    return {"type": kind, "tool_use_id": block.get("tool_call_id"), "content": block.get("output"), **failed, **rest}


def _citations(block: _Block) -> list[_Block]:
    """Citations as they came, or from the standard form."""
    own: Any = block.get("citations")
    if isinstance(own, list):
        return [mark for mark in cast("list[Any]", own) if isinstance(mark, dict)]
    marks: Iterable[Any] = block.get("annotations") or ()
    made = (_citation(cast("_Block", mark)) for mark in marks if isinstance(mark, dict))
    return [mark for mark in made if mark is not None]


_CITED_BY: Final = {
    "encrypted_index": "web_search_result_location",
    "search_result_index": "search_result_location",
    "start_char_index": "char_location",
    "start_page_number": "page_location",
    "start_block_index": "content_block_location",
}
"""What tells the kinds of citations apart."""


def _citation(mark: _Block) -> _Block | None:
    extras: dict[str, Any] = mark.get("extras") or {}
    kind = next((kind for key, kind in _CITED_BY.items() if key in extras), None)
    if kind is None:
        return None
    title = "title" if kind in ("web_search_result_location", "search_result_location") else "document_title"
    known = {"url": mark.get("url"), "cited_text": mark.get("cited_text"), title: mark.get("title")}
    return {"type": kind, **{key: value for key, value in known.items() if value is not None}, **extras}


# -- calls ----------------------------------------------------------------------------------------------------------


def _call(call: Mapping[str, Any]) -> _Block:
    more = {"caller": call["caller"]} if call.get("caller") else {}
    return {
        "type": "tool_use",
        "id": _sound_id(call.get("id")),
        "name": sound_name(call.get("name"), _LONGEST_NAME),
        "input": call.get("args") or {},
        **more,
    }


def _sound_id(call_id: Any) -> str:
    """An id of letters, digits, `_` and `-`, which is all that the API takes."""
    text = str(call_id or "")
    if text.isascii() and text.replace("-", "_").replace("_", "a").isalnum():
        return text
    from hashlib import sha256

    return f"toolu_{sha256(text.encode('utf-8', 'replace')).hexdigest()[:24]}"
