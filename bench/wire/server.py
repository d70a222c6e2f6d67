"""A server on loopback that answers every chat completion with the same stream of N word chunks.

python server.py N  prints its port and serves until its standard input closes.
"""

import asyncio
import json
import sys

N = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
PIECE = 1400  # bytes written at once: about what a packet of a real network carries


def event(delta, finish=None, usage=None, choices=True):
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    body |= {"system_fingerprint": "fp_1", "choices": [choice] if choices else [], "usage": usage}
    return f"data: {json.dumps(body)}\n\n"


def answer():
    usage = {"prompt_tokens": 10, "completion_tokens": N, "total_tokens": N + 10}
    yield event({"role": "assistant", "content": ""})
    for i in range(N):
        yield event({"content": f"word{i % 10} "})
    yield event({}, "stop")
    yield event({}, usage=usage, choices=False)
    yield "data: [DONE]\n\n"


BODY = "".join(answer()).encode()
HEAD = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(BODY)}\r\n\r\n".encode()


async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = [line.partition(b":") for line in head.lower().split(b"\r\n")]
            length = [int(value) for name, _, value in lines if name == b"content-length"]
            await reader.readexactly(length[0] if length else 0)
            writer.write(HEAD)
            for at in range(0, len(BODY), PIECE):
                writer.write(BODY[at : at + PIECE])
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
