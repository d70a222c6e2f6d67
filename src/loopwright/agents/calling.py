"""Calling tools: one call with everything around it.

Each call of a turn is a task of its own, so it has its own result, its own place in the streams, and is saved when it
ends. What a call can raise becomes its result (`handle_tool_errors`), so that one failing tool never takes its
siblings along.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from loopwright.agents.ending import not_run
from loopwright.agents.limits import Budget
from loopwright.agents.middleware.hooks import Hook, check_tool_result
from loopwright.agents.middleware.types import ToolCallRequest
from loopwright.agents.turns import calls_for
from loopwright.errors import BudgetSpent, Escalated, GraphInterrupt, UsageError
from loopwright.graph.answering import asking_call
from loopwright.graph.engine import raise_first
from loopwright.graph.events import ToolFinished, ToolStarted
from loopwright.messages import ToolMessage
from loopwright.tools import (
    BaseTool,
    ToolInvocationError,
    ToolRuntime,
    call_tool,
    invalid_call_message,
    unknown_tool_message,
)
from loopwright.tools.call import failed

if TYPE_CHECKING:
    from loopwright.agents.turns import Turn
    from loopwright.graph.task import Task

__all__ = ["Caller"]

_Call = Callable[[ToolCallRequest], Awaitable[Any]]


class Caller:
    """The tools of one agent, and how they are called."""

    def __init__(self, tools: Mapping[str, BaseTool], *, hooks: Sequence[Hook] = (), handle_errors: Any = True) -> None:
        self.tools = tools
        self.hooks = tuple(hooks)
        self.handle_errors = handle_errors
        self.any_direct = any(tool.return_direct for tool in tools.values())

    async def run(self, task: Task) -> Any:
        """Node: run the call that the loop sent here, or what a command has led here."""
        given = task.input
        if given.__class__ is not list or len(given) != 1 or given[0].__class__ is not dict or "args" not in given[0]:
            return await self.run_all(task, "messages")
        answer = await self.answer(task, given[0])
        return {"messages": [answer]} if isinstance(answer, ToolMessage) else _update([answer], "messages")

    async def run_all(self, task: Task, key: str) -> Any:
        """Run all calls that a task was given, at the same time; `key` is where the state has its messages."""
        calls = calls_for(task.input, task.name, key)
        limit = task.run.config.get("max_concurrency")
        answers = await task.port.gather([self._one_of_several(task, call) for call in calls], limit)
        asked = [answer for answer in answers if isinstance(answer, GraphInterrupt)]
        if any(isinstance(answer, BaseException) for answer in answers):  # what has ended is kept for the next time
            ended = ((call["id"], answer) for call, answer in zip(calls, answers, strict=True))
            task.finished = {id: answer for id, answer in ended if id and isinstance(answer, ToolMessage)}
        raise_first(answers)
        if asked:
            raise GraphInterrupt(tuple(interrupt for one in asked for interrupt in one.interrupts))
        return _update(answers, key)

    async def _one_of_several(self, task: Task, call: Any) -> Any:
        """A call that shares its task with others: what it asks is its own."""
        known = task.finished.get(call["id"])
        if known is not None:
            return known
        asking_call.set(str(call["id"] or ""))
        return await self.answer(task, call)

    async def answer(self, task: Task, call: Any) -> Any:
        """Run one call: its result, a `Command`, or a list of these."""
        run = task.run
        budget: Budget | None = run.budget
        ended = None if budget is None else budget.ended
        if ended is not None:
            return not_run(call, ended.not_run)
        if run.feed is not None and run.wants(ToolStarted):
            run.emit(ToolStarted, call["id"] or "", call["name"] or "", call["args"])
            await task.port.pause()
        if self.hooks:
            answer = await self._hooked(task, call)
        else:
            answer = await self._call(task, call, self.tools.get(call["name"]), self.handle_errors)
        if run.feed is not None and run.wants(ToolFinished):
            status, content = (answer.status, answer.content) if isinstance(answer, ToolMessage) else ("success", None)
            run.emit(ToolFinished, call["id"] or "", call["name"] or "", status, content)
        return answer

    def direct_result(self, turn: Turn) -> ToolMessage | None:
        """The result that answers the caller in the model's place, None if there is none."""
        if not self.any_direct:
            return None
        answers = turn.answers()
        for call in turn.calls:
            tool = self.tools.get(call["name"])
            result = answers.get(call["id"])
            if tool is not None and tool.return_direct and result is not None and result.status != "error":
                return result
        return None

    def _call(
        self, task: Task, call: Any, tool: BaseTool | None, handle_errors: Any, asked: Any = None
    ) -> Awaitable[Any]:
        """The call itself, ready to be awaited."""
        if call.get("type") == "invalid_tool_call":
            return _at_once(invalid_call_message(call))
        if tool is None:
            if task.has_unheard():
                raise Escalated(UsageError(_gone(call["name"], list(self.tools), task.run.thread_id)))
            return _at_once(unknown_tool_message(call, list(self.tools)))

        def run() -> Coroutine[Any, Any, Any]:
            return call_tool(
                tool,
                call,
                task.run.port,
                runtime=lambda: self._runtime(task, call),
                handle_errors=handle_errors,
                asked=asked,
                config=task.run.config,
            )

        budget: Budget | None = task.run.budget
        return run() if budget is None or not budget.timed else self._within(task, call, budget, run)

    async def _within(self, task: Task, call: Any, budget: Budget, run: Callable[[], Awaitable[Any]]) -> Any:
        """A call in the time that is left to the run."""
        own: list[TimeoutError] = []

        async def noted() -> Any:
            try:
                return await run()
            except TimeoutError as error:  # which `within` would raise in the same way as its own
                own.append(error)
                raise

        left_s = max(0.0, (budget.deadline or 0.0) - budget.clock())
        try:
            return await task.port.within(noted(), left_s)
        except TimeoutError as error:
            if error in own:
                raise
            words = f"Not finished: the run's time of {budget.time_limit:g} s is over."
            return ToolMessage(words, tool_call_id=call["id"] or "", name=call["name"], status="error")

    def _runtime(self, task: Task, call: Any) -> ToolRuntime[Any, Any]:
        run = task.run
        return ToolRuntime(
            state=run.shaped(run.handed(run.state)),
            context=run.context,
            config=task.config,
            stream_writer=task.writer,
            tool_call_id=call["id"],
            store=run.store,
            tools=list(self.tools.values()),
            execution_info=task.runtime.execution_info,
            server_info=None,
            budget=run.budget,
            idempotency_key=f"{run.thread_id or run.run_id}:{task.id}:{call['id']}",
        )

    async def _hooked(self, task: Task, call: Any) -> Any:
        """A call with wrap hooks around it.

        They see what the tool raises, so that a hook can try again; what they let through becomes a result. What they
        raise themselves is theirs and is raised.
        """
        raised: list[Exception] = []
        budget: Budget | None = task.run.budget
        attempts = 0

        async def innermost(request: ToolCallRequest) -> Any:
            nonlocal attempts
            attempts += 1
            if attempts > 1 and budget is not None and (reached := budget.reserve_tools(1)) is not None:
                budget.ended = reached  # the loop has asked for the first
                raise BudgetSpent(reached)
            try:
                return await self._call(task, request.tool_call, request.tool, ToolInvocationError, call)
            except Exception as error:
                raised.append(error)
                raise

        act: _Call = innermost
        for hook in reversed(self.hooks):
            act = _around(task, hook, act)
        runtime, tool = self._runtime(task, call), self.tools.get(call["name"])
        try:
            return await act(ToolCallRequest(call, tool, runtime.state, runtime))
        except BudgetSpent as spent:
            tried = "This call ran and may have had effects; it was not tried again"
            return not_run(call, f"{tried}: {spent.reached.what()}.")
        except Exception as error:
            if tool is None or not any(error is one for one in raised):
                raise
            return failed(error, tool, call["id"], task.port, self.handle_errors)


def _update(answers: Sequence[Any], key: str) -> Any:
    """What calls gave back, as what a node returns."""
    parts: list[Any] = []
    for answer in answers:
        parts += cast("list[Any]", answer) if isinstance(answer, list) else [answer]
    if all(isinstance(part, ToolMessage) for part in parts):
        return {key: parts}
    updates = [{key: [part]} if isinstance(part, ToolMessage) else part for part in parts]
    return updates[0] if len(updates) == 1 else updates


def _gone(name: str, there: Sequence[str], thread_id: str | None) -> str:
    """The words for a call that has asked a question, and whose tool was renamed before the answer came."""
    has = f"its tools are {', '.join(map(repr, there))}" if there else "it has no tools"
    return (
        f"Thread {thread_id!r} has an answer for tool {name!r}, which has asked a question and is no tool of this "
        f"agent; {has}. The answer is kept. Give the agent a tool of that name again, which may call the new one, "
        "and go on with invoke(None, config)."
    )


async def _at_once(answer: Any) -> Any:
    """What needs no running."""
    return answer


def _around(task: Task, hook: Hook, inner: _Call) -> _Call:
    """One wrap hook around what is inside of it."""
    function, is_async = hook.pick(task.port.asynchronous)

    async def wrapped(request: ToolCallRequest) -> Any:
        answer = await task.port.bridge(function, inner, request, is_async=is_async)
        return check_tool_result(answer, hook.name, request.tool_call)

    return wrapped
