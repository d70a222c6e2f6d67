"""The official OpenAI client on its own, without any agent."""

PACKAGES = ["openai"]
MODES = STREAMS = set()
STORES = []


def wire(base_url):
    from openai import AsyncOpenAI, OpenAI

    client = OpenAI(api_key="k", base_url=base_url)
    aclient = AsyncOpenAI(api_key="k", base_url=base_url)
    request = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}

    def read():
        return sum(1 for _ in client.chat.completions.create(**request))

    async def aread():
        return len([chunk async for chunk in await aclient.chat.completions.create(**request)])

    yield "model sync", read
    yield "model async", aread
