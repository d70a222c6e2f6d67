"""Errors go to other processes as they are."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from loopwright import errors
from loopwright.agents import create_agent
from loopwright.agents.structured_output import (
    MissingStructuredOutputError,
    MultipleStructuredOutputsError,
    StructuredOutputValidationError,
)
from loopwright.errors import LimitReachedError, LoopwrightError, ModelError, RateLimitError, ToolException
from loopwright.messages import AIMessage
from loopwright.testing import ScriptedModel


def made(kind: Any) -> Any:
    """An error of a class, with all that it can carry."""
    if issubclass(kind, LimitReachedError):
        error = kind("too much", limit="tokens")
    elif issubclass(kind, ModelError):
        error = kind("no", status_code=429, retryable=False, retry_after=1.5, code="slow", body={"a": 1})
    elif issubclass(kind, errors.ToolInvocationError):
        error = kind("no", source=ValueError("x"))
    elif issubclass(kind, StructuredOutputValidationError):
        error = kind("Answer", ValueError("x"), AIMessage("no"))
    elif issubclass(kind, (MissingStructuredOutputError, MultipleStructuredOutputsError)):
        error = kind(["Answer"], AIMessage("no"))
    elif issubclass(kind, ToolException):
        error = kind("no", "further", artifact={"a": 1})
    else:
        error = kind("no")
    error.state = {"messages": ["hi"]}
    error.add_note("by the way")
    return error


def known() -> list[Any]:
    found, todo = [], [LoopwrightError]
    while todo:
        kind = todo.pop()
        found.append(kind)
        todo += kind.__subclasses__()
    return [kind for kind in found if kind.__module__.startswith("loopwright")]


@pytest.mark.parametrize("kind", known(), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("through", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_an_error_survives(kind: Any, through: Any):
    error = made(kind)
    again = through(error)
    carried = {name: repr(value) for name, value in vars(error).items()}
    assert (type(again), str(again), again.args) == (kind, str(error), error.args)
    assert {name: repr(value) for name, value in vars(again).items()} == carried


def test_an_error_that_has_been_sent_is_as_useful_as_before():
    error = RateLimitError("slow down", status_code=429, retry_after=2.0)
    again = pickle.loads(pickle.dumps(error))
    assert (again.status_code, again.retryable, again.retry_after, str(again)) == (429, True, 2.0, "slow down")


def test_an_agent_can_be_copied_and_says_why_it_cannot_be_sent():
    agent = create_agent(ScriptedModel("one", "two"), [])
    twin = copy.copy(agent)
    assert twin is not agent
    assert [one.invoke({"messages": "hi"}).text for one in (agent, twin)] == ["one", "two"]
    for send in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match=r"cannot be pickled or copied deeply.* Make it again"):
            send(agent)
