"""Requests in Anthropic's format: what becomes of messages, blocks, tools and schemas."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any, Literal

import pytest
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
from loopwright.models.anthropic.caching import cache_mark, set_marks
from loopwright.models.anthropic.profiles import default_max_tokens, facts_of, profile_of
from loopwright.models.anthropic.request import wire_messages
from loopwright.models.anthropic.schemas import held_schema
from loopwright.models.anthropic.tools import offered, output_format, wire_tool_choice, wire_tools
from loopwright.tools import tool

CALL = {"name": "f", "args": {"a": 1}, "id": "c1"}
USE = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}
MARK = {"type": "ephemeral"}


def turns(*messages: BaseMessage, late_system: bool = False) -> list[dict[str, Any]]:
    return wire_messages(messages, late_system=late_system)[1]


def parts(*blocks: Any) -> Any:
    return turns(HumanMessage([*blocks, "."]))[0]["content"][:-1]


def back(*blocks: Any, provider: str | None = "anthropic", **fields: Any) -> Any:
    """The content of an answer's turn when it is sent back."""
    metadata = {"provider": provider} if provider else {}
    message = AIMessage(list(blocks), response_metadata=metadata, **fields)
    return turns(HumanMessage("hi"), message, HumanMessage("go on"))[1]["content"]


# -- messages -------------------------------------------------------------------------------------------------------


def test_every_kind_of_message():
    prompt, sent = wire_messages([
        SystemMessage("Be brief."),
        HumanMessage("hi"),
        AIMessage("I look.", tool_calls=[CALL]),
        ToolMessage("42", tool_call_id="c1"),
        AIMessage("It is 42."),
        ChatMessage("And?", role="user"),
        ChatMessage("Nothing.", role="assistant"),
    ])  # fmt: skip
    assert prompt == "Be brief."
    assert sent == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, USE]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "42"}]},
        {"role": "assistant", "content": "It is 42."},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": "Nothing."},
    ]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (RemoveMessage(id="1"), "a RemoveMessage cannot be sent to Claude: send HumanMessage"),
        (FunctionMessage("1", name="f"), "a FunctionMessage cannot be sent"),
        (ChatMessage("1", role="critic"), "a ChatMessage of role 'critic' cannot be sent"),
    ],
)
def test_what_is_no_message_of_a_conversation(message: BaseMessage, words: str):
    with pytest.raises(UsageError, match=words):
        turns(message)


def test_messages_of_one_side_are_one_turn():
    assert turns(HumanMessage("a"), HumanMessage("b")) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]
    assert turns(HumanMessage("a"), AIMessage("b"), AIMessage("c"))[1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}],
    }


def test_results_come_first_in_their_turn():
    sent = turns(
        HumanMessage("a"),
        AIMessage(tool_calls=[CALL, {**CALL, "id": "c2"}]),
        ToolMessage("1", tool_call_id="c1"),
        HumanMessage("quick"),
        ToolMessage("2", tool_call_id="c2", status="error"),
    )
    assert sent[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "1"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "2", "is_error": True},
        {"type": "text", "text": "quick"},
    ]


def test_several_system_messages_are_one_prompt():
    marked = {"type": "text", "text": "b", "cache_control": MARK}
    prompt, _ = wire_messages([SystemMessage("a"), SystemMessage([marked]), HumanMessage("hi")])
    assert prompt == [{"type": "text", "text": "a"}, marked]


def test_a_later_system_message_joins_the_prompt_where_the_model_takes_it_nowhere_else():
    prompt, sent = wire_messages([SystemMessage("a"), HumanMessage("hi"), SystemMessage("b")])
    assert prompt == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert [turn["role"] for turn in sent] == ["user"]


@pytest.mark.parametrize("before", [True, False])
def test_a_later_system_message_stands_behind_the_turn_beside_it(before: bool):
    asked = [SystemMessage("b"), HumanMessage("2")] if before else [HumanMessage("2"), SystemMessage("b")]
    prompt, sent = wire_messages([SystemMessage("a"), HumanMessage("1"), AIMessage("x"), *asked], late_system=True)
    assert prompt == "a"
    assert sent[2:] == [
        {"role": "user", "content": "2"},
        {"role": "system", "content": [{"type": "text", "text": "b"}]},
    ]


def test_a_later_system_message_beside_no_turn_of_the_users_joins_the_prompt():
    prompt, sent = wire_messages([HumanMessage("1"), AIMessage("x"), SystemMessage("b")], late_system=True)
    assert prompt == "b"
    assert [turn["role"] for turn in sent] == ["user", "assistant"]


def test_what_says_nothing_is_not_sent():
    assert turns(HumanMessage("a"), AIMessage(""), HumanMessage("b")) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]
    assert turns(HumanMessage(["", {"type": "text", "text": " "}, "a"])) == [{"role": "user", "content": "a"}]
    assert turns(HumanMessage("")) == [{"role": "user", "content": ""}]


def test_an_answer_to_go_on_from_does_not_end_in_white_space():
    assert turns(HumanMessage("a"), AIMessage("{ "))[1]["content"] == "{"
    thought = {"type": "thinking", "thinking": "t", "signature": "s"}
    words = {"type": "text", "text": "{\n"}
    assert turns(HumanMessage("a"), AIMessage([thought, words]))[1]["content"] == [thought, {**words, "text": "{"}]
    assert turns(HumanMessage("a"), AIMessage("{ "), HumanMessage("b"))[1]["content"] == "{ "


def test_nothing_of_the_callers_is_changed():
    thought = {"type": "thinking", "thinking": "t", "signature": "s", "index": 0}
    messages = [
        SystemMessage([{"type": "text", "text": "s", "cache_control": MARK}]),
        HumanMessage([{"type": "image", "base64": "iVBOR"}]),
        AIMessage([thought, {"type": "text", "text": "x "}], tool_calls=[CALL]),
        ToolMessage([{"type": "text", "text": "r", "cache_control": MARK}], tool_call_id="c1"),
        AIMessage("end "),
    ]
    before = copy.deepcopy(messages)
    prompt, sent = wire_messages(messages)
    set_marks({"system": prompt, "messages": sent, "tools": [{"name": "f"}]}, {"type": "ephemeral", "ttl": "1h"})
    assert messages == before


# -- the model's own turn -------------------------------------------------------------------------------------------


def test_a_call_goes_where_it_was_made_and_as_it_is_now():
    mark = {"type": "tool_use", "id": "c1", "name": "f"}
    words = {"type": "text", "text": "after"}
    assert back(mark, words, tool_calls=[{**CALL, "args": {"a": 2}}]) == [{**USE, "input": {"a": 2}}, words]
    assert back(mark, words, tool_calls=[]) == "after"
    assert back(words, tool_calls=[CALL]) == [words, USE]


def test_a_call_that_somebody_wrote_in_anthropics_form():
    message = AIMessage([USE])
    sent = turns(HumanMessage("hi"), message, ToolMessage("1", tool_call_id="c1"))
    assert sent[1]["content"] == [USE]


def test_thoughts_without_a_signature_are_left_out():
    assert back({"type": "thinking", "thinking": "t"}, {"type": "text", "text": "x"}) == "x"
    assert back({"type": "reasoning", "reasoning": "t"}, {"type": "text", "text": "x"}) == "x"
    signed = {"type": "reasoning", "reasoning": "t", "extras": {"signature": "s"}}
    assert back(signed) == [{"type": "thinking", "thinking": "t", "signature": "s"}]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "x", "summary": []},
        {"type": "reasoning", "reasoning": "t", "extras": {"signature": "s"}},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "server_tool_call", "id": "ws_1", "name": "web_search", "args": {}},
        {"type": "server_tool_result", "tool_call_id": "ws_1", "status": "success", "output": {}},
        {"type": "non_standard", "value": {"type": "web_search_call", "id": "ws_1"}},
        {"type": "audio", "id": "audio_1", "base64": "x"},
        {"type": "image", "base64": "x", "mime_type": "image/png"},
    ],
)
def test_what_another_provider_sealed_stays_out(block: dict[str, Any]):
    words = {"type": "text", "text": "x", "annotations": [{"type": "citation", "url": "u"}]}
    calls = [{**CALL, "id": "call:1|fc_2"}]
    sent = turns(
        HumanMessage("hi"),
        AIMessage([block, words], tool_calls=calls, response_metadata={"provider": "openai"}),
        ToolMessage("1", tool_call_id="call:1|fc_2"),
    )
    said, call = sent[1]["content"]
    assert said == {"type": "text", "text": "x"}
    assert call["id"].startswith("toolu_")
    assert sent[2]["content"][0]["tool_use_id"] == call["id"]


def test_blocks_of_which_nobody_says_who_sent_them():
    """Anthropic's go back, others stay out."""
    own = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    foreign = {"type": "web_search_call", "id": "ws_1"}
    assert back(own, foreign, provider=None) == [own]
    call = {"type": "server_tool_call", "id": "srvtoolu_1", "name": "web_search", "args": {}}
    sent = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    assert back(call, {**call, "id": "ws_1"}, provider=None) == [sent]
    assert back(own, foreign, provider="bedrock") == [own, foreign]


def test_a_refusal_goes_back_as_words():
    assert back({"type": "refusal", "refusal": "I will not."}, provider="openai") == "I will not."


@pytest.mark.parametrize(("raw", "sent"), [('{"a":', {"invalid_arguments": '{"a":'}), ('{"a": 1}', {"a": 1}), ("", {})])
def test_invalid_calls_stay_in_the_history_with_their_result(raw: str, sent: Any):
    message = AIMessage("x", invalid_tool_calls=[{"name": "f g", "args": raw, "id": "c1", "error": "e"}])
    result = ToolMessage("not run", tool_call_id="c1", status="error")
    answered = turns(HumanMessage("hi"), message, result)[1]["content"][1]
    want = {"invalid_arguments": raw} if raw == "" else sent
    assert answered == {"type": "tool_use", "id": "c1", "name": "f_g", "input": want}
    assert turns(HumanMessage("hi"), message, HumanMessage("b"))[1]["content"] == "x"


# -- blocks ---------------------------------------------------------------------------------------------------------


def sourced(kind: str, **source: Any) -> dict[str, Any]:
    return {"type": kind, "source": source}


PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0"}
PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0"}


@pytest.mark.shows("anthropic", "images in", "files in")
@pytest.mark.parametrize(
    ("block", "part"),
    [
        ("hi", {"type": "text", "text": "hi"}),
        ({"type": "text", "text": "hi", "cache_control": MARK}, {"type": "text", "text": "hi", "cache_control": MARK}),
        ({"type": "input_text", "text": "hi"}, {"type": "text", "text": "hi"}),
        ({"type": "image", "url": "https://x/a.png"}, sourced("image", type="url", url="https://x/a.png")),
        ({"type": "image", "base64": "iVBORw0", "mime_type": "image/png"}, sourced("image", **PNG)),
        ({"type": "image", "base64": "iVBORw0"}, sourced("image", **PNG)),
        ({"type": "image", "file_id": "file_1"}, sourced("image", type="file", file_id="file_1")),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0"}}, sourced("image", **PNG)),
        ({"type": "image", "source_type": "base64", "data": "iVBORw0"}, sourced("image", **PNG)),
        (sourced("image", **PNG), sourced("image", **PNG)),
        ({"type": "file", "base64": "JVBERi0", "mime_type": "application/pdf"}, sourced("document", **PDF)),
        ({"type": "file", "base64": "JVBERi0"}, sourced("document", **PDF)),
        ({"type": "file", "url": "https://x/a.pdf"}, sourced("document", type="url", url="https://x/a.pdf")),
        ({"type": "file", "file_id": "file_1"}, sourced("document", type="file", file_id="file_1")),
        ({"type": "file", "base64": "iVBORw0", "mime_type": "image/png"}, sourced("image", **PNG)),
        (
            {"type": "file", "base64": base64.b64encode("né".encode()).decode(), "mime_type": "text/csv"},
            sourced("document", type="text", media_type="text/plain", data="né"),
        ),
        (
            {"type": "file", "base64": "JVBERi0", "extras": {"filename": "a.pdf", "citations": {"enabled": True}}},
            {**sourced("document", **PDF), "title": "a.pdf", "citations": {"enabled": True}},
        ),
        (
            {"type": "text-plain", "text": "words", "title": "t", "context": "c"},
            {**sourced("document", type="text", media_type="text/plain", data="words"), "title": "t", "context": "c"},
        ),
        ({"type": "container_upload", "file_id": "f"}, {"type": "container_upload", "file_id": "f"}),
        ({"type": "search_result", "content": []}, {"type": "search_result", "content": []}),
        ({"type": "non_standard", "value": {"type": "new", "a": 1}}, {"type": "new", "a": 1}),
        ({"type": "new", "a": 1}, {"type": "new", "a": 1}),
    ],
)  # fmt: skip
def test_blocks_become_parts(block: Any, part: Any):
    assert parts(block) == [part]


def test_what_belongs_to_the_models_own_turn_is_left_out_of_others():
    for kind in ("reasoning", "thinking", "redacted_thinking", "tool_use", "tool_call", "server_tool_call"):
        assert turns(HumanMessage([{"type": kind}, "x"]))[0]["content"] == "x"


@pytest.mark.parametrize("odd", [{"type": "text", "text": 7}, {"type": "non_standard", "value": 3}, {"a": 1}])
def test_odd_blocks_are_skipped_and_the_good_ones_sent(odd: Any):
    assert turns(HumanMessage([odd, "x"]))[0]["content"] == "x"


@pytest.mark.parametrize("kind", ["audio", "video"])
def test_media_that_claude_does_not_take(kind: str):
    with pytest.raises(UsageError, match=f"Claude takes no {kind}"):
        parts({"type": kind, "base64": "x", "mime_type": f"{kind}/x"})


def test_media_without_bytes_say_what_is_missing():
    with pytest.raises(UsageError, match=r"a block of type 'image' needs \"base64\""):
        parts({"type": "image", "mime_type": "image/png"})


@pytest.mark.shows("anthropic", "media in tool results")
def test_results_may_hold_pictures_and_a_mark():
    content = [{"type": "text", "text": "see"}, {"type": "image", "base64": "iVBORw0", "cache_control": MARK}]
    [result] = turns(ToolMessage(content, tool_call_id="c1"))[0]["content"]
    assert result == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "text", "text": "see"}, sourced("image", **PNG)],
        "cache_control": MARK,
    }
    [result] = turns(ToolMessage("", tool_call_id="c1"))[0]["content"]
    assert result["content"] == ""


# -- tools ----------------------------------------------------------------------------------------------------------


@pytest.mark.shows("anthropic", "server tools")
def test_tools_in_every_form():
    @tool(extras={"defer_loading": True})
    def look(city: str) -> str:
        """Look it up."""
        return city

    own = {"name": "g", "input_schema": {"type": "object"}, "cache_control": MARK}
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    made = wire_tools([look, own, search, {"type": "function", "function": {"name": "h"}}])
    assert made == [
        {
            "name": "look",
            "description": "Look it up.",
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            "defer_loading": True,
        },
        own,
        search,
        {"name": "h", "input_schema": {"type": "object", "properties": {}}},
    ]
    assert wire_tools([offered(look)]) == made[:1]


def test_strict_tools():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    function = {"type": "function", "function": {"name": "f", "parameters": schema}}
    [made] = wire_tools([function], strict=True)
    assert made["strict"] is True
    assert made["input_schema"]["additionalProperties"] is False
    [made] = wire_tools([{**function, "function": {**function["function"], "strict": False}}])
    assert (made["strict"], made["input_schema"]) == (False, schema)


FUNCTION_CHOICE = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("choice", "kwargs", "word"),
    [
        (None, {}, None),
        (False, {}, None),
        ("auto", {}, {"type": "auto"}),
        ("none", {}, {"type": "none"}),
        (True, {}, {"type": "any"}),
        ("any", {}, {"type": "any"}),
        ("required", {}, {"type": "any"}),
        ("f", {}, {"type": "tool", "name": "f"}),
        (FUNCTION_CHOICE, {}, {"type": "tool", "name": "f"}),
        ({"type": "tool", "name": "x"}, {"thinks": True}, {"type": "tool", "name": "x"}),
        ("any", {"thinks": True}, {"type": "auto"}),
        ("f", {"thinks": True}, {"type": "auto"}),
        (None, {"parallel": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        ("f", {"parallel": False}, {"type": "tool", "name": "f", "disable_parallel_tool_use": True}),
        ("none", {"parallel": False}, {"type": "none"}),
        ("any", {"parallel": True}, {"type": "any"}),
    ],
)
def test_the_choice_of_a_tool(choice: Any, kwargs: dict[str, Any], word: Any):
    assert wire_tool_choice(choice, [{"name": "f"}], **kwargs) == word


def test_a_choice_that_is_no_tool():
    with pytest.raises(UsageError, match="tool_choice='g' names no tool of this call: take one of 'f', \"auto\""):
        wire_tool_choice("g", [{"name": "f"}])


# -- schemas --------------------------------------------------------------------------------------------------------


class City(BaseModel):
    """A city."""

    name: str = Field(pattern="^[A-Z]")
    size: int = Field(default=1, ge=1, description="In thousands.")
    kind: Literal["town", "city"] | None = None
    near: list[str] = Field(max_length=3)


def test_a_class_becomes_a_schema_that_claude_is_held_to():
    assert output_format(City) == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "{pattern: ^[A-Z]}"},
                "size": {"type": "integer", "description": "In thousands.\n\n{minimum: 1}"},
                "kind": {"anyOf": [{"type": "string", "enum": ["town", "city"]}, {"type": "null"}]},
                "near": {"type": "array", "items": {"type": "string"}, "description": "{maxItems: 3}"},
            },
            "required": ["name", "near"],
            "additionalProperties": False,
        },
    }


def test_the_forms_in_which_a_schema_is_asked_for():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    wanted = {"type": "json_schema", "schema": {**schema, "additionalProperties": False}}
    assert output_format({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}) == wanted
    assert output_format({"title": "n", **schema}) == wanted
    assert output_format(wanted) == wanted
    with pytest.raises(UsageError, match="no JSON mode without a schema"):
        output_format({"type": "json_object"})


@pytest.mark.parametrize(
    "properties",
    [{"a": {"type": "object", "additionalProperties": {"type": "string"}}}, {"a": {"type": "object"}}],
)
def test_an_object_with_free_keys_cannot_be_held_to(properties: dict[str, Any]):
    with pytest.raises(UsageError, match="a takes any key, which Claude cannot be held to: name the fields, or take"):
        held_schema({"type": "object", "properties": properties})


def test_a_schema_that_is_sound_stays_as_it_is():
    sound = {
        "type": "object",
        "properties": {
            "when": {"type": "string", "format": "date"},
            "list": {"type": "array", "items": {"$ref": "#/$defs/x"}, "minItems": 1},
        },
        "required": ["when"],
        "additionalProperties": False,
        "$defs": {"x": {"type": "string", "enum": ["a"]}},
    }
    assert held_schema(sound) == sound
    odd = {"type": "object", "properties": {"a": {"oneOf": [{"type": "string", "format": "odd"}], "default": "x"}}}
    assert held_schema(odd)["properties"]["a"] == {"anyOf": [{"type": "string", "description": "{format: odd}"}]}


# -- the cache ------------------------------------------------------------------------------------------------------


def marked(**body: Any) -> dict[str, Any]:
    set_marks(body, MARK)
    return body


@pytest.mark.shows("anthropic", "prompt cache marks")
def test_marks_at_the_ends():
    said = [{"role": "user", "content": "hi"}]
    body = marked(tools=[{"name": "f"}, {"name": "g"}], system="s", messages=said)
    assert body == {
        "tools": [{"name": "f"}, {"name": "g", "cache_control": MARK}],
        "system": [{"type": "text", "text": "s", "cache_control": MARK}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": MARK}]}],
    }
    assert said == [{"role": "user", "content": "hi"}]


def test_a_request_has_four_marks_and_those_of_the_caller_count():
    own = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    body = marked(
        tools=[{"name": "f"}],
        system=[own, own],
        messages=[{"role": "user", "content": [own, {"type": "text", "text": "y"}]}],
    )
    assert json.dumps(body).count('"cache_control"') == 4
    assert body["tools"] == [{"name": "f"}]
    body = marked(tools=[{"name": "f"}], system="s", messages=[{"role": "user", "content": [own, own, own, {**USE}]}])
    assert "cache_control" in body["messages"][0]["content"][-1]
    assert (body["tools"], body["system"]) == ([{"name": "f"}], "s")


def test_a_thought_takes_no_mark():
    thought = {"type": "thinking", "thinking": "t", "signature": "s"}
    body = marked(messages=[{"role": "assistant", "content": [{"type": "text", "text": "x"}, thought]}])
    assert body["messages"][0]["content"] == [{"type": "text", "text": "x", "cache_control": MARK}, thought]
    assert marked(messages=[{"role": "assistant", "content": [thought]}])["messages"][0]["content"] == [thought]
    assert marked(messages=[]) == {"messages": []}


def test_ways_to_ask_for_marks():
    asked = [cache_mark(wanted) for wanted in (None, False, True, "1h", {"type": "x"})]
    assert asked == [None, None, MARK, {"type": "ephemeral", "ttl": "1h"}, {"type": "x"}]
    with pytest.raises(UsageError, match="prompt_caching is True, False"):
        cache_mark("2h")


# -- what is known --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "window", "most"),
    [
        ("claude-sonnet-4-5", 200_000, 32_000),
        ("claude-sonnet-4-20250514", 200_000, 32_000),
        ("us.anthropic.claude-opus-4-8-v1:0", 1_000_000, 128_000),
        ("claude-3-5-haiku@20241022", 200_000, 8192),
        ("anthropic/claude-opus-4.6", 1_000_000, 128_000),
    ],
)
def test_models_by_their_names(name: str, window: int, most: int):
    facts = facts_of(name)
    assert facts is not None
    assert facts.max_input_tokens == window
    assert default_max_tokens(name) == most


def test_profiles():
    profile = profile_of("claude-haiku-4-5")
    assert profile is not None
    assert (profile["tool_calling"], profile["structured_output"], profile["audio_inputs"]) == (True, True, False)
    assert profile_of("qwen3") is None
    assert default_max_tokens("qwen3") == 4096
