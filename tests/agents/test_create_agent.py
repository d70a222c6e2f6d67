"""Making an agent: what it takes, what it refuses, and what comes of the parts."""

from __future__ import annotations

import operator
import sys
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from loopwright.agents import Agent, AgentState, Limits, create_agent
from loopwright.agents.middleware import AgentMiddleware, after_model, before_model
from loopwright.agents.structured_output import ToolStrategy
from loopwright.callbacks import BaseCallbackHandler
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import ToolDefinitionError, UsageError
from loopwright.graph import CompiledStateGraph
from loopwright.messages import AIMessage, HumanMessage, SystemMessage
from loopwright.testing import ScriptedModel, call, say
from loopwright.tools import tool
from tests.agents.worlds import both_worlds, invoke, shown, stream


def look(city: str) -> str:
    """Look at a city.

    Args:
        city: Its name.
    """
    return f"sunny in {city}"


def test_an_agent_of_ready_tools_is_made_in_few_steps():
    """Web handlers make one for each request. Counted in calls of Python functions; it takes 86."""

    def named(number):
        def function(city: str) -> str:
            """Look at a city."""
            return city

        return tool(f"look_{number}")(function)

    model, tools = ScriptedModel("hello"), [named(number) for number in range(5)]
    create_agent(model, tools)  # what is done once for each tool and each schema
    calls = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_qualname) if event == "call" else None)
    try:
        create_agent(model, tools)
    finally:
        sys.setprofile(None)
    assert len(calls) <= 100, calls


# -- the model ------------------------------------------------------------------------------------------------------


@both_worlds
def test_the_smallest_agent(world):
    agent = create_agent(ScriptedModel("hello"))
    result = invoke(agent, world)
    assert isinstance(agent, Agent)
    assert isinstance(agent, CompiledStateGraph)
    assert shown(result["messages"]) == [("human", "hi"), ("ai", "hello")]
    assert (result.stop_reason, result.text) == ("answer", "hello")


def test_a_string_names_a_model(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert isinstance(create_agent("openai:gpt-4o-mini"), Agent)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (ScriptedModel, r"Make one: ScriptedModel\(\.\.\.\)"),
        (None, 'Give "provider:name", or a chat model'),
        (42, "is no chat model"),
        ([look], "is no chat model"),
    ],
)
def test_what_is_no_model(model, words):
    with pytest.raises(UsageError, match=words):
        create_agent(model)


def test_a_bound_model_is_a_model():
    model = ScriptedModel("hello")
    result = create_agent(model.bind(temperature=0)).invoke({"messages": "hi"})
    assert (result.text, model.requests[0].kwargs) == ("hello", {"temperature": 0})


@both_worlds
def test_a_bound_model_takes_tools(world):
    model = ScriptedModel(call("look", city="Oslo"), "ok")
    invoke(create_agent(model.bind(temperature=0), [look]), world)
    assert [(request.tool_names, request.kwargs["temperature"]) for request in model.requests] == [(["look"], 0)] * 2


# -- the prompt -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"system_prompt": "Be brief."}, {"prompt": "Be brief."}, {"system_prompt": SystemMessage("Be brief.")}],
    ids=str,
)
@both_worlds
def test_a_prompt_is_sent_and_not_kept(world, options):
    model = ScriptedModel(call("look", city="Oslo"), "ok")
    result = invoke(create_agent(model, [look], **options), world)
    assert [shown(request.messages)[0] for request in model.requests] == [("system", "Be brief.")] * 2
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"]


def test_system_messages_of_the_input_follow_the_prompt_and_are_kept():
    model = ScriptedModel("ok")
    given = {"messages": [SystemMessage("You are in Oslo."), HumanMessage("hi")]}
    result = create_agent(model, system_prompt="Be brief.").invoke(given)
    kept = [("system", "You are in Oslo."), ("human", "hi")]
    assert shown(model.requests[0].messages) == [("system", "Be brief."), *kept]
    assert shown(result["messages"]) == [*kept, ("ai", "ok")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prompt": "a", "system_prompt": "b"}, "another spelling of system_prompt"),
        ({"system_prompt": 3}, "takes a string or a SystemMessage, not int"),
        ({"prompt": lambda state: "x"}, "use @dynamic_prompt"),
    ],
    ids=["both", "number", "function"],
)
def test_what_is_no_prompt(options, words):
    with pytest.raises(UsageError, match=words):
        create_agent(ScriptedModel(), **options)


# -- tools ----------------------------------------------------------------------------------------------------------


def test_the_model_is_told_of_functions_tools_and_provider_tools():
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    search = {"type": "web_search", "name": "web_search"}
    model = ScriptedModel("ok")
    create_agent(model, [look, add, search]).invoke({"messages": "hi"})
    request = model.requests[0]
    assert request.tool_names == ["look", "add", "web_search"]
    assert request.tools[-1] == search


def test_without_tools_nothing_is_bound():
    model = ScriptedModel("ok")
    create_agent(model, []).invoke({"messages": "hi"})
    assert model.requests[0].kwargs == {}


def test_the_callers_list_is_not_kept():
    tools: list[Any] = [look]
    model = ScriptedModel("ok")
    agent = create_agent(model, tools)
    tools.append(len)
    agent.invoke({"messages": "hi"})
    assert model.requests[0].tool_names == ["look"]


def test_two_tools_of_one_name_are_refused():
    @tool("look")
    def other(place: str) -> str:
        """Look elsewhere."""
        return place

    with pytest.raises(ToolDefinitionError, match="look"):
        create_agent(ScriptedModel(), [look, other])


def test_a_tool_without_a_description_is_refused():
    def bare(x: int) -> int:
        return x

    with pytest.raises(ToolDefinitionError, match=r"description|docstring"):
        create_agent(ScriptedModel(), [bare])


@pytest.mark.parametrize("wrong", [3, "look", None])
def test_what_is_no_tool(wrong):
    with pytest.raises(UsageError):
        create_agent(ScriptedModel(), [wrong])


def test_an_answer_tool_may_not_have_the_name_of_a_tool():
    class Look(TypedDict):
        city: str

    @tool("Look")
    def other(place: str) -> str:
        """Look elsewhere."""
        return place

    with pytest.raises(UsageError, match="both named 'Look'"):
        create_agent(ScriptedModel(), [other], response_format=ToolStrategy(Look))


# -- the rest -------------------------------------------------------------------------------------------------------


@both_worlds
def test_a_name_is_on_the_models_messages(world):
    result = invoke(create_agent(ScriptedModel("hello"), name="ann"), world)
    assert [message.name for message in result["messages"]] == [None, "ann"]


def test_a_message_that_has_a_name_keeps_it():
    result = create_agent(ScriptedModel(AIMessage("hello", name="bob")), name="ann").invoke({"messages": "hi"})
    assert [message.name for message in result["messages"]] == [None, "bob"]


@pytest.mark.parametrize("wrong", ["continue", 3, None])
def test_an_unknown_on_limit_is_refused(wrong):
    with pytest.raises(UsageError, match="use 'stop', 'answer', 'raise' or a function"):
        create_agent(ScriptedModel(), on_limit=wrong)


class Kept(AgentState):
    seen: Annotated[list[str], operator.add]
    user: str


@both_worlds
def test_a_state_schema_adds_keys(world):
    @before_model
    def see(state: Any, runtime: Any) -> dict[str, Any]:
        return {"seen": [state["user"]]}

    agent = create_agent(ScriptedModel("ok"), state_schema=Kept, middleware=[see])
    result = invoke(agent, world, {"messages": "hi", "user": "ann", "unknown": 1})
    assert {key: value for key, value in result.items() if key != "messages"} == {"seen": ["ann"], "user": "ann"}


def test_a_middleware_adds_keys():
    class Counted(AgentState):
        rounds: int

    class Count(AgentMiddleware):
        state_schema = Counted

        def after_model(self, state: Any, runtime: Any) -> dict[str, Any]:
            return {"rounds": state.get("rounds", 0) + 1}

    agent = create_agent(ScriptedModel(call("look", city="Oslo"), "ok"), [look], middleware=[Count()])
    assert agent.invoke({"messages": "hi"})["rounds"] == 2


def test_two_reducers_for_one_key_are_refused():
    class One(AgentState):
        n: Annotated[int, operator.add]

    class Other(AgentState):
        n: Annotated[int, max]

    class Adds(AgentMiddleware):
        state_schema = Other

    with pytest.raises(UsageError, match="two different reducers"):
        create_agent(ScriptedModel(), state_schema=One, middleware=[Adds()])


@dataclass
class User:
    name: str


@both_worlds
def test_a_context_is_made_of_a_dict(world):
    seen: list[Any] = []

    @before_model
    def see(state: Any, runtime: Any) -> None:
        seen.append(runtime.context)

    agent = create_agent(ScriptedModel("ok", "ok"), context_schema=User, middleware=[see])
    invoke(agent, world, context={"name": "ann"})
    invoke(agent, world, context=User("bob"))
    assert seen == [User("ann"), User("bob")]


@both_worlds
def test_a_missing_context_is_told_before_the_model_is_asked(world):
    model = ScriptedModel("ok")
    agent = create_agent(model, context_schema=User)
    with pytest.raises(UsageError, match=r"context=User\(…\)"):
        invoke(agent, world)
    assert model.requests == []


# -- the graph ------------------------------------------------------------------------------------------------------


def test_the_names_of_the_steps():
    @before_model
    def trim(state: Any, runtime: Any) -> None: ...

    @after_model
    def check(state: Any, runtime: Any) -> None: ...

    agent = create_agent(ScriptedModel(call("look", city="Oslo"), "ok"), [look], middleware=[trim, check])
    steps = [next(iter(update)) for update in agent.stream({"messages": "hi"})]
    one_round = ["trim.before_model", "model", "check.after_model"]
    assert steps == [*one_round, "tools", *one_round]


def test_the_picture():
    drawn = create_agent(ScriptedModel(), [look]).get_graph().draw_mermaid()
    assert [word for word in ("__start__", "model", "tools", "__end__") if word not in drawn] == []
    assert "tools" not in create_agent(ScriptedModel()).get_graph().draw_mermaid()


def test_its_repr_is_short():
    assert repr(create_agent(ScriptedModel(), [look], name="ann")) == "<Agent 'ann': model, tools>"


@both_worlds
def test_debug_prints_what_happens_and_changes_no_result(world, capsys):
    agent = create_agent(ScriptedModel("ok", "ok"), debug=True)
    result = invoke(agent, world)
    assert "'type': 'task_result'" in capsys.readouterr().out
    assert (result.text, result.stop_reason) == ("ok", "answer")
    stream(agent, world)
    assert "'type': 'task_result'" in capsys.readouterr().out


@both_worlds
def test_print_mode_prints_and_changes_no_result(world, capsys):
    result = invoke(create_agent(ScriptedModel("ok")), world, print_mode="updates")
    assert capsys.readouterr().out.startswith("[updates] {'model': ")
    assert result.text == "ok"


def test_with_config_makes_another():
    agent = create_agent(ScriptedModel("a", "b"), checkpointer=InMemorySaver())
    mine = agent.with_config({"configurable": {"thread_id": "1"}})
    mine.invoke({"messages": "hi"})
    assert shown(mine.get_state({}).values["messages"]) == [("human", "hi"), ("ai", "a")]
    assert type(mine) is Agent
    with pytest.raises(UsageError, match="thread_id"):
        agent.invoke({"messages": "hi"})


@both_worlds
def test_callbacks_hear_of_the_run(world):
    class Heard(BaseCallbackHandler):
        def __init__(self) -> None:
            self.calls: list[str] = []

        def on_chain_start(self, serialized: Any, inputs: Any, **more: Any) -> None:
            self.calls.append(f"start {more.get('name')}")

        def on_chat_model_start(self, serialized: Any, messages: Any, **more: Any) -> None:
            self.calls.append("model")

        def on_tool_start(self, serialized: Any, input_str: str, **more: Any) -> None:
            self.calls.append(f"tool {serialized['name']}")

        def on_chain_end(self, outputs: Any, **more: Any) -> None:
            self.calls.append("end")

    heard = Heard()
    agent = create_agent(ScriptedModel(call("look", city="Oslo"), "ok"), [look], name="ann")
    invoke(agent, world, config={"callbacks": [heard]})
    assert heard.calls == [
        "start ann",
        "start model",
        "model",
        "end",
        "start tools",
        "tool look",
        "end",
        "start model",
        "model",
        "end",
        "end",
    ]


@both_worlds
def test_many_options_of_a_call(world):
    model = ScriptedModel(say("a", usage=(3, 1)), "b", "c", "d")
    agent = create_agent(model, checkpointer=InMemorySaver(), limits=Limits(model_calls=3))
    config = {"configurable": {"thread_id": "1"}, "tags": ["t"], "metadata": {"k": 1}, "run_id": "r1"}
    assert invoke(agent, world, config=config, durability="exit").usage["total_tokens"] == 4
    assert invoke(agent, world, config=config, version="v2").value.text == "b"
    assert shown(invoke(agent, world, config=config, output_keys="messages"))[-1] == ("ai", "c")
    assert [next(iter(chunk)) for chunk in invoke(agent, world, config=config, stream_mode="updates")] == ["model"]
    saved = agent.get_state({"configurable": {"thread_id": "1"}})
    assert (len(saved.values["messages"]), saved.metadata["k"]) == (8, 1)


def test_an_unknown_durability_is_refused():
    with pytest.raises(UsageError, match="'sync', 'async', 'exit'"):
        create_agent(ScriptedModel("a")).invoke({"messages": "hi"}, durability="never")  # pyright: ignore


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="temperature"):
        create_agent(ScriptedModel(), temperature=0)  # pyright: ignore[reportCallIssue]
