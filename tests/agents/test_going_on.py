"""A thread that is taken up again knows what was spent and what was told, wherever it was broken off."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.agents import Limits, create_agent
from loopwright.agents.middleware import after_model
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import ServerError
from loopwright.messages import find_broken_pair
from loopwright.testing import ScriptedModel, call
from tests.agents.worlds import both_worlds, invoke, thread


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


def fails(city: str) -> str:
    """Fail."""
    raise ValueError(f"no {city}")


# -- a model step that is tried again -------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize(
    ("tool", "limits"), [(fails, Limits(failures=2)), (look, Limits(repeats=2))], ids=["failures", "repeats"]
)
def test_a_turn_counts_once_however_often_the_model_is_asked_after_it(world, tool, limits):
    asks = call(tool.__name__, city="Oslo")
    model = ScriptedModel(asks, ServerError("down"), ServerError("down"), "done")
    agent = create_agent(model, [tool], limits=limits, checkpointer=InMemorySaver())
    for given in ("hi", None):
        with pytest.raises(ServerError):
            invoke(agent, world, given, thread())
    assert invoke(agent, world, None, thread()).stop_reason == "answer"

    model = ScriptedModel(asks, ServerError("down"), asks, "done")
    agent = create_agent(model, [tool], limits=limits, checkpointer=InMemorySaver())
    with pytest.raises(ServerError):
        invoke(agent, world, "hi", thread())
    reason = "failures" if tool is fails else "repeats"
    assert invoke(agent, world, None, thread()).stop_reason == reason, "the next turn counts"


# -- a run that has ended -------------------------------------------------------------------------------------------


@both_worlds
def test_no_checkpoint_says_that_a_run_has_ended_and_has_open_calls(world):
    """A process that dies just after the last checkpoint leaves a history that a provider takes."""

    @after_model(can_jump_to=["end"])
    def leave(state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"}

    saver = InMemorySaver()
    agent = create_agent(ScriptedModel(call("look", city="Oslo")), [look], middleware=[leave], checkpointer=saver)
    result = invoke(agent, world, "hi", thread())
    assert (result.stop_reason, [m.type for m in result["messages"]]) == ("jump", ["human", "ai", "tool"])
    ended = [record for record in saver.walk("1") if not record.pending]
    assert [find_broken_pair(record.values["messages"]) for record in ended] == [None]
