"""The public calls of a chat model: inputs, streams, batches, config."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from loopwright.models import BaseChatModel
from tests.models.worlds import Blocking, Echo, both_worlds


class Streaming(BaseChatModel):
    """Says two words."""

    def _generate(self, messages: list[Any], **kwargs: Any) -> AIMessage:
        return AIMessage("whole")

    def _stream(self, messages: list[Any], **kwargs: Any) -> Iterator[AIMessageChunk]:
        yield AIMessageChunk("in ")
        yield AIMessageChunk("parts")


# -- inputs ---------------------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize(
    ("given_as", "expected"),
    [
        ("hi", [("human", "hi")]),
        ([("system", "s"), ("human", "h"), ("ai", "a")], [("system", "s"), ("human", "h"), ("ai", "a")]),
        ([{"role": "user", "content": "h"}, {"role": "assistant", "content": "a"}], [("human", "h"), ("ai", "a")]),
        ([HumanMessage("h")], [("human", "h")]),
        (("a", "b"), [("human", "a"), ("human", "b")]),
        ([], []),
    ],
)
def test_what_a_model_may_be_called_with(world: Blocking, given_as: Any, expected: list[tuple[str, str]]) -> None:
    model = Echo(asked=[])
    answer = world.invoke(model, given_as)
    assert answer.id is not None
    assert [(message.type, message.content) for message in model.asked[0]["messages"]] == expected


def test_a_prompt_is_asked_for_its_messages() -> None:
    class Prompt:
        def to_messages(self) -> list[Any]:
            return [HumanMessage("from a template")]

    assert Echo(asked=[]).invoke(Prompt()).content == "from a template"


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        (42, "a str or a list of messages, not int"),
        (HumanMessage("h"), r"write \[HumanMessage\(\.\.\.\)\]"),
        ({"messages": []}, r'model\.invoke\(state\["messages"\]\)'),
    ],
)
def test_a_wrong_input_shows_the_right_one(wrong: Any, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy) as caught:
        Echo(asked=[]).invoke(wrong)
    assert type(caught.value) is ValueError
    with pytest.raises(ValueError, match=remedy):
        Echo(asked=[]).stream(wrong)


@both_worlds
def test_B49_config_and_input_are_never_changed(world: Blocking) -> None:
    model = Echo(asked=[], tags=["own"], metadata={"m": 1}).with_config(tags=["bound"], metadata={"k": "b"})
    config: Any = {"metadata": {"k": "v"}, "tags": ["t"], "configurable": {"thread_id": "1"}, "max_concurrency": 2}
    messages: Any = [("human", "hi"), {"role": "user", "content": "there"}]
    before = copy.deepcopy((config, messages))
    world.invoke(model, messages, config)
    world.stream(model, messages, config)
    world.batch(model, [messages, messages], config)
    assert (config, messages) == before


@both_worlds
def test_config_is_no_part_of_the_conversation(world: Blocking) -> None:
    model = Echo(asked=[])
    world.invoke(model, "hi", {"tags": ["a"], "metadata": {"b": 1}, "callbacks": [], "configurable": {"c": 2}})
    assert model.asked == [{"messages": [HumanMessage("hi")], "stop": None}]


# -- streams --------------------------------------------------------------------------------------------------------


@both_worlds
def test_invoke_asks_generate_and_a_reader_gets_the_stream(world: Blocking) -> None:
    assert world.invoke(Streaming(), "hi").content == "whole"
    pieces = world.stream(Streaming(), "hi")
    assert [piece.content for piece in pieces] == ["in ", "parts", ""]
    assert [piece.chunk_position for piece in pieces] == [None, None, "last"]
    assert len({piece.id for piece in pieces}) == 1
    assert pieces[0].id is not None


@both_worlds
def test_a_model_that_cannot_stream_gives_its_answer_as_one_chunk(world: Blocking) -> None:
    assert [piece.content for piece in world.stream(Echo(asked=[]), "hi there")] == ["hi there"]


@both_worlds
@pytest.mark.parametrize(
    ("disabled", "tools", "expected"),
    [
        (True, False, ["whole"]),
        (False, True, ["in ", "parts", ""]),
        ("tool_calling", False, ["in ", "parts", ""]),
        ("tool_calling", True, ["whole"]),
    ],
)
def test_disable_streaming(world: Blocking, disabled: Any, tools: bool, expected: list[str]) -> None:
    model = Streaming(disable_streaming=disabled)
    kwargs = {"tools": [{"type": "function", "function": {"name": "f"}}]} if tools else {}
    assert [piece.content for piece in world.stream(model, "hi", **kwargs)] == expected


@both_worlds
def test_an_id_of_the_providers_is_kept_and_no_object_of_the_models_is_changed(world: Blocking) -> None:
    own = [AIMessageChunk("a", id="prov"), AIMessageChunk("b"), AIMessageChunk("c", id="other")]

    class Kept(BaseChatModel):
        def _stream(self, messages: list[Any], **kwargs: Any) -> Iterator[AIMessageChunk]:
            yield from own

    pieces = world.stream(Kept(), "hi")
    assert [piece.id for piece in pieces] == ["prov"] * 4
    assert [piece.id for piece in own] == ["prov", None, "other"]
    answer = world.invoke(Kept(), "hi")
    assert (answer.content, answer.id, type(answer)) == ("abc", "prov", AIMessage)


@both_worlds
def test_no_second_last_piece_when_the_model_marks_its_own(world: Blocking) -> None:
    class Marked(BaseChatModel):
        def _stream(self, messages: list[Any], **kwargs: Any) -> Iterator[AIMessageChunk]:
            yield AIMessageChunk("a")
            yield AIMessageChunk("b", chunk_position="last")

    assert [piece.content for piece in world.stream(Marked(), "hi")] == ["a", "b"]


def test_each_piece_is_delivered_before_the_next_is_asked_for() -> None:
    seen: list[str] = []

    class Slow(BaseChatModel):
        def _stream(self, messages: list[Any], **kwargs: Any) -> Iterator[str]:
            for word in ("a", "b", "c"):
                seen.append(f"made {word}")
                yield word

    for piece in Slow().stream("hi"):
        seen.append(f"read {piece.content}")  # noqa: PERF401 - when it is read is the point
    assert seen == ["made a", "read a", "made b", "read b", "made c", "read c", "read "]


async def test_each_piece_is_delivered_before_the_next_is_asked_for_async() -> None:
    seen: list[str] = []

    class Slow(BaseChatModel):
        async def _astream(self, messages: list[Any], **kwargs: Any) -> AsyncIterator[str]:
            for word in ("a", "b"):
                seen.append(f"made {word}")
                yield word

    async for piece in Slow().astream("hi"):
        seen.append(f"read {piece.content}")  # noqa: PERF401 - when it is read is the point
    assert seen == ["made a", "read a", "made b", "read b", "read "]


def test_leaving_a_stream_early_closes_the_models_generator() -> None:
    closed = threading.Event()

    class Endless(BaseChatModel):
        def _stream(self, messages: list[Any], **kwargs: Any) -> Iterator[str]:
            try:
                while True:
                    yield "word "
            finally:
                closed.set()

    stream = Endless().stream("hi")
    next(stream)
    stream.close()  # type: ignore
    assert closed.is_set()


async def test_leaving_an_async_stream_early_closes_the_models_generator() -> None:
    closed = asyncio.Event()

    class Endless(BaseChatModel):
        async def _astream(self, messages: list[Any], **kwargs: Any) -> AsyncIterator[str]:
            try:
                while True:
                    yield "word "
            finally:
                closed.set()

    stream: Any = Endless().astream("hi")
    async for _ in stream:
        break
    await stream.aclose()
    assert closed.is_set()


@both_worlds
def test_an_error_in_the_middle_comes_after_the_pieces_before_it(world: Blocking) -> None:
    class Breaks(BaseChatModel):
        def _stream(self, messages: list[Any], **kwargs: Any) -> Iterator[str]:
            yield "a"
            raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        world.stream(Breaks(), "hi")
    got: list[str] = []
    with pytest.raises(ConnectionError, match="gone"):
        for piece in Breaks().stream("hi"):
            got.append(piece.text)  # noqa: PERF401 - what comes before the error is the point
    assert got == ["a"]


@both_worlds
@given(st.lists(st.text(max_size=4), min_size=1, max_size=6))
def test_the_pieces_add_up_to_what_invoke_gives(world: Blocking, words: list[str]) -> None:
    class Words(BaseChatModel):
        def _stream(self, messages: list[Any], **kwargs: Any) -> Iterator[str]:
            yield from words

    pieces = world.stream(Words(), "hi")
    total = pieces[0]
    for piece in pieces[1:]:
        total = total + piece
    assert total.content == world.invoke(Words(), "hi").content == "".join(words)


# -- batches --------------------------------------------------------------------------------------------------------


@both_worlds
@given(st.lists(st.text(alphabet="abc", max_size=3), max_size=6), st.integers(1, 3))
def test_a_batch_keeps_the_order(world: Blocking, inputs: list[str], limit: int) -> None:
    model = Echo(asked=[])
    assert [answer.content for answer in world.batch(model, inputs, {"max_concurrency": limit})] == inputs
    done = world.as_completed(model, inputs)
    assert sorted((index, answer.content) for index, answer in done) == list(enumerate(inputs))


class Fussy(BaseChatModel):
    """Fails on "bad"."""

    def _generate(self, messages: list[Any], **kwargs: Any) -> str:
        if messages[-1].text == "bad":
            raise ValueError("bad input")
        return "ok"


@both_worlds
def test_a_failed_call_of_a_batch_is_raised_or_returned(world: Blocking) -> None:
    with pytest.raises(ValueError, match="bad input"):
        world.batch(Fussy(), ["good", "bad"])
    results = world.batch(Fussy(), ["good", "bad"], return_exceptions=True)
    assert [getattr(result, "content", repr(result)) for result in results] == ["ok", "ValueError('bad input')"]
    with pytest.raises(ValueError, match="bad input"):
        world.as_completed(Fussy(), ["bad"])
    [(index, error)] = world.as_completed(Fussy(), ["bad"], return_exceptions=True)
    assert (index, str(error)) == (0, "bad input")


@both_worlds
def test_max_concurrency_holds(world: Blocking) -> None:
    lock, running, most = threading.Lock(), 0, 0
    meet = threading.Barrier(2, timeout=20)

    class Counting(BaseChatModel):
        def _generate(self, messages: list[Any], **kwargs: Any) -> str:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            meet.wait()
            with lock:
                running -= 1
            return "ok"

    world.batch(Counting(), ["x"] * 6, {"max_concurrency": 2})
    assert most == 2


@both_worlds
def test_a_config_for_each_input(world: Blocking) -> None:
    heard: list[Any] = []

    class Tagged(BaseChatModel):
        def call_config(self, config: Any) -> Any:
            return config

        async def respond(self, port: Any, messages: Any, *, config: Any, **rest: Any) -> AIMessage:
            heard.append(config["tags"])
            return AIMessage("ok", id="1")

    world.batch(Tagged(), ["a", "b"], [{"tags": ["one"]}, {"tags": ["two"]}])
    assert sorted(heard) == [["one"], ["two"]]
    with pytest.raises(ValueError, match="1 configs were given for 2 inputs"):
        world.batch(Tagged(), ["a", "b"], [{"tags": ["one"]}])


def test_leaving_a_batch_early_ends_it() -> None:
    """The reader of the first result leaves; closing waits for nobody."""
    first = Echo(asked=[]).batch_as_completed(["a", "b", "c"], {"max_concurrency": 1})
    assert next(first)[0] == 0
    del first


# -- one model, two worlds ------------------------------------------------------------------------------------------


class OnlyAsync(BaseChatModel):
    """Written for asyncio alone."""

    async def _agenerate(
        self, messages: list[Any], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AIMessage:
        await asyncio.sleep(0)
        return AIMessage("from a loop")

    async def _astream(self, messages: list[Any], **kwargs: Any) -> AsyncIterator[str]:
        yield "from "
        await asyncio.sleep(0)
        yield "a loop"


@both_worlds
def test_a_model_with_only_async_methods_serves_both_worlds(world: Blocking) -> None:
    assert world.invoke(OnlyAsync(), "hi").content == "from a loop"
    assert [piece.content for piece in world.stream(OnlyAsync(), "hi")] == ["from ", "a loop", ""]
    assert [answer.content for answer in world.batch(OnlyAsync(), ["a", "b"])] == ["from a loop"] * 2


async def test_invoke_works_inside_a_running_loop() -> None:
    assert OnlyAsync().invoke("hi").content == "from a loop"
    assert [piece.content for piece in OnlyAsync().stream("hi")] == ["from ", "a loop", ""]


def test_each_world_takes_its_own_twin() -> None:
    class Twins(BaseChatModel):
        def _generate(self, messages: list[Any], **kwargs: Any) -> str:
            return "plain"

        async def _agenerate(self, messages: list[Any], **kwargs: Any) -> str:
            return "async"

    assert Twins().invoke("hi").content == "plain"
    assert asyncio.run(Twins().ainvoke("hi")).content == "async"


@both_worlds
def test_messages_before_the_call_stay_the_callers(world: Blocking) -> None:
    """A model that changes its list changes a copy."""

    class Rude(BaseChatModel):
        def _generate(self, messages: list[Any], **kwargs: Any) -> str:
            messages.clear()
            return "ok"

    given_list = [SystemMessage("s"), HumanMessage("h")]
    world.invoke(Rude(), given_list)
    assert given_list == [SystemMessage("s"), HumanMessage("h")]
