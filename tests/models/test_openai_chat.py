"""`ChatOpenAI` as users make and call it, against a real server."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import pickle
import subprocess
import sys
import threading
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel, SecretStr

from loopwright import errors
from loopwright.messages import HumanMessage, SystemMessage, ToolMessage, merge_chunks
from loopwright.models.http import Timeouts
from loopwright.models.openai_chat import ChatOpenAI
from loopwright.models.openai_chat.dialect import Dialect
from loopwright.models.settings import timeouts_of
from tests.models.loopback import Answer, Loopback, chat_answer, chat_event, chat_stream

KEY = "sk-very-secret-1234"
TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture(autouse=True)
def no_keys_of_this_machine(monkeypatch: pytest.MonkeyPatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "DEEPSEEK_API_KEY", "AZURE_OPENAI_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


def model_at(server: Loopback, **fields: Any) -> ChatOpenAI:
    return ChatOpenAI(model="m", api_key=KEY, base_url=server.url, **fields)


def made(**fields: Any) -> ChatOpenAI:
    """With fields that a type checker would refuse."""
    return ChatOpenAI(**fields)


def body_of(model: Any, *messages: Any, stop: list[str] | None = None, streamed: bool = False, **kwargs: Any) -> Any:
    """The JSON that a call would post."""
    request = model._request(list(messages) or [HumanMessage("hi")], stop, kwargs, streamed=streamed)
    return json.loads(request.body)


# -- calls ----------------------------------------------------------------------------------------------------------


def test_a_call():
    with Loopback(Answer(body=chat_answer("hello"))) as server:
        model = model_at(server, temperature=0)
        answer = model.invoke([SystemMessage("Be brief."), HumanMessage("hi")])
        model.close()
        [got] = server.requests
    assert answer.content == "hello"
    assert answer.id is not None
    assert answer.response_metadata["provider"] == "openai"
    assert got.path == "/v1/chat/completions"
    assert got.json == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "temperature": 0,
    }
    assert got.headers["authorization"] == f"Bearer {KEY}"
    assert got.headers["content-type"] == "application/json"
    assert got.headers["user-agent"].startswith("loopwright/")


async def test_a_call_on_a_loop():
    with Loopback(Answer(body=chat_answer("hello"))) as server:
        model = model_at(server)
        assert (await model.ainvoke("hi")).content == "hello"
        await model.aclose()


def test_a_stream():
    with Loopback(Answer(pieces=chat_stream("Hel", "lo"))) as server:
        model = model_at(server)
        chunks = list(model.stream("hi"))
        model.close()
        [got] = server.requests
    assert [chunk.content for chunk in chunks] == ["Hel", "lo", ""]
    assert chunks[-1].usage_metadata == {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    assert len({chunk.id for chunk in chunks}) == 1
    assert got.json["stream"] is True
    assert got.json["stream_options"] == {"include_usage": True}
    assert got.headers["accept"] == "text/event-stream"


async def test_a_stream_on_a_loop():
    with Loopback(Answer(pieces=chat_stream("Hel", "lo"))) as server:
        model = model_at(server)
        chunks = [chunk async for chunk in model.astream("hi")]
        await model.aclose()
    assert merge_chunks(chunks).text == "Hello"


def test_each_token_is_there_before_the_next_is_sent():
    more = threading.Event()
    pieces = [chat_event(content="a"), more, chat_event(content="b"), chat_event(finish="stop")]
    with Loopback(Answer(pieces=pieces)) as server:
        model = model_at(server)
        stream = model.stream("hi")
        assert next(stream).content == "a"
        more.set()
        assert [chunk.content for chunk in stream] == ["b", ""]
        model.close()


async def test_leaving_a_stream_early_hangs_up():
    hung_up = threading.Event()
    pieces = [chat_event(content="a"), "until hangup"]
    with Loopback(Answer(pieces=pieces, on_hangup=hung_up)) as server:
        model = model_at(server)
        for chunk in model.stream("hi"):
            assert chunk.content == "a"
            break
        assert hung_up.wait(5)
        hung_up.clear()
        stream = model.astream("hi")
        async for _ in stream:
            break
        await stream.aclose()  # type: ignore[attr-defined]
        assert await asyncio.to_thread(hung_up.wait, 5)
        model.close()
        await model.aclose()


def test_a_json_answer_to_a_stream():
    with Loopback(Answer(body=chat_answer("hello"))) as server:
        model = model_at(server)
        assert [(chunk.content, chunk.chunk_position) for chunk in model.stream("hi")] == [("hello", "last")]
        model.close()


def test_every_call_as_a_stream():
    with Loopback(Answer(pieces=chat_stream("Hel", "lo"))) as server:
        model = model_at(server, streaming=True)
        assert model.invoke("hi").content == "Hello"
        assert asyncio.run(model.ainvoke("hi")).content == "Hello"
        model.close()
        assert all(got.json["stream"] for got in server.requests)


def test_B21_the_next_turn_is_the_same_after_a_stream_and_after_a_call():
    """Calls before text, in one history."""
    call = {"id": "call_abc", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    events = [
        chat_event(tool_calls=[{"index": 0, **call}]),
        chat_event(content="Let me check the weather."),
        chat_event(finish="tool_calls"),
        b"data: [DONE]\n\n",
    ]
    plain = chat_answer("Let me check the weather.", finish="tool_calls", tool_calls=[call])
    bodies: list[Any] = []
    for first in (Answer(pieces=events), Answer(body=plain)):
        with Loopback(first, Answer(body=chat_answer("Sunny."))) as server:
            model = model_at(server, streaming=first.pieces is not None)
            question = HumanMessage("Weather?")
            answer = model.invoke([question])
            model.streaming = False
            model.invoke([question, answer, ToolMessage("72F", tool_call_id="call_abc"), HumanMessage("Sure?")])
            model.close()
            bodies.append(server.requests[1].json["messages"])
    assert bodies[0] == bodies[1]
    assert [message["role"] for message in bodies[0]] == ["user", "assistant", "tool", "user"]


def test_several_answers():
    answer = chat_answer("one")
    answer["choices"].append({"index": 1, "message": {"content": "two"}, "finish_reason": "stop"})
    with Loopback(Answer(body=answer)) as server:
        model = model_at(server, n=2)
        assert model.invoke("hi").content == "one"
        result = model._generate([HumanMessage("hi")])
        model.close()
        assert server.requests[0].json["n"] == 2
    assert [generation.text for generation in result.generations] == ["one", "two"]


# -- the body -------------------------------------------------------------------------------------------------------


def test_settings_are_sent_if_they_were_set():
    assert body_of(ChatOpenAI(model="m", api_key=KEY)).keys() == {"model", "messages"}
    model = ChatOpenAI(
        model="m",
        api_key=KEY,
        temperature=0.5,
        top_p=0.9,
        seed=7,
        stop="END",
        presence_penalty=1,
        frequency_penalty=2,
        logit_bias={"1": 2},
        logprobs=True,
        top_logprobs=3,
        reasoning_effort="low",
        verbosity="low",
        service_tier="flex",
        user="u",
        model_kwargs={"store": True},
        extra_body={"thinking": {"type": "enabled"}},
    )
    body = body_of(model)
    del body["messages"]
    assert body == {
        "model": "m",
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "stop": "END",
        "presence_penalty": 1,
        "frequency_penalty": 2,
        "logit_bias": {"1": 2},
        "logprobs": True,
        "top_logprobs": 3,
        "reasoning_effort": "low",
        "verbosity": "low",
        "service_tier": "flex",
        "user": "u",
        "store": True,
        "thinking": {"type": "enabled"},
    }


def test_what_the_call_says_wins():
    model = ChatOpenAI(model="m", api_key=KEY, temperature=0.5, stop=["A"], seed=1, model_kwargs={"x": 1})
    body = body_of(model, temperature=1, seed=2, x=2, stop=["B"], extra_body={"x": 3}, ls_format=1, stream=True, y=None)
    assert (body["temperature"], body["seed"], body["x"], body["stop"]) == (1, 2, 3, ["B"])
    assert body.keys() == {"model", "messages", "temperature", "seed", "x", "stop"}


def test_the_limit_of_tokens_under_the_name_that_the_provider_knows():
    openai = ChatOpenAI(model="m", api_key=KEY, max_tokens=5)
    assert body_of(openai)["max_completion_tokens"] == 5
    assert body_of(openai, max_tokens=6)["max_completion_tokens"] == 6
    other = made(model="m", api_key=KEY, max_completion_tokens=5, base_url="https://x.test/v1")
    assert body_of(other)["max_tokens"] == 5
    assert body_of(other, max_completion_tokens=6)["max_tokens"] == 6


def test_dialects():
    mistral = ChatOpenAI(model="m", api_key=KEY, provider="mistral", seed=7)
    body = body_of(mistral, streamed=True, tools=[TOOL], tool_choice="any")
    assert (body["random_seed"], body["tool_choice"], "stream_options" in body) == (7, "any", False)
    own = ChatOpenAI(model="m", api_key=KEY, base_url="https://x.test/v1", dialect=Dialect(required=None))
    assert body_of(own, tools=[TOOL], tool_choice="any")["tool_choice"] == "auto"
    deepseek = ChatOpenAI(model="m", api_key=KEY, base_url="https://api.deepseek.com", parallel_tool_calls=False)
    assert "parallel_tool_calls" not in body_of(deepseek, tools=[TOOL])
    quiet = ChatOpenAI(model="m", api_key=KEY, stream_usage=False)
    assert "stream_options" not in body_of(quiet, streamed=True)


def test_tools():
    model = ChatOpenAI(model="m", api_key=KEY, parallel_tool_calls=False)
    body = body_of(model, tools=[TOOL], tool_choice="f", strict=True)
    assert body["tools"][0]["function"]["strict"] is True
    assert body["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert body["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in body_of(model)
    assert "tool_choice" not in body_of(model, tools=[], tool_choice="any")


def test_binding_tools():
    def search(query: str) -> str:
        """Search the web."""
        return query

    with Loopback(Answer(body=chat_answer())) as server:
        model = model_at(server)
        model.bind_tools([search], tool_choice="any", strict=True).invoke("hi")
        model.invoke("hi", tools=[search])
        model.close()
        [first, second] = (got.json for got in server.requests)
    assert first["tool_choice"] == "required"
    function = first["tools"][0]["function"]
    assert (function["name"], function["strict"]) == ("search", True)
    assert function["parameters"]["additionalProperties"] is False
    assert second["tools"][0]["function"]["name"] == "search"
    with pytest.raises(errors.UsageError, match="names no tool"):
        model.bind_tools([search], tool_choice="find")


class City(BaseModel):
    name: str


def test_structured_output_by_schema():
    with Loopback(Answer(body=chat_answer('{"name": "Paris"}'))) as server:
        model = model_at(server)
        assert model.with_structured_output(City, method="json_schema").invoke("hi") == City(name="Paris")
        assert model.invoke("hi", response_format=City).content == '{"name": "Paris"}'
        model.close()
        sent = [got.json["response_format"] for got in server.requests]
    for one in sent:
        assert one["json_schema"]["strict"] is True
        assert one["json_schema"]["schema"]["additionalProperties"] is False


@pytest.mark.shows("openai-chat", "openai-responses", "profile")
def test_what_a_model_can_do():
    def profile(model: str) -> Any:
        return ChatOpenAI(model=model, api_key=KEY).profile

    assert profile("gpt-4o-mini")["max_input_tokens"] == 128_000
    assert profile("gpt-5")["reasoning_output"] is True
    assert ChatOpenAI(model="gpt-5", api_key=KEY, use_responses_api=True).profile == profile("gpt-5")
    assert (profile("gpt-5")["max_input_tokens"], "max_input_tokens" in profile("gpt-5.9")) == (272_000, False)
    assert [profile(name)["structured_output"] for name in ("gpt-3.5-turbo", "gpt-4", "gpt-4.1")] == [
        False,
        False,
        True,
    ]
    assert profile("ft:mine") == {"structured_output": True, "tool_calling": True}
    assert ChatOpenAI(model="m", api_key=KEY, base_url="https://x.test/v1").profile is None
    assert ChatOpenAI(model="gpt-4o", api_key=KEY, profile={"x": 1}).profile == {"x": 1}


# -- making one -----------------------------------------------------------------------------------------------------


def test_a_missing_key_names_the_variable_when_the_model_is_made():
    with pytest.raises(errors.UsageError, match=r'no key for openai: set OPENAI_API_KEY, or .*ChatOpenAI\(.*api_key="'):
        ChatOpenAI(model="m")
    with pytest.raises(errors.UsageError, match="no key for deepseek: set DEEPSEEK_API_KEY"):
        ChatOpenAI(model="m", base_url="https://api.deepseek.com/v1")


def test_where_a_key_comes_from(monkeypatch: pytest.MonkeyPatch):
    def header(**fields: Any) -> str | None:
        request = ChatOpenAI(model="m", **fields)._request([HumanMessage("hi")], None, {}, streamed=False)
        return request.headers.get("authorization")

    assert header(api_key=f" {KEY}\n") == f"Bearer {KEY}"
    assert header(api_key=SecretStr(KEY)) == f"Bearer {KEY}"
    assert header(openai_api_key=KEY) == f"Bearer {KEY}"
    assert header(api_key=lambda: KEY) == f"Bearer {KEY}"
    assert header(api_key="", base_url="https://x.test/v1") is None
    assert header(base_url="http://localhost:8000/v1") is None
    assert header(default_headers={"Authorization": "Basic x"}) == "Basic x"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert header() == header(base_url="https://x.test/v1") == header(base_url="http://localhost/v1") == f"Bearer {KEY}"
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.deepseek.com/v1")
    assert header() == f"Bearer {KEY}"
    assert ChatOpenAI(model="m").provider == "deepseek"


def test_openais_key_is_not_sent_to_another_provider(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(errors.UsageError, match="DEEPSEEK_API_KEY"):
        ChatOpenAI(model="m", base_url="https://api.deepseek.com/v1")


def test_a_key_of_another_kind():
    class Secret:
        def get_secret_value(self) -> str:
            return KEY

    assert ChatOpenAI(model="m", api_key=Secret()).api_key.get_secret_value() == KEY
    with pytest.raises(errors.UsageError, match="not int"):
        ChatOpenAI(model="m", api_key=7)


@pytest.mark.parametrize("key", ["sk one", "sk-é", "sk\nx", "sk\x00x"])
def test_a_key_that_cannot_be_one_is_refused_without_being_shown(key: str):
    with pytest.raises(errors.UsageError) as caught:
        ChatOpenAI(model="m", api_key=key)
    assert key not in str(caught.value)
    model = ChatOpenAI(model="m", api_key=lambda: key)
    with pytest.raises(errors.UsageError) as caught:
        model.invoke("hi")
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", "https://api.openai.com/v1"),
        ("https://x.test/v1/", "https://x.test/v1"),
        ("https://x.test/v1/chat/completions", "https://x.test/v1"),
        (" https://x.test/v1 ", "https://x.test/v1"),
    ],
)
def test_addresses(given: str, kept: str):
    assert ChatOpenAI(model="m", api_key=KEY, base_url=given).base_url == kept


def test_addresses_that_are_none():
    with pytest.raises(errors.UsageError, match="must begin with https://"):
        ChatOpenAI(model="m", api_key=KEY, base_url="localhost:8000/v1")


def test_a_provider_is_known_by_its_address():
    def provider(url: str) -> str:
        return ChatOpenAI(model="m", api_key=KEY, base_url=url).provider

    assert provider("https://api.deepseek.com") == "deepseek"
    assert provider("https://api.moonshot.cn/v1") == "moonshot"
    assert provider("https://mine.openai.azure.com/openai/v1/") == "azure"
    assert provider("https://who.test/v1") == "openai"


def test_azure():
    model = ChatOpenAI(
        model="m", api_key=KEY, base_url="https://mine.openai.azure.com", default_query={"api-version": "v1"}
    )
    request = model._request([HumanMessage("hi")], None, {}, streamed=False)
    assert request.url == "https://mine.openai.azure.com/openai/v1/chat/completions?api-version=v1"
    assert (request.headers["api-key"], "authorization" in request.headers) == (KEY, False)
    with pytest.raises(errors.UsageError, match="give base_url= or set AZURE_OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT"):
        ChatOpenAI(model="m", provider="azure", api_key=KEY)


def test_a_local_server_by_its_host_alone():
    assert (
        ChatOpenAI(model="m", provider="ollama", base_url="http://10.0.0.7:11434").base_url
        == "http://10.0.0.7:11434/v1"
    )


def test_other_spellings():
    model = made(model_name="m", openai_api_key=KEY, openai_api_base="https://x.test/v1", request_timeout=3)
    assert (model.model, model.model_name, model.base_url, model.timeout) == ("m", "m", "https://x.test/v1", 3)
    assert made(model="m", api_key=KEY, stop_sequences=["A"]).stop == ["A"]
    assert made(model="m", api_key=KEY, use_responses_api=False).model == "m"


def test_fields_that_do_not_exist():
    with pytest.raises(errors.UsageError, match=r"no field 'temprature'. Did you mean temperature\? .*model_kwargs="):
        made(model="m", api_key=KEY, temprature=1)
    with pytest.raises(errors.UsageError, match="no field 'zzz'"):
        made(model="m", api_key=KEY, zzz=1)
    with pytest.raises(errors.UsageError, match="needs the name of a model"):
        made(api_key=KEY)


def test_a_subclass_with_fields_of_its_own():
    class Mine(ChatOpenAI):
        flavour: str = "plain"

    assert Mine(model="m", api_key=KEY, flavour="hot").flavour == "hot"


@pytest.mark.parametrize(
    ("timeout", "idle", "has_own", "wanted"),
    [
        (None, None, False, Timeouts()),
        (None, None, True, None),
        (None, 5, True, Timeouts(10.0, 600.0, 5.0)),
        (30, None, False, Timeouts(10.0, 30.0, 30.0)),
        (3, None, False, Timeouts(3.0, 3.0, 3.0)),
        (30, 5, False, Timeouts(10.0, 30.0, 5.0)),
        ((1, 30), None, False, Timeouts(1.0, 30.0, 30.0)),
        (float("inf"), None, False, Timeouts(10.0, None, None)),
        (httpx2.Timeout(7, connect=2), None, False, Timeouts(2.0, 7.0, 7.0)),
    ],
)
def test_timeouts(timeout: Any, idle: Any, has_own: bool, wanted: Any):
    assert timeouts_of(timeout, idle, has_own=has_own) == wanted


def test_a_timeout_that_is_none():
    with pytest.raises(errors.UsageError, match="must be seconds"):
        ChatOpenAI(model="m", api_key=KEY, timeout="soon").invoke("hi")


def test_a_timeout_in_use():
    forever = threading.Event()
    with Loopback(Answer(silent=forever)) as server:
        model = model_at(server, timeout=0.05)
        with pytest.raises(errors.ModelTimeoutError):
            model.invoke("hi")
        forever.set()
        model.close()


# -- copies ---------------------------------------------------------------------------------------------------------


def test_copies_share_connections_if_their_settings_allow():
    model = ChatOpenAI(model="m", api_key=KEY)
    wire = model._connected()
    assert model.model_copy(update={"temperature": 1})._connected() is wire
    changed = model.model_copy(update={"timeout": 3})
    assert changed._connected() is not wire
    assert model._connected() is wire
    model.max_retries = 7
    assert model._connected().max_retries == 7


def test_pickles_and_deep_copies():
    with Loopback(Answer(body=chat_answer())) as server:
        model = model_at(server)
        model.invoke("hi")
        for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            assert other.invoke("hi").content == "hi"
            other.close()
        model.close()


# -- errors and secrets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
def test_errors_have_the_providers_sentence(streamed: bool):
    refused = Answer(400, {"error": {"message": "Unsupported parameter: 'stop'.", "code": "unsupported_parameter"}})
    with Loopback(refused) as server:
        model = model_at(server)
        with pytest.raises(
            errors.BadRequestError, match=r"127.0.0.1:\d+ answered 400: Unsupported parameter: 'stop'"
        ) as caught:
            list(model.stream("hi")) if streamed else model.invoke("hi")
        model.close()
    assert (caught.value.status_code, caught.value.code) == (400, "unsupported_parameter")


def test_an_error_in_the_middle_of_a_stream():
    pieces = [chat_event(content="a"), b'data: {"error": {"message": "overloaded", "code": 503}}\n\n']
    with Loopback(Answer(pieces=pieces)) as server:
        model = model_at(server)
        stream = model.stream("hi")
        assert next(stream).content == "a"
        with pytest.raises(errors.StreamError, match="overloaded"):
            next(stream)
        model.close()
        assert len(server.requests) == 1


def test_a_stream_that_breaks_off():
    with Loopback(Answer(pieces=[chat_event(content="a")])) as server:
        model = model_at(server)
        with pytest.raises(errors.ModelConnectionError, match="ended before the answer did"):
            list(model.stream("hi"))
        model.close()


def test_the_key_is_nowhere(caplog: pytest.LogCaptureFixture):
    """Not in what is printed, dumped or logged, nor in an error, though the provider echoes it."""
    caplog.set_level(logging.DEBUG)
    own = "other-secret-5678"
    refused = Answer(401, {"error": {"message": f"Incorrect API key provided: {KEY}, {own}"}})
    with Loopback(Answer(503), refused) as server:
        model = model_at(server, default_headers={"X-Token": own}, organization="org")
        with pytest.raises(errors.AuthenticationError, match="OPENAI_API_KEY") as caught:
            model.invoke("hi")
        model.close()
        assert server.requests[0].headers["x-token"] == own
        assert server.requests[0].headers["openai-organization"] == "org"
    error = caught.value
    seen = [
        repr(model),
        str(model),
        repr(model.model_dump()),
        model.model_dump_json(),
        repr(model._identifying_params),
        repr(model.bind(stop=["x"])),
        repr(model._request([HumanMessage("hi")], None, {}, streamed=False)),
        f"{error} {error!r} {error.body!r} {error.__cause__!r} {error.__context__!r}",
        caplog.text,
    ]
    for text in seen:
        assert KEY not in text
        assert own not in text


def test_only_what_was_set_is_shown():
    assert repr(ChatOpenAI(model="m", api_key=KEY, temperature=1)) == (
        "ChatOpenAI(model='m', base_url='https://api.openai.com/v1', provider='openai', temperature=1.0)"
    )


# -- what it costs --------------------------------------------------------------------------------------------------


def test_making_a_model_imports_no_http():
    program = (
        "import sys; from loopwright.models.catalogue import init_chat_model\n"
        "assert 'pydantic' not in sys.modules and 'loopwright.models.openai_chat.model' not in sys.modules\n"
        "init_chat_model('openai:m', api_key='k')\n"
        "print([name for name in ('httpx2', 'ssl', 'http.client') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
