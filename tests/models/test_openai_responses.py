"""`ChatOpenAI` behind the Responses API: which calls go there, and calls through a real socket."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel

from loopwright import errors
from loopwright.agents import create_agent
from loopwright.messages import AIMessage, merge_chunks
from loopwright.models.openai_chat import ChatOpenAI
from tests.models.loopback import Answer, Loopback, Request, chat_answer
from tests.models.test_openai_responses_request import CALL, THOUGHT, text_item

KEY = "sk-test"


def responses_answer(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    return {"id": "resp_1", "model": "m-1", "status": "completed", "output": list(items), "usage": usage, **fields}


def responses_stream(*items: dict[str, Any]) -> list[bytes]:
    """Events without pieces, but for the words of messages, which come one by one."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": responses_answer(status="in_progress")}]
    for place, item in enumerate(items):
        for word in item["content"][0]["text"].split() if item["type"] == "message" else ():
            where = {"output_index": place, "content_index": 0, "item_id": item["id"]}
            events.append({"type": "response.output_text.delta", "delta": word, **where})
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    events.append({"type": "response.completed", "response": responses_answer(*items)})
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def model_at(server: Loopback, **fields: Any) -> ChatOpenAI:
    fields = {"use_responses_api": True, "max_retries": 0, **fields}
    return ChatOpenAI(model="m", api_key=KEY, base_url=server.url, **fields)


# -- which of the two -----------------------------------------------------------------------------------------------


TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def path(model: ChatOpenAI, **kwargs: Any) -> str:
    return model._request([], None, kwargs, streamed=False).url.rpartition("/v1/")[2]


@pytest.mark.parametrize(
    ("fields", "kwargs"),
    [
        ({"use_responses_api": True}, {}),
        ({"reasoning": {"effort": "low"}}, {}),
        ({"include": ["reasoning.encrypted_content"]}, {}),
        ({"truncation": "auto"}, {}),
        ({"use_previous_response_id": True}, {}),
        ({"context_management": [{"type": "compaction"}]}, {}),
        ({"output_version": "responses/v1"}, {}),
        ({"model_kwargs": {"text": {"verbosity": "low"}}}, {}),
        ({}, {"previous_response_id": "resp_1"}),
        ({}, {"background": True}),
        ({}, {"tools": [{"type": "web_search"}]}),
        ({"model": "gpt-5-codex"}, {}),
        ({"model": "o3-deep-research"}, {}),
        ({"model": "gpt-5.2-pro"}, {}),
        ({"model": "gpt-5.4"}, {"tools": [TOOL]}),
        ({"model": "gpt-5.10-mini", "reasoning_effort": "low"}, {"tools": [TOOL]}),
        ({"model": "gpt-6"}, {"tools": [TOOL]}),
    ],
)
def test_calls_that_go_to_responses(fields: dict[str, Any], kwargs: dict[str, Any]):
    assert path(ChatOpenAI(**{"model": "gpt-5", "api_key": KEY, **fields}), **kwargs) == "responses"


@pytest.mark.parametrize(
    ("fields", "kwargs"),
    [
        ({}, {}),
        ({"reasoning_effort": "low", "verbosity": "low", "store": False}, {}),
        ({}, {"tools": [TOOL, {"type": "custom"}]}),
        ({"model": "gpt-5.6"}, {}),
        ({"model": "gpt-5.6", "reasoning_effort": "none"}, {"tools": [TOOL]}),
        ({"model": "gpt-5.2"}, {"tools": [TOOL]}),
        ({"model": "gpt-4o"}, {"tools": [TOOL]}),
        ({"model": "gpt-oss-20b"}, {"tools": [TOOL]}),
        ({"model": "gpt-5-codex", "base_url": "http://localhost:4000/v1"}, {}),
        ({"use_responses_api": False, "reasoning": {"effort": "low"}}, {}),
        ({"provider": "openrouter", "reasoning": {"effort": "low"}}, {}),
        ({"provider": "zhipu"}, {"tools": [{"type": "web_search"}]}),
    ],
)
def test_calls_that_go_to_chat_completions(fields: dict[str, Any], kwargs: dict[str, Any]):
    assert path(ChatOpenAI(**{"model": "gpt-5", "api_key": KEY, **fields}), **kwargs) != "responses"


def test_both_from_one_model():
    def serve(request: Request) -> Answer:
        own = request.path == "/v1/responses"
        return Answer(body=responses_answer(text_item("by responses")) if own else chat_answer("by chat"))

    with Loopback(serve) as server:
        model = model_at(server, use_responses_api=None)
        assert model.invoke("hi").text == "by chat"
        assert model.bind_tools([{"type": "web_search"}], tool_choice="web_search").invoke("hi").text == "by responses"
        model.close()
    assert server.requests[1].json["tool_choice"] == {"type": "web_search"}


# -- calls ----------------------------------------------------------------------------------------------------------


def test_invoke_and_stream():
    with Loopback(
        Answer(body=responses_answer(THOUGHT, text_item("Hello you"))),
        Answer(pieces=responses_stream(THOUGHT, text_item("Hello you"))),
    ) as server:
        model = model_at(server)
        whole = model.invoke("hi")
        chunks = list(model.stream("hi"))
        model.close()
    assert whole.text == "Hello you"
    assert whole.usage_metadata == {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    assert [chunk.text for chunk in chunks if chunk.text] == ["Hello", "you"]
    assert [request.path for request in server.requests] == ["/v1/responses"] * 2
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[1].json == {"model": "m", "input": [{"role": "user", "content": "hi"}], "stream": True}


def test_the_same_on_a_loop():
    async def ask(model: ChatOpenAI) -> tuple[AIMessage, Any]:
        whole = await model.ainvoke("hi")
        summed = merge_chunks([chunk async for chunk in model.astream("hi")])
        await model.aclose()
        return whole, summed

    answers = [Answer(body=responses_answer(text_item("Hello"))), Answer(pieces=responses_stream(text_item("Hello")))]
    with Loopback(*answers) as server:
        whole, summed = asyncio.run(ask(model_at(server)))
    assert whole.text == summed.text == "Hello"


class City(BaseModel):
    name: str


def test_structured_output():
    with Loopback(Answer(body=responses_answer(text_item('{"name": "Oslo"}')))) as server:
        model = model_at(server)
        assert model.with_structured_output(City, method="json_schema").invoke("hi") == City(name="Oslo")
        agent = create_agent(model_at(server, profile={"structured_output": True}), [], response_format=City)
        assert agent.invoke({"messages": "hi"})["structured_response"] == City(name="Oslo")
        model.close()
    assert [request.json["text"]["format"]["name"] for request in server.requests] == ["City", "City"]


@pytest.mark.shows("openai-responses", "reasoning")
def test_an_agent_gives_the_provider_its_items_back():
    def f(a: int) -> str:
        """Double it."""
        return str(a * 2)

    answers = [Answer(body=responses_answer(THOUGHT, CALL)), Answer(body=responses_answer(text_item("It is 2.")))]
    with Loopback(*answers) as server:
        model = model_at(server, store=False, include=["reasoning.encrypted_content"])
        result = create_agent(model, [f]).invoke({"messages": "double 1"})
        model.close()
    assert result.text == "It is 2."
    assert server.requests[1].json["input"][1:] == [
        THOUGHT,
        CALL,
        {"type": "function_call_output", "call_id": "call_1", "output": "2"},
    ]


@pytest.mark.shows("openai-responses", "server tools")
def test_an_agent_with_a_tool_of_the_providers_streams():
    """Such a tool takes the call to Responses. Words are shown as they come, and so is the search."""
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    }
    with Loopback(Answer(pieces=responses_stream(search, text_item("Hello you")))) as server:
        model = model_at(server, use_responses_api=None)
        agent = create_agent(model, [{"type": "web_search"}])
        pieces = [piece for piece, _ in agent.stream({"messages": "hi"}, stream_mode="messages")]
        model.close()
    assert server.requests[0].path == "/v1/responses"
    assert [piece.text for piece in pieces if piece.text] == ["Hello", "you"]
    kinds = [block["type"] for piece in pieces for block in piece.content_blocks]
    assert kinds == ["server_tool_call", "server_tool_result", "text", "text"]


def test_an_answer_that_is_still_being_made():
    queued = responses_answer(status="queued", usage=None)
    with Loopback(Answer(body=queued)) as server:
        model = model_at(server)
        message = model.invoke("hi", background=True)
        model.close()
    assert message.content == ""
    assert message.response_metadata["raw_finish_reason"] == "queued"
    assert message.response_metadata["finish_reason"] == "other"


# -- when a call fails ----------------------------------------------------------------------------------------------


def test_a_busy_provider_is_asked_again():
    busy = Answer(429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, {"retry-after-ms": "1"})
    with Loopback(busy, Answer(body=responses_answer(text_item("Hello")))) as server:
        model = model_at(server, max_retries=1)
        assert model.invoke("hi").text == "Hello"
        model.close()
    with Loopback(Answer(429, {"error": {"message": "slow down"}}, {"retry-after": "7"})) as server:
        model = model_at(server)
        with pytest.raises(errors.RateLimitError, match="slow down") as caught:
            model.invoke("hi")
        model.close()
    assert caught.value.retry_after == 7


@pytest.mark.shows("openai-responses", "errors mapped")
@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("server_error", errors.ServerError, True),
        ("rate_limit_exceeded", errors.RateLimitError, True),
        ("invalid_prompt", errors.BadRequestError, False),
        ("context_length_exceeded", errors.ContextLengthError, False),
    ],
)
def test_an_answer_that_failed(code: str, kind: type[errors.ModelError], retryable: bool):
    failed = responses_answer(status="failed", error={"code": code, "message": "It went wrong"})
    with Loopback(Answer(body=failed)) as server:
        model = model_at(server)
        with pytest.raises(kind, match="It went wrong") as caught:
            model.invoke("hi")
        model.close()
    assert (caught.value.retryable, caught.value.code) == (retryable, code)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (chat_answer("hi"), "JSON without output"),
        (b"<html>", "no JSON"),
        (responses_answer(status="failed"), "without a reason"),
    ],
)
def test_a_200_that_is_no_answer(body: Any, words: str):
    with Loopback(Answer(body=body)) as server:
        model = model_at(server)
        with pytest.raises(errors.ModelError, match=words):
            model.invoke("hi")
        model.close()


def test_a_connection_that_breaks_in_the_middle():
    with Loopback(Answer(pieces=responses_stream(text_item("Hello you"))[:3], cut=True)) as server:
        model = model_at(server)
        got: list[str] = []
        with pytest.raises(errors.ModelConnectionError):
            got.extend(chunk.text for chunk in model.stream("hi"))
        model.close()
    assert "".join(got) in ("Hello", "Helloyou")


def test_no_tools_no_choice():
    with Loopback(Answer(body=responses_answer(text_item("Hello")))) as server:
        model = model_at(server)
        model.invoke("hi", tool_choice="auto", tools=[])
        model.close()
    assert server.requests[0].json.keys() == {"model", "input"}
