"""`with_structured_output`: data instead of a message."""

from __future__ import annotations

import dataclasses
import json
from datetime import date
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator

from loopwright.errors import OutputParserException, UsageError
from loopwright.messages import AIMessage
from loopwright.testing import ManualClock, ScriptedModel, call, say, use
from tests.models.worlds import Blocking, both_worlds


class Place(BaseModel):
    """A place."""

    city: str
    rating: int = Field(default=3, ge=1, le=5)


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Trip(TypedDict):
    """A trip."""

    to: Annotated[str, "where to"]
    days: int


TRIP = {"title": "Trip", "description": "A trip.", "type": "object", "properties": {"to": {"type": "string"}}}


@both_worlds
@pytest.mark.parametrize(
    ("schema", "name", "args", "expected"),
    [
        (Place, "Place", {"city": "Oslo"}, Place(city="Oslo")),
        (Point, "Point", {"x": "1"}, Point(1, 0)),
        (Trip, "Trip", {"to": "Oslo", "days": 2}, {"to": "Oslo", "days": 2}),
        (TRIP, "Trip", {"to": "Oslo"}, {"to": "Oslo"}),
    ],
    ids=["pydantic", "dataclass", "TypedDict", "JSON schema"],
)
def test_an_answer_by_a_tool(world: Blocking, schema: Any, name: str, args: Any, expected: Any) -> None:
    model = ScriptedModel(call(name, args))
    assert world.invoke(model.with_structured_output(schema), "hi") == expected
    request = model.requests[0]
    assert (request.tool_names, request.tool_choice) == ([name], "any")


@both_worlds
@pytest.mark.parametrize("text", ['{"city": "Oslo"}', '```json\n{"city": "Oslo"}\n```', '  {"city": "Oslo"}\n'])
@pytest.mark.parametrize("method", ["json_schema", "json_mode", "function_calling"])
def test_an_answer_in_json(world: Blocking, method: str, text: str) -> None:
    """A model that was given a tool and answered with its arguments as text is understood too."""
    model = ScriptedModel(text)
    assert world.invoke(model.with_structured_output(Place, method=method), "hi") == Place(city="Oslo")


def test_what_each_method_asks_the_provider_for() -> None:
    model = ScriptedModel(*[say('{"city": "Oslo"}')] * 3)
    model.with_structured_output(Place, method="json_schema", strict=True, temperature=0).invoke("hi")
    model.with_structured_output(Place, method="json_mode").invoke("hi")
    model.with_structured_output(Place, strict=True, tool_choice="Place").invoke("hi")
    schema = {
        "properties": {
            "city": {"type": "string"},
            "rating": {"default": 3, "maximum": 5, "minimum": 1, "type": "integer"},
        },
        "required": ["city"],
        "type": "object",
    }
    function = {"name": "Place", "description": "A place.", "strict": True}
    assert [request.kwargs for request in model.requests] == [
        {
            "response_format": {"type": "json_schema", "json_schema": {**function, "schema": schema}},
            "temperature": 0,
        },
        {"response_format": {"type": "json_object"}},
        {
            "tools": [{"type": "function", "function": {**function, "parameters": schema}}],
            "tool_choice": "Place",
        },
    ]


@both_worlds
def test_B106_an_answer_that_does_not_fit_names_the_field(world: Blocking) -> None:
    model = ScriptedModel(call("Place", {"city": "Oslo", "rating": 10}))
    with pytest.raises(OutputParserException, match=r"does not fit Place: rating: .*less than or equal to 5") as caught:
        world.invoke(model.with_structured_output(Place), "hi")
    assert isinstance(caught.value.__cause__, ValidationError)
    assert "10" in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (say("I think Oslo."), "asked for Place and answered 'I think Oslo.'"),
        (say(""), "asked for Place and answered nothing"),
        (say("{", response_metadata={"finish_reason": "length"}), r"answered '\{' \(it ended with 'length'\)"),
        (say("x" * 300), r"x'\.\.\.\.$"),
        (use(invalid=[{"name": "Place", "args": '{"ci', "id": "1", "error": None}]), "arguments for Place are no JSON"),
        (say("[1]"), "does not fit Place"),
    ],
)
def test_B104_an_answer_in_words_is_an_error_and_never_none(answer: Any, words: str) -> None:
    with pytest.raises(OutputParserException, match=words):
        ScriptedModel(answer).with_structured_output(Place).invoke("hi")


@both_worlds
def test_include_raw_gives_all_three(world: Blocking) -> None:
    model = ScriptedModel(call("Place", {"city": "Oslo"}), call("Place", {"town": 1}), say("words"))
    asked = model.with_structured_output(Place, include_raw=True)
    good, unfit, words = (world.invoke(asked, "hi") for _ in range(3))
    assert (good["parsed"], good["parsing_error"], type(good["raw"])) == (Place(city="Oslo"), None, AIMessage)
    assert (unfit["parsed"], type(unfit["parsing_error"])) == (None, ValidationError)
    assert (words["parsed"], type(words["parsing_error"]), words["raw"].text) == (None, OutputParserException, "words")


@both_worlds
def test_streams_and_batches_give_the_data(world: Blocking) -> None:
    asked = ScriptedModel(call("Place", city="Oslo"), loop=True).with_structured_output(Place)
    assert world.stream(asked, "hi") == [{"city": "Oslo"}, Place(city="Oslo")]
    assert world.batch(asked, ["a", "b"]) == [Place(city="Oslo")] * 2


def test_a_json_schema_is_a_request_and_not_enforced() -> None:
    assert ScriptedModel(call("Trip", to=3)).with_structured_output(TRIP).invoke("hi") == {"to": 3}
    with pytest.raises(OutputParserException, match="an object was expected, not list"):
        ScriptedModel("[1]").with_structured_output(TRIP).invoke("hi")


def test_an_answer_that_does_not_fit_is_retried_and_handed_on(manual_clock: ManualClock) -> None:
    bad, good = call("Place", {"town": 1}), call("Place", city="Oslo")
    assert ScriptedModel(bad, good).with_structured_output(Place).with_retry().invoke("hi") == Place(city="Oslo")
    other = ScriptedModel(good)
    assert ScriptedModel(bad).with_fallbacks([other]).with_structured_output(Place).invoke("hi") == Place(city="Oslo")
    third = ScriptedModel(bad).with_structured_output(Place)
    fourth = ScriptedModel(good).with_structured_output(Place)
    assert third.with_fallbacks([fourth]).with_config(tags=["x"]).bind(temperature=0).invoke("hi") == Place(city="Oslo")
    assert "Place" in repr(third)


def test_tags_of_the_model_hold_for_the_structured_call() -> None:
    assert ScriptedModel(tags=["own"]).with_structured_output(Place).call_config({}).get("tags") == ["own"]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (object, "is no schema"),
        ("Place", "is no schema"),
        ({"type": "object", "properties": {}}, 'needs a "title"'),
        ({"title": "List"}, "must describe an object"),
    ],
)
def test_what_is_no_schema(schema: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ScriptedModel().with_structured_output(schema)


def test_an_unknown_method_names_those_there_are() -> None:
    with pytest.raises(UsageError, match="'function_calling', 'json_schema', 'json_mode'"):
        ScriptedModel().with_structured_output(Place, method="magic")


def test_what_a_validator_raises_is_an_answer_that_does_not_fit():
    class Listed(BaseModel):
        city: str

        @field_validator("city")
        @classmethod
        def on_the_list(cls, city: str) -> str:
            return {"Oslo": "Oslo"}[city]

    model = ScriptedModel(call("Listed", city="Atlantis"), call("Listed", city="Atlantis"))
    with pytest.raises(OutputParserException, match="does not fit Listed: KeyError: 'Atlantis'"):
        model.with_structured_output(Listed).invoke("Where?")
    answer: Any = model.with_structured_output(Listed, include_raw=True).invoke("Where?")
    assert (answer["parsed"], type(answer["parsing_error"])) == (None, OutputParserException)


@pytest.mark.parametrize("method", ["function_calling", "json_schema", "json_mode"])
def test_what_is_no_object_is_asked_for_as_a_value(method: str) -> None:
    asked = {"value": [{"city": "Oslo"}]}
    answer = call("list_Place", asked) if method == "function_calling" else json.dumps(asked)
    model = ScriptedModel(answer, json.dumps(asked["value"]))
    places = model.with_structured_output(list[Place], method=method)
    assert places.invoke("Where?") == [Place(city="Oslo")]
    assert places.invoke("Where, without the wrapping?") == [Place(city="Oslo")]


def test_strict_fields_are_read_as_json() -> None:
    class Day(BaseModel):
        day: date = Field(strict=True)

    assert ScriptedModel(call("Day", day="2024-02-29")).with_structured_output(Day).invoke("?").day == date(2024, 2, 29)
