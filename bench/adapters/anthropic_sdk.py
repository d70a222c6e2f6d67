"""The official Anthropic client on its own, without any agent."""

PACKAGES = ["anthropic"]
MODES = STREAMS = set()
STORES = []


def wire(address):
    from anthropic import Anthropic, AsyncAnthropic

    client = Anthropic(api_key="k", base_url=address)
    aclient = AsyncAnthropic(api_key="k", base_url=address)
    request = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "x"}], "stream": True}

    def read():
        return sum(1 for _ in client.messages.create(**request))

    async def aread():
        return len([event async for event in await aclient.messages.create(**request)])

    yield "anthropic model sync", read
    yield "anthropic model async", aread
