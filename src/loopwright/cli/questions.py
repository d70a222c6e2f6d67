"""What a paused run asks at the terminal, and what is typed as the answer.

Rules:

- questions are asked one after the other, a review once for each of its actions, and answered together after the last;
- who decides about a call sees all of it: nothing of a review is cut;
- a decision is one word and what belongs to it. "a nice idea" approves of nothing: what is no decision is asked again;
- any other answer is the value that the text is as JSON, and else the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, cast

from loopwright.cli.screen import Screen
from loopwright.errors import InvalidAnswerError
from loopwright.graph.types import Interrupt

__all__ = ["Questions"]

_DECISIONS: Final = {
    **dict.fromkeys(("approve", "a", "yes", "y"), "approve"),
    **dict.fromkeys(("reject", "r", "no", "n"), "reject"),
    "respond": "respond",
    "edit": "edit",
}
_EXAMPLE_CHARS = 200
"""Longest arguments that are shown a second time, to be edited."""


class Questions:
    """The open questions of a thread, and what has been answered."""

    def __init__(self, asked: Sequence[Interrupt]) -> None:
        self.answers: dict[str, Any] = {}
        """For `Command(resume=...)`, once all are there."""
        self._left = [question for interrupt in asked for question in _asked_by(interrupt)]
        self._count = len(self._left)

    def show(self, screen: Screen) -> None:
        """Show the question that is to be answered next, and what it takes."""
        question, number = self._left[0], self._count - len(self._left) + 1
        which = f" ({number} of {self._count})" if self._count > 1 else ""
        first, *more = question.lines
        screen.line(f"‖ {question.title}{which}: {first}", "yellow")
        for line in (*more, f"{question.choices} · /skip for a new turn instead"):
            screen.line(f"  {line}", "yellow")

    def take(self, text: str) -> bool:
        """Answer that question; whether it was the last one. Raises `InvalidAnswerError` for what it cannot take."""
        self._left[0].answer(text.strip(), self.answers)
        del self._left[0]
        return not self._left


class _Question(Protocol):
    title: str
    lines: Sequence[str]
    choices: str
    """What may be typed."""

    def answer(self, text: str, answers: dict[str, Any]) -> None:
        """Put what `text` means to the other answers. Raises `InvalidAnswerError`."""
        ...


def _asked_by(interrupt: Interrupt) -> list[_Question]:
    review = interrupt.value
    if not _is_review(review):
        return [_Free(interrupt)]
    pairs = zip(review["action_requests"], review["review_configs"], strict=True)
    return [_Review(interrupt.id, action, config) for action, config in pairs]


def _is_review(value: Any) -> bool:
    """Whether it has the form of a `HITLRequest`. Anybody may ask anything."""
    if not isinstance(value, Mapping):
        return False
    review = cast("Mapping[str, Any]", value)
    actions, configs = review.get("action_requests"), review.get("review_configs")
    return (
        isinstance(actions, list)
        and isinstance(configs, list)
        and 0 < len(cast("list[Any]", actions)) == len(cast("list[Any]", configs))
        and all(_has(action, name=str, args=dict) for action in cast("list[Any]", actions))
        and all(_has(config, allowed_decisions=list) for config in cast("list[Any]", configs))
    )


def _has(value: Any, **keys: type) -> bool:
    return isinstance(value, dict) and all(
        isinstance(cast("dict[str, Any]", value).get(key), kind) for key, kind in keys.items()
    )


class _Free:
    """A question of the user's own."""

    title = "the run asks"

    def __init__(self, interrupt: Interrupt) -> None:
        value, self._schema = interrupt.value, interrupt.response_schema
        self._id = interrupt.id
        self.lines: Sequence[str] = (value if isinstance(value, str) else repr(value)).splitlines() or [""]
        self.choices = "type the answer: text, or JSON"
        if self._schema is not None:
            self.choices = f"type the answer, which should fit {_json(self._schema)}"

    def answer(self, text: str, answers: dict[str, Any]) -> None:
        answers[self._id] = text if _is_text(self._schema) else _value(text)


def _is_text(schema: Any) -> bool:
    return isinstance(schema, Mapping) and cast("Mapping[str, Any]", schema).get("type") == "string"


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError):
        return text


def _not_json(word: str) -> Any:
    """NaN and Infinity, which Python would read, are words."""
    raise ValueError(word)


class _Review:
    """One action of a review of tool calls."""

    title = "the run waits for a decision"

    def __init__(self, id: str, action: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        self._id, self._name = id, str(action["name"])
        self._allowed: Sequence[str] = config["allowed_decisions"]
        args: Mapping[str, Any] = action["args"]
        call = f"{self._name}({', '.join(f'{name}={value!r}' for name, value in args.items())})"
        about = str(action.get("description") or "").removesuffix(f"\n\nTool: {self._name}\nArgs: {args}")
        self.lines: Sequence[str] = [call, *about.splitlines()]
        example = _json(args)
        self._edit = f"edit {example}" if len(example) <= _EXAMPLE_CHARS else "edit {…}"
        ways = {"approve": "approve", "edit": self._edit, "reject": "reject [why]", "respond": "respond TEXT"}
        self.choices = " · ".join(way for kind, way in ways.items() if kind in self._allowed)

    def answer(self, text: str, answers: dict[str, Any]) -> None:
        decision = self._decision(text)
        answers.setdefault(self._id, {"decisions": []})["decisions"].append(decision)

    def _decision(self, text: str) -> dict[str, Any]:
        word, rest = (*text.split(None, 1), "")[:2]
        kind = _DECISIONS.get(word.lower().rstrip(",.:;!"))
        if kind is None or kind not in self._allowed:
            raise InvalidAnswerError(f"{text!r:.60} is no decision about {self._name}. Type {self.choices}")
        if kind == "approve" and rest:
            raise InvalidAnswerError(
                f"approve stands alone: with {rest!r:.60} behind it, it is not clear what is meant"
            )
        if kind == "respond" and not rest:
            raise InvalidAnswerError("respond needs the text that is to be the tool's result: respond TEXT")
        if kind == "edit":
            return {"type": kind, "edited_action": {"name": self._name, "args": self._arguments(rest)}}
        return {"type": kind, "message": rest} if rest else {"type": kind}

    def _arguments(self, text: str) -> dict[str, Any]:
        args = _value(text)
        if not isinstance(args, dict):
            raise InvalidAnswerError(f"edit needs all arguments of {self._name} as a JSON object: {self._edit}")
        return cast("dict[str, Any]", args)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
