"""How runs end that reach a limit: every limit, every `on_limit`, alone and in a tree of agents."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from loopwright.agents import AgentState, Limits, create_agent
from loopwright.agents.middleware import after_agent, after_model, wrap_model_call
from loopwright.agents.stop import is_notice
from loopwright.agents.structured_output import ProviderStrategy, ToolStrategy
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import GraphRecursionError, LimitReachedError, UsageError
from loopwright.messages import AIMessage
from loopwright.testing import ManualClock, ScriptedModel, call, say, use
from loopwright.tools import ToolRuntime, tool
from tests.agents.worlds import both_worlds, invoke, is_valid, shown, stream, thread


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


def boom() -> str:
    """Fail."""
    raise ValueError("no luck")


def looking(**more: Any) -> ScriptedModel:
    """A model that asks for another city each time, for ever."""
    return ScriptedModel(lambda messages: use(call("look", city=f"city {len(messages)}"), **more), loop=True)


# -- every limit ----------------------------------------------------------------------------------------------------


@both_worlds
def test_model_calls(world):
    model = looking()
    result = invoke(create_agent(model, [look], limits=Limits(model_calls=3)), world)
    assert (result.stop_reason, result.final, len(model.requests)) == ("model_calls", None, 3)
    assert result.text == "The run was stopped: 3 model calls were made (limit model_calls=3)."
    assert [m.type for m in result["messages"]] == ["human", *["ai", "tool"] * 3, "ai"]
    assert (is_notice(result["messages"][-1]), is_valid(result["messages"])) == (True, True)


@both_worlds
def test_tool_calls(world):
    """Three are asked for and one is left: none is run, each gets a result, none is counted."""
    ran: list[str] = []

    @tool("look")
    def count(city: str) -> str:
        """Look."""
        ran.append(city)
        return "sunny"

    three = [call("look", city=city) for city in ("Oslo", "Rome", "Bern")]
    model = ScriptedModel(call("look", city="Kiel"), three, "never")
    result = invoke(create_agent(model, [count], limits=Limits(tool_calls=2)), world)
    assert (result.stop_reason, ran, model.left) == ("tool_calls", ["Kiel"], 1)
    assert [m.status for m in result["messages"] if m.type == "tool"] == ["success", *["error"] * 3]
    assert result["messages"][-2].text == "Not run: it needs 4 tool calls."
    assert is_valid(result["messages"])


@both_worlds
def test_no_tool_calls_at_all(world):
    result = invoke(create_agent(looking(), [look], limits=Limits(tool_calls=0)), world)
    assert (result.stop_reason, [m.type for m in result["messages"]]) == ("tool_calls", ["human", "ai", "tool", "ai"])


@both_worlds
def test_tokens(world):
    """The reply that uses them up has no more calls run."""
    model = looking(usage=(40, 10))
    result = invoke(create_agent(model, [look], limits=Limits(tokens=100)), world)
    assert (result.stop_reason, result.usage["total_tokens"], len(model.requests)) == ("tokens", 100, 2)
    assert [m.text for m in result["messages"]][-2:] == [
        "Not run: 100 tokens were used.",
        "The run was stopped: 100 tokens were used (limit tokens=100).",
    ]


@both_worlds
def test_an_answer_that_uses_up_the_tokens_is_the_answer(world):
    result = invoke(create_agent(ScriptedModel(say("ok", usage=(500, 1))), limits=Limits(tokens=100)), world)
    assert (result.stop_reason, result.text) == ("answer", "ok")


@both_worlds
def test_tokens_are_estimated_where_the_model_does_not_report_them(world):
    result = invoke(create_agent(looking(), [look], limits=Limits(tokens=50)), world)
    assert (result.stop_reason, result.usage["total_tokens"]) == ("tokens", 0)


def priced(cost: float | None) -> Any:
    def reply(messages: Any) -> AIMessage:
        metadata = {} if cost is None else {"cost": cost}
        return AIMessage("", tool_calls=[call("look", city=str(len(messages)))], response_metadata=metadata)

    return reply


@both_worlds
def test_cost(world):
    result = invoke(create_agent(ScriptedModel(priced(0.25), loop=True), [look], limits=Limits(cost=0.5)), world)
    assert (result.stop_reason, result.cost) == ("cost", 0.5)
    assert "its model calls have cost 0.5 (limit cost=0.5)" in result.text


@both_worlds
def test_a_cost_that_is_not_known_ends_the_run(world):
    result = invoke(create_agent(ScriptedModel(priced(None), loop=True), [look], limits=Limits(cost=0.5)), world)
    assert (result.stop_reason, result.cost) == ("cost", None)
    assert "not known" in result.text


@both_worlds
def test_seconds_between_two_rounds(world):
    clock = ManualClock()

    @tool
    def slow(n: int) -> str:
        """Take its time."""
        return str(n)

    @after_model
    def wait(state: Any, runtime: Any) -> None:
        clock.advance(6)

    model = ScriptedModel(lambda messages: call("slow", n=len(messages)), loop=True)
    with clock:
        result = invoke(create_agent(model, [slow], middleware=[wait], limits=Limits(seconds=10)), world)
    assert (result.stop_reason, len(model.requests)) == ("seconds", 2)
    assert result.text == "The run was stopped: it took 12.0 seconds (limit seconds=10)."
    assert is_valid(result["messages"])


@both_worlds
def test_repeats(world):
    model = ScriptedModel(call("look", city="Oslo"), loop=True)
    result = invoke(create_agent(model, [look], limits=Limits(repeats=3)), world)
    assert (result.stop_reason, len(model.requests)) == ("repeats", 3)
    assert "the tool 'look' was called in the same way with the same result 3 times in a row" in result.text


@both_worlds
def test_a_poll_whose_answer_changes_is_no_repetition(world):
    answers = iter(["no", "no", "still no", "yes"])

    @tool
    def poll() -> str:
        """Poll."""
        return next(answers)

    model = ScriptedModel(*[call("poll")] * 4, "done")
    result = invoke(create_agent(model, [poll], limits=Limits(repeats=3)), world)
    assert (result.stop_reason, result.text) == ("answer", "done")


@both_worlds
def test_repeats_inside_a_batch(world):
    """One of two calls repeats itself, the other one changes."""
    model = ScriptedModel(
        lambda messages: [call("look", city="Oslo"), call("look", city=str(len(messages)))],
        loop=True,
    )
    result = invoke(create_agent(model, [look], limits=Limits(repeats=3)), world)
    assert (result.stop_reason, len(model.requests)) == ("repeats", 3)


@both_worlds
def test_failures(world):
    model = ScriptedModel(call("boom"), loop=True)
    result = invoke(create_agent(model, [boom], limits=Limits(failures=2)), world)
    assert (result.stop_reason, len(model.requests)) == ("failures", 2)
    assert result.text == "The run was stopped: the tool 'boom' failed 2 times in a row (limit failures=2)."


@both_worlds
def test_calls_of_tools_that_do_not_exist_are_failures(world):
    model = ScriptedModel(call("nope"), loop=True, check_tools=False)
    result = invoke(create_agent(model, [look], limits=Limits(failures=2, repeats=None)), world)
    assert (result.stop_reason, len(model.requests)) == ("failures", 2)


@both_worlds
def test_the_defaults_end_a_loop(world):
    model = ScriptedModel(call("look", city="Oslo"), loop=True)
    result = invoke(create_agent(model, [look]), world)
    assert (result.stop_reason, len(model.requests)) == ("repeats", 5)
    result = invoke(create_agent(looking(), [look]), world)
    assert result.stop_reason == "model_calls"


def test_limits_that_cannot_be_meant_are_refused():
    with pytest.raises(UsageError, match="model_calls=0"):
        create_agent(ScriptedModel(), limits=Limits(model_calls=0))


# -- on_limit -------------------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("limits", [Limits(model_calls=1), Limits(tool_calls=0), Limits(tokens=1)], ids=str)
def test_on_limit_raise(world, limits):
    """The error names the limit and carries a valid history; the thread goes on."""
    model = ScriptedModel(use(call("look", city="Oslo"), usage=(1, 1)), "ok")
    agent = create_agent(model, [look], limits=limits, on_limit="raise", checkpointer=InMemorySaver())
    with pytest.raises(LimitReachedError) as raised:
        invoke(agent, world, config=thread())
    name = next(name for name in ("model_calls", "tool_calls", "tokens") if getattr(limits, name) in (0, 1))
    assert raised.value.limit == name
    assert raised.value.state is not None
    assert is_valid(raised.value.state["messages"])
    again = invoke(agent, world, "again", thread())
    assert (again.text, is_valid(again["messages"])) == ("ok", True)


@both_worlds
def test_on_limit_answer(world):
    """Asked once more, without tools, with all that is known: what it says is the answer."""
    model = ScriptedModel(call("look", city="Oslo"), "It is sunny.")
    agent = create_agent(model, [look], limits=Limits(model_calls=1), on_limit="answer", system_prompt="Be brief.")
    result = invoke(agent, world)
    assert (result.stop_reason, result.text, result.final is result["messages"][-1]) == (
        "model_calls",
        "It is sunny.",
        True,
    )
    last = model.requests[-1]
    assert (last.tools, last.messages[0].text) == ([], "Be brief.")
    assert "Answer now with what you know" in last.messages[-1].text
    assert shown(result["messages"])[2:] == [("tool", "sunny in Oslo"), ("ai", "It is sunny.")]


@both_worlds
def test_on_limit_answer_after_calls_that_are_not_run(world):
    model = ScriptedModel(call("look", city="Oslo"), "I do not know.")
    result = invoke(create_agent(model, [look], limits=Limits(tool_calls=0), on_limit="answer"), world)
    assert shown(result["messages"])[2:] == [("tool", "Not run: it needs 1 tool calls."), ("ai", "I do not know.")]
    assert is_valid(model.requests[-1].messages)


@both_worlds
@pytest.mark.parametrize(
    "reply", [call("look", city="Rome"), ValueError("down"), AIMessage("")], ids=["a call", "an error", "nothing"]
)
def test_a_forced_answer_that_is_none_becomes_the_notice(world, reply):
    model = ScriptedModel(call("look", city="Oslo"), reply, "never", check_tools=False)
    result = invoke(create_agent(model, [look], limits=Limits(model_calls=1), on_limit="answer"), world)
    assert (result.stop_reason, result.final, model.left) == ("model_calls", None, 1)
    assert result.text.startswith("The run was stopped")
    assert is_valid(result["messages"])


@both_worlds
def test_a_forced_answer_is_charged(world):
    model = ScriptedModel(use(call("look", city="Oslo"), usage=(10, 1)), say("sunny", usage=(20, 2)))
    result = invoke(create_agent(model, [look], limits=Limits(model_calls=1), on_limit="answer"), world)
    assert result.usage["total_tokens"] == 33


@both_worlds
@pytest.mark.parametrize("kind", ["text", "message", "async"])
def test_on_limit_as_a_function(world, kind):
    seen: list[Any] = []

    def words(reached: Any, state: Any) -> Any:
        seen.append((reached.limit, reached.used, reached.allowed, len(state["messages"])))
        return "We are sorry." if kind == "text" else AIMessage("We are sorry.")

    async def awords(reached: Any, state: Any) -> Any:
        return words(reached, state)

    agent = create_agent(
        ScriptedModel(call("look", city="Oslo")),
        [look],
        limits=Limits(model_calls=1),
        on_limit=awords if kind == "async" else words,
    )
    result = invoke(agent, world)
    assert (result.stop_reason, result.text, result.final) == ("model_calls", "We are sorry.", None)
    assert seen == [("model_calls", 1, 1, 3)]


@both_worlds
@pytest.mark.parametrize("returned", [None, "", 3], ids=repr)
def test_an_on_limit_function_that_says_nothing(world, returned):
    agent = create_agent(looking(), [look], limits=Limits(model_calls=1), on_limit=lambda reached, state: returned)
    assert invoke(agent, world).text.startswith("The run was stopped")


@both_worlds
def test_an_on_limit_function_that_raises(world):
    def refuse(reached: Any, state: Any) -> Any:
        raise PermissionError(reached.sentence)

    agent = create_agent(looking(), [look], limits=Limits(model_calls=1), on_limit=refuse)
    with pytest.raises(PermissionError, match="1 model calls"):
        invoke(agent, world)


# -- what belongs to a reply that ends a run ------------------------------------------------------------------------

SCHEMA = {"title": "Place", "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@both_worlds
def test_an_answer_beside_calls_over_the_limit_is_kept(world):
    model = ScriptedModel([call("Place", city="Oslo"), call("look", city="Oslo")])
    agent = create_agent(model, [look], response_format=ToolStrategy(SCHEMA), limits=Limits(tool_calls=0))
    result = invoke(agent, world)
    assert (result.stop_reason, result["structured_response"]) == ("tool_calls", {"city": "Oslo"})
    assert is_valid(result["messages"])


@both_worlds
def test_a_notice_is_no_structured_answer(world):
    agent = create_agent(looking(), [look], response_format=ProviderStrategy(SCHEMA), limits=Limits(model_calls=2))
    result = invoke(agent, world)
    assert (result.stop_reason, "structured_response" in result) == ("model_calls", False)


@both_worlds
@pytest.mark.parametrize("on_limit", ["answer", lambda reached, state: "sorry"], ids=["answer", "function"])
def test_words_at_the_end_are_no_structured_answer(world, on_limit):
    model = ScriptedModel(call("look", city="Oslo"), "words")
    strategy = ProviderStrategy(SCHEMA)
    agent = create_agent(model, [look], response_format=strategy, limits=Limits(model_calls=1), on_limit=on_limit)
    result = invoke(agent, world)
    assert (result.stop_reason, "structured_response" in result) == ("model_calls", False)


@both_worlds
def test_what_a_hook_changed_beside_the_reply_is_kept(world):
    from loopwright.agents.middleware import ExtendedModelResponse
    from loopwright.types import Command

    class Noted(AgentState):
        note: str

    @wrap_model_call(state_schema=Noted)
    async def note(request: Any, handler: Any) -> Any:
        return ExtendedModelResponse(await handler(request), Command(update={"note": "asked"}))

    agent = create_agent(looking(), [look], middleware=[note], limits=Limits(tool_calls=0))
    result = invoke(agent, world)
    assert (result.stop_reason, result["note"]) == ("tool_calls", "asked")


@both_worlds
def test_hooks_at_the_end_see_the_notice(world):
    seen: list[str] = []

    @after_model
    def see(state: Any, runtime: Any) -> None:
        seen.append(state["messages"][-1].text)

    @after_agent
    def last(state: Any, runtime: Any) -> None:
        seen.append("last")

    result = invoke(create_agent(looking(), [look], middleware=[see, last], limits=Limits(model_calls=1)), world)
    assert (seen, result.stop_reason) == (["", result.text, "last"], "model_calls")


@both_worlds
def test_the_events_tell_of_a_limit(world):
    agent = create_agent(looking(), [look], limits=Limits(model_calls=1))
    events = stream(agent, world, stream_mode="events")
    told = [e for e in events if type(e).__name__ in ("LimitReached", "RunFinished")]
    assert [(type(e).__name__, getattr(e, "limit", None), getattr(e, "stop_reason", None)) for e in told] == [
        ("LimitReached", "model_calls", None),
        ("RunFinished", None, "model_calls"),
    ]


@both_worlds
def test_the_notice_is_streamed(world):
    agent = create_agent(ScriptedModel(call("look", city="Oslo")), [look], limits=Limits(model_calls=1))
    tokens = [chunk for chunk, _ in stream(agent, world, stream_mode="messages")]
    assert tokens[-1].text.startswith("The run was stopped")


# -- the next run ---------------------------------------------------------------------------------------------------


@both_worlds
def test_limits_count_per_call(world):
    model = ScriptedModel(call("look", city="Oslo"), "one", call("look", city="Oslo"), "two")
    agent = create_agent(model, [look], limits=Limits(model_calls=2, tool_calls=1), checkpointer=InMemorySaver())
    assert invoke(agent, world, config=thread()).stop_reason == "answer"
    assert invoke(agent, world, config=thread()).text == "two"


@both_worlds
def test_the_thread_is_usable_after_a_limit(world):
    model = ScriptedModel([call("look", city="Oslo"), call("look", city="Rome")], "ok")
    agent = create_agent(model, [look], limits=Limits(tool_calls=1), checkpointer=InMemorySaver())
    assert invoke(agent, world, config=thread()).stop_reason == "tool_calls"
    result = invoke(agent, world, "again", thread())
    assert (result.text, is_valid(result["messages"])) == ("ok", True)


# -- recursion_limit ------------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("limit", [1, 2, 9, 10, 11])
def test_recursion_limit_counts_steps(world, limit):
    agent = create_agent(looking(), [look], checkpointer=InMemorySaver())
    with pytest.raises(GraphRecursionError, match=f"recursion_limit={limit}") as raised:
        invoke(agent, world, config=thread(recursion_limit=limit))
    assert raised.value.state is not None
    assert len(raised.value.state["messages"]) == 1 + limit + limit % 2  # an open call gets a result there
    assert is_valid(raised.value.state["messages"])
    assert len(agent.get_state(thread()).values["messages"]) == 1 + limit


@both_worlds
def test_a_run_that_needs_fewer_steps_ends(world):
    """Three steps need a limit of four, as users of LangGraph know it."""
    model = ScriptedModel(call("look", city="Oslo"), "ok", loop=True)
    agent = create_agent(model, [look])
    assert invoke(agent, world, config={"recursion_limit": 4}).text == "ok"
    with pytest.raises(GraphRecursionError):
        invoke(agent, world, config={"recursion_limit": 3})


# -- trees of agents ------------------------------------------------------------------------------------------------


def helper_of(model: Any, **options: Any) -> Any:
    """A tool that asks an agent."""
    inner = create_agent(model, [look], **options)

    @tool
    def helper(question: str, runtime: ToolRuntime) -> str:
        """Ask the helper."""
        return inner.invoke({"messages": question}).text

    @tool("helper")
    async def ahelper(question: str, runtime: ToolRuntime) -> str:
        """Ask the helper."""
        return (await inner.ainvoke({"messages": question})).text

    return helper, ahelper


@both_worlds
@pytest.mark.parametrize("kind", [0, 1], ids=["def", "async def"])
def test_usage_and_limits_are_of_the_tree(world, kind):
    inner = looking(usage=(10, 0))
    helper = helper_of(inner)[kind]
    model = ScriptedModel(use(call("helper", question="?"), usage=(1, 0)), say("never", usage=(1, 0)))
    result = invoke(create_agent(model, [helper], limits=Limits(model_calls=4)), world)
    assert (result.stop_reason, len(inner.requests), result.usage["total_tokens"]) == ("model_calls", 3, 31)
    assert result["messages"][2].text == "The run was stopped: 4 model calls were made (limit model_calls=4)."
    assert is_valid(result["messages"])


@both_worlds
def test_an_inner_agents_own_limit_ends_only_the_inner_one(world):
    helper = helper_of(looking(), limits=Limits(model_calls=2))[0]
    model = ScriptedModel(call("helper", question="?"), "ok")
    result = invoke(create_agent(model, [helper]), world)
    assert (result.stop_reason, result.text) == ("answer", "ok")
    assert "limit model_calls=2" in result["messages"][2].text


@both_worlds
def test_parallel_helpers_share_one_budget(world):
    """However they are interleaved, together they make no more calls than allowed."""
    inner = looking()
    helper = helper_of(inner)[0]
    model = ScriptedModel([call("helper", question=str(n)) for n in range(4)], "never")
    result = invoke(create_agent(model, [helper], limits=Limits(model_calls=9)), world)
    assert (len(inner.requests), result.stop_reason, is_valid(result["messages"])) == (8, "model_calls", True)


@both_worlds
def test_three_deep(world):
    innermost = looking()
    middle_tool = helper_of(innermost)[0]
    middle = create_agent(ScriptedModel(call("helper", question="?"), "middle"), [middle_tool])

    @tool
    def ask(question: str) -> str:
        """Ask."""
        return middle.invoke({"messages": question}).text

    result = invoke(create_agent(ScriptedModel(call("ask", question="?")), [ask], limits=Limits(model_calls=5)), world)
    assert (result.stop_reason, len(innermost.requests)) == ("model_calls", 3)


@both_worlds
def test_a_model_that_a_tool_calls_is_charged(world):
    side = ScriptedModel(say("three", usage=(7, 1)))

    @tool
    def think(runtime: ToolRuntime) -> str:
        """Think."""
        return side.invoke("1 + 2").text

    model = ScriptedModel(use(call("think"), usage=(1, 1)), say("ok", usage=(1, 1)))
    result = invoke(create_agent(model, [think], limits=Limits(model_calls=3)), world)
    assert (result.usage["total_tokens"], result.stop_reason) == (12, "answer")


@both_worlds
def test_time_of_the_outer_agent_ends_the_inner_one(world):
    with ManualClock():
        inner = ScriptedModel(say("too late", delay_s=100))
        helper = helper_of(inner)[0]
        agent = create_agent(ScriptedModel(call("helper", question="?")), [helper], limits=Limits(seconds=10))
        result = invoke(agent, world)
    assert (result.stop_reason, is_valid(result["messages"])) == ("seconds", True)


@both_worlds
def test_real_seconds(world):
    """Without a manual clock: a tool that never returns is left after the time that the run may take."""
    for_ever = threading.Event()

    @tool
    def stuck() -> str:
        """Never return."""
        for_ever.wait(30)
        return "done"

    try:
        agent = create_agent(ScriptedModel(call("stuck")), [stuck], limits=Limits(seconds=0.05))
        result = invoke(agent, world)
    finally:
        for_ever.set()
    assert (result.stop_reason, is_valid(result["messages"])) == ("seconds", True)
