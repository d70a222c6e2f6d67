from __future__ import annotations

import json
from typing import Any, TypedDict

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel, Field

from loopwright.errors import UsageError
from loopwright.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from loopwright.models.openai_chat.dialect import Dialect
from loopwright.models.openai_chat.request import (
    response_format,
    strict_schema,
    wire_messages,
    wire_tool_choice,
    wire_tools,
)
from loopwright.models.providers import PROVIDERS
from loopwright.models.wire_json import dumps, loads

PLAIN = Dialect()


def wire(*messages: BaseMessage, dialect: Dialect = PLAIN, provider: str = "acme") -> list[dict[str, Any]]:
    return wire_messages(messages, dialect, provider)


def content(*blocks: Any, dialect: Dialect = PLAIN) -> Any:
    return wire(HumanMessage(list(blocks)), dialect=dialect)[0]["content"]


# -- who says it ----------------------------------------------------------------------------------------------------


def test_every_kind_of_message():
    conversation = [
        SystemMessage("Be brief."),
        SystemMessage("Be kind.", additional_kwargs={"__openai_role__": "developer"}),
        HumanMessage("hi", name="Ann"),
        AIMessage("hello"),
        ChatMessage("notes", role="critic"),
        FunctionMessage("42", name="f"),
    ]
    assert wire(*conversation) == snapshot(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": "hi", "name": "Ann"},
            {"role": "assistant", "content": "hello"},
            {"role": "critic", "content": "notes"},
            {"role": "function", "name": "f", "content": "42"},
        ]
    )


def test_an_order_to_the_history_is_no_message():
    with pytest.raises(UsageError, match="RemoveMessage cannot be sent"):
        wire(RemoveMessage(id="1"))


def test_names_are_sent_as_providers_take_them():
    assert wire(HumanMessage("x", name="Ann Lee <a|b/c\\d>"))[0]["name"] == "Ann_Lee__a_b_c_d_"
    assert len(wire(AIMessage("x", name="n" * 99))[0]["name"]) == 64
    assert "name" not in wire(HumanMessage("x", name="Ann"), dialect=Dialect(names=False))[0]


# -- calls and results ----------------------------------------------------------------------------------------------


def test_a_call_and_its_result():
    call = {"name": "f", "args": {"q": "é"}, "id": "c1"}
    assert wire(AIMessage("", tool_calls=[call]), ToolMessage("42", tool_call_id="c1")) == snapshot(
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"q":"é"}'}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
        ]
    )


def test_empty_content():
    """Null beside calls, the empty string without; some servers refuse null."""
    calling = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c1"}])
    assert wire(calling)[0]["content"] is None
    assert wire(calling, dialect=Dialect(null_content=False))[0]["content"] == ""
    assert wire(AIMessage(""))[0]["content"] == ""
    assert wire(AIMessage([]))[0]["content"] == ""
    assert wire(HumanMessage(""))[0]["content"] == ""
    assert wire(HumanMessage([]))[0]["content"] == ""
    assert wire(AIMessage("so", tool_calls=[{"name": "f", "args": {}, "id": "c1"}]))[0]["content"] == "so"


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("get_weather", "get_weather"),
        ("a-b", "a-b"),
        ("2nd", "2nd"),
        ("invalid tool", "invalid_tool"),
        ("", "unnamed"),
        (None, "unnamed"),
        ("größe", "gr__e"),
        ("n" * 70, "n" * 64),
        ("a.b", "a_b"),
    ],
)
def test_B04_a_name_that_the_model_made_up_does_not_spoil_the_history(name: Any, sent: str):
    message = AIMessage("", tool_calls=[{"name": name, "args": {}, "id": "c1"}])
    assert wire(message)[0]["tool_calls"][0]["function"]["name"] == sent


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        ('{"q": ', {"invalid_arguments": '{"q": '}),
        ("[1]", {"invalid_arguments": "[1]"}),
        (None, {"invalid_arguments": ""}),
        ('{"q": 1}', {"q": 1}),
    ],
)
def test_invalid_calls_stay_in_the_history_with_their_result(raw: Any, sent: Any):
    """Servers that parse the history want an object."""
    bad = {"name": "f", "args": raw, "id": "c1", "error": "no", "type": "invalid_tool_call"}
    good = {"name": "g", "args": {"a": 1}, "id": "c2"}
    message = AIMessage("", tool_calls=[good], invalid_tool_calls=[bad])
    sent_calls = wire(message, ToolMessage("no", tool_call_id="c1"), ToolMessage("1", tool_call_id="c2"))[0][
        "tool_calls"
    ]
    assert [call["id"] for call in sent_calls] == ["c2", "c1"]
    assert json.loads(sent_calls[1]["function"]["arguments"]) == sent


def test_invalid_calls_that_nobody_answered_are_left_out():
    bad = {"name": "f", "args": "x", "id": "c1", "error": "no", "type": "invalid_tool_call"}
    assert wire(AIMessage("hm", invalid_tool_calls=[bad]), HumanMessage("go on"))[0] == {
        "role": "assistant",
        "content": "hm",
    }


def test_results_are_text_and_what_is_not_follows_after_them():
    """A tool message between two results would part them from their calls."""
    first = ToolMessage([{"type": "text", "text": "a"}, "b"], tool_call_id="c1")
    image = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    second = ToolMessage([image], tool_call_id="c2", name="look")
    assert wire(first, second, ToolMessage("c", tool_call_id="c3"), HumanMessage("so?")) == snapshot(
        [
            {"role": "tool", "tool_call_id": "c1", "content": "a\nb"},
            {"role": "tool", "tool_call_id": "c2", "content": "(the result follows in the next message)"},
            {"role": "tool", "tool_call_id": "c3", "content": "c"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Belongs to the result of look:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                ],
            },
            {"role": "user", "content": "so?"},
        ]
    )
    assert wire(second)[-1]["role"] == "user"


def test_ids_for_a_provider_that_takes_only_short_ones():
    long_id = {"name": "f", "args": {}, "id": "call_abcdefghijklmnop"}
    short_id = {"name": "f", "args": {}, "id": "abcdefgh1"}
    sent = wire(
        AIMessage("", tool_calls=[long_id, short_id]),
        ToolMessage("1", tool_call_id="call_abcdefghijklmnop"),
        ToolMessage("2", tool_call_id="abcdefgh1"),
        dialect=PROVIDERS["mistral"].dialect,
    )
    ids = [call["id"] for call in sent[0]["tool_calls"]]
    assert ids == [sent[1]["tool_call_id"], sent[2]["tool_call_id"]]
    assert ids[1] == "abcdefgh1"
    assert len(ids[0]) == 9
    assert ids[0].isalnum()


def test_the_signature_of_a_call_goes_back():
    call = {"name": "f", "args": {}, "id": "c1", "extra_content": {"google": {"thought_signature": "s"}}}
    assert wire(AIMessage("", tool_calls=[call]))[0]["tool_calls"][0]["extra_content"] == call["extra_content"]


def test_marks_to_go_on_from_an_answer():
    assert wire(AIMessage("Once", additional_kwargs={"prefix": True}))[0]["prefix"] is True
    assert wire(AIMessage("Once", additional_kwargs={"partial": True}))[0]["partial"] is True


# -- reasoning ------------------------------------------------------------------------------------------------------


def thought(provider: str = "acme", *, calls: bool = True, **fields: Any) -> AIMessage:
    return AIMessage(
        [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "so"}],
        tool_calls=[{"name": "f", "args": {}, "id": "c1"}] if calls else [],
        response_metadata={"provider": provider},
        **fields,
    )


@pytest.mark.parametrize("name", ["deepseek", "moonshot"])
def test_deepseek_and_kimi_want_reasoning_back_with_calls_and_only_then(name: str):
    """Without it they answer 400, also where there was none to begin with."""
    dialect = PROVIDERS[name].dialect
    assert wire(thought(name), dialect=dialect, provider=name)[0]["reasoning_content"] == "hm"
    assert "reasoning_content" not in wire(thought(name, calls=False), dialect=dialect, provider=name)[0]
    foreign = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c1"}])
    assert wire(foreign, dialect=dialect, provider=name)[0]["reasoning_content"] == ""
    assert wire(thought("openai"), dialect=dialect, provider=name)[0]["reasoning_content"] == ""


def test_glm_gets_all_its_reasoning_back():
    dialect = PROVIDERS["zhipu"].dialect
    assert wire(thought("zhipu", calls=False), dialect=dialect, provider="zhipu")[0]["reasoning_content"] == "hm"


def test_mistral_gets_its_thoughts_back_as_parts():
    message = AIMessage(
        [{"type": "reasoning", "reasoning": "hm", "extras": {"signature": "s"}}, {"type": "text", "text": "so"}],
        response_metadata={"provider": "mistral"},
    )
    assert wire(message, dialect=PROVIDERS["mistral"].dialect, provider="mistral")[0]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "signature": "s"},
        {"type": "text", "text": "so"},
    ]
    plain = thought("mistral", calls=False).model_copy(update={"content": [{"type": "reasoning", "reasoning": "hm"}]})
    assert wire(plain, dialect=PROVIDERS["mistral"].dialect, provider="mistral")[0]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    ]


@pytest.mark.shows("openai-compatible", "reasoning")
def test_openrouter_gets_its_details_back_unchanged_else_the_words():
    details = [{"type": "reasoning.text", "text": "hm", "signature": "s"}]
    dialect = PROVIDERS["openrouter"].dialect
    message = thought("openrouter", additional_kwargs={"reasoning_details": details})
    [sent] = wire(message, dialect=dialect, provider="openrouter")
    assert (sent["reasoning_details"], "reasoning" in sent) == (details, False)
    assert wire(thought("openrouter"), dialect=dialect, provider="openrouter")[0]["reasoning"] == "hm"


def test_an_unknown_server_gets_back_what_only_it_understands():
    details = [{"type": "reasoning.encrypted", "data": "xyz"}]
    message = AIMessage("so", additional_kwargs={"reasoning_details": details}, response_metadata={"provider": "acme"})
    assert wire(message)[0]["reasoning_details"] == details
    assert "reasoning_details" not in wire(message, provider="openai")[0]


def test_reasoning_goes_to_nobody_else():
    [sent] = wire(thought("deepseek"), provider="openai")
    assert sent == {
        "role": "assistant",
        "content": "so",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }


def test_a_refusal_goes_back_as_words():
    assert wire(AIMessage([{"type": "refusal", "refusal": "I can't."}]))[0]["content"] == "I can't."


def test_sound_that_the_model_made_goes_back_by_its_id():
    message = AIMessage([{"type": "audio", "id": "a1", "base64": "UklG"}], response_metadata={"provider": "openai"})
    [sent] = wire(message, provider="openai")
    assert (sent["audio"], sent["content"]) == ({"id": "a1"}, None)
    assert "audio" not in wire(message, provider="groq")[0]


# -- content --------------------------------------------------------------------------------------------------------


@pytest.mark.shows("openai-compatible", "prompt cache marks")
def test_text_is_sent_as_text():
    text = {"type": "text", "text": "a"}
    assert content(text) == "a"
    assert content("a") == "a"
    assert content(text, "b") == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert content(text, "b", dialect=Dialect(text_parts=False)) == "a\nb"
    assert wire(AIMessage([text, {"type": "text", "text": "b"}]))[0]["content"] == "ab"
    marked = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    assert content(marked) == [marked]


PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
WEB = {"type": "image_url", "image_url": {"url": "https://i.test/x.png"}}


@pytest.mark.shows("openai-compatible", "video in")
@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "image", "base64": "AAAA", "mime_type": "image/png"}, PNG),
        ({"type": "image", "url": "https://i.test/x.png"}, WEB),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}, PNG),
        ({"type": "image", "source": {"type": "url", "url": "https://i.test/x.png"}}, WEB),
        ({"type": "image", "source_type": "base64", "data": "AAAA", "mime_type": "image/png"}, PNG),
        ({"type": "image", "source_type": "url", "url": "https://i.test/x.png"}, WEB),
        ({"type": "image_url", "image_url": "https://i.test/x.png"}, WEB),
        (WEB, WEB),
        (
            {"type": "image", "url": "https://i.test/x.png", "extras": {"detail": "low"}},
            {"type": "image_url", "image_url": {"url": "https://i.test/x.png", "detail": "low"}},
        ),
        (
            {"type": "image", "base64": "AAAA"},
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AAAA"}},
        ),
        (
            {"type": "audio", "base64": "UklG", "mime_type": "audio/mpeg"},
            {"type": "input_audio", "input_audio": {"data": "UklG", "format": "mp3"}},
        ),
        (
            {"type": "audio", "base64": "UklG"},
            {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
        ),
        (
            {"type": "audio", "base64": "UklG", "mime_type": "audio/flac"},
            {"type": "input_audio", "input_audio": {"data": "UklG", "format": "flac"}},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
            {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
        ),
        (
            {"type": "video", "url": "https://v.test/x.mp4"},
            {"type": "video_url", "video_url": {"url": "https://v.test/x.mp4"}},
        ),
        (
            {"type": "file", "base64": "JVBE", "mime_type": "application/pdf", "filename": "a.pdf"},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
        ),
        (
            {"type": "file", "base64": "JVBE", "mime_type": "application/pdf", "extras": {"filename": "a.pdf"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
        ),
        (
            {"type": "file", "base64": "JVBE"},
            {"type": "file", "file": {"filename": "file.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
        ),
        (
            {"type": "file", "url": "https://f.test/a.pdf", "mime_type": "application/x"},
            {"type": "file", "file": {"filename": "file.bin", "file_data": "https://f.test/a.pdf"}},
        ),
        ({"type": "file", "file_id": "f-1"}, {"type": "file", "file": {"file_id": "f-1"}}),
        ({"type": "file", "source_type": "id", "id": "f-1"}, {"type": "file", "file": {"file_id": "f-1"}}),
        (
            {"type": "text-plain", "base64": "YQ==", "mime_type": "text/plain", "title": "a.txt"},
            {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,YQ=="}},
        ),
        ({"type": "non_standard", "value": {"type": "weird", "z": 1}}, {"type": "weird", "z": 1}),
        ({"type": "weird", "z": 1}, {"type": "weird", "z": 1}),
    ],
)
def test_blocks_become_parts(block: dict[str, Any], part: dict[str, Any]):
    assert content(block) == [part]


def test_a_plain_document_is_text():
    assert content({"type": "text-plain", "text": "a"}) == "a"


def test_files_by_address_for_mistral():
    sent = content({"type": "file", "url": "https://f.test/a.pdf"}, dialect=PROVIDERS["mistral"].dialect)
    assert sent == [{"type": "document_url", "document_url": "https://f.test/a.pdf"}]


def test_what_belongs_to_the_models_own_turn_is_left_out():
    assert content({"type": "reasoning", "reasoning": "hm"}, {"type": "tool_call", "name": "f"}, "a") == "a"


def test_B99_odd_blocks_are_skipped_and_the_good_ones_sent():
    sent = content(
        {"type": "text", "text": 7}, {"type": "text", "text": "a"}, WEB, {"type": "non_standard", "value": 1}
    )
    assert sent == [{"type": "text", "text": "a"}, WEB]


def test_blocks_that_cannot_be_sent_say_what_is_missing():
    with pytest.raises(UsageError, match='needs "url", "base64"'):
        content({"type": "image", "data": "AAAA"})
    with pytest.raises(UsageError, match="sound as data"):
        content({"type": "audio", "url": "https://a.test/x.wav"})


def test_nothing_of_the_callers_is_changed():
    call = {"name": "f", "args": {"q": 1}, "id": "call_1"}
    messages = [
        HumanMessage([{"type": "text", "text": "a"}, WEB]),
        AIMessage("", tool_calls=[call]),
        ToolMessage([{"type": "image", "url": "https://i.test"}], tool_call_id="call_1"),
    ]
    before = [message.model_dump() for message in messages]
    wire(*messages, dialect=PROVIDERS["mistral"].dialect)
    assert [message.model_dump() for message in messages] == before


# -- characters -----------------------------------------------------------------------------------------------------


def test_text_is_sent_as_it_is_read():
    assert dumps({"é": "天气😀\u2028"}) == '{"é":"天气😀\u2028"}'.encode()


def test_half_characters_do_not_break_a_request():
    assert (
        dumps({"a\udc00": ["x\ud83d", ("\ud83d\ude00", 1)], "b": "é"})
        == '{"a\ufffd":["x\ufffd",["😀",1]],"b":"é"}'.encode()
    )


def test_what_has_no_json_form_is_written_as_text():
    assert dumps({"a": complex(1, 2)}) == b'{"a":"(1+2j)"}'


def test_json_that_is_not_quite_json():
    assert loads(b'{"a": NaN}')["a"] != loads(b'{"a": NaN}')["a"]
    assert loads('"\\ud83d"') == "\ud83d"
    with pytest.raises(ValueError):
        loads(b"{")


# -- tools ----------------------------------------------------------------------------------------------------------


def tool(name: str = "f", **function: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"q": {"type": "string", "default": "x"}}}
    return {"type": "function", "function": {"name": name, "parameters": parameters, **function}}


def test_tools_are_sent_as_they_are():
    given = [tool(), {"type": "web_search"}]
    sent = wire_tools(given, PLAIN, strict=None)
    assert sent == given
    assert sent[0] is not given[0]


def test_strict_tools():
    given = [tool(), tool("g", strict=False)]
    [first, second] = wire_tools(given, PLAIN, strict=True)
    assert first["function"]["strict"] is True
    assert first["function"]["parameters"] == {
        "type": "object",
        "properties": {"q": {"type": "string"}},
        "required": ["q"],
        "additionalProperties": False,
    }
    assert second["function"]["strict"] is True
    assert given[0] == tool()
    assert wire_tools([tool("g", strict=False)], PLAIN, strict=None)[0]["function"]["strict"] is False
    bare = {"type": "function", "function": {"name": "f"}}
    assert wire_tools([bare], PLAIN, strict=True)[0]["function"]["parameters"]["properties"] == {}


def test_strict_is_not_sent_to_those_who_do_not_know_it():
    [sent] = wire_tools([tool(strict=True)], Dialect(strict=False), strict=None)
    assert sent == tool()


@pytest.mark.parametrize(
    ("choice", "dialect", "word"),
    [
        (None, PLAIN, None),
        (False, PLAIN, None),
        ("auto", PLAIN, "auto"),
        ("none", PLAIN, "none"),
        ("any", PLAIN, "required"),
        ("required", PLAIN, "required"),
        (True, PLAIN, "required"),
        ("any", PROVIDERS["mistral"].dialect, "any"),
        ("any", PROVIDERS["zhipu"].dialect, "auto"),
        ("f", PLAIN, {"type": "function", "function": {"name": "f"}}),
        ({"type": "allowed_tools"}, PLAIN, {"type": "allowed_tools"}),
    ],
)
def test_the_choice_of_a_tool(choice: Any, dialect: Dialect, word: Any):
    assert wire_tool_choice(choice, [tool(), {"type": "web_search"}], dialect) == word


def test_a_choice_that_is_no_tool():
    with pytest.raises(UsageError, match="tool_choice='g' names no tool of this call: take one of 'f', \"auto\""):
        wire_tool_choice("g", [tool()], PLAIN)
    with pytest.raises(UsageError, match="no tools given"):
        wire_tool_choice("g", [], PLAIN)


# -- structured output ----------------------------------------------------------------------------------------------


class City(BaseModel):
    """A town."""

    name: str
    size: int | None = None
    tags: list[str] = Field(default_factory=list)


class Free(BaseModel):
    any_keys: dict[str, int]


class Answer(TypedDict):
    city: str


def test_a_class_becomes_a_strict_schema():
    assert response_format(City, PLAIN, "acme") == snapshot(
        {
            "type": "json_schema",
            "json_schema": {
                "name": "City",
                "schema": {
                    "properties": {
                        "name": {"type": "string"},
                        "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                        "tags": {"items": {"type": "string"}, "type": "array"},
                    },
                    "required": ["name", "size", "tags"],
                    "type": "object",
                    "additionalProperties": False,
                },
                "description": "A town.",
                "strict": True,
            },
        }
    )
    assert response_format(Answer, PLAIN, "acme")["json_schema"]["schema"]["required"] == ["city"]


def test_what_strict_mode_cannot_express_is_sent_without_it():
    sent = response_format(Free, PLAIN, "acme")["json_schema"]
    assert "strict" not in sent
    with pytest.raises(UsageError, match="any_keys takes any key"):
        response_format(Free, PLAIN, "acme", strict=True)
    assert "strict" not in response_format(City, PLAIN, "acme", strict=False)["json_schema"]
    assert "strict" not in response_format(City, Dialect(strict=False), "acme")["json_schema"]


def test_the_providers_own_dictionary():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    given = {"type": "json_schema", "json_schema": {"name": "My answer", "schema": schema}}
    sent = response_format(given, PLAIN, "acme")["json_schema"]
    assert (sent["name"], sent["strict"], sent["schema"]["required"]) == ("My_answer", True, ["a"])
    loose = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": False}}
    assert response_format(loose, PLAIN, "acme")["json_schema"]["schema"] == schema
    assert response_format({"type": "json_object"}, PLAIN, "acme") == {"type": "json_object"}
    assert response_format({"title": "T", **schema}, PLAIN, "acme")["json_schema"]["name"] == "T"
    assert schema == {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_a_provider_without_schemas():
    with pytest.raises(UsageError, match="deepseek holds no model to a JSON schema: take with_structured_output"):
        response_format(City, PROVIDERS["deepseek"].dialect, "deepseek")
    assert response_format({"type": "json_object"}, PROVIDERS["deepseek"].dialect, "deepseek") == {
        "type": "json_object"
    }


def test_strict_schemas_all_the_way_down():
    schema = {
        "type": "object",
        "properties": {
            "one": {"oneOf": [{"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}]},
            "all": {"allOf": [{"$ref": "#/$defs/B"}], "description": "d"},
            "const": {"const": {"default": 1}},
        },
        "$defs": {"B": {"type": "object", "properties": {"default": {"type": "integer"}}}},
    }
    made = strict_schema(schema)
    assert made["required"] == ["one", "all", "const"]
    assert made["properties"]["one"] == {
        "anyOf": [
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "additionalProperties": False,
                "required": ["a"],
            }
        ]
    }
    assert made["properties"]["all"] == {"$ref": "#/$defs/B", "description": "d"}
    assert made["properties"]["const"] == {"const": {"default": 1}}
    assert made["$defs"]["B"]["required"] == ["default"]
    assert strict_schema({}) == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    with pytest.raises(UsageError, match="inner is an object without fields"):
        strict_schema({"type": "object", "properties": {"inner": {"type": "object"}}})
