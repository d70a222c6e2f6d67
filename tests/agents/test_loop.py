"""The loop: ask the model, run what it asks for, and again."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from loopwright.agents import Limits, create_agent
from loopwright.agents.middleware import after_model, before_model, wrap_model_call
from loopwright.agents.turns import last_turn
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from loopwright.testing import ScriptedModel, call, say, use
from loopwright.tools import tool
from tests.agents.worlds import both_worlds, invoke, is_valid, shown, stream, thread


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


async def alook(city: str) -> str:
    """Look at a city."""
    await asyncio.sleep(0)
    return f"sunny in {city}"


alook.__name__ = "look"
each_kind = pytest.mark.parametrize("function", [look, alook], ids=["def", "async def"])


# -- rounds ---------------------------------------------------------------------------------------------------------


@both_worlds
@each_kind
def test_a_round(world, function):
    """The history that every example of an agent shows."""
    model = ScriptedModel(call("look", city="Oslo"), "It is sunny.")
    result = invoke(create_agent(model, [function]), world)
    human, asks, answer, final = result["messages"]
    assert (human.text, asks.tool_calls) == (
        "hi",
        [{"name": "look", "args": {"city": "Oslo"}, "id": "call_1_1", "type": "tool_call"}],
    )
    assert (answer.text, answer.tool_call_id, answer.name, answer.status) == (
        "sunny in Oslo",
        "call_1_1",
        "look",
        "success",
    )
    assert (final.text, result.final is final, result.stop_reason) == ("It is sunny.", True, "answer")
    assert model.requests[1].messages == [human, asks, answer]
    assert len({message.id for message in result["messages"]}) == 4


@both_worlds
def test_usage_is_summed(world):
    model = ScriptedModel(use(call("look", city="Oslo"), usage=(10, 2)), say("ok", usage=(20, 3)))
    result = invoke(create_agent(model, [look]), world)
    assert result.usage == {"input_tokens": 30, "output_tokens": 5, "total_tokens": 35}
    assert result.cost is None


@both_worlds
def test_the_callers_input_is_not_changed(world):
    message = HumanMessage("hi")
    messages: list[Any] = [message]
    given = {"messages": messages}
    result = invoke(create_agent(ScriptedModel("ok")), world, given)
    assert (given, messages, message.id) == ({"messages": messages}, [message], None)
    assert result["messages"][0].id is not None


@pytest.mark.parametrize(
    "given",
    [
        "hi",
        ["hi"],
        [("user", "hi")],
        [{"role": "user", "content": "hi"}],
        [HumanMessage("hi")],
        HumanMessage("hi"),
        ("user", "hi"),
    ],
    ids=repr,
)
@both_worlds
def test_all_spellings_of_messages(world, given):
    assert shown(invoke(create_agent(ScriptedModel("ok")), world, {"messages": given})["messages"]) == [
        ("human", "hi"),
        ("ai", "ok"),
    ]


# -- several calls at once ------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("reading", [False, True], ids=["invoke", "stream"])
def test_calls_of_one_turn_run_at_the_same_time(world, kind, reading):
    """Each waits until the other one has begun: one after the other they would wait for ever."""
    arrived = threading.Barrier(2)
    begun: list[str] = []
    both_here = asyncio.Event()

    @tool
    def meet(who: str) -> str:
        """Meet."""
        arrived.wait(timeout=20)
        return f"{who} was here"

    @tool("meet")
    async def ameet(who: str) -> str:
        """Meet."""
        begun.append(who)
        if len(begun) == 2:
            both_here.set()
        await both_here.wait()
        return f"{who} was here"

    model = ScriptedModel([call("meet", who="ann"), call("meet", who="bob")], "ok")
    agent = create_agent(model, [meet if kind == "def" else ameet])
    result = stream(agent, world, stream_mode="values")[-1] if reading else invoke(agent, world)
    assert shown(result["messages"])[2:] == [("tool", "ann was here"), ("tool", "bob was here"), ("ai", "ok")]


@both_worlds
def test_results_stand_in_the_order_of_the_calls(world):
    """Not in the order in which they end: the first call waits for the second."""
    second_has_ended = threading.Event()

    @tool
    def answer(which: int) -> str:
        """Answer."""
        if which == 1:
            assert second_has_ended.wait(timeout=20)
        else:
            second_has_ended.set()
        return f"result {which}"

    model = ScriptedModel([call("answer", which=1), call("answer", which=2)], "ok")
    result = invoke(create_agent(model, [answer]), world)
    assert [message.text for message in result["messages"][2:4]] == ["result 1", "result 2"]


@both_worlds
def test_max_concurrency(world):
    running, most = 0, 0
    lock = threading.Lock()

    @tool
    def work(n: int) -> str:
        """Work."""
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        with lock:
            running -= 1
        return str(n)

    model = ScriptedModel([call("work", n=n) for n in range(6)], "ok")
    result = invoke(create_agent(model, [work]), world, config={"max_concurrency": 1})
    assert (most, [m.text for m in result["messages"][2:8]]) == (1, list("012345"))


@both_worlds
def test_two_calls_with_one_id_get_two_results(world):
    model = ScriptedModel([call("look", city="Oslo", id="c"), call("look", city="Rome", id="c")], "ok")
    result = invoke(create_agent(model, [look]), world)
    assert [message.text for message in result["messages"][2:4]] == ["sunny in Oslo", "sunny in Rome"]
    assert is_valid(result["messages"])


# -- replies that are no answer -------------------------------------------------------------------------------------


@both_worlds
def test_an_unknown_tool_is_an_error_result(world):
    model = ScriptedModel(call("nope"), "sorry", check_tools=False)
    result = invoke(create_agent(model, [look]), world)
    assert shown(result["messages"])[2:] == [
        ("tool", "There is no tool named 'nope'. Tools that exist: look."),
        ("ai", "sorry"),
    ]
    assert result["messages"][2].status == "error"


@both_worlds
def test_a_tool_call_without_any_tools(world):
    result = invoke(create_agent(ScriptedModel(call("nope"), "sorry", check_tools=False)), world)
    assert shown(result["messages"])[2:] == [
        ("tool", "There is no tool named 'nope'. There are no tools."),
        ("ai", "sorry"),
    ]


@both_worlds
def test_a_call_that_cannot_be_read_is_an_error_result(world):
    """It stands beside a good call, which is run."""
    broken: Any = {"name": "look", "args": '{"city": ', "id": "c1", "error": "no JSON", "type": "invalid_tool_call"}
    model = ScriptedModel(use(call("look", city="Oslo", id="c2"), invalid=[broken]), "ok")
    result = invoke(create_agent(model, [look]), world)
    found = {m.tool_call_id: (m.status, m.text) for m in result["messages"] if m.type == "tool"}
    assert found["c2"] == ("success", "sunny in Oslo")
    assert found["c1"][0] == "error"
    assert "cannot be read: no JSON" in found["c1"][1]
    assert is_valid(result["messages"])


@both_worlds
def test_a_call_without_an_id_gets_one(world):
    class Careless(ScriptedModel):
        async def respond(self, *args: Any, **more: Any) -> AIMessage:
            reply = await super().respond(*args, **more)
            return reply.model_copy(update={"tool_calls": [{**c, "id": None} for c in reply.tool_calls]})

    result = invoke(create_agent(Careless(call("look", city="Oslo"), "ok"), [look]), world)  # pyright: ignore[reportCallIssue]
    asks, answer = result["messages"][1:3]
    assert asks.tool_calls[0]["id"]
    assert answer.tool_call_id == asks.tool_calls[0]["id"]


@both_worlds
def test_an_empty_reply_is_no_answer(world):
    result = invoke(create_agent(ScriptedModel(AIMessage(""))), world)
    assert (result.stop_reason, result.final, result.text) == ("empty_turn", None, "")


@both_worlds
@pytest.mark.parametrize(
    "blocks",
    [
        [{"type": "text", "text": ""}],
        [{"type": "reasoning", "reasoning": "hm"}],
        [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": ""}],
        [""],
    ],
    ids=str,
)
def test_a_reply_without_words_is_no_answer(world, blocks: list[Any]):
    result = invoke(create_agent(ScriptedModel(AIMessage(blocks))), world)
    assert (result.stop_reason, result.final) == ("empty_turn", None)


@pytest.mark.parametrize(
    "block",
    [{"type": "refusal", "refusal": "No."}, {"type": "image", "base64": "aGk=", "mime_type": "image/png"}],
    ids=str,
)
def test_a_refusal_or_a_picture_is_an_answer(block: dict[str, Any]):
    assert invoke(create_agent(ScriptedModel(AIMessage([block]))), "sync").stop_reason == "answer"


@both_worlds
def test_a_reply_in_blocks_is_an_answer(world):
    blocks: list[Any] = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "yes"}]
    result = invoke(create_agent(ScriptedModel(AIMessage(blocks))), world)
    assert (result.stop_reason, result.text) == ("answer", "yes")


def malformed() -> AIMessage:
    return AIMessage("", response_metadata={"finish_reason": "error", "raw_finish_reason": "MALFORMED_FUNCTION_CALL"})


@both_worlds
def test_a_malformed_reply_is_asked_for_once_more(world):
    model = ScriptedModel(malformed(), "ok")
    result = invoke(create_agent(model), world)
    assert (result.stop_reason, result.text, len(model.requests)) == ("answer", "ok", 2)
    assert shown(result["messages"]) == [("human", "hi"), ("ai", "ok")]


@both_worlds
def test_two_malformed_replies_end_the_run_and_say_so(world):
    model = ScriptedModel(malformed(), malformed(), "never")
    result = invoke(create_agent(model), world)
    assert (result.stop_reason, result.final, model.left) == ("malformed_turn", None, 1)
    assert "could not be read" in result.text


def test_a_malformed_reply_is_not_asked_for_again_over_the_limit():
    model = ScriptedModel(malformed(), "never")
    result = create_agent(model, limits=Limits(model_calls=1)).invoke({"messages": "hi"})
    assert (result.stop_reason, result.final, model.left) == ("malformed_turn", None, 1)


@both_worlds
def test_a_malformed_reply_is_asked_for_through_the_hooks(world):
    asked: list[int] = []

    @wrap_model_call
    async def count(request: Any, handler: Any) -> Any:
        asked.append(len(request.messages))
        return await handler(request)

    result = invoke(create_agent(ScriptedModel(malformed(), "ok"), middleware=[count]), world)
    assert (result.text, asked) == ("ok", [1, 1])


# -- answers of tools -----------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("siblings", [0, 1])
def test_return_direct(world, siblings):
    @tool(return_direct=True)
    def answer(text: str) -> str:
        """The answer."""
        return text

    calls = [call("answer", text="42"), *[call("look", city="Oslo")] * siblings]
    model = ScriptedModel(calls, "never")
    result = invoke(create_agent(model, [answer, look]), world)
    assert (result.stop_reason, result.text, result.final, model.left) == ("return_direct", "42", None, 1)
    assert [message.type for message in result["messages"]] == ["human", "ai", *["tool"] * len(calls)]


@both_worlds
def test_a_failing_return_direct_tool_goes_back_to_the_model(world):
    @tool(return_direct=True)
    def answer(text: str) -> str:
        """The answer."""
        raise ValueError(text)

    result = invoke(create_agent(ScriptedModel(call("answer", text="42"), "sorry"), [answer]), world)
    assert (result.stop_reason, result.text) == ("answer", "sorry")


@both_worlds
def test_other_tools_of_an_agent_with_return_direct_go_on(world):
    @tool(return_direct=True)
    def answer(text: str) -> str:
        """The answer."""
        return text

    model = ScriptedModel(call("look", city="Oslo"), call("answer", text="42"))
    result = invoke(create_agent(model, [answer, look]), world)
    assert (result.stop_reason, result.text, len(model.requests)) == ("return_direct", "42", 2)


# -- threads --------------------------------------------------------------------------------------------------------


@both_worlds
def test_turns_of_a_thread_go_on_and_threads_never_mix(world):
    model = ScriptedModel(call("look", city="Oslo"), "one", "two", "other")
    agent = create_agent(model, [look], checkpointer=InMemorySaver())
    invoke(agent, world, "first", thread("a"))
    second = invoke(agent, world, "second", thread("a"))
    other = invoke(agent, world, "third", thread("b"))
    assert [m.text for m in second["messages"]] == ["first", "", "sunny in Oslo", "one", "second", "two"]
    assert [m.text for m in other["messages"]] == ["third", "other"]
    assert (second.stop_reason, second.text) == ("answer", "two")


@both_worlds
def test_the_stop_reason_is_of_this_run(world):
    """A thread whose last run ended with a limit answers the next time."""
    model = ScriptedModel(call("look", city="Oslo"), "fine")
    agent = create_agent(model, [look], checkpointer=InMemorySaver(), limits=Limits(model_calls=1))
    first = invoke(agent, world, "first", thread())
    second = invoke(agent, world, "second", thread())
    assert (first.stop_reason, second.stop_reason, second.text) == ("model_calls", "answer", "fine")


@both_worlds
def test_calls_without_results_in_the_input_get_them(world):
    """What another program left open: our model is asked with a valid history, the tool is not run."""
    asks = AIMessage("", tool_calls=[{"name": "look", "args": {"city": "Oslo"}, "id": "c1", "type": "tool_call"}])
    model = ScriptedModel("ok")
    result = invoke(create_agent(model, [look]), world, {"messages": [HumanMessage("hi"), asks]})
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert (result["messages"][2].status, result["messages"][2].tool_call_id) == ("error", "c1")


@both_worlds
def test_an_input_that_ends_with_an_answer(world):
    """Nothing is decided by what the caller wrote: the model is asked."""
    given = {"messages": [HumanMessage("hi"), AIMessage("so far")]}
    result = invoke(create_agent(ScriptedModel("go on")), world, given)
    assert (result.stop_reason, result.text) == ("answer", "go on")


# -- where a run goes on --------------------------------------------------------------------------------------------


@both_worlds
def test_a_last_message_of_a_hook_goes_back_to_the_model(world):
    """A hook that adds results by hand has answered the calls: the model goes on, the tool is not run."""
    run: list[str] = []

    @tool("look")
    def counted(city: str) -> str:
        """Look."""
        run.append(city)
        return "never"

    @after_model(can_jump_to=["model"])
    def answer(state: Any, runtime: Any) -> Any:
        calls = state["messages"][-1].tool_calls
        results = [ToolMessage("cached", tool_call_id=c["id"]) for c in calls]
        return {"messages": results} if results else None

    result = invoke(create_agent(ScriptedModel(call("look", city="Oslo"), "ok"), [counted], middleware=[answer]), world)
    assert (shown(result["messages"])[2:], run) == ([("tool", "cached"), ("ai", "ok")], [])


@both_worlds
def test_a_hook_that_adds_results_needs_no_jump(world):
    @after_model
    def answer(state: Any, runtime: Any) -> Any:
        calls = state["messages"][-1].tool_calls
        return {"messages": [ToolMessage("cached", tool_call_id=c["id"]) for c in calls]} if calls else None

    result = invoke(create_agent(ScriptedModel(call("look", city="Oslo"), "ok"), [look], middleware=[answer]), world)
    assert shown(result["messages"])[2:] == [("tool", "cached"), ("ai", "ok")]


@both_worlds
def test_some_calls_answered_by_a_hook_and_the_others_run(world):
    @after_model
    def answer(state: Any, runtime: Any) -> Any:
        calls = state["messages"][-1].tool_calls
        return {"messages": [ToolMessage("cached", tool_call_id=calls[0]["id"])]} if calls else None

    model = ScriptedModel([call("look", city="Oslo"), call("look", city="Rome")], "ok")
    result = invoke(create_agent(model, [look], middleware=[answer]), world)
    assert shown(result["messages"])[2:] == [("tool", "cached"), ("tool", "sunny in Rome"), ("ai", "ok")]


@both_worlds
def test_messages_that_a_hook_adds_before_the_model(world):
    @before_model
    def remind(state: Any, runtime: Any) -> Any:
        return {"messages": [HumanMessage("be brief")]} if len(state["messages"]) == 1 else None

    model = ScriptedModel(call("look", city="Oslo"), "ok")
    result = invoke(create_agent(model, [look], middleware=[remind]), world)
    assert [m.text for m in result["messages"]] == ["hi", "be brief", "", "sunny in Oslo", "ok"]


# -- the last turn --------------------------------------------------------------------------------------------------


def asking(*ids: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": i, "type": "tool_call"} for i in ids])


def test_the_last_turn():
    first, reply = asking("a"), asking("b", "c")
    results = [ToolMessage("1", tool_call_id="b")]
    turn = last_turn([HumanMessage("hi"), first, ToolMessage("0", tool_call_id="a"), reply, *results])
    assert (turn.reply, list(turn.results), turn.last) == (reply, results, results[0])
    assert [c["id"] for c in turn.open] == ["c"]
    assert turn.answers()["b"] is results[0]
    assert turn.paired() == [results[0], None]


@pytest.mark.parametrize(
    ("messages", "reply", "calls"),
    [
        ([], None, 0),
        ([HumanMessage("hi")], None, 0),
        ([asking("a"), HumanMessage("hi")], 0, 1),
        ([HumanMessage("hi"), asking("a"), SystemMessage("note")], 1, 1),
        ([AIMessage("ok")], 0, 0),
        ([ToolMessage("x", tool_call_id="a")], None, 0),
    ],
    ids=["nothing", "human", "a hook's word after it", "a note after it", "answer", "result only"],
)
def test_the_last_turn_of(messages, reply, calls):
    turn = last_turn(messages)
    assert turn.reply is (None if reply is None else messages[reply])
    assert len(turn.calls) == len(turn.open) == calls
    assert turn.last is (messages[-1] if messages else None)


@both_worlds
def test_chunks_of_a_streamed_call_become_a_call(world):
    pieces = [
        AIMessageChunk(tool_call_chunks=[{"name": "look", "args": "", "id": "c1", "index": 0}]),  # pyright: ignore
        AIMessageChunk(tool_call_chunks=[{"name": None, "args": '{"city": "Oslo"}', "id": None, "index": 0}]),  # pyright: ignore
    ]
    agent = create_agent(ScriptedModel(pieces, "ok"), [look])
    assert shown(stream(agent, world, stream_mode=["messages", "values"])[-1][1]["messages"])[2] == (
        "tool",
        "sunny in Oslo",
    )


@both_worlds
def test_a_model_that_changes_its_list_changes_no_state(world):
    from loopwright.chat_models import BaseChatModel

    class Rude(BaseChatModel):
        def _generate(self, messages: list[Any], **more: Any) -> AIMessage:
            messages.insert(0, SystemMessage("I was here."))
            return AIMessage(f"{len(messages)} messages")

    agent = create_agent(Rude(), checkpointer=InMemorySaver())
    assert [m.text for m in invoke(agent, world, config=thread())["messages"]] == ["hi", "2 messages"]
    assert invoke(agent, world, config=thread()).text == "4 messages"


@both_worlds
def test_a_hooks_message_behind_the_answer_ends_nothing_and_begins_nothing(world):
    """Without a jump the answer before it is the end."""

    @after_model
    def note(state: Any, runtime: Any) -> Any:
        return {"messages": [HumanMessage("noted")]}

    model = ScriptedModel("ok", "never")
    result = invoke(create_agent(model, middleware=[note]), world)
    assert ([m.text for m in result["messages"]], result.stop_reason, model.left) == (
        ["hi", "ok", "noted"],
        "answer",
        1,
    )
