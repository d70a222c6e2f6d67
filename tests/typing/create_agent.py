# pyright: strict
"""What a type checker knows about an agent's answer. Checked by pyright and mypy, never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from pydantic import BaseModel
from typing_extensions import TypedDict

from loopwright.agents import create_agent
from loopwright.agents.structured_output import ProviderStrategy, ToolStrategy
from loopwright.messages import BaseMessage


class Weather(BaseModel):
    city: str
    degrees: float


@dataclass
class Forecast:
    city: str


class Report(TypedDict):
    city: str


def get_weather(city: str) -> str:
    """The weather in a city."""
    return city


def test_schemas_of_every_kind() -> None:
    question = {"messages": [{"role": "user", "content": "What is the weather?"}]}
    model = create_agent("openai:gpt-4o-mini", [get_weather], response_format=Weather)
    assert_type(model.invoke(question)["structured_response"], Weather)
    data_class = create_agent("openai:gpt-4o-mini", [get_weather], response_format=Forecast)
    assert_type(data_class.invoke(question)["structured_response"], Forecast)
    typed_dict = create_agent("openai:gpt-4o-mini", response_format=Report)
    assert_type(typed_dict.invoke(question)["structured_response"], Report)
    json_schema = create_agent("openai:gpt-4o-mini", response_format={"type": "object"})
    assert_type(json_schema.invoke(question)["structured_response"], dict[str, Any])


def test_strategies() -> None:
    by_tool = create_agent("openai:gpt-4o-mini", response_format=ToolStrategy(Weather))
    assert_type(by_tool.invoke({"messages": "hi"})["structured_response"], Weather)
    by_provider = create_agent("openai:gpt-4o-mini", response_format=ProviderStrategy(Weather))
    assert_type(by_provider.invoke({"messages": "hi"})["structured_response"], Weather)


async def test_async() -> None:
    agent = create_agent("openai:gpt-4o-mini", response_format=Weather)
    assert_type((await agent.ainvoke({"messages": "hi"}))["structured_response"], Weather)


def test_the_rest_of_the_result() -> None:
    result = create_agent("openai:gpt-4o-mini", [get_weather]).invoke({"messages": "hi"})
    assert_type(result.text, str)
    last: BaseMessage = result["messages"][-1]
    assert_type(last.text, str)
