"""A server on loopback that answers with a stream of N word chunks, in the format that a request's path asks for.

python server.py N  prints its port and serves until its standard input closes.

Each event has the fields that the provider sends, in its order and spelling, with ids and names of the usual length.
"""

import asyncio
import json
import sys
from functools import partial

N = int(sys.argv[1])
WORDS = [f"word{i % 10} " for i in range(N)]
PROMPT = 10  # tokens
PIECE = 1400  # bytes written at once: about what a packet of a real network carries

compact = partial(json.dumps, separators=(",", ":"))


def data(body):
    return f"data: {compact(body)}\n\n"


def named(body):
    return f"event: {body['type']}\n{data(body)}"


def padding(word):
    """OpenAI fills up each chunk, so that its length does not tell the word's."""
    return "x" * (16 - len(word))


# --- OpenAI Chat Completions -------------------------------------------------


def openai_chat():
    def event(choices, usage=None, word=""):
        body = {
            "id": f"chatcmpl-{'0' * 29}",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "gpt-4o-2024-08-06",
            "service_tier": "default",
            "system_fingerprint": "fp_0000000000",
            "choices": choices,
            "usage": usage,
            "obfuscation": padding(word),
        }
        return data(body)

    def choice(delta, finish=None):
        return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]

    usage = {
        "prompt_tokens": PROMPT,
        "completion_tokens": N,
        "total_tokens": PROMPT + N,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }

    yield event(choice({"role": "assistant", "content": "", "refusal": None}))
    for word in WORDS:
        yield event(choice({"content": word}), word=word)
    yield event(choice({}, "stop"))
    yield event([], usage=usage)
    yield "data: [DONE]\n\n"


# --- OpenAI Responses --------------------------------------------------------


def openai_responses():
    number = -1

    def event(type, **fields):
        nonlocal number
        number += 1
        return named({"type": f"response.{type}", "sequence_number": number, **fields})

    part, text = {"type": "output_text", "annotations": [], "logprobs": []}, "".join(WORDS)
    message = {"id": f"msg_{'0' * 50}", "type": "message", "role": "assistant"}
    done = message | {"status": "completed", "content": [part | {"text": text}]}
    item = {"output_index": 0}
    inside = {"item_id": message["id"], **item, "content_index": 0}

    yield event("created", response=response("in_progress", []))
    yield event("in_progress", response=response("in_progress", []))
    yield event("output_item.added", **item, item=message | {"status": "in_progress", "content": []})
    yield event("content_part.added", **inside, part=part | {"text": ""})
    for word in WORDS:
        yield event("output_text.delta", **inside, delta=word, logprobs=[], obfuscation=padding(word))
    yield event("output_text.done", **inside, text=text, logprobs=[])
    yield event("content_part.done", **inside, part=part | {"text": text})
    yield event("output_item.done", **item, item=done)
    yield event("completed", response=response("completed", [done]))


def response(status, output):
    """The whole answer, which a stream shows at its beginning and at its end."""
    usage = {
        "input_tokens": PROMPT,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": N,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": PROMPT + N,
    }
    return {
        "id": f"resp_{'0' * 50}",
        "object": "response",
        "created_at": 1,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "model": "gpt-4.1-nano-2025-04-14",
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "prompt_cache_retention": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage if output else None,
        "user": None,
        "metadata": {},
    }


# --- Anthropic Messages ------------------------------------------------------


def anthropic():
    usage = {"input_tokens": PROMPT, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    lasting = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
    message = {
        "id": f"msg_{'0' * 24}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage | {"cache_creation": lasting, "output_tokens": 1, "service_tier": "standard"},
    }
    ending = {"stop_reason": "end_turn", "stop_sequence": None}

    yield named({"type": "message_start", "message": message})
    yield named({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    yield named({"type": "ping"})
    for word in WORDS:
        yield named({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}})
    yield named({"type": "content_block_stop", "index": 0})
    yield named({"type": "message_delta", "delta": ending, "usage": usage | {"output_tokens": N}})
    yield named({"type": "message_stop"})


# --- Gemini generateContent, streamed ----------------------------------------


def google():
    for number, word in enumerate(WORDS, 1):
        finish = {"finishReason": "STOP"} if number == N else {}
        usage = {
            "promptTokenCount": PROMPT,
            "candidatesTokenCount": number,
            "totalTokenCount": PROMPT + number,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": PROMPT}],
        }
        body = {
            "candidates": [{"content": {"parts": [{"text": word}], "role": "model"}, **finish, "index": 0}],
            "usageMetadata": usage,
            "modelVersion": "gemini-2.5-flash",
            "responseId": "0" * 23,
        }
        yield f"data: {json.dumps(body, separators=(',', ': '))}\r\n\r\n"


# --- the server --------------------------------------------------------------


def answer(events):
    body = "".join(events).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}\r\n\r\n"
    return [head.encode(), *(body[at : at + PIECE] for at in range(0, len(body), PIECE))]


# By how the path ends.
ANSWERS = {
    b"/chat/completions": answer(openai_chat()),
    b"/responses": answer(openai_responses()),
    b"/messages": answer(anthropic()),
    b":streamGenerateContent": answer(google()),
}
UNKNOWN = [b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"]


def answer_to(head):
    path = head.split()[1].partition(b"?")[0]
    return next((found for ending, found in ANSWERS.items() if path.endswith(ending)), UNKNOWN)


async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = [line.partition(b":") for line in head.lower().split(b"\r\n")]
            length = [int(value) for name, _, value in lines if name == b"content-length"]
            await reader.readexactly(length[0] if length else 0)
            for piece in answer_to(head):
                writer.write(piece)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
