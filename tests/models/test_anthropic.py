"""`ChatAnthropic` as users make and call it, against a real server."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import subprocess
import sys
import threading
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from loopwright import errors
from loopwright.agents import create_agent
from loopwright.messages import AIMessage, HumanMessage, SystemMessage, merge_chunks
from loopwright.models.anthropic import ChatAnthropic
from tests.models.loopback import Answer, Loopback, Request
from tests.models.test_anthropic_stream import BEGIN, END, delta, start

KEY = "sk-ant-very-secret-1234"
MODEL = "claude-sonnet-4-5"
WORDS = [BEGIN, start(0, "text", text=""), delta(0, "text_delta", text="Hel"), delta(0, "text_delta", text="lo"), END]


@pytest.fixture(autouse=True)
def no_keys_of_this_machine(monkeypatch: pytest.MonkeyPatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL"):
        monkeypatch.delenv(name, raising=False)


def answer(*blocks: dict[str, Any], reason: str = "end_turn") -> dict[str, Any]:
    return {
        "type": "message",
        "id": "msg_1",
        "model": MODEL,
        "content": list(blocks),
        "stop_reason": reason,
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def failed(kind: str, words: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": words}}


def model_at(server: Loopback, **fields: Any) -> ChatAnthropic:
    return ChatAnthropic(model=MODEL, api_key=KEY, base_url=f"http://127.0.0.1:{server.port}", **fields)


def made(**fields: Any) -> ChatAnthropic:
    """With fields that a type checker would refuse."""
    return ChatAnthropic(**{"model": MODEL, "api_key": KEY, **fields})


def posted(model: Any, *messages: Any, stop: list[str] | None = None, streamed: bool = False, **kwargs: Any) -> Any:
    """What a call would send: headers and JSON."""
    request = model._request(list(messages) or [HumanMessage("hi")], stop, kwargs, streamed=streamed)
    return request.headers, json.loads(request.body)


def body_of(model: Any, *messages: Any, **kwargs: Any) -> Any:
    return posted(model, *messages, **kwargs)[1]


# -- calls ----------------------------------------------------------------------------------------------------------


def test_a_call():
    with Loopback(Answer(body=answer(text("hello")))) as server:
        model = model_at(server, temperature=0)
        said = model.invoke([SystemMessage("Be brief."), HumanMessage("hi")])
        model.close()
        [got] = server.requests
    assert said.content == "hello"
    assert said.id is not None
    assert said.response_metadata["provider"] == "anthropic"
    assert got.path == "/v1/messages"
    assert got.json == {
        "model": MODEL,
        "max_tokens": 32_000,
        "temperature": 0,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "hi"}],
    }
    assert got.headers["x-api-key"] == KEY
    assert got.headers["anthropic-version"] == "2023-06-01"
    assert "anthropic-beta" not in got.headers
    assert got.headers["user-agent"].startswith("loopwright/")


async def test_a_call_on_a_loop():
    with Loopback(Answer(body=answer(text("hello")))) as server:
        model = model_at(server)
        assert (await model.ainvoke("hi")).content == "hello"
        await model.aclose()


def test_a_stream():
    with Loopback(Answer(pieces=WORDS)) as server:
        model = model_at(server)
        chunks = list(model.stream("hi"))
        model.close()
        [got] = server.requests
    assert [chunk.content for chunk in chunks] == ["Hel", "lo", ""]
    assert len({chunk.id for chunk in chunks}) == 1
    assert merge_chunks(chunks).usage_metadata == {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    assert got.json["stream"] is True
    assert got.headers["accept"] == "text/event-stream"


async def test_a_stream_on_a_loop():
    with Loopback(Answer(pieces=WORDS)) as server:
        model = model_at(server)
        assert [chunk.content async for chunk in model.astream("hi")] == ["Hel", "lo", ""]
        await model.aclose()


def test_each_token_is_there_before_the_next_is_sent():
    go_on = threading.Event()
    with Loopback(Answer(pieces=[*WORDS[:3], go_on, *WORDS[3:]])) as server:
        model = model_at(server)
        chunks = model.stream("hi")
        assert next(chunks).content == "Hel"
        go_on.set()
        assert [chunk.content for chunk in chunks] == ["lo", ""]
        model.close()


@pytest.mark.shows("anthropic", "reasoning")
def test_an_agent_thinks_calls_and_answers():
    """The thought goes back signed with the result of the call."""
    thought = {"type": "thinking", "thinking": "I need it.", "signature": "abc"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}

    def weather(city: str) -> str:
        """The weather in a city."""
        return f"Snow in {city}."

    first, then = answer(thought, call, reason="tool_use"), answer(text("Snow."))
    with Loopback(Answer(body=first), Answer(body=then)) as server:
        model = model_at(server)
        result = create_agent(model, tools=[weather]).invoke({"messages": [HumanMessage("Oslo?")]})
        model.close()
        asked = [request.json for request in server.requests]
    assert result["messages"][-1].text == "Snow."
    assert asked[0]["messages"] == asked[1]["messages"][:1]
    assert asked[0]["tools"] == asked[1]["tools"]
    assert asked[1]["messages"][1:] == [
        {"role": "assistant", "content": [thought, call]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Snow in Oslo."}],
        },
    ]


class City(BaseModel):
    """A city."""

    name: str
    size: int


def test_answers_that_are_data():
    json_answer = answer(text('{"name": "Oslo", "size": 700}'))
    call = {"type": "tool_use", "id": "toolu_1", "name": "City", "input": {"name": "Oslo", "size": 700}}
    with Loopback(Answer(body=json_answer), Answer(body=answer(call)), Answer(body=json_answer)) as server:
        model = model_at(server)
        by_schema = model.with_structured_output(City, method="json_schema").invoke("?")
        by_tool = model.with_structured_output(City, method="function_calling").invoke("?")
        agent = create_agent(model, response_format=City).invoke({"messages": [HumanMessage("?")]})
        model.close()
        asked = [request.json for request in server.requests]
    assert by_schema == by_tool == agent["structured_response"] == City(name="Oslo", size=700)
    schema = asked[0]["output_config"]["format"]
    assert schema["type"] == "json_schema"
    assert schema["schema"]["additionalProperties"] is False
    assert asked[1]["tool_choice"] == {"type": "any"}
    assert asked[1]["tools"][0]["name"] == "City"
    assert asked[2]["output_config"]["format"]["schema"] == schema["schema"]


# -- what is sent ---------------------------------------------------------------------------------------------------


def test_settings_are_sent_if_they_were_set():
    model = made(
        max_tokens=100,
        temperature=0.5,
        top_p=0.9,
        top_k=5,
        thinking={"type": "adaptive"},
        effort="high",
        output_config={"task_budget": {"type": "tokens", "total": 20_000}},
        stop_sequences=["END"],
        container="c",
        service_tier="auto",
        inference_geo="us",
        model_kwargs={"metadata": {"user_id": "u"}},
        extra_body={"top_k": 6},
    )
    assert body_of(model) == {
        "model": MODEL,
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 6,
        "thinking": {"type": "adaptive"},
        "container": "c",
        "service_tier": "auto",
        "inference_geo": "us",
        "stop_sequences": ["END"],
        "output_config": {"task_budget": {"type": "tokens", "total": 20_000}, "effort": "high"},
        "messages": [{"role": "user", "content": "hi"}],
        "metadata": {"user_id": "u"},
    }


def test_what_the_call_says_wins():
    model = made(temperature=0.5, stop="a", max_tokens=5, effort="low")
    body = body_of(model, stop=["b"], temperature=1, max_tokens=7, effort="high", ls_provider="x", top_k=None)
    assert (body["temperature"], body["stop_sequences"], body["max_tokens"]) == (1, ["b"], 7)
    assert body["output_config"] == {"effort": "high"}
    assert not {"ls_provider", "top_k", "stop"} & set(body)
    assert body_of(model)["stop_sequences"] == ["a"]


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


def test_tools():
    body = body_of(made(parallel_tool_calls=False), tools=[TOOL], tool_choice="f")
    assert body["tools"] == [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]
    assert body["tool_choice"] == {"type": "tool", "name": "f", "disable_parallel_tool_use": True}
    thinking = {"type": "enabled", "budget_tokens": 2000}
    assert body_of(made(thinking=thinking), tools=[TOOL], tool_choice="any")["tool_choice"] == {"type": "auto"}
    assert "tool_choice" not in body_of(made(), tool_choice="any")


def test_binding_tools():
    bound: Any = made().bind_tools([TOOL], tool_choice="any", strict=True)
    body = body_of(bound.bound, **bound.kwargs)
    assert body["tools"][0]["strict"] is True
    assert body["tool_choice"] == {"type": "any"}
    with pytest.raises(errors.UsageError, match="names no tool of this call"):
        made().bind_tools([TOOL], tool_choice="g")


def test_betas_are_found_in_what_needs_them():
    def betas(model: ChatAnthropic, *messages: Any, **kwargs: Any) -> str | None:
        return posted(model, *messages, **kwargs)[0].get("anthropic-beta")

    assert betas(made()) is None
    assert betas(made(betas=["x"]), tools=[{"type": "web_fetch_20250910", "name": "web_fetch"}]) == (
        "x,web-fetch-2025-09-10"
    )
    servers = [{"type": "url", "url": "https://x", "name": "x"}]
    assert betas(made(mcp_servers=servers, betas=["mcp-client-2025-11-20"])) == "mcp-client-2025-11-20"
    file = HumanMessage([{"type": "file", "file_id": "file_1"}])
    assert betas(made(), file) == "files-api-2025-04-14"
    assert betas(made(), betas=["y"]) == "y"


@pytest.mark.shows("anthropic", "prompt cache marks")
def test_prompt_caching():
    """Two turns: the marks move on, and but for them the second begins as the first did."""
    model = made(prompt_caching=True)
    mark = {"type": "ephemeral"}
    history = [SystemMessage("s"), HumanMessage("a")]
    first = body_of(model, *history, tools=[TOOL])
    assert first["tools"][-1]["cache_control"] == mark
    assert first["system"] == [{**text("s"), "cache_control": mark}]
    assert first["messages"] == [{"role": "user", "content": [{**text("a"), "cache_control": mark}]}]
    second = body_of(model, *history, AIMessage("b"), HumanMessage("c"), tools=[TOOL])
    assert second["messages"][0] == {"role": "user", "content": "a"}
    assert second["messages"][-1]["content"] == [{**text("c"), "cache_control": mark}]
    assert (second["tools"], second["system"]) == (first["tools"], first["system"])
    assert "cache_control" not in json.dumps(body_of(model, prompt_caching=False))
    hour = body_of(made(), prompt_caching="1h")["messages"][0]["content"][0]["cache_control"]
    assert hour == {"type": "ephemeral", "ttl": "1h"}


def test_the_providers_own_caching():
    assert body_of(made(), cache_control={"type": "ephemeral"})["cache_control"] == {"type": "ephemeral"}


def test_later_system_messages_by_what_the_model_takes():
    history = [HumanMessage("a"), SystemMessage("b")]
    assert body_of(made(), *history)["system"] == "b"
    assert body_of(made(model="claude-opus-4-8"), *history)["messages"][1] == {"role": "system", "content": [text("b")]}


def test_the_content_in_the_standard_form():
    """`output_version="v1"`, streamed and not, and it goes back as it came."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "abc"}
    pieces = [
        BEGIN,
        start(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="abc"),
        start(1, "text", text=""),
        delta(1, "text_delta", text="4"),
        END,
    ]
    with Loopback(Answer(body=answer(thought, text("4"))), Answer(pieces=pieces)) as server:
        model = model_at(server, output_version="v1")
        plain, streamed = model.invoke("hi"), model.model_copy(update={"streaming": True}).invoke("hi")
        model.close()
    assert plain.content == [{"type": "reasoning", "reasoning": "hm", "extras": {"signature": "abc"}}, text("4")]
    assert streamed.content == plain.content
    assert body_of(model, HumanMessage("hi"), plain, HumanMessage("b"))["messages"][1]["content"] == [
        thought,
        text("4"),
    ]


async def test_a_function_that_authorises_each_request():
    seen: list[Any] = []

    def auth(method: str, url: str, headers: dict[str, str], body: bytes) -> dict[str, str]:
        seen.append((method, url, headers["content-type"], json.loads(body)["stream"] if b"stream" in body else False))
        return {"authorization": f"Bearer token-number-{len(seen)}"}

    refused = Answer(401, failed("authentication_error", "no token-number-3"))
    with Loopback(Answer(body=answer(text("hello"))), Answer(pieces=WORDS), refused) as server:
        model = ChatAnthropic(model=MODEL, base_url=f"http://127.0.0.1:{server.port}", auth=auth)
        assert model.invoke("hi").content == "hello"
        assert [chunk.content async for chunk in model.astream("hi")] == ["Hel", "lo", ""]
        with pytest.raises(errors.AuthenticationError) as caught:
            await model.ainvoke("hi")
        await model.aclose()
        model.close()
        tokens = [request.headers["authorization"] for request in server.requests]
    url = f"{model.base_url}/v1/messages"
    assert seen[:2] == [("POST", url, "application/json", False), ("POST", url, "application/json", True)]
    assert tokens == [f"Bearer token-number-{number}" for number in (1, 2, 3)]
    assert "x-api-key" not in server.requests[0].headers
    assert "token-number" not in repr(model)
    assert "token-number" not in f"{caught.value} {caught.value.body}"
    assert made(api_key=None, auth=auth).api_key is None


# -- making one -----------------------------------------------------------------------------------------------------


def test_a_missing_key_names_the_variable_when_the_model_is_made():
    with pytest.raises(errors.UsageError, match=r"no key for anthropic: set ANTHROPIC_API_KEY"):
        ChatAnthropic(model=MODEL)
    assert ChatAnthropic(model=MODEL, base_url="http://localhost:8080").api_key is None
    assert made(api_key="", default_headers={"Authorization": "Bearer t"}).api_key is None


def test_where_a_key_comes_from(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", " sk-env \n")
    assert posted(ChatAnthropic(model=MODEL))[0]["x-api-key"] == "sk-env"
    assert posted(made(api_key=lambda: "sk-made"))[0]["x-api-key"] == "sk-made"
    assert posted(made(api_key=SecretStr("sk-hidden")))[0]["x-api-key"] == "sk-hidden"
    with pytest.raises(errors.UsageError, match="no key"):
        ChatAnthropic(model=MODEL, base_url="https://other.example")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://gateway.example/anthropic/")
    model = ChatAnthropic(model=MODEL)
    assert model.base_url == "https://gateway.example/anthropic"
    assert posted(model)[0]["x-api-key"] == "sk-env"


@pytest.mark.parametrize("given", ["https://x.example/v1/messages", "https://x.example/v1/", "https://x.example"])
def test_addresses(given: str):
    request = made(base_url=given)._request([HumanMessage("hi")], None, {}, streamed=False)
    assert request.url == "https://x.example/v1/messages"


def test_other_spellings():
    fields: Any = {
        "model_name": MODEL,
        "anthropic_api_key": KEY,
        "anthropic_api_url": "https://x.example",
        "max_tokens_to_sample": 5,
        "default_request_timeout": 3,
        "stop_sequences": ["a"],
    }
    model = ChatAnthropic(**fields)
    assert (model.model, model.model_name, model.max_tokens, model.timeout, model.stop) == (MODEL, MODEL, 5, 3, ["a"])


def test_fields_that_are_wrong():
    with pytest.raises(errors.UsageError, match=r"no field 'temprature'\. Did you mean temperature"):
        made(temprature=1)
    with pytest.raises(errors.UsageError, match="needs the name of a model"):
        ChatAnthropic(api_key=KEY)  # pyright: ignore[reportCallIssue]
    with pytest.raises(errors.UsageError, match="must begin with https://"):
        made(base_url="api.anthropic.com")
    with pytest.raises(errors.UsageError, match="prompt_caching is"):
        made(prompt_caching="2h")


@pytest.mark.shows("anthropic", "profile")
def test_what_a_model_can_do():
    profile = made().profile
    assert profile is not None
    assert profile["max_input_tokens"] == 200_000
    assert made(model="qwen3").profile is None
    assert made(profile={"tool_calling": False}).profile == {"tool_calling": False}


def test_pickles_and_copies():
    model = made(temperature=1)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model.model_copy(update={"top_k": 2})):
        assert other.temperature == 1
        assert posted(other)[0]["x-api-key"] == KEY


# -- when it fails --------------------------------------------------------------------------------------------------


@pytest.mark.shows("anthropic", "errors mapped")
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (400, "invalid_request_error", errors.BadRequestError),
        (401, "authentication_error", errors.AuthenticationError),
        (402, "billing_error", errors.RateLimitError),
        (403, "permission_error", errors.PermissionDeniedError),
        (404, "not_found_error", errors.NotFoundError),
        (413, "request_too_large", errors.BadRequestError),
        (429, "rate_limit_error", errors.RateLimitError),
        (500, "api_error", errors.ServerError),
        (504, "timeout_error", errors.ServerError),
        (529, "overloaded_error", errors.ServerError),
    ],
)
def test_errors_have_the_providers_sentence(status: int, kind: str, error: type[errors.ModelError], streamed: bool):
    with Loopback(Answer(status, failed(kind, "that was wrong"), {"retry-after": "7"})) as server:
        model = model_at(server, max_retries=0)
        with pytest.raises(error, match="that was wrong") as caught:
            list(model.stream("hi")) if streamed else model.invoke("hi")
        model.close()
    assert (caught.value.status_code, caught.value.code, caught.value.retry_after) == (status, kind, 7)


def test_a_prompt_that_is_too_long():
    words = "prompt is too long: 210000 tokens > 200000 maximum"
    with Loopback(Answer(400, failed("invalid_request_error", words))) as server:
        model = model_at(server)
        with pytest.raises(errors.ContextLengthError, match="210000 tokens"):
            model.invoke("hi")
        model.close()


@pytest.mark.parametrize("status", [429, 500, 529])
def test_what_may_pass_is_tried_again(status: int):
    refused = Answer(status, failed("overloaded_error", "later"), {"retry-after": "0"})
    with Loopback(refused, Answer(body=answer(text("hello")))) as server:
        model = model_at(server)
        assert model.invoke("hi").content == "hello"
        model.close()
        assert len(server.requests) == 2


@pytest.mark.shows("anthropic", "cut mid-stream")
def test_a_stream_that_has_begun_is_not_tried_again():
    for pieces, error in (
        ([*WORDS[:3], b'event: error\ndata: {"error": {"message": "Overloaded"}}\n\n'], errors.StreamError),
        (WORDS[:3], errors.ModelConnectionError),
    ):
        with Loopback(Answer(pieces=pieces, cut=error is errors.ModelConnectionError)) as server:
            model = model_at(server)
            said: list[Any] = []
            with pytest.raises(error):
                said.extend(chunk.content for chunk in model.stream("hi"))
            model.close()
            assert len(server.requests) == 1


def test_a_key_is_not_carried_to_another_host():
    elsewhere: list[Request] = []

    def answered(request: Request) -> Answer:
        elsewhere.append(request)
        return Answer(body=answer(text("hello")))

    with Loopback(answered) as other:
        moved = Answer(307, headers={"location": f"http://localhost:{other.port}/v1/messages"})
        with Loopback(moved) as server:
            model = model_at(server, max_retries=0)
            with pytest.raises(errors.ModelError, match="307"):
                model.invoke("hi")
            model.close()
    assert elsewhere == []


def test_the_key_is_nowhere(caplog: pytest.LogCaptureFixture):
    """Not in what is printed, dumped or logged, nor in an error, though the provider echoes it."""
    caplog.set_level(logging.DEBUG)
    own, token = "other-secret-5678", "mcp-secret-9012"
    refused = Answer(401, failed("authentication_error", f"wrong: {KEY}, {own}, {token}"))
    servers = [{"type": "url", "url": "https://x", "name": "x", "authorization_token": token}]
    with Loopback(Answer(503, headers={"retry-after": "0"}), refused) as server:
        model = model_at(server, default_headers={"X-Token": own}, mcp_servers=servers)
        with pytest.raises(errors.AuthenticationError, match="ANTHROPIC_API_KEY") as caught:
            model.invoke("hi")
        model.close()
        assert server.requests[0].headers["x-token"] == own
        assert server.requests[0].json["mcp_servers"] == servers
    error = caught.value
    seen = [
        repr(model),
        repr(model.model_dump()),
        model.model_dump_json(),
        repr(model._identifying_params),
        repr(model._request([HumanMessage("hi")], None, {}, streamed=False).headers),
        f"{error} {error!r} {error.body!r} {error.__cause__!r} {error.__context__!r}",
        caplog.text,
    ]
    for shown in seen:
        assert not [secret for secret in (KEY, own, token) if secret in shown]


# -- what it costs --------------------------------------------------------------------------------------------------


def test_making_a_model_imports_no_http_and_no_other_format():
    program = (
        "import sys; from loopwright.models.anthropic import ChatAnthropic\n"
        f"ChatAnthropic(model='{MODEL}', api_key='k')\n"
        "loaded = ('httpx2', 'ssl', 'http.client', 'anthropic', 'botocore', 'loopwright.models.openai_chat')\n"
        "print([name for name in loaded if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
