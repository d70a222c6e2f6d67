"""What handlers hear of the chains of a graph."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.callbacks import BaseCallbackHandler
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.graph.types import Command
from loopwright.types import interrupt
from tests.graph.worlds import World, both_worlds, chain, thread


class Hears(BaseCallbackHandler):
    """How chains have ended."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        self.heard.append(outputs)

    def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        self.heard.append(repr(error))


@both_worlds
def test_callbacks_hear_of_a_pause_as_an_end(world: World):
    """A node that asks has not failed."""
    handler = Hears()
    graph = chain(("asks", lambda state: {"log": [interrupt("?")]})).compile(checkpointer=InMemorySaver())
    world.invoke(graph, {"log": []}, {**thread(), "callbacks": [handler]})
    (asked,) = world.state(graph, thread()).interrupts
    assert handler.heard == [{"__interrupt__": (asked,)}, {"log": []}]


@both_worlds
def test_callbacks_hear_of_a_command_for_the_graph_around_as_an_end(world: World):
    handler, command = Hears(), Command(graph=Command.PARENT, update={"log": ["inner"]})
    outer = chain(("inner", chain(("says", lambda state: command)).compile())).compile()
    world.invoke(outer, {"log": []}, {"callbacks": [handler]})
    assert handler.heard[:2] == [command, command]
    assert handler.heard[-1] == {"log": ["inner"]}


@both_worlds
def test_callbacks_hear_the_error_itself_of_a_saver_that_fails_below(world: World):
    class Full(InMemorySaver):
        def save(self, record: Any, changed: Any = None, claim: int | None = None) -> None:
            if record.ns:
                raise OSError("full")
            super().save(record, changed, claim)

    handler = Hears()
    outer = chain(("inner", chain("a").compile())).compile(checkpointer=Full())
    with pytest.raises(OSError, match="full"):
        world.invoke(outer, {"log": []}, {**thread(), "callbacks": [handler]})
    assert handler.heard == ["OSError('full')"] * 3
