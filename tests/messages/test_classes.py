from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from enum import StrEnum
from typing import Any

import msgspec
import pytest
from hypothesis import given

import loopwright.messages
from loopwright.errors import UsageError
from loopwright.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
    with_id,
)
from tests.messages import strategies

ALL: list[tuple[BaseMessage, str]] = [
    (HumanMessage("a"), "human"),
    (AIMessage("a"), "ai"),
    (SystemMessage("a"), "system"),
    (ToolMessage("a", tool_call_id="1"), "tool"),
    (RemoveMessage(id="1"), "remove"),
    (ChatMessage("a", role="critic"), "chat"),
    (FunctionMessage("a", name="f"), "function"),
    (AIMessageChunk("a"), "AIMessageChunk"),
    (HumanMessageChunk("a"), "HumanMessageChunk"),
    (SystemMessageChunk("a"), "SystemMessageChunk"),
    (ToolMessageChunk("a", tool_call_id="1"), "ToolMessageChunk"),
]


class Priority(HumanMessage):
    """A user's subclass with fields of its own."""

    level: int
    labels: list[str] = []


CALLS: list[Any] = [{"name": "f", "args": "{}", "id": "1"}]


class Robot(AIMessage, tag="robot"):
    mood: str = "calm"


# --- making -------------------------------------------------------------------


@pytest.mark.parametrize(("message", "kind"), ALL, ids=[kind for _, kind in ALL])
def test_type_is_the_word_users_know(message: BaseMessage, kind: str) -> None:
    assert message.type == kind
    assert type(message).type == kind


def test_chunks_are_messages() -> None:
    assert isinstance(AIMessageChunk("a"), AIMessage)
    assert isinstance(HumanMessageChunk("a"), HumanMessage)
    assert isinstance(SystemMessageChunk("a"), SystemMessage)
    assert isinstance(ToolMessageChunk("a", tool_call_id="1"), ToolMessage)


def test_content_is_the_first_argument_or_a_keyword() -> None:
    assert HumanMessage("a") == HumanMessage(content="a")
    assert AIMessage("a", id="1") == AIMessage(content="a", id="1")


def test_every_field_has_its_place() -> None:
    message = AIMessage(
        "a",
        id="1",
        name="bob",
        tool_calls=[{"name": "f", "args": {}, "id": "c1"}],
        invalid_tool_calls=[{"name": "g", "args": "{", "id": "c2", "error": "cut", "type": "invalid_tool_call"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        response_metadata={"finish_reason": "stop"},
        additional_kwargs={"k": 1},
    )
    assert message.id == "1"
    assert message.name == "bob"
    assert message.tool_calls == [{"name": "f", "args": {}, "id": "c1", "type": "tool_call"}]
    assert message.invalid_tool_calls[0]["args"] == "{"
    assert message.usage_metadata == {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    assert message.response_metadata == {"finish_reason": "stop"}
    assert message.additional_kwargs == {"k": 1}
    assert message.extra == {}


def test_containers_are_not_shared_between_messages() -> None:
    first, second = HumanMessage("a"), HumanMessage("a")
    assert first.additional_kwargs is not second.additional_kwargs
    assert AIMessageChunk("a").tool_call_chunks is not AIMessageChunk("a").tool_call_chunks


def test_content_blocks_keyword() -> None:
    blocks = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "a"}]
    assert AIMessage(content_blocks=blocks) == AIMessage(content=blocks)
    assert HumanMessage(content_blocks=blocks).content == blocks


def test_calls_among_the_blocks_are_calls() -> None:
    call = {"type": "tool_call", "name": "f", "args": {"q": 1}, "id": "1"}
    message = AIMessage(content_blocks=[{"type": "text", "text": "a"}, call])
    assert message.tool_calls == [call]
    assert message.content_blocks == [{"type": "text", "text": "a"}, call]


def test_calls_kept_aside_in_openais_form_are_calls() -> None:
    raw = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"q": 1}'}}
    message = AIMessage("", additional_kwargs={"tool_calls": [raw]})
    assert message.tool_calls == [{"name": "f", "args": {"q": 1}, "id": "1", "type": "tool_call"}]
    assert AIMessage("", tool_calls=[], additional_kwargs={"tool_calls": [raw]}).tool_calls == []


def test_type_may_be_said_and_must_be_right() -> None:
    assert AIMessage("a", type="ai") == AIMessage("a")
    with pytest.raises(UsageError, match="AIMessage has type 'ai', not 'human'"):
        AIMessage("a", type="human")


def test_unknown_keywords_are_kept() -> None:
    message = HumanMessage("a", priority=3)
    assert message.extra == {"priority": 3}
    assert AIMessage("a", foo=1).extra == {"foo": 1}
    assert ToolMessage("a", tool_call_id="1", foo=1).extra == {"foo": 1}


def test_callers_lists_are_copied() -> None:
    blocks: list[Any] = [{"type": "text", "text": "a"}]
    message = HumanMessage(blocks)
    blocks.append("b")
    assert message.content == [{"type": "text", "text": "a"}]


class Word(StrEnum):
    HI = "hi"


def test_strings_of_other_classes_become_strings() -> None:
    """msgspec, for one, writes nothing else."""
    assert type(HumanMessage(Word.HI).content) is str


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (3, r"HumanMessage content must be a string or a list of blocks, not int: write str\(value\)"),
        (None, "not NoneType"),
        ({"type": "text", "text": "a"}, r"not dict: write \[block\]"),
        ([3], r"HumanMessage content\[0\] is int"),
    ],
)
def test_content_of_another_type_is_an_error(content: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        HumanMessage(content)


def test_an_answer_without_content_is_empty() -> None:
    assert AIMessage(None).content == ""
    assert AIMessage(content=None, id="1") == AIMessage("", id="1")


def test_tool_message_takes_any_result() -> None:
    assert ToolMessage(3, tool_call_id="1").content == "3"
    assert ToolMessage(None, tool_call_id=7).content == "None"  # type: ignore
    assert ToolMessage(None, tool_call_id=7).tool_call_id == "7"  # type: ignore
    assert ToolMessage(["a", 3, {"type": "text"}], tool_call_id="1").content == ["a", "3", {"type": "text"}]
    assert ToolMessage(("a",), tool_call_id="1").content == ["a"]


def test_tool_message_says_what_it_lacks() -> None:
    with pytest.raises(UsageError, match=r'write tool_call_id=call\["id"\]'):
        ToolMessage("a")  # type: ignore
    with pytest.raises(UsageError, match='status is "success" or "error", not \'failed\''):
        ToolMessage("a", tool_call_id="1", status="failed")  # type: ignore


def test_messages_that_need_a_word_more_say_so() -> None:
    with pytest.raises(UsageError, match="needs a role"):
        ChatMessage("a")
    with pytest.raises(UsageError, match="needs the name of the function"):
        FunctionMessage("a")
    with pytest.raises(UsageError, match="needs the id"):
        RemoveMessage()  # type: ignore


def test_remove_message_is_its_id() -> None:
    assert RemoveMessage("1") == RemoveMessage(id="1")
    assert RemoveMessage("1").content == ""


# --- not changing -------------------------------------------------------------


@pytest.mark.parametrize("message", [message for message, _ in ALL], ids=[kind for _, kind in ALL])
def test_messages_do_not_change(message: BaseMessage) -> None:
    with pytest.raises(AttributeError, match=r"write message\.model_copy\(update=\{'content': \.\.\.\}\)"):
        message.content = "b"
    with pytest.raises(AttributeError, match="messages do not change"):
        del message.content


def test_a_changed_copy() -> None:
    message = AIMessage("a", id="1", foo=1)
    changed = message.model_copy(update={"content": "b", "tool_calls": [{"name": "f", "args": "{}", "id": "c"}]})
    assert changed == AIMessage("b", id="1", foo=1, tool_calls=[{"name": "f", "args": {}, "id": "c"}])
    assert message == AIMessage("a", id="1", foo=1)
    assert message.model_copy() == message
    assert message.model_copy() is not message
    assert message.model_copy(update={"id": "2"}) == with_id(message, "2")
    assert message.model_copy(update={"id": None}).id is None
    assert message.model_copy(update={"bar": 2}).extra == {"foo": 1, "bar": 2}


def test_a_copy_with_blocks_or_of_another_type() -> None:
    assert HumanMessage("a").model_copy(update={"content_blocks": [{"type": "text", "text": "b"}]}).text == "b"
    with pytest.raises(UsageError, match="HumanMessage has type 'human'"):
        HumanMessage("a").model_copy(update={"type": "ai"})


def test_calls_that_were_taken_out_stay_out() -> None:
    """Also when they are among the blocks: `tool_calls` is the truth."""
    message = AIMessage(content_blocks=[{"type": "tool_call", "name": "f", "args": {}, "id": "1"}])
    changed = message.model_copy(update={"tool_calls": []})
    assert changed.tool_calls == []
    assert changed.content_blocks == []


def test_deep_copies_share_nothing() -> None:
    message = AIMessage("", tool_calls=[{"name": "f", "args": {"a": [1]}, "id": "1"}])
    deep = message.model_copy(deep=True)
    assert deep == message
    assert deep.tool_calls[0]["args"] is not message.tool_calls[0]["args"]


@given(strategies.messages)
def test_copies_and_pickles_are_equal(message: BaseMessage) -> None:
    assert pickle.loads(pickle.dumps(message)) == message
    assert copy.copy(message) == message
    assert copy.deepcopy(message) == message
    assert message.model_copy(deep=True) == message


@given(strategies.chunks)
def test_chunks_pickle(chunk: AIMessageChunk) -> None:
    assert pickle.loads(pickle.dumps(chunk)) == chunk


def test_equality_is_of_class_and_fields() -> None:
    assert HumanMessage("a") == HumanMessage("a")
    assert HumanMessage("a") != AIMessage("a")
    assert HumanMessage("a", id="1") != HumanMessage("a", id="2")
    assert AIMessage("a") != AIMessageChunk("a")


# --- subclasses ---------------------------------------------------------------


def test_users_subclass() -> None:
    message = Priority("a", level=3, other=1)  # type: ignore
    assert message.type == "human"
    assert message.level == 3
    assert message.labels == []
    assert message.extra == {"other": 1}
    assert message.model_copy(update={"level": 4}).level == 4
    assert pickle.loads(pickle.dumps(message)) == message
    assert Robot("a", tool_calls=CALLS).tool_calls[0]["args"] == {}


def test_a_field_that_is_missing_is_an_error() -> None:
    with pytest.raises(TypeError, match="level"):
        Priority("a")  # type: ignore


def test_matching_works() -> None:
    match AIMessage("a", id="1"):
        case AIMessage(content="a", id=id):
            assert id == "1"
        case _:
            pytest.fail("no match")


# --- reading ------------------------------------------------------------------


def test_text_is_the_words() -> None:
    assert HumanMessage("a").text == "a"
    blocks = [
        {"type": "reasoning", "reasoning": "r"},
        "a",
        {"type": "text", "text": "b"},
        {"text": "c"},
        {"type": "output_text", "text": "d"},
        {"type": "image", "url": "u"},
    ]
    assert AIMessage(blocks).text == "abcd"


def test_B99_odd_blocks_are_skipped() -> None:
    message = HumanMessage([{"type": "text", "text": 3}, {"type": "text", "text": "a"}])
    assert message.text == "a"
    assert HumanMessageChunk("a").model_copy(update={"content": ["b"]}).text == "b"


def test_repr_is_short() -> None:
    assert repr(HumanMessage("a")) == "HumanMessage('a')"
    assert repr(ToolMessage("a", tool_call_id="1")) == "ToolMessage('a', tool_call_id='1')"
    assert repr(AIMessage("a", id="1", usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2})) == (
        "AIMessage('a', id='1', usage_metadata={'input_tokens': 1, 'output_tokens': 1, 'total_tokens': 2})"
    )
    assert len(repr(HumanMessage("x" * 10_000))) < 150
    assert "(10002 characters)" in repr(HumanMessage("x" * 10_000))


def test_rich_shows_the_fields() -> None:
    assert HumanMessage("a", id="1").__rich_repr__() == [("content", "a"), ("id", "1")]


# --- the room -----------------------------------------------------------------


def test_all_names_are_there() -> None:
    for name in loopwright.messages.__all__:
        assert getattr(loopwright.messages, name) is not None
        assert name in dir(loopwright.messages)
    with pytest.raises(AttributeError, match="no attribute 'HumanMesage'"):
        loopwright.messages.HumanMesage  # type: ignore  # noqa: B018


def test_importing_brings_no_heavy_library() -> None:
    heavy = "{'pydantic', 'httpx2', 'asyncio'}"
    program = f"import sys, loopwright.messages as m; m.AnyMessage; print(*{heavy} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert out.split() == []


def test_msgspec_reads_and_writes_messages() -> None:
    """As a field of a user's Struct, for example."""
    message = AIMessage("a", tool_calls=[{"name": "f", "args": {}, "id": "1", "more": 1}])
    data = msgspec.json.encode(message)
    assert msgspec.json.decode(data, type=AIMessage | HumanMessage) == message
