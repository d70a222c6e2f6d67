from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import UsageError
from loopwright.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_from_openai_messages,
    convert_to_messages,
    convert_to_openai_messages,
    get_buffer_string,
    message_to_dict,
    messages_from_dict,
    messages_to_dict,
)
from tests.messages import strategies


class Order(HumanMessage, tag="tested-order"):
    items: list[str] = []


# --- in -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        ("hi", [HumanMessage("hi")]),
        (["a", ("ai", "b")], [HumanMessage("a"), AIMessage("b")]),
        (("user", "hi"), [HumanMessage("hi")]),
        (("hi", "there"), [HumanMessage("hi"), HumanMessage("there")]),
        (HumanMessage("hi"), [HumanMessage("hi")]),
        ({"role": "user", "content": "hi"}, [HumanMessage("hi")]),
        ([("system", "a"), ("human", "b"), ("user", "c"), ("assistant", "d")],
         [SystemMessage("a"), HumanMessage("b"), HumanMessage("c"), AIMessage("d")]),
        ([["human", "a"]], [HumanMessage("a")]),
        ((text for text in ["a", "b"]), [HumanMessage("a"), HumanMessage("b")]),
        ([("user", [{"type": "text", "text": "a"}])], [HumanMessage([{"type": "text", "text": "a"}])]),
        ([{"role": "tool", "content": "r", "tool_call_id": "1"}], [ToolMessage("r", tool_call_id="1")]),
        ([{"role": "function", "content": "r", "name": "f"}], [FunctionMessage("r", name="f")]),
        ([{"type": "human", "content": "a", "foo": 1}], [HumanMessage("a", foo=1)]),
        ([{"type": "user", "content": "a"}], [HumanMessage("a")]),
        ([{"role": "remove", "id": "1"}], [RemoveMessage(id="1")]),
        ([{"type": "chat", "role": "critic", "content": "a"}], [ChatMessage("a", role="critic")]),
        ([{"role": "user", "content": "a", "type": "message"}], [HumanMessage("a")]),
        ([{"role": "user", "content_blocks": [{"type": "text", "text": "a"}]}],
         [HumanMessage([{"type": "text", "text": "a"}])]),
        ([{"type": "AIMessageChunk", "content": "a"}], [AIMessageChunk("a")]),
        ([], []),
        (SimpleNamespace(to_messages=lambda: [HumanMessage("a")]), [HumanMessage("a")]),
    ],
)  # fmt: skip
def test_what_callers_use_for_messages(given: Any, messages: list[BaseMessage]) -> None:
    assert convert_to_messages(given) == messages


def test_a_message_is_handed_on_and_a_list_is_not() -> None:
    message, given = HumanMessage("a"), [HumanMessage("b")]
    assert convert_to_messages([message])[0] is message
    assert convert_to_messages(given) is not given


def test_openais_calls_with_json_text() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"q": 1}'}}
    [message] = convert_to_messages(
        [{"role": "assistant", "content": None, "tool_calls": [call], "audio": {"id": "a"}}]
    )
    assert message == AIMessage(
        "", tool_calls=[{"name": "f", "args": {"q": 1}, "id": "1"}], additional_kwargs={"audio": {"id": "a"}}
    )


def test_keys_of_openais_that_are_not_ours_are_kept_aside() -> None:
    [message] = convert_to_messages([{"role": "assistant", "content": "a", "refusal": "no", "name": "bob", "x": None}])
    assert message == AIMessage("a", name="bob", additional_kwargs={"refusal": "no"})


def test_a_developer_message_stays_one() -> None:
    [message] = convert_to_messages([("developer", "d")])
    assert isinstance(message, SystemMessage)
    assert convert_to_openai_messages(message) == {"role": "developer", "content": "d"}


def test_messages_of_other_libraries() -> None:
    class Foreign:
        type = "ai"
        content = "a"

        def model_dump(self) -> dict[str, Any]:
            return {"type": "ai", "content": "a", "id": "1", "example": False, "tool_calls": []}

    assert convert_to_messages([Foreign()]) == [AIMessage("a", id="1", example=False)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([("wizard", "a")], r"messages\[0\]: 'wizard' is not a role or type of a message: use 'user' or 'human'"),
        (["a", {"role": "wizard", "content": "a"}], r"messages\[1\]: 'wizard' is not a role"),
        ([{"type": "wizard", "content": "a"}], "'wizard' is not a role or type"),
        ([{"type": "base", "content": "a"}], "'base' is not a role or type"),
        ([{"role": 3, "content": "a"}], "3 is not a role"),
        ([{"content": "a"}], r"without role or type is no message \(its keys: content\): add role"),
        ([{"role": "user"}], "a message of role 'user' needs content"),
        ([{"role": "user", "content": None}], "not NoneType"),
        ([{"role": "tool", "content": "a"}], r"messages\[0\]: ToolMessage needs the id of the call"),
        ([("tool", "a")], "ToolMessage needs the id of the call"),
        ([("a", "b", "c")], "a tuple of 3 is no message"),
        (42, r"messages\[0\]: int is no message: write a string"),
        ([None], "NoneType is no message"),
        ([SimpleNamespace(type="wizard", content="a", model_dump=dict)], "SimpleNamespace is no message"),
    ],
)
def test_what_is_no_message_is_named(given: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        convert_to_messages(given)


# --- dictionaries -------------------------------------------------------------


@given(st.lists(strategies.messages | strategies.chunks, max_size=3))
def test_dictionaries_and_back(messages: list[BaseMessage]) -> None:
    assert messages_from_dict(messages_to_dict(messages)) == messages


def test_the_form_is_type_and_data() -> None:
    entry = message_to_dict(HumanMessage("a", id="1"))
    assert entry["type"] == "human"
    assert entry["data"]["content"] == "a"
    assert entry["data"]["type"] == "human"


def test_subclasses_come_back_as_what_they_were() -> None:
    order = Order("a", items=["b"])
    assert message_to_dict(order)["type"] == "human/tested-order"
    assert message_to_dict(order)["data"]["type"] == "human"
    assert messages_from_dict(messages_to_dict([order])) == [order]


def test_an_unknown_subclass_is_its_parent_and_is_written_as_it_was() -> None:
    [message] = messages_from_dict([{"type": "human/elsewhere", "data": {"content": "a", "size": 3}}])
    assert type(message) is HumanMessage
    assert message.content == "a"
    assert message.extra == {"size": 3, "type": "human/elsewhere"}
    assert message_to_dict(message)["type"] == "human/elsewhere"


def test_validate() -> None:
    assert HumanMessage.model_validate({"content": "a"}) == HumanMessage("a")
    assert AIMessage.model_validate({"role": "assistant", "content": "a"}) == AIMessage("a")
    assert BaseMessage.model_validate({"type": "ai", "content": "a"}) == AIMessage("a")
    message = AIMessageChunk("a")
    assert AIMessage.model_validate(message) is message
    assert AIMessage.model_validate_json(AIMessage("a", id="1").model_dump_json()) == AIMessage("a", id="1")
    with pytest.raises(UsageError, match="HumanMessage is not a AIMessage"):
        AIMessage.model_validate({"type": "human", "content": "a"})
    with pytest.raises(UsageError, match="str is not a AIMessage"):
        AIMessage.model_validate("a")


# --- text ---------------------------------------------------------------------

TALK = [
    SystemMessage("be nice"),
    HumanMessage(["look:", {"type": "image", "url": "u"}]),
    AIMessage("ok", tool_calls=[{"name": "f", "args": {"q": "é"}, "id": "1"}], additional_kwargs={"refusal": "no"}),
    ToolMessage("r", tool_call_id="1"),
    ChatMessage("hm", role="critic"),
]


def test_a_conversation_as_text() -> None:
    assert get_buffer_string(TALK) == (
        'System: be nice\nHuman: look: [image]\nAI: no ok [calls f({"q":"é"})]\nTool: r\ncritic: hm'
    )
    assert get_buffer_string("hi", human_prefix="You") == "You: hi"


def test_a_conversation_as_xml() -> None:
    assert get_buffer_string([("user", "a < b"), AIMessageChunk("c")], format="xml", message_separator="") == (
        '<message type="human">a &lt; b</message><message type="ai">c</message>'
    )
    with pytest.raises(UsageError, match='"prefix" or "xml"'):
        get_buffer_string("hi", format="html")  # type: ignore


# --- OpenAI's form ------------------------------------------------------------


def test_openais_form() -> None:
    assert convert_to_openai_messages(TALK) == [
        {"role": "system", "content": "be nice"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "look:"}, {"type": "image_url", "image_url": {"url": "u"}}],
        },
        {
            "role": "assistant",
            "content": "ok",
            "refusal": "no",
            "tool_calls": [{"type": "function", "id": "1", "function": {"name": "f", "arguments": '{"q": "é"}'}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "r"},
        {"role": "critic", "content": "hm"},
    ]


def test_one_message_is_one_dictionary() -> None:
    assert convert_to_openai_messages(HumanMessage("a", name="bob", id="1"), include_id=True) == {
        "role": "user",
        "name": "bob",
        "id": "1",
        "content": "a",
    }
    assert convert_to_openai_messages(AIMessageChunk("a")) == {"role": "assistant", "content": "a"}


def test_contents_as_blocks_or_strings() -> None:
    two = HumanMessage(["a", {"type": "text", "text": "b"}, {"type": "reasoning", "reasoning": "r"}, ""])
    assert convert_to_openai_messages(two)["content"] == "a\nb"
    assert convert_to_openai_messages(two, text_format="block")["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    assert convert_to_openai_messages(HumanMessage("a"), text_format="block")["content"] == [
        {"type": "text", "text": "a"}
    ]
    assert convert_to_openai_messages(AIMessage(""), text_format="block")["content"] == []
    with pytest.raises(UsageError, match='text_format is "string" or "block"'):
        convert_to_openai_messages(two, text_format="html")  # type: ignore


def test_calls_that_could_not_be_parsed_are_sent() -> None:
    bad = AIMessage("", tool_calls=[{"name": "f", "args": "{x", "id": "1"}, {"name": None, "args": None, "id": "2"}])
    assert [call["function"] for call in convert_to_openai_messages(bad)["tool_calls"]] == [
        {"name": "", "arguments": "{}"},
        {"name": "f", "arguments": "{x"},
    ]


DATA = "data:image/png;base64,AA=="


@pytest.mark.parametrize(
    ("block", "form"),
    [
        ({"type": "image", "url": "u", "extras": {"detail": "low"}},
         {"type": "image_url", "image_url": {"url": "u", "detail": "low"}}),
        ({"type": "image", "base64": "AA==", "mime_type": "image/png"},
         {"type": "image_url", "image_url": {"url": DATA}}),
        ({"type": "image", "base64": "AA=="}, {"type": "image_url", "image_url": {"url": DATA}}),
        ({"type": "image", "file_id": "f"}, {"type": "file", "file": {"file_id": "f"}}),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
         {"type": "image_url", "image_url": {"url": DATA}}),
        ({"type": "audio", "base64": "AA==", "mime_type": "audio/mpeg"},
         {"type": "input_audio", "input_audio": {"data": "AA==", "format": "mp3"}}),
        ({"type": "audio", "base64": "AA=="},
         {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}),
        ({"type": "audio", "url": "u"}, {"type": "audio", "url": "u"}),
        ({"type": "video", "url": "u"}, {"type": "video_url", "video_url": {"url": "u"}}),
        ({"type": "file", "base64": "AA==", "filename": "a.pdf"},
         {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}}),
        ({"type": "file", "base64": "AA==", "extras": {"filename": "a.pdf"}},
         {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}}),
        ({"type": "file", "url": "u"}, {"type": "file", "file": {"file_url": "u"}}),
        ({"type": "text-plain", "text": "t"}, {"type": "text", "text": "t"}),
        ({"type": "text-plain", "url": "u"}, {"type": "file", "file": {"file_url": "u"}}),
        ({"type": "refusal", "refusal": "no"}, {"type": "refusal", "refusal": "no"}),
        ({"type": "weird", "z": 1}, {"type": "weird", "z": 1}),
    ],
)  # fmt: skip
def test_blocks_in_openais_form(block: dict[str, Any], form: dict[str, Any]) -> None:
    assert convert_to_openai_messages(HumanMessage(["t", block]))["content"] in (
        [{"type": "text", "text": "t"}, form],
        "t\nt",
    )


@pytest.mark.parametrize(("block", "kind"), [({"type": "weird"}, "weird"), ({"type": "audio", "url": "u"}, "audio")])
def test_unknown_blocks_may_be_an_error(block: dict[str, Any], kind: str) -> None:
    with pytest.raises(UsageError, match=f"a block of type '{kind}' has no form"):
        convert_to_openai_messages(HumanMessage([block]), pass_through_unknown_blocks=False)


def test_orders_to_the_history_are_not_sent() -> None:
    with pytest.raises(UsageError, match="'remove' has no role"):
        convert_to_openai_messages([RemoveMessage(id="1")])


def test_openais_form_and_back() -> None:
    talk = [SystemMessage("s"), *TALK[2:4], HumanMessage("a", name="bob")]
    assert convert_from_openai_messages(convert_to_openai_messages(talk)) == talk
