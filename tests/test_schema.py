"""Schemas of answers: what a model is told, and what its data becomes."""

from __future__ import annotations

import dataclasses
import enum
import json
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from loopwright.errors import UsageError
from loopwright.schema import (
    answer_schema,
    is_object,
    json_schema,
    schema_description,
    schema_name,
    union_members,
    validate,
)


class Colour(enum.Enum):
    red = "red"
    blue = "blue"


class Inner(BaseModel):
    title: str = Field(description="a title")
    colour: Colour = Colour.red


class Outer(BaseModel):
    """An outer thing.

    With a second paragraph.
    """

    inner: Inner = Field(description="beside the reference")
    more: list[Inner] = []
    maybe: int | None = None


class Tree(BaseModel):
    children: list[Tree] = []


@dataclasses.dataclass
class Point:
    x: int
    inner: Inner


class Leg(TypedDict, total=False):
    to: Annotated[str, ..., "where to"]


class Trip(TypedDict):
    """A trip."""

    name: Annotated[str, "its name"]
    legs: NotRequired[list[Leg]]
    last: Optional[Leg]  # noqa: UP045 - the old spelling is a case of its own


@pytest.mark.parametrize(
    ("schema", "name", "description"),
    [
        (Outer, "Outer", "An outer thing.\n\nWith a second paragraph."),
        (Tree, "Tree", ""),
        (Point, "Point", ""),
        (Trip, "Trip", "A trip."),
        ({"title": "T", "description": "d", "properties": {}}, "T", "d"),
        ({"name": "f", "description": "d", "parameters": {"properties": {}}}, "f", "d"),
        ({"type": "function", "function": {"name": "f", "parameters": {"properties": {}}}}, "f", ""),
        ({"json_schema": {"name": "f", "schema": {"properties": {}, "description": "in"}}}, "f", "in"),
    ],
)
def test_name_and_description(schema: Any, name: str, description: str) -> None:
    assert (schema_name(schema), schema_description(schema)) == (name, description)


INNER = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "a title"},
        "colour": {"enum": ["red", "blue"], "type": "string", "default": "red"},
    },
    "required": ["title"],
}


def test_a_json_schema_is_compact_and_needs_no_lookup() -> None:
    """A property that is called `title` stays; the titles that pydantic adds go."""
    assert json_schema(Outer) == {
        "type": "object",
        "properties": {
            "inner": {**INNER, "description": "beside the reference"},
            "more": {"type": "array", "items": INNER, "default": []},
            "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        },
        "required": ["inner"],
    }


def test_a_recursive_schema_keeps_its_reference() -> None:
    tree = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []}},
    }
    assert json_schema(Tree) == {**tree, "$defs": {"Tree": tree}}


def test_a_typed_dict_of_any_python_is_read() -> None:
    leg = {"type": "object", "properties": {"to": {"type": "string", "description": "where to"}}}
    assert json_schema(Trip) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "its name"},
            "legs": {"type": "array", "items": leg},
            "last": {"anyOf": [leg, {"type": "null"}]},
        },
        "required": ["name", "last"],
    }


def test_a_dictionary_is_taken_out_of_its_wrapping() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "integer", "title": "A"}}}
    for wrapped in ({"title": "T", **inner}, {"name": "f", "parameters": inner}, {"name": "f", "input_schema": inner}):
        assert json_schema(wrapped) == {"type": "object", "properties": {"a": {"type": "integer"}}}
    with pytest.raises(UsageError, match="which is not in it"):
        json_schema({"title": "T", "properties": {"a": {"$ref": "#/$defs/gone"}}})


def test_data_becomes_the_schemas_type() -> None:
    assert validate(Outer, {"inner": {"title": "t"}}) == Outer(inner=Inner(title="t"))
    assert validate(Point, {"x": "1", "inner": {"title": "t"}}) == Point(1, Inner(title="t"))
    assert validate(Trip, {"name": "n", "last": None}) == {"name": "n", "last": None}
    assert validate({"title": "T", "properties": {}}, {"a": 1}) == {"a": 1}
    with pytest.raises(ValidationError, match=r"inner\.title"):
        validate(Outer, {"inner": {}})
    with pytest.raises(ValueError, match="T: an object was expected, not str"):
        validate({"title": "T", "properties": {}}, "a")


def test_the_members_of_a_union() -> None:
    assert union_members(Outer) == [Outer]
    assert union_members(Outer | Point) == [Outer, Point]
    assert union_members(Union[Outer, Point | Trip]) == [Outer, Point, Trip]  # noqa: UP007 - a case of its own
    one, two = {"title": "One", "type": "object"}, {"title": "Two", "type": "object"}
    assert union_members({"oneOf": [one, {"$ref": "#/$defs/two"}], "$defs": {"two": two}}) == [
        {"$defs": {"two": two}, **one},
        {"$defs": {"two": two}, **two},
    ]


class Unreadable:
    """Of no form that JSON has."""


class Spot(BaseModel):
    x: int


@pytest.mark.parametrize("schema", ["text", None, type(None), Any, object, 3, [1], Unreadable])
def test_what_is_no_schema(schema: Any) -> None:
    for read in (json_schema, answer_schema, schema_name) if schema is not Unreadable else (json_schema, answer_schema):
        with pytest.raises(UsageError, match="is no schema"):
            read(schema)


# -- answers that are no object -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "name", "value", "expected"),
    [
        (list[int], "list_int", [1, 2], [1, 2]),
        (list[Spot], "list_Spot", [{"x": 1}], [Spot(x=1)]),
        (RootModel[list[int]], "RootModel_list_int", [1], RootModel[list[int]]([1])),
        (RootModel[Spot | None], "RootModel_Union_Spot_NoneType", None, RootModel[Spot | None](None)),
        (tuple[int, str], "tuple_int_str", [1, "a"], (1, "a")),
        (set[str], "set_str", ["a"], {"a"}),
        (Literal["a", "b"], "Literal_a_b", "a", "a"),
        (Colour, "Colour", "red", Colour.red),
        (date, "date", "2024-02-29", date(2024, 2, 29)),
        (Annotated[list[int], Field(min_length=1)], "list_int", [1], [1]),
        (bool, "bool", False, False),
        ({"title": "numbers", "type": "array", "items": {"type": "integer"}}, "numbers", [1], [1]),
        ({"title": "word", "enum": ["a", "b"]}, "word", "a", "a"),
    ],
)
def test_what_is_no_object_is_asked_for_as_a_value(schema: Any, name: str, value: Any, expected: Any) -> None:
    asked = answer_schema(schema)
    assert (schema_name(schema), is_object(schema)) == (name, False)
    assert (asked["type"], list(asked["properties"]), asked["required"]) == ("object", ["value"], ["value"])
    assert validate(schema, {"value": value}) == expected
    assert validate(schema, value) == expected
    if "anyOf" not in asked["properties"]["value"]:
        with pytest.raises(UsageError, match="must describe an object"):
            json_schema(schema)


def test_what_is_an_object_is_asked_for_as_it_is() -> None:
    for schema in (Outer, dict[str, int], {"title": "one", "type": "object", "properties": {"value": {}}}):
        assert is_object(schema)
        assert answer_schema(schema) == json_schema(schema)
    assert validate({"title": "one", "type": "object"}, {"value": 1}) == {"value": 1}


def test_parts_that_recur_stand_beside_the_value() -> None:
    class Nest(BaseModel):
        nests: list[Nest] = []

    asked = answer_schema(list[Nest])
    assert asked["properties"]["value"]["items"]["properties"]["nests"]["items"] == {"$ref": "#/$defs/Nest"}
    assert list(asked["$defs"]) == ["Nest"]
    assert validate(list[Nest], {"value": [{"nests": [{}]}]}) == [Nest(nests=[Nest()])]


def test_a_discriminator_that_points_to_what_was_written_out_is_left_out() -> None:
    class Cat(BaseModel):
        kind: Literal["cat"]

    class Dog(BaseModel):
        kind: Literal["dog"]

    either = Annotated[Cat | Dog, Field(discriminator="kind")]
    assert "$defs" not in str(answer_schema(either))
    assert validate(either, {"value": {"kind": "dog"}}) == validate(either, {"kind": "dog"}) == Dog(kind="dog")


# -- what a model sends is JSON -------------------------------------------------------------------------------------


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    day: date
    colour: Colour
    pair: tuple[int, str]
    words: set[str]
    raw: bytes
    key: UUID
    price: Decimal
    inner: RootModel[frozenset[int]]


STRICT = {
    "day": "2024-02-29",
    "colour": "red",
    "pair": [1, "a"],
    "words": ["a"],
    "raw": "abc",
    "key": "12345678-1234-5678-1234-567812345678",
    "price": "1.5",
    "inner": [1],
}


def test_strict_types_take_what_json_can_give() -> None:
    read = validate(Strict, STRICT)
    assert read == Strict.model_validate_json(json.dumps(STRICT))
    assert (read.day, read.colour, read.pair, read.key) == (
        date(2024, 2, 29),
        Colour.red,
        (1, "a"),
        UUID(STRICT["key"]),
    )


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [("day", "2024-02-30", "day value is outside expected range"), ("pair", ["1", "a"], "valid integer")],
)
def test_strict_types_stay_strict(field: str, value: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words) as caught:
        validate(Strict, {**STRICT, field: value})
    assert [each["loc"][0] for each in caught.value.errors()] == [field]


def test_a_program_may_give_what_json_cannot() -> None:
    given = validate(Strict, STRICT)
    assert validate(Strict, dict(given)) == given
    with pytest.raises(ValidationError, match="day"):
        validate(Strict, {**dict(given), "day": "2024-02-29"})  # JSON has no sets: Python's rules hold
    with pytest.raises(ValidationError, match="valid date"):
        validate(Strict, {**STRICT, "day": "\ud800"})
