"""What is sent to the Responses API: turns of this and other providers, media, tools, and settings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from loopwright import errors
from loopwright.messages import AIMessage, BaseMessage, FunctionMessage, HumanMessage, SystemMessage, ToolMessage
from loopwright.models.openai_chat import ChatOpenAI
from loopwright.models.openai_chat.request import wire_messages
from loopwright.models.openai_chat.settings import ANYONE
from loopwright.models.openai_responses.items import item_blocks
from loopwright.models.openai_responses.request import input_items
from loopwright.models.openai_responses.response import parse_response
from loopwright.models.wire_errors import Peer
from loopwright.tools import tool

PEER = Peer("openai", "http://127.0.0.1/v1")


def sent(*messages: BaseMessage, store: bool | None = None) -> list[dict[str, Any]]:
    return input_items(messages, "openai", store=store)


def answered(*items: dict[str, Any]) -> AIMessage:
    return parse_response(json.dumps({"id": "resp_1", "status": "completed", "output": items}).encode(), PEER)[0]


def text_item(text: str, **fields: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part], **fields}


THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"a":1}'}
CALL |= {"status": "completed"}


def body_of(*messages: BaseMessage, stop: list[str] | None = None, **settings: Any) -> dict[str, Any]:
    """The body of a request. Fields of the model go to the model, other settings are arguments of the call."""
    fields = {name: settings.pop(name) for name in list(settings) if name in ChatOpenAI.model_fields}
    model = ChatOpenAI(**{"model": "gpt-5", "api_key": "sk-test", "use_responses_api": True, **fields})
    return json.loads(model._request(messages or [HumanMessage("hi")], stop, settings, streamed=False).body)


# -- items that no recording has ------------------------------------------------------------------------------------

ITEMS: list[dict[str, Any]] = [
    {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["a"], "results": [{"text": "b"}]},
    {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["a"], "results": None},
    {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA", "output_format": "webp"},
    {"type": "image_generation_call", "id": "ig_1", "status": "failed", "result": None},
    {"type": "code_interpreter_call", "id": "ci_1", "code": None, "container_id": "c", "outputs": []},
    {"type": "mcp_call", "id": "mcp_1", "name": "f", "server_label": "s", "arguments": "{ }", "error": "no"},
    {"type": "mcp_call", "id": "mcp_1", "name": "f", "server_label": "s", "arguments": "not json", "output": "x"},
    {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": [], "error": "unreachable"},
    {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "server_label": "s", "arguments": "{}"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    {"type": "web_search_call", "id": "ws_1", "status": "failed", "action": {"type": "open_page", "url": "u"}},
    {"type": "computer_call", "id": "cu_1", "call_id": "call_2", "action": {"type": "click"}, "status": "completed"},
    {"type": "local_shell_call", "id": "ls_1", "call_id": "call_2", "action": {"command": ["ls"]}, "status": "x"},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"},
    {"type": "tool_search_output", "id": "tso_1", "call_id": None, "execution": "server", "tools": []},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "run", "input": 'x "y"', "status": "completed"},
]


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item["type"])
def test_an_item_goes_back_as_it_came(item: dict[str, Any]):
    assert sent(answered(item, text_item("so")))[0] == item


def test_an_unknown_item_is_kept_whole():
    item = {"type": "hologram_call", "id": "h_1", "beam": [1]}
    assert item_blocks(item) == [(("whole", 0), {"type": "non_standard", "value": item})]


@pytest.mark.shows("openai-responses", "citations")
def test_citations_go_back_as_they_came():
    marks = [
        {"type": "url_citation", "url": "https://a.test", "title": "A", "start_index": 0, "end_index": 2},
        {"type": "file_citation", "file_id": "file-1", "filename": "a.pdf", "index": 2},
        {"type": "container_file_citation", "container_id": "c", "file_id": "f", "filename": "x", "start_index": 1},
        {"type": "file_path", "file_id": "file-2", "index": 1},
    ]
    item = text_item("Hi")
    item["content"][0]["annotations"] = marks
    message = answered(item)
    assert sent(message) == [item]
    kinds = [mark["type"] for mark in message.content_blocks[0]["annotations"]]  # type: ignore[typeddict-item]
    assert kinds == ["citation", "citation", "citation", "non_standard_annotation"]


@pytest.mark.shows("openai-responses", "server tools")
def test_what_the_providers_tools_did_is_standard():
    message = answered(ITEMS[0], ITEMS[2], ITEMS[5])
    blocks: list[Any] = list(message.content_blocks)
    assert [block["type"] for block in blocks] == [
        "server_tool_call", "server_tool_result", "server_tool_call", "image", "server_tool_call", "server_tool_result"
    ]  # fmt: skip
    assert blocks[3] == {"type": "image", "id": "ig_1", "base64": "AAAA", "mime_type": "image/webp"}
    assert blocks[5]["status"] == "error"


# -- turns ----------------------------------------------------------------------------------------------------------


def test_a_turn_goes_back_in_its_order():
    second = {**CALL, "id": "fc_2", "call_id": "call_2"}
    items = [THOUGHT, text_item("Let me see.", phase="commentary"), CALL, {**THOUGHT, "id": "rs_2"}, second]
    message = answered(*items)
    results = [ToolMessage("1", tool_call_id="call_1"), ToolMessage("2", tool_call_id="call_2")]
    assert sent(message, *results) == [
        *items,
        {"type": "function_call_output", "call_id": "call_1", "output": "1"},
        {"type": "function_call_output", "call_id": "call_2", "output": "2"},
    ]


def test_what_a_message_says_now_counts():
    """A person has changed the arguments of one call, and taken another away."""
    message = answered(CALL, {**CALL, "id": "fc_2", "call_id": "call_2"})
    edited = message.model_copy(update={"tool_calls": [{**message.tool_calls[0], "args": {"a": 2}}]})
    assert sent(edited) == [{**CALL, "arguments": '{"a":2}'}]
    assert edited.content_blocks == [{"name": "f", "args": {"a": 2}, "id": "call_1", "type": "tool_call"}]


def test_a_call_that_cannot_be_read_goes_back_with_its_result_only():
    message = answered({**CALL, "arguments": '{"a":'}, text_item("so"))
    assert [item["type"] for item in sent(message)] == ["message"]
    [call, _, result] = sent(message, ToolMessage("no JSON", tool_call_id="call_1"))
    assert json.loads(call["arguments"]) == {"invalid_arguments": '{"a":'}
    assert result["call_id"] == call["call_id"] == "call_1"


def test_a_turn_of_another_provider_is_its_words_and_calls():
    content = [
        {"type": "reasoning", "reasoning": "hm", "id": "th_1", "extras": {"signature": "sealed"}},
        {"type": "text", "text": "I look", "id": "x1"},
        {"type": "server_tool_call", "id": "srvtoolu_1", "name": "web_search", "args": {}},
        {"type": "text", "text": " it up."},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
    ]
    calls = [{"name": "f", "args": {"a": 1}, "id": "toolu_1"}, {"name": "g h", "args": {}, "id": "x" * 80}]
    message = AIMessage(content, tool_calls=calls, response_metadata={"provider": "anthropic"})
    results = [ToolMessage("1", tool_call_id="toolu_1"), ToolMessage("2", tool_call_id="x" * 80)]
    words, first, second, _, result = sent(message, *results)
    assert words == {"type": "message", "role": "assistant", "content": "I look it up."}
    assert first == {"type": "function_call", "call_id": "toolu_1", "name": "f", "arguments": '{"a":1}'}
    assert (second["name"], len(second["call_id"]), result["call_id"]) == ("g_h", 37, second["call_id"])


def test_a_turn_of_chat_completions_and_back():
    """The two APIs of one provider take each other's turns."""
    assert sent(AIMessage("hi", response_metadata={"provider": "openai"})) == [
        {"type": "message", "role": "assistant", "content": "hi"}
    ]
    [wire] = wire_messages([answered(THOUGHT, text_item("hi"), CALL)], ANYONE, "openai")
    assert (wire["content"], wire["tool_calls"][0]["id"], sorted(wire)) == (
        "hi",
        "call_1",
        ["content", "role", "tool_calls"],
    )


def test_a_provider_that_stores_nothing():
    """An id alone means nothing to it, and it takes no item whose reasoning is missing."""
    bare = {"type": "reasoning", "id": "rs_1", "summary": []}
    assert sent(answered(THOUGHT, text_item("hi")), store=False) == [THOUGHT, text_item("hi")]
    message, call = sent(answered(bare, text_item("hi"), CALL), store=False)
    assert message == {"type": "message", "role": "assistant", "content": "hi"}
    assert "id" not in call
    assert sent(answered(bare, text_item("hi"))) == [bare, text_item("hi")]


def test_a_model_that_does_not_think():
    """It refuses the reasoning of the model that went before it."""
    history = [HumanMessage("hi"), answered(THOUGHT, text_item("Hello")), HumanMessage("more")]
    assert [item.get("id") for item in body_of(*history, model="gpt-4.1")["input"]] == [None, None, None]
    assert [item.get("id") for item in body_of(*history, model="o3")["input"]] == [None, "rs_1", "msg_1", None]


def test_reasoning_that_nothing_followed_stays_out():
    assert sent(answered(text_item("hi"), THOUGHT), HumanMessage("go on")) == [
        text_item("hi"),
        {"role": "user", "content": "go on"},
    ]


@pytest.mark.shows("openai-responses", "refusals")
def test_a_refusal_and_empty_text_keep_their_item():
    refused = text_item("")
    refused["content"] = [{"type": "refusal", "refusal": "No."}]
    assert sent(answered(refused)) == [refused]
    assert sent(answered(text_item(""))) == [text_item("")]
    assert answered({**text_item(""), "id": None}).content == ""


def test_items_in_langchains_form():
    """A history whose content holds the items themselves."""
    call = {key: value for key, value in CALL.items() if key != "status"}
    content = [THOUGHT, {"type": "text", "text": "hi", "id": "msg_1"}, call, ITEMS[9]]
    message = AIMessage(content, tool_calls=[{"name": "f", "args": {"a": 1}, "id": "call_1"}])
    assert sent(message) == [THOUGHT, text_item("hi"), CALL, ITEMS[9]]


def test_results_of_other_kinds():
    custom = answered(ITEMS[15])
    assert sent(custom, ToolMessage("ok", tool_call_id="c"))[1]["type"] == "custom_tool_call_output"
    shot = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    done = ToolMessage([shot], tool_call_id="call_2", additional_kwargs={"type": "computer_call_output"})
    assert sent(answered(ITEMS[11]), done)[1] == {"type": "computer_call_output", "call_id": "call_2", "output": shot}
    approval = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    assert sent(answered(ITEMS[8]), HumanMessage([approval])) == [ITEMS[8], approval]


def test_roles():
    developer = SystemMessage("d", additional_kwargs={"__openai_role__": "developer"})
    assert [item["role"] for item in sent(SystemMessage("s"), developer, HumanMessage("h"))] == [
        "system", "developer", "user"
    ]  # fmt: skip
    with pytest.raises(errors.UsageError, match="no role for a FunctionMessage"):
        sent(FunctionMessage("x", name="f"))


# -- media ----------------------------------------------------------------------------------------------------------

PNG = "data:image/png;base64,AAAA"


@pytest.mark.shows("openai-responses", "media in tool results")
@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "image", "url": "https://a.test/i"}, {"image_url": "https://a.test/i", "detail": "auto"}),
        ({"type": "image", "base64": "AAAA", "mime_type": "image/png"}, {"image_url": PNG, "detail": "auto"}),
        ({"type": "image", "file_id": "file-1", "extras": {"detail": "low"}}, {"file_id": "file-1", "detail": "low"}),
        ({"type": "image_url", "image_url": {"url": PNG, "detail": "high"}}, {"image_url": PNG, "detail": "high"}),
        ({"type": "file", "url": "https://a.test/f"}, {"file_url": "https://a.test/f"}),
        ({"type": "file", "file_id": "file-1"}, {"file_id": "file-1"}),
        (
            {"type": "file", "base64": "AAAA", "mime_type": "application/pdf", "extras": {"filename": "a.pdf"}},
            {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"},
        ),
        (
            {"type": "audio", "base64": "AAAA", "mime_type": "audio/mpeg"},
            {"input_audio": {"data": "AAAA", "format": "mp3"}},
        ),
        ({"type": "text-plain", "text": "notes"}, {"text": "notes"}),
        ({"type": "input_image", "image_url": PNG}, {"image_url": PNG}),
    ],
)
def test_media(block: dict[str, Any], part: dict[str, Any]):
    """In a message of the user's, and in a tool's result."""
    say = {"type": "text", "text": "look"}
    [item, result] = sent(HumanMessage([say, block]), ToolMessage([say, block], tool_call_id="c"))
    assert item["content"][0] == {"type": "input_text", "text": "look"}
    assert {key: value for key, value in item["content"][1].items() if key != "type"} == part
    assert result["output"] == item["content"]


def test_media_that_cannot_be_sent():
    with pytest.raises(errors.UsageError, match="takes no video"):
        sent(HumanMessage([{"type": "video", "url": "https://a.test/v"}]))
    with pytest.raises(errors.UsageError, match="sound as data, not by address"):
        sent(HumanMessage([{"type": "audio", "url": "https://a.test/a"}]))
    with pytest.raises(errors.UsageError, match='needs "url", "base64"'):
        sent(HumanMessage([{"type": "image"}]))


# -- tools and settings ---------------------------------------------------------------------------------------------


@tool
def look(city: str, unit: str = "C") -> str:
    """Look it up."""
    return city + unit


def test_tools_are_flat_and_say_whether_they_are_strict():
    body = body_of(tools=[look, {"type": "web_search"}], tool_choice="look", parallel_tool_calls=False)
    flat, own = body["tools"]
    assert (flat["type"], flat["name"], flat["strict"], own) == ("function", "look", False, {"type": "web_search"})
    assert flat["parameters"]["required"] == ["city"]
    assert body["tool_choice"] == {"type": "function", "name": "look"}
    assert body["parallel_tool_calls"] is False
    custom = {"type": "custom", "custom": {"name": "run", "description": "Run it."}}
    assert body_of(tools=[custom])["tools"] == [{"type": "custom", "name": "run", "description": "Run it."}]
    [strict] = body_of(tools=[look], strict=True)["tools"]
    assert (strict["strict"], strict["parameters"]["required"]) == (True, ["city", "unit"])


@pytest.mark.parametrize(
    ("choice", "word"),
    [
        ("any", "required"),
        ("auto", "auto"),
        ("none", "none"),
        ("web_search", {"type": "web_search"}),
        ({"type": "function", "function": {"name": "look"}}, {"type": "function", "name": "look"}),
        ({"type": "mcp", "server_label": "s"}, {"type": "mcp", "server_label": "s"}),
    ],
)
def test_tool_choice(choice: Any, word: Any):
    assert body_of(tools=[look, {"type": "web_search"}], tool_choice=choice)["tool_choice"] == word


def test_a_choice_that_is_no_tool():
    with pytest.raises(errors.UsageError, match="names no tool of this call"):
        body_of(tools=[look], tool_choice="find")


class City(BaseModel):
    name: str


def test_structured_output_is_a_format_of_the_text():
    text = body_of(response_format=City, verbosity="low")["text"]
    assert (text["format"]["type"], text["format"]["name"], text["format"]["strict"]) == ("json_schema", "City", True)
    assert text["verbosity"] == "low"
    assert body_of(response_format={"type": "json_object"})["text"] == {"format": {"type": "json_object"}}
    assert "text" not in body_of()


def test_settings_have_this_apis_names():
    body = body_of(max_tokens=5, reasoning_effort="low", temperature=0, logprobs=True, top_logprobs=2, store=False)
    assert body == {
        "model": "gpt-5",
        "input": [{"role": "user", "content": "hi"}],
        "max_output_tokens": 5,
        "reasoning": {"effort": "low"},
        "temperature": 0,
        "top_logprobs": 2,
        "store": False,
        "include": ["message.output_text.logprobs"],
    }
    assert body_of(max_completion_tokens=7)["max_output_tokens"] == 7
    assert body_of(reasoning={"effort": "high", "summary": "auto"})["reasoning"] == {
        "effort": "high",
        "summary": "auto",
    }
    assert body_of(instructions="Be short.", extra_body={"x": 1})["x"] == 1


def test_settings_that_this_api_has_not():
    with pytest.raises(errors.UsageError, match=r"no seed and no stop.*use_responses_api=False"):
        body_of(seed=1, stop=["x"])
    with pytest.raises(errors.UsageError, match="no n:"):
        body_of(n=2)


def test_a_provider_that_remembers_is_sent_what_is_new():
    history = [HumanMessage("hi"), answered(text_item("Hello")), HumanMessage("more")]
    body = body_of(*history, use_previous_response_id=True)
    assert (body["previous_response_id"], body["input"]) == ("resp_1", [{"role": "user", "content": "more"}])
    elsewhere = AIMessage("x", response_metadata={"provider": "anthropic", "id": "resp_9"})
    body = body_of(HumanMessage("hi"), elsewhere, HumanMessage("more"), use_previous_response_id=True)
    assert ("previous_response_id" in body, len(body["input"])) == (False, 3)


def test_ten_turns_extend_each_other():
    """A byte-stable beginning, which the provider's cache needs."""
    history: list[BaseMessage] = [SystemMessage("Be short.")]
    before: list[Any] = []
    tools_before = None
    for turn in range(10):
        history.append(HumanMessage(f"question {turn}"))
        body = body_of(*history, tools=[look, {"type": "web_search"}])
        assert body["input"][: len(before)] == before
        assert tools_before in (None, json.dumps(body["tools"]))
        before, tools_before = body["input"], json.dumps(body["tools"])
        call = {**CALL, "id": f"fc_{turn}", "call_id": f"call_{turn}"}
        history += [answered({**THOUGHT, "id": f"rs_{turn}"}, call), ToolMessage("1", tool_call_id=f"call_{turn}")]
        history.append(answered(text_item(f"answer {turn}", id=f"msg_{turn}")))
