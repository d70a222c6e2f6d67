"""Our models against a real server with a real small model, in each format that it speaks.

What is asserted is the protocol: what a model of this size says is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from loopwright.agents import Limits, create_agent
from loopwright.errors import ModelConnectionError, ModelError
from loopwright.messages import AIMessage, HumanMessage, ToolMessage, merge_chunks
from loopwright.models.anthropic import ChatAnthropic
from loopwright.models.openai_chat import ChatOpenAI
from loopwright.tools import tool

pytestmark = [pytest.mark.local, pytest.mark.timeout(120)]

Make = Callable[..., Any]
"""From an address and fields to a model."""


def openai_chat(url: str, **fields: Any) -> Any:
    return ChatOpenAI(model="small", base_url=f"{url}/v1", api_key="none", temperature=0, **fields)


def openai_responses(url: str, **fields: Any) -> Any:
    return openai_chat(url, use_responses_api=True, **fields)


def anthropic(url: str, **fields: Any) -> Any:
    return ChatAnthropic(model="small", base_url=url, api_key="none", temperature=0, **fields)


FORMATS = [
    pytest.param(openai_chat, id="openai-chat"),
    pytest.param(openai_responses, id="openai-responses"),
    pytest.param(anthropic, id="anthropic"),
]


@pytest.fixture(params=FORMATS)
def make(request: pytest.FixtureRequest) -> Make:
    return request.param


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


class City(BaseModel):
    """A city. Small on purpose: a model that is held to it must come to an end."""

    name: Literal["Oslo", "Rome"]
    is_capital: bool


def test_an_answer(server: Any, make: Make):
    answer = make(server.url, max_tokens=8).invoke("What is the capital of France?")
    assert answer.text
    assert answer.response_metadata["finish_reason"] in ("length", "stop")
    assert answer.usage_metadata["input_tokens"] > 5
    assert 0 < answer.usage_metadata["output_tokens"] <= 8


@pytest.mark.shows("openai-chat", "openai-responses", "anthropic", "openai-compatible", "real server")
def test_pieces_add_up_to_the_answer(server: Any, make: Make):
    model = make(server.url, max_tokens=8)
    chunks = list(model.stream("What is the capital of France?"))
    assert len([chunk for chunk in chunks if chunk.text]) > 2
    summed: Any = merge_chunks(chunks)
    assert summed.text == model.invoke("What is the capital of France?").text
    assert summed.usage_metadata["output_tokens"] <= 8
    assert chunks[-1].chunk_position == "last"


async def test_several_ask_at_the_same_time(server: Any, make: Make):
    model = make(server.url, max_tokens=4)
    answers = await asyncio.gather(*(model.ainvoke(f"Say {word}.") for word in ("one", "two", "three")))
    assert all(answer.text for answer in answers)


def test_an_answer_holds_to_a_schema(server: Any):
    """In this format: the server does not read schemas in the others."""
    model = openai_chat(server.url, max_tokens=60).with_structured_output(City, method="json_schema")
    assert isinstance(model.invoke("Oslo is the capital of Norway."), City)


@pytest.mark.shows("openai-chat", "openai-responses", "anthropic", "openai-compatible", "real server")
def test_an_agent_with_a_tool(server: Any, make: Make):
    """Whatever the model makes of it: the history is valid, and it ends."""
    model = make(server.url, max_tokens=40)
    agent = create_agent(model, [weather], limits=Limits(model_calls=2))
    result: Any = agent.invoke({"messages": "What is the weather in Oslo?"})
    assert result.stop_reason
    assert result.usage["input_tokens"] > 0


def test_a_result_goes_back(server: Any, make: Make):
    call = {"name": "weather", "args": {"city": "Oslo"}, "id": "call_1"}
    history = [
        HumanMessage("What is the weather in Oslo?"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("sunny in Oslo", tool_call_id="call_1", name="weather"),
    ]
    assert make(server.url, max_tokens=8).bind_tools([weather]).invoke(history).usage_metadata["input_tokens"] > 20


def test_whoever_leaves_in_the_middle_leaves_a_sound_server(server: Any, make: Make):
    model = make(server.url, max_tokens=200)
    for chunk in model.stream("Tell me a long story."):
        if chunk.text:
            break
    assert make(server.url, max_tokens=4).invoke("Say yes.").text


async def test_a_cancelled_call_hangs_up(server: Any, make: Make):
    model = make(server.url, max_tokens=400)
    begun = asyncio.Event()

    async def read() -> None:
        async for chunk in model.astream("Tell me a long story."):
            if chunk.text:
                begun.set()

    task = asyncio.create_task(read())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await make(server.url, max_tokens=4).ainvoke("Say yes.")).text


def test_a_server_that_is_killed_in_the_middle(mortal: Any, make: Make):
    model = make(mortal.url, max_tokens=400, max_retries=0)
    read: list[str] = []
    with pytest.raises(ModelConnectionError):
        for chunk in model.stream("Tell me a long story."):
            read.append(chunk.text)
            if len(read) == 3:
                mortal.kill()
    with pytest.raises(ModelConnectionError):
        model.invoke("Are you there?")


def test_what_the_server_refuses_is_told_in_its_words(server: Any, make: Make):
    with pytest.raises(ModelError, match=r"token|context|exceed"):
        make(server.url, max_retries=0).invoke("word " * 4000)
