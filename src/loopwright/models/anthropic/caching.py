"""Marks that tell Anthropic where to cache the prompt.

The provider looks at a request as tools, system prompt, turns, in this order, and reads from its cache what begins with
the same bytes up to a mark. Rules:

- the marks are set on a body that is ready to be sent: at the end of the tools, of the prompt and of the turns;
- a mark that is there already stays, and counts: a request may have four;
- a text that gets a mark becomes a block; a thought takes none, so the mark goes to what is before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from loopwright.errors import UsageError

__all__ = ["cache_mark", "set_marks"]

_MOST: Final = 4
_UNMARKED: Final = frozenset({"thinking", "redacted_thinking"})


def cache_mark(wanted: Any) -> dict[str, Any] | None:
    """True, "5m", "1h" or a mark in Anthropic's form, as a mark; None for None and False. Raises `UsageError`."""
    if wanted is None or wanted is False:
        return None
    if wanted is True:
        return {"type": "ephemeral"}
    if wanted in ("5m", "1h"):
        return {"type": "ephemeral", "ttl": wanted}
    if isinstance(wanted, dict):
        return cast("dict[str, Any]", wanted)
    raise UsageError(f'prompt_caching is True, False, "5m" or "1h", not {wanted!r}')


def set_marks(body: dict[str, Any], mark: dict[str, Any]) -> None:
    """Mark the ends in `body`, which is changed: its lists and last blocks are made anew, not those of the caller."""
    left = _MOST - sum(1 for _ in _marks(body))
    turns: list[dict[str, Any]] = body["messages"]
    if left > 0 and turns:
        content, done = _marked(turns[-1]["content"], mark)
        body["messages"] = [*turns[:-1], {**turns[-1], "content": content}]
        left -= done
    for key in ("system", "tools"):
        if left > 0 and body.get(key):
            body[key], done = _marked(body[key], mark)
            left -= done


def _marks(body: dict[str, Any]) -> Iterator[Any]:
    if "cache_control" in body:
        yield body["cache_control"]
    turns = [block for turn in body["messages"] for block in _blocks(turn["content"])]
    for block in [*_blocks(body.get("tools")), *_blocks(body.get("system")), *turns]:
        if "cache_control" in block:
            yield block["cache_control"]
        yield from (inner for inner in _blocks(block.get("content")) if "cache_control" in inner)


def _blocks(content: Any) -> list[dict[str, Any]]:
    found = cast("list[Any]", content) if isinstance(content, list) else []
    return [cast("dict[str, Any]", block) for block in found if isinstance(block, dict)]


def _marked(content: str | list[Any], mark: dict[str, Any]) -> tuple[Any, int]:
    """The content with a mark on its last block that takes one, and how many marks that added."""
    if isinstance(content, str):
        return ([{"type": "text", "text": content, "cache_control": mark}], 1) if content.strip() else (content, 0)
    for at in reversed(range(len(content))):
        block: dict[str, Any] = content[at]
        if "cache_control" in block:
            return content, 0
        if block.get("type") not in _UNMARKED and not block.get("defer_loading"):
            return [*content[:at], {**block, "cache_control": mark}, *content[at + 1 :]], 1
    return content, 0
