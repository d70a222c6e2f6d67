"""LangChain's providers, each alone and under its create_agent."""

from functools import partial

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI

PACKAGES = ["langchain-openai", "langchain-anthropic", "langchain-google-genai", "openai", "anthropic", "google-genai"]
MODES = STREAMS = set()
STORES = []


def wire(address):
    openai = partial(ChatOpenAI, model="m", api_key="k", base_url=f"{address}/v1")
    models = {
        "openai-chat": openai(),
        "openai-responses": openai(use_responses_api=True),
        "anthropic": ChatAnthropic(model="m", api_key="k", base_url=address),
        "google": ChatGoogleGenerativeAI(model="m", api_key="k", base_url=address),
    }
    for format, model in models.items():
        for label, read in _readers(model):
            yield f"{format} {label}", read


def _readers(model):
    agent = create_agent(model, tools=[])
    tokens = {"input": {"messages": "x"}, "stream_mode": "messages"}

    def read_model():
        return sum(1 for _ in model.stream("x"))

    async def aread_model():
        return len([chunk async for chunk in model.astream("x")])

    def read():
        return sum(1 for _ in agent.stream(**tokens))

    async def aread():
        return len([chunk async for chunk in agent.astream(**tokens)])

    yield "model sync", read_model
    yield "model async", aread_model
    yield "agent sync", read
    yield "agent async", aread
