"""How a run ends that reaches a limit, and what the end of a reply means.

A limit is an exit like others: calls that are open get a result that says they were not run, and the last message says
what was reached. `on_limit` may ask for something else than that notice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from loopwright.agents.limits import Reached
from loopwright.agents.middleware.checks import is_async_callable
from loopwright.agents.stop import NOTICE_KEY, notice
from loopwright.errors import UsageError
from loopwright.graph.events import LimitReached
from loopwright.messages import AIMessage, AnyMessage, ToolMessage
from loopwright.messages.plain import is_dict

if TYPE_CHECKING:
    from loopwright.agents.asking import Asker, Reply
    from loopwright.graph.task import Task

__all__ = ["Ending", "OnLimit", "is_malformed", "not_run"]

OnLimit = str | Callable[..., Any]
"""`"stop"`: end with a notice. `"answer"`: let the model answer once more, without tools. `"raise"`: raise
`LimitReachedError`. A function `(reached, state)`: returns the text or the `AIMessage` to end with."""

_CHOICES: Final = ("stop", "answer", "raise")
_ANSWER_NOW: Final = "{sentence} Answer now with what you know, in words; no more tools can be used."


class Ending:
    """The rules for the end of one agent's runs."""

    def __init__(self, on_limit: OnLimit = "stop") -> None:
        if not callable(on_limit) and on_limit not in _CHOICES:
            raise UsageError(
                f"on_limit={on_limit!r}: use {', '.join(map(repr, _CHOICES))} or a function (reached, state) -> text."
            )
        self.on_limit = on_limit

    async def stop(self, task: Task, reached: Reached, asker: Asker, reply: Reply | None = None) -> Any:
        """The update that ends the run; `reply` is one whose calls are not to be run."""
        run = task.run
        run.budget.ended = reached
        if run.wants(LimitReached):
            run.emit(LimitReached, reached.limit, reached.sentence)
        before: list[AnyMessage] = []
        if reply is not None:
            before = [*reply.messages, *(not_run(call, reached.not_run) for call in reply.calls)]
        if self.on_limit == "raise":
            raise reached.error()
        last = await self._last_words(task, reached, asker, before)
        run.stop_reason = reached.limit
        if reply is None:
            return {"messages": [last]}
        reply.messages = [*before, last]
        return reply.update

    async def _last_words(self, task: Task, reached: Reached, asker: Asker, before: list[AnyMessage]) -> AIMessage:
        said: Any = None
        if self.on_limit == "answer":
            said = await asker.ask_for_words(
                task, [*task.input["messages"], *before], _ANSWER_NOW.format(sentence=reached.sentence)
            )
        elif callable(self.on_limit):
            is_async = is_async_callable(self.on_limit)
            said = await task.port.call(self.on_limit, reached, task.run.handed(task.input), is_async=is_async)
        if isinstance(said, str) and said:
            said = AIMessage(said)
        if isinstance(said, AIMessage) and not said.tool_calls and not said.invalid_tool_calls and said.text:
            return (
                said.model_copy(update={"response_metadata": {**said.response_metadata, NOTICE_KEY: reached.limit}})
                if self.on_limit != "answer"
                else said
            )
        return notice(cast(Any, reached.limit), reached.sentence, id=task.port.new_id())

    def reason(self, reply: AIMessage) -> str:
        """Why a run ends whose last reply asks for no tool."""
        if _says_something(reply):
            return "answer"
        return "malformed_turn" if is_malformed(reply) else "empty_turn"


def is_malformed(reply: AnyMessage) -> bool:
    """Whether a reply says nothing because the model or its provider failed, not because it has nothing to say."""
    if not isinstance(reply, AIMessage) or reply.tool_calls or reply.invalid_tool_calls or _says_something(reply):
        return False
    metadata = reply.response_metadata
    words = [str(metadata.get(key) or "").lower() for key in ("finish_reason", "raw_finish_reason")]
    return any("malformed" in word or word in _FAILED for word in words)


def _says_something(reply: AIMessage) -> bool:
    """Whether a reply is for its reader: words, a refusal, a picture. What the model has only thought is not."""
    if reply.content.__class__ is str or not reply.content:
        return bool(reply.content)
    return bool(reply.text) or any(is_dict(part) and part.get("type") not in _NO_WORDS for part in reply.content)


_NO_WORDS: Final = frozenset({None, "text", "output_text", "input_text", "reasoning", "thinking", "redacted_thinking"})
"""Types of blocks that say nothing, where none of them has text."""

_FAILED: Final = frozenset({"error", "other", "unexpected_tool_call", "failed", "unknown"})


def not_run(call: Any, why: str) -> ToolMessage:
    """The result of a call that was not run."""
    return ToolMessage(why, tool_call_id=call["id"] or "", name=call.get("name") or None, status="error")
