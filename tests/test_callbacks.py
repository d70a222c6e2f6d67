"""Callback handlers: who hears of what, and that nobody pays who does not listen."""

from __future__ import annotations

import asyncio
import gc
import logging
import uuid
from typing import Any

import pytest

from loopwright.callbacks import (
    AsyncCallbackHandler,
    BaseCallbackHandler,
    StdOutCallbackHandler,
    UsageMetadataCallbackHandler,
    callbacks_of,
    get_usage_metadata_callback,
    parent_run,
)
from loopwright.drive import blocking
from loopwright.drive.blocking import BlockingPort
from loopwright.testing import ScriptedModel, say
from tests.models.worlds import Blocking, both_worlds


class Heard(BaseCallbackHandler):
    """Writes down all it hears of a model."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any, dict[str, Any]]] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        self.events.append(("start", (serialized["name"], messages), kwargs))

    def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        self.events.append(("token", token, kwargs))

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.events.append(("end", response, kwargs))

    def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
        self.events.append(("error", error, kwargs))

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.events]


class HeardAsync(AsyncCallbackHandler):
    """The same in coroutines, which take their time."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        await asyncio.sleep(0)
        self.names.append("start")

    async def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        await asyncio.sleep(0)
        self.names.append(token)

    async def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.names.append("end")


@both_worlds
def test_a_call_from_start_to_end(world: Blocking) -> None:
    heard = Heard()
    model = ScriptedModel(say("hi", usage=(1, 2)), name="mine", tags=["own"], metadata={"m": 1}, callbacks=[heard])
    config: Any = {"tags": ["call"], "metadata": {"c": 2}, "run_name": "named", "callbacks": [heard]}
    answer = world.invoke(model, "hello", config, stop=["x"])
    (_, (name, messages), start), (_, result, end) = heard.events
    assert (name, [[message.content for message in one] for one in messages]) == ("mine", [["hello"]])
    assert (start["tags"], start["metadata"]) == (["own", "call"], {"m": 1, "c": 2})
    assert start["options"] == {"stop": ["x"]}
    assert isinstance(start["run_id"], uuid.UUID)
    assert start["parent_run_id"] is None
    assert end["run_id"] == start["run_id"]
    assert result.generations[0][0].message == answer


@both_worlds
def test_tokens_are_told_to_both_kinds_of_handlers_in_order(world: Blocking) -> None:
    plain, coro = Heard(), HeardAsync()
    world.stream(ScriptedModel("one two three"), "hi", {"callbacks": [plain, coro]})
    assert [what for name, what, _ in plain.events if name == "token"] == ["one ", "two ", "three"]
    assert coro.names == ["start", "one ", "two ", "three", "end"]
    chunk = plain.events[1][2]["chunk"]
    assert (chunk.text, chunk.message.content) == ("one ", "one ")


@both_worlds
def test_an_error_is_told_and_raised(world: Blocking) -> None:
    heard = Heard()
    with pytest.raises(ConnectionError):
        world.invoke(ScriptedModel(ConnectionError("x")), "hi", {"callbacks": [heard]})
    assert heard.names == ["start", "error"]


def test_a_reader_who_leaves_is_told() -> None:
    heard = Heard()
    stream = ScriptedModel("one two").stream("hi", {"callbacks": [heard]})
    next(stream)
    stream.close()  # type: ignore
    assert heard.names == ["start", "token", "error"]


class HeardToTheEnd(HeardAsync):
    """The same, with how it ended."""

    async def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
        self.names.append(type(error).__name__)


@both_worlds
@pytest.mark.parametrize("strict", [False, True])
def test_tokens_are_told_before_the_error_that_ends_them(world: Blocking, strict: bool) -> None:
    heard = HeardToTheEnd()
    heard.raise_error = strict
    broken = ScriptedModel(say(chunks=["a", "b", ConnectionError("it broke off")]))
    with pytest.raises(ConnectionError):
        world.stream(broken, "hi", {"callbacks": [heard]})
    assert heard.names == ["start", "a", "b", "ConnectionError"]


@pytest.mark.parametrize("strict", [False, True])
def test_a_reader_that_leaves_is_told_no_token_late(strict: bool) -> None:
    noise: list[Any] = []

    class Slow(HeardToTheEnd):
        async def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
            await super().on_llm_new_token(token)
            raise ValueError(token)

    heard = Slow()
    heard.raise_error = strict

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
        async for _ in ScriptedModel(say(chunks=["a", "b", "c"])).astream("hi", {"callbacks": [heard]}):
            break
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(main())
    assert (heard.names[0], heard.names[-1]) == ("start", "RunCancelled")
    gc.collect()
    assert noise == []


@both_worlds
def test_a_handlers_error_is_logged_and_not_raised_unless_it_asks(
    world: Blocking, caplog: pytest.LogCaptureFixture
) -> None:
    class Bad(BaseCallbackHandler):
        def on_llm_end(self, response: Any, **kwargs: Any) -> None:
            raise RuntimeError("handler broke")

        def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
            raise RuntimeError("token broke")

    class BadAsync(BaseCallbackHandler):
        async def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
            raise RuntimeError("async token broke")

    with caplog.at_level(logging.WARNING, "loopwright.callbacks"):
        assert world.invoke(ScriptedModel("ok"), "hi", {"callbacks": [Bad()]}).text == "ok"
        assert len(world.stream(ScriptedModel("ok"), "hi", {"callbacks": [Bad(), BadAsync()]})) == 2
    assert "Bad.on_llm_end failed: RuntimeError: handler broke" in caplog.text
    assert "async token broke" in caplog.text

    for bad in (Bad(), BadAsync()):
        bad.raise_error = True
    strict, strict_async = Bad(), BadAsync()
    strict.raise_error = strict_async.raise_error = True
    with pytest.raises(RuntimeError, match="handler broke"):
        world.invoke(ScriptedModel("ok"), "hi", {"callbacks": [strict]})
    with pytest.raises(RuntimeError, match="token broke"):
        world.stream(ScriptedModel("ok"), "hi", {"callbacks": [strict]})
    with pytest.raises(RuntimeError, match="async token broke"):
        world.stream(ScriptedModel("ok"), "hi", {"callbacks": [strict_async]})


@both_worlds
def test_a_handler_with_only_on_llm_start_gets_text(world: Blocking) -> None:
    told: list[Any] = []

    class Old(BaseCallbackHandler):
        def on_llm_start(self, serialized: Any, prompts: list[str], **kwargs: Any) -> None:
            told.extend(prompts)

    class Foreign:
        """Of another library, whose base class says in this way that it does not hear of chat models."""

        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            raise NotImplementedError

        def on_llm_start(self, serialized: Any, prompts: list[str], **kwargs: Any) -> None:
            told.extend(prompts)

    world.invoke(ScriptedModel("ok"), "hello", {"callbacks": [Old(), Foreign()]})
    assert told == ["Human: hello"] * 2


def test_handlers_may_ignore_what_they_do_not_want() -> None:
    class Deaf(Heard):
        ignore_llm = True

    deaf = Deaf()
    ScriptedModel("ok").invoke("hi", {"callbacks": [deaf]})
    assert deaf.names == ["start"]


def test_a_manager_of_another_library_and_a_lone_handler_are_taken() -> None:
    class Manager:
        def __init__(self, handlers: list[Any]) -> None:
            self.handlers = handlers

    heard = Heard()
    ScriptedModel("ok").invoke("hi", {"callbacks": Manager([heard])})
    ScriptedModel("ok").invoke("hi", {"callbacks": heard})
    assert heard.names == ["start", "end"] * 2


def test_without_handlers_there_is_nothing() -> None:
    assert callbacks_of(None) is None
    assert callbacks_of({"callbacks": []}, None, []) is None
    assert callbacks_of({"callbacks": [Heard()]}) is not None


def test_a_run_id_of_the_callers_and_a_parent() -> None:
    heard, mine, above = Heard(), uuid.uuid4(), uuid.uuid4()
    callbacks = callbacks_of({"callbacks": [heard], "run_id": str(mine)})
    assert callbacks is not None

    async def told() -> None:
        parent_run.set(above)
        run = callbacks.run(callbacks.run_id)
        run.become_parent()
        assert run.listens("on_llm_end")
        assert not run.listens("on_tool_end")
        await run.emit(BlockingPort(), "on_tool_end", "nobody")
        await callbacks.run().emit(BlockingPort(), "on_llm_end", "below")
        await run.emit(BlockingPort(), "on_llm_end", "itself")

    from contextvars import copy_context

    blocking.run(told(), context=copy_context())
    below, itself = (kwargs for _, _, kwargs in heard.events)
    assert (itself["run_id"], itself["parent_run_id"]) == (mine, above)
    assert below["parent_run_id"] == mine


@both_worlds
def test_usage_is_summed_for_each_model(world: Blocking) -> None:
    usage = UsageMetadataCallbackHandler()
    named = say("a", usage=(1, 2), response_metadata={"model_name": "m-1"})
    model = ScriptedModel(named, named, say("b", usage=(5, 5)), say("c"))
    for _ in range(4):
        world.invoke(model, "hi", {"callbacks": [usage]})
    assert usage.usage_metadata == {
        "m-1": {"input_tokens": 2, "output_tokens": 4, "total_tokens": 6},
        "unknown": {"input_tokens": 5, "output_tokens": 5, "total_tokens": 10},
    }
    assert "m-1" in repr(usage)


@both_worlds
def test_usage_of_all_calls_inside_a_block(world: Blocking) -> None:
    model = ScriptedModel(say("a", usage=(1, 1)), loop=True)
    with get_usage_metadata_callback() as outer:
        world.invoke(model, "hi")
        with get_usage_metadata_callback() as inner:
            world.batch(model, ["a", "b"])
    world.invoke(model, "hi")
    totals = [handler.usage_metadata["unknown"]["total_tokens"] for handler in (outer, inner)]
    assert totals == [6, 4]


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    handler = StdOutCallbackHandler()
    handler.on_chain_start({}, {}, name="agent")
    handler.on_tool_start({"name": "add"}, "{'a': 1}")
    handler.on_tool_end("1")
    handler.on_tool_error(ValueError("x"))
    ScriptedModel("said").invoke("hi", {"callbacks": [handler]})
    handler.on_text("text")
    handler.on_chain_error(KeyError("k"))
    handler.on_chain_end({})
    assert capsys.readouterr().out.splitlines() == [
        "> agent",
        "> add {'a': 1}",
        "< 1",
        "! ValueError: x",
        "said",
        "text",
        "! KeyError: 'k'",
        "< done",
    ]


def test_every_method_has_an_empty_form() -> None:
    """A subclass may call `super()` anywhere."""
    base, run_id = BaseCallbackHandler(), uuid.uuid4()
    for name in dir(base):
        if name.startswith("on_"):
            first = {"on_custom_event": 2, "on_llm_start": 2, "on_chat_model_start": 2, "on_chain_start": 2}
            count = first.get(name, 2 if name == "on_tool_start" else 1)
            assert getattr(base, name)(*[None] * count, run_id=run_id) is None
