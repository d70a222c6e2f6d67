"""Structured answers in a running agent: every kind of schema, both strategies, and what happens when they fail."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator

from loopwright.agents import create_agent
from loopwright.agents.structured_output import (
    MissingStructuredOutputError,
    MultipleStructuredOutputsError,
    ProviderStrategy,
    StructuredOutputValidationError,
    ToolStrategy,
)
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.messages import AIMessage
from loopwright.testing import ScriptedModel, call, say, use
from tests.agents.worlds import both_worlds, invoke, is_valid, stream, thread


class Place(BaseModel):
    """A place."""

    city: str
    rating: int = Field(default=3, ge=1, le=5)


@dataclass
class Spot:
    city: str
    rating: int = 3


class Point(TypedDict):
    city: str


SCHEMA = {
    "title": "Site",
    "description": "A site.",
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}

KINDS: list[tuple[Any, str, Any]] = [
    (Place, "Place", Place(city="Oslo")),
    (Spot, "Spot", Spot("Oslo")),
    (Point, "Point", {"city": "Oslo"}),
    (SCHEMA, "Site", {"city": "Oslo"}),
]
each_schema = pytest.mark.parametrize(("schema", "name", "value"), KINDS, ids=["model", "dataclass", "dict", "json"])


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


@both_worlds
@each_schema
@pytest.mark.parametrize("reading", [False, True], ids=["invoke", "stream"])
def test_an_answer_tool(world, schema, name, value, reading):
    model = ScriptedModel(call("look", city="Oslo"), call(name, city="Oslo"))
    agent = create_agent(model, [look], response_format=ToolStrategy(schema))
    if reading:
        result = stream(agent, world, stream_mode="values")[-1]
    else:
        result = invoke(agent, world)
        assert (result.stop_reason, result.text) == ("structured_answer", '{"city": "Oslo"}')
        assert result.final is result["messages"][3]
    assert result["structured_response"] == value
    assert type(result["structured_response"]) is type(value)
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai", "tool"]
    assert is_valid(result["messages"])
    assert [(request.tool_names, request.tool_choice) for request in model.requests] == [(["look", name], "any")] * 2


@both_worlds
@each_schema
@pytest.mark.parametrize("reading", [False, True], ids=["invoke", "stream"])
def test_the_providers_own_output(world, schema, name, value, reading):
    model = ScriptedModel(call("look", city="Oslo"), '{"city": "Oslo"}')
    agent = create_agent(model, [look], response_format=ProviderStrategy(schema))
    result = stream(agent, world, stream_mode="values")[-1] if reading else invoke(agent, world)
    assert result["structured_response"] == value
    assert type(result["structured_response"]) is type(value)
    assert model.requests[0].kwargs["response_format"]["json_schema"]["name"] == name
    if not reading:
        assert (result.stop_reason, result.text) == ("structured_answer", '{"city": "Oslo"}')
        assert result.final is result["messages"][3]


@both_worlds
@pytest.mark.parametrize(
    ("profile", "asked"), [(None, "tool_choice"), ({"structured_output": True}, "response_format")]
)
def test_a_bare_schema_takes_what_suits_the_model(world, profile, asked):
    class Known(ScriptedModel):
        profile: Any = None

    answer = '{"city": "Oslo"}' if profile else call("Place", city="Oslo")
    model = Known(answer, profile=profile)  # pyright: ignore[reportCallIssue]
    result = invoke(create_agent(model, response_format=Place), world)
    assert (result["structured_response"], asked in model.requests[0].kwargs) == (Place(city="Oslo"), True)


@both_worlds
def test_a_union_is_one_answer_tool_each(world):
    class No(BaseModel):
        why: str

    model = ScriptedModel(call("No", why="closed"))
    result = invoke(create_agent(model, response_format=ToolStrategy(Place | No)), world)
    assert (result["structured_response"], model.requests[0].tool_names) == (No(why="closed"), ["Place", "No"])


@both_worlds
def test_other_calls_of_the_reply_are_run_before_the_end(world):
    model = ScriptedModel([call("Place", city="Oslo"), call("look", city="Rome")], "never")
    result = invoke(create_agent(model, [look], response_format=ToolStrategy(Place)), world)
    assert (result["structured_response"], result.stop_reason, model.left) == (
        Place(city="Oslo"),
        "structured_answer",
        1,
    )
    assert [m.text for m in result["messages"] if m.type == "tool"][1] == "sunny in Rome"
    assert (result.final is result["messages"][1], result.text) == (True, '{"city": "Oslo"}')
    assert is_valid(result["messages"])


@both_worlds
def test_an_answer_that_does_not_fit_goes_back(world):
    model = ScriptedModel(call("Place", city="Oslo", rating=10), call("Place", city="Oslo", rating=5))
    result = invoke(create_agent(model, response_format=ToolStrategy(Place)), world)
    assert result["structured_response"] == Place(city="Oslo", rating=5)
    rejected = result["messages"][2]
    assert rejected.status == "error"
    assert "rating" in rejected.text
    assert model.requests[1].messages[-1] == rejected


@both_worlds
def test_the_same_bad_answer_for_ever_ends(world):
    model = ScriptedModel(call("Place", city="Oslo", rating=10), loop=True)
    agent = create_agent(model, response_format=ToolStrategy(Place), checkpointer=InMemorySaver())
    with pytest.raises(StructuredOutputValidationError, match="rating") as raised:
        invoke(agent, world, config=thread())
    assert 2 <= len(model.requests) <= 8
    assert raised.value.state is not None
    assert is_valid(raised.value.state["messages"])
    assert is_valid(agent.get_state(thread()).values["messages"])


@both_worlds
@pytest.mark.parametrize(
    ("handle", "words"),
    [
        ("Try again.", "Try again."),
        (ValueError, None),
        (lambda error: f"Wrong: {type(error).__name__}", "Wrong: StructuredOutputValidationError"),
    ],
    ids=["text", "class", "function"],
)
def test_handle_errors(world, handle, words):
    model = ScriptedModel(call("Place", city="Oslo", rating=10), call("Place", city="Oslo"))
    result = invoke(create_agent(model, response_format=ToolStrategy(Place, handle_errors=handle)), world)
    assert result["structured_response"] == Place(city="Oslo")
    assert words is None or result["messages"][2].text == words


@both_worlds
@pytest.mark.parametrize("handle", [False, KeyError], ids=["off", "another class"])
def test_errors_that_are_not_handled_are_raised(world, handle):
    model = ScriptedModel(call("Place", city="Oslo", rating=10), "never")
    agent = create_agent(model, response_format=ToolStrategy(Place, handle_errors=handle), checkpointer=InMemorySaver())
    with pytest.raises(StructuredOutputValidationError, match="rating"):
        invoke(agent, world, config=thread())
    assert model.left == 1


@both_worlds
def test_the_thread_goes_on_after_an_answer_that_did_not_fit(world):
    model = ScriptedModel(call("Place", city="Oslo", rating=10), call("Place", city="Rome"))
    agent = create_agent(model, response_format=ToolStrategy(Place, handle_errors=False), checkpointer=InMemorySaver())
    with pytest.raises(StructuredOutputValidationError):
        invoke(agent, world, config=thread())
    result = invoke(agent, world, "again", thread())
    assert (result["structured_response"], is_valid(result["messages"])) == (Place(city="Rome"), True)


@both_worlds
def test_two_answers_at_once_are_none(world):
    both = [call("Place", city="Oslo"), call("Place", city="Rome")]
    model = ScriptedModel(both, call("Place", city="Oslo"))
    result = invoke(create_agent(model, response_format=ToolStrategy(Place)), world)
    assert result["structured_response"] == Place(city="Oslo")
    assert [m.status for m in result["messages"] if m.type == "tool"] == ["error", "error", "success"]
    agent = create_agent(ScriptedModel(both), response_format=ToolStrategy(Place, handle_errors=False))
    with pytest.raises(MultipleStructuredOutputsError, match="2 structured answers at once"):
        invoke(agent, world)


@both_worlds
def test_words_are_reminded_of_once(world):
    model = ScriptedModel("It is Oslo.", call("Place", city="Oslo"))
    result = invoke(create_agent(model, response_format=ToolStrategy(Place)), world)
    assert (result["structured_response"], result.stop_reason) == (Place(city="Oslo"), "structured_answer")
    assert [m.type for m in result["messages"]] == ["human", "ai", "human", "ai", "tool"]
    model = ScriptedModel("It is Oslo.", "As I said.", "never")
    with pytest.raises(MissingStructuredOutputError, match="'Place'") as raised:
        invoke(create_agent(model, response_format=ToolStrategy(Place)), world)
    assert (raised.value.ai_message.text, model.left) == ("As I said.", 1)


@both_worlds
def test_words_that_are_the_json_are_the_answer(world):
    model = ScriptedModel('```json\n{"city": "Oslo"}\n```', "never")
    result = invoke(create_agent(model, response_format=ToolStrategy(Place)), world)
    assert (result["structured_response"], result.stop_reason) == (Place(city="Oslo"), "structured_answer")


@both_worlds
def test_the_providers_output_that_does_not_fit_is_raised(world):
    agent = create_agent(ScriptedModel('{"town": "Oslo"}'), response_format=ProviderStrategy(Place))
    with pytest.raises(StructuredOutputValidationError, match="city"):
        invoke(agent, world)


@both_worlds
def test_an_answer_that_cannot_be_read_goes_back(world):
    broken: Any = {"name": "Place", "args": '{"city"', "id": "c1", "error": "no JSON", "type": "invalid_tool_call"}
    model = ScriptedModel(use(invalid=[broken]), call("Place", city="Oslo"))
    result = invoke(create_agent(model, response_format=ToolStrategy(Place)), world)
    assert (result["structured_response"], is_valid(result["messages"])) == (Place(city="Oslo"), True)


@both_worlds
def test_the_words_of_an_accepted_answer(world):
    strategy = ToolStrategy(Place, tool_message_content="Noted.")
    result = invoke(create_agent(ScriptedModel(call("Place", city="Oslo")), response_format=strategy), world)
    assert (result["messages"][-1].text, result.text) == ("Noted.", '{"city": "Oslo"}')


@both_worlds
def test_an_old_answer_is_not_taken_for_a_new_one(world):
    """The second turn fails before it has one."""
    model = ScriptedModel(call("Place", city="Oslo"), ConnectionError("down"), call("Place", city="Rome"))
    agent = create_agent(model, response_format=ToolStrategy(Place), checkpointer=InMemorySaver())
    assert invoke(agent, world, config=thread())["structured_response"] == Place(city="Oslo")
    with pytest.raises(ConnectionError) as raised:
        invoke(agent, world, "and now?", thread())
    assert raised.value.state["structured_response"] is None  # type: ignore[attr-defined]
    assert agent.get_state(thread()).values.get("structured_response") is None
    assert invoke(agent, world, None, thread())["structured_response"] == Place(city="Rome")


@both_worlds
def test_an_answer_of_many_kinds_of_values_is_kept_in_a_thread(world):
    class Order(BaseModel):
        size: Literal["s", "m"]
        spots: list[Spot]

    model = ScriptedModel(call("Order", size="m", spots=[{"city": "Oslo"}]), "ok")
    agent = create_agent(model, response_format=ToolStrategy(Order), checkpointer=InMemorySaver())
    invoke(agent, world, config=thread())
    assert agent.get_state(thread()).values["structured_response"] == Order(size="m", spots=[Spot("Oslo")])


@both_worlds
def test_what_is_streamed_of_an_answer_tool(world):
    """Its call and its result come in one update of the model."""
    agent = create_agent(ScriptedModel(call("Place", city="Oslo")), response_format=ToolStrategy(Place))
    (update,) = stream(agent, world)
    assert list(update) == ["model"]
    assert ([m.type for m in update["model"]["messages"]], update["model"]["structured_response"]) == (
        ["ai", "tool"],
        Place(city="Oslo"),
    )


@both_worlds
def test_a_refusal_is_told(world):
    refused = AIMessage("I cannot.", response_metadata={"finish_reason": "refusal"})
    agent = create_agent(ScriptedModel(refused), response_format=ProviderStrategy(Place))
    with pytest.raises(StructuredOutputValidationError, match="finish_reason='refusal'"):
        invoke(agent, world)


@both_worlds
def test_usage_of_all_tries_is_counted(world):
    model = ScriptedModel(say("words", usage=(1, 1)), use(call("Place", city="Oslo"), usage=(2, 1)))
    assert invoke(create_agent(model, response_format=ToolStrategy(Place)), world).usage["total_tokens"] == 5


@both_worlds
def test_an_answer_is_still_one_when_the_run_was_broken_off_behind_it(world):
    """A hook fails after the model has answered; another agent object goes on, which knows of it by the thread only."""
    from loopwright.agents.middleware import after_model

    fails = [True]

    @after_model
    def once(state: Any, runtime: Any) -> None:
        if fails:
            fails.clear()
            raise LookupError("once")

    saver = InMemorySaver()

    def agent(model: ScriptedModel) -> Any:
        return create_agent(model, response_format=ToolStrategy(Place), middleware=[once], checkpointer=saver)

    with pytest.raises(LookupError):
        invoke(agent(ScriptedModel(call("Place", city="Oslo"))), world, config=thread())
    result = invoke(agent(ScriptedModel("never")), world, None, thread())
    assert (result["structured_response"], result.stop_reason) == (Place(city="Oslo"), "structured_answer")


class Listed(BaseModel):
    """A place that is on a list."""

    city: str

    @field_validator("city")
    @classmethod
    def on_the_list(cls, city: str) -> str:
        return {"Oslo": "Oslo", "Rome": "Roma"}[city]


@both_worlds
def test_what_a_validator_raises_goes_back_to_the_model(world):
    model = ScriptedModel(call("Listed", city="Atlantis"), call("Listed", city="Rome"))
    result = invoke(create_agent(model, response_format=ToolStrategy(Listed)), world)
    assert "does not fit: KeyError: 'Atlantis'" in result["messages"][2].text
    assert result["structured_response"] == Listed(city="Rome")


@both_worlds
def test_what_a_validator_raises_is_the_error_of_a_provider_s_answer(world):
    agent = create_agent(ScriptedModel('{"city": "Atlantis"}'), response_format=ProviderStrategy(Listed))
    with pytest.raises(StructuredOutputValidationError, match="KeyError: 'Atlantis'") as raised:
        invoke(agent, world)
    assert isinstance(raised.value.source, KeyError)


# -- answers that are no object, and strict ones ---------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("by", [ToolStrategy, ProviderStrategy])
@pytest.mark.parametrize(
    ("schema", "name", "value", "expected"),
    [
        (list[Place], "list_Place", [{"city": "Oslo"}], [Place(city="Oslo")]),
        (
            RootModel[list[Place]],
            "RootModel_list_Place",
            [{"city": "Oslo"}],
            RootModel[list[Place]]([Place(city="Oslo")]),
        ),
        (list[int], "list_int", [], []),
        (bool, "bool", False, False),
        (Literal["yes", "no"], "Literal_yes_no", "no", "no"),
        ({"title": "Cities", "type": "array", "items": {"type": "string"}}, "Cities", ["Oslo"], ["Oslo"]),
    ],
)
def test_an_answer_that_is_no_object(world, by, schema, name, value, expected):
    asked = {"value": value}
    model = ScriptedModel(call(name, asked) if by is ToolStrategy else json.dumps(asked))
    agent = create_agent(model, response_format=by(schema), checkpointer=InMemorySaver())
    result = invoke(agent, world, config=thread())
    assert (result["structured_response"], result.stop_reason) == (expected, "structured_answer")
    assert agent.get_state(thread()).values["structured_response"] == expected


def test_one_of_several_forms_may_be_no_object():
    def agent(answer: Any) -> Any:
        return create_agent(ScriptedModel(answer), response_format=ToolStrategy(Place | list[int]))

    assert agent(call("list_int", value=[1])).invoke({"messages": "hi"})["structured_response"] == [1]
    assert agent(call("Place", city="Oslo")).invoke({"messages": "hi"})["structured_response"] == Place(city="Oslo")


def test_a_list_that_does_not_fit_goes_back_to_the_model():
    model = ScriptedModel(call("list_int", value=[1, "two"]), call("list_int", value=[1, 2]))
    result = create_agent(model, response_format=ToolStrategy(list[int])).invoke({"messages": "hi"})
    assert result["structured_response"] == [1, 2]
    assert "1: Input should be a valid integer" in result["messages"][2].text


class Booking(BaseModel):
    model_config = ConfigDict(strict=True)

    day: date
    seats: set[int]


@both_worlds
@pytest.mark.parametrize("by", [ToolStrategy, ProviderStrategy])
def test_a_strict_answer_is_read_as_json(world, by):
    given = {"day": "2024-02-29", "seats": [1, 2]}
    model = ScriptedModel(call("Booking", given) if by is ToolStrategy else json.dumps(given))
    result = invoke(create_agent(model, response_format=by(Booking)), world)
    assert result["structured_response"] == Booking(day=date(2024, 2, 29), seats={1, 2})
    wrong = {**given, "seats": ["1"]}
    model = ScriptedModel(call("Booking", wrong) if by is ToolStrategy else json.dumps(wrong), loop=True)
    with pytest.raises(StructuredOutputValidationError, match="seats"):
        invoke(create_agent(model, response_format=by(Booking)), world)
