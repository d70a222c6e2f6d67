"""The official Gemini client on its own, without any agent."""

PACKAGES = ["google-genai"]
MODES = STREAMS = set()
STORES = []


def wire(address):
    from google.genai import Client

    client = Client(api_key="k", http_options={"base_url": address})
    request = {"model": "m", "contents": "x"}

    def read():
        return sum(1 for _ in client.models.generate_content_stream(**request))

    async def aread():
        return len([chunk async for chunk in await client.aio.models.generate_content_stream(**request)])

    yield "google model sync", read
    yield "google model async", aread
