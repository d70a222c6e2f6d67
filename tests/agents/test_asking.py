"""Asking the model: what it is bound to and sent, through hooks and without, and what becomes of its failures."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.agents import Limits, create_agent
from loopwright.agents.middleware import (
    ExtendedModelResponse,
    ModelResponse,
    dynamic_prompt,
    wrap_model_call,
    wrap_tool_call,
)
from loopwright.agents.structured_output import ProviderStrategy, ToolStrategy
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import ModelTimeoutError, RateLimitError, ServerError, UsageError
from loopwright.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from loopwright.testing import ManualClock, ScriptedModel, call, say
from loopwright.tools import tool
from loopwright.types import Command
from tests.agents.worlds import both_worlds, invoke, is_valid, shown, stream, thread


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


def fly(city: str) -> str:
    """Fly to a city."""
    return f"landed in {city}"


def wrapped(change: Any) -> Any:
    """A hook that hands on a changed request, in the two ways of writing it."""

    @wrap_model_call(name="plain")
    def plain(request: Any, handler: Any) -> Any:
        return handler(change(request))

    @wrap_model_call(name="coro")
    async def coro(request: Any, handler: Any) -> Any:
        return await handler(change(request))

    return pytest.mark.parametrize("hook", [plain, coro], ids=["def", "async def"])


# -- what is sent ---------------------------------------------------------------------------------------------------


@both_worlds
def test_tools_are_bound_once(world):
    bindings: list[Any] = []

    class Counting(ScriptedModel):
        def bind_tools(self, tools: Any, **more: Any) -> Any:
            bindings.append([one.name for one in tools])
            return super().bind_tools(tools, **more)

    agent = create_agent(Counting(call("look", city="Oslo"), "ok"), [look, fly])  # pyright: ignore[reportCallIssue]
    invoke(agent, world)
    assert bindings == [["look", "fly"]]


@both_worlds
@wrapped(lambda request: request.override(tools=[one for one in request.tools if one.name == "fly"]))
def test_a_hook_chooses_tools(world, hook):
    model = ScriptedModel("ok")
    invoke(create_agent(model, [look, fly], middleware=[hook]), world)
    assert model.requests[0].tool_names == ["fly"]


@both_worlds
@wrapped(lambda request: request.override(tools=[]))
def test_a_hook_takes_all_tools_away(world, hook):
    model = ScriptedModel("ok")
    invoke(create_agent(model, [look], middleware=[hook]), world)
    assert model.requests[0].kwargs == {}


@both_worlds
@wrapped(lambda request: request.override(tools=[*request.tools, fly, {"type": "web_search"}]))
def test_a_hook_offers_a_tool_that_nobody_would_run(world, hook):
    """What a provider runs itself may be added."""
    with pytest.raises(UsageError, match=r"offers the model tool 'fly', which this agent cannot run: give it to"):
        invoke(create_agent(ScriptedModel("ok"), [look], middleware=[hook]), world)

    @wrap_tool_call
    async def serve(request: Any, handler: Any) -> Any:
        return await handler(request.override(tool=tool(fly)))

    model = ScriptedModel(call("fly", city="Oslo"), "ok")
    result = invoke(create_agent(model, [look], middleware=[hook, serve]), world)
    assert shown(result["messages"])[-2:] == [("tool", "landed in Oslo"), ("ai", "ok")]


@both_worlds
@wrapped(lambda request: request.override(tool_choice="look", model_settings={"temperature": 0}))
def test_a_hook_gives_settings(world, hook):
    model = ScriptedModel("ok")
    invoke(create_agent(model, [look], middleware=[hook]), world)
    request = model.requests[0]
    assert (request.tool_choice, request.kwargs["temperature"]) == ("look", 0)


@both_worlds
@wrapped(lambda request: request.override(model_settings={"temperature": 0}))
def test_settings_without_tools(world, hook):
    model = ScriptedModel("ok")
    invoke(create_agent(model, middleware=[hook]), world)
    assert model.requests[0].kwargs == {"temperature": 0}


@both_worlds
@wrapped(lambda request: request.override(messages=request.messages[-1:], system_prompt="Be brief."))
def test_a_hook_changes_what_is_sent_and_not_what_is_kept(world, hook):
    model = ScriptedModel("ok")
    agent = create_agent(model, middleware=[hook], system_prompt="Be long.")
    result = invoke(agent, world, {"messages": ["one", "two"]})
    assert shown(model.requests[0].messages) == [("system", "Be brief."), ("human", "two")]
    assert [m.text for m in result["messages"]] == ["one", "two", "ok"]


@both_worlds
def test_a_hook_chooses_another_model(world):
    other = ScriptedModel("from the other")

    @wrap_model_call
    async def choose(request: Any, handler: Any) -> Any:
        return await handler(request.override(model=other))

    first = ScriptedModel("never")
    result = invoke(create_agent(first, [look], middleware=[choose]), world)
    assert (result.text, first.requests, other.requests[0].tool_names) == ("from the other", [], ["look"])


@both_worlds
def test_what_a_hook_sees(world):
    seen: list[Any] = []

    @wrap_model_call
    async def see(request: Any, handler: Any) -> Any:
        seen.append(request)
        return await handler(request)

    model = ScriptedModel("ok")
    agent = create_agent(model, [look], middleware=[see], system_prompt="Be brief.")
    invoke(agent, world, context={"user": "ann"})
    (request,) = seen
    assert request.model is model
    assert (shown(request.messages), request.system_prompt) == ([("human", "hi")], "Be brief.")
    assert ([one.name for one in request.tools], request.tool_choice, request.model_settings) == (["look"], None, {})
    assert (shown(request.state["messages"]), request.runtime.context) == ([("human", "hi")], {"user": "ann"})
    assert request.runtime.budget.model_calls == 1


@both_worlds
def test_a_hook_that_changes_the_requests_list_changes_no_state(world):
    @wrap_model_call
    async def spoil(request: Any, handler: Any) -> Any:
        request.messages.append(HumanMessage("only sent"))
        request.state["messages"].clear()
        return await handler(request)

    model = ScriptedModel("ok")
    result = invoke(create_agent(model, middleware=[spoil]), world)
    assert [m.text for m in model.requests[0].messages] == ["hi", "only sent"]
    assert [m.text for m in result["messages"]] == ["hi", "ok"]


# -- what a hook gives back -----------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("kind", ["message", "response"])
def test_a_hook_answers_in_the_models_place(world, kind):
    @wrap_model_call
    def cached(request: Any, handler: Any) -> Any:
        answer = AIMessage("cached")
        return answer if kind == "message" else ModelResponse([answer])

    model = ScriptedModel("never")
    result = invoke(create_agent(model, middleware=[cached]), world)
    assert (result.text, result.stop_reason, model.requests) == ("cached", "answer", [])


@both_worlds
def test_calls_of_a_hooks_message_are_run(world):
    @wrap_model_call
    async def once(request: Any, handler: Any) -> Any:
        if len(request.messages) > 1:
            return await handler(request)
        return AIMessage("", tool_calls=[call("look", city="Oslo", id="c1")])

    result = invoke(create_agent(ScriptedModel("ok"), [look], middleware=[once]), world)
    assert [m.text for m in result["messages"]] == ["hi", "", "sunny in Oslo", "ok"]


@both_worlds
def test_results_in_a_hooks_response_are_not_run_again(world):
    @wrap_model_call
    async def done(request: Any, handler: Any) -> Any:
        if len(request.messages) > 1:
            return await handler(request)
        asks = AIMessage("", tool_calls=[call("look", city="Oslo", id="c1"), call("look", city="Rome", id="c2")])
        return ModelResponse([asks, ToolMessage("cached", tool_call_id="c1")])

    result = invoke(create_agent(ScriptedModel("ok"), [look], middleware=[done]), world)
    assert [m.text for m in result["messages"]] == ["hi", "", "cached", "sunny in Rome", "ok"]


@both_worlds
def test_a_hook_changes_the_reply(world):
    @wrap_model_call
    async def loud(request: Any, handler: Any) -> Any:
        response = await handler(request)
        return AIMessage(response.result[0].text.upper())

    assert invoke(create_agent(ScriptedModel("ok"), middleware=[loud]), world).text == "OK"


@both_worlds
def test_a_hook_changes_the_state_beside_the_reply(world):
    from loopwright.agents import AgentState

    class Counted(AgentState):
        asked: int

    @wrap_model_call(state_schema=Counted)
    async def count(request: Any, handler: Any) -> Any:
        response = await handler(request)
        return ExtendedModelResponse(response, Command(update={"asked": request.state.get("asked", 0) + 1}))

    model = ScriptedModel(call("look", city="Oslo"), "ok")
    result = invoke(create_agent(model, [look], middleware=[count]), world)
    assert (result["asked"], result.text) == (2, "ok")


@both_worlds
def test_a_hook_may_ask_twice(world):
    """Both replies are charged, the one it returns is the answer."""

    @wrap_model_call
    def better(request: Any, handler: Any) -> Any:
        handler(request)
        return handler(request.override(messages=[*request.messages, HumanMessage("better")]))

    model = ScriptedModel(say("poor", usage=(1, 1)), say("good", usage=(2, 1)))
    result = invoke(create_agent(model, middleware=[better]), world)
    assert (result.text, result.usage["total_tokens"], [m.text for m in result["messages"]]) == (
        "good",
        5,
        ["hi", "good"],
    )


@both_worlds
def test_a_hook_may_return_an_earlier_reply(world):
    """What is run are the calls of the reply that it returns."""

    @wrap_model_call
    def first(request: Any, handler: Any) -> Any:
        response = handler(request)
        if len(request.messages) == 1:
            handler(request)
        return response

    model = ScriptedModel(call("look", city="Oslo"), "dropped", "ok")
    result = invoke(create_agent(model, [look], middleware=[first]), world)
    assert [m.text for m in result["messages"]] == ["hi", "", "sunny in Oslo", "ok"]


@both_worlds
@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, r"wrong.wrap_model_call returned None \(is a `return` missing\?\)"),
        ("text", "a ModelResponse or an AIMessage"),
        (ModelResponse([]), r"write ModelResponse\(result=\[AIMessage\(\.\.\.\)\]\)"),
        (ModelResponse(["text"]), "a ModelResponse of 'text'"),  # pyright: ignore
        (ExtendedModelResponse(ModelResponse([AIMessage("x")]), Command(goto="model")), "can_jump_to"),
    ],
    ids=["nothing", "text", "empty", "texts", "jump"],
)
def test_a_hook_that_returns_something_else(world, returned, words):
    @wrap_model_call
    def wrong(request: Any, handler: Any) -> Any:
        return returned

    with pytest.raises(UsageError, match=words):
        invoke(create_agent(ScriptedModel(), middleware=[wrong]), world)


# -- failures -------------------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("reading", [False, True], ids=["invoke", "stream"])
def test_a_model_error_carries_the_state_and_the_thread_goes_on(world, reading):
    error = ServerError("the provider is in trouble", status_code=503)
    model = ScriptedModel(call("look", city="Oslo"), error, "ok")
    agent = create_agent(model, [look], checkpointer=InMemorySaver())
    with pytest.raises(ServerError) as raised:
        if reading:
            stream(agent, world, config=thread())
        else:
            invoke(agent, world, config=thread())
    assert raised.value.state is not None
    assert [m.text for m in raised.value.state["messages"]] == ["hi", "", "sunny in Oslo"]
    assert is_valid(raised.value.state["messages"])
    result = invoke(agent, world, None, thread())
    assert ([m.text for m in result["messages"]][2:], model.left) == (["sunny in Oslo", "ok"], 0)


@both_worlds
def test_a_hook_catches_a_model_error(world):
    @wrap_model_call
    def polite(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except RateLimitError:
            return AIMessage("please come back later")

    result = invoke(create_agent(ScriptedModel(RateLimitError("slow down")), middleware=[polite]), world)
    assert result.text == "please come back later"


@both_worlds
def test_a_models_own_timeout_is_its_error(world):
    """It is also a `TimeoutError`, and no limit of ours."""
    with pytest.raises(ModelTimeoutError):
        invoke(create_agent(ScriptedModel(ModelTimeoutError("no answer")), limits=Limits(seconds=60)), world)


@both_worlds
def test_a_timeout_of_no_limit_is_raised(world):
    with pytest.raises(TimeoutError):
        invoke(create_agent(ScriptedModel(TimeoutError("no answer"))), world)


@both_worlds
def test_a_model_that_takes_longer_than_the_run_may(world):
    """The call is left, and the run ends with the notice."""
    with ManualClock():
        model = ScriptedModel(say("too late", delay_s=100))
        result = invoke(create_agent(model, limits=Limits(seconds=10)), world)
    assert (result.stop_reason, result.final) == ("seconds", None)
    assert "it took 100.0 seconds" in result.text


@both_worlds
def test_retries_and_fallbacks_of_the_model_itself(world):
    with ManualClock():
        model = ScriptedModel(RateLimitError("slow down"), call("look", city="Oslo"), "ok")
        result = invoke(create_agent(model.with_retry(), [look]), world)
    assert [m.text for m in result["messages"]] == ["hi", "", "sunny in Oslo", "ok"]
    first, second = ScriptedModel(ServerError("down"), loop=True), ScriptedModel(call("look", city="Oslo"), "ok")
    result = invoke(create_agent(first.with_fallbacks([second]), [look]), world)
    assert [m.text for m in result["messages"]] == ["hi", "", "sunny in Oslo", "ok"]
    assert second.requests[0].tool_names == ["look"]


# -- dynamic prompts ------------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("kind", ["def", "async def", "message"])
def test_dynamic_prompt(world, kind):
    def words(request: Any) -> str:
        return f"{len(request.messages)} for {request.runtime.context['user']}"

    @dynamic_prompt
    def prompt(request: Any) -> str:
        return words(request)

    @dynamic_prompt
    async def aprompt(request: Any) -> str:
        return words(request)

    @dynamic_prompt
    def message(request: Any) -> SystemMessage:
        return SystemMessage(words(request))

    model = ScriptedModel(call("look", city="Oslo"), "ok")
    hook = {"def": prompt, "async def": aprompt, "message": message}[kind]
    agent = create_agent(model, [look], middleware=[hook], system_prompt="replaced")
    invoke(agent, world, context={"user": "ann"})
    assert [request.messages[0].text for request in model.requests] == ["1 for ann", "3 for ann"]


@both_worlds
def test_a_dynamic_prompt_that_is_none(world):
    @dynamic_prompt
    def prompt(request: Any) -> Any:
        return None

    with pytest.raises(UsageError, match=r"prompt.* returned None: a dynamic_prompt returns a string"):
        invoke(create_agent(ScriptedModel(), middleware=[prompt]), world)


# -- structured answers in a hook's request -------------------------------------------------------------------------


SCHEMA = {"title": "Place", "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OTHER = {"title": "Other", "type": "object", "properties": {"n": {"type": "integer"}}}


@both_worlds
def test_a_hook_sees_the_answer_and_its_result(world):
    seen: list[Any] = []

    @wrap_model_call
    async def see(request: Any, handler: Any) -> Any:
        response = await handler(request)
        seen.append((response.structured_response, [m.type for m in response.result]))
        return response

    agent = create_agent(
        ScriptedModel(call("Place", city="Oslo")), response_format=ToolStrategy(SCHEMA), middleware=[see]
    )
    result = invoke(agent, world)
    assert (seen, result["structured_response"]) == ([({"city": "Oslo"}, ["ai", "tool"])], {"city": "Oslo"})


@both_worlds
def test_a_hook_changes_the_form_of_the_answer(world):
    @wrap_model_call
    async def other(request: Any, handler: Any) -> Any:
        return await handler(request.override(response_format=ToolStrategy(OTHER)))

    model = ScriptedModel(call("Other", n=3))
    agent = create_agent(model, response_format=ToolStrategy(SCHEMA), middleware=[other])
    result = invoke(agent, world)
    assert (model.requests[0].tool_names, result["structured_response"]) == (["Other"], {"n": 3})
    assert (result.stop_reason, is_valid(result["messages"])) == ("structured_answer", True)


@both_worlds
def test_a_hook_asks_for_words_this_once(world):
    @wrap_model_call
    async def words(request: Any, handler: Any) -> Any:
        return await handler(request.override(response_format=None))

    model = ScriptedModel("just words")
    agent = create_agent(model, response_format=ToolStrategy(SCHEMA), middleware=[words])
    result = invoke(agent, world)
    assert (model.requests[0].kwargs, result.text, "structured_response" in result) == ({}, "just words", False)


@both_worlds
def test_a_hooks_answer_may_carry_the_structured_one(world):
    @wrap_model_call
    def cached(request: Any, handler: Any) -> Any:
        return ModelResponse([AIMessage("Oslo")], structured_response={"city": "Oslo"})

    agent = create_agent(ScriptedModel(), response_format=ToolStrategy(SCHEMA), middleware=[cached])
    result = invoke(agent, world)
    assert (result["structured_response"], result.stop_reason) == ({"city": "Oslo"}, "structured_answer")


@both_worlds
def test_the_providers_output_is_asked_for_beside_the_tools(world):
    model = ScriptedModel(call("look", city="Oslo"), '{"city": "Oslo"}')
    result = invoke(create_agent(model, [tool(look)], response_format=ProviderStrategy(SCHEMA)), world)
    assert [request.kwargs["response_format"]["json_schema"]["name"] for request in model.requests] == ["Place"] * 2
    assert (result["structured_response"], result.stop_reason) == ({"city": "Oslo"}, "structured_answer")


@both_worlds
def test_a_hook_asks_an_agent_that_has_no_form_for_one(world):
    """Beside another call, which is run before the run ends."""

    @wrap_model_call
    async def form(request: Any, handler: Any) -> Any:
        return await handler(request.override(response_format=ToolStrategy(SCHEMA)))

    model = ScriptedModel([call("look", city="Oslo"), call("Place", city="Oslo")], "never")
    result = invoke(create_agent(model, [look], middleware=[form]), world)
    assert (result["structured_response"], result.stop_reason, model.left) == (
        {"city": "Oslo"},
        "structured_answer",
        1,
    )
    assert is_valid(result["messages"])


@both_worlds
def test_a_message_that_a_hook_has_changed_is_read_for_the_answer(world):
    """A hook that returns the message alone drops nothing: its answer is read anew."""

    @wrap_model_call
    async def name(request: Any, handler: Any) -> Any:
        response = await handler(request)
        return response.result[0].model_copy(update={"name": "ann"})

    model = ScriptedModel(call("Place", city="Oslo"))
    result = invoke(create_agent(model, response_format=ToolStrategy(SCHEMA), middleware=[name]), world)
    assert (result["structured_response"], result["messages"][1].name) == ({"city": "Oslo"}, "ann")
    assert is_valid(result["messages"])
