"""Schemas of answers: what a model is told, and what its data becomes."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, NotRequired, Optional, TypedDict, Union

import pytest
from pydantic import BaseModel, Field, ValidationError

from loopwright.errors import UsageError
from loopwright.schema import json_schema, schema_description, schema_name, union_members, validate


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


@pytest.mark.parametrize("schema", [int, "text", list[int], None])
def test_what_is_no_schema(schema: Any) -> None:
    with pytest.raises(UsageError, match="is no schema"):
        json_schema(schema)
    with pytest.raises(UsageError, match="is no schema"):
        schema_name(schema) if schema is not int else json_schema(schema)
