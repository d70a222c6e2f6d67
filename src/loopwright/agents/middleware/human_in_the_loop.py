"""Asking a person before a tool runs: `HumanInTheLoopMiddleware`.

After each reply of the model, the calls that need a review are put to the caller, and the run pauses. What the caller
decides is written into the reply before anything runs, so that the history, the tool and the model's next input tell of
the same call. Rules:

- a call that is rejected, or answered by the person, has its result at once and never runs; its siblings do run;
- only what a tool would do is reviewed. A structured answer is the run's answer as soon as it is given, and a person
  would be asked and not heard: its name in `interrupt_on` is an error;
- an edit is checked against the tool's own schema, and every answer for its form, before it is accepted: a wrong one is
  an `InvalidAnswerError` for whoever gave it, and the question stays open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NotRequired, TypedDict, cast

from msgspec import structs

from loopwright.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    PrivateStateAttr,
    ToolCallRequest,
    ToolHandler,
)
from loopwright.errors import InvalidAnswerError, UsageError
from loopwright.graph.answering import ask_together
from loopwright.ids import new_id
from loopwright.messages import AIMessage, ToolMessage
from loopwright.messages.plain import is_dict
from loopwright.scope import current_scope
from loopwright.tools.call import why_unfit

if TYPE_CHECKING:
    from loopwright.graph.runtime import Runtime
    from loopwright.messages import ToolCall

__all__ = [
    "Action",
    "ActionRequest",
    "Decision",
    "DecisionType",
    "HITLRequest",
    "HITLResponse",
    "HumanInTheLoopMiddleware",
    "InterruptOnConfig",
    "ReviewConfig",
]

DecisionType = Literal["approve", "edit", "reject", "respond"]
_ALL: Final[tuple[DecisionType, ...]] = ("approve", "edit", "reject", "respond")
_EDITED: Final = "hitl_edited_tool_calls"
_ALIKE, _NEAR = 0.6, 0.82
"""Likeness from which on a name is one that may have been meant, and from which on it is taken for a slip even where
a hook may bring tools of any name."""
_EDIT_NOTICE: Final = "A person changed this call before it ran. This is the result of the call as changed."


class Action(TypedDict):
    """A call: the tool's name and its arguments."""

    name: str
    args: dict[str, Any]


class ActionRequest(Action):
    """A call that waits for a decision."""

    description: NotRequired[str]


class ReviewConfig(TypedDict):
    """What may be decided about a call."""

    action_name: str
    allowed_decisions: list[DecisionType]
    args_schema: NotRequired[dict[str, Any]]


class HITLRequest(TypedDict):
    """The value of the interrupt: calls, and for each what may be decided."""

    action_requests: list[ActionRequest]
    review_configs: list[ReviewConfig]


class Decision(TypedDict):
    """What a person decides about one call."""

    type: DecisionType
    edited_action: NotRequired[Action]
    """Of an `edit`: the call that runs in place of the model's."""
    message: NotRequired[str]
    """Of a `reject`: why, for the model. Of a `respond`: the result."""


class HITLResponse(TypedDict):
    """The answer: one decision for each call, in the order of the request."""

    decisions: list[Decision]


class InterruptOnConfig(TypedDict):
    """How the calls of one tool are reviewed."""

    allowed_decisions: list[DecisionType]
    description: NotRequired[str | Callable[[Any, Any, Any], str]]
    """What the person reads: a text, or a function of `(tool_call, state, runtime)`."""
    args_schema: NotRequired[dict[str, Any]]
    """A JSON schema of the arguments, handed on for those who edit."""
    when: NotRequired[Callable[[ToolCallRequest], bool]]
    """Whether this call needs a review; without it, all do."""


class _State(AgentState):
    hitl_edited_tool_calls: NotRequired[Annotated[dict[str, Action], PrivateStateAttr]]


class HumanInTheLoopMiddleware(AgentMiddleware[Any, Any, Any]):
    """Pauses the run before tools that a person wants to see first. Needs a checkpointer.

    `interrupt_on` maps tool names to True (all decisions), False (no review) or an `InterruptOnConfig`; a list of names
    is True for each. A name that none of the agent's tools has is an error of `create_agent`. The run pauses
    with an interrupt whose value is a `HITLRequest`; go on with `Command(resume={"decisions": [...]})`, one decision
    for each action of the request:

        {"type": "approve"}
        {"type": "edit", "edited_action": {"name": "send", "args": {...}}}
        {"type": "reject", "message": "not today"}       the model is told; the call never runs
        {"type": "respond", "message": "..."}            the person answers in the tool's place

    `interrupt_mode="per_call"` asks one question for each call, to be answered by its id, alone or with others.
    `edit_notice` stands before the result of a call that was edited; None leaves it out.
    """

    state_schema = _State
    needs_checkpointer = True

    def __init__(
        self,
        interrupt_on: Mapping[str, bool | InterruptOnConfig] | Sequence[str],
        *,
        description_prefix: str = "Tool execution requires approval",
        edit_notice: str | None = _EDIT_NOTICE,
        interrupt_mode: Literal["batched", "per_call"] = "batched",
    ) -> None:
        if interrupt_mode not in ("batched", "per_call"):
            raise UsageError(f'interrupt_mode={interrupt_mode!r}: write "batched" or "per_call".')
        reviews = {name: _review_of(name, given) for name, given in _by_name(interrupt_on).items()}
        self.interrupt_on = {name: review for name, review in reviews.items() if review is not None}
        self.description_prefix, self.edit_notice, self.interrupt_mode = description_prefix, edit_notice, interrupt_mode

    def check_tools(self, names: Sequence[str], *, complete: bool) -> None:
        """A review of a tool that is not there is a slip, and the tool that was meant would run without one."""
        for name in self.interrupt_on:
            if name not in names:
                self._refuse_slip(name, names, complete)

    def check_answers(self, names: Sequence[str]) -> None:
        """Refuse a review of the answer."""
        for name in self.interrupt_on:
            if name in names:
                raise _unreviewable(name)

    def _refuse_slip(self, name: str, names: Sequence[str], complete: bool) -> None:
        from difflib import get_close_matches

        near = get_close_matches(name, names, 1, _ALIKE if complete else _NEAR)
        if complete or (near and near[0] not in self.interrupt_on):
            there = f"its tools are {_listed(names)}" if names else "it has no tools"
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"interrupt_on names {name!r}, which is no tool of this agent; {there}.{meant}")

    def after_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Ask about the calls of the reply, and write what was decided into it."""
        reply = next((message for message in reversed(state["messages"]) if isinstance(message, AIMessage)), None)
        if reply is None:
            return None
        reply = _told_apart(reply)
        gated = [at for at, call in enumerate(reply.tool_calls) if self._needs_review(call, state, runtime)]
        if not gated:
            return None
        done = {message.tool_call_id for message in state["messages"] if isinstance(message, ToolMessage)}
        for call in (reply.tool_calls[at] for at in gated):
            if call["id"] in done and call["name"] not in _tools():  # an answer tool that a hook has brought
                raise _unreviewable(call["name"])
        decisions = self._decided([reply.tool_calls[at] for at in gated], state, runtime)
        return self._carried_out(reply, dict(zip(gated, decisions, strict=True)))

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> Any:
        """Say before the result of an edited call that it was one."""
        answer = handler(request)
        edited: Any = cast("Mapping[str, Any]", request.state or {}).get(_EDITED) or {}
        if self.edit_notice and request.tool_call["id"] in edited and isinstance(answer, ToolMessage):
            return answer.model_copy(update={"content": _noted(self.edit_notice, answer.content)})
        return answer

    # -- asking ----------------------------------------------------------------------------------------------------

    def _needs_review(self, call: ToolCall, state: Any, runtime: Any) -> bool:
        review = self.interrupt_on.get(call["name"])
        if review is None:
            return False
        when = review.get("when")
        return when is None or bool(when(ToolCallRequest(call, _tools().get(call["name"]), state, runtime)))

    def _decided(self, calls: Sequence[ToolCall], state: Any, runtime: Any) -> list[Decision]:
        """One decision for each call. Pauses the run while they are not all there."""
        requests = [self._request(call, state, runtime) for call in calls]
        if self.interrupt_mode == "batched":
            together: HITLRequest = {
                "action_requests": [request["action_requests"][0] for request in requests],
                "review_configs": [request["review_configs"][0] for request in requests],
            }
            (answer,) = ask_together([together])
            decisions = _decisions_in(answer, len(calls))
        else:
            answers = ask_together(requests)
            decisions = [_decisions_in(answer, 1)[0] for answer in answers]
        return [self._checked(decision, call) for decision, call in zip(decisions, calls, strict=True)]

    def _request(self, call: ToolCall, state: Any, runtime: Any) -> HITLRequest:
        name, args = call["name"], call["args"]
        review = self.interrupt_on[name]
        described = review.get("description")
        if described is None:
            described = f"{self.description_prefix}\n\nTool: {name}\nArgs: {args}"
        elif callable(described):
            described = described(call, state, runtime)
        config: ReviewConfig = {"action_name": name, "allowed_decisions": list(review["allowed_decisions"])}
        if "args_schema" in review:
            config["args_schema"] = review["args_schema"]
        return {
            "action_requests": [{"name": name, "args": args, "description": described}],
            "review_configs": [config],
        }

    def _checked(self, decision: Decision, call: ToolCall) -> Decision:
        """A decision that fits its call. Raises `InvalidAnswerError`."""
        allowed = self.interrupt_on[call["name"]]["allowed_decisions"]
        kind = decision.get("type")
        if kind not in allowed:
            raise InvalidAnswerError(
                f"The decision {kind!r} is not allowed for tool {call['name']!r}; {_listed(allowed)} are."
            )
        if kind == "edit":
            _check_edit(decision.get("edited_action"), call)
        if kind == "respond" and not isinstance(decision.get("message"), str):
            raise InvalidAnswerError(
                f'A respond for tool {call["name"]!r} needs the result: {{"type": "respond", "message": "…"}}.'
            )
        return decision

    # -- carrying out ----------------------------------------------------------------------------------------------

    def _carried_out(self, reply: AIMessage, decisions: Mapping[int, Decision]) -> dict[str, Any]:
        calls: list[ToolCall] = list(reply.tool_calls)
        results: list[ToolMessage] = []
        edited: dict[str, Action] = {}
        for at, decision in decisions.items():
            call = calls[at]
            if decision["type"] == "edit":
                action = cast("Action", decision.get("edited_action"))
                calls[at] = {**call, "name": action["name"], "args": dict(action["args"])}
                edited[str(call["id"])] = {"name": action["name"], "args": dict(action["args"])}
            elif decision["type"] != "approve":
                results.append(_result(call, decision))
        if edited or calls != reply.tool_calls:
            reply = structs.replace(reply, **_with_calls(reply, calls))
        return {"messages": [reply, *results], _EDITED: edited}


def _by_name(given: Any) -> Mapping[str, bool | InterruptOnConfig]:
    """`interrupt_on` as a map, from a map or a list of names."""
    if isinstance(given, Mapping):
        return cast("Mapping[str, bool | InterruptOnConfig]", given)
    if isinstance(given, (list, tuple)) and all(isinstance(name, str) for name in cast("Sequence[Any]", given)):
        return dict.fromkeys(cast("Sequence[str]", given), True)
    shown, kind = f"{given!r:.80}", type(cast(Any, given)).__name__
    example = f"{{{given!r}: True}}, or [{given!r}]" if isinstance(given, str) else '{"my_tool": True}, or ["my_tool"]'
    raise UsageError(
        f"interrupt_on={shown} is a {kind}: it takes tool names with what may be decided, "
        f"or a list of names. Write interrupt_on={example}."
    )


def _unreviewable(name: str) -> UsageError:
    return UsageError(
        f"interrupt_on names {name!r}, which is the form of the answer (response_format) and no tool that runs: when a "
        "person is asked, it is the run's answer already. Give the agent a tool that takes the same arguments, with "
        "return_direct=True, and review that one; or ask in a graph around the agent, once it has answered."
    )


def _review_of(name: str, given: bool | InterruptOnConfig) -> InterruptOnConfig | None:
    if given is False:
        return None
    if given is True:
        return {"allowed_decisions": list(_ALL)}
    allowed: Any = given.get("allowed_decisions") if isinstance(cast(Any, given), Mapping) else None
    if not allowed or any(kind not in _ALL for kind in allowed):
        raise UsageError(
            f"interrupt_on[{name!r}]={given!r:.80}: write True, False or "
            f'{{"allowed_decisions": [...]}} with some of {_listed(_ALL)}.'
        )
    return given


def _decisions_in(answer: Any, count: int) -> list[Decision]:
    """The decisions that an answer brings. Raises `InvalidAnswerError`."""
    given: Any = cast("Mapping[str, Any]", answer).get("decisions") if isinstance(answer, Mapping) else None
    if given is None and count == 1 and isinstance(answer, Mapping) and "type" in answer:
        given = [answer]
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, Mapping) for one in cast("list[Any]", given)):
        raise InvalidAnswerError(
            f'The answer {answer!r:.80} holds no decisions. Write Command(resume={{"decisions": '
            '[{"type": "approve"}]}), one decision for each action of the request.'
        )
    decisions = cast("list[Decision]", list(cast("Sequence[Any]", given)))
    if len(decisions) != count:
        raise InvalidAnswerError(
            f"The request has {count} actions, and the answer {len(decisions)} decisions: "
            "give one for each action, in the same order."
        )
    return decisions


def _check_edit(action: Any, call: ToolCall) -> None:
    """An edited call must be one that can run."""
    given = dict(cast("Mapping[str, Any]", action)) if isinstance(action, Mapping) else {}
    args: Any = given.get("args")
    is_call = isinstance(given.get("name"), str) and is_dict(args)
    if not is_call or not all(isinstance(key, str) for key in args):
        raise InvalidAnswerError(
            f"An edit of tool {call['name']!r} needs the whole call: "
            '{"type": "edit", "edited_action": {"name": "…", "args": {…}}}.'
        )
    name: Any = cast("Mapping[str, Any]", action).get("name")
    tools = _tools()
    tool = tools.get(name)
    if tool is None:
        known = _listed(sorted(tools))
        raise InvalidAnswerError(f"An edit names tool {name!r}, which this agent does not have; it has {known}.")
    wrong = why_unfit(tool, cast("Mapping[str, Any]", action)["args"])
    if wrong is not None:
        raise InvalidAnswerError(f"The edited call does not fit. {wrong}")


def _tools() -> Mapping[str, Any]:
    """The tools of the agent that runs here."""
    scope: Any = current_scope.get()
    return scope.run.graph.tools


def _result(call: ToolCall, decision: Decision) -> ToolMessage:
    """The result of a call that does not run."""
    message = decision.get("message")
    if decision["type"] == "respond":
        return ToolMessage(message or "", tool_call_id=call["id"] or "", name=call["name"])
    why = f": {message}" if message else ". Do not call it again in the same way unless you are asked to."
    words = f"The user rejected the call of {call['name']!r}{why}"
    return ToolMessage(words, tool_call_id=call["id"] or "", name=call["name"], status="error")


def _told_apart(reply: AIMessage) -> AIMessage:
    """The reply with an id for each of its calls: a decision about one must not reach another."""
    known: set[Any] = set()
    calls: list[ToolCall] = []
    for call in reply.tool_calls:
        calls.append({**call, "id": new_id()} if call["id"] in known else call)
        known.add(call["id"])
    return reply if len(known) == len(calls) else structs.replace(reply, tool_calls=calls)


def _with_calls(reply: AIMessage, calls: list[ToolCall]) -> dict[str, Any]:
    """The fields of a reply in which its calls stand."""
    changed: dict[str, Any] = {"tool_calls": calls}
    content = reply.content
    if isinstance(content, list):  # some providers repeat the calls among the blocks
        by_id = {call["id"]: call for call in calls}
        changed["content"] = [_block(block, by_id) for block in cast("list[Any]", content)]
    return changed


def _block(block: Any, calls: Mapping[Any, ToolCall]) -> Any:
    if not isinstance(block, dict):
        return block
    known = cast("dict[str, Any]", block)
    call = calls.get(known.get("id")) if known.get("type") in ("tool_use", "tool_call") else None
    if call is None:
        return known
    key = "input" if known["type"] == "tool_use" else "args"
    return {**known, "name": call["name"], key: call["args"]}


def _noted(notice: str, content: Any) -> Any:
    if isinstance(content, str):
        return f"{notice}\n\n{content}" if content else notice
    return [{"type": "text", "text": notice}, *cast("list[Any]", content)]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
