"""Messages as fields of users' pydantic models, and as plain containers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from hypothesis import given
from pydantic import BaseModel, TypeAdapter, ValidationError

from loopwright.errors import UsageError
from loopwright.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    ContentBlock,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UsageMetadata,
    add_usage,
)
from tests.messages import strategies


class Labelled(HumanMessage):
    label: str = ""


class State(BaseModel):
    messages: list[AnyMessage]
    last: AIMessage | None = None


ANSWER = AIMessage(
    "a",
    id="1",
    tool_calls=[{"name": "f", "args": {"q": 1}, "id": "c"}],
    usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
)


# --- pydantic -----------------------------------------------------------------


def test_messages_are_kept_and_dictionaries_become_messages() -> None:
    state = State(messages=[ANSWER, {"type": "human", "content": "h"}, {"role": "user", "content": "u"}], last=ANSWER)  # type: ignore
    assert state.messages[0] is ANSWER
    assert state.messages[1:] == [HumanMessage("h"), HumanMessage("u")]
    assert state.last is ANSWER


def test_json_and_back() -> None:
    talk: list[Any] = [
        SystemMessage("s"),
        ANSWER,
        ToolMessage("r", tool_call_id="c"),
        AIMessageChunk("x"),
        HumanMessage("h", foo=1),
    ]
    state = State(messages=talk)
    read = State.model_validate_json(state.model_dump_json())
    assert read.messages[:4] == talk[:4]
    assert read.messages[4].extra == {"foo": 1}
    assert State.model_validate(state.model_dump()).messages == read.messages


def test_dumps_are_plain() -> None:
    dumped = State(messages=[HumanMessage("h")], last=ANSWER).model_dump(exclude_none=True)
    assert dumped["messages"][0] == {
        "content": "h",
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "human",
    }
    assert dumped["last"]["tool_calls"] == ANSWER.tool_calls
    assert dumped["last"]["tool_calls"] is not ANSWER.tool_calls
    assert State(messages=[HumanMessage("h")]).model_dump(exclude_defaults=True) == {
        "messages": [{"content": "h", "type": "human"}]
    }


def test_users_subclass_in_a_field() -> None:
    class Box(BaseModel):
        message: HumanMessage

    box = Box(message=Labelled("a", label="x"))
    assert type(box.message) is Labelled
    assert box.model_dump()["message"]["label"] == "x"


@pytest.mark.parametrize(
    "value", [3, "text", {"type": "human", "content": 3}, {"content": "a"}, {"type": "x", "content": ""}]
)
def test_what_is_no_message_is_a_validation_error(value: Any) -> None:
    with pytest.raises(ValidationError):
        State(messages=[value])


def test_another_class_is_a_validation_error() -> None:
    with pytest.raises(ValidationError, match="HumanMessage is not a AIMessage"):
        State(messages=[], last=HumanMessage("h"))  # type: ignore


@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_json_schema(mode: Literal["validation", "serialization"]) -> None:
    schema = State.model_json_schema(mode=mode)
    definitions = schema["$defs"]
    kinds = {choice["$ref"].rpartition("/")[2] for choice in schema["properties"]["messages"]["items"]["anyOf"]}
    assert {"AIMessage", "HumanMessage", "SystemMessage", "ToolMessage", "AIMessageChunk"} <= kinds
    assert kinds <= set(definitions)
    answer = definitions["AIMessage"]
    assert answer["properties"]["type"]["const"] == "ai"
    assert answer["properties"]["tool_calls"]["items"] == {"$ref": "#/$defs/ToolCall"}
    assert definitions["ToolCall"]["required"] == ["name", "args", "id"]
    assert {"UsageMetadata", "InputTokenDetails", "InvalidToolCall"} <= set(definitions)
    assert "tool_call_id" in definitions["ToolMessage"]["required"]
    references = {part.partition('"')[0] for part in json.dumps(schema).split('"#/$defs/')[1:]}
    assert references <= set(definitions)


def test_json_schema_of_a_users_subclass() -> None:
    class Box(BaseModel):
        message: Labelled

    definition = Box.model_json_schema()["properties"]["message"]
    assert definition["title"] == "Labelled"
    assert set(definition["properties"]) >= {"content", "label", "type"}


def test_every_class_is_a_field() -> None:
    assert TypeAdapter(list[BaseMessage]).validate_python([{"type": "ai", "content": "a"}]) == [AIMessage("a")]
    assert TypeAdapter(AIMessageChunk).validate_python({"content": "a"}) == AIMessageChunk("a")


def test_blocks_and_calls_are_fields() -> None:
    """Also on Python 3.11, where pydantic asks for TypedDicts of `typing_extensions`."""
    assert TypeAdapter(ToolCall).validate_python(ANSWER.tool_calls[0]) == ANSWER.tool_calls[0]
    assert TypeAdapter(UsageMetadata).validate_python(ANSWER.usage_metadata) == ANSWER.usage_metadata
    assert TypeAdapter(ContentBlock).validate_python({"type": "text", "text": "a"}) == {"type": "text", "text": "a"}


def test_values_put_there_without_validation_are_written() -> None:
    state = State.model_construct(messages=["odd"])
    assert state.model_dump(warnings=False)["messages"] == ["odd"]


# --- plain containers ---------------------------------------------------------


@given(strategies.messages)
def test_a_dump_is_read_again(message: BaseMessage) -> None:
    assert type(message).model_validate(message.model_dump()) == message
    assert type(message).model_validate_json(message.model_dump_json()) == message


@given(strategies.chunks)
def test_the_dump_of_a_chunk_is_read_again(chunk: AIMessageChunk) -> None:
    assert AIMessageChunk.model_validate(chunk.model_dump()) == chunk


def test_a_dump_has_all_fields() -> None:
    assert HumanMessage("a", id="1", foo=2).model_dump() == {
        "content": "a",
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "human",
        "name": None,
        "id": "1",
        "foo": 2,
    }


def test_what_a_dump_leaves_out() -> None:
    message = HumanMessage("a", id="1")
    assert message.model_dump(include={"content", "type"}) == {"content": "a", "type": "human"}
    assert message.model_dump(exclude={"additional_kwargs", "response_metadata"}, exclude_none=True) == {
        "content": "a",
        "type": "human",
        "id": "1",
    }
    assert message.model_dump(exclude_defaults=True, by_alias=True) == {"content": "a", "type": "human", "id": "1"}
    with pytest.raises(UsageError, match='"python" or "json"'):
        message.model_dump(mode="xml")


def test_a_dump_shares_no_container() -> None:
    args = {"a": [1]}
    message = AIMessage("", tool_calls=[{"name": "f", "args": args, "id": "1"}])
    message.model_dump()["tool_calls"][0]["args"]["a"].append(2)
    assert args == {"a": [1]}


class Point(BaseModel):
    x: int


class Text(str):
    __slots__ = ()


def test_json_of_what_json_does_not_know() -> None:
    artifact = [Point(x=1), datetime(2026, 1, 2, tzinfo=UTC), {1}, (2,), Text("t"), 1j, {3: "\ud800é"}, 2**70]
    message = ToolMessage("a", tool_call_id="1", artifact=artifact)
    expected = [{"x": 1}, "2026-01-02T00:00:00Z", [1], [2], "t", "1j", {"3": "\ufffdé"}, 2**70]
    assert message.model_dump(mode="json")["artifact"] == expected
    assert json.loads(message.model_dump_json(mode="python"))["artifact"] == expected
    assert message.model_dump()["artifact"][0] is artifact[0]
    assert message.model_dump_json(indent=1, include={"content"}) == '{\n "content": "a"\n}'


# --- for people ---------------------------------------------------------------


def test_pretty(capsys: pytest.CaptureFixture[str]) -> None:
    message = AIMessage("Let me see.", name="bob", tool_calls=[{"name": "f", "args": {"q": "x"}, "id": "c1"}])
    message.pretty_print()
    assert capsys.readouterr().out == (
        "================================== Ai Message ==================================\n"
        "Name: bob\n\nLet me see.\nTool Calls:\n  f (c1)\n Call ID: c1\n  Args:\n    q: x\n"
    )
    assert HumanMessage("hi").pretty_repr() == (
        "================================ Human Message =================================\n\nhi"
    )
    assert "\033[1mHuman Message\033[0m" in HumanMessage("hi").pretty_repr(html=True)


def test_pretty_shows_what_went_wrong_and_what_else_there_is() -> None:
    bad = AIMessage("", tool_calls=[{"name": "f", "args": "[]", "id": "1"}]).pretty_repr()
    assert "Invalid Tool Calls:\n  f (1)\n Call ID: 1\n  Error: the arguments must be" in bad
    mixed = HumanMessage(
        [
            "look",
            {"type": "image", "base64": "A" * 9000, "mime_type": "image/png"},
            {"type": "reasoning", "reasoning": "r"},
        ]
    )
    assert mixed.pretty_repr().endswith("\n\nlook\n[image image/png, 9,000 characters]\n[reasoning] r")
    assert (
        HumanMessage([{"type": "weird", "z": 1}, {"type": "image", "url": "u"}])
        .pretty_repr()
        .endswith("\n\n{'type': 'weird', 'z': 1}\n[image u]")
    )


# --- usage --------------------------------------------------------------------


def test_usage_adds_up() -> None:
    left: Any = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "input_token_details": {"cache_read": 1}}
    right: Any = {
        "input_tokens": 1,
        "output_tokens": 1,
        "input_token_details": {"cache_read": 1, "audio": None, "x": 1},
    }
    before = json.dumps([left, right])
    assert add_usage(left, right) == {
        "input_tokens": 2,
        "output_tokens": 3,
        "total_tokens": 5,
        "input_token_details": {"cache_read": 2, "audio": None, "x": 1},
    }
    assert json.dumps([left, right]) == before
    assert add_usage(None, left) is left
    assert add_usage(left, None) is left
    assert add_usage(None, None) is None
    odd: Any = {"input_tokens": 1, "output_tokens": None, "total_tokens": 1, "tier": "a"}
    assert add_usage(left, odd) == {**left, "input_tokens": 2, "total_tokens": 4, "tier": "a"}
    other: Any = {**odd, "tier": "b"}
    assert add_usage(odd, other) == {**odd, "input_tokens": 2, "total_tokens": 2, "tier": "b"}
