"""What is built around a model: bindings, retries, fallbacks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from loopwright.errors import AuthenticationError, GraphBubbleUp, RateLimitError, UsageError
from loopwright.messages import AIMessage
from loopwright.models import BaseChatModel, ModelLike
from loopwright.testing import ManualClock, ScriptedModel, call, say
from tests.models.worlds import Blocking, Echo, both_worlds

TOOL = {"type": "function", "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}}}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# -- binding --------------------------------------------------------------------------------------------------------


@both_worlds
def test_what_is_bound_reaches_the_model_and_the_calls_own_wins(world: Blocking) -> None:
    model = Echo(asked=[])
    bound = model.bind(stop=["x"], temperature=0).bind(top_p=1)
    world.invoke(bound, "hi")
    world.invoke(bound, "hi", stop=["y"], temperature=1)
    assert [{k: v for k, v in one.items() if k != "messages"} for one in model.asked] == [
        {"stop": ["x"], "temperature": 0, "top_p": 1},
        {"stop": ["y"], "temperature": 1, "top_p": 1},
    ]


def test_bind_tools_only_says_what_there_is() -> None:
    called: list[int] = []

    def boom(a: int) -> int:
        """Never run."""
        called.append(a)
        return a

    model = ScriptedModel(call("boom", a=1))
    answer = model.bind_tools([boom, TOOL], tool_choice="any").invoke("hi")
    assert [one["name"] for one in answer.tool_calls] == ["boom"]
    assert called == []
    assert model.requests[0].tool_names == ["boom", "add"]
    assert model.requests[0].tool_choice == "any"
    assert model.requests[0].tools[0]["function"]["parameters"]["properties"]["a"] == {"type": "integer"}


def test_tools_bound_again_replace_those_before_and_the_rest_stays() -> None:
    model = ScriptedModel("ok", "ok")
    bound = model.bind(temperature=0).bind_tools([add]).bind_tools([TOOL]).with_config(tags=["t"])
    bound.invoke("hi")
    assert model.requests[0].kwargs == {"temperature": 0, "tools": [TOOL]}
    assert isinstance(bound, ModelLike)


def test_a_binding_shows_what_it_binds() -> None:
    model = ScriptedModel("ok", name="mine")
    bound: Any = model.bind(stop=["x"])
    assert bound.name == "mine"
    assert repr(bound).endswith("['stop'])")
    with pytest.raises(AttributeError, match="nonsense"):
        _ = bound.nonsense


def test_with_config_merges() -> None:
    bound = Echo(asked=[], tags=["own"], metadata={"a": 1}).with_config({"tags": ["x"]}, metadata={"b": 2})
    whole = bound.with_config(tags=["y"]).call_config({"tags": ["call"], "metadata": {"b": 3}})
    assert whole == {"tags": ["own", "x", "y", "call"], "metadata": {"a": 1, "b": 3}}


# -- retry ----------------------------------------------------------------------------------------------------------


@both_worlds
def test_a_retry_waits_longer_each_time(world: Blocking, manual_clock: ManualClock) -> None:
    model = ScriptedModel(ConnectionError("a"), TimeoutError("b"), "ok")
    retried = model.with_retry(exponential_jitter_params={"initial": 1, "exp_base": 3, "jitter": 0})
    assert world.invoke(retried, "hi").content == "ok"
    assert manual_clock.slept == [1, 3]


@both_worlds
def test_a_retry_gives_up_with_the_last_error(world: Blocking, manual_clock: ManualClock) -> None:
    model = ScriptedModel(ConnectionError("a"), ConnectionError("b"), ConnectionError("c"))
    with pytest.raises(ConnectionError, match="b"):
        world.invoke(model.with_retry(stop_after_attempt=2, wait_exponential_jitter=False), "hi")
    assert (len(model.requests), manual_clock.slept) == (2, [])


@both_worlds
def test_B112_an_error_of_another_class_passes_at_once(world: Blocking, manual_clock: ManualClock) -> None:
    model = ScriptedModel(ValueError("not mine"), "never")
    with pytest.raises(ValueError, match="not mine"):
        world.invoke(model.with_retry(retry_if_exception_type=(TimeoutError,)), "hi")
    assert (len(model.requests), manual_clock.slept) == (1, [])


def test_what_would_only_come_again_is_not_retried_unless_named(manual_clock: ManualClock) -> None:
    model = ScriptedModel(AuthenticationError("no key", status_code=401), AuthenticationError("no key"), "ok")
    with pytest.raises(AuthenticationError):
        model.with_retry().invoke("hi")
    assert manual_clock.slept == []
    assert model.with_retry(retry_if_exception_type=(Exception,)).invoke("hi").content == "ok"


@both_worlds
def test_a_provider_that_says_how_long_is_obeyed(world: Blocking, manual_clock: ManualClock) -> None:
    model = ScriptedModel(RateLimitError("slow down", retry_after=17.5), "ok")
    assert world.invoke(model.with_retry(), "hi").content == "ok"
    assert manual_clock.slept == [17.5]


def test_the_wait_is_capped_and_jittered(manual_clock: ManualClock) -> None:
    model = ScriptedModel(*[ConnectionError("x")] * 4, "ok")
    model.with_retry(stop_after_attempt=5, exponential_jitter_params={"max": 3.0}).invoke("hi")
    first, second, *rest = manual_clock.slept
    assert 1 <= first <= 2
    assert 2 <= second <= 3
    assert rest == [3.0, 3.0]


@both_worlds
def test_B36_control_flow_is_neither_retried_nor_handed_to_a_fallback(world: Blocking) -> None:
    class Pause(GraphBubbleUp):
        pass

    model, other = ScriptedModel(Pause(), "never"), ScriptedModel("never")
    with pytest.raises(Pause):
        world.invoke(model.with_retry(retry_if_exception_type=(BaseException,)), "hi")
    with pytest.raises(Pause):
        world.invoke(ScriptedModel(Pause()).with_fallbacks([other], exceptions_to_handle=(BaseException,)), "hi")
    assert (len(model.requests), len(other.requests)) == (1, 0)


async def test_B36_a_cancellation_is_not_retried() -> None:
    started = asyncio.Event()

    class Hangs(BaseChatModel):
        async def _agenerate(self, messages: list[Any], **kwargs: Any) -> str:
            started.set()
            await asyncio.Event().wait()
            return "never"

    task = asyncio.create_task(Hangs().with_retry().with_fallbacks([ScriptedModel("never")]).ainvoke("hi"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@both_worlds
def test_a_stream_that_has_given_a_piece_is_not_begun_anew(world: Blocking, manual_clock: ManualClock) -> None:
    before = ScriptedModel(ConnectionError("at once"), ["a", "b"])
    assert [piece.content for piece in world.stream(before.with_retry(), "hi")] == ["a", "b", ""]
    broken = ScriptedModel(["a", ConnectionError("midway")], "never")
    with pytest.raises(ConnectionError, match="midway"):
        world.stream(broken.with_retry(), "hi")
    with pytest.raises(ConnectionError, match="midway"):
        world.stream(ScriptedModel(["a", ConnectionError("midway")]).with_fallbacks([ScriptedModel("never")]), "hi")
    assert len(broken.requests) == 1


def test_tools_are_bound_below_a_retry(manual_clock: ManualClock) -> None:
    model = ScriptedModel(ConnectionError("x"), call("add", a=1, b=2))
    answer = model.with_retry().bind_tools([add]).invoke("hi")
    assert answer.tool_calls[0]["args"] == {"a": 1, "b": 2}
    assert "ModelRetry" in repr(model.with_retry())


def test_no_attempt_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="stop_after_attempt is how often to try in all"):
        ScriptedModel().with_retry(stop_after_attempt=0)


# -- fallbacks ------------------------------------------------------------------------------------------------------


@both_worlds
def test_fallbacks_are_asked_in_order(world: Blocking) -> None:
    first, second, third = ScriptedModel(ConnectionError("a")), ScriptedModel(ValueError("b")), ScriptedModel("c")
    assert world.invoke(first.with_fallbacks([second, third]), "hi").content == "c"
    assert [len(model.requests) for model in (first, second, third)] == [1, 1, 1]


@both_worlds
def test_if_all_fail_the_first_error_is_raised(world: Blocking) -> None:
    with pytest.raises(ConnectionError, match="a"):
        world.invoke(ScriptedModel(ConnectionError("a")).with_fallbacks([ScriptedModel(ValueError("z"))]), "hi")


def test_exceptions_to_handle() -> None:
    other = ScriptedModel("never")
    model = ScriptedModel(ValueError("not handled")).with_fallbacks([other], exceptions_to_handle=(ConnectionError,))
    with pytest.raises(ValueError, match="not handled"):
        model.invoke("hi")
    assert len(other.requests) == 0


@both_worlds
def test_binding_tools_to_fallbacks_binds_all(world: Blocking) -> None:
    first, second = ScriptedModel(ConnectionError("a")), ScriptedModel(call("add", a=1, b=2))
    bound = first.with_fallbacks([second]).bind_tools([add], tool_choice="any")
    assert world.invoke(bound, "hi").tool_calls[0]["name"] == "add"
    assert (first.requests[0].tool_names, second.requests[0].tool_names) == (["add"], ["add"])


def test_a_fallback_streams() -> None:
    model = ScriptedModel(ConnectionError("a")).with_fallbacks([ScriptedModel(["b", "c"])])
    assert [piece.content for piece in model.stream("hi")] == ["b", "c", ""]
    assert "ModelFallbacks" in repr(model)


def test_the_tags_of_fallbacks_are_the_first_models() -> None:
    model = ScriptedModel(tags=["first"]).with_fallbacks([ScriptedModel(tags=["second"])]).with_retry()
    assert model.call_config({"tags": ["x"]}).get("tags") == ["first", "x"]


def test_a_wrapped_model_is_shared_by_threads() -> None:
    model = ScriptedModel(*[say(str(n)) for n in range(20)])
    shared = model.bind(temperature=0).with_retry()
    answers: list[AIMessage] = []
    threads = [threading.Thread(target=lambda: answers.append(shared.invoke("hi"))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(answer.text) for answer in answers) == list(range(20))
    assert model.left == 0


def test_a_retried_generator_is_closed_before_the_next_attempt() -> None:
    events: list[str] = []

    class Breaks(BaseChatModel):
        def _stream(self, messages: list[Any], **kwargs: Any) -> Iterator[str]:
            events.append("open")
            try:
                if events.count("open") == 1:
                    raise ConnectionError("x")
                yield "ok"
            finally:
                events.append("closed")

    with ManualClock():
        assert Breaks().with_retry().invoke("hi").content == "ok"
    assert events == ["open", "closed", "open", "closed"]
