"""`ChatGoogleGenerativeAI` as users make and call it, against a real server."""

from __future__ import annotations

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
from loopwright.agents import create_agent
from loopwright.agents.structured_output import ProviderStrategy
from loopwright.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, merge_chunks
from loopwright.models.google import ChatGoogleGenerativeAI, ChatVertexAI
from tests.models.loopback import Answer, Loopback

KEY = "AIza-very-secret-1234"
VARIABLES = (
    "GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI",
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_keys_of_this_machine(monkeypatch: pytest.MonkeyPatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def answer(*parts: dict[str, Any], finish: str | None = "STOP", **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
        "modelVersion": "gemini-2.5-flash",
        "responseId": "r-1",
        **more,
    }


def text(words: str, finish: str | None = "STOP") -> dict[str, Any]:
    return answer({"text": words}, finish=finish)


def event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\r\n\r\n"


def model_at(server: Loopback, **fields: Any) -> ChatGoogleGenerativeAI:
    url = f"http://127.0.0.1:{server.port}/v1beta"
    return ChatGoogleGenerativeAI(**{"model": "gemini-2.5-flash", "api_key": KEY, "base_url": url, **fields})


def named(**fields: Any) -> ChatGoogleGenerativeAI:
    """Nothing but these fields."""
    return ChatGoogleGenerativeAI(**fields)


def made(**fields: Any) -> ChatGoogleGenerativeAI:
    """With fields that a type checker would refuse."""
    return ChatGoogleGenerativeAI(**{"model": "gemini-2.5-flash", "api_key": KEY, **fields})


def request_of(model: Any, *messages: Any, streamed: bool = False, **kwargs: Any) -> Any:
    stop = kwargs.pop("stop", None)
    return model._request(list(messages) or [HumanMessage("hi")], stop, kwargs, streamed=streamed)


def body_of(model: Any, *messages: Any, **kwargs: Any) -> Any:
    """The JSON that a call would post."""
    return json.loads(request_of(model, *messages, **kwargs).body)


def weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


# -- calls ----------------------------------------------------------------------------------------------------------


def test_a_call():
    with Loopback(Answer(body=text("hello"))) as server:
        model = model_at(server, temperature=0)
        got = model.invoke([SystemMessage("Be brief."), HumanMessage("hi")])
        model.close()
        [asked] = server.requests
    assert got.content == "hello"
    assert got.id is not None
    assert got.usage_metadata == {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    assert got.response_metadata == {
        "finish_reason": "stop",
        "raw_finish_reason": "STOP",
        "token_usage": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
        "model_name": "gemini-2.5-flash",
        "id": "r-1",
        "provider": "google",
        "host": server.url.partition("://")[2].partition("/")[0],
    }
    assert asked.path == "/v1beta/models/gemini-2.5-flash:generateContent"
    assert asked.json == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {"temperature": 0},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    }
    assert asked.headers["x-goog-api-key"] == KEY
    assert asked.headers["user-agent"].startswith("loopwright/")
    assert "authorization" not in asked.headers


async def test_a_call_on_a_loop():
    with Loopback(Answer(body=text("hello"))) as server:
        model = model_at(server)
        assert (await model.ainvoke("hi")).content == "hello"
        await model.aclose()


def test_a_stream():
    pieces = [event(text("Hel", None)), event(text("lo"))]
    with Loopback(Answer(pieces=pieces)) as server:
        model = model_at(server)
        chunks = list(model.stream("hi"))
        model.close()
        [asked] = server.requests
    assert [chunk.content for chunk in chunks] == ["Hel", "lo", ""]
    assert chunks[-1].usage_metadata == {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    assert len({chunk.id for chunk in chunks}) == 1
    assert asked.path == "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    assert asked.headers["accept"] == "text/event-stream"


async def test_a_stream_on_a_loop():
    with Loopback(Answer(pieces=[event(text("Hel", None)), event(text("lo"))])) as server:
        model = model_at(server)
        chunks = [chunk async for chunk in model.astream("hi")]
        await model.aclose()
    assert merge_chunks(chunks).text == "Hello"


def test_each_token_is_there_before_the_next_is_sent():
    more = threading.Event()
    pieces = [event(text("a", None)), more, event(text("b"))]
    with Loopback(Answer(pieces=pieces)) as server:
        model = model_at(server)
        stream = model.stream("hi")
        assert next(stream).content == "a"
        more.set()
        assert [chunk.content for chunk in stream] == ["b", ""]
        model.close()


def test_an_array_is_read_as_it_grows():
    more = threading.Event()
    first, second = (json.dumps(text(word, finish)).encode() for word, finish in (("a", None), ("b", "STOP")))
    with Loopback(Answer(pieces=[b"[" + first, more, b"\n,\r\n" + second, b"\n]\n"])) as server:
        model = model_at(server)
        stream = model.stream("hi")
        assert next(stream).content == "a"
        more.set()
        assert [chunk.content for chunk in stream] == ["b", ""]
        model.close()


def test_streaming_also_for_invoke():
    with Loopback(Answer(pieces=[event(text("a", None)), event(text("b"))])) as server:
        model = model_at(server, streaming=True)
        assert model.invoke("hi").content == "ab"
        model.close()


def test_your_own_client_is_used_and_left_open():
    with Loopback(Answer(body=text("hello"))) as server, httpx2.Client(headers={"x-mine": "1"}) as client:
        assert model_at(server, http_client=client).invoke("hi").content == "hello"
        assert server.requests[0].headers["x-mine"] == "1"
        assert not client.is_closed


# -- errors ---------------------------------------------------------------------------------------------------------


def fault(code: int, status: str, message: str, *details: Any) -> dict[str, Any]:
    return {"error": {"code": code, "status": status, "message": message, "details": list(details)}}


@pytest.mark.shows("google", "errors mapped")
@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        (400, "INVALID_ARGUMENT", errors.BadRequestError),
        (401, "UNAUTHENTICATED", errors.AuthenticationError),
        (403, "PERMISSION_DENIED", errors.PermissionDeniedError),
        (404, "NOT_FOUND", errors.NotFoundError),
        (429, "RESOURCE_EXHAUSTED", errors.RateLimitError),
        (500, "INTERNAL", errors.ServerError),
        (503, "UNAVAILABLE", errors.ServerError),
        (504, "DEADLINE_EXCEEDED", errors.ServerError),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_errors_say_whose_fault_it_is(code: int, status: str, kind: type[errors.ModelError], streamed: bool):
    body: Any = fault(code, status, f"Because of {KEY}.")
    with Loopback(Answer(code, [body] if streamed else body)) as server:  # a stream's error comes in a list
        model = model_at(server, max_retries=0)
        with pytest.raises(kind, match="Because of") as caught:
            list(model.stream("hi")) if streamed else model.invoke("hi")
        model.close()
    assert caught.value.status_code == code
    assert KEY not in f"{caught.value} {caught.value.body}"


def test_a_prompt_that_is_too_long():
    message = "The input token count exceeds the maximum number of tokens allowed (1048576)."
    with Loopback(Answer(400, fault(400, "INVALID_ARGUMENT", message))) as server:
        model = model_at(server)
        with pytest.raises(errors.ContextLengthError):
            model.invoke("hi")
        model.close()


def test_a_full_minute_is_waited_for():
    busy = fault(429, "RESOURCE_EXHAUSTED", "Quota exceeded.", {"@type": "RetryInfo", "retryDelay": "0.01s"})
    with Loopback(Answer(429, busy), Answer(body=text("hello"))) as server:
        model = model_at(server)
        assert model.invoke("hi").content == "hello"
        model.close()
        assert len(server.requests) == 2


def test_how_long_google_asks_to_wait():
    busy = fault(429, "RESOURCE_EXHAUSTED", "Quota exceeded.", {"@type": "Help"}, {"retryDelay": "36.5s"})
    for body in (busy, [busy]):
        with Loopback(Answer(429, body), Answer(429, body, {"retry-after": "7"})) as server:
            model = model_at(server, max_retries=0)
            with pytest.raises(errors.RateLimitError) as from_body:
                model.invoke("hi")
            with pytest.raises(errors.RateLimitError) as from_header:
                model.invoke("hi")
            model.close()
        assert (from_body.value.retry_after, from_header.value.retry_after) == (36.5, 7)


def test_an_error_inside_a_200():
    with Loopback(Answer(body=fault(503, "UNAVAILABLE", "Overloaded."))) as server:
        model = model_at(server, max_retries=0)
        with pytest.raises(errors.ServerError, match="Overloaded"):
            model.invoke("hi")
        model.close()


@pytest.mark.parametrize(
    "body", ["<html>hi</html>", "{}", '{"choices": []}', "[]", "[1]", "", "null", '{"candidates": 3}']
)
@pytest.mark.parametrize("streamed", [False, True])
def test_what_is_no_answer(body: str, streamed: bool):
    with Loopback(Answer(body=body)) as server:
        model = model_at(server, max_retries=0)
        with pytest.raises(errors.InvalidResponseError, match="base_url") as caught:
            list(model.stream("hi")) if streamed else model.invoke("hi")
        model.close()
    assert caught.value.status_code == 200


def test_a_redirect_does_not_carry_the_key_along():
    with Loopback(Answer(body=text("stolen"))) as other:
        away = Answer(307, b"", {"location": f"http://127.0.0.1:{other.port}/v1beta"})
        with Loopback(away) as server:
            model = model_at(server, max_retries=0)
            with pytest.raises(errors.ModelError):
                model.invoke("hi")
            model.close()
        assert other.requests == []


# -- what a user writes ---------------------------------------------------------------------------------------------


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GEMINI_API_KEY", "second")
    assert request_of(made(api_key=None)).headers["x-goog-api-key"] == "second"
    monkeypatch.setenv("GOOGLE_API_KEY", "first")
    assert request_of(made(api_key=None)).headers["x-goog-api-key"] == "first"
    assert request_of(named(model="m", google_api_key="given")).headers["x-goog-api-key"] == "given"


def test_no_key_is_told_when_the_model_is_made():
    with pytest.raises(errors.UsageError, match="GOOGLE_API_KEY or GEMINI_API_KEY"):
        made(api_key=None)


def test_a_key_is_asked_for_each_request():
    keys = iter(["one", "two"])
    model = made(api_key=lambda: next(keys))
    assert [request_of(model).headers["x-goog-api-key"] for _ in range(2)] == ["one", "two"]


def test_the_key_is_nowhere_to_be_seen(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    with Loopback(Answer(500, {"error": {"message": f"bad {KEY}"}}), Answer(body=text("hello"))) as server:
        model = model_at(server)
        model.invoke("hi")
        model.close()
    request = request_of(model)
    shown = f"{model!r} {model} {model.model_dump()} {request.headers!r} {request.url} {caplog.text}"
    assert KEY not in shown


def test_spellings():
    model = named(
        google_api_key=SecretStr(KEY), model_name="models/gemini-2.5-pro", max_tokens=5, stop_sequences=["x"],
        additional_headers={"X-Mine": "1"},
    )  # fmt: skip
    request = request_of(model)
    assert request.url.endswith("/models/gemini-2.5-pro:generateContent")
    assert request.headers["x-mine"] == "1"
    assert json.loads(request.body)["generationConfig"] == {"maxOutputTokens": 5, "stopSequences": ["x"]}


def test_a_field_that_does_not_exist():
    with pytest.raises(errors.UsageError, match="Did you mean thinking_budget"):
        made(thinking_budge=3)


def test_a_model_without_a_name():
    with pytest.raises(errors.UsageError, match='model="gemini'):
        named(api_key=KEY)


def test_all_settings():
    model = made(
        temperature=0.5, top_p=0.9, top_k=4, max_output_tokens=7, n=2, seed=1, presence_penalty=0.1,
        frequency_penalty=0.2, response_logprobs=True, logprobs=3, thinking_budget=128, include_thoughts=True,
        response_modalities=["TEXT", "IMAGE"], media_resolution="MEDIA_RESOLUTION_LOW",
        image_config={"aspectRatio": "1:1"}, speech_config={"languageCode": "de"},
        response_mime_type="application/json", response_schema={"type": "OBJECT"},
        safety_settings={"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"}, cached_content="cachedContents/1",
        labels={"team": "a"}, stop="end", model_kwargs={"serviceTier": "flex"}, extra_body={"store": False},
    )  # fmt: skip
    body = body_of(model)
    assert body.pop("contents") == [{"role": "user", "parts": [{"text": "hi"}]}]
    assert body == {
        "generationConfig": {
            "temperature": 0.5, "topP": 0.9, "topK": 4, "maxOutputTokens": 7, "candidateCount": 2, "seed": 1,
            "presencePenalty": 0.1, "frequencyPenalty": 0.2, "responseLogprobs": True, "logprobs": 3,
            "thinkingConfig": {"thinkingBudget": 128, "includeThoughts": True},
            "responseModalities": ["TEXT", "IMAGE"], "mediaResolution": "MEDIA_RESOLUTION_LOW",
            "imageConfig": {"aspectRatio": "1:1"}, "speechConfig": {"languageCode": "de"},
            "responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}, "stopSequences": ["end"],
        },
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        "cachedContent": "cachedContents/1",
        "labels": {"team": "a"},
        "serviceTier": "flex",
        "store": False,
    }  # fmt: skip


def test_a_call_has_the_last_word():
    model = made(temperature=0.5, stop="a", max_output_tokens=1)
    body = body_of(model, temperature=0, stop=["b"], max_tokens=9, reasoning_effort="low", extra_body={"x": 1})
    assert body["generationConfig"] == {
        "temperature": 0,
        "maxOutputTokens": 9,
        "stopSequences": ["b"],
        "thinkingConfig": {"thinkingLevel": "low"},
    }
    assert body["x"] == 1
    own = body_of(model, generation_config={"temperature": 1, "enableEnhancedCivicAnswers": True})
    assert own["generationConfig"]["temperature"] == 1
    assert own["generationConfig"]["enableEnhancedCivicAnswers"] is True


def test_addresses():
    assert made(base_url="https://proxy.example").base_url == "https://proxy.example/v1beta"
    assert made(base_url="https://proxy.example/google/").base_url == "https://proxy.example/google"
    with pytest.raises(errors.UsageError, match="https://"):
        made(base_url="proxy.example")
    assert request_of(made(model="tunedModels/mine")).url.endswith("/v1beta/tunedModels/mine:generateContent")


def test_a_copy_and_a_pickle_work():
    model = made(temperature=0)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), model.model_copy(update={"top_k": 3})):
        assert request_of(other).headers["x-goog-api-key"] == KEY


@pytest.mark.shows("google", "vertex", "profile")
def test_profiles():
    assert made().profile is not None
    flash, newest = made().profile, made(model="gemini-3-flash-preview").profile
    assert flash is not None
    assert newest is not None
    assert (flash["max_input_tokens"], flash["max_output_tokens"]) == (1_048_576, 65_536)
    assert (flash["tool_calling"], flash["image_inputs"], flash["reasoning_output"]) == (True, True, True)
    assert (flash["structured_output"], newest["structured_output"]) == (False, True)
    paints = made(model="gemini-2.5-flash-image").profile
    assert paints is not None
    assert (paints["image_outputs"], paints["tool_calling"]) == (True, False)
    assert made(project="p", api_key=lambda: "t").profile == flash
    assert made(model="gemini-2.5-flash-preview-tts").profile is None
    assert made(model="something-else").profile is None
    assert made(profile={"tool_calling": False}).profile == {"tool_calling": False}


def test_importing_it_brings_nothing_heavy():
    program = "from loopwright.models.google import ChatGoogleGenerativeAI; import sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    heavy = {
        "httpx2", "asyncio", "email", "logging", "socket", "ssl", "mimetypes", "loopwright.tools", "google",
        "loopwright.models.openai_chat", "loopwright.models.providers", "loopwright.agents",
    }  # fmt: skip
    assert heavy & set(loaded) == set()


# -- Vertex AI ------------------------------------------------------------------------------------------------------


def test_vertex_with_a_token():
    tokens = iter(["t-1", "t-2"])
    model = ChatVertexAI(model="gemini-2.5-flash", project="p-1", location="europe-west4", api_key=lambda: next(tokens))
    request = request_of(model)
    assert request.url == (
        "https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/p-1/locations/europe-west4/publishers/google"
        "/models/gemini-2.5-flash:generateContent"
    )
    assert request.headers["authorization"] == "Bearer t-1"
    assert request_of(model).headers["authorization"] == "Bearer t-2"
    assert "x-goog-api-key" not in request.headers
    assert request.peer.provider == "google-vertex"


def test_vertex_is_chosen_by_the_project(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "of the other API")
    url = request_of(made(project="p", api_key=lambda: "t")).url
    assert url.startswith("https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global/publishers/google/")
    with pytest.raises(errors.UsageError, match="bearer token"):
        made(project="p", api_key=None)
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "q")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "us-east1")
    assert "/projects/q/locations/us-east1/" in request_of(made(api_key=lambda: "t")).url


def test_credentials_are_a_function_here():
    with pytest.raises(errors.UsageError, match="api_key=token"):
        made(project="p", credentials=object())


def test_vertex_with_a_key_of_its_express_mode():
    request = request_of(made(vertexai=True))
    assert request.url == (
        "https://aiplatform.googleapis.com/v1beta1/publishers/google/models/gemini-2.5-flash:generateContent"
    )
    assert request.headers["x-goog-api-key"] == KEY


@pytest.mark.shows("vertex", "citations", "server tools", "refusals", "video in")
def test_vertex_says_what_gemini_says():
    search = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}, "id": "t-1"}}
    found = {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {}, "id": "t-1"}}
    grounded = answer(search, found, {"text": "Rain."})
    grounded["candidates"][0]["groundingMetadata"] = {
        "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}],
        "groundingSupports": [{"segment": {"endIndex": 5, "text": "Rain."}, "groundingChunkIndices": [0]}],
    }
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}}
    with Loopback(Answer(body=grounded), Answer(body=blocked)) as server:
        model = ChatVertexAI(model="gemini-2.5-flash", project="p", api_key=lambda: "t", base_url=server.url)
        video = {"type": "video", "url": "gs://bucket/rain.mp4"}
        said = model.bind_tools([{"google_search": {}}]).invoke([HumanMessage([video])])
        refused = model.invoke("Do it.")
        model.close()
    blocks: list[Any] = list(said.content_blocks)
    assert [block["type"] for block in blocks] == ["server_tool_call", "server_tool_result", "text"]
    assert [mark["url"] for mark in blocks[2]["annotations"]] == ["https://a.example"]
    assert refused.response_metadata["finish_reason"] == "content_filter"
    sent = server.requests[0].json
    assert sent["tools"] == [{"google_search": {}}]
    assert sent["contents"][0]["parts"] == [{"fileData": {"mimeType": "video/mp4", "fileUri": "gs://bucket/rain.mp4"}}]


def test_other_models_at_vertex():
    endpoint = "projects/p/locations/l/endpoints/7"
    assert request_of(made(vertexai=True, model=endpoint)).url.endswith(f"/v1beta1/{endpoint}:generateContent")
    other = made(project="p", model="publishers/meta/models/llama", api_key=lambda: "t")
    assert "/projects/p/locations/global/publishers/meta/models/llama:" in request_of(other).url


# -- structured output and agents -----------------------------------------------------------------------------------


class Place(BaseModel):
    city: str
    rating: int


def test_structured_output_by_schema():
    with Loopback(Answer(body=text('{"city": "Oslo", "rating": 4}'))) as server:
        model = model_at(server)
        got = model.with_structured_output(Place, method="json_schema").invoke("Where?")
        model.close()
        [asked] = server.requests
    assert got == Place(city="Oslo", rating=4)
    assert asked.json["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": {
            "properties": {"city": {"type": "string"}, "rating": {"type": "integer"}},
            "required": ["city", "rating"],
            "type": "object",
        },
    }


def test_structured_output_by_a_tool_and_by_words():
    call = answer({"functionCall": {"name": "Place", "args": {"city": "Oslo", "rating": 4}}})
    with Loopback(Answer(body=call), Answer(body=text('{"city": "Oslo", "rating": 4}'))) as server:
        model = model_at(server)
        assert model.with_structured_output(Place).invoke("Where?") == Place(city="Oslo", rating=4)
        assert model.with_structured_output(Place, method="json_mode").invoke("JSON!") == Place(city="Oslo", rating=4)
        model.close()
        first, second = server.requests
    assert first.json["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}
    assert second.json["generationConfig"] == {"responseMimeType": "application/json"}


@pytest.mark.shows("google", "reasoning", "server tools")
def test_an_agent_with_tools_and_a_schema():
    """A call without an id, its result by name and order, the signature back where it was, then the answer."""
    call = answer({"functionCall": {"name": "weather", "args": {"city": "Oslo"}}, "thoughtSignature": "c2ln"})
    with Loopback(Answer(body=call), Answer(body=text('{"city": "Oslo", "rating": 1}'))) as server:
        model = model_at(server, model="gemini-3-flash-preview")
        agent = create_agent(model, [weather, {"google_search": {}}], response_format=ProviderStrategy(Place))
        result = agent.invoke({"messages": [HumanMessage("How is Oslo?")]})
        model.close()
        first, second = server.requests
    assert result["structured_response"] == Place(city="Oslo", rating=1)
    assert [list(tool) for tool in first.json["tools"]] == [["functionDeclarations"], ["google_search"]]
    assert first.json["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert first.json["generationConfig"]["responseMimeType"] == "application/json"
    assert second.json["contents"][1:] == [
        {
            "role": "model",
            "parts": [{"functionCall": {"name": "weather", "args": {"city": "Oslo"}}, "thoughtSignature": "c2ln"}],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "weather", "response": {"output": "rain in Oslo"}}}],
        },
    ]


def test_ten_turns_have_one_beginning():
    """Each request begins with what the one before it said, byte for byte, so that the provider's cache holds."""
    model = made(temperature=0)
    tools = model.bind_tools([weather, Place, {"code_execution": {}}])
    messages: list[Any] = [SystemMessage("Be brief.")]
    before = b""
    for turn in range(10):
        messages.append(HumanMessage(f"question {turn}"))
        for step in range(2):
            body = model._request(messages, None, tools.kwargs, streamed=True).body  # type: ignore[attr-defined]
            assert body.startswith(before.removesuffix(b"]}"))
            assert len(body) > len(before)
            before = body
            if step == 0:
                calls = [{"name": "weather", "args": {"city": f"{turn}{n}"}, "id": f"made_{turn}{n}"} for n in range(2)]
                messages.append(AIMessage("", tool_calls=calls))
                messages += [ToolMessage("rain", tool_call_id=str(call["id"])) for call in reversed(calls)]
        messages.append(AIMessage(f"answer {turn}"))
