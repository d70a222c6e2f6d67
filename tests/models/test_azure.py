"""`AzureChatOpenAI`: addresses, deployments, keys and tokens, and the recorded exchanges at these addresses."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from loopwright import errors
from loopwright.messages import HumanMessage, SystemMessage
from loopwright.models.openai_chat import AzureChatOpenAI
from tests.models.loopback import Answer, Loopback, chat_answer
from tests.models.recorded import FOLDER
from tests.models.test_openai_chat_recordings import RECORDS as CHAT
from tests.models.test_openai_responses_recordings import RECORDS as RESPONSES

made: Any = AzureChatOpenAI
"""For spellings that the class does not declare."""
KEY = "azure-test-key"
HOST = "https://mine.openai.azure.com"
AZURE = {name: record for name, record in {**CHAT, **RESPONSES}.items() if record["provider"] == "azure"}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_AD_TOKEN", "OPENAI_API_VERSION"):
        monkeypatch.delenv(name, raising=False)


def request(streamed: bool = False, **fields: Any) -> Any:
    fields = {"azure_endpoint": HOST, "azure_deployment": "mine", "api_key": KEY, **fields}
    return AzureChatOpenAI(**fields)._request([HumanMessage("hi")], None, {}, streamed=streamed)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({}, "/openai/v1/chat/completions"),
        ({"use_responses_api": True}, "/openai/v1/responses"),
        ({"api_version": "v1"}, "/openai/v1/chat/completions"),
        ({"api_version": "preview"}, "/openai/v1/chat/completions?api-version=preview"),
        ({"api_version": "2024-10-21"}, "/openai/deployments/mine/chat/completions?api-version=2024-10-21"),
        ({"openai_api_version": "2024-10-21"}, "/openai/deployments/mine/chat/completions?api-version=2024-10-21"),
        (
            {"api_version": "2025-03-01-preview", "use_responses_api": True},
            "/openai/responses?api-version=2025-03-01-preview",
        ),
        ({"reasoning": {"effort": "low"}}, "/openai/v1/responses"),
        ({"azure_endpoint": f"{HOST}/openai/v1/"}, "/openai/v1/chat/completions"),
        (
            {"base_url": f"{HOST}/openai/deployments/other", "api_version": "2024-10-21"},
            "/openai/deployments/other/chat/completions?api-version=2024-10-21",
        ),
    ],
)
def test_addresses(fields: dict[str, Any], path: str):
    assert request(**fields).url == HOST + path


@pytest.mark.shows("azure", "profile")
def test_the_deployment_is_the_model_that_is_sent():
    assert b'"model":"mine"' in request(model="gpt-4o").body
    assert b'"model":"gpt-4o"' in request(model="gpt-4o", azure_deployment=None).body
    assert b'"model":"mine"' in request(use_responses_api=True, model="gpt-4o").body
    spelt = made(deployment_name="mine", azure_endpoint=HOST, api_key=KEY)
    assert (spelt.azure_deployment, spelt.model) == ("mine", "mine")
    model = AzureChatOpenAI(model="gpt-4o", azure_deployment="mine", azure_endpoint=HOST, api_key=KEY)
    assert model.profile is not None
    assert (model.model_name, model.profile["max_input_tokens"]) == ("gpt-4o", 128_000)


def test_early_versions_are_not_asked_for_counts_in_streams():
    assert b"stream_options" in request(streamed=True, api_version="2024-10-21").body
    assert b"stream_options" not in request(streamed=True, api_version="2024-02-01").body


def test_a_key_or_a_token():
    assert request().headers["api-key"] == KEY
    token = request(azure_ad_token="a-token").headers
    assert (token["authorization"], "api-key" in token) == ("Bearer a-token", False)
    given = iter(["one", "two"])
    model = AzureChatOpenAI(azure_endpoint=HOST, azure_deployment="mine", azure_ad_token_provider=lambda: next(given))
    sent = [model._request([HumanMessage("hi")], None, {}, streamed=False) for _ in range(2)]
    assert [one.headers["authorization"] for one in sent] == ["Bearer one", "Bearer two"]
    assert "azure_ad_token_provider=" in sent[0].peer.key_hint
    assert "a-token" not in repr(AzureChatOpenAI(azure_endpoint=HOST, model="m", azure_ad_token="a-token"))


def test_a_token_that_is_none():
    async def token() -> str:
        return "a-token"

    waiting = token()
    with pytest.raises(errors.UsageError, match="gave coroutine: it is a plain function"):
        request(azure_ad_token_provider=lambda: waiting)
    waiting.close()


def test_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", HOST)
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "a-token")
    sent = AzureChatOpenAI(azure_deployment="mine")._request([HumanMessage("hi")], None, {}, streamed=False)
    assert sent.url == f"{HOST}/openai/deployments/mine/chat/completions?api-version=2024-10-21"
    assert sent.headers["authorization"] == "Bearer a-token"
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    sent = AzureChatOpenAI(azure_deployment="mine")._request([HumanMessage("hi")], None, {}, streamed=False)
    assert sent.headers["api-key"] == KEY


def test_what_is_missing_is_said():
    with pytest.raises(errors.UsageError, match="AZURE_OPENAI_ENDPOINT"):
        AzureChatOpenAI(azure_deployment="mine", api_key=KEY)
    with pytest.raises(errors.UsageError, match="needs a deployment"):
        AzureChatOpenAI(azure_endpoint=HOST, api_key=KEY)
    with pytest.raises(errors.UsageError, match="no key for azure: set AZURE_OPENAI_API_KEY"):
        AzureChatOpenAI(azure_endpoint=HOST, azure_deployment="mine")
    with pytest.raises(errors.UsageError, match=r"no field 'azure_endpont'\. Did you mean azure_endpoint"):
        made(azure_endpont=HOST, model="m", api_key=KEY)


def test_a_copy_keeps_address_and_token():
    model = AzureChatOpenAI(azure_endpoint=HOST, azure_deployment="mine", azure_ad_token="a-token")
    copied = model.model_copy(update={"temperature": 0.5})._request([HumanMessage("hi")], None, {}, streamed=False)
    assert copied.headers["authorization"] == "Bearer a-token"


def test_through_a_socket():
    with Loopback(Answer(body=chat_answer("hello"))) as server:
        model = AzureChatOpenAI(
            azure_endpoint=f"http://127.0.0.1:{server.port}",
            azure_deployment="mine",
            api_version="2024-10-21",
            api_key=KEY,
        )
        answer = model.invoke("hi")
        model.close()
    assert (answer.text, answer.response_metadata["provider"]) == ("hello", "azure")
    [got] = server.requests
    assert (got.path, got.headers["api-key"]) == (
        "/openai/deployments/mine/chat/completions?api-version=2024-10-21",
        KEY,
    )


@pytest.mark.shows("azure", "usage details")
def test_what_was_cached_and_thought_is_counted():
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}}
    usage["completion_tokens_details"] = {"reasoning_tokens": 3}
    with Loopback(Answer(body={**chat_answer("hello"), "usage": usage})) as server:
        model = AzureChatOpenAI(azure_endpoint=f"http://127.0.0.1:{server.port}", azure_deployment="mine", api_key=KEY)
        counted = model.invoke("hi").usage_metadata
        model.close()
    assert counted is not None
    assert counted.get("input_token_details") == {"cache_read": 5}
    assert counted.get("output_token_details") == {"reasoning": 3}


@pytest.mark.shows("azure", "requests rebuilt")
@pytest.mark.skipif(not AZURE, reason=f"the recorded exchanges are not there: {FOLDER}")
@pytest.mark.parametrize("name", AZURE)
def test_recorded_requests(name: str):
    """Address, parameters and body."""
    record = AZURE[name]["request"]
    body = record["body"]
    version = (record["query"] or "").removeprefix("api-version=")
    own = {key: body[key] for key in ("include", "reasoning") if key in body}
    model = AzureChatOpenAI(
        azure_endpoint=f"https://{record['host']}",
        azure_deployment=body["model"],
        api_key=KEY,
        api_version=version or None,
        **own,
    )
    roles = {"user": HumanMessage, "system": SystemMessage}
    messages = [roles[one["role"]](one["content"]) for one in body.get("messages") or body["input"]]
    sent = model._request(messages, None, {}, streamed=bool(body.get("stream")))
    query = f"?{urlencode({'api-version': version})}" if version else ""
    assert sent.url == f"https://{record['host']}{record['path']}{query}"
    assert json.loads(sent.body) == {key: value for key, value in body.items() if value is not False}
