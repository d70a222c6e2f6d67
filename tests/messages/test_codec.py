from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import UsageError
from loopwright.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    UnknownMessage,
    decode_messages,
    encode_messages,
    register_message_class,
)
from tests.messages import strategies


@register_message_class
class Parcel(HumanMessage):
    weight: float
    stamps: list[str] = []
    note: str | None = "none"


class Named(AIMessage, tag="named"):
    mood: str = "calm"


def packed(*entries: dict[str, Any]) -> bytes:
    return msgspec.msgpack.encode(list(entries))


def unpacked(messages: list[BaseMessage]) -> list[dict[str, Any]]:
    return msgspec.msgpack.decode(encode_messages(messages))


@given(st.lists(strategies.messages | strategies.chunks, max_size=4))
def test_decoding_gives_what_was_encoded(messages: list[BaseMessage]) -> None:
    decoded = decode_messages(encode_messages(messages))
    assert decoded == messages
    assert [type(message) for message in decoded] == [type(message) for message in messages]


def test_what_is_at_its_default_is_not_stored() -> None:
    assert unpacked([HumanMessage("a", id="1")]) == [{"type": "human", "content": "a", "id": "1"}]


def test_subclasses_are_stored_under_their_own_name() -> None:
    parcel, named = Parcel("a", weight=2.5, stamps=["x"], note=None), Named("b", mood="gay")
    assert [entry["type"] for entry in unpacked([parcel, named])] == [f"human/{__name__}.Parcel", "ai/named"]
    assert decode_messages(encode_messages([parcel, named])) == [parcel, named]


def test_a_class_defined_later_is_read_too() -> None:
    data = packed({"type": "human/later", "content": "a", "size": 3})
    [before] = decode_messages(data)

    class Later(HumanMessage, tag="later"):
        size: int = 0

    assert decode_messages(data) == [Later("a", size=3)]
    assert decode_messages(encode_messages([before])) == [Later("a", size=3)]


def test_two_classes_of_one_tag_are_told_apart() -> None:
    class Twin(HumanMessage, tag="twin"):
        pass

    class Other(HumanMessage, tag="twin"):
        pass

    assert register_message_class(Other) is Other
    with pytest.raises(UsageError, match=r"the tag 'human/twin' belongs to .*Other.*: give one of them tag="):
        register_message_class(Twin)


def test_unknown_fields_survive() -> None:
    data = packed({"type": "human", "content": "a", "zz": [1]}, {"type": "ai", "content": "b"})
    messages = decode_messages(data)
    assert messages == [HumanMessage("a", zz=[1]), AIMessage("b")]
    assert encode_messages(messages) == data


def test_unknown_types_survive() -> None:
    data = packed({"type": "hologram", "content": "a", "depth": 3}, {"type": "human/gone", "content": "b", "size": 1})
    messages = decode_messages(data)
    assert [type(message) for message in messages] == [UnknownMessage, HumanMessage]
    assert [message.content for message in messages] == ["a", "b"]
    assert messages[0].extra == {"type": "hologram", "depth": 3}
    assert encode_messages(messages) == data


def test_an_unknown_message_without_a_type_is_stored() -> None:
    message = UnknownMessage("a")
    assert decode_messages(encode_messages([message])) == [message]


def test_wrong_types_in_stored_bytes_are_read_as_they_are() -> None:
    data = packed({"type": "human", "content": "a", "name": 3, "additional_kwargs": None})
    [message] = decode_messages(data)
    assert (message.content, message.name, message.additional_kwargs) == ("a", 3, {})


def test_B121_data_that_looks_like_an_object_is_data() -> None:
    looks = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"type": "ai", "content": "x"}}
    message = HumanMessage("a", additional_kwargs={"x": looks})
    assert decode_messages(encode_messages([message])) == [message]


@pytest.mark.parametrize(
    "odd", [2**70, -(2**70), "\ud800x", {"k": ["\udfff", 2**64]}], ids=["big", "small", "half", "in"]
)
def test_what_models_write_and_msgpack_does_not_know(odd: Any) -> None:
    message = AIMessage("", tool_calls=[{"name": "f", "args": {"x": odd}, "id": "1"}])
    assert decode_messages(encode_messages([message])) == [message]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ((1,), "tuple"),
        ({1}, "set"),
        (datetime.now(UTC), "datetime"),
        ({1: 2}, "keys that are no strings"),
        (object(), "object"),
    ],
    ids=str,
)
def test_what_cannot_be_stored_is_named(value: Any, shown: str) -> None:
    message = ToolMessage("a", tool_call_id="1", artifact={"deep": [value]})
    with pytest.raises(UsageError, match=rf"messages\[1\]\.artifact\['deep'\]\[0\] is .*{shown}"):
        encode_messages([HumanMessage("a"), message])
    with pytest.raises(UsageError, match=r"messages\[0\]\.extra\.lock is"):
        encode_messages([HumanMessage("a", lock=value)])


def test_values_of_other_classes_may_have_a_form() -> None:
    def default(value: Any) -> Any:
        return msgspec.msgpack.Ext(1, str(value).encode())

    def ext_hook(code: int, data: memoryview) -> Any:
        assert code == 1
        return complex(bytes(data).decode())

    message = ToolMessage("a", tool_call_id="1", artifact=1 + 2j)
    data = encode_messages([message], default=default)
    assert decode_messages(data, ext_hook=ext_hook) == [message]
    [raw] = decode_messages(data)
    assert isinstance(raw, ToolMessage)
    assert raw.artifact == msgspec.msgpack.Ext(1, b"(1+2j)")


class Text(str):
    __slots__ = ()


def test_text_of_another_class_is_stored_as_text() -> None:
    [chunk] = decode_messages(encode_messages([AIMessageChunk(Text("a"))]))
    assert type(chunk.content) is str
    assert chunk == AIMessageChunk("a")
