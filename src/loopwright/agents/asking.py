"""Asking the model: one call with everything around it, and what its reply amounts to.

The tools are bound once when the agent is made; a call that no hook has changed costs no binding. What is sent is a
valid history, whatever hooks have done to it. Wrap hooks see a
`ModelRequest` and may change it, call the model any number of times, or not at all. The reply is read for a structured
answer inside of them, so that a hook sees the result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, Final, cast

from loopwright.agents.ending import is_malformed
from loopwright.agents.limits import Budget, Reached
from loopwright.agents.middleware.decorators import with_prompt
from loopwright.agents.middleware.hooks import Hook, normalize_model_result
from loopwright.agents.middleware.types import ModelRequest, ModelResponse
from loopwright.agents.stop import is_notice, notice
from loopwright.errors import BudgetSpent, UsageError
from loopwright.graph.events import AnswerGrew
from loopwright.graph.types import Command
from loopwright.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from loopwright.messages.base import with_id
from loopwright.messages.history import History
from loopwright.messages.pairing import repair_history, with_call_ids
from loopwright.scope import RunnableConfig

if TYPE_CHECKING:
    from loopwright.agents.answers import AnswerPlan
    from loopwright.agents.turns import Turn
    from loopwright.graph.task import Task

__all__ = ["Asker", "Reply", "model_of"]

_Ask = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]

_NOTHING: Final[dict[str, Any]] = {}
_MALFORMED = "The model's reply could not be read, twice; nothing was answered."


class Reply:
    """What came of asking the model: messages to store, and calls to run."""

    __slots__ = ("calls", "commands", "messages", "reached", "structured")

    def __init__(self, messages: Sequence[AnyMessage]) -> None:
        self.messages = messages
        self.calls: Sequence[Any] = ()
        """Calls that are to be run."""
        self.structured: Any = None
        self.commands: list[Command[Any]] = []
        """Changes of the state that hooks have added."""
        self.reached: Reached | None = None
        """A limit that forbids running the calls."""

    @property
    def update(self) -> Any:
        """The change of the state, as a node returns it."""
        update: dict[str, Any] = {"messages": self.messages}
        if self.structured is not None:
            update["structured_response"] = self.structured
        return [update, *self.commands] if self.commands else update


class Asker:
    """The model of one agent, and how it is asked."""

    def __init__(
        self,
        model: Any,
        tools: Sequence[Any],
        *,
        system: SystemMessage | None,
        strategy: Any,
        hooks: Sequence[Hook],
        name: str | None,
        serves_others: bool = False,
    ) -> None:
        self.model, self.tools, self.system, self.strategy = model, list(tools), system, strategy
        self.hooks, self.name = tuple(hooks), name
        self.serves_others = serves_others
        """Whether a hook may run tools that the agent does not have."""
        self.plan = _plan_of(strategy, model, self.tools)
        self.bound = self._bind(model, self.tools, None, {}, self.plan)
        self.marks = _marks_of(self.bound)

    async def ask(self, task: Task, messages: list[AnyMessage]) -> Reply:
        """One reply. A malformed one is asked for once more, then it ends the run."""
        reply = await self._ask(task, messages)
        if is_malformed(reply.messages[0]) and task.run.budget.before_model() is None:
            reply = await self._ask(task, messages)
            if is_malformed(reply.messages[0]):
                reply.messages = [*reply.messages, notice("malformed_turn", _MALFORMED, id=task.port.new_id())]
        return reply

    def _ask(self, task: Task, messages: list[AnyMessage]) -> Awaitable[Reply]:
        given: Any = messages
        valid: Any = repair_history(given)
        messages = valid
        if self.hooks:
            return self._ask_through_hooks(task, messages)
        sent = messages if self.system is None else [self.system, *messages]
        return self._called(task, self.bound, sent, messages, self.plan)

    def answered(self, turn: Turn) -> bool:
        """Whether the last turn holds an accepted structured answer."""
        plan = self.plan
        if plan is None or turn.reply is None:
            return False
        if not turn.calls:
            return turn.last is turn.reply and plan.kwargs != {} and not is_notice(turn.reply)
        accepted = {r.tool_call_id for r in turn.results if r.status != "error"}
        return any(call["name"] in plan.schemas and call["id"] in accepted for call in turn.calls if plan.tools)

    async def ask_for_words(self, task: Task, messages: list[AnyMessage], prompt: str) -> AIMessage | None:
        """A last answer without tools; None if the model fails at it."""
        system = [] if self.system is None else [self.system]
        try:
            sent = [*system, *_valid(messages), HumanMessage(prompt)]
            reply = await self._called(task, self.model, sent, messages, None)
        except Exception:  # noqa: BLE001 - the run has ended with a limit already, which is what its caller must hear
            return None
        return cast(AIMessage, reply.messages[0])

    # ---- one call

    async def _called(
        self, task: Task, model: Any, sent: list[AnyMessage], history: list[AnyMessage], plan: AnswerPlan | None
    ) -> Reply:
        """Call the model once, within the time that is left, and read its reply."""
        run = task.run
        budget: Budget = run.budget
        teller = None
        if run.feed is not None:
            tags, metadata = self.marks if model is self.bound else _marks_of(model)
            teller = task.chunk_teller(tags, metadata)
            if plan is not None and run.wants(AnswerGrew):
                from loopwright.agents.growing import telling_growth

                teller = telling_growth(run, plan, tags, teller)
        call = model.respond(run.port, sent, stop=None, kwargs=_NOTHING, config=run.config, on_chunk=teller)
        if budget.timed:
            call = task.port.within(call, max(0.0, (budget.deadline or 0.0) - budget.clock()))
        message: AIMessage = await call
        known = task.input["messages"]
        if known.__class__ is History and known.buffer.index.get(message.id, len(known)) < len(known):
            message = with_id(message, task.port.new_id())  # a reply never takes the place of what was said before
        if self.name is not None and message.name is None:
            message = message.model_copy(update={"name": self.name})
        message = with_call_ids(message)
        reached = budget.after_model(message, history)  # charged here, so that retries of a hook count too
        reply = _amount(message, history, plan)
        reply.reached = reached
        return reply

    def _bind(
        self, model: Any, tools: Sequence[Any], choice: Any, settings: dict[str, Any], plan: AnswerPlan | None
    ) -> Any:
        """The model with tools, answer tools and settings bound to it."""
        offered = [*tools, *(plan.tools if plan else ())]
        settings = {**(plan.kwargs if plan else {}), **settings}
        if choice is None and plan is not None:
            choice = plan.tool_choice
        if choice is not None:
            settings["tool_choice"] = choice
        if offered:
            return model.bind_tools(offered, **settings)
        return model.bind(**settings) if settings else model

    # ---- hooks around it

    async def _ask_through_hooks(self, task: Task, messages: list[AnyMessage]) -> Reply:
        commands: list[Command[Any]] = []
        replies: list[tuple[ModelResponse[Any], Reply]] = []
        budget: Budget = task.run.budget
        attempts = 0

        async def innermost(request: ModelRequest[Any]) -> ModelResponse[Any]:
            nonlocal attempts
            attempts += 1
            if attempts > 1 and (reached := budget.before_model()) is not None:  # the loop has asked for the first
                raise BudgetSpent(reached)
            reply = await self._ask_as(task, request, messages)
            response = ModelResponse[Any](list(reply.messages), reply.structured)
            replies.append((response, reply))
            return response

        ask: _Ask = innermost
        for hook in reversed(self.hooks):
            ask = _around(task, hook, ask, commands)
        response = await ask(self._request(task, messages))
        reply = next((reply for made, reply in replies if made is response), None)
        if reply is None:
            reply = self._foreign(response, messages)
        else:
            reply.messages = response.result
        if response.structured_response is not None:
            reply.structured = response.structured_response
        reply.commands = commands
        return reply

    def _request(self, task: Task, messages: list[AnyMessage]) -> ModelRequest[Any]:
        return ModelRequest(
            model=self.model,
            messages=list(messages),
            system_message=self.system,
            tools=list(self.tools),
            response_format=self.strategy,
            state=task.run.handed(task.input),
            runtime=task.runtime,
        )

    async def _ask_as(self, task: Task, request: ModelRequest[Any], history: list[AnyMessage]) -> Reply:
        """Call the model as a hook wants it; `history` is what the hooks were given, which is valid."""
        same_form = request.response_format is self.strategy
        model = model_of(request.model)
        plan = self.plan if same_form else _plan_of(request.response_format, model, request.tools)
        same = model is self.model and request.tools == self.tools and plan is self.plan
        if same and not request.model_settings and request.tool_choice is None:
            bound = self.bound
        else:
            self._check_offer(request.tools)
            bound = self._bind(model, request.tools, request.tool_choice, request.model_settings, plan)
        system = request.system_message
        messages = request.messages
        if len(messages) != len(history) or not all(map(is_, messages, history)):
            messages = _valid(messages)
        sent = list(messages) if system is None else [system, *messages]
        return await self._called(task, bound, sent, messages, plan)

    def _check_offer(self, tools: Sequence[Any]) -> None:
        """Raise for a tool that a hook would offer the model and that nobody would run."""
        if self.serves_others:
            return
        known = [_name_of(tool) for tool in self.tools]
        for tool in tools:
            if not isinstance(tool, Mapping) and _name_of(tool) not in known:
                raise UsageError(
                    f"A wrap_model_call hook offers the model tool {_name_of(tool)!r}, which this agent cannot run: "
                    "give it to create_agent(tools=[...]) and let the hook leave it out when it is not wanted, or run "
                    "it in a wrap_tool_call hook."
                )

    def _foreign(self, response: ModelResponse[Any], history: list[AnyMessage]) -> Reply:
        """A response that a hook has made itself. A bare message is read as if the model had given it."""
        message = response.result[0]
        if isinstance(message, AIMessage) and len(response.result) == 1 and response.structured_response is None:
            return _amount(with_call_ids(message), history, self.plan)
        reply = Reply(response.result)
        if isinstance(message, AIMessage):
            done = {getattr(m, "tool_call_id", None) for m in response.result}
            reply.calls = [
                call for call in (*message.tool_calls, *message.invalid_tool_calls) if call["id"] not in done
            ]
        return reply


def model_of(model: Any) -> Any:
    """The chat model that a name, a model of ours or one of LangChain's stands for. Raises `UsageError`."""
    if isinstance(model, str):
        from loopwright.models.catalogue import init_chat_model

        return init_chat_model(model)
    if hasattr(model, "respond") and not isinstance(model, type):
        return model
    if not isinstance(model, type):
        from loopwright.models.langchain import adapted

        theirs = adapted(model)
        if theirs is not None:
            return theirs
    hint = f"Make one: {model.__name__}(...)." if isinstance(model, type) else 'Give "provider:name", or a chat model.'
    raise UsageError(f"model={model!r:.80} is no chat model (a {type(model).__name__}). {hint}")


def _plan_of(strategy: Any, model: Any, tools: Sequence[Any]) -> AnswerPlan | None:
    """What the strategy means for the model; without one, nothing of structured answers is imported."""
    if strategy is None:
        return None
    from loopwright.agents.answers import plan_answers

    return plan_answers(strategy, model, beside_tools=bool(tools))


def _name_of(tool: Any) -> Any:
    return getattr(tool, "name", None) or getattr(tool, "__name__", None)


def _marks_of(model: Any) -> tuple[Sequence[str], Mapping[str, Any] | None]:
    """Tags and metadata that a model has of its own; they are told with its tokens."""
    own: RunnableConfig = model.call_config({}) if hasattr(model, "call_config") else {}
    return own.get("tags") or (), own.get("metadata")


def _amount(message: AIMessage, history: list[AnyMessage], plan: AnswerPlan | None) -> Reply:
    """What a message of the model amounts to. Raises for a structured answer that is not to be tried again."""
    reply = Reply([message])
    if plan is None:
        reply.calls = (
            [*message.tool_calls, *message.invalid_tool_calls] if message.invalid_tool_calls else message.tool_calls
        )
        return reply
    outcome = plan.read(message, history)
    if outcome.error is not None:
        raise outcome.error
    reply.messages = [message, *outcome.results, *([outcome.reminder] if outcome.reminder else ())]
    reply.calls = [*outcome.calls, *outcome.invalid_calls]
    reply.structured = outcome.structured_response
    return reply


def _valid(messages: list[AnyMessage]) -> list[AnyMessage]:
    """What is sent is valid, also where a hook has taken out half of a pair or put something between."""
    history: Any = messages
    mended: Any = repair_history(history)
    return mended


def _around(task: Task, hook: Hook, inner: _Ask, commands: list[Command[Any]]) -> _Ask:
    """One wrap hook around what is inside of it."""
    port = task.port
    if hook.prompt is not None:
        prompt, is_async = hook.prompt, hook.coro is not None

        async def prompted(request: ModelRequest[Any]) -> ModelResponse[Any]:
            return await inner(with_prompt(request, await port.call(prompt, request, is_async=is_async), hook.name))

        return prompted
    function, is_async = hook.pick(port.asynchronous)

    async def wrapped(request: ModelRequest[Any]) -> ModelResponse[Any]:
        answer = await port.bridge(function, inner, request, is_async=is_async)
        response, command = normalize_model_result(answer, hook.name)
        if command is not None:
            commands.append(command)
        return response

    return wrapped
