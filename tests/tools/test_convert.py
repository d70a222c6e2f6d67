"""Tools as providers want them, and the tools of an agent."""

import dataclasses
from typing import TypedDict

import pytest
from pydantic import BaseModel, Field

from loopwright.errors import ToolDefinitionError, UsageError
from loopwright.tools import (
    BaseTool,
    check_tools,
    convert_to_openai_function,
    convert_to_openai_tool,
    tool,
)


def lookup(query: str, limit: int = 5) -> str:
    """Look up rows.

    Args:
        query: Words.
        limit: How many.
    """
    return query


class Answer(BaseModel):
    """An answer."""

    text: str
    scores: list[dict] = Field(default=[], description="of each")


class Told(TypedDict):
    """Told."""

    text: str


@dataclasses.dataclass
class Data:
    text: str


TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SCORES = {
    "type": "array",
    "items": {"type": "object", "additionalProperties": True},
    "default": [],
    "description": "of each",
}
LOOKUP = {
    "name": "lookup",
    "description": "Look up rows.",
    "parameters": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words."},
            "limit": {"type": "integer", "description": "How many.", "default": 5},
        },
        "required": ["query"],
    },
}


@pytest.mark.parametrize(
    ("given", "about"),
    [
        (lookup, LOOKUP),
        (tool(lookup), LOOKUP),
        (
            Answer,
            {
                "name": "Answer",
                "description": "An answer.",
                "parameters": {**TEXT, "properties": {**TEXT["properties"], "scores": SCORES}},
            },
        ),
        (Told, {"name": "Told", "description": "Told.", "parameters": TEXT}),
        (Data, {"name": "Data", "description": "", "parameters": TEXT}),
        ({"title": "J", "description": "D.", **TEXT}, {"name": "J", "description": "D.", "parameters": TEXT}),
    ],
)
def test_whatever_describes_a_function(given, about):
    assert convert_to_openai_function(given) == about
    assert convert_to_openai_tool(given) == {"type": "function", "function": about}


def test_of_a_tool_it_is_one_dictionary():
    one = tool(lookup)
    assert convert_to_openai_tool(one) is convert_to_openai_tool(one)
    assert convert_to_openai_function(one) is convert_to_openai_tool(one)["function"]


def test_what_is_a_providers_own_is_handed_on():
    for given in ({"type": "web_search"}, {"type": "function", "function": {"name": "f"}}):
        assert convert_to_openai_tool(given) == given
    anthropic = {"name": "f", "description": "F.", "input_schema": {"type": "object", "properties": {"q": {}}}}
    assert convert_to_openai_tool(anthropic)["function"] == {
        "name": "f", "description": "F.", "parameters": {"type": "object", "properties": {"q": {}}},
    }  # fmt: skip


def test_settings_beside_a_flat_function():
    """As `openai-responses` has them: they are the tool's own."""
    given = {"type": "function", "name": "x", "description": "d", "parameters": {"type": "object", "properties": {}}}
    about = {"name": "x", "description": "d", "parameters": {"type": "object", "properties": {}}}
    settings = {"strict": True, "defer_loading": True}
    assert convert_to_openai_tool({**given, **settings})["function"] == {**about, **settings}
    assert convert_to_openai_tool({**given, "strict": None})["function"] == about
    assert convert_to_openai_tool({**given, "strict": True}, strict=False)["function"] == {**about, "strict": False}


def test_strict():
    about = convert_to_openai_tool(Answer, strict=True)["function"]
    assert (about["strict"], about["parameters"]["additionalProperties"]) == (True, False)
    assert about["parameters"]["properties"]["scores"]["items"] == {"type": "object", "additionalProperties": True}
    plain = tool(lookup)
    assert convert_to_openai_tool(plain, strict=False)["function"]["strict"] is False
    given = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    assert convert_to_openai_tool(given, strict=True)["function"]["parameters"]["additionalProperties"] is False
    assert "strict" not in convert_to_openai_function(plain)


def test_what_describes_nothing():
    with pytest.raises(UsageError, match="3 is no tool"):
        convert_to_openai_function(3)


# --- the tools of an agent ----------------------------------------------------


def test_functions_become_tools_and_dictionaries_pass():
    one = tool("one", description="One.")(lambda q: q)
    found, handed_on = check_tools([one, lookup, {"type": "web_search"}])
    assert (list(found), found["one"] is one, handed_on) == (["one", "lookup"], True, [{"type": "web_search"}])
    assert isinstance(found["lookup"], BaseTool)
    assert check_tools(None) == check_tools([]) == check_tools(iter(())) == ({}, [])


def search(q: str) -> str:
    """Search here."""
    return q


class Search(BaseTool):
    name: str = "search"
    description: str = "Search there."

    async def _arun(self, q: str) -> str:
        return q


def test_B91_two_tools_of_one_name():
    """The error names both."""
    named = tool("search")(lookup)
    for tools, words in [
        ([search, Search()], r"test_convert.search and .*test_convert.Search"),
        ([named, search], r"test_convert.lookup and .*test_convert.search"),
        ([search, {"name": "search", "input_schema": {}}], "search and the dictionary"),
        ([{"type": "function", "function": {"name": "search"}}, search], "the dictionary .* and .*search"),
    ]:
        with pytest.raises(ToolDefinitionError, match=f"Two tools are named 'search': .*{words}"):
            check_tools(tools)
    for tools in ([named, named], [search, search]):
        with pytest.raises(ToolDefinitionError, match="The tool 'search' is given twice"):
            check_tools(tools)


def test_names_that_are_taken():
    with pytest.raises(ToolDefinitionError, match=r"Two tools are named 'search': response_format and .*search"):
        check_tools([search], reserved={"search": "response_format"})


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([3], "3 is no tool"),
        ([Search], "Search is no tool.*an instance of a BaseTool subclass"),
        (["search"], "'search' is no tool"),
        (search, r"tools is a list: write tools=\[search\]"),
        (Search(), r"tools is a list"),
        ("search", r"tools is a list"),
        ({"type": "web_search"}, r"tools is a list"),
        ([lambda q: q], "needs a name"),
    ],
)
def test_lists_that_cannot_work(tools, words):
    with pytest.raises(ToolDefinitionError, match=words):
        check_tools(tools)
