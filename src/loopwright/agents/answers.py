"""The structured answer of an agent: what the model is offered for it, and what its reply amounts to.

A plan is made once per strategy and kept on it. Reading a reply decides, and does nothing. Rules:

- of a reply with answer calls, every answer call gets a result, whatever comes of it;
- one answer call that fits is the answer, and the reply's other calls are still run before the run ends;
- several answer calls are none: each gets an error result, and the model is asked again;
- an answer that does not fit goes back to the model as `handle_errors` says, at most `MAX_REJECTED` times in a run;
- words in place of an answer call are accepted if they are the JSON that was asked for; else one reminder follows;
- whatever ends in an error leaves a valid history: the outcome has results for all of the reply's calls.

How often the model was asked again is read from the history, so that a resumed run goes on counting.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from msgspec import Struct

from loopwright.agents.stop import is_reminder, reminder
from loopwright.agents.structured_output import (
    AutoStrategy,
    MissingStructuredOutputError,
    MultipleStructuredOutputsError,
    ProviderStrategy,
    StructuredOutputError,
    StructuredOutputValidationError,
    ToolStrategy,
)
from loopwright.errors import UsageError
from loopwright.messages import AIMessage, HumanMessage, ToolMessage
from loopwright.schema import answer_schema, is_object, schema_description, schema_name, union_members, validate

if TYPE_CHECKING:
    from loopwright.messages import AnyMessage, InvalidToolCall, ToolCall

__all__ = ["MAX_REJECTED", "MAX_REMINDERS", "AnswerPlan", "Outcome", "answer_strategy", "plan_answers"]

_Strategy: TypeAlias = ToolStrategy[Any] | ProviderStrategy[Any] | AutoStrategy[Any]

MAX_REJECTED: Final = 4
"""Replies with an answer that does not fit, in one run; the next one raises. Fewer than `Limits.repeats` by default:
the error names what does not fit."""
MAX_REMINDERS: Final = 1
"""How often a model that answers in words is reminded, in one run; the next time raises."""

_WITH_JSON_OUTPUT: Final = ("gpt-4o", "gpt-4.1", "gpt-5", "gpt-oss", "o3", "o4-mini", "grok-4")
"""Beginnings of the names of models whose provider enforces a JSON schema, for models without a profile."""


class Outcome(Struct, frozen=True):
    """What a reply amounts to. First store the reply and `results`, then look at the rest."""

    results: Sequence[ToolMessage] = ()
    """Results of the answer calls; with `error`, of all calls of the reply."""
    calls: Sequence[ToolCall] = ()
    """The reply's other calls. They are to be run, also when it is `answered`."""
    invalid_calls: Sequence[InvalidToolCall] = ()
    """The reply's other calls that do not parse. They are to be answered with an error."""
    answered: bool = False
    structured_response: Any = None
    """The answer as the schema's type, if `answered`."""
    reminder: HumanMessage | None = None
    """To be stored after the reply; then the model is asked again."""
    error: StructuredOutputError | None = None
    """To be raised."""

    @property
    def again(self) -> bool:
        """Whether the model is to be asked again at once: there is nothing to run first."""
        return bool(self.results or self.reminder) and not (self.answered or self.error or self.calls)


class AnswerPlan:
    """What a strategy means for the model calls of an agent."""

    __slots__ = ("kwargs", "names", "schemas", "strategy", "tool_choice", "tools")

    strategy: ToolStrategy[Any] | ProviderStrategy[Any]
    schemas: dict[str, Any]
    """By the name that the model sees."""
    tools: tuple[dict[str, Any], ...]
    """Answer tools in OpenAI's form, to be bound after the agent's own; none with `ProviderStrategy`."""
    tool_choice: str | None
    """"any" with answer tools, else None."""
    kwargs: dict[str, Any]
    """Keyword arguments of the model call: `response_format` with `ProviderStrategy`, else none."""

    def __init__(self, strategy: ToolStrategy[Any] | ProviderStrategy[Any]) -> None:
        members = union_members(strategy.schema)
        self.strategy = strategy
        self.schemas = {}
        for member in members:
            name = _safe(schema_name(member))
            if name in self.schemas:
                raise UsageError(f"two schemas of response_format are named {name!r}: give one another name or title")
            self.schemas[name] = member
        if isinstance(strategy, ToolStrategy):
            self.tools = tuple(_tool(name, member) for name, member in self.schemas.items())
            self.tool_choice, self.kwargs = "any", {}
            return
        if len(members) > 1:
            raise UsageError(
                f"ProviderStrategy asks for one schema, not {' | '.join(self.schemas)}: use ToolStrategy for a union"
            )
        self.tools, self.tool_choice = (), None
        self.kwargs = {"response_format": _json_output(*next(iter(self.schemas.items())), strategy.strict)}

    def check_names(self, tool_names: Sequence[str]) -> None:
        """Raise `UsageError` if an answer tool has the name of one of the agent's tools."""
        for name in self.schemas if self.tools else ():
            if name in tool_names:
                raise UsageError(
                    f"the answer tool for response_format and one of the tools are both named {name!r}: "
                    f"rename the tool or the schema"
                )

    def read(self, message: AIMessage, history: Sequence[AnyMessage] = ()) -> Outcome:
        """Decide what a reply amounts to. `history` is what came before it; it is read only when the answer fails."""
        calls, invalid = message.tool_calls, message.invalid_tool_calls
        if not calls and not invalid:
            return self._read_words(message, history)
        if isinstance(self.strategy, ProviderStrategy):
            return Outcome(calls=calls, invalid_calls=invalid)
        answers = [call for call in calls if call["name"] in self.schemas]
        unread = [call for call in invalid if call.get("name") in self.schemas]
        others = [call for call in calls if call["name"] not in self.schemas]
        rest = [call for call in invalid if call.get("name") not in self.schemas]
        if not answers and not unread:
            return Outcome(calls=others, invalid_calls=rest)
        if len(answers) == 1 and not unread:
            name, args = answers[0]["name"], answers[0]["args"]
            try:
                value = validate(self.schemas[name], args)
            except Exception as problem:  # noqa: BLE001 - a validator of the user's may raise anything
                error: StructuredOutputError = StructuredOutputValidationError(name, problem, message)
            else:
                result = _result(answers[0], self._accepted(args))
                return Outcome([result], others, rest, answered=True, structured_response=value)
        elif len(answers) + len(unread) == 1:
            problem = ValueError(f"its arguments are no JSON object: {unread[0].get('error') or 'they do not parse'}")
            error = StructuredOutputValidationError(str(unread[0].get("name")), problem, message)
        else:
            error = MultipleStructuredOutputsError([str(call["name"]) for call in [*answers, *unread]], message)
        return self._rejected(error, [*answers, *unread], others, rest, history)

    # -- parts of `read` -------------------------------------------------------------------------------------------

    def _accepted(self, args: Any) -> str:
        content = cast("ToolStrategy[Any]", self.strategy).tool_message_content
        return f"Structured response accepted: {_as_json(args)}" if content is None else content

    def _rejected(
        self,
        error: StructuredOutputError,
        failed: Sequence[Any],
        others: Sequence[ToolCall],
        rest: Sequence[InvalidToolCall],
        history: Sequence[AnyMessage],
    ) -> Outcome:
        words = self._words_for(error)
        if words is not None and self._asked_again(history)[0] < MAX_REJECTED:
            return Outcome([_result(call, words, "error") for call in failed], others, rest)
        results = [_result(call, words or f"{error}", "error") for call in failed]
        results += [_result(call, "Not run: the run ended with an error.", "error") for call in [*others, *rest]]
        return Outcome(results, error=error)

    def _words_for(self, error: StructuredOutputError) -> str | None:
        """What the model is told about its answer, None if `handle_errors` says that the run raises."""
        rule = cast("ToolStrategy[Any]", self.strategy).handle_errors
        if rule is False:
            return None
        if isinstance(rule, str):
            return rule
        if isinstance(rule, (type, tuple)):
            source = getattr(error, "source", error)
            if not isinstance(error, rule) and not isinstance(source, rule):
                return None
        elif rule is not True:
            words: Any = rule(error)
            if not isinstance(words, str):
                raise UsageError(f"handle_errors returned {words!r}: it must return the text for the model")
            return words
        text = str(error)
        return f"{text[0].upper()}{text[1:]}. Call {' or '.join(self.schemas)} once, with arguments that fit."

    def _read_words(self, message: AIMessage, history: Sequence[AnyMessage]) -> Outcome:
        provider = isinstance(self.strategy, ProviderStrategy)
        for name, schema in self.schemas.items():
            if not provider and isinstance(schema, Mapping):
                continue  # any object would do
            try:
                value = validate(schema, _json_in(message.text, objects_only=is_object(schema)))
            except Exception as problem:  # noqa: BLE001 - a validator of the user's may raise anything
                if provider:
                    return Outcome(error=StructuredOutputValidationError(name, _explained(problem, message), message))
            else:
                return Outcome(answered=True, structured_response=value)
        if self._asked_again(history)[1] < MAX_REMINDERS:
            wanted = " or ".join(self.schemas)
            return Outcome(reminder=reminder(f"Give your answer by calling the tool {wanted}, not in words."))
        return Outcome(error=MissingStructuredOutputError(list(self.schemas), message))

    def _asked_again(self, history: Sequence[AnyMessage]) -> tuple[int, int]:
        """How many replies of this run had an answer that failed, and how many reminders it took so far."""
        rejected = reminders = 0
        for message in reversed(history):
            if isinstance(message, HumanMessage):
                if not is_reminder(message):
                    break
                reminders += 1
            elif isinstance(message, AIMessage):
                names = [call.get("name") for call in (*message.tool_calls, *message.invalid_tool_calls)]
                rejected += any(name in self.schemas for name in names)
        return rejected, reminders


def answer_strategy(response_format: Any) -> _Strategy | None:
    """`response_format` as a strategy: a bare schema means `AutoStrategy`."""
    if response_format is None:
        return None
    strategy: Any = response_format
    if not isinstance(strategy, (ToolStrategy, ProviderStrategy, AutoStrategy)):
        if isinstance(strategy, type) and issubclass(strategy, (ToolStrategy, ProviderStrategy, AutoStrategy)):
            raise UsageError(
                f"response_format={strategy.__name__} gives the class: write {strategy.__name__}(MySchema)"
            )
        return AutoStrategy[Any](response_format)
    return cast("_Strategy", strategy)


def plan_answers(strategy: _Strategy | None, model: Any, *, beside_tools: bool = False) -> AnswerPlan | None:
    """The plan of a strategy for a model, made once. None without a strategy. Raises `UsageError` for a bad schema.

    `beside_tools`: whether the model is told of tools, too.
    """
    if strategy is None:
        return None
    kind = type(strategy).__name__
    if isinstance(strategy, AutoStrategy):
        kind = (
            "ProviderStrategy" if _has_json_output(model, beside_tools) and not _is_union(strategy) else "ToolStrategy"
        )
    plan = strategy.plans.get(kind)
    if plan is None:
        chosen: Any = strategy
        if isinstance(strategy, AutoStrategy):
            chosen = ToolStrategy(strategy.schema) if kind == "ToolStrategy" else ProviderStrategy(strategy.schema)
        plan = strategy.plans[kind] = AnswerPlan(chosen)
    return cast("AnswerPlan", plan)


def _is_union(strategy: _Strategy) -> bool:
    return len(union_members(strategy.schema)) > 1


def _has_json_output(model: Any, beside_tools: bool) -> bool:
    """Whether the model's provider holds it to a JSON schema: its profile says so, or its name is known."""
    while (inner := getattr(model, "bound", None)) is not None:
        model = inner
    if beside_tools and not getattr(model, "answers_beside_tools", True):
        return False
    profile: Any = getattr(model, "profile", None)
    if isinstance(profile, Mapping) and "structured_output" in profile:
        return bool(cast("Mapping[str, Any]", profile)["structured_output"])
    name: Any = getattr(model, "model_name", None) or getattr(model, "model", None)
    return isinstance(name, str) and name.rpartition("/")[2].startswith(_WITH_JSON_OUTPUT)


def _tool(name: str, schema: Any) -> dict[str, Any]:
    described = schema_description(schema) or "Give the final answer in this form."
    return {
        "type": "function",
        "function": {"name": name, "description": described, "parameters": answer_schema(schema)},
    }


def _json_output(name: str, schema: Any, strict: bool | None) -> dict[str, Any]:
    form: dict[str, Any] = {"name": name, "schema": answer_schema(schema)}
    if description := schema_description(schema):
        form["description"] = description
    if strict is not None:
        form["strict"] = strict
    return {"type": "json_schema", "json_schema": form}


def _safe(name: str) -> str:
    """A name that providers take: letters, digits, `_` and `-`, at most 64."""
    kept = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "_" for letter in name)
    return kept.strip("_")[:64] or "answer"


def _result(call: Any, content: str, status: Any = "success") -> ToolMessage:
    return ToolMessage(content, tool_call_id=call["id"] or "", name=call["name"], status=status)


def _as_json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, default=str)


def _json_in(text: str, *, objects_only: bool) -> Any:
    """The JSON that is all of a text, a code fence around it allowed. Raises `ValueError`."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and len(text) > 6:
        text = text[3:-3].strip()
        text = text.removeprefix("json").removeprefix("JSON")
    try:
        found: Any = json.loads(text)
    except ValueError as problem:
        raise ValueError(f"it is no JSON ({problem})") from None
    if objects_only and not isinstance(found, dict):
        raise ValueError(f"it is no JSON object, but {type(found).__name__}")  # the model's fault
    return cast("Any", found)


def _explained(problem: Exception, message: AIMessage) -> Exception:
    """The problem, with the reason why the reply may be no answer at all."""
    reason = message.response_metadata.get("finish_reason")
    if reason in ("length", "content_filter", "refusal"):
        explained = ValueError(f"{problem}; the reply ended with finish_reason={reason!r}")
        explained.__cause__ = problem
        return explained
    return problem
