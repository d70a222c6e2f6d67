"""The loop: ask the model, run the tools it asks for, and again, until nothing is left to do.

        ┌──────────── again ────────────┐
    model ── asks for tools? ── yes → tools      each call is a task of its own; they run at the same time
        └── no, or a limit → end

Two nodes and the two questions "go on?" after them; `factory.py` wires them into a graph with the hooks around. Rules:

- it always ends, and with a reason: before each model call the budget is asked, and what is reached becomes the last
  message (`Ending`);
- the history is valid whatever happens: a reply that asks for tools is stored together with "not run" results, or its
  calls are run;
- an empty reply is never an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loopwright.agents.asking import Asker
from loopwright.agents.calling import Caller
from loopwright.agents.ending import Ending
from loopwright.agents.limits import Budget, Reached, ended_by
from loopwright.agents.stop import NOTICE_KEY, is_reminder
from loopwright.agents.turns import Turn, last_turn, sent_state
from loopwright.checkpoint.record import NO_ARG
from loopwright.errors import BudgetSpent
from loopwright.graph.types import Send
from loopwright.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

if TYPE_CHECKING:
    from loopwright.graph.task import Task

__all__ = ["Loop"]


class Loop:
    """The loop of one agent. Holds no state of a run."""

    def __init__(self, asker: Asker, caller: Caller, ending: Ending, *, again: str, exit: str) -> None:
        self.asker, self.caller, self.ending = asker, caller, ending
        self.again = again
        """The node that begins the next round: the first `before_model` hook, or the model."""
        self.exit = exit
        """Where a run goes to end: the first `after_agent` hook, or END."""

    async def model(self, task: Task) -> Any:
        """Node: one reply of the model, or the end."""
        run = task.run
        budget: Budget = run.budget
        run.stop_reason = None
        budget.granted = 0
        if task.arg is not NO_ARG:
            task.input = sent_state(task.input, task.name)
        messages: list[AnyMessage] = task.input["messages"]
        reached = budget.ended or self._account(budget, messages) or budget.before_model()
        if reached is not None:
            return await self.ending.stop(task, reached, self.asker)
        try:
            reply = await self.asker.ask(task, messages)
        except TimeoutError:
            reached = budget.out_of_time()
            if reached is None:
                raise
            return await self.ending.stop(task, reached, self.asker)
        except BudgetSpent as spent:
            return await self.ending.stop(task, spent.reached, self.asker)
        calls = reply.calls
        if reply.structured is not None:
            run.stop_reason = "structured_answer"
        if calls:
            reached = reply.reached or budget.reserve_tools(len(calls))
            if reached is not None:
                return await self.ending.stop(task, reached, self.asker, reply)
            budget.granted = len(calls)
        return reply.update

    def after_model(self, task: Task, state: Mapping[str, Any]) -> Sequence[str | Send] | str:
        """Question: tools, another try, or the end?"""
        jump = state.get("jump_to")
        if jump is not None:
            return self.jump(task, state, jump)
        messages = state["messages"]
        last = messages[-1]
        if last.__class__ is AIMessage and last.tool_calls and not last.invalid_tool_calls:  # nearly every turn
            return self._to_tools(task, last.tool_calls)
        turn = last_turn(messages)
        return self._to_tools(task, turn.open) or self._end_or_again(task, turn)

    def after_tools(self, task: Task, state: Mapping[str, Any]) -> str:
        """Question: another round, or was that the answer?"""
        if ended_by(task.run) is not None:
            return self.exit if task.run.stop_reason else self.again
        turn = last_turn(state["messages"])
        direct = self.caller.direct_result(turn)
        if direct is not None:
            task.run.stop_reason, task.run.said = "return_direct", direct.text
            return self.exit
        if task.run.stop_reason == "structured_answer" or self.asker.answered(turn):
            task.run.stop_reason = "structured_answer"
            return self.exit
        return self.again

    def jump(
        self, task: Task, state: Mapping[str, Any], target: str, leave: str | None = None
    ) -> Sequence[str | Send] | str:
        """Where a hook has sent the run. One that a limit has ended only leaves."""
        run = task.run
        over = run.stop_reason is not None and ended_by(run) is not None
        if target == "model" and not over:
            return self.again
        if target == "tools" and (sends := self._to_tools(task, last_turn(state["messages"]).open)):
            return sends
        if not over:
            run.stop_reason = "jump"
        return leave or self.exit

    def _to_tools(self, task: Task, waiting: Sequence[Mapping[str, Any]]) -> list[str | Send]:
        """Open calls on their way to the tools. Those that a hook has added are asked for here; a limit that is reached
        makes all of them "not run".
        """
        budget: Budget | None = task.run.budget
        if budget is not None and budget.ended is None:
            added, budget.granted = len(waiting) - budget.granted, 0
            budget.ended = budget.reserve_tools(added) if added > 0 else None
        return [Send("tools", [call]) for call in waiting]

    def _end_or_again(self, task: Task, turn: Turn) -> str:
        run, last = task.run, turn.last
        if run.stop_reason is not None:
            return self.exit
        if self.asker.answered(turn):
            run.stop_reason = "structured_answer"
        elif isinstance(last, AIMessage):
            run.stop_reason = last.response_metadata.get(NOTICE_KEY) or self.ending.reason(last)
        elif turn.results or (isinstance(last, HumanMessage) and is_reminder(last)):
            return self.again
        return self.exit

    def _account(self, budget: Budget, messages: list[AnyMessage]) -> Reached | None:
        """What the turn that has just ended means for the limits on repetition and failure."""
        if not messages or not isinstance(messages[-1], ToolMessage):
            return None
        turn = last_turn(messages)
        return budget.after_turn(turn.calls, turn.paired(), None if turn.reply is None else turn.reply.id)
