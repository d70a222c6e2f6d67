"""Schemas that only real calls fit, and reading calls in pieces."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import UsageError
from loopwright.models.local.calls import CallReader, FirstToken, call_schema, chosen_tools, functions_of
from loopwright.models.local.shots import call_text

ADD = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}}
SAY = {"name": "say", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}
NOW = {"name": "now"}


# -- which tools -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "names", "how"),
    [
        (None, ["add", "say"], "auto"),
        ("auto", ["add", "say"], "auto"),
        (False, ["add", "say"], "auto"),
        ("any", ["add", "say"], "required"),
        ("required", ["add", "say"], "required"),
        (True, ["add", "say"], "required"),
        ("none", [], "none"),
        ("say", ["say"], "required"),
        ({"type": "function", "function": {"name": "say"}}, ["say"], "required"),
        ({"name": "add"}, ["add"], "required"),
    ],
)
def test_tool_choice(choice: Any, names: list[str], how: str) -> None:
    functions, kind = chosen_tools(choice, [ADD, SAY])
    assert ([function["name"] for function in functions], kind) == (names, how)


def test_no_tools_is_no_choice() -> None:
    assert chosen_tools("any", []) == ([], "none")


def test_a_choice_that_names_no_tool() -> None:
    with pytest.raises(UsageError, match="tool_choice='sum' names no tool of this call: take 'add', 'say'"):
        chosen_tools("sum", [ADD, SAY])


def test_a_provider_s_own_tool_is_refused() -> None:
    with pytest.raises(UsageError, match="web_search"):
        functions_of([{"type": "web_search"}])


# -- the schema ------------------------------------------------------------------------------------------------------


def test_one_tool() -> None:
    assert call_schema([ADD]) == {
        "type": "object",
        "properties": {
            "tool": {"const": "add"},
            "arguments": {
                "type": "object",
                "properties": {"a": {"type": "number"}},
                "required": ["a"],
                "additionalProperties": False,
            },
        },
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }


def test_several_tools_are_alternatives() -> None:
    schema = call_schema([ADD, SAY, NOW])
    assert [call["properties"]["tool"]["const"] for call in schema["anyOf"]] == ["add", "say", "now"]
    empty = {"type": "object", "properties": {}, "additionalProperties": False}
    assert schema["anyOf"][2]["properties"]["arguments"] == empty


def test_definitions_of_two_tools_do_not_mix() -> None:
    """Both call their own class `Point`; at the root each keeps its own."""

    def tool(name: str, kind: str) -> dict[str, Any]:
        point = {"type": "object", "title": "Point", "properties": {"x": {"type": kind}}}
        parameters = {"type": "object", "$defs": {"Point": point}, "properties": {"p": {"$ref": "#/$defs/Point"}}}
        return {"name": name, "parameters": parameters}

    schema = call_schema([tool("one", "integer"), tool("two", "string")])
    assert schema["$defs"] == {
        "one.Point": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "two.Point": {"type": "object", "properties": {"x": {"type": "string"}}},
    }
    references = [call["properties"]["arguments"]["properties"]["p"]["$ref"] for call in schema["anyOf"]]
    assert references == ["#/$defs/one.Point", "#/$defs/two.Point"]


def test_what_only_people_read_is_left_out_and_names_are_not() -> None:
    parameters = {
        "type": "object",
        "title": "Arguments",
        "properties": {
            "title": {"type": "string", "title": "Title", "default": "x", "description": "What it is called"},
            "code": {"type": "string", "pattern": "^[a-z]+$"},
            "free": {"type": "string", "pattern": "[a-z]"},
            "kind": {"enum": ["title", "default"]},
            "list": {"type": "array", "items": {"anyOf": [{"type": "string", "examples": ["a"]}, {"type": "null"}]}},
        },
        "additionalProperties": {"type": "string", "title": "Rest"},
    }
    before = json.dumps(parameters)
    arguments = call_schema([{"name": "make", "parameters": parameters}])["properties"]["arguments"]
    assert json.dumps(parameters) == before
    assert arguments == {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "code": {"type": "string", "pattern": "^[a-z]+$"},
            "free": {"type": "string"},
            "kind": {"enum": ["title", "default"]},
            "list": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        },
        "additionalProperties": {"type": "string"},
    }


# -- the decision ----------------------------------------------------------------------------------------------------


def choice(*candidates: tuple[int, str, float]) -> dict[str, Any]:
    top = [{"id": id, "token": token, "logprob": logprob} for id, token, logprob in candidates]
    return {"logprobs": {"content": [{"token": top[0]["token"], "logprob": top[0]["logprob"], "top_logprobs": top}]}}


def test_the_first_token_s_braces_count_together() -> None:
    decision = FirstToken()
    decision.feed({"delta": {"role": "assistant"}})
    decision.feed(choice((7, "The", -1.0), (8, '{"', -1.0), (9, " {", -2.0)))
    assert decision.brace == pytest.approx(0.5032, abs=1e-4)
    assert decision.bans() == [[8, False], [9, False]]


def test_an_unlikely_brace_is_not_forbidden() -> None:
    decision = FirstToken()
    decision.feed(choice((7, "The", -0.01), (8, '{"', -5.0)))
    assert decision.bans() == []


# -- reading ---------------------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    name=st.text(min_size=1),
    arguments=st.dictionaries(st.text(), json_values, max_size=4),
    spaced=st.booleans(),
    cuts=st.lists(st.integers(0, 400), max_size=8),
)
def test_a_call_reads_alike_wherever_it_is_cut(
    name: str, arguments: dict[str, Any], spaced: bool, cuts: list[int]
) -> None:
    """Whatever stands in the strings: quotes, braces, backslashes."""
    text = call_text(name, arguments)
    if spaced:
        text = "\n" + json.dumps({"tool": name, "arguments": arguments}, indent=1) + "\n"
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    reader = CallReader()
    pieces = [chunk for begin, end in pairwise(places) for chunk in reader.feed(text[begin:end])]
    assert [piece["name"] for piece in pieces if piece["name"] is not None] == [name]
    assert len({piece["id"] for piece in pieces if piece["id"] is not None}) == 1
    assert pieces[0]["name"] == name
    assert json.loads("".join(piece["args"] for piece in pieces)) == arguments


def test_a_call_that_is_cut_off_before_its_tool_is_known() -> None:
    reader = CallReader()
    assert reader.feed('{"tool":"ad') == []
    assert not reader.begun
    assert reader.waiting == '{"tool":"ad'
