"""A structured answer while it streams, told to those who read `structured`. `models.partial` says how much of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from loopwright.graph.events import AnswerGrew
from loopwright.graph.types import TAG_NOSTREAM
from loopwright.models.partial import GrowingAnswer

if TYPE_CHECKING:
    from loopwright.agents.answers import AnswerPlan
    from loopwright.graph.engine import Run

__all__ = ["telling_growth"]

_Tell = Callable[[Any], None]


def telling_growth(run: Run, plan: AnswerPlan, tags: Sequence[str], tell: _Tell | None) -> _Tell | None:
    """`tell`, and the growing answer in what it is given. A model with the tag `nostream` is told of as a whole."""
    if TAG_NOSTREAM in tags:
        return tell
    answer = GrowingAnswer(plan.schemas, in_text=not plan.tools)

    def telling(chunk: Any) -> None:
        if tell is not None:
            tell(chunk)
        value = answer.take(chunk)
        if value is not None:
            run.emit(AnswerGrew, answer.name, value, chunk.id)

    return telling
