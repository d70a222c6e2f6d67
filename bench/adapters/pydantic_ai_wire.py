"""Pydantic AI's Agent on each of its providers."""

from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider

PACKAGES = ["pydantic-ai-slim", "openai", "anthropic", "google-genai"]
MODES = STREAMS = set()
STORES = []


def wire(address):
    openai = OpenAIProvider(api_key="k", base_url=f"{address}/v1")
    models = {
        "openai-chat": OpenAIChatModel("m", provider=openai),
        "openai-responses": OpenAIResponsesModel("m", provider=openai),
        "anthropic": AnthropicModel("m", provider=AnthropicProvider(api_key="k", base_url=address)),
        "google": GoogleModel("m", provider=GoogleProvider(api_key="k", base_url=address)),
    }
    for format, model in models.items():
        for label, read in _readers(model):
            yield f"{format} {label}", read


def _readers(model):
    agent = Agent(model)
    deltas = {"delta": True, "debounce_by": None}

    def read():
        return sum(1 for _ in agent.run_stream_sync("x").stream_text(**deltas))

    async def aread():
        async with agent.run_stream("x") as result:
            return len([chunk async for chunk in result.stream_text(**deltas)])

    yield "agent sync", read
    yield "agent async", aread
