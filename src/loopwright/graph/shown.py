"""Chunks that answer the usual mistakes of their readers.

They are the plain dict and the plain tuple that users know, and equal to them. What is asked of one by mistake (a token
of an update, a state of a token) is answered with the loop that would have worked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from opcode import opmap
from typing import Any, Final

__all__ = ["TokenPair", "UpdateChunk"]

_TOKENS: Final = 'for token, metadata in agent.stream(input, stream_mode="messages"): print(token.text)'
_UPDATES: Final = "for update in agent.stream(input): for node, change in update.items(): ..."
_RESULT: Final = "result = agent.invoke(input)"
_UNPACK: Final = opmap["UNPACK_SEQUENCE"]


class UpdateChunk(dict[str, Any]):
    """One step's change, `{node: update}`: what `updates`, the default mode, shows."""

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        code, at = frame.f_code.co_code, frame.f_lasti
        if len(self) == 1 and code[at] == _UNPACK and code[at + 1] == 2:
            raise TypeError(
                f'the default stream_mode is "updates", and its chunks are dicts, {{node: update}}, not pairs. '
                f"For single tokens write: {_TOKENS}"
            )
        return super().__iter__()

    def __missing__(self, key: str) -> Any:
        if key in ("messages", "structured_response"):
            nodes = list(self.keys())
            raise KeyError(
                f"{key!r}: this chunk is one step's change, {{node: update}} of {', '.join(map(repr, nodes))}, not the "
                f"state. Write chunk[{(nodes or ['model'])[0]!r}][{key!r}], "
                f'stream_mode="values" for whole states, or {_RESULT}'
            )
        raise KeyError(key)

    def __getattr__(self, name: str) -> Any:
        if name in ("content", "text", "tool_calls", "content_blocks"):
            raise AttributeError(
                f'a chunk of stream_mode="updates" (the default) is a dict, {{node: update}}, and has no {name!r}. '
                f"For single tokens write: {_TOKENS}. For the answer: {_RESULT}; result.text"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class TokenPair(tuple[Any, dict[str, Any]]):
    """One token and what is known of it, `(chunk, metadata)`: what `messages` shows."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name in ("items", "keys", "values", "get"):
            raise AttributeError(
                f'a chunk of stream_mode="messages" is a pair, (token, metadata), and has no {name!r}. '
                f"Write: {_TOKENS}. For the steps' changes: {_UPDATES}"
            )
        if name in ("content", "text", "tool_calls", "tool_call_chunks", "usage_metadata"):
            raise AttributeError(
                f'a chunk of stream_mode="messages" is a pair, (token, metadata), and has no {name!r}. Write: {_TOKENS}'
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
