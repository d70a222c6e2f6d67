"""The scripted model: what it says, and what it minds."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from loopwright.errors import UsageError
from loopwright.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from loopwright.testing import ManualClock, ScriptedModel, call, say, use
from tests.models.worlds import Blocking, both_worlds

ADD: Any = {"type": "function", "function": {"name": "add"}}


@both_worlds
@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("text", "text"),
        (say("text"), "text"),
        (say(chunks=["te", "xt"]), "text"),
        (AIMessage("text"), "text"),
        (["te", "xt"], "text"),
        ([AIMessageChunk("te"), AIMessageChunk("xt")], "text"),
        (lambda messages: messages[-1].text, "hi"),
        (lambda messages: say(f"{len(messages)} message"), "1 message"),
        ("", ""),
    ],
)
def test_what_a_script_may_hold(world: Blocking, item: Any, expected: str) -> None:
    model = ScriptedModel(item, item)
    assert world.invoke(model, "hi").content == expected
    assert "".join(piece.content for piece in world.stream(model, "hi")) == expected
    assert model.left == 0


@both_worlds
@pytest.mark.parametrize("error", [ValueError("x"), ValueError])
def test_an_exception_is_raised(world: Blocking, error: Any) -> None:
    with pytest.raises(ValueError):
        world.invoke(ScriptedModel(error), "hi")


@both_worlds
def test_calls_get_ids_of_their_own_and_stream_in_fragments(world: Blocking) -> None:
    reply = use(call("add", a=1, b=2), call("add", {"a": 3}, id="mine"), text="let me see", usage=(5, 6))
    model = ScriptedModel(reply, reply).bind_tools([ADD])
    whole = world.invoke(model, "hi")
    assert whole.tool_calls == [
        {"name": "add", "args": {"a": 1, "b": 2}, "id": "call_1_1", "type": "tool_call"},
        {"name": "add", "args": {"a": 3}, "id": "mine", "type": "tool_call"},
    ]
    assert whole.usage_metadata == {"input_tokens": 5, "output_tokens": 6, "total_tokens": 11}
    pieces = world.stream(model, "hi")
    assert [piece.content for piece in pieces] == ["let ", "me ", "see", "", "", "", "", "", ""]
    total = pieces[0]
    for piece in pieces[1:]:
        total = total + piece
    assert [one["args"] for one in total.tool_calls] == [{"a": 1, "b": 2}, {"a": 3}]
    assert [one["id"] for one in total.tool_calls] == ["call_2_1", "mine"]
    assert total.usage_metadata == whole.usage_metadata


@both_worlds
def test_several_calls_in_a_list_are_one_answer(world: Blocking) -> None:
    model = ScriptedModel([call("add", a=1), call("add", a=2)]).bind_tools([ADD])
    assert [one["args"] for one in world.invoke(model, "hi").tool_calls] == [{"a": 1}, {"a": 2}]


@both_worlds
def test_blocks_metadata_ids_and_calls_that_do_not_parse(world: Blocking) -> None:
    reply = use(text=[{"type": "text", "text": "a"}], invalid=[{"name": "f", "args": "{", "id": "1", "error": "e"}])
    model = ScriptedModel(reply, reply, say("b", id="own", response_metadata={"model_name": "m"}))
    assert world.invoke(model, "hi").invalid_tool_calls[0]["args"] == "{"
    pieces = world.stream(model, "hi")
    assert pieces[0].content == [{"type": "text", "text": "a"}]
    assert pieces[1].invalid_tool_calls[0]["name"] == "f"
    named = world.stream(model, "hi")
    assert {piece.id for piece in named} == {"own"}
    assert named[0].response_metadata == {"model_name": "m"}


@both_worlds
def test_a_stream_may_break(world: Blocking) -> None:
    broken = say(chunks=["a", ConnectionError("gone")])
    with pytest.raises(ConnectionError):
        world.stream(ScriptedModel(broken), "hi")
    with pytest.raises(ConnectionError):
        world.invoke(ScriptedModel(broken), "hi")


@both_worlds
def test_a_tool_that_was_not_bound_may_not_be_called(world: Blocking) -> None:
    with pytest.raises(AssertionError, match="calls the tool 'sub', and the model was told of add"):
        world.invoke(ScriptedModel(call("sub")).bind_tools([ADD]), "hi")
    with pytest.raises(AssertionError, match="told of none"):
        world.invoke(ScriptedModel(call("sub")), "hi")
    assert world.invoke(ScriptedModel(call("sub"), check_tools=False), "hi").tool_calls[0]["name"] == "sub"


@both_worlds
def test_a_broken_history_fails_the_test(world: Blocking) -> None:
    asked = AIMessage("", tool_calls=[call("add", id="1")])
    with pytest.raises(AssertionError, match="Request 1 is no valid history"):
        world.invoke(ScriptedModel("ok"), [HumanMessage("hi"), asked, HumanMessage("and?")])
    good = [HumanMessage("hi"), asked, ToolMessage("3", tool_call_id="1")]
    assert world.invoke(ScriptedModel("ok"), good).text == "ok"
    assert world.invoke(ScriptedModel("ok", check_history=False), good[:2]).text == "ok"


def test_a_history_that_breaks_later_fails_the_test_too():
    """What was in order is not looked at again; what is in its place is."""
    model = ScriptedModel("a", loop=True)
    asked, result = HumanMessage("hi"), ToolMessage("5", tool_call_id="1")
    asking = AIMessage("", tool_calls=[call("look", id="1")])
    model.invoke([asked, asking, result])
    model.invoke([asked, asking, result, AIMessage("5"), asked])
    for broken in ([asked, asking, result, result], [asked, asking, asked], [asking, asked, result], [asking]):
        with pytest.raises(AssertionError, match="is no valid history"):
            model.invoke(broken)


@both_worlds
def test_a_script_that_runs_out_says_so(world: Blocking) -> None:
    model = ScriptedModel("only one")
    world.invoke(model, "hi")
    with pytest.raises(AssertionError, match=r"has 1 answers and was asked for number 2(.|\n)*'the last'"):
        world.invoke(model, [("human", "the first"), ("ai", "x"), ("human", "the last")])
    with pytest.raises(AssertionError, match=r"\(none\)"):
        world.invoke(ScriptedModel(), [])
    with pytest.raises(AssertionError, match="number 1"):
        world.invoke(ScriptedModel(loop=True), [])


def test_a_loop_begins_anew() -> None:
    model = ScriptedModel("a", "b", loop=True)
    assert [model.invoke("hi").text for _ in range(5)] == ["a", "b", "a", "b", "a"]


def test_what_it_was_asked_is_kept() -> None:
    model = ScriptedModel("ok")
    messages = [HumanMessage("hi")]
    model.bind_tools(
        [ADD, {"name": "own", "input_schema": {"type": "object"}}, {"type": "web_search"}], tool_choice="any"
    ).invoke(messages, stop=["x"])
    [request] = model.requests
    assert (request.messages, request.stop, request.tool_choice) == (messages, ["x"], "any")
    assert request.tool_names == ["add", "own", "web_search"]


@both_worlds
def test_delays_go_through_the_port(world: Blocking, manual_clock: ManualClock) -> None:
    model = ScriptedModel(say("one two three", delay_s=60, chunk_delay_s=5), use(call("add"), delay_s=1))
    bound = model.bind_tools([ADD])
    world.stream(bound, "hi")
    world.invoke(bound, "hi")
    assert manual_clock.slept == [60, 5, 5, 1]


def test_many_threads_take_each_item_once() -> None:
    model = ScriptedModel(*[str(n) for n in range(50)])
    got: list[str] = []

    def take() -> None:
        for _ in range(10):
            got.append(model.invoke("hi").text)  # noqa: PERF401 - the calls are the point

    threads = [threading.Thread(target=take) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, got)) == list(range(50))


async def test_many_tasks_take_each_item_once() -> None:
    model = ScriptedModel(*[str(n) for n in range(50)])
    answers = await asyncio.gather(*(model.ainvoke("hi") for _ in range(50)))
    assert sorted(int(answer.text) for answer in answers) == list(range(50))


def test_a_script_given_as_one_list_is_explained() -> None:
    with pytest.raises(UsageError, match=r"give the script's items one by one"):
        ScriptedModel([call("add"), say("done")]).invoke("hi")
    with pytest.raises(UsageError, match="item 1 of the script is int"):
        ScriptedModel(3).invoke("hi")  # type: ignore


def test_a_usage_may_be_the_whole_dictionary() -> None:
    usage: Any = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "input_token_details": {"cache_read": 1}}
    assert ScriptedModel(say("a", usage=usage)).invoke("hi").usage_metadata == usage


def test_arguments_of_a_call_may_have_any_name_but_id() -> None:
    assert call("greet", name="Ann", args=[1])["args"] == {"name": "Ann", "args": [1]}
    assert call("greet", {"id": "5"}, id="c1") == {
        "name": "greet",
        "args": {"id": "5"},
        "id": "c1",
        "type": "tool_call",
    }
