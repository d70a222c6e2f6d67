from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import UsageError
from loopwright.messages import AIMessage, parse_arguments
from loopwright.messages.calls import partial_arguments
from tests.messages import strategies


def call(args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "f", "args": args, "id": "c1"}])


@pytest.mark.parametrize(
    "text", ["[]", '"x"', "3", "true", "{", "nonsense", "{} x", '{"a": 1}{"a": 2}', "1 1", "[" * 99_999]
)
def test_B07_arguments_that_are_no_object_are_an_invalid_call(text: str) -> None:
    message = call(text)
    assert message.tool_calls == []
    [bad] = message.invalid_tool_calls
    assert (bad["name"], bad["args"], bad["id"], bad.get("type")) == ("f", text, "c1", "invalid_tool_call")
    assert bad["error"]


@pytest.mark.parametrize(
    ("value", "kind"), [([], "an array"), (3, "a number"), (True, "a boolean"), ({1}, "set"), ("[]", "an array")]
)
def test_B07_the_error_names_what_was_found(value: Any, kind: str) -> None:
    assert parse_arguments(value) == f"the arguments must be a JSON object, not {kind}"


def test_B07_values_that_are_no_text_are_kept_as_text() -> None:
    assert call([1, None]).invalid_tool_calls[0]["args"] == "[1,null]"


@pytest.mark.parametrize("nothing", ["", " \n", None, "null", "{}"])
def test_no_arguments_are_no_arguments(nothing: Any) -> None:
    assert call(nothing).tool_calls == [{"name": "f", "args": {}, "id": "c1", "type": "tool_call"}]


def test_B14_a_json_string_of_an_object_is_decoded_once_more() -> None:
    args = {"location": "Paris", "celsius": True}
    assert call(json.dumps(args)).tool_calls[0]["args"] == args
    assert call(json.dumps(json.dumps(args))).tool_calls[0]["args"] == args


def test_an_object_said_twice_counts_once() -> None:
    assert parse_arguments('{"a": 1} {"a":1}') == {"a": 1}


def test_text_that_models_write_is_read() -> None:
    assert parse_arguments('{"a": "two\nlines"}') == {"a": "two\nlines"}
    assert parse_arguments('{"a": "\\ud83d"}') == {"a": "\ud83d"}


def test_calls_in_openais_form_are_calls() -> None:
    openai = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    assert AIMessage("", tool_calls=[openai]).tool_calls == [
        {"name": "f", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
    ]


def test_what_a_call_has_besides_is_kept() -> None:
    [kept] = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c1", "extras": {"s": 1}}]).tool_calls
    assert kept == {"name": "f", "args": {}, "id": "c1", "type": "tool_call", "extras": {"s": 1}}


def test_a_normal_call_is_not_copied() -> None:
    normal = {"name": "f", "args": {}, "id": "c1", "type": "tool_call"}
    assert AIMessage("", tool_calls=[normal]).tool_calls[0] is normal


def test_a_call_without_name_or_id_is_a_call() -> None:
    assert AIMessage("", tool_calls=[{"args": {}}]).tool_calls == [
        {"name": "", "args": {}, "id": None, "type": "tool_call"}
    ]


def test_what_is_no_call_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"tool_calls\[1\] is str, not a tool call"):
        AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c1"}, "f"])


@given(strategies.objects)
def test_the_whole_text_is_the_whole_object(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    assert partial_arguments(text) == value
    assert parse_arguments(text) == value


@given(strategies.objects, st.data())
def test_a_part_of_the_text_shows_a_part_of_the_object(value: dict[str, Any], data: st.DataObject) -> None:
    """Members that are complete are there with their value; at most one more has begun."""
    text = json.dumps(value)
    shown = partial_arguments(text[: data.draw(st.integers(0, len(text)))])
    assert set(shown) <= set(value)
    assert [key for key in shown if shown[key] != value[key]] in ([], list(shown)[-1:])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (None, {}),
        ("", {}),
        ('{"city', {}),
        ('{"city": "Os', {"city": "Os"}),
        ('{"city": "Oslo\\', {"city": "Oslo"}),
        ('{"city": "Oslo\\u00', {"city": "Oslo"}),
        ('{"city": "Oslo\\"', {"city": 'Oslo"'}),
        ('{"a": 1, "b": tr', {"a": 1}),
        ('{"a": [1, 2', {"a": [1, 2]}),
        ('{"a": [1, {"b": 2}], "c', {"a": [1, {"b": 2}]}),
        ('{"a": 1}}', {}),
        ("[1", {}),
        ("}", {}),
        ("nonsense", {}),
    ],
)
def test_partial_arguments(text: str | None, shown: dict[str, Any]) -> None:
    assert partial_arguments(text) == shown


def test_bad_calls_join_the_invalid_ones() -> None:
    known = {"name": "g", "args": "{", "id": "2", "error": "cut", "type": "invalid_tool_call"}
    message = AIMessage(
        ["a"],
        tool_calls=[{"name": "f", "args": "[", "id": "1"}],
        invalid_tool_calls=[known],
        additional_kwargs={"k": 1},
    )
    assert [call["name"] for call in message.invalid_tool_calls] == ["g", "f"]
    assert message.model_copy(update={"content": "b"}).invalid_tool_calls == message.invalid_tool_calls


def nested(levels: int) -> dict[str, Any]:
    """An object with so many levels."""
    value: dict[str, Any] = {"a": 1}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize(("given", "kept"), [(None, None), (5, "5"), ("", ""), ("c1", "c1")])
def test_the_id_of_a_call_becomes_text(given, kept):
    call = {"name": "look", "args": {}, "id": given}
    form = {"function": {"name": "look", "arguments": "{}"}, "id": given}
    for calls in ([call], [form], [{**call, "type": "tool_call"}]):
        assert AIMessage("", tool_calls=calls).tool_calls == [{**call, "id": kept, "type": "tool_call"}]
        assert AIMessage([], tool_calls=calls).tool_calls == [{**call, "id": kept, "type": "tool_call"}]
    bad = {"name": "look", "args": "{", "id": given, "error": "no", "type": "invalid_tool_call"}
    assert AIMessage("", invalid_tool_calls=[bad]).invalid_tool_calls == [{**bad, "id": kept}]


def test_keys_that_are_left_out():
    assert AIMessage("", tool_calls=[{"name": "look"}]).tool_calls == [
        {"name": "look", "args": {}, "id": None, "type": "tool_call"}
    ]
    kept = [{"name": None, "args": None, "id": None, "error": None, "type": "invalid_tool_call"}]
    assert AIMessage("", invalid_tool_calls=[{}]).invalid_tool_calls == kept
    assert AIMessage([], invalid_tool_calls=[{}]).invalid_tool_calls == kept


def test_a_name_that_is_no_text_becomes_text():
    assert AIMessage("", tool_calls=[{"name": 5, "args": {}, "id": "c"}]).tool_calls[0]["name"] == "5"


@pytest.mark.parametrize("place", ["tool_calls", "invalid_tool_calls"])
@pytest.mark.parametrize("content", ["", []], ids=["text", "blocks"])
def test_what_is_no_list_of_calls_is_refused_where_it_is_given(place: str, content: Any):
    for calls, words in [
        (5, f"{place} is int, not a list of calls"),
        ("look", f"{place} is str, not a list of calls"),
        ({"name": "look"}, f"{place} is dict, not a list of calls"),
        (["look"], rf"{place}\[0\] is str, not a tool call"),
        ([{"name": "look", "id": ["x"]}], rf"{place}\[0\] has the id \['x'\]; an id is text"),
    ]:
        with pytest.raises(UsageError, match=words):
            AIMessage(content, **{place: calls})


def test_arguments_that_are_nested_too_deep_are_invalid():
    """As an object and as text; up to the limit they are arguments like others."""
    words = "the arguments are nested deeper than 90 levels"
    deep, fine = nested(91), nested(90)
    for args in (deep, json.dumps(deep)):
        (bad,) = AIMessage("", tool_calls=[{"name": "look", "args": args, "id": "c"}]).invalid_tool_calls
        assert (bad["error"], bad["args"]) == (words, json.dumps(deep).replace(" ", "") if args is deep else args)
    for args in (fine, json.dumps(fine)):
        assert AIMessage("", tool_calls=[{"name": "look", "args": args, "id": "c"}]).tool_calls[0]["args"] == fine
    (worst,) = AIMessage("", tool_calls=[{"name": "look", "args": nested(20_000), "id": "c"}]).invalid_tool_calls
    assert (worst["error"], worst["args"]) == (words, "")


def test_shared_parts_of_arguments_are_looked_at_once_a_level():
    """A value in which every level holds the next one twice has more paths than anybody could walk."""
    value: Any = [1]
    for _ in range(80):
        value = [value, value]
    assert AIMessage("", tool_calls=[{"name": "look", "args": {"a": value}, "id": "c"}]).invalid_tool_calls == []
    for _ in range(20):
        value = [value, value]
    (bad,) = AIMessage("", tool_calls=[{"name": "look", "args": {"a": value}, "id": "c"}]).invalid_tool_calls
    assert (bad["args"], bad["error"]) == ("", "the arguments are nested deeper than 90 levels")
