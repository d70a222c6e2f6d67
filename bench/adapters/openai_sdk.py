"""The official OpenAI client on its own, without any agent."""

PACKAGES = ["openai"]
MODES = STREAMS = set()
STORES = []


def wire(address):
    from openai import AsyncOpenAI, OpenAI

    client = OpenAI(api_key="k", base_url=f"{address}/v1")
    aclient = AsyncOpenAI(api_key="k", base_url=f"{address}/v1")
    chat = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
    responses = {"model": "m", "input": "x", "stream": True}

    def read_chat():
        return sum(1 for _ in client.chat.completions.create(**chat))

    async def aread_chat():
        return len([chunk async for chunk in await aclient.chat.completions.create(**chat)])

    def read_responses():
        return sum(1 for _ in client.responses.create(**responses))

    async def aread_responses():
        return len([event async for event in await aclient.responses.create(**responses)])

    yield "openai-chat model sync", read_chat
    yield "openai-chat model async", aread_chat
    yield "openai-responses model sync", read_responses
    yield "openai-responses model async", aread_responses
