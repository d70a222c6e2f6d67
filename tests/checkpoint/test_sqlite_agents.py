"""Agents whose threads are in a SQLite file: each call opens it anew, as another process would."""

from __future__ import annotations

import asyncio
import json
import sqlite3

import pytest

from loopwright.agents import Limits, create_agent
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.errors import ThreadConflictError
from loopwright.messages import HumanMessage, RemoveMessage, messages_to_dict
from loopwright.testing import ScriptedModel, call, say
from loopwright.tools import tool
from loopwright.types import Command, interrupt
from tests.work import Work

CONFIG = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "threads.sqlite"


@pytest.fixture(params=["sync", "async"])
def ask(request):
    """Call an agent in one of the two worlds."""

    def invoke(agent, given, config=CONFIG):
        return agent.invoke(given, config)

    def ainvoke(agent, given, config=CONFIG):
        return asyncio.run(agent.ainvoke(given, config))

    return invoke if request.param == "sync" else ainvoke


@tool
def look(city: str) -> str:
    """The weather."""
    return f"sunny in {city}"


def texts(state) -> list[str]:
    return [message.text for message in state.values["messages"]]


def test_turns_go_on_in_another_process(path, ask):
    for turn, city in enumerate(("Oslo", "Rome", "Bern")):
        with SqliteSaver(path) as saver:
            model = ScriptedModel(call("look", city=city), f"It is sunny in {city}.")
            agent = create_agent(model, [look], checkpointer=saver)
            result = ask(agent, {"messages": f"Weather in {city}?"})
            assert len(result["messages"]) == 4 * (turn + 1)
            asked = [message.text for message in model.requests[0].messages if message.type == "human"]
            assert asked[0] == "Weather in Oslo?"

    with SqliteSaver(path) as saver:
        agent = create_agent(ScriptedModel(), [look], checkpointer=saver)
        history = list(agent.get_state_history(CONFIG))
        assert len(history) == 15
        assert [len(state.values["messages"]) for state in history] == [12, 11, 10, 9, 8, 8, 7, 6, 5, 4, 4, 3, 2, 1, 0]


def test_the_same_as_in_memory(path, ask):
    """State, history, and what a fork and an update make of them."""

    def life(saver):
        model = ScriptedModel(
            [call("look", city="Oslo"), call("look", city="Rome"), call("look", city="Bern")],
            "Sunny.",
            "Rainy.",
            "Bye.",
        )
        agent = create_agent(model, [look], checkpointer=saver)
        ask(agent, {"messages": "Weather?"})
        before = next(state for state in agent.get_state_history(CONFIG) if state.next == ("model",))
        ask(agent, None, before.config)
        agent.update_state(CONFIG, {"messages": [HumanMessage("Thanks.", id="thanks")]})
        agent.update_state(CONFIG, {"messages": [RemoveMessage(id="thanks")]})
        ask(agent, {"messages": "Bye."})
        return [
            (state.metadata["source"], state.metadata["step"], state.next, texts(state))
            for state in agent.get_state_history(CONFIG)
        ]

    with SqliteSaver(path) as saver:
        assert life(saver) == life(InMemorySaver())


def test_B32_an_answer_comes_in_another_process(path, ask):
    """A pause, with two tools: what has finished is not run again."""
    ran = []

    @tool
    def order(what: str) -> str:
        """Order."""
        ran.append(what)
        return f"{what} for {interrupt('for whom?')}" if what == "tea" else f"{what} for all"

    with SqliteSaver(path) as saver:
        agent = create_agent(
            ScriptedModel([call("order", what="tea"), call("order", what="cake")]), [order], checkpointer=saver
        )
        result = ask(agent, {"messages": "Order tea and cake."})
        assert [question.value for question in result.interrupts] == ["for whom?"]
    with SqliteSaver(path) as saver:
        agent = create_agent(ScriptedModel("Ordered."), [order], checkpointer=saver)
        result = ask(agent, Command(resume="Ann"))

    assert [message.text for message in result["messages"][2:4]] == ["tea for Ann", "cake for all"]
    assert result.text == "Ordered."
    assert sorted(ran) == ["cake", "tea", "tea"]


def test_B44_what_a_tool_gave_is_on_disk_when_it_has_ended(path):
    """The process dies in the second tool: the first one's result is there, and that tool is not run again."""
    ran = []

    @tool
    def first() -> str:
        """First."""
        ran.append("first")
        return "done"

    @tool
    def second() -> str:
        """Second."""
        ran.append("second")
        if ran.count("second") == 1:
            raise KeyboardInterrupt
        return "done too"

    calls = [call("first"), call("second")]
    copy = path.with_name("as-it-was.sqlite")

    class Dying(SqliteSaver):
        """Keeps the file as it was when the first result had been reported saved."""

        def save_writes(self, *args, **kwargs):
            super().save_writes(*args, **kwargs)
            if ran and not copy.exists():
                with sqlite3.connect(path) as source, sqlite3.connect(copy) as target:
                    source.backup(target)
                source.close()
                target.close()

    agent = create_agent(ScriptedModel(calls), [first, second], checkpointer=Dying(path))
    with pytest.raises(KeyboardInterrupt):
        agent.invoke({"messages": "go"}, {**CONFIG, "max_concurrency": 1})
    with SqliteSaver(copy) as saver:
        agent = create_agent(ScriptedModel("Ended."), [first, second], checkpointer=saver)
        result = agent.invoke(None, CONFIG)

    assert [message.text for message in result["messages"]][-3:] == ["done", "done too", "Ended."]
    assert ran == ["first", "second", "second"]


def test_B47_of_two_runs_that_read_the_same_one_is_told(path):
    """Before it has asked a model."""
    savers = SqliteSaver(path), SqliteSaver(path)
    models = [ScriptedModel("one", "two") for _ in savers]
    agents = [create_agent(model, checkpointer=saver) for model, saver in zip(models, savers, strict=True)]
    agents[0].invoke({"messages": "hi"}, CONFIG)
    read = savers[1].load

    def load(*args):
        found = read(*args)
        agents[0].invoke({"messages": "I was first"}, CONFIG)
        return found

    savers[1].load = load  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ThreadConflictError, match="has run nothing"):
        agents[1].invoke({"messages": "me too"}, CONFIG)
    assert models[1].requests == []
    assert "me too" not in texts(agents[0].get_state(CONFIG))
    for saver in savers:
        saver.close()


def test_B127_a_long_thread_takes_what_was_said_and_no_more_work_at_its_end(path):
    """200 turns of a user, a tool round and an answer, every checkpoint kept."""
    words = "word " * 19 + "end."
    script = (reply for _ in range(200) for reply in (call("look", city="Oslo"), say(words)))
    with Work() as work, SqliteSaver(path) as saver:
        limits = Limits(model_calls=10**6, tool_calls=10**6, repeats=None)
        agent = create_agent(ScriptedModel(*script), [look], checkpointer=saver, limits=limits)
        given = {"messages": "Please look up the item and tell me what the table says of it."}
        turns = [lambda: agent.invoke(given, CONFIG)] * 200
        for turn in turns[:10]:
            turn()
        early = max(work.of(turn) for turn in turns[10:20])
        for turn in turns[20:190]:
            turn()
        late = max(work.of(turn) for turn in turns[190:])
        said = json.dumps(messages_to_dict(agent.get_state(CONFIG).values["messages"]))

    assert path.stat().st_size < 2 * len(said)
    assert late < 1.1 * early
