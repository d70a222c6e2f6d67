"""Embeddings: through a real socket, blocking and on a loop, and in the process."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopwright import errors
from loopwright.embeddings import (
    Embeddings,
    GoogleGenerativeAIEmbeddings,
    LocalEmbeddings,
    OpenAIEmbeddings,
    init_embeddings,
)
from loopwright.models.embeddings.openai import _vector
from tests.models.loopback import Answer, Loopback, Request

KEY = "sk-very-secret-1234"
WORLDS = pytest.mark.parametrize("world", ["blocking", "asyncio"])


def documents(model: Embeddings, texts: Any, world: str) -> Any:
    return model.embed_documents(texts) if world == "blocking" else asyncio.run(model.aembed_documents(texts))


def query(model: Embeddings, text: Any, world: str) -> Any:
    return model.embed_query(text) if world == "blocking" else asyncio.run(model.aembed_query(text))


def at(server: Loopback, **fields: Any) -> OpenAIEmbeddings:
    return OpenAIEmbeddings(api_key=KEY, base_url=server.url, max_retries=0, **fields)


def lengths(request: Request) -> Answer:
    """OpenAI's answer; the vector of a text is its length, and they come in the wrong order."""
    asked = request.json
    found = [
        {"object": "embedding", "index": index, "embedding": [float(len(text)), 1.0]}
        for index, text in enumerate(asked["input"])
    ]
    return Answer(body={"object": "list", "data": found[::-1], "model": asked["model"], "usage": {"prompt_tokens": 1}})


# -- OpenAI's format ------------------------------------------------------------------------------------------------


@pytest.mark.shows("openai-chat", "openai-compatible", "embeddings")
@WORLDS
def test_documents_go_in_batches_and_keep_their_order(world: str) -> None:
    with Loopback(lengths) as server:
        model = at(server, chunk_size=2, dimensions=2, user="ann")
        assert documents(model, ["a", "bb", "ccc"], world) == [[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]
        assert query(model, "dddd", world) == [4.0, 1.0]
        model.close()
    assert [request.json["input"] for request in server.requests] == [["a", "bb"], ["ccc"], ["dddd"]]
    first = server.requests[0]
    assert first.path == "/v1/embeddings"
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.json == {"model": "text-embedding-3-small", "input": ["a", "bb"], "dimensions": 2, "user": "ann"}


def test_no_texts_ask_nobody() -> None:
    with Loopback(lengths) as server:
        assert at(server).embed_documents([]) == []
    assert server.requests == []


@pytest.mark.shows("openai-chat", "embeddings")
def test_openai_itself_is_asked_for_base64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    asked = json.loads(OpenAIEmbeddings()._request(["a"], query=False).body)
    assert asked["encoding_format"] == "base64"
    assert "encoding_format" not in json.loads(
        OpenAIEmbeddings(model="embed", base_url="http://localhost:8000/v1")._request(["a"], query=False).body
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=8))
def test_base64_is_read_bit_for_bit(numbers: list[float]) -> None:
    packed = struct.pack(f"<{len(numbers)}f", *numbers)
    assert _vector(base64.b64encode(packed).decode()) == numbers


@pytest.mark.parametrize(
    "body",
    [
        b"not json",
        {"data": []},
        {"data": [{"index": 0}]},
        {"data": [{"index": 0, "embedding": []}]},
        {"data": [{"index": 0, "embedding": "not base64"}]},
        {"data": [{"index": 0, "embedding": "AAA="}]},
        {"data": [{"index": 0, "embedding": [None]}]},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0]}]},
        [],
    ],
)
def test_answers_without_vectors_are_errors(body: Any) -> None:
    with Loopback(Answer(body=body)) as server, pytest.raises(errors.InvalidResponseError):
        at(server).embed_query("a")


@WORLDS
@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, errors.AuthenticationError), (400, errors.BadRequestError), (500, errors.ServerError)],
)
def test_refusals_say_whose_fault_it_is(status: int, kind: type[errors.ModelError], world: str) -> None:
    with (
        Loopback(Answer(status, {"error": {"message": f"no {KEY}"}})) as server,
        pytest.raises(kind, match="no \\*\\*\\*") as caught,
    ):
        query(at(server), "a", world)
    assert KEY not in str(caught.value)


def test_an_error_inside_an_answer() -> None:
    answer = Answer(body={"error": {"message": "out of order"}})
    with Loopback(answer) as server, pytest.raises(errors.BadRequestError, match="out of order"):
        at(server).embed_query("a")


@WORLDS
def test_tried_again_when_it_may_pass(world: str) -> None:
    with Loopback(Answer(429, {}, {"retry-after-ms": "1"}), lengths) as server:
        model = OpenAIEmbeddings(api_key=KEY, base_url=server.url)
        assert query(model, "ab", world) == [2.0, 1.0]
        model.close()
    assert len(server.requests) == 2


def test_a_copy_with_other_settings_has_connections_of_its_own() -> None:
    with Loopback(Answer(503), Answer(503, {}, {"retry-after-ms": "1"}), Answer(body=b"{}")) as server:
        model = at(server)
        with pytest.raises(errors.ServerError):
            model.embed_query("a")
        with pytest.raises(errors.InvalidResponseError):  # tried again, and then answered without a vector
            model.model_copy(update={"max_retries": 1}).embed_query("a")
        assert len(server.requests) == 3
        model.close()


def test_a_key_may_be_a_function_and_is_never_shown() -> None:
    with Loopback(lengths) as server:
        model = OpenAIEmbeddings(api_key=lambda: KEY, base_url=server.url, default_headers={"x-team": "secret-team"})
        model.embed_query("a")
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].headers["x-team"] == "secret-team"
    plain = OpenAIEmbeddings(api_key=KEY, base_url="http://localhost:1/v1")
    for shown in (repr(plain), str(plain.model_dump()), repr(model)):
        assert KEY not in shown
        assert "secret-team" not in shown


# -- Gemini ---------------------------------------------------------------------------------------------------------


@pytest.mark.shows("google", "embeddings")
@WORLDS
def test_gemini(world: str) -> None:
    batch = {"embeddings": [{"values": [1, 0]}, {"values": [0, 1]}]}
    with Loopback(Answer(body=batch), Answer(body={"embedding": {"values": [0.5, 0.5]}})) as server:
        address = server.url.removesuffix("/v1")  # the version is found, as for chat models
        known_elsewhere: Any = {"google_api_key": KEY, "output_dimensionality": 2}
        model = GoogleGenerativeAIEmbeddings(base_url=address, **known_elsewhere)
        assert documents(model, ["a", "b"], world) == [[1.0, 0.0], [0.0, 1.0]]
        assert query(model, "c", world) == [0.5, 0.5]
        model.close()
    first, second = server.requests
    assert first.path == "/v1beta/models/gemini-embedding-001:batchEmbedContents"
    assert second.path == "/v1beta/models/gemini-embedding-001:embedContent"
    assert first.headers["x-goog-api-key"] == KEY
    assert first.json["requests"][1] == {
        "model": "models/gemini-embedding-001",
        "content": {"parts": [{"text": "b"}]},
        "taskType": "RETRIEVAL_DOCUMENT",
        "outputDimensionality": 2,
    }
    assert second.json["taskType"] == "RETRIEVAL_QUERY"


def test_geminis_errors_hide_the_key() -> None:
    refusal = {"error": {"code": 400, "message": f"API key {KEY} not valid", "status": "INVALID_ARGUMENT"}}
    with Loopback(Answer(400, refusal)) as server, pytest.raises(errors.BadRequestError, match="not valid") as caught:
        GoogleGenerativeAIEmbeddings(api_key=KEY, base_url=server.url).embed_query("a")
    assert KEY not in str(caught.value)


# -- in the process -------------------------------------------------------------------------------------------------


@pytest.fixture
def local() -> LocalEmbeddings:
    try:
        return LocalEmbeddings()
    except errors.MissingExtraError as error:
        pytest.skip(str(error))


@pytest.mark.shows("local", "embeddings")
@pytest.mark.local
@WORLDS
def test_local_vectors_tell_near_from_far(local: LocalEmbeddings, world: str) -> None:
    cat, kitten, market = documents(
        local, ["a cat sat on the mat", "a kitten on a rug", "the stock market fell"], world
    )
    assert math.isclose(math.hypot(*cat), 1.0, rel_tol=1e-5)
    assert sum(a * b for a, b in zip(cat, kitten, strict=True)) > sum(a * b for a, b in zip(cat, market, strict=True))
    assert query(local, "a cat sat on the mat", world) == pytest.approx(cat, abs=1e-4)
    assert documents(local, [], world) == []


@pytest.mark.local
def test_local_errors_have_the_mend(local: LocalEmbeddings) -> None:
    with pytest.raises(errors.BadRequestError, match="n_ctx= more than 2048"):
        local.embed_query("word " * 3000)
    from loopwright.models.local.engine import find_model

    with pytest.raises(errors.BadRequestError, match='pooling="mean"'):
        LocalEmbeddings(model=find_model("")).embed_query("a")


# -- by name, and of one's own --------------------------------------------------------------------------------------


def test_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "DASHSCOPE_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    found: Any = [
        init_embeddings(name)
        for name in (
            "openai:text-embedding-3-large",
            "text-embedding-3-small",
            "qwen:text-embedding-v4",
            "mistral-embed",
        )
    ]
    assert [(one.provider, one.model, one.chunk_size) for one in found] == [
        ("openai", "text-embedding-3-large", 256),
        ("openai", "text-embedding-3-small", 256),
        ("qwen", "text-embedding-v4", 10),
        ("mistral", "mistral-embed", 256),
    ]
    assert isinstance(init_embeddings("google_genai:gemini-embedding-001"), GoogleGenerativeAIEmbeddings)
    ollama: Any = init_embeddings("nomic-embed-text:latest", provider="ollama")
    assert (ollama.base_url, ollama.model) == ("http://localhost:11434/v1", "nomic-embed-text:latest")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: init_embeddings(""), 'init_embeddings\\("openai:text-embedding-3-small"\\)'),
        (lambda: init_embeddings("minilm"), "write provider:model"),
        (lambda: init_embeddings("openai:"), "names no model"),
        (lambda: init_embeddings("opnai:x"), "Did you mean 'openai'"),
        (lambda: init_embeddings("openai:x", dimension=3, api_key="k"), "Did you mean dimensions"),
        (lambda: init_embeddings("anthropic:x"), "anthropic has no embeddings; take another provider's"),
        (lambda: init_embeddings("openai:x"), "set OPENAI_API_KEY"),
        (lambda: init_embeddings("google:x"), "set GOOGLE_API_KEY or GEMINI_API_KEY"),
        (lambda: OpenAIEmbeddings(api_key="k").embed_documents("text"), "embed_query\\(text\\)"),  # type: ignore
        (lambda: OpenAIEmbeddings(api_key="k").embed_documents(["a", 1]), "texts\\[1\\] must be a str"),  # type: ignore
        (lambda: OpenAIEmbeddings(api_key="k").embed_query(["a"]), "embed_documents\\(texts\\)"),  # type: ignore
        (lambda: init_embeddings("local:/nowhere.gguf"), "cannot be read|xllamacpp"),
    ],
)
def test_mistakes_are_told_with_the_mend(call: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(errors.UsageError, match=words):
        call()


@WORLDS
def test_a_class_of_ones_own_needs_two_methods(world: str) -> None:
    class Lengths(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [self.embed_query(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return [float(len(text))]

    assert documents(Lengths(), ["a", "bb"], world) == [[1.0], [2.0]]
    assert query(Lengths(), "ccc", world) == [3.0]
