"""Every recorded exchange that LangChain's OpenAI and Anthropic classes can make arrives as the oracle says.

The real classes ask a real server on this machine; plain and streamed, blocking and on a loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from loopwright import errors
from loopwright.messages import AIMessage, merge_chunks, message_chunk_to_message
from loopwright.messages.langchain import to_langchain
from loopwright.models.langchain import ChatLangChain, as_ours
from tests.models.loopback import Answer, Loopback, Request
from tests.models.recorded import answer_to, is_there, records_where

APIS = ("openai-chat", "openai-responses", "anthropic-messages")
LEFT_OUT = {"retrieve", "invalid-response", "unfinished", "error-in-200", "many-choices", "legacy-function-call"}
"""What these classes do not ask for, or do not read."""
RECORDS = records_where(
    lambda record: (
        record["api"] in APIS and record["provider"] in ("openai", "anthropic") and not LEFT_OUT & set(record["tags"])
    )
)

pytestmark = [
    is_there(RECORDS),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # theirs, of shapes that they do not know
]


def serve(request: Request) -> Answer:
    """The record whose id is the question."""
    asked = re.search(r"record: ([\w-]+)", request.body.decode())
    assert asked is not None
    return answer_to(RECORDS[asked[1]])


@contextlib.contextmanager
def models_at(server: Loopback) -> Iterator[dict[str, Any]]:
    """The real classes, one for each format. Their blocking connections are closed at the end."""
    from langchain_anthropic import ChatAnthropic
    from langchain_openai import ChatOpenAI

    openai: Any = {"model": "gpt-4.1", "api_key": "sk-unused-1234", "base_url": server.url, "max_retries": 0}
    claude: Any = {**openai, "model": "claude-of-today", "base_url": server.url.removesuffix("/v1")}
    models: dict[str, Any] = {
        "openai-chat": ChatOpenAI(**openai, stream_usage=True),
        "openai-responses": ChatOpenAI(**openai, use_responses_api=True),
        "anthropic-messages": ChatAnthropic(**claude),
    }
    yield models
    for model in models.values():
        (model.root_client if isinstance(model, ChatOpenAI) else model._client).close()


# -- the proof ------------------------------------------------------------------------------------------------------


def difference(record: dict[str, Any], outcome: Any) -> Any:
    """(wanted, got) where an answer is not what the oracle says; None where it is."""
    oracle = record["oracle"]
    if oracle["error"] is not None or not isinstance(outcome, AIMessage):
        status = (oracle["error"] or {}).get("status")
        return None if isinstance(outcome, errors.ModelError) and outcome.status_code == status else (status, outcome)
    blocks: list[Any] = list(outcome.content_blocks)
    usage: Any = outcome.usage_metadata
    got = {
        "text": outcome.text,
        "reasoning": unbroken("".join(block.get("reasoning", "") for block in blocks if block["type"] == "reasoning")),
        "tool_calls": [(call["name"], call["args"]) for call in outcome.tool_calls],
        "finish_reason": outcome.response_metadata.get("raw_finish_reason"),
        "tokens": usage and (usage["input_tokens"], usage["output_tokens"]),
        "cache_read": usage and (usage.get("input_token_details", {}).get("cache_read") or 0),
    }
    counted = oracle["usage"]
    want = {
        "text": oracle["text"],
        "reasoning": unbroken(oracle["reasoning"]),
        "tool_calls": [(call["name"], call["args"]) for call in oracle["tool_calls"]],
        "finish_reason": oracle["finish_reason"] or None,
        "tokens": counted and (counted["input_tokens"], counted["output_tokens"]),
        "cache_read": counted and (counted["cache_read"] or 0),
    }
    if record["api"] == "anthropic-messages" and usage and usage["input_tokens"] == 0:
        # ChatAnthropic leaves out what a stream's beginning counts, where its end does not say it again.
        want["tokens"], want["cache_read"] = (0, counted["output_tokens"]), 0
    wrong = {name: (want[name], got[name]) for name in want if want[name] != got[name]}
    kept = {hashlib.sha256(text.encode()).hexdigest()[:16] for text in strings(outcome.content)}
    lost = set(oracle.get("signatures", [])) - kept
    return (wrong, lost) if wrong or lost else None


def unbroken(text: str) -> str:
    """Parts of a summary are paragraphs here, and nothing is between them in the oracle."""
    return text.replace("\n\n", "")


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def whole(chunks: list[Any]) -> AIMessage:
    message = message_chunk_to_message(merge_chunks(chunks))
    assert isinstance(message, AIMessage)
    return message


def ask(model: ChatLangChain, record: dict[str, Any]) -> AIMessage:
    question = f"record: {record['id']}"
    return whole(list(model.stream(question))) if "stream" in record["tags"] else model.invoke(question)


async def aask(model: ChatLangChain, record: dict[str, Any]) -> AIMessage:
    question = f"record: {record['id']}"
    if "stream" not in record["tags"]:
        return await model.ainvoke(question)
    return whole([chunk async for chunk in model.astream(question)])


def check_all(outcomes: dict[str, Any]) -> None:
    wrong = {name: found for name, outcome in outcomes.items() if (found := difference(RECORDS[name], outcome))}
    assert wrong == {}
    assert len(outcomes) == len(RECORDS)


@pytest.mark.shows("langchain", "recordings parsed")
def test_blocking() -> None:
    outcomes: dict[str, Any] = {}
    with Loopback(serve) as server, models_at(server) as theirs:
        models = {api: ChatLangChain(runnable=model) for api, model in theirs.items()}
        for name, record in RECORDS.items():
            try:
                outcomes[name] = ask(models[record["api"]], record)
            except errors.ModelError as error:
                outcomes[name] = error
    check_all(outcomes)


@pytest.mark.shows("langchain", "recordings parsed")
def test_on_a_loop() -> None:
    async def all_at_once(theirs: dict[str, Any]) -> list[Any]:
        models = {api: ChatLangChain(runnable=model) for api, model in theirs.items()}
        asked = (aask(models[record["api"]], record) for record in RECORDS.values())
        try:
            return await asyncio.gather(*asked, return_exceptions=True)
        finally:
            for model in theirs.values():
                await (model._async_client if hasattr(model, "_async_client") else model.root_async_client).close()

    with Loopback(serve) as server, models_at(server) as theirs:
        outcomes = asyncio.run(all_at_once(theirs))
    check_all(dict(zip(RECORDS, outcomes, strict=True)))


def test_back_as_it_came() -> None:
    """What a LangChain model said is said to it again with nothing lost: ids, blocks, signatures, metadata, usage."""
    with Loopback(serve) as server, models_at(server) as models:
        asked = [record for record in RECORDS.values() if not {"stream", "error"} & set(record["tags"])]
        theirs = [models[record["api"]].invoke(f"record: {record['id']}") for record in asked]
    assert len(theirs) > 200
    assert [to_langchain([as_ours(message)])[0] for message in theirs] == theirs
