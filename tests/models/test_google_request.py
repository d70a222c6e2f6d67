"""Messages, tools and schemas in Gemini's form."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
from loopwright.models.google.request import wire_contents
from loopwright.models.google.schemas import gemini_schema, response_config
from loopwright.models.google.tools import wire_tool_config, wire_tools
from loopwright.models.google.wire import MADE, sealed_call

HI = HumanMessage("hi")


def contents_of(*messages: BaseMessage, signed: bool = False) -> list[dict[str, Any]]:
    return wire_contents(messages, "google", signed_calls=signed)[1]


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def parts_of(*blocks: Any) -> list[dict[str, Any]]:
    return contents_of(HumanMessage(list(blocks)))[0]["parts"]


# -- who speaks -----------------------------------------------------------------------------------------------------


def test_system_messages_at_the_beginning_are_the_instruction():
    messages = [SystemMessage("a"), ChatMessage("b", role="developer"), SystemMessage([{"type": "text", "text": "c"}])]
    assert wire_contents([*messages, HI], "google", signed_calls=False) == (
        [{"text": "a"}, {"text": "b"}, {"text": "c"}],
        [user({"text": "hi"})],
    )


def test_a_later_system_message_stays_where_it_is():
    assert contents_of(HI, AIMessage("yes"), SystemMessage("now in French")) == [
        user({"text": "hi"}),
        model({"text": "yes"}),
        user({"text": "now in French"}),
    ]


def test_an_instruction_alone_is_answered():
    instruction, contents = wire_contents([SystemMessage("Tell a joke.")], "google", signed_calls=False)
    assert (instruction, contents) == ([{"text": "Tell a joke."}], [user({"text": ""})])


def test_roles():
    assert contents_of(ChatMessage("a", role="critic"), ChatMessage("b", role="model")) == [
        user({"text": "a"}),
        model({"text": "b"}),
    ]
    with pytest.raises(UsageError, match="RemoveMessage cannot be sent"):
        contents_of(RemoveMessage(id="1"))


def test_an_empty_turn_is_left_out():
    assert contents_of(HI, AIMessage(""), HumanMessage([])) == [user({"text": "hi"})]


# -- media in -------------------------------------------------------------------------------------------------------


@pytest.mark.shows("google", "video in")
@pytest.mark.parametrize(
    ("block", "part"),
    [
        ("words", {"text": "words"}),
        ({"type": "text", "text": "words", "cache_control": {"type": "ephemeral"}}, {"text": "words"}),
        ({"type": "text-plain", "text": "a file"}, {"text": "a file"}),
        (
            {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        ),
        ({"type": "image", "base64": "AAAA"}, {"inlineData": {"mimeType": "image/jpeg", "data": "AAAA"}}),
        (
            {"type": "image_url", "image_url": {"url": "data:image/webp;base64,AAAA"}},
            {"inlineData": {"mimeType": "image/webp", "data": "AAAA"}},
        ),
        (
            {"type": "image", "url": "https://a.example/cat.png?size=1"},
            {"fileData": {"mimeType": "image/png", "fileUri": "https://a.example/cat.png?size=1"}},
        ),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "AAAA"}},
            {"inlineData": {"mimeType": "image/gif", "data": "AAAA"}},
        ),
        (
            {"type": "audio", "base64": "AAAA", "mime_type": "audio/mp3"},
            {"inlineData": {"mimeType": "audio/mp3", "data": "AAAA"}},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}},
        ),
        (
            {"type": "video", "url": "https://youtu.be/x", "extras": {"video_metadata": {"fps": 1}}},
            {"fileData": {"mimeType": "video/mp4", "fileUri": "https://youtu.be/x"}, "videoMetadata": {"fps": 1}},
        ),
        (
            {"type": "file", "url": "gs://bucket/a.csv"},
            {"fileData": {"mimeType": "text/csv", "fileUri": "gs://bucket/a.csv"}},
        ),
        (
            {"type": "file", "file_id": "files/abc", "mime_type": "application/pdf"},
            {
                "fileData": {
                    "mimeType": "application/pdf",
                    "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc",
                }
            },
        ),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
            {"inlineData": {"mimeType": "application/pdf", "data": "AAAA"}},
        ),
        (
            {"type": "text-plain", "base64": "AAAA"},
            {"inlineData": {"mimeType": "text/plain", "data": "AAAA"}},
        ),
        (
            {"type": "media", "mime_type": "video/webm", "file_uri": "https://a.example/v"},
            {"fileData": {"mimeType": "video/webm", "fileUri": "https://a.example/v"}},
        ),
        (
            {"type": "image", "base64": "AAAA", "mime_type": "image/png", "media_resolution": {"level": "LOW"}},
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "mediaResolution": {"level": "LOW"}},
        ),
        ({"fileData": {"fileUri": "files/1"}}, {"fileData": {"fileUri": "files/1"}}),
        ({"type": "non_standard", "value": {"fileData": {}}}, {"fileData": {}}),
    ],
)
def test_media(block: Any, part: dict[str, Any]):
    assert parts_of(block) == [part]


def test_what_belongs_to_the_model_is_left_out_of_the_users_words():
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert parts_of("a", thought, {"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": None}) == [
        {"text": "a"}
    ]


def test_a_block_without_a_form_here():
    with pytest.raises(UsageError, match="'container_upload' has no form at Gemini"):
        parts_of({"type": "container_upload", "file_id": "f"})
    with pytest.raises(UsageError, match="'image' needs"):
        parts_of({"type": "image"})


# -- calls and results ----------------------------------------------------------------------------------------------


def call(call_id: str | None, name: str = "f", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": call_id}


def response(name: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": value, **more}}


def test_results_of_one_turn_are_one_content_in_the_order_of_the_calls():
    turn = AIMessage("", tool_calls=[call(f"{MADE}1", "a"), call("g-2", "b"), call(f"{MADE}3", "a")])
    results = [
        ToolMessage("third", tool_call_id=f"{MADE}3"),
        ToolMessage("first", tool_call_id=f"{MADE}1", name="a"),
        ToolMessage('{"rain": true}', tool_call_id="g-2"),
    ]
    assert contents_of(HI, turn, *results, HumanMessage("and?"))[1:] == [
        model(
            {"functionCall": {"name": "a", "args": {}}},
            {"functionCall": {"name": "b", "args": {}, "id": "g-2"}},
            {"functionCall": {"name": "a", "args": {}}},
        ),
        user(
            response("a", {"output": "first"}),
            response("b", {"rain": True}, id="g-2"),
            response("a", {"output": "third"}),
        ),
        user({"text": "and?"}),
    ]


def test_a_result_that_failed():
    turn = AIMessage("", tool_calls=[call("1")])
    failed = ToolMessage("no such city", tool_call_id="1", status="error")
    assert contents_of(HI, turn, failed)[-1] == user(response("f", {"error": "no such city"}, id="1"))


@pytest.mark.parametrize("words", ["{not json", "[1, 2]", "", "7", "{" * 5000])
def test_a_result_that_is_no_object(words: str):
    turn = AIMessage("", tool_calls=[call("1")])
    assert contents_of(HI, turn, ToolMessage(words, tool_call_id="1"))[-1] == user(
        response("f", {"output": words}, id="1")
    )


def test_a_result_with_a_picture():
    turn = AIMessage("", tool_calls=[call("1", "photo"), call("2", "photo")])
    image = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    results = [
        ToolMessage([image], tool_call_id="1"),
        ToolMessage([{"type": "text", "text": "a dog"}, image], tool_call_id="2"),
    ]
    picture = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    label = {"text": "Belongs to the result of photo:"}
    assert contents_of(HI, turn, *results)[2:] == [
        user(
            response("photo", {"output": "(the result follows)"}, id="1"),
            response("photo", {"output": "a dog"}, id="2"),
        ),
        user(label, picture, label, picture),
    ]


def test_a_function_message():
    assert contents_of(FunctionMessage("rain", name="weather")) == [user(response("weather", {"output": "rain"}))]


def test_a_call_that_could_not_be_read_goes_back_with_its_result():
    bad = {"name": "f", "args": '{"a": ', "id": "1", "error": "cut off"}
    unanswered = {**bad, "id": "2"}
    turn = AIMessage("", invalid_tool_calls=[bad, unanswered])
    assert contents_of(HI, turn, ToolMessage("no JSON", tool_call_id="1", status="error"))[1:] == [
        model({"functionCall": {"name": "f", "args": {"invalid_arguments": '{"a": '}, "id": "1"}}),
        user(response("f", {"error": "no JSON"}, id="1")),
    ]


@pytest.mark.parametrize(
    ("name", "sent"), [("f", "f"), ("my tool!", "my_tool_"), ("1st", "_1st"), ("", "_"), ("ä.b-c:d", "_.b-c:d")]
)
def test_names_that_a_model_made_up(name: str, sent: str):
    turn = AIMessage("", tool_calls=[call("1", name)])
    assert contents_of(HI, turn)[1]["parts"][0]["functionCall"]["name"] == sent


# -- what came goes back --------------------------------------------------------------------------------------------

OWN = {"provider": "google"}


def test_a_call_keeps_its_place_and_shows_what_the_message_says():
    """The content marks the place, `tool_calls` is the truth: a person may have edited or removed a call."""
    content = [
        {"type": "text", "text": "one moment"},
        {"type": "tool_call", "id": "1", "name": "f", "args": {}},
        {"type": "tool_call", "id": "gone", "name": "f", "args": {}},
        {"type": "text", "text": "", "extras": {"signature": "s"}},
    ]
    message = AIMessage(content, tool_calls=[call("1", a=2), call("2")], response_metadata=OWN)
    assert contents_of(HI, message)[1] == model(
        {"text": "one moment"},
        {"functionCall": {"name": "f", "args": {"a": 2}, "id": "1"}},
        {"text": "", "thoughtSignature": "s"},
        {"functionCall": {"name": "f", "args": {}, "id": "2"}},
    )


def test_a_turn_of_another_provider():
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
        {"type": "text", "text": "Look:", "citations": [{"type": "web", "cited_text": "x"}]},
        {"type": "image", "base64": "AAAA", "mime_type": "image/png", "extras": {"signature": "s"}},
        {"type": "refusal", "refusal": "I will not."},
        {"type": "mcp_list_tools", "tools": []},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
    ]
    calls = [{**call("toolu_1", a=1), **sealed_call("s")}]
    message = AIMessage(content, tool_calls=calls, response_metadata={"provider": "anthropic"})
    assert contents_of(HI, message, ToolMessage("ok", tool_call_id="toolu_1"))[1:] == [
        model(
            {"text": "Look:"},
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
            {"text": "I will not."},
            {"functionCall": {"name": "f", "args": {"a": 1}, "id": "toolu_1"}},
        ),
        user(response("f", {"output": "ok"}, id="toolu_1")),
    ]


def test_calls_without_a_signature_at_models_that_want_one():
    foreign = AIMessage("", tool_calls=[call("1"), call("2")], response_metadata={"provider": "openai"})
    own = AIMessage("", tool_calls=[{**call("1"), **sealed_call("s")}, call("2")], response_metadata=OWN)
    for message, signature in ((foreign, "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="), (own, "s")):
        first, second = contents_of(HI, message, signed=True)[1]["parts"]
        assert first["thoughtSignature"] == signature
        assert "thoughtSignature" not in second
    assert "thoughtSignature" not in json.dumps(contents_of(HI, foreign))


def test_broken_own_blocks_do_not_stop_a_request():
    content = [
        {"type": "server_tool_call", "id": "1", "name": "x", "args": {}},
        {"type": "server_tool_result", "tool_call_id": "1", "status": "success"},
        {"type": "reasoning"},
        {"type": "text", "text": "ok"},
    ]
    assert contents_of(HI, AIMessage(content, response_metadata=OWN))[1] == model({"text": "ok"})


# -- tools ----------------------------------------------------------------------------------------------------------


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": None, "strict": True}}


def declaration(name: str) -> dict[str, Any]:
    return {"name": name, "description": "d", "parametersJsonSchema": {"type": "object", "properties": {}}}


def test_functions_are_one_list_and_own_tools_keep_their_places():
    own = {"functionDeclarations": [{"name": "c"}]}
    tools = [{"type": "google_search"}, function("a"), {"urlContext": {}}, function("b"), own]
    assert wire_tools(tools) == [
        {"googleSearch": {}},
        {"functionDeclarations": [declaration("a"), declaration("b"), {"name": "c"}]},
        {"urlContext": {}},
    ]
    assert wire_tools([{"type": "file_search", "fileSearchStoreNames": ["s"]}]) == [
        {"fileSearch": {"fileSearchStoreNames": ["s"]}}
    ]


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("any", {"mode": "ANY"}),
        ("required", {"mode": "ANY"}),
        (True, {"mode": "ANY"}),
        ("none", {"mode": "NONE"}),
        ("validated", {"mode": "VALIDATED"}),
        ("a", {"mode": "ANY", "allowedFunctionNames": ["a"]}),
        (["a", "b"], {"mode": "ANY", "allowedFunctionNames": ["a", "b"]}),
        ({"type": "function", "function": {"name": "b"}}, {"mode": "ANY", "allowedFunctionNames": ["b"]}),
        ({"type": "tool", "name": "a"}, {"mode": "ANY", "allowedFunctionNames": ["a"]}),
        ({"mode": "ANY"}, {"mode": "ANY"}),
        ({"functionCallingConfig": {"mode": "NONE"}}, {"mode": "NONE"}),
    ],
)
def test_the_choice_among_tools(choice: Any, config: dict[str, Any]):
    tools = wire_tools([function("a"), function("b")])
    assert wire_tool_config(choice, tools) == {"functionCallingConfig": config}


def test_no_choice_and_a_wrong_one():
    tools = wire_tools([function("a")])
    assert wire_tool_config(None, tools) == wire_tool_config(False, tools) == {}
    with pytest.raises(UsageError, match="'c' names no tool of this call: take one of 'a'"):
        wire_tool_config("c", tools)


# -- schemas --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"const": 1, "type": "integer"}, {"type": "integer", "enum": [1]}),
        ({"const": True}, {"type": "boolean"}),
        ({"const": None}, {"type": "null"}),
        ({"$schema": "x", "type": "string", "examples": ["a"], "pattern": "a+"}, {"type": "string", "pattern": "a+"}),
        ({"allOf": [{"$ref": "#/$defs/A"}], "description": "d"}, {"$ref": "#/$defs/A"}),
        ({"$ref": "#/definitions/A", "description": "d", "default": 1}, {"$ref": "#/$defs/A"}),
        (
            {"oneOf": [{"type": "string"}], "discriminator": {"propertyName": "kind"}},
            {"oneOf": [{"type": "string"}]},
        ),
        (
            {
                "allOf": [
                    {"properties": {"a": {"const": "x"}}, "required": ["a"]},
                    {"properties": {"b": {}}, "required": ["a", "b"]},
                ]
            },
            {"properties": {"a": {"type": "string", "enum": ["x"]}, "b": {}}, "required": ["a", "b"]},
        ),
        (
            {"definitions": {"A": {"const": "a"}}, "items": {"$ref": "#/definitions/A"}},
            {"$defs": {"A": {"type": "string", "enum": ["a"]}}, "items": {"$ref": "#/$defs/A"}},
        ),
        (
            {"properties": {"const": {"type": "string"}, "examples": {"enum": ["$schema"]}}},
            {"properties": {"const": {"type": "string"}, "examples": {"enum": ["$schema"]}}},
        ),
    ],
)
def test_schemas(schema: dict[str, Any], sent: dict[str, Any]):
    before = json.dumps(schema)
    assert gemini_schema(schema) == sent
    assert json.dumps(schema) == before


def test_response_formats():
    schema = {"title": "T", "type": "object", "properties": {"a": {"type": "integer"}}}
    asked = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert response_config({"type": "text"}) == {"responseMimeType": "text/plain"}
    assert response_config({"type": "json_object"}) == {"responseMimeType": "application/json"}
    assert response_config(schema) == {"responseMimeType": "application/json", "responseJsonSchema": asked}
    wrapped = {"type": "json_schema", "json_schema": {"name": "T", "schema": asked, "strict": True}}
    assert response_config(wrapped) == {"responseMimeType": "application/json", "responseJsonSchema": asked}
    with pytest.raises(UsageError, match="'grammar'"):
        response_config({"type": "grammar"})
