"""The OpenAI Agents SDK."""

import asyncio
import os

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage, function_tool
from fake import INPUT_TOKENS, OUTPUT_TOKENS, SYSTEM_PROMPT, Script
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseContentPartAddedEvent,
    ResponseContentPartDoneEvent,
    ResponseCreatedEvent,
    ResponseFunctionToolCall,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)
from openai.types.responses.response_usage import ResponseUsage

PACKAGES = ["openai-agents", "openai", "pydantic"]
MODES = {"sync", "async"}
STREAMS = {"async"}
STORES = ["memory", "sqlite"]
SHARED_AGENT = True

_TOTAL = INPUT_TOKENS + OUTPUT_TOKENS


def _last_text(items):
    if isinstance(items, str):
        return items, 1
    last = items[-1]
    return last.get("output") or last["content"], len(items)


def _message(text, status="completed"):
    content = [ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])] if text else []
    return ResponseOutputMessage(id="msg", type="message", role="assistant", status=status, content=content)


def _response(output, usage=None):
    return Response(
        id="resp",
        created_at=0,
        model="fake",
        object="response",
        output=output,
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
        usage=usage,
    )


class FakeModel(Model):
    def __init__(self, script: Script):
        self.script = script

    async def get_response(self, system_instructions, input, *args, **kwargs):
        await self.script.wait()
        reply = self.script.reply(*_last_text(input))
        output = [
            ResponseFunctionToolCall(call_id=c.id, name=c.name, arguments=c.arguments, type="function_call")
            for c in reply.tool_calls
        ]
        return ModelResponse(
            output=output or [_message(reply.text)],
            usage=Usage(requests=1, input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS, total_tokens=_TOTAL),
            response_id=None,
        )

    async def stream_response(self, system_instructions, input, *args, **kwargs):
        reply = self.script.reply(*_last_text(input))
        assert not reply.tool_calls
        number = 0
        place = {"item_id": "msg", "output_index": 0, "content_index": 0}
        yield ResponseCreatedEvent(response=_response([]), type="response.created", sequence_number=number)
        yield ResponseOutputItemAddedEvent(
            item=_message("", "in_progress"), output_index=0, type="response.output_item.added", sequence_number=1
        )
        empty = ResponseOutputText(text="", type="output_text", annotations=[], logprobs=[])
        yield ResponseContentPartAddedEvent(**place, part=empty, type="response.content_part.added", sequence_number=2)
        for number, word in enumerate(self.script.chunks, 3):
            yield ResponseTextDeltaEvent(
                **place, delta=word, logprobs=[], type="response.output_text.delta", sequence_number=number
            )
        done = _message(reply.text)
        yield ResponseContentPartDoneEvent(
            **place, part=done.content[0], type="response.content_part.done", sequence_number=number + 1
        )
        yield ResponseOutputItemDoneEvent(
            item=done, output_index=0, type="response.output_item.done", sequence_number=number + 2
        )
        usage = ResponseUsage.model_construct(
            input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS, total_tokens=_TOTAL
        )
        yield ResponseCompletedEvent(
            response=_response([done], usage), type="response.completed", sequence_number=number + 3
        )


def prepare_tools(functions):
    return [function_tool(function) for function in functions]


def raw_tools(functions):
    return prepare_tools(functions)


def build(script, tools):
    return Agent(name="agent", instructions=SYSTEM_PROMPT, model=FakeModel(script), tools=tools)


def run(agent, text):
    return Runner.run_sync(agent, text, max_turns=None).final_output


async def arun(agent, text):
    return (await Runner.run(agent, text, max_turns=None)).final_output


async def astream(agent, text):
    result = Runner.run_streamed(agent, text, max_turns=None)
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            yield event.data.delta


def wire(address):
    from agents import OpenAIChatCompletionsModel
    from openai import AsyncOpenAI

    model = OpenAIChatCompletionsModel("m", AsyncOpenAI(api_key="k", base_url=f"{address}/v1"))
    agent = Agent(name="agent", model=model)

    async def aread():
        return len([chunk async for chunk in astream(agent, "x")])

    yield "openai-chat agent async", aread


class Thread:
    def __init__(self, kind, path, script, tools):
        self.agent = build(script, tools)
        self.kind = kind
        self.session = SQLiteSession("t", ":memory:" if kind == "memory" else path)

    def turn(self, text):
        return Runner.run_sync(self.agent, text, max_turns=None, session=self.session).final_output

    def messages(self):
        return asyncio.run(self.session.get_items())

    def stored_bytes(self):
        db = self.session._shared_connection
        (pages,), (size,) = db.execute("PRAGMA page_count").fetchone(), db.execute("PRAGMA page_size").fetchone()
        return pages * size

    def close(self):
        self.session.close()
