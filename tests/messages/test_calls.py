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
