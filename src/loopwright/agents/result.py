"""What `invoke` returns: the final state as a dictionary, and what the run has to say about itself.

The keys are exactly those of the state. What is not state (why the run ended, what it used) stands in attributes, and
so do the two questions that everybody asks: what did the model say, and in which message. Attributes that people
expect and that are not there raise an `AttributeError` that shows what to write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, cast, overload

from msgspec import Struct

from loopwright.agents.stop import StopReason, is_notice
from loopwright.messages import AIMessage, HumanMessage, ToolMessage

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # with a default, so that a bare `AgentResult` is fully typed

    from loopwright.graph.types import Interrupt
    from loopwright.messages import AnyMessage, ToolCall

    ResponseT = TypeVar("ResponseT", default=Any)
else:
    from typing import TypeVar

    ResponseT = TypeVar("ResponseT")

__all__ = ["AgentResult"]


class _Report(Struct, frozen=True):
    """What is known of the run and is not state."""

    stop_reason: StopReason
    usage: dict[str, Any]
    cost: float | None
    interrupts: tuple[Interrupt, ...]
    said: str | None


_SHOWN: Final = 20
"""Messages in the `repr` of a result."""


class _Left:
    """So many messages that are not shown."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __repr__(self) -> str:
        return f"... {self.count:,} earlier"


class AgentResult(dict[str, Any], Generic[ResponseT]):
    """The final state of a run. Compares, copies and pickles as a dictionary; attributes are copied along."""

    __slots__ = ("_report",)

    _report: _Report

    def __init__(
        self,
        state: Mapping[str, Any],
        *,
        stop_reason: StopReason,
        usage: dict[str, Any] | None = None,
        cost: float | None = None,
        interrupts: Sequence[Interrupt] = (),
        said: str | None = None,
    ) -> None:
        """`said` is the text of a `return_direct` result."""
        super().__init__(state)
        self._report = _Report(stop_reason, {} if usage is None else usage, cost, tuple(interrupts), said)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, key: Literal["structured_response"], /) -> ResponseT: ...
        @overload
        def __getitem__(self, key: Literal["messages"], /) -> list[AnyMessage]: ...
        @overload
        def __getitem__(self, key: str, /) -> Any: ...
        def __getitem__(self, key: str, /) -> Any: ...

    @property
    def stop_reason(self) -> StopReason:
        """Why the run ended; the whole set is in `loopwright.agents.stop`."""
        return self._report.stop_reason

    @property
    def usage(self) -> dict[str, Any]:
        """Tokens of all model calls, nested agents in: `input_tokens`, `output_tokens`, `total_tokens`, details."""
        return self._report.usage

    @property
    def cost(self) -> float | None:
        """What the model calls have cost, nested agents in, in US dollars; None if one of them has no known price."""
        return self._report.cost

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The questions that the run waits for; empty if it has ended."""
        return self._report.interrupts

    @property
    def final(self) -> AIMessage | None:
        """The message that holds the model's answer: its last one in this run that asks for no tool, or whose call is
        the answer that `response_format` asks for. None if it gave none.
        """
        return self._answer()[0]

    @property
    def text(self) -> str:
        """What the run ends by saying: the answer (a structured one as JSON), a `return_direct` result, the notice."""
        if self._report.said is not None:
            return self._report.said
        final, call = self._answer()
        if final is not None:
            return final.text if call is None else json.dumps(call["args"], ensure_ascii=False)
        messages = self._messages()
        last: Any = messages[-1] if messages else None
        return last.text if isinstance(last, ToolMessage) or is_notice(last) else ""

    def _answer(self) -> tuple[AIMessage | None, ToolCall | None]:
        """The message that holds the model's answer, and the call in it that is the answer, if a call is."""
        reason, after = self._report.stop_reason, None
        for message in reversed(self._messages()):
            if reason in _NO_ANSWER or isinstance(message, HumanMessage):
                break
            if isinstance(message, AIMessage) and not is_notice(message):
                if not message.tool_calls and not message.invalid_tool_calls:
                    return message, None
                if reason == "structured_answer":  # the answer's own result comes first, those of its siblings later
                    result = after.tool_call_id if isinstance(after, ToolMessage) else None
                    call = next((call for call in message.tool_calls if call["id"] == result), None)
                    return (None if call is None else message), call
            after = message
        return None, None

    def __repr__(self) -> str:
        """As a dict, with the last messages of a long history: `asyncio.run` writes out what its coroutine returned."""
        messages = self._messages()
        left = len(messages) - _SHOWN
        shown: dict[str, Any] = dict(self)
        if left > 0:
            shown["messages"] = [_Left(left), *messages[-_SHOWN:]]
        return repr(shown)

    def _messages(self) -> list[Any]:
        return cast("list[Any]", self.get("messages") or [])

    def copy(self) -> AgentResult[ResponseT]:
        """A shallow copy that keeps the attributes."""
        new = cast("AgentResult[ResponseT]", AgentResult.__new__(AgentResult))
        new.update(self)
        new._report = self._report
        return new

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            if name in self:
                raise AttributeError(f"an agent's result is a dictionary, the final state: write result[{name!r}]")
            hint = _HINTS.get(name)
            if hint is None:
                raise AttributeError(
                    f"an agent's result has no attribute {name!r}. It is the final state, a dictionary "
                    f"({', '.join(map(repr, self))}), with the attributes {_ATTRIBUTES}"
                )
            raise AttributeError(f"an agent's result has no attribute {name!r}: it is the final state. {hint}")


_NO_ANSWER: Final = ("malformed_turn", "empty_turn")
_ATTRIBUTES: Final = "final, text, usage, cost, stop_reason, interrupts"
_FOR_TEXT: Final = (
    'Write result.text for the text of the answer, result.final for its message, result["messages"] for all of them'
)
_HINTS: Final = {
    "content": _FOR_TEXT,
    "output": _FOR_TEXT,
    "output_text": _FOR_TEXT,
    "final_output": _FOR_TEXT,
    "message": _FOR_TEXT,
    "response": _FOR_TEXT,
    "messages": 'This one has no "messages": output_keys= left them out',
    "tool_calls": 'The calls are in the messages: [call for m in result["messages"] if m.type == "ai" '
    "for call in m.tool_calls]",
    "usage_metadata": "Write result.usage for the sum of the run, message.usage_metadata for one reply",
    "structured_response": 'There is one only with response_format=..., and then it is result["structured_response"]',
}
